"""Pareto smoothing of importance weights (Vehtari et al. 2024): the largest weights become those that a fit expects.

    tail     the M = min(n/5, 3 sqrt n) largest weights; a generalised Pareto distribution is fitted to them
    smooth   the i-th of them becomes the distribution's quantile at (i - 1/2)/M, at most the largest weight seen

The estimate gives up a little bias for much variance. The fitted shape k says how far to trust it: below 0.7 as if the
variance were finite; above, no number of draws in reach helps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from thrifty.types import Array
from thrifty.weights import fit_tail, pareto_k


def smooth_weights(log_weights: npt.ArrayLike) -> tuple[Array, float]:
    """Return smoothed log weights (n,) and the shape k of their tail; bounded or few weights stay as they are.

    Example:
        >>> heavy = np.random.default_rng(0).pareto(1.5, 4_000)  # shape 1 / 1.5
        >>> smoothed, k = smooth_weights(np.log(heavy))
        >>> smoothed.shape, bool(0.5 < k < 0.85), bool(smoothed.max() <= np.log(heavy).max())
        ((4000,), True, True)
    """
    values = np.array(log_weights, dtype=np.float64)
    k = pareto_k(values)
    if not np.isfinite(k):
        return values, k
    count = int(min(0.2 * len(values), 3 * np.sqrt(len(values))))
    order = np.argsort(values, kind="stable")
    top, weights = values[order[-1]], np.exp(values[order] - values[order[-1]])
    threshold = weights[-count - 1]
    excess = weights[-count:] - threshold
    shape, scale = fit_tail(excess[excess > 1e-9])
    chance = (np.arange(1, count + 1) - 0.5) / count
    expected = threshold + scale * np.expm1(-shape * np.log1p(-chance)) / shape
    values[order[-count:]] = top + np.log(np.clip(expected, 1e-300, 1.0))
    return values, k
