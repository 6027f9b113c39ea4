"""A density without a prior: where it lies is read off pilot draws, then it is sampled and integrated from there.

numbers          a Gaussian over unbounded coordinates, twice as wide as the pilot draws
whole numbers    the same rounded to cells, at least one cell wide; few values are listed and summed instead
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from thrifty.inference.answers.evidence import integrate_likelihood
from thrifty.inference.answers.states import MAX_LISTED_STATES, MAX_SAMPLED_STATES, States
from thrifty.inference.sampling.mcmc import Chains, sample_posterior
from thrifty.inference.transforms import BoxTransform
from thrifty.priors.families import as_parameter_names
from thrifty.types import Array, Levels

PILOT_WIDTH = 2.0  # times the spread of the pilot draws: a conditional may lie beside its marginal
MIN_CELLS = 1.0  # spread of a whole number: draws that all agree say little about the others

LogDensity = Callable[[Array], Array]


@dataclass(frozen=True)
class Pilot:
    """A wide Gaussian over unbounded coordinates, in place of a prior: where the search begins."""

    box: BoxTransform
    centre: Array
    spread: Array

    @classmethod
    def of(cls, draws: Array, box: BoxTransform) -> Pilot:
        """The pilot around draws (n, p)."""
        z = box.to_unconstrained(draws)
        spread = PILOT_WIDTH * z.std(0) + 1e-9
        return cls(box, z.mean(0), np.where(box.discrete, np.maximum(spread, MIN_CELLS), spread))

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.centre)

    @property
    def names(self) -> tuple[str, ...]:
        """Made-up names."""
        return as_parameter_names((), self.dim)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Ends of the parameters' support."""
        return self.box.low, self.box.high

    @property
    def levels(self) -> Levels:
        """What values each parameter takes."""
        return self.box.levels or (None,) * self.dim

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw (n, p)."""
        return self.box.to_bounded(self.centre + self.spread * rng.standard_normal((n, self.dim)))

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Log density (k,) of numbers times log probability of whole numbers, at theta (k, p).

        Example:
            >>> pilot = Pilot(BoxTransform(np.array([0]), np.array([3]), levels=((),)), np.array([2.7]), np.array([1]))
            >>> bool(np.isclose(np.exp(pilot.log_prob(np.arange(4)[:, None])).sum(), 1))
            True
        """
        z, cells = self.box.to_unconstrained(theta), self.box.discrete
        away = (z - self.centre) / self.spread
        each = -0.5 * np.square(away) - np.log(self.spread) - 0.5 * np.log(2 * np.pi)
        each[:, cells] = self._cell_log_prob(z[:, cells])
        return self.box.log_jacobian_at(theta) + each.sum(1)

    def _cell_log_prob(self, values: Array) -> Array:
        """Log probability (k, d) to be rounded to whole numbers (k, d); the ends take what lies beyond them."""
        from scipy.special import log_ndtr

        cells = self.box.discrete
        first, last = values <= self.box.low[cells], values >= self.box.high[cells]
        low, high = (
            np.where(end, edge, (values + step - self.centre[cells]) / self.spread[cells])
            for end, edge, step in ((first, -np.inf, -0.5), (last, np.inf, 0.5))
        )
        low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)  # the lower tail has more digits
        top, bottom = log_ndtr(high), log_ndtr(low)
        return top + np.log1p(-np.exp(bottom - top))

    def list_states(self) -> States | None:
        """List the values of the whole numbers, each counted once; None where there are none, or too many."""
        cells = self.box.discrete
        low, high = self.box.low[cells], self.box.high[cells]
        most = MAX_LISTED_STATES if cells.all() else MAX_SAMPLED_STATES
        if not cells.any() or not np.prod(high - low + 1) <= most:
            return None
        ranges = [np.arange(a, b + 1) for a, b in zip(low, high, strict=True)]
        values = np.array(list(product(*ranges)), dtype=np.float64)
        inner = BoxTransform(self.box.low[~cells], self.box.high[~cells])
        rest = None if cells.all() else Pilot(inner, self.centre[~cells], self.spread[~cells])
        return States(self, values, np.zeros(len(values)), rest)

    def _remove(self, density: LogDensity, states: States | None) -> LogDensity:
        """Return the density over that of the pilot, which samplers multiply it by."""
        if states is None:
            return lambda theta: density(theta) - self.log_prob(theta)
        rest = states.rest
        return density if rest is None else lambda t: density(t) - rest.log_prob(t[:, ~self.box.discrete])


def sample_density(density: LogDensity, pilot: Pilot, n: int, *, rng: np.random.Generator) -> Chains:
    """Draw n from a density, theta (k, p) -> log density (k,) up to a constant.

    Example:
        >>> box = BoxTransform(np.array([0]), np.array([1]), levels=((),))
        >>> pilot = Pilot.of(np.ones((9, 1)), box)
        >>> drawn = sample_density(lambda t: np.log(1 + 2 * t[:, 0]), pilot, 1_000, rng=np.random.default_rng(0))
        >>> bool(abs(drawn.samples.mean() - 0.75) < 0.07)
        True
    """
    states = pilot.list_states()
    if states is not None:
        return states.sample(pilot._remove(density, states), n, rng=rng)
    return sample_posterior(pilot._remove(density, None), pilot, n, rng=rng)


def integrate_density(density: LogDensity, pilot: Pilot, *, rng: np.random.Generator) -> float:
    """Return the log of a density's integral, summed over whole numbers."""
    states = pilot.list_states()
    if states is not None:
        return states.integrate(pilot._remove(density, states), rng=rng, quiet=True).value
    return integrate_likelihood(pilot._remove(density, None), pilot, rng=rng, quiet=True).value
