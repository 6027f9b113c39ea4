"""A head start for narrow posteriors: an additive regression of theta on x, subtracted before the flow.

    y' = (y - m(c)) / s,      m(c) = b + sum_f h_f(c_f),      h_f piecewise linear

A posterior a thousandth of the prior wide asks a network for one part in a thousand, which it learns slowly; least
squares finds it at once. Used for a parameter only where held-out runs are explained to 98 %; elsewhere m = 0, s = 1.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from thrifty.types import Array

KNOTS = 33  # pieces of each function
MOST = 60  # features: least squares with 60 × 33 unknowns takes a second
EXPLAINED = 0.98  # share of variance; below, the network needs no help and least squares only adds its noise
_RIDGES = (1e-6, 1e-4, 1e-2)


class Shift(nn.Module):
    """m(c) and s as buffers, saved with the network."""

    knots: Tensor
    values: Tensor
    offset: Tensor
    scale: Tensor

    def __init__(self, features: int, parameters: int) -> None:
        super().__init__()
        self.register_buffer("knots", torch.arange(KNOTS, dtype=torch.float32).repeat(features, 1))
        self.register_buffer("values", torch.zeros(features, KNOTS, parameters))
        self.register_buffer("offset", torch.zeros(parameters))
        self.register_buffer("scale", torch.ones(parameters))

    def forward(self, c: Tensor) -> Tensor:
        """M(c) (b, p) of conditions c (b, f)."""
        t = c.T.contiguous()
        right = torch.searchsorted(self.knots, t).clamp(1, KNOTS - 1)
        low, high = self.knots.gather(1, right - 1), self.knots.gather(1, right)
        share = ((t - low) / (high - low)).clamp(0, 1)[..., None]
        index = right[..., None].expand(-1, -1, self.values.shape[-1])
        first, second = self.values.gather(1, index - 1), self.values.gather(1, index)
        return self.offset + (first + share * (second - first)).sum(0)


def fit_shift(y: Array, c: Array, weights: Array, validates: np.ndarray) -> Shift | None:
    """The shift of y (n, p) on conditions c (n, f), or None where it would not help."""
    if c.ndim != 2 or c.shape[1] > MOST or len(y) < 4 * KNOTS:
        return None
    knots = np.stack([_spread(np.quantile(column, np.linspace(0, 1, KNOTS))) for column in c.T])
    design = _hats(c, knots)
    rows, held = ~validates & (weights > 0), validates & (weights > 0)
    total = _mean_square(y[held] - np.average(y[held], axis=0, weights=weights[held]), weights[held])
    best, error = None, total
    for trial in _RIDGES:
        solution = _ridge(design[rows], y[rows], weights[rows], trial)
        left = _mean_square(y[held] - design[held] @ solution[1:] - solution[0], weights[held])
        if best is None or left.sum() < error.sum():
            best, error = solution, left
    use = error < (1 - EXPLAINED) * total
    if best is None or not use.any():
        return None
    best = np.where(use, best, 0.0)
    shift = Shift(c.shape[1], y.shape[1])
    shift.knots.copy_(torch.from_numpy(knots))
    shift.values.copy_(torch.from_numpy(best[1:].reshape(c.shape[1], KNOTS, y.shape[1])))
    shift.offset.copy_(torch.from_numpy(best[0]))
    shift.scale.copy_(torch.from_numpy(np.where(use, np.sqrt(error), 1.0)))
    return shift


def _spread(knots: Array) -> Array:
    """Strictly increasing: ties are moved apart by a ten-thousandth of the range."""
    step = 1e-4 * max(knots[-1] - knots[0], 1e-6)
    return np.maximum.accumulate(knots + step * np.arange(len(knots)))


def _hats(c: Array, knots: Array) -> Array:
    """Weights of each knot in the linear interpolation, (n, f * KNOTS)."""
    out = np.zeros((len(c), len(knots), KNOTS))
    rows = np.arange(len(c))
    for f, own in enumerate(knots):
        right = np.clip(np.searchsorted(own, c[:, f]), 1, KNOTS - 1)
        share = np.clip((c[:, f] - own[right - 1]) / (own[right] - own[right - 1]), 0, 1)
        out[rows, f, right - 1] = 1 - share
        out[rows, f, right] = share
    return out.reshape(len(c), -1)


def _ridge(design: Array, y: Array, weights: Array, ridge: float) -> Array:
    """Intercept and coefficients (1 + f * KNOTS, p) of weighted least squares with a small penalty."""
    share = weights / weights.sum()
    centre, middle = share @ design, share @ y
    centred = (design - centre) * np.sqrt(share)[:, None]
    gram = centred.T @ centred
    target = centred.T @ ((y - middle) * np.sqrt(share)[:, None])
    solution = np.linalg.solve(gram + ridge * np.trace(gram) / len(gram) * np.eye(len(gram)), target)
    return np.vstack([middle - centre @ solution, solution])


def _mean_square(values: Array, weights: Array) -> Array:
    return np.average(values**2, axis=0, weights=weights)
