"""Squared maximum mean discrepancy with weights, in bounded memory.

With normalised weights u_i of x and v_j of y and the kernel k(a, b) = exp(-|a - b|^2 / 2 l^2),

    MMD^2 = sum u_i u_j k(x_i, x_j) + sum v_i v_j k(y_i, y_j) - 2 sum u_i v_j k(x_i, y_j)      (V-statistic)

The U-statistic leaves the pairs i = j out of the first two sums and divides them by 1 - sum u_i^2
and 1 - sum v_j^2, so that equal weights give Gretton et al.'s (2012) unbiased estimate.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.metrics.samples import Sample, read_sample, read_two_samples

# 2^19 numbers (4 MB) per block: small enough for the cache, large enough that the loop costs nothing
_NUMBERS_PER_BLOCK = 2**19


def mmd2(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
    lengthscale: float | None = None,
    *,
    unbiased: bool = False,
) -> float:
    """Squared MMD between a sample x (n, p) and a reference y (m, p), Gaussian kernel.

    Args:
        x: The sample that is judged.
        y: The reference, e.g. draws of the true posterior or the observed data.
        x_weights: Linear weights (n,) of x, or None.
        y_weights: Linear weights (m,) of y, or None.
        lengthscale: l of the kernel; None takes `median_distance(y, y_weights)`, so that all methods compared
            with one reference share one kernel. The paper (section B.2) takes a multiple of it: its lengthscales
            are the median over √2.
        unbiased: The U-statistic, which may be negative; the default V-statistic is never negative.

    Returns:
        The squared discrepancy, between 0 and 2 for the V-statistic.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(0.5, 1, 500), rng.normal(0, 1, 500)
        >>> tilt = np.exp(-0.5 * x + 0.125)  # density of N(0, 1) over that of N(0.5, 1)
        >>> th.metrics.mmd2(x, y) > 10 * th.metrics.mmd2(x, y, x_weights=tilt, unbiased=True)
        True
    """
    first, second = read_two_samples(x, y, x_weights, y_weights)
    number = lengthscale is None or isinstance(lengthscale, int | float | np.number)
    if not number or isinstance(lengthscale, bool) or (lengthscale is not None and not 0 < lengthscale < np.inf):
        raise DataError(
            f"lengthscale must be a finite number > 0, got {lengthscale!r}",
            code="bad-setting",
            fix="None takes the median",
        )
    scale = _find_median(second) if lengthscale is None else float(lengthscale)
    cross = _kernel_sum(first, second, scale)
    own = [_kernel_sum(s, None, scale) for s in (first, second)]
    if unbiased:
        own = [_remove_diagonal(value, s) for value, s in zip(own, (first, second), strict=True)]
        return float(sum(own) - 2 * cross)
    return float(max(sum(own) - 2 * cross, 0.0))  # rounding may leave -1e-16


def median_distance(points: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    """Median distance between two different points of a sample, exactly, in bounded memory.

    A pair counts the product of its weights. The median heuristic (Garreau et al. 2017) takes it, or a multiple, as
    lengthscale: the paper's are this over √2, and sbi takes the median over both samples together. Pass
    `lengthscale` to compare figures.

    Example:
        >>> th.metrics.median_distance([0.0, 1.0, 3.0])
        2.0
    """
    return _find_median(read_sample(points, weights, "points"))


def _remove_diagonal(value: float, s: Sample) -> float:
    diagonal = float(np.sum(s.weights**2))
    if diagonal >= 1 - 1e-12:
        raise DataError(
            "the unbiased MMD needs at least two points with weight", code="too-few-runs", fix="unbiased=False"
        )
    return (value - diagonal) / (1 - diagonal)


def _kernel_sum(a: Sample, b: Sample | None, scale: float) -> float:
    """Sum of u_i v_j k(a_i, b_j); `b` None means a with itself, of which half is computed.

    One matrix product gives the exponent: (a, -|a|^2/2, 1) . (b, 1, -|b|^2/2) = -|a - b|^2/2.
    """
    other = a if b is None else b
    centre = np.median(other.points, axis=0)  # rounding is relative to distances from here; no outlier moves it
    left = (a.points - centre) / scale
    right = (other.points - centre) / scale
    ones = np.ones((len(left), 1)), np.ones((1, len(right)))
    left = np.hstack([left, -0.5 * np.sum(left**2, 1, keepdims=True), ones[0]])
    right = np.vstack([right.T, ones[1], -0.5 * np.sum(right**2, 1)[None, :]])
    total = 0.0
    for chunk in _split(len(left), right.shape[1]):
        start = chunk.start if b is None else 0
        kernel = left[chunk] @ right[:, start:]
        np.minimum(kernel, 0.0, out=kernel)
        if b is None:  # a point is at no distance from itself, however far from the centre
            np.fill_diagonal(kernel, 0.0)
        np.exp(kernel, out=kernel)
        if b is None:  # the block on the diagonal counts once, the blocks to its right twice
            square = len(kernel)
            kernel[:, square:] *= 2.0
        total += float(a.weights[chunk] @ (kernel @ other.weights[start:]))
    return total


def _split(n: int, width: int) -> Iterator[slice]:
    step = max(1, _NUMBERS_PER_BLOCK // max(width, 1))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def _find_median(s: Sample) -> float:
    """Find the weighted median of |y_i - y_j| over pairs i < j: bracketed from a few, then exact over all."""
    if len(s.points) < 2:
        raise DataError(
            "the median distance needs at least two points with weight", code="too-few-runs", fix="give lengthscale"
        )
    median = _find_median_between(s, *_bracket_median(s))
    median = _find_median_between(s, 0.0, np.finfo(float).max) if median is None else median
    if not median:
        raise DataError(
            "more than half of the pairs of points coincide, so the median distance is zero",
            code="bad-setting",
            fix="give lengthscale, or pass distinct points with weights",
        )
    return median


def _bracket_median(s: Sample) -> tuple[float, float]:
    """Two squared distances with the median between them, guessed from 40,000 pairs."""
    if len(s.points) <= 1000:
        return 0.0, np.finfo(float).max
    rng = np.random.default_rng(0)  # decides the speed only: the median itself is exact
    a, b = rng.choice(len(s.points), (2, 40_000), p=s.weights)
    squared = np.sum((s.points[a] - s.points[b]) ** 2, 1)[a != b]
    if not len(squared):
        return 0.0, np.finfo(float).max
    # 40,000 pairs place the median within 0.0025 of its rank: 0.02 is eight standard errors
    low, high = np.quantile(squared, [0.48, 0.52])
    return float(low), float(high)


def _find_median_between(s: Sample, low: float, high: float) -> float | None:
    """Find the median if its square lies in [low, high]: count what is below, sort what is inside."""
    below, inside, inside_weights = 0.0, [], []
    for chunk in _split(len(s.points), len(s.points)):
        squared = np.zeros((chunk.stop - chunk.start, len(s.points) - chunk.start))
        for column in s.points.T:  # differences, not a matrix product: equal points must give zero
            squared += (column[chunk, None] - column[None, chunk.start :]) ** 2
        squared[np.tril_indices(len(squared))] = np.inf  # pairs i < j only
        below += float(s.weights[chunk] @ ((squared < low) @ s.weights[chunk.start :]))
        i, j = np.nonzero((squared >= low) & (squared <= high))
        inside.append(squared[i, j])
        inside_weights.append(s.weights[chunk][i] * s.weights[chunk.start :][j])
    squared, pair_weights = np.concatenate(inside), np.concatenate(inside_weights)
    order = np.argsort(squared)
    squared, mass = squared[order], below + np.cumsum(pair_weights[order])
    half = (1 - float(np.sum(s.weights**2))) / 4  # pairs i < j hold (1 - sum w^2)/2
    slack = 1e-9 * half  # equal weights and an even number of pairs: the mean of the middle two
    if below > half - slack or not len(mass) or mass[-1] < half + slack:
        return None
    first, last = np.searchsorted(mass, [half - slack, half + slack])
    return float(np.sqrt(squared[first]) + np.sqrt(squared[last])) / 2
