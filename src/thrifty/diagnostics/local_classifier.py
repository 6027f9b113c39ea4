"""Local classifier two-sample test: is the posterior right *at this observation*? (Linhart et al. 2023), with weights.

SBC, coverage and TARP average over all observations. Here a classifier learns to tell held-out parameters from
posterior draws as a function of the observation, and is then asked at x_o:

    T(x_o) = mean over posterior draws at x_o of (P(held-out | draw, x_o) - 1/2)^2

Parameters enter as z = (theta - mean) / sd of the posterior at their x, and the observation through that posterior
mean: 2p numbers, however long x is. The classifier is a ridge logistic regression on quadratic terms
and random tanh units, refitted in milliseconds, so that the null law of T is simulated: posterior draws take
the place of the held-out parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erfc, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.diagnostics.replicates import Replicates, replicates_of
from thrifty.diagnostics.verdict import Trust, by_size, shown
from thrifty.errors import DataError
from thrifty.types import Array, Posterior, Simulations
from thrifty.weights import covariance, mean, normalise

_UNITS = 30  # random units: enough to bend the boundary, few enough for 500 pairs
_RIDGE = 3.0  # pseudo-counts: shrinks chance patterns without hiding a shift of half an sd
_RIVALS = 5  # posterior draws set against each held-out parameter
_AT_X_O = 500  # draws at x_o that T is averaged over


@dataclass(frozen=True)
class LocalC2ST:
    """T at x_o and its law for a right posterior.

    Attributes:
        statistic: T(x_o), 0 for a right posterior, at most 1/4.
        null: Simulated values of T for a right posterior (b,).
        p_value: Chance of so large a T.
        ess: Effective number of held-out pairs.
        name: The check.
    """

    statistic: float
    null: Array
    p_value: float
    ess: float
    name: str = "local_c2st"

    @property
    def effect(self) -> float:
        """Root mean square of P - 1/2 at x_o beyond what chance gives."""
        return sqrt(max(self.statistic - float(self.null.mean()), 0.0))

    @property
    def verdict(self) -> Trust:
        """0.05 is a local accuracy of about 0.55; 0.1, of about 0.6."""
        return by_size(self.p_value, self.effect, small=0.05, large=0.1)

    @property
    def reason(self) -> str:
        """In words."""
        what = "cannot be told" if self.verdict == "trust" else "can be told"
        return f"at x_o posterior draws {what} from held-out parameters ({shown(self.p_value)})"


def local_c2st(
    posterior: Posterior,
    simulations: Simulations | Replicates,
    x_o: npt.ArrayLike,
    *,
    pairs: int = 500,
    draws: int = 100,
    nulls: int = 100,
    seed: int = 0,
) -> LocalC2ST:
    """Weighted local C2ST at x_o.

    Args:
        posterior: The posterior.
        simulations: Held-out runs with their weights, or `replicate(...)` of them.
        x_o: The observation.
        pairs: Held-out runs used.
        draws: Posterior draws at each.
        nulls: Simulated values of T under a right posterior.
        seed: Seed of everything.
    """
    settings = {"pairs": pairs, "draws": draws, "density": False, "seed": seed}
    source: Any = simulations if isinstance(simulations, Replicates) else posterior
    runs = None if isinstance(simulations, Replicates) else simulations
    replicates = replicates_of(source, runs, settings)
    if replicates.draws.shape[1] < 2 * (_RIVALS + 1):
        raise DataError(f"local_c2st needs at least {2 * (_RIVALS + 1)} draws a pair", code="D11")
    rng = np.random.default_rng(seed)
    own = np.asarray(posterior.sample(2 * _AT_X_O, x_o, seed=int(rng.integers(2**31))), dtype=np.float64)
    z, centre = _standardise(own.reshape(1, 2 * _AT_X_O, -1), None)
    problem = _Problem.of(replicates, z[0, :, :], centre[0], rng)
    statistic = problem.statistic(held_out=True, rng=rng)
    null = np.array([problem.statistic(held_out=False, rng=rng) for _ in range(nulls)])
    return LocalC2ST(statistic, null, _p_value(statistic, null), replicates.ess)


@dataclass(frozen=True)
class _Problem:
    """Standardised parameters, rivals and the point where the classifier is asked."""

    truth: Array  # (n, 1, p)
    rivals: Array  # (n, l/2, p)
    centre: Array  # (n, q): standardised posterior means
    at: Array  # (m, p + q)
    weights: Array  # (n,), sum = effective number of pairs
    features: Callable[[Array], Array]

    @classmethod
    def of(cls, replicates: Replicates, z_o: Array, centre_o: Array, rng: np.random.Generator) -> _Problem:
        both, centre = _standardise(replicates.draws, replicates.theta)
        location = mean(centre, replicates.log_weights)
        scale = np.sqrt(np.diag(covariance(centre, replicates.log_weights)))
        scale = np.where(scale > 0, scale, 1.0)
        centre, centre_o = (centre - location) / scale, (centre_o - location) / scale
        at = np.hstack([z_o, np.broadcast_to(centre_o, z_o.shape)])
        features = _features(at.shape[1], rng)
        weights = normalise(replicates.log_weights) * replicates.ess
        return cls(both[:, :1], both[:, 1:], centre, at, weights, features)

    def statistic(self, *, held_out: bool, rng: np.random.Generator) -> float:
        """T with the held-out parameters, or with posterior draws in their place."""
        n, available, _ = self.rivals.shape
        pick = np.argsort(rng.random((n, available)), axis=1)[:, : _RIVALS + 1]
        rivals = np.take_along_axis(self.rivals, pick[:, :, None], axis=1)
        first = self.truth if held_out else rivals[:, :1]
        points = np.concatenate([first, rivals[:, 1:]], axis=1)
        centre = np.broadcast_to(self.centre[:, None, :], points.shape)
        inputs = np.concatenate([points, centre], axis=2).reshape(n * (_RIVALS + 1), -1)
        label = np.tile([1.0] + [0.0] * _RIVALS, n)
        weights = np.repeat(self.weights, _RIVALS + 1) * np.tile([1.0] + [1 / _RIVALS] * _RIVALS, n)
        beta = _logistic(self.features(inputs), label, weights)
        return float(np.mean((_sigmoid(self.features(self.at) @ beta) - 0.5) ** 2))


def _standardise(draws: Array, theta: Array | None) -> tuple[Array, Array]:
    """Z of theta and of the second half of the draws, by the moments of the first half; those means.

    The halves keep theta and draws exchangeable: neither takes part in its own mean.
    """
    half = draws.shape[1] // 2
    centre, spread = draws[:, :half].mean(1), draws[:, :half].std(1)
    spread = np.where(spread > 0, spread, 1.0)
    rest = draws[:, half:] if theta is None else np.concatenate([theta[:, None, :], draws[:, half:]], axis=1)
    return (rest - centre[:, None, :]) / spread[:, None, :], centre


def _features(dim: int, rng: np.random.Generator) -> Callable[[Array], Array]:
    slopes = rng.standard_normal((dim, _UNITS)) / np.sqrt(dim)
    offsets = rng.uniform(-2, 2, _UNITS)
    rows, columns = np.triu_indices(dim)
    few = len(rows) <= 60  # beyond ten columns the squares alone stand for the quadratic terms

    def features(inputs: Array) -> Array:
        inputs = np.clip(inputs, -8.0, 8.0)  # one wild draw must not rule the fit
        quadratic = inputs[:, rows] * inputs[:, columns] if few else inputs**2
        units = np.tanh(inputs @ slopes + offsets)
        return np.hstack([np.ones((len(inputs), 1)), inputs, quadratic / 2, units])

    return features


def _logistic(features: Array, label: Array, weights: Array) -> Array:
    """Ridge logistic regression by Newton steps; the constant is not shrunk."""
    ridge = np.full(features.shape[1], _RIDGE)
    ridge[0] = 1e-6
    beta = np.zeros(features.shape[1])
    for _ in range(8):
        p = _sigmoid(features @ beta)
        curvature = weights * np.maximum(p * (1 - p), 1e-4)
        gradient = features.T @ (weights * (label - p)) - ridge * beta
        step = np.linalg.solve((features * curvature[:, None]).T @ features + np.diag(ridge), gradient)
        beta += step
        if np.abs(step).max() < 1e-4:
            break
    return beta


def _sigmoid(values: Array) -> Array:
    return 1 / (1 + np.exp(-np.clip(values, -30, 30)))


def _p_value(statistic: float, null: Array) -> float:
    """Share of null values as large; below what they resolve, by the normal law of log T."""
    exceeding = int(np.sum(null >= statistic))
    if exceeding >= 3 or len(null) < 20:
        return (1 + exceeding) / (1 + len(null))
    logs = np.log(np.maximum(null, 1e-300))
    z = (np.log(max(statistic, 1e-300)) - logs.mean()) / max(float(logs.std(ddof=1)), 1e-12)
    return float(erfc(z / sqrt(2)) / 2)
