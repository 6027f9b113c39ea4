"""Fit a likelihood to runs near an observation: normal, with mean and variance that change with theta.

    y_j | y_1 … y_{j-1}, theta  ~  N( cubic(theta) + slopes · (y_1 … y_{j-1}),  exp(quadratic(theta)) )

For statistics that are averages over many realisations: these are normal up to their skewness, of order 1/√m. The runs
cover the posterior and its surroundings, found in `STAGES` steps from the prior inwards, so that low powers of theta
are enough. It is used where no likelihood is known; the draws of two fits to other runs must agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from thrifty.benchmark.exact_draws import draw_tempered
from thrifty.priors import Uniform
from thrifty.types import Array

STAGES = 3  # of narrowing; the last fit is what the draws rest on
RUNS = 3_000  # of each stage, twice as many of the last: means are then known to 0.08 posterior standard deviations
WIDER = 2.5  # standard deviations of the runs' region over the posterior's
LOG_SQUARE_MEAN = -1.2703628454614782  # E log z² of a standard normal: -γ - log 2


@dataclass(frozen=True)
class EmulatedLikelihood:
    """A likelihood of statistics fitted to runs (theta, y).

    Attributes:
        centre, scale: Of theta (p,), to standardise it.
        means: Coefficients of each statistic's mean.
        log_variances: Coefficients of each statistic's log variance.
    """

    centre: Array
    scale: Array
    means: tuple[Array, ...]
    log_variances: tuple[Array, ...]

    @classmethod
    def fit(cls, theta: Array, y: Array) -> EmulatedLikelihood:
        """Fit to runs theta (n, p) and y (n, d): least squares, then weighted by the fitted variances."""
        centre, scale = theta.mean(0), theta.std(0)
        z = (theta - centre) / scale
        cubic, quadratic = expand(z, 3), expand(z, 2)
        means, log_variances = [], []
        for j in range(y.shape[1]):
            design, weight = np.hstack([cubic, y[:, :j]]), np.ones((len(y), 1))
            slopes, spread = np.empty(0), np.empty(0)
            for _ in range(2):
                slopes = np.linalg.lstsq(weight * design, weight[:, 0] * y[:, j], rcond=None)[0]
                squares = np.log(np.square(y[:, j] - design @ slopes) + 1e-300) - LOG_SQUARE_MEAN
                spread = np.linalg.lstsq(quadratic, squares, rcond=None)[0]
                weight = np.exp(-0.5 * quadratic @ spread)[:, None]
            means.append(slopes)
            log_variances.append(spread)
        return cls(centre, scale, tuple(means), tuple(log_variances))

    def log_likelihood(self, theta: Array, y: Array) -> Array:
        """Log density (n,) of one y (d,) at theta (n, p)."""
        z = (theta - self.centre) / self.scale
        cubic, quadratic = expand(z, 3), expand(z, 2)
        total = np.zeros(len(theta))
        for j, (slopes, spread) in enumerate(zip(self.means, self.log_variances, strict=True)):
            mean = cubic @ slopes[: cubic.shape[1]] + slopes[cubic.shape[1] :] @ y[:j]
            log_variance = quadratic @ spread
            total -= 0.5 * (np.square(y[j] - mean) * np.exp(-log_variance) + log_variance)
        return total


def expand(z: Array, degree: int) -> Array:
    """Products (n, k) of columns of z (n, p) up to a degree.

    Example:
        >>> expand(np.array([[2.0, 3.0]]), 2).tolist()
        [[1.0, 2.0, 3.0, 4.0, 6.0, 9.0]]
    """
    parts = [np.ones(len(z))]
    for power in range(1, degree + 1):
        parts += [z[:, list(chosen)].prod(1) for chosen in combinations_with_replacement(range(z.shape[1]), power)]
    return np.column_stack(parts)


def draw_emulated(
    run: Callable[[Array, np.random.Generator], Array], box: Uniform, y_o: Array, n: int, rng: np.random.Generator
) -> Array:
    """Draws (n, p) of the posterior at y_o under a uniform prior; `run` gives statistics (n, d) at theta (n, p)."""
    theta, draws = box.sample(RUNS, rng), np.empty(0)
    for stage in range(STAGES):
        fitted = EmulatedLikelihood.fit(theta, run(theta, rng))
        last = stage == STAGES - 1
        start = box.sample(n if last else RUNS // 4, rng)
        draws = draw_tempered(lambda t, f=fitted: f.log_likelihood(t, y_o), box.log_prob, start, rng)
        theta = _spread_around(draws, box, RUNS * (2 if stage == STAGES - 2 else 1), rng)
    return draws


def _spread_around(draws: Array, box: Uniform, n: int, rng: np.random.Generator) -> Array:
    """Normal draws (n, p) around the posterior's, WIDER than it, inside the prior."""
    root, kept = np.linalg.cholesky(np.cov(draws.T)), np.empty((0, draws.shape[1]))
    while len(kept) < n:
        theta = draws.mean(0) + WIDER * rng.standard_normal((n, draws.shape[1])) @ root.T
        kept = np.vstack([kept, theta[np.isfinite(box.log_prob(theta))]])
    return kept[:n]
