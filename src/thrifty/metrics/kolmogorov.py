"""Kolmogorov-Smirnov distance of marginals, with weights.

    D = sup_t |F_u(t) - G_v(t)|,    F_u(t) = sum u_i 1[x_i <= t]

The p-value is asymptotic. Without weights it is Kolmogorov's with n m / (n + m) points; with weights
each sample strays as its own weights say (see `thrifty.metrics.suprema`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from thrifty.metrics.samples import Sample, two_samples
from thrifty.metrics.suprema import grid, paths, tail
from thrifty.types import Array

_EXACT = 10_000  # n m up to which the distribution is counted out: asymptotics give p = 0 for three against three


class KS(NamedTuple):
    """Distance and p-value of each marginal, each (p,)."""

    statistic: Array
    p_value: Array


def ks(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
) -> KS:
    """Two-sample Kolmogorov-Smirnov test of every column of x (n, p) against y (m, p).

    Example:
        >>> result = th.metrics.ks([[1.0], [2.0], [3.0]], [[1.0], [2.0], [3.0]], x_weights=[1.0, 0.0, 0.0])
        >>> result.statistic.round(12).tolist()
        [0.666666666667]
    """
    first, second = two_samples(x, y, x_weights, y_weights)
    results = [_one(first, second, column) for column in range(first.points.shape[1])]
    distance, p_value = (np.array(part) for part in zip(*results, strict=True))
    return KS(distance, p_value)


def _one(first: Sample, second: Sample, column: int) -> tuple[float, float]:
    values = np.concatenate([first.points[:, column], second.points[:, column]])
    order = np.argsort(values, kind="stable")
    values = values[order]
    last = np.append(values[1:] > values[:-1], True)  # ties step together
    n = len(first.points)
    weights = np.zeros((2, len(values)))
    weights[0, :n], weights[1, n:] = first.weights, second.weights
    weights = weights[:, order]
    steps = np.cumsum(weights, axis=1)[:, last]
    distance = float(np.abs(steps[0] - steps[1]).max())
    if first.equal and second.equal:
        if n * (len(values) - n) <= _EXACT:
            from scipy.stats import ks_2samp

            exact: Any = ks_2samp(first.points[:, column], second.points[:, column], method="exact")
            return distance, float(exact.pvalue)
        return distance, _kolmogorov(distance, first.ess, second.ess)
    clocks = np.cumsum(weights**2, axis=1)[:, last]
    return distance, _weighted_p_value(distance, clocks, steps)


def _kolmogorov(distance: float, n: float, m: float) -> float:
    from scipy.stats import kstwo

    return float(kstwo.sf(distance, max(round(n * m / (n + m)), 1)))


def _weighted_p_value(distance: float, clocks: Array, steps: Array) -> float:
    chosen = grid(clocks.shape[1])
    total = clocks[:, -1]
    level = (steps[0] / total[0] + steps[1] / total[1]) / (1 / total[0] + 1 / total[1])  # the better known counts more
    rng = np.random.default_rng(0)  # one fixed stream: the same samples give the same p-value
    process, variance = 0.0, 0.0
    for clock, end in zip(clocks, total, strict=True):
        process = process + paths(np.append(clock[chosen], end), level[chosen], rng)
        below = clock[chosen] / end
        variance = variance + end * (below * (1 - level[chosen]) ** 2 + (1 - below) * level[chosen] ** 2)
    return tail(distance, np.abs(process).max(axis=1), float(np.max(variance)))
