"""The learning rate of a scoring-rule posterior, calibrated at the observation.

A generalised posterior with loss L = sum of scores is asymptotically N(theta_hat, (lambda J)^-1), J the curvature
of the expected loss, while its minimiser theta_hat varies from data set to data set as J^-1 I J^-1, I the variance
of the loss's gradient. lambda is chosen so that both carry the same information (Lyddon, Holmes and Walker 2019):

    lambda = tr(J I^-1 J) / tr(J),   here in coordinates where J = 1:   lambda = mean eigenvalue of J^½ I^-1 J^½

With one parameter this makes credible intervals honest confidence intervals: 1/(lambda J) = I/J^2. The gradient's
variance comes from pseudo-observations: runs already made at the parameters nearest the best one, so that no new
simulation is needed. Gradients and curvature are local quadratic regressions of the scores over theta.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from thrifty.errors import InferenceError
from thrifty.inference.surrogate import fit_quadratic, hessian_of, products
from thrifty.types import Array

if TYPE_CHECKING:
    from thrifty.inference.scoring_rule import SampleScore

Rows = npt.NDArray[np.intp]
PSEUDO = 400  # pseudo-observations: the gradient's variance to 7 %
SHARE = 0.15  # of the table that the local fits count as: noise averages out, and the score is still a parabola
NEAREST = 20  # parameters they are taken from: near the best one, but not one whose noise rules


def calibrated(score: SampleScore, z: Array, x: Array, x_o: Array, within: Array) -> float:
    """Lambda at x_o (r, d), from the runs x (n, m, d) at z (n, p), parameters without bounds.

    Raises:
        InferenceError: too-few-runs, the score has no minimum that the runs can locate.
    """
    loss = (2 * score.across(x, x_o) - within[:, None]).sum(1)
    quadratic = fit_quadratic(z, -loss, width=0.0, effective=SHARE * len(z))
    best = _inside(quadratic.peak, z, quadratic.weights)
    near = np.argsort(np.square((z - best) / quadratic.scale).sum(1))[:NEAREST]
    used = quadratic.weights > 1e-3
    pseudo, owner = _pseudo_observations(x, near)
    values = 2 * _across_without_self(score, x[used], pseudo, owner, np.flatnonzero(used)) - within[used, None]
    root = np.sqrt(quadratic.weights[used])[:, None]
    design = products((z[used] - best) / quadratic.scale)
    coefficients = np.linalg.lstsq(root * design, root * values, rcond=1e-10)[0]  # (terms, pseudo-observations)
    p = z.shape[1]
    curvature = hessian_of(coefficients.mean(1), p)
    spread = np.atleast_2d(np.cov(coefficients[1 : 1 + p]))
    values_j, vectors = np.linalg.eigh(curvature)
    if values_j.min() <= 0 or np.linalg.eigvalsh(spread).min() <= 0:
        raise InferenceError(
            f"the score has no clear minimum near the observation (curvatures {np.round(values_j, 4).tolist()})",
            code="too-few-runs",
            why="the learning rate is calibrated by the curvature of the score there",
            fix="give weight=..., more runs per parameter (m), or more parameters near the posterior",
        )
    half = (vectors / np.sqrt(values_j)) @ vectors.T
    return float(np.mean(1 / np.linalg.eigvalsh(half @ spread @ half)))


def _inside(peak: Array, z: Array, weights: Array) -> Array:
    """The peak, kept within the runs that carry the fit."""
    some = z[weights > 1e-3]
    return np.clip(peak, some.min(0), some.max(0))


def _pseudo_observations(x: Array, near: Rows) -> tuple[Array, Rows]:
    """Some runs (k, d) at the nearest parameters, and the row each belongs to."""
    each = min(x.shape[1], -(-PSEUDO // len(near)))
    return x[near, :each].reshape(-1, x.shape[2]), np.repeat(near, each)


def _across_without_self(score: SampleScore, x: Array, y: Array, owner: Rows, rows: Rows) -> Array:
    """Mean pair values (n, k), a run's pair with itself left out where it is its own pseudo-observation."""
    m = x.shape[1]
    out = score.across(x, y)
    own = 0.0 if score.kind == "energy" else -1.0
    mine = rows[:, None] == owner[None]
    return np.where(mine, (m * out - own) / (m - 1), out)
