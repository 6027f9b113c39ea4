"""Standardised inputs, shared by all cost models: (theta or log theta - centre) / scale."""

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
    """

    logged: npt.NDArray[np.bool_]
    centre: Array
    scale: Array
    floor: Array

    @classmethod
    def of(cls, theta: Array) -> Scaling:
        """Read off the pilot: log where all values are positive and nine tenths of them span a factor of 100."""
        low = theta.min(0)
        lower, upper = np.quantile(theta, [0.05, 0.95], axis=0)  # a uniform parameter spans 19
        logged = (low > 0) & (upper > 100 * lower)
        floor = np.where(low > 0, low, 1.0)
        inner = np.where(logged, np.log(np.where(logged, theta, 1.0)), theta)
        spread = inner.std(0)
        return cls(
            freeze(logged, np.bool_), freeze(inner.mean(0)), freeze(np.where(spread > 0, spread, 1)), freeze(floor)
        )

    def __call__(self, theta: Array) -> Array:
        """Standardised inputs (n, p)."""
        if self.logged.any():
            theta = np.where(self.logged, np.log(np.maximum(theta, self.floor)), theta)
        return (theta - self.centre) / self.scale
