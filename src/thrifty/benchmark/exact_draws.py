"""Draw from exact posteriors with a tempered sampler of the exact density, or a grid; and measure volumes.

`draw_tempered` moves particles from the prior to prior · likelihood^b for b from 0 to 1 (each step keeps half of the
effective particles), resamples them and moves them by random walks scaled to their covariance. At b = 1 they make FINAL
more moves, so that copies of one particle part. Two samplers with other seeds must agree
(`catalogue.measure_disagreement`), and Stein's identity holds for the draws (`tests/benchmark/test_catalogue.py`).

The volume of a distribution is exp(entropy), which for normals is the square root of the determinant of the covariance
up to a constant, and counts several modes as the sum of theirs. `relative_volume` compares posterior and prior draws by
the same nearest-neighbour estimate, whose errors of order log(1 ± 0.2) matter little to a limit of 1e-3.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.spatial import KDTree
from scipy.special import logsumexp

from thrifty.types import Array

MOVES, FINAL = 10, 200  # random-walk moves of each particle after a resampling, and at the end
NEIGHBOUR = 4  # the k of the entropy estimate: bias and variance are both small
MAX_LOG_STEP = 60  # bisections of the next power


def draw_tempered(
    log_likelihood: Callable[[Array], Array],
    log_prior: Callable[[Array], Array],
    start: Array,
    rng: np.random.Generator,
) -> Array:
    """Draw (n, p) from prior · likelihood, from `start` (n, p), draws of the prior."""
    theta, power = start, 0.0
    value, base = log_likelihood(theta), log_prior(theta)
    density = (log_likelihood, log_prior)
    while power < 1.0:
        step = _next_power(value, power) - power
        weights = np.exp(step * value - _log_sum(step * value))
        rows = _resample(weights, rng)
        theta, value, base, power = theta[rows], value[rows], base[rows], power + step
        for _ in range(MOVES if power < 1.0 else FINAL):
            theta, value, base = _move((theta, value, base), power, density, rng)
    return theta


def _next_power(value: Array, power: float) -> float:
    """Find the largest power at which half of the particles are effective."""
    low, high = power, 1.0
    if _ess((1.0 - power) * value) >= len(value) / 2:
        return 1.0
    for _ in range(MAX_LOG_STEP):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _ess((middle - power) * value) > len(value) / 2 else (low, middle)
    return low


def _log_sum(value: Array) -> float:
    return float(np.asarray(logsumexp(value), dtype=np.float64))


def _ess(log_weights: Array) -> float:
    return float(np.exp(2 * _log_sum(log_weights) - _log_sum(2 * log_weights)))


def _resample(weights: Array, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Systematic resampling: each row as often as its weight says, up to one."""
    places = (np.arange(len(weights)) + rng.random()) / len(weights)
    return np.minimum(np.searchsorted(np.cumsum(weights), places), len(weights) - 1)


def _move(
    at: tuple[Array, Array, Array],
    power: float,
    density: tuple[Callable[[Array], Array], Callable[[Array], Array]],
    rng: np.random.Generator,
) -> tuple[Array, Array, Array]:
    """One Metropolis step, of a random size, of every particle: (theta, log likelihood, log prior)."""
    (theta, value, base), (log_likelihood, log_prior) = at, density
    n, p = theta.shape
    root = np.linalg.cholesky(np.atleast_2d(np.cov(theta.T)) + 1e-14 * np.diag(np.var(theta, 0)))
    size = rng.choice([0.3, 1.0, 2.38], (n, 1)) / np.sqrt(p)
    asked = theta + size * (rng.standard_normal((n, p)) @ root.T)
    asked_base = log_prior(asked)
    inside = np.isfinite(asked_base)
    asked_value = np.full(n, -np.inf)
    asked_value[inside] = log_likelihood(asked[inside])
    with np.errstate(invalid="ignore"):
        gain = power * (asked_value - value) + asked_base - base
    taken = np.log(rng.random(n)) < np.where(inside & ~np.isnan(gain), gain, -np.inf)
    return (
        np.where(taken[:, None], asked, theta),
        np.where(taken, asked_value, value),
        np.where(taken, asked_base, base),
    )


def draw_on_grid(log_density: Callable[[Array], Array], grid: Array, n: int, rng: np.random.Generator) -> Array:
    """Draw (n,) from a density of one parameter, piecewise constant on cells around equally spaced points."""
    value = log_density(grid)
    weights = np.exp(value - _log_sum(value))
    cell = grid[1] - grid[0]
    return grid[rng.choice(len(grid), n, p=weights)] + cell * (rng.random(n) - 0.5)


def relative_volume(posterior: Array, prior: Array) -> float:
    """Return exp(entropy of posterior draws - entropy of prior draws), from as many of each.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> a, b = rng.normal(size=(2, 2_000, 3))
        >>> 0.8e-3 < relative_volume(0.1 * a, b) < 1.25e-3
        True
    """
    n = min(len(posterior), len(prior))
    return float(np.exp(_entropy(posterior[:n]) - _entropy(prior[:n])))


def _entropy(draws: Array) -> float:
    """Kozachenko-Leonenko entropy up to a constant of (n, p), in coordinates of unit covariance."""
    centred = draws - draws.mean(0)
    root = np.linalg.cholesky(np.atleast_2d(np.cov(draws.T)))
    white = np.linalg.solve(root, centred.T).T
    distance = KDTree(white).query(white, NEIGHBOUR + 1)[0][:, -1]
    return float(draws.shape[1] * np.log(np.maximum(distance, 1e-300)).mean() + np.log(np.diag(root)).sum())
