"""Kolmogorov-Smirnov distance of marginals, with weights.

    D = sup_t |F_u(t) - G_v(t)|,    F_u(t) = sum u_i 1[x_i <= t]

Without weights the p-value is Kolmogorov's with n m / (n + m) points, exact for small samples; with weights
each sample strays as its own weights say (see `thrifty.metrics.suprema`). Where the weights are so uneven that no
p-value can be right it is NaN, and a warning says why; the distance is always given.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from thrifty.errors import warn
from thrifty.metrics.samples import Sample, two_samples
from thrifty.metrics.suprema import freedom, grid, paths, squared, studentised, tail, too_uneven
from thrifty.types import Array

_EXACT = 10_000  # n m up to which the distribution is counted out: asymptotics give p = 0 for three against three


class KS(NamedTuple):
    """Distance and p-value of each marginal, each (p,); the p-value is NaN where weights are too uneven for one."""

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
    uneven = [f"{name}: {too_uneven(s.weights)}" for name, s in (("x", first), ("y", second)) if _uneven(s)]
    if uneven:
        warn(
            f"[few-effective-runs] no p-value (NaN): {'; '.join(uneven)}. Draw more, or use a gentler penalty",
            stacklevel=3,
        )
    results = [_one(first, second, column, known=not uneven) for column in range(first.points.shape[1])]
    distance, p_value = (np.array(part) for part in zip(*results, strict=True))
    return KS(distance, p_value)


def _uneven(s: Sample) -> bool:
    return not s.equal and bool(too_uneven(s.weights))


def _one(first: Sample, second: Sample, column: int, *, known: bool) -> tuple[float, float]:
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
    if not known:
        return distance, float("nan")
    if first.equal and second.equal:
        if n * (len(values) - n) <= _EXACT:
            from scipy.stats import ks_2samp

            exact: Any = ks_2samp(first.points[:, column], second.points[:, column], method="exact")
            return distance, float(exact.pvalue)
        return distance, _kolmogorov(distance, first.ess, second.ess)
    return distance, _weighted_p_value(distance, squared(weights), steps, last)


def _kolmogorov(distance: float, n: float, m: float) -> float:
    from scipy.stats import kstwo

    return float(kstwo.sf(distance, max(round(n * m / (n + m)), 1)))


def _weighted_p_value(distance: float, squares: Array, steps: Array, last: npt.NDArray[np.bool_]) -> float:
    clocks = np.cumsum(squares, axis=1)[:, last]
    chosen = grid(clocks.shape[1])
    total = clocks[:, -1]
    level = (steps[0] / total[0] + steps[1] / total[1]) / (1 / total[0] + 1 / total[1])  # the better known counts more
    rng = np.random.default_rng(0)  # one fixed stream: the same samples give the same p-value
    process, variance = 0.0, 0.0
    for clock, end in zip(clocks, total, strict=True):
        process = process + paths(np.append(clock[chosen], end), level[chosen], rng)
        below = clock[chosen] / end
        variance = variance + end * (below * (1 - level[chosen]) ** 2 + (1 - below) * level[chosen] ** 2)
    dof = freedom(squares)
    suprema = studentised(np.abs(process).max(axis=1), dof, rng)
    return tail(distance, suprema, float(np.max(variance)), dof)
