"""What x foretells, found among many statistics: a ridge regression that never sees the run it is used on.

The leading components of x may all be noise that goes together, with the one telling statistic far behind them. So x
also enters through a regression on all of it, of what is to be explained. Runs are put in a random order and each
block is foretold by those before it, nothing by later ones: given the past, what is foretold for a run is a function
of its x alone, and a sum of (rank x foretold) is a martingale. Halves that foretell each other are not: with many
statistics their two sums are nearly one number counted twice.

Outputs as a few uncorrelated numbers, for checks that ask whether a posterior has used them.

A posterior that ignores x, wholly or in part, is calibrated on average: its ranks, its regions and its balls are right.
Only together with x itself can it be told from a right one, so x enters through its leading principal components,
weighted like everything else, on the correlation matrix, each with variance one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thrifty.types import Array
from thrifty.weights import covariance, ecdf, mean, normalise

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


_BLOCKS = 4  # the first is foretold by nothing: a quarter of the runs is the price
_PENALTIES = np.geomspace(1e-3, 1e4, 8)  # per run: from least squares to the sum of single correlations


@dataclass(frozen=True)
class Foretelling:
    """Linear in the ranks of the statistics, which no wild output can rule.

    Attributes:
        x: Statistics (n, d) that ranks are taken among.
        log_weights: Of the runs (n,).
        centre: Mean rank of the runs that were fitted (d,).
        slopes: Of each response (d, q).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(200, 50))
        >>> fit = Foretelling.of(x[:100], x[:100, :1], np.zeros(100))
        >>> bool(np.corrcoef(fit(x[100:])[:, 0], x[100:, 0])[0, 1] > 0.8)
        True
    """

    x: Array
    log_weights: Array
    centre: Array
    slopes: Array

    @classmethod
    def of(cls, x: Array, response: Array, log_weights: Array) -> Foretelling:
        """Fit responses (n, q) by outputs (n, *event)."""
        flat = x.reshape(len(x), -1)
        table = levels(flat, flat, log_weights)
        centre, slopes = _ridge(table, response, normalise(log_weights))
        return cls(flat, log_weights, centre, slopes)

    def __call__(self, x: Array) -> Array:
        """What outputs (k, *event) foretell (k, q), less its mean."""
        table = levels(self.x, x.reshape(len(x), -1), self.log_weights)
        return (table - self.centre) @ self.slopes


def foretold(x: Array, response: Array, log_weights: Array, rng: np.random.Generator) -> Array:
    """Responses (n, q) foretold by x (n, *event) and earlier runs; zero in the first block, else of about unit size."""
    flat = x.reshape(len(x), -1)
    table, weights = levels(flat, flat, log_weights), normalise(log_weights)
    blocks = np.array_split(rng.permutation(len(flat)), _BLOCKS)
    told = np.zeros_like(response)
    for i in range(1, _BLOCKS):
        past = np.concatenate(blocks[:i])
        centre, slopes = _ridge(table[past], response[past], weights[past])
        told[blocks[i]] = (table[blocks[i]] - centre) @ slopes
    size = np.sqrt(weights @ told**2)
    return told / np.where(size > 0, size, 1.0)


def levels(x: Array, at: Array, log_weights: Array) -> Array:
    """Statistics at (k, d) as weighted ranks among those of the runs x (n, d), of unit variance where continuous."""
    columns = [ecdf(column, points, log_weights) for column, points in zip(x.T, at.T, strict=True)]
    return np.sqrt(12.0) * (np.column_stack(columns) - 0.5)


def _ridge(x: Array, response: Array, weights: Array) -> tuple[Array, Array]:
    """Centre (d,) and slopes (d, q), each response with the penalty that foretells left-out runs best."""
    weights = weights / max(float(weights.sum()), 1e-300)
    centre = weights @ x
    root = np.sqrt(len(x) * weights)[:, None]
    u, s, vt = np.linalg.svd(root * (x - centre), full_matrices=False)
    target = root * (response - weights @ response)
    along = u.T @ target
    errors, slopes = [], []
    for penalty in len(x) * _PENALTIES:
        shrink = (s**2 / (s**2 + penalty))[:, None]
        left = 1 - np.minimum((u**2) @ shrink, 0.99)
        errors.append((((target - u @ (shrink * along)) / left) ** 2).mean(axis=0))
        slopes.append(vt.T @ ((s / (s**2 + penalty))[:, None] * along))
    best = np.argmin(errors, axis=0)
    return centre, np.stack([slopes[k][:, q] for q, k in enumerate(best)], axis=1)
