"""Sliced Wasserstein distance with weights: optimal transport along lines, exactly solved on each.

On a line the cost of order r is the integral over q of |X(q) - Y(q)|^r, X and Y the weighted quantile
functions; slicing averages it over random directions (Rabin et al. 2012).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.metrics.samples import Sample, read_two_samples
from thrifty.types import Array


def sliced_wasserstein(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
    seed: int = 0,
    *,
    order: float = 2.0,
    directions: int = 100,
) -> float:
    """Sliced Wasserstein distance of an order between x (n, p) and y (m, p), in the units of x.

    Args:
        x: First sample.
        y: Second sample.
        x_weights: Linear weights (n,) of x, or None.
        y_weights: Linear weights (m,) of y, or None.
        seed: Seed of the directions; the same seed compares methods along the same lines.
        order: r >= 1.
        directions: Number of lines; one column needs and uses one. 100 gave a relative
            standard error of 3 % on Gaussians in ten dimensions.

    Example:
        >>> round(th.metrics.sliced_wasserstein([0.0, 1.0], [2.0, 3.0]), 12)
        2.0
    """
    numbers = all(isinstance(v, int | float | np.number) for v in (order, directions))
    if not numbers or not 1 <= order < np.inf or directions < 1 or directions != int(directions):
        raise DataError(
            f"order must be >= 1 and directions a whole number >= 1, got {order!r} and {directions!r}",
            code="bad-setting",
        )
    first, second = read_two_samples(x, y, x_weights, y_weights)
    dim = first.points.shape[1]
    lines = np.ones((1, 1)) if dim == 1 else np.random.default_rng(seed).standard_normal((int(directions), dim))
    lines /= np.linalg.norm(lines, axis=1, keepdims=True)
    costs = [_transport_cost(first, second, line, order) for line in lines]
    return float(np.mean(costs) ** (1 / order))


def _transport_cost(first: Sample, second: Sample, direction: Array, order: float) -> float:
    a, a_steps = _sort_along(first, direction)
    b, b_steps = _sort_along(second, direction)
    steps = np.sort(np.concatenate([a_steps, b_steps]))
    shares = np.diff(steps, prepend=0.0)
    middles = steps - shares / 2  # inside each step both quantile functions are constant
    i = np.minimum(np.searchsorted(a_steps, middles), len(a) - 1)
    j = np.minimum(np.searchsorted(b_steps, middles), len(b) - 1)
    return float(shares @ np.abs(a[i] - b[j]) ** order)


def _sort_along(s: Sample, direction: Array) -> tuple[Array, Array]:
    values = s.points @ direction
    rank = np.argsort(values, kind="stable")
    steps = np.cumsum(s.weights[rank])
    return values[rank], steps / steps[-1]
