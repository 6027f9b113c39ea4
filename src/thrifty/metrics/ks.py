"""Kolmogorov-Smirnov distance of marginals, with weights.

    D = sup_t |F_u(t) - G_v(t)|,    F_u(t) = sum u_i 1[x_i <= t]

Without weights the p-value is Kolmogorov's with n m / (n + m) points, exact for small samples. With normalised weights
w, F_w(t) - F(t) is close to A(t) - F(t) A(1), where A is Brownian motion run by the clock V(t) = sum of w_i^2 over
points below t. Equal weights give V = F/n and the Brownian bridge, hence Kolmogorov's law; weights that grow with t
vary more in the upper tail than 1/ESS alone says (over-confident by up to a factor of two in the standard deviation).
The supremum is simulated on a grid, and continued below its smallest resolved probability by Student's tail.

Two corrections keep the size right when few points carry the weight. Each point's own part is left out of the curve
that it is compared with, so w / (1 - w) stands for w (the jackknife); and V is itself an estimate, from as many points
as the squared weights count: (sum w^2)^2 / sum w^4 degrees of freedom. Beyond both, a sample whose heaviest points
have not been seen yet looks better than it is: where the weights are so uneven that no p-value can be right it is NaN,
and a warning says why; the distance is always given.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, Displayed, format_number
from thrifty.errors import warn
from thrifty.metrics.samples import Sample, read_two_samples
from thrifty.types import Array
from thrifty.weights import pareto_k

_GRID_POINTS, _PATHS = 128, 2000
_MIN_PATHS_ABOVE = 40  # of the simulated ones, 2 %: with fewer above the statistic Student's tail takes over
# log-normal weights with ESS/n = r: at the 5 % level 4 to 9 % of true nulls are rejected where ESS r^2 is 6 or more,
# up to 15 % below (400 seeds each, ESS 40 to 400, r from 0.02 to 0.95)
_MIN_EVENNESS = 6.0
MAX_PARETO_K = 0.7  # Pareto's k from which an effective sample size is itself not to be believed
_MAX_EXACT_PAIRS = 10_000  # n m up to which the p-value is exact: asymptotics give p = 0 for three against three


class _Columns(NamedTuple):
    statistic: Array
    p_value: Array


class KS(Displayed, _Columns):
    """Distance and p-value of each marginal, each (p,); the p-value is NaN where weights are too uneven for one.

    Example:
        >>> print(KS(np.array([0.07, 0.31]), np.array([0.68, 0.0002])))
        Kolmogorov-Smirnov distance of each column
          column  distance  p-value
          1           0.07     0.68
          2           0.31   0.0002
    """

    __slots__ = ()

    def _card(self) -> Card:
        both = zip(self.statistic, self.p_value, strict=True)
        rows = [(str(i), format_number(float(d)), format_number(float(p))) for i, (d, p) in enumerate(both, start=1)]
        return Card("Kolmogorov-Smirnov distance of each column", header=("column", "distance", "p-value"), rows=rows)


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
    first, second = read_two_samples(x, y, x_weights, y_weights)
    weighted = [(name, s.weights) for name, s in (("x", first), ("y", second)) if not s.has_equal_weights]
    uneven = [f"{name}: {why}" for name, weights in weighted if (why := explain_unevenness(weights))]
    if uneven:
        warn(
            f"[few-effective-runs] no p-value (NaN): {'; '.join(uneven)}. Draw more, or use a gentler penalty",
            stacklevel=3,
        )
    results = [_compare_column(first, second, column, known=not uneven) for column in range(first.points.shape[1])]
    distance, p_value = (np.array(part) for part in zip(*results, strict=True))
    return KS(distance, p_value)


def _compare_column(first: Sample, second: Sample, column: int, *, known: bool) -> tuple[float, float]:
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
    if first.has_equal_weights and second.has_equal_weights:
        from scipy.stats import ks_2samp, kstwo

        if n * (len(values) - n) <= _MAX_EXACT_PAIRS:
            exact: Any = ks_2samp(first.points[:, column], second.points[:, column], method="exact")
            return distance, float(exact.pvalue)
        return distance, float(kstwo.sf(distance, max(round(first.ess * second.ess / (first.ess + second.ess)), 1)))
    return distance, _weighted_p_value(distance, jackknife_squares(weights), steps, last)


def _weighted_p_value(distance: float, squares: Array, steps: Array, last: npt.NDArray[np.bool_]) -> float:
    clocks = np.cumsum(squares, axis=1)[:, last]
    chosen = choose_grid(clocks.shape[1])
    total = clocks[:, -1]
    level = (steps[0] / total[0] + steps[1] / total[1]) / (1 / total[0] + 1 / total[1])  # the better known counts more
    rng = np.random.default_rng(0)  # one fixed stream: the same samples give the same p-value
    process, variance = 0.0, 0.0
    for clock, end in zip(clocks, total, strict=True):
        process = process + simulate_paths(np.append(clock[chosen], end), level[chosen], rng)
        below = clock[chosen] / end
        variance = variance + end * (below * (1 - level[chosen]) ** 2 + (1 - below) * level[chosen] ** 2)
    dof = degrees_of_freedom(squares)
    suprema = studentise(np.abs(process).max(axis=1), dof, rng)
    return tail_probability(distance, suprema, float(np.max(variance)), dof)


def simulate_paths(clock: Array, level: Array, rng: np.random.Generator) -> Array:
    """Simulate fluctuations (2000, t) of a weighted distribution function at increasing points.

    Args:
        clock: V at the points and, last, at infinity (t + 1,).
        level: F at the points (t,).
        rng: Source of the Brownian paths.
    """
    steps = np.sqrt(np.maximum(np.diff(clock, prepend=0.0), 0.0))
    motion = np.cumsum(rng.standard_normal((_PATHS, len(steps))) * steps, axis=1)
    return motion[:, :-1] - level * motion[:, -1:]


def jackknife_squares(weights: Array) -> Array:
    """Return what each point adds to the clock: (w / (1 - w))^2."""
    return (weights / np.maximum(1 - weights, 0.05)) ** 2


def degrees_of_freedom(squares: Array) -> float:
    """Return the degrees of freedom of a sum of squares (Satterthwaite): (sum s)^2 / sum s^2.

    Example:
        >>> degrees_of_freedom(np.full(40, 0.1))
        40.0
    """
    return float(np.round(squares.sum() ** 2 / (squares**2).sum(), 9))


def studentise(suprema: Array, dof: float, rng: np.random.Generator) -> Array:
    """Divide suprema by the root of a mean square with `dof` degrees of freedom, for a clock that was estimated."""
    return suprema / np.sqrt(2 * rng.standard_gamma(dof / 2, len(suprema)) / dof)


def explain_unevenness(weights: Array) -> str:
    """Say why these normalised weights allow no p-value, or "" when they do.

    Example:
        >>> explain_unevenness(np.full(100, 0.01))
        ''
        >>> explain_unevenness(np.append(np.full(99, 0.001), 0.901))
        '100 weighted points count as 1.2, too few to tell how far they vary'
    """
    n, size = len(weights), float(1 / np.sum(weights**2))
    if size * (size / n) ** 2 < _MIN_EVENNESS:
        return f"{n} weighted points count as {size:.2g}, too few to tell how far they vary"
    tail_shape = pareto_k(np.log(weights))
    if tail_shape > MAX_PARETO_K:
        return f"the weights have too heavy a tail (Pareto k {tail_shape:.2f} > {MAX_PARETO_K})"
    return ""


def tail_probability(statistic: float, suprema: Array, largest_variance: float, dof: float = np.inf) -> float:
    """Estimate P(supremum > statistic) from simulated suprema and Student's tail (the Gaussian for inf)."""
    exceeding = int(np.sum(suprema >= statistic))
    if exceeding >= _MIN_PATHS_ABOVE:
        return exceeding / len(suprema)
    anchor = float(np.sort(suprema)[-_MIN_PATHS_ABOVE])
    scale = max(largest_variance, 1e-300)
    if np.isfinite(dof):
        decay = dof / 2 * np.log((1 + statistic**2 / (dof * scale)) / (1 + anchor**2 / (dof * scale)))
    else:
        decay = (statistic**2 - anchor**2) / (2 * scale)
    return float(_MIN_PATHS_ABOVE / len(suprema) * np.exp(-max(float(decay), 0.0)))


def choose_grid(n: int) -> np.ndarray:
    """Choose positions of at most 128 of n sorted points, the last included."""
    return np.unique(np.linspace(0, n - 1, min(n, _GRID_POINTS)).round().astype(np.int64))
