"""Fit a likelihood to runs: normal, with a mean, a covariance and slopes that are polynomials of theta.

    y_j | y_1 … y_{j-1}, theta  ~  N( mean(theta) + slopes(theta) · (y_1 … y_{j-1}),  exp(log_variance(theta)) )

For statistics that are averages over many realisations: these are normal up to their skewness, of order 1/√m. Given
theta, all statistics together are normal, so that the law can be drawn from exactly.

`draw_emulated` is for a model whose likelihood is not known: its runs cover the posterior and its surroundings, found
in `STAGES` steps from the prior inwards, so that low powers of theta are enough. The draws of two fits to other runs
must agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np

from thrifty.benchmark.exact_draws import draw_tempered
from thrifty.priors import Uniform
from thrifty.types import Array

DEGREES = (3, 2, 0)  # of means, log variances and slopes: near a posterior little changes
STAGES = 3  # of narrowing; the last fit is what the draws rest on
RUNS = 3_000  # of each stage, twice as many of the last: means are then known to 0.08 posterior standard deviations
WIDER = 2.5  # standard deviations of the runs' region over the posterior's
LOG_SQUARE_MEAN = -1.2703628454614782  # E log z² of a standard normal: -γ - log 2


@dataclass(frozen=True)
class EmulatedLikelihood:
    """A likelihood of statistics fitted to runs (theta, y).

    Attributes:
        centre, scale: Of theta (p,), to standardise it.
        means: Coefficients of each statistic's mean, those of its slopes on earlier statistics last.
        log_variances: Coefficients of each statistic's log variance.
        degrees: Of the polynomials of means, log variances and slopes.
    """

    centre: Array
    scale: Array
    means: tuple[Array, ...]
    log_variances: tuple[Array, ...]
    degrees: tuple[int, int, int] = DEGREES

    @classmethod
    def fit(cls, theta: Array, y: Array, *, degrees: tuple[int, int, int] = DEGREES) -> EmulatedLikelihood:
        """Fit to runs theta (n, p) and y (n, d): least squares, then weighted by the fitted variances."""
        law = cls(theta.mean(0), theta.std(0), (), (), degrees)
        powers = law._expand(theta)
        means, log_variances = [], []
        for j in range(y.shape[1]):
            design, weight = _join(powers, y[:, :j]), np.ones((len(y), 1))
            slopes, spread = np.empty(0), np.empty(0)
            for _ in range(2):
                slopes = np.linalg.lstsq(weight * design, weight[:, 0] * y[:, j], rcond=None)[0]
                squares = np.log(np.square(y[:, j] - design @ slopes) + 1e-300) - LOG_SQUARE_MEAN
                spread = np.linalg.lstsq(powers[1], squares, rcond=None)[0]
                weight = np.exp(-0.5 * powers[1] @ spread)[:, None]
            means.append(slopes)
            log_variances.append(spread)
        return replace(law, means=tuple(means), log_variances=tuple(log_variances))

    def log_likelihood(self, theta: Array, y: Array) -> Array:
        """Log density (n,) of y (d,) or (n, d) at theta (n, p)."""
        noise, log_variance = self._standardise(theta, y)
        return -0.5 * (np.square(noise) + log_variance).sum(1)

    def draw(self, theta: Array, noise: Array) -> Array:
        """Turn standard normal noise (n, d) into statistics (n, d) at theta (n, p), each row on its own."""
        powers, y = self._expand(theta), np.empty((len(theta), len(self.means)))
        for j in range(y.shape[1]):
            mean, log_variance = self._predict(j, powers, y[:, :j])
            y[:, j] = mean + np.exp(0.5 * log_variance) * noise[:, j]
        return y

    def standardise(self, theta: Array, y: Array) -> Array:
        """Turn statistics (n, d) at theta (n, p) into the noise (n, d) that `draw` makes them of."""
        return self._standardise(theta, y)[0]

    def _standardise(self, theta: Array, y: Array) -> tuple[Array, Array]:
        """Noise and log variances (n, d) of y (d,) or (n, d)."""
        powers, y = self._expand(theta), np.broadcast_to(y, (len(theta), len(self.means)))
        parts = [self._predict(j, powers, y[:, :j]) for j in range(y.shape[1])]
        mean, log_variance = (np.column_stack(part) for part in zip(*parts, strict=True))
        return (y - mean) * np.exp(-0.5 * log_variance), log_variance

    def _expand(self, theta: Array) -> tuple[Array, Array, Array]:
        """Powers of standardised theta for means, log variances and slopes."""
        z = (theta - self.centre) / self.scale
        means, variances, slopes = (expand(z, degree) for degree in self.degrees)
        return means, variances, slopes

    def _predict(self, j: int, powers: tuple[Array, Array, Array], earlier: Array) -> tuple[Array, Array]:
        """Mean and log variance (n,) of statistic j given those before it; sums, whose digits no other row changes."""
        mean = (_join(powers, earlier) * self.means[j]).sum(1)
        return mean, (powers[1] * self.log_variances[j]).sum(1)


def _join(powers: tuple[Array, Array, Array], earlier: Array) -> Array:
    """Columns of the regression of a statistic: powers of theta, and earlier statistics times powers."""
    return np.hstack([powers[0], *(powers[2] * earlier[:, k : k + 1] for k in range(earlier.shape[1]))])


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
