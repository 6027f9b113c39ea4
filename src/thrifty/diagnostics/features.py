"""Summaries of the outputs x, for checks that ask whether a posterior has used them.

A posterior that ignores all or part of x is calibrated on average: its ranks, its regions and its balls are right.
Only together with x itself can it be distinguished from a correct one. x enters in two ways:

- `Components`: the leading principal components of its correlation matrix, weighted, each with variance one.
- `RankRegression` and `cross_fit_predictions`: ridge regressions on the ranks of all statistics, because the leading
  components may all be correlated noise, with the one informative statistic far behind them.

A regression never predicts a run that it was fitted on. Runs are put in a random order and each block is predicted from
the blocks before it: given the past, the prediction for a run is a function of its x alone, so the sum of
(rank x prediction) is a martingale. Two halves that predict each other give no martingale: with many statistics their
two sums are nearly one number counted twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thrifty.types import Array
from thrifty.weights import covariance, ecdf, mean, normalise

_MIN_VARIANCE_SHARE = 1e-6  # a component with less of the variance is rounding error
_MAX_COMPONENT_SDS = 5.0  # components are clipped here: one extreme output must not dominate a regression
_BLOCKS = 4  # nothing predicts the first block: a quarter of the runs is the price
_PENALTIES = np.geomspace(1e-3, 1e4, 8)  # per run: from least squares to the sum of single correlations


@dataclass(frozen=True)
class Components:
    """Project outputs on their leading principal components.

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
        """Find at most `most` components of the outputs x (n, *event)."""
        flat = x.reshape(len(x), -1)
        matrix = np.atleast_2d(covariance(flat, log_weights))
        spread = np.sqrt(np.diag(matrix))
        spread = np.where(spread > 0, spread, 1.0)
        values, vectors = np.linalg.eigh(matrix / np.outer(spread, spread))
        kept = np.flatnonzero(values > _MIN_VARIANCE_SHARE * max(float(values.sum()), 1e-300))[::-1][:most]
        root = vectors[:, kept] / np.sqrt(values[kept]) / spread[:, None]
        return cls(mean(flat, log_weights), root)

    def __call__(self, x: Array) -> Array:
        """Compute the components (n, k) of outputs (n, *event)."""
        flat = x.reshape(len(x), -1)
        return np.clip((flat - self.centre) @ self.root, -_MAX_COMPONENT_SDS, _MAX_COMPONENT_SDS)


@dataclass(frozen=True)
class RankRegression:
    """Predict responses linearly from the ranks of the statistics, which no extreme output can dominate.

    Attributes:
        x: Statistics (n, d) that ranks are taken among.
        log_weights: Of the runs (n,).
        centre: Mean rank of the fitted runs (d,).
        slopes: Of each response (d, q).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(200, 50))
        >>> fit = RankRegression.of(x[:100], x[:100, :1], np.zeros(100))
        >>> bool(np.corrcoef(fit(x[100:])[:, 0], x[100:, 0])[0, 1] > 0.8)
        True
    """

    x: Array
    log_weights: Array
    centre: Array
    slopes: Array

    @classmethod
    def of(cls, x: Array, response: Array, log_weights: Array) -> RankRegression:
        """Fit responses (n, q) by outputs (n, *event)."""
        flat = x.reshape(len(x), -1)
        table = _scaled_ranks(flat, flat, log_weights)
        return cls(flat, log_weights, *_fit_ridge(table, response, normalise(log_weights)))

    def __call__(self, x: Array) -> Array:
        """Predict the responses (k, q), less their mean, at outputs (k, *event)."""
        table = _scaled_ranks(self.x, x.reshape(len(x), -1), self.log_weights)
        return (table - self.centre) @ self.slopes


def encode_by_network(posterior: Any, x: Array) -> Array | None:
    """Return the features (n, k) that the posterior's network sees of outputs (n, *event); None without a network.

    A posterior may have its own `features(x)`; those of thrifty have a frame, and an embedding where one was asked for.
    """
    posterior = getattr(posterior, "members", (posterior,))[0]  # members of an ensemble have nearly the same
    own, trained = getattr(posterior, "features", None), getattr(posterior, "trained", None)
    if callable(own):
        return np.asarray(own(x), dtype=np.float64).reshape(len(x), -1)
    encode = getattr(getattr(trained, "frame", None), "encode_x", None)
    if encode is None:
        return None
    encoded = encode(x)
    embed = getattr(getattr(trained, "net", None), "embedding", None)
    if getattr(trained, "embedding", None) is not None and embed is not None and not getattr(posterior, "sets", False):
        import torch

        with torch.no_grad():
            encoded = embed(torch.from_numpy(encoded)).numpy()
    return np.asarray(encoded, dtype=np.float64).reshape(len(x), -1)


def cross_fit_predictions(x: Array, response: Array, log_weights: Array, rng: np.random.Generator) -> Array:
    """Predict each block from earlier blocks only, so that the score is a martingale.

    Returns:
        Predictions (n, q) of the responses (n, q) from x (n, *event): zero in the first block, scaled to a weighted
        mean square of one.
    """
    flat = x.reshape(len(x), -1)
    table, weights = _scaled_ranks(flat, flat, log_weights), normalise(log_weights)
    blocks = np.array_split(rng.permutation(len(flat)), _BLOCKS)
    predicted = np.zeros_like(response)
    for i in range(1, _BLOCKS):
        past = np.concatenate(blocks[:i])
        centre, slopes = _fit_ridge(table[past], response[past], weights[past])
        predicted[blocks[i]] = (table[blocks[i]] - centre) @ slopes
    size = np.sqrt(weights @ predicted**2)
    return predicted / np.where(size > 0, size, 1.0)


def _scaled_ranks(x: Array, at: Array, log_weights: Array) -> Array:
    """Rank the statistics at (k, d) among those of the runs x (n, d), scaled to unit variance where continuous."""
    columns = [ecdf(column, points, log_weights) for column, points in zip(x.T, at.T, strict=True)]
    return np.sqrt(12.0) * (np.column_stack(columns) - 0.5)


def _fit_ridge(x: Array, response: Array, weights: Array) -> tuple[Array, Array]:
    """Fit centre (d,) and slopes (d, q), each response with the penalty that predicts left-out runs best."""
    from sklearn.linear_model import RidgeCV

    weights = weights / max(float(weights.sum()), 1e-300)
    model = RidgeCV(alphas=len(x) * _PENALTIES, alpha_per_target=response.shape[1] > 1)
    model.fit(x, response, sample_weight=len(x) * weights)
    return weights @ x, np.asarray(model.coef_).reshape(response.shape[1], -1).T
