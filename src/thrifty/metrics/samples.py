"""Two samples that may carry weights: read, checked and brought to one form.

Weights here are linear and non-negative (`x_weights`, `y_weights`), as `th.normalise(log_weights)`
gives them; None means equal weights. Each is scaled to sum to one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError, WeightError
from thrifty.types import Array, as_rows


@dataclass(frozen=True)
class Sample:
    """Points (n, p) with weights (n,) that are positive and sum to one."""

    points: Array
    weights: Array

    @property
    def ess(self) -> float:
        """Effective number of points, 1 / sum w^2."""
        return float(1 / np.sum(self.weights**2))

    @property
    def has_equal_weights(self) -> bool:
        """Whether every point counts the same."""
        return bool(np.ptp(self.weights) <= 1e-12 * self.weights[0])

    def merge_copies(self) -> Sample:
        """Join equal rows into one and add their weights: the same distribution, fewer points."""
        points, which = np.unique(self.points, axis=0, return_inverse=True)
        added = np.bincount(which.ravel(), weights=self.weights, minlength=len(points))
        return Sample(points, added.astype(np.float64))


def read_sample(points: npt.ArrayLike, weights: npt.ArrayLike | None, name: str) -> Sample:
    """Read points and weights, leaving out the points of weight zero.

    Raises:
        DataError: Not a finite table, or empty.
        WeightError: Weights of another length, negative, NaN or all zero.
    """
    table = as_rows(points, name)
    if len(table) == 0:
        raise DataError(f"{name} has no rows", code="bad-array", fix="pass at least two points")
    bad = ~np.isfinite(table).all(1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"{name}: {int(bad.sum())} of {len(table)} rows are not finite (first row {row}: {table[row]})",
            code="bad-array",
            why="a distance to such a point is undefined",
            fix="leave failed runs out, e.g. simulations.valid()",
        )
    if weights is None:
        return Sample(table, np.full(len(table), 1 / len(table)))
    values = _as_linear_weights(weights, len(table), name)
    keep = values > 0
    return Sample(table[keep], values[keep] / values[keep].sum())


def read_two_samples(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
) -> tuple[Sample, Sample]:
    """Read two samples, which must have the same number of columns."""
    first, second = read_sample(x, x_weights, "x"), read_sample(y, y_weights, "y")
    if first.points.shape[1] != second.points.shape[1]:
        raise DataError(
            f"x has {first.points.shape[1]} columns, y has {second.points.shape[1]}",
            code="bad-array",
            fix="compare samples of the same parameters, in the same order",
        )
    return first, second


def _as_linear_weights(weights: npt.ArrayLike, n: int, name: str) -> Array:
    try:
        values = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise WeightError(f"{name}_weights are not numbers: {error}", code="bad-weights") from None
    if values.shape != (n,):
        raise WeightError(f"{name}_weights has shape {values.shape}, but {name} has {n} rows", code="bad-weights")
    bad = ~(values >= 0) | ~np.isfinite(values)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise WeightError(
            f"{name}_weights: {int(bad.sum())} of {n} values are negative or not finite"
            f" (first at row {row}: {values[row]:g})",
            code="bad-weights",
            why="metrics take linear weights, not log weights",
            fix="pass th.normalise(log_weights)",
        )
    if not values.any():
        raise WeightError(f"{name}_weights are all zero", code="bad-weights")
    return values / values.max()
