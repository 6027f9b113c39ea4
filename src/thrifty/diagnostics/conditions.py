"""Outputs as a few uncorrelated numbers, for checks that ask whether a posterior has used them.

A posterior that ignores x, wholly or in part, is calibrated on average: its ranks, its regions and its balls are right.
Only together with x itself can it be told from a right one, so x enters through its leading principal components,
weighted like everything else, on the correlation matrix, each with variance one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thrifty.types import Array
from thrifty.weights import covariance, mean

_LEAST = 1e-6  # share of the variance below which a component is rounding
_REACH = 5.0  # sd at which a component is cut: one wild output must not rule a regression


@dataclass(frozen=True)
class Components:
    """Leading principal components of the outputs.

    Attributes:
        centre: Weighted mean (d,).
        root: Loadings (d, k); `(x - centre) @ root` has weighted covariance one.

    Example:
        >>> x = np.random.default_rng(0).normal(3.0, 2.0, (500, 4))
        >>> Components.of(x, np.zeros(500), 2)(x).shape
        (500, 2)
    """

    centre: Array
    root: Array

    @classmethod
    def of(cls, x: Array, log_weights: Array, most: int) -> Components:
        """At most `most` components of the outputs x (n, *event)."""
        flat = x.reshape(len(x), -1)
        matrix = np.atleast_2d(covariance(flat, log_weights))
        spread = np.sqrt(np.diag(matrix))
        spread = np.where(spread > 0, spread, 1.0)
        values, vectors = np.linalg.eigh(matrix / np.outer(spread, spread))
        kept = np.flatnonzero(values > _LEAST * max(float(values.sum()), 1e-300))[::-1][:most]
        root = vectors[:, kept] / np.sqrt(values[kept]) / spread[:, None]
        return cls(mean(flat, log_weights), root)

    def __call__(self, x: Array) -> Array:
        """Components (n, k) of outputs (n, *event)."""
        flat = x.reshape(len(x), -1)
        return np.clip((flat - self.centre) @ self.root, -_REACH, _REACH)
