"""Which runs are near enough for ABC: the rule that sets epsilon, and how many runs a posterior needs.

epsilon    d_i <= epsilon
quantile   the smallest epsilon with  sum_{d_i <= epsilon} w_i >= q sum_i w_i:  a share q of the *prior* mass,
so that it means the same whatever the proposal
n_accept   the epsilon of the n-th nearest run: a count of runs, whatever their weights
(none)     1 % of the prior mass, but at least enough effective runs for a posterior: 7 sqrt(n) and 10 per statistic
with local regression (at most 0.6 n), 50 without
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thrifty.errors import ConfigError, InferenceError
from thrifty.tables.simulations import Simulations
from thrifty.types import Array
from thrifty.weights import ess

DEFAULT_QUANTILE = 0.01  # the usual first choice: 1 % of the prior predictive mass
# effective runs that the default accepts, chosen on development seeds of problems with known posteriors (docs/abc.md)
ROOT_FACTOR, RUNS_PER_STATISTIC, MAX_SHARE, PLAIN_RUNS = 7.0, 10.0, 0.6, 50.0
MIN_TABLE_ESS = 50.0  # effective runs of a table, of which 0.6 are accepted: 30, or the posterior sd is off by 13 %
SUGGESTED_ACCEPTED = 100  # runs; the advice after an empty acceptance aims at them


@dataclass(frozen=True)
class Tolerance:
    """The rule that sets epsilon: one of the three; 1 % of the prior mass and enough runs when none is given.

    Example:
        >>> Tolerance(n_accept=2).choose_epsilon(np.array([3.0, 1.0, 2.0]), np.zeros(3))
        2.0
    """

    epsilon: float | None = None
    quantile: float | None = None
    n_accept: int | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("epsilon", "quantile", "n_accept") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ConfigError(f"{' and '.join(given)} were given; choose one", code="conflicting-settings")
        if self.epsilon is not None and not 0 <= self.epsilon < np.inf:
            raise ConfigError(f"epsilon must be a finite number >= 0, got {self.epsilon}", code="bad-setting")
        if self.quantile is not None and not 0 < self.quantile <= 1:
            raise ConfigError(
                f"quantile must lie in (0, 1], got {self.quantile}",
                code="bad-setting",
                why="it is the share of prior mass to accept",
                fix="quantile=0.01 accepts 1%",
            )
        if self.n_accept is not None and (self.n_accept != int(self.n_accept) or self.n_accept < 1):
            raise ConfigError(f"n_accept must be a whole number >= 1, got {self.n_accept}", code="bad-setting")

    @property
    def is_default(self) -> bool:
        """Whether no rule was given."""
        return self.epsilon is None and self.quantile is None and self.n_accept is None

    def choose_epsilon(self, distance: Array, log_weights: Array, least: float = 0.0) -> float:
        """Compute epsilon for these distances (n,) and log weights (n,).

        Args:
            distance: Of every pair from x_o (n,).
            log_weights: Of every pair (n,).
            least: Effective pairs to accept at least, where no rule was given.

        Raises:
            InferenceError: too-few-runs, no run lies within a fixed epsilon.
            ConfigError: too-few-runs, fewer runs than n_accept.
        """
        if self.epsilon is not None:
            self._check_any_accepted(distance, self.epsilon)
            return self.epsilon
        if self.is_default:
            share = weighted_quantile(distance, log_weights, DEFAULT_QUANTILE)
            return max(share, _epsilon_of_size(distance, log_weights, least))
        if self.n_accept is None:
            return weighted_quantile(distance, log_weights, self.quantile or DEFAULT_QUANTILE)
        if self.n_accept > len(distance):
            raise ConfigError(f"n_accept = {self.n_accept} of {len(distance)} simulations", code="too-few-runs")
        return float(np.partition(distance, self.n_accept - 1)[self.n_accept - 1])

    @staticmethod
    def _check_any_accepted(distance: Array, epsilon: float) -> None:
        nearest = float(distance.min())
        if nearest <= epsilon:
            return
        rank = min(SUGGESTED_ACCEPTED, len(distance))
        enough = float(np.partition(distance, rank - 1)[rank - 1])
        raise InferenceError(
            f"none of {len(distance):,} simulations lies within epsilon = {epsilon:g} of the observation;"
            f" the nearest is at {nearest:.4g}",
            code="too-few-runs",
            why="no accepted run, no posterior",
            fix=f"epsilon = {_round_up(enough)} would accept {rank}; or add simulations, or use th.SMCABC",
        )


def weighted_quantile(values: Array, log_weights: Array, q: float) -> float:
    """Find the smallest value v such that {values <= v} holds at least a share q of the weight, by partial sorting.

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


def _epsilon_of_size(distance: Array, log_weights: Array, least: float) -> float:
    """Find the smallest epsilon within which the weights count as at least so many, or the largest distance."""
    order = np.argsort(distance, kind="stable")
    weights = np.exp(log_weights[order] - log_weights.max())
    total, square = np.cumsum(weights), np.cumsum(np.square(weights))
    enough = np.flatnonzero(np.square(total) >= least * (1 - 1e-12) * square)
    enough = enough[total[enough] > 0]
    return float(distance[order[enough[0] if len(enough) else -1]])


def choose_accepted(effective: float, statistics: int | None) -> float:
    """Choose how many effective runs the default accepts of a table that counts as `effective` runs.

    Args:
        effective: Effective runs of the table.
        statistics: Number of statistics of a local regression, or None without one.

    Example:
        >>> [round(choose_accepted(n, 2)) for n in (80, 1_000, 20_000)], choose_accepted(1_000, None)
        ([48, 221, 990], 50.0)
    """
    if statistics is None:
        return min(PLAIN_RUNS, MAX_SHARE * effective)
    wanted = max(ROOT_FACTOR * np.sqrt(effective), RUNS_PER_STATISTIC * (statistics + 1))
    return float(min(wanted, MAX_SHARE * effective))


def _round_up(value: float) -> str:
    """Format with three significant digits, never below the value."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    unit = 10.0 ** (np.floor(np.log10(value)) - 2)
    return f"{np.ceil(value / unit) * unit:.6g}"


def check_table_size(valid: Simulations) -> None:
    """Refuse a table from which no tolerance gives a posterior."""
    size = ess(valid.log_weights)
    if size >= MIN_TABLE_ESS:
        return
    needed = int(np.ceil(MIN_TABLE_ESS * len(valid) / size))
    raise InferenceError(
        f"{len(valid)} runs count as {size:.0f}; ABC needs {MIN_TABLE_ESS:.0f} effective runs for a posterior",
        code="too-few-runs",
        why="so few accepted runs give an interval, but not a posterior",
        fix=f"run about {needed} in all, or choose yourself what is near enough: epsilon=, quantile= or n_accept=",
    )
