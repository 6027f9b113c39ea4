"""Standardised inputs, shared by all cost models: (theta or log theta - centre) / scale; categories as 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thrifty.types import Array, freeze


@dataclass(frozen=True)
class Scaling:
    """Centre and scale of each input, after a logarithm where an input spans decades.

    Attributes:
        logged: Which inputs enter as logarithms (p,).
        centre, scale: Per input (p,).
        floor: Smallest positive value seen: a later theta below it is read as it, so that the log exists.
        categories: Number of categories of each parameter (p,), 0 for numbers; None where all are numbers. A parameter
            of k categories is k inputs, one of which is 1 before they are standardised.
    """

    logged: npt.NDArray[np.bool_]
    centre: Array
    scale: Array
    floor: Array
    categories: Array | None = None

    @classmethod
    def of(cls, theta: Array, categories: Array | None = None) -> Scaling:
        """Read off the pilot: log where all values are positive and nine tenths of them span a factor of 100."""
        theta = split_categories(theta, categories)
        low = theta.min(0)
        lower, upper = np.quantile(theta, [0.05, 0.95], axis=0)  # a uniform parameter spans 19
        logged = (low > 0) & (upper > 100 * lower)
        floor = np.where(low > 0, low, 1.0)
        inner = np.where(logged, np.log(np.where(logged, theta, 1.0)), theta)
        spread = inner.std(0)
        return cls(
            freeze(logged, np.bool_),
            freeze(inner.mean(0)),
            freeze(np.where(spread > 0, spread, 1)),
            freeze(floor),
            None if categories is None else freeze(categories),
        )

    @property
    def dim(self) -> int:
        """Number of parameters, p."""
        return len(self.centre) if self.categories is None else len(self.categories)

    def __call__(self, theta: Array) -> Array:
        """Standardised inputs (n, p), or more where parameters are categories."""
        theta = split_categories(theta, self.categories)
        if self.logged.any():
            theta = np.where(self.logged, np.log(np.maximum(theta, self.floor)), theta)
        return (theta - self.centre) / self.scale


def split_categories(theta: Array, categories: Array | None) -> Array:
    """Replace each column of codes by one column of 0 and 1 for each category."""
    if categories is None:
        return theta
    columns = zip(theta.T, categories.astype(int), strict=True)
    parts = [column[:, None] if k == 0 else (column[:, None] == np.arange(k)).astype(float) for column, k in columns]
    return np.hstack(parts)
