"""Which simulations are near enough: a fixed tolerance, a share of prior mass, or a number of runs.

epsilon    accept d_i <= epsilon
quantile   the smallest epsilon with  sum_{d_i <= epsilon} w_i >= q sum_i w_i:  a share q of the *prior* mass,
           so that it means the same whatever the proposal
n_accept   the epsilon of the n-th nearest run: a count of runs, whatever their weights
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thrifty.errors import ConfigError, InferenceError
from thrifty.types import Array

DEFAULT_QUANTILE = 0.01  # the usual first choice: 1 % of the prior predictive mass
SUGGESTED = 100  # accepted runs that the advice after an empty acceptance aims at


@dataclass(frozen=True)
class Tolerance:
    """Exactly one of the three rules; a share of 1 % of prior mass when none is given.

    Example:
        >>> Tolerance(n_accept=2).epsilon_for(np.array([3.0, 1.0, 2.0]), np.zeros(3))
        2.0
    """

    epsilon: float | None = None
    quantile: float | None = None
    n_accept: int | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("epsilon", "quantile", "n_accept") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ConfigError(f"{' and '.join(given)} were given; choose one", code="conflicting-settings")
        if not given:
            object.__setattr__(self, "quantile", DEFAULT_QUANTILE)
        if self.epsilon is not None and not 0 <= self.epsilon < np.inf:
            raise ConfigError(f"epsilon must be a finite number >= 0, got {self.epsilon}", code="bad-setting")
        if self.quantile is not None and not 0 < self.quantile <= 1:
            raise ConfigError(
                f"quantile must lie in (0, 1], got {self.quantile}",
                code="bad-setting",
                why="it is the share of prior mass to accept",
                fix="quantile=0.01 accepts 1 %",
            )
        if self.n_accept is not None and (self.n_accept != int(self.n_accept) or self.n_accept < 1):
            raise ConfigError(f"n_accept must be a whole number >= 1, got {self.n_accept}", code="bad-setting")

    def epsilon_for(self, distance: Array, log_weights: Array) -> float:
        """The tolerance for these distances (n,) and weights.

        Raises:
            InferenceError: too-few-runs, no run lies within a fixed epsilon.
            ConfigError: too-few-runs, fewer runs than n_accept.
        """
        if self.epsilon is not None:
            self._refuse_none(distance, self.epsilon)
            return self.epsilon
        if self.n_accept is None:
            return weighted_quantile(distance, log_weights, self.quantile or DEFAULT_QUANTILE)
        if self.n_accept > len(distance):
            raise ConfigError(f"n_accept = {self.n_accept} of {len(distance)} simulations", code="too-few-runs")
        return float(np.partition(distance, self.n_accept - 1)[self.n_accept - 1])

    @staticmethod
    def _refuse_none(distance: Array, epsilon: float) -> None:
        nearest = float(distance.min())
        if nearest <= epsilon:
            return
        rank = min(SUGGESTED, len(distance))
        enough = float(np.partition(distance, rank - 1)[rank - 1])
        raise InferenceError(
            f"none of {len(distance):,} simulations lies within epsilon = {epsilon:g} of the observation;"
            f" the nearest is at {nearest:.4g}",
            code="too-few-runs",
            why="there is nothing to make a posterior of",
            fix=f"epsilon = {_round_up(enough)} would accept {rank}; or add simulations, or use th.SMCABC",
        )


def weighted_quantile(values: Array, log_weights: Array, q: float) -> float:
    """Smallest value v with weight of {values <= v} at least q of the whole, by partial sorting.

    Example:
        >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.log([1.0, 1.0, 2.0]), 0.5)
        2.0
    """
    n = len(values)
    weights = np.exp(log_weights - log_weights.max())
    target = q * weights.sum() * (1 - 1e-12)  # rounding of the sum must not ask for one run more
    count = min(n, max(64, int(2 * q * n)))
    while True:
        nearest = np.argpartition(values, count - 1)[:count] if count < n else np.arange(n)
        order = nearest[np.argsort(values[nearest], kind="stable")]
        total = np.cumsum(weights[order])
        if total[-1] >= target or count == n:
            return float(values[order[min(int(np.searchsorted(total, target)), len(order) - 1)]])
        count = min(n, 4 * count)


def _round_up(value: float) -> str:
    """Three significant digits, never below the value."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    unit = 10.0 ** (np.floor(np.log10(value)) - 2)
    return f"{np.ceil(value / unit) * unit:.6g}"
