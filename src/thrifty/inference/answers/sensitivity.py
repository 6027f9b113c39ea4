"""Which directions of the parameters the data decide: the active subspace of the log posterior (Constantine 2015).

    M = E[ g g' ],   g = gradient of log p(theta | x_o) with respect to theta in units of the prior's spread

over posterior draws. The eigenvectors of M are directions, the eigenvalues how strongly the posterior changes along
them. For a Gaussian posterior M is the inverse of its covariance, in those units: an eigenvalue of 1 is a direction
about which the data say nothing beyond the prior, 100 one that is known ten times better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, Displayed
from thrifty.errors import ConfigError, InferenceError
from thrifty.inference.transforms import BoxTransform
from thrifty.types import Array, find_discrete

STEP = 0.02  # of the posterior's spread, either way: rounding of single precision and curvature both below 1 %
SPREAD_DRAWS = 4_000  # of the prior


@dataclass(frozen=True, repr=False)
class Sensitivity(Displayed):
    """Directions of the parameters, the most sensitive first.

    Attributes:
        names: Of the parameters.
        values: Eigenvalues (p,): mean square change of the log posterior per prior spread along a direction.
        directions: Unit vectors in the rows (p, p), in units of each parameter's prior spread.

    Example:
        >>> print(Sensitivity(("a", "b"), np.array([40.0, 1.0]), np.array([[0.6, 0.8], [0.8, -0.6]])))
           40   +0.60 a  +0.80 b
            1   +0.80 a  -0.60 b
    """

    names: tuple[str, ...]
    values: Array
    directions: Array

    def __str__(self) -> str:
        rows = [
            f"{value:>5.3g}   " + "  ".join(f"{w:+.2f} {name}" for w, name in zip(row, self.names, strict=True))
            for value, row in zip(self.values, self.directions, strict=True)
        ]
        return "\n".join(rows)

    def _card(self) -> Card:
        pairs = zip(self.values, self.directions, strict=True)
        rows = [(f"{value:.3g}", *(f"{w:+.2f}" for w in row)) for value, row in pairs]
        notes = ["sensitivity 1: the data say nothing beyond the prior; 100: known ten times better"]
        return Card("directions that the data decide", header=("sensitivity", *self.names), rows=rows, notes=notes)


def measure_sensitivity(posterior: Any, x_o: npt.ArrayLike, n: int, seed: int) -> Sensitivity:
    """Compute the active subspace of a posterior from gradients at n of its draws, by central differences.

    The coordinates are those without bounds, where every direction is free, divided by the prior's spread there.
    """
    if find_discrete(posterior.parameter_levels).any():
        raise ConfigError(
            "sensitivity follows gradients, which whole numbers and categories do not have",
            code="bad-setting",
            fix='hold them first: posterior.condition(model="gamma").sensitivity(x_o)',
        )
    box = BoxTransform(*posterior.parameter_bounds)
    z = box.to_unconstrained(posterior.sample(n, x_o, seed=seed))
    unit, density = _measure_unit(posterior, box, z, seed), posterior.bind_density(x_o)

    def evaluate(points: Array) -> Array:
        return density(box.to_bounded(points)) + box.log_jacobian(points)

    gradient = np.empty_like(z)
    for j, step in enumerate(STEP * z.std(0)):
        move = np.zeros(z.shape[1])
        move[j] = step
        gradient[:, j] = (evaluate(z + move) - evaluate(z - move)) / (2 * step)
    gradient = gradient[np.isfinite(gradient).all(1)] * unit
    if len(gradient) < 10 * z.shape[1]:
        raise InferenceError(
            f"the density has a gradient at {len(gradient)} of {n} draws",
            code="too-few-runs",
            fix="check posterior.log_prob at its own draws",
        )
    values, vectors = np.linalg.eigh(gradient.T @ gradient / len(gradient))
    rows = vectors.T[::-1]
    rows = rows * np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(1)])[:, None]
    return Sensitivity(tuple(posterior.parameter_names), np.maximum(values[::-1], 0.0), rows)


def _measure_unit(posterior: Any, box: BoxTransform, z: Array, seed: int) -> Array:
    """Return the spread (p,) of the prior without bounds, or of the posterior where there is no prior."""
    prior = getattr(posterior, "prior", None)
    if prior is None:
        return z.std(0)
    return box.to_unconstrained(prior.sample(SPREAD_DRAWS, np.random.default_rng([seed, 3]))).std(0)
