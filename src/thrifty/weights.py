"""Arithmetic of importance weights, always in log space.

With w_i = exp(log_weights_i): the normalised weights are w_i / sum w, the effective sample size is
(sum w)^2 / sum w^2, and the estimate of E_prior[f] is sum w_i f_i / sum w (the paper's section 3.1).
Everything here is unchanged when a constant is added to all log weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, Displayed, format_number
from thrifty.errors import DataError, WeightError
from thrifty.types import Array, freeze


def as_log_weights(log_weights: npt.ArrayLike | None, n: int) -> Array:
    """Read the log weights of n rows, read-only: zeros when left out, never NaN or +inf, not all -inf."""
    if log_weights is None:
        return freeze(np.zeros(n))
    values = _as_numbers(log_weights, "log_weights")
    if values.shape != (n,):
        raise WeightError(
            f"log_weights has shape {values.shape}, expected ({n},)",
            code="bad-weights",
            fix="one log weight per row of theta",
        )
    _check_log_weights(values)
    return freeze(values)


def to_log_weights(weights: npt.ArrayLike) -> Array:
    """Take the logarithm of linear weights, which must not be negative or NaN."""
    values = _as_numbers(weights, "weights")
    if values.ndim != 1:
        raise WeightError(f"weights have shape {values.shape}, expected one per row of theta", code="bad-weights")
    bad = ~(values >= 0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        kind = "NaN" if np.isnan(values[row]) else "negative"
        raise WeightError(
            f"weights: {int(bad.sum())} of {values.size} values are negative or NaN"
            f" (first {kind} at row {row}: {values[row]:g})",
            code="bad-weights",
        )
    with np.errstate(divide="ignore"):
        return np.log(values)


def _as_numbers(values: npt.ArrayLike, label: str) -> Array:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise WeightError(
            f"{label} are not numbers: {values!r:.60}", code="bad-weights", fix="pass draws.log_weights"
        ) from None


def _check_log_weights(values: Array) -> None:
    bad = np.isnan(values) | (values == np.inf)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise WeightError(
            f"log_weights: {int(bad.sum())} of {values.size} values are NaN or +inf"
            f" (first at row {row}: {values[row]})",
            code="bad-weights",
            why="one such weight decides the whole posterior",
            fix="use the log_weights that came with the draws; -inf means weight zero",
        )
    if values.size and values.max() == -np.inf:
        raise WeightError("all weights are zero: log_weights are all -inf", code="bad-weights")


def _as_vector(log_weights: npt.ArrayLike) -> Array:
    values = _as_numbers(log_weights, "log_weights")
    if values.ndim != 1 or values.size == 0:
        raise WeightError(f"log_weights must be a non-empty vector, got shape {values.shape}", code="bad-weights")
    _check_log_weights(values)
    return values


def normalise(log_weights: npt.ArrayLike) -> Array:
    """Scale weights (n,) to the linear scale, where they sum to one.

    Example:
        >>> normalise([0.0, np.log(3.0)]).round(12).tolist()
        [0.25, 0.75]
    """
    values = _as_vector(log_weights)
    weights = np.exp(values - values.max())
    return weights / weights.sum()


def mass_of(chosen: npt.NDArray[np.bool_], log_weights: Array) -> float:
    """Return the share of the weight (n,) that chosen rows (n,) hold; 0 where no row has any weight.

    Example:
        >>> round(mass_of(np.array([True, False]), np.log([1.0, 3.0])), 12)
        0.25
    """
    if not np.isfinite(log_weights).any():
        return 0.0
    weights = np.exp(log_weights - log_weights.max())
    return float(weights[chosen].sum() / weights.sum())


def ess(log_weights: npt.ArrayLike) -> float:
    """Effective sample size, a count between 1 and n: (sum w)^2 / sum w^2.

    Example:
        >>> ess([0.0, 0.0, 0.0])
        3.0
    """
    values = _as_vector(log_weights)
    weights = np.exp(values - values.max())
    return float(weights.sum() ** 2 / (weights**2).sum())


def mean(values: npt.ArrayLike, log_weights: npt.ArrayLike) -> Array:
    """Compute the weighted mean over the first axis."""
    weights, table = _align(values, log_weights)
    return np.tensordot(weights, table, axes=1)


def covariance(values: npt.ArrayLike, log_weights: npt.ArrayLike) -> Array:
    """Compute the weighted covariance (p, p) of a table (n, p), unbiased for equal weights."""
    weights, table = _align(values, log_weights)
    table = table[:, None] if table.ndim == 1 else table
    centred = table - weights @ table
    share = 1 - np.sum(weights**2)
    return (centred * weights[:, None]).T @ centred / max(share, np.finfo(float).eps)


def quantile(
    values: npt.ArrayLike,
    q: npt.ArrayLike,
    log_weights: npt.ArrayLike,
    *,
    discrete: npt.NDArray[np.bool_] | None = None,
) -> Array:
    """Compute weighted quantiles of each column: (len(q), p), or (len(q),) for a vector.

    The inverse of the weighted distribution function, interpolated between midpoints, so that
    equal weights give Hazen's quantiles. Of a column that takes whole numbers (`discrete` (p,)) the quantile is a value
    that occurs: the lowest whose distribution function reaches q.

    Example:
        >>> quantile([[1.0, 1.0], [4.0, 4.0]], 0.5, [0.0, 0.0], discrete=np.array([False, True])).tolist()
        [[2.5, 1.0]]
    """
    weights, table = _align(values, log_weights)
    if np.isnan(table).any():
        raise DataError(
            "quantiles of values that hold NaN", code="bad-array", fix="drop failed runs first: sims.valid()"
        )
    levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
    if not ((levels >= 0) & (levels <= 1)).all():
        raise DataError(f"quantile levels must lie in [0, 1], got {levels.tolist()}", code="bad-setting")

    def one(column: Array, is_discrete: bool) -> Array:
        order = np.argsort(column, kind="stable")
        sorted_weights = weights[order]
        if is_discrete:
            reached = np.cumsum(sorted_weights) + 1e-12  # sums of equal weights end in rounding
            return column[order][np.minimum(np.searchsorted(reached, levels), len(column) - 1)]
        middles = np.cumsum(sorted_weights) - sorted_weights / 2
        keep = sorted_weights > 0
        return np.interp(levels, middles[keep], column[order][keep])

    whole = np.zeros(1 if table.ndim == 1 else table.shape[1], dtype=bool) if discrete is None else discrete
    if table.ndim == 1:
        return one(table, bool(np.atleast_1d(whole)[0]))
    return np.stack([one(*column) for column in zip(table.T, whole, strict=True)], axis=1)


def ecdf(values: npt.ArrayLike, at: npt.ArrayLike, log_weights: npt.ArrayLike) -> Array:
    """Evaluate the weighted distribution function of a vector of values at points `at`."""
    weights, column = _align(values, log_weights)
    order = np.argsort(column, kind="stable")
    steps = np.concatenate([[0.0], np.cumsum(weights[order])])
    return np.minimum(steps[np.searchsorted(column[order], np.asarray(at), side="right")], 1.0)


def sum_by_label(codes: npt.ArrayLike, labels: tuple[str, ...], log_weights: npt.ArrayLike) -> dict[Any, float]:
    """Return the weight of each category, by label, from the codes (n,) of weighted draws.

    Without labels the codes are whole numbers, of which all between the lowest and the highest count.

    Example:
        >>> sum_by_label([0.0, 1.0, 1.0], ("a", "b"), np.log([2.0, 1.0, 1.0]))
        {'a': 0.5, 'b': 0.5}
        >>> sum_by_label([3.0, 5.0, 5.0], (), np.log([2.0, 1.0, 1.0]))
        {3: 0.5, 4: 0.0, 5: 0.5}
    """
    whole = np.asarray(codes, dtype=np.int64)
    first = 0 if labels else int(whole.min())
    shares = np.bincount(whole - first, normalise(log_weights), minlength=len(labels)).tolist()
    return dict(zip(labels or range(first, first + len(shares)), shares, strict=True))


def resample_indices(
    log_weights: npt.ArrayLike, n: int | None = None, *, rng: np.random.Generator | int
) -> npt.NDArray[np.intp]:
    """Systematic resampling: n row numbers, each row as often as n times its weight, up to one."""
    weights = normalise(log_weights)
    n = len(weights) if n is None else n
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise WeightError(f"the number of rows to draw must be a whole number >= 0, got {n!r}", code="bad-setting")
    rng = np.random.default_rng(rng)
    points = (rng.random() + np.arange(n)) / n
    steps = np.cumsum(weights)
    steps /= steps[-1]
    chosen = np.searchsorted(steps, points, side="right")
    return rng.permutation(np.minimum(chosen, len(weights) - 1))


def resample(
    values: npt.ArrayLike, log_weights: npt.ArrayLike, n: int | None = None, *, rng: np.random.Generator | int
) -> Array:
    """Equally weighted rows drawn from weighted ones, by systematic resampling, in random order.

    Example:
        >>> resample([[1.0], [2.0]], [0.0, -np.inf], 3, rng=0).ravel().tolist()
        [1.0, 1.0, 1.0]
    """
    table = np.asarray(values)
    chosen = resample_indices(log_weights, n, rng=rng)
    if len(table) != np.size(log_weights):
        raise WeightError(f"{np.size(log_weights)} weights for {len(table)} rows", code="bad-weights")
    return table[chosen]


def pareto_k(log_weights: npt.ArrayLike) -> float:
    """Shape of the tail of the weights: below 0.5 fine, above 0.7 not to be trusted.

    A generalised Pareto distribution is fitted to the largest M = min(n/5, 3 sqrt n) weights
    (Vehtari et al. 2024) by the estimator of Zhang and Stephens (2009), drawn to 0.5 by a weak prior
    as is usual for small tails. Bounded weights give a negative value; equal weights give -inf.

    Example:
        >>> bool(th.pareto_k(np.log(np.linspace(1, 2, 400))) < 0.5)
        True
    """
    values = np.sort(_as_vector(log_weights))
    n = len(values)
    tail = int(min(0.2 * n, 3 * np.sqrt(n)))
    if tail < 5:
        return float("nan")
    weights = np.exp(values - values[-1])
    excess = weights[-tail:] - weights[-tail - 1]
    excess = excess[excess > 1e-9]  # ties with the threshold are no tail
    if len(excess) < 5 or np.ptp(excess) <= 1e-9:
        return float("-inf")  # bounded: capped penalties and discrete costs
    return fit_tail(excess)[0]


def fit_tail(excess: Array) -> tuple[float, float]:
    """Fit shape and scale of a generalised Pareto distribution to sorted exceedances (m,), after Zhang and Stephens.

    Example:
        >>> excess = np.sort(np.random.default_rng(0).exponential(2.0, 2_000))  # shape 0, scale 2
        >>> [round(value, 1) for value in fit_tail(excess)]
        [0.0, 2.0]
    """
    m = len(excess)
    grid = 30 + int(np.sqrt(m))
    quartile = excess[int(m / 4 + 0.5) - 1]
    theta = (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * quartile) + 1 / excess[-1]
    shape = np.mean(np.log1p(-theta[:, None] * excess), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        profile = m * (np.log(-theta / shape) - shape - 1)
    profile = np.where(np.isfinite(profile), profile, -np.inf)
    theta_hat = float(np.sum(theta * normalise(profile)))
    k = float(np.mean(np.log1p(-theta_hat * excess)))
    return (m * k + 10 * 0.5) / (m + 10), -k / theta_hat


@dataclass(frozen=True, repr=False)
class Estimate(Displayed):
    """An importance-sampling estimate of E_prior[f].

    Attributes:
        mean: The self-normalised estimate, sum w f / sum w.
        se: Its standard error, sqrt(sum w^2 (f - mean)^2) / sum w.
        ess: Effective sample size of the weights.
        se_bounds: Proposition 2: standard error of n plain prior draws, divided and multiplied by
            sqrt(g_max/g_min), with g_max/g_min the ratio of the largest to the smallest weight seen.

    Example: see `th.estimate`.
    """

    mean: Array
    se: Array
    ess: float
    se_bounds: tuple[Array, Array]

    def _card(self) -> Card:
        both = zip(np.ravel(self.mean), np.ravel(self.se), strict=True)
        rows = [(str(i), format_number(float(m)), format_number(float(s))) for i, (m, s) in enumerate(both, start=1)]
        return Card(f"estimate by {self.ess:,.0f} effective draws", header=("value", "mean", "se"), rows=rows)


def estimate(values: npt.ArrayLike, log_weights: npt.ArrayLike) -> Estimate:
    """Estimate the prior expectation of any integrand from weighted draws (paper, section 3.1).

    Works for anything that had a cost, not only simulators: `values` is f(theta_i), (n,) or (n, d).

    Example:
        >>> result = estimate([1.0, 3.0], [0.0, 0.0])
        >>> float(result.mean), result.ess
        (2.0, 2.0)
    """
    weights, table = _align(values, log_weights)
    centre = np.tensordot(weights, table, axes=1)
    spread = (table - centre) ** 2
    plain = np.tensordot(weights, spread, axes=1) / len(weights)
    positive = weights[weights > 0]
    ratio = positive.max() / positive.min()
    return Estimate(
        mean=centre,
        se=np.sqrt(np.tensordot(weights**2, spread, axes=1)),
        ess=ess(log_weights),
        se_bounds=(np.sqrt(plain / ratio), np.sqrt(plain * ratio)),
    )


def _align(values: npt.ArrayLike, log_weights: npt.ArrayLike) -> tuple[Array, Array]:
    weights, table = normalise(log_weights), np.asarray(values, dtype=np.float64)
    if table.ndim == 0 or len(table) != len(weights):
        raise WeightError(f"{len(weights)} weights for values of shape {table.shape}", code="bad-weights")
    return weights, table


def weighted_median(values: Array, weights: Array | None) -> float:
    """Find the value that splits the weight in halves; the plain median without weights.

    Example:
        >>> weighted_median(np.array([1.0, 2.0, 10.0]), np.array([1.0, 1.0, 5.0]))
        10.0
    """
    if weights is None:
        return float(np.median(values))
    half = 0.5 * weights.sum()
    below, inside = _bracket_median(values, weights, half)
    order = inside[np.argsort(values[inside])]
    total = below + np.cumsum(weights[order])
    return float(values[order[min(int(np.searchsorted(total, half)), len(order) - 1)]])


def _bracket_median(values: Array, weights: Array, half: float) -> tuple[float, npt.NDArray[np.intp]]:
    """Find rows that contain the median, and the weight below them: a tenth of a long column, unsorted."""
    everything = (0.0, np.arange(len(values)))
    if len(values) < 20_000:  # sorting all is as fast
        return everything
    some = slice(None, None, len(values) // 4_000)
    order = np.argsort(values[some])
    share = np.cumsum(weights[some][order])
    share /= share[-1]
    low, high = values[some][order[np.minimum(np.searchsorted(share, [0.45, 0.55]), len(order) - 1)]]
    below = float(weights[values < low].sum())
    inside = np.flatnonzero((values >= low) & (values <= high))
    return (below, inside) if below < half <= below + weights[inside].sum() else everything
