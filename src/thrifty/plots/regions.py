"""Regions of highest density of weighted draws in two dimensions, that hold the stated share of the draws.

    f   the draws' histogram on a fine grid, smoothed with a Gaussian of width h = s · ess^(-1/6), mirrored at bounds
    R   {f >= level},  level = the largest with  sum of W_i over draws with f(theta_i) >= level  >=  share

The scale s is that of the densest half of the draws, and the grid covers the middle of the draws: a few far ones widen
neither. A level read from the mass of f would count its blur: f is wider than the draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from thrifty.plots.style import central_interval
from thrifty.types import Array

SMOOTHING = 1.2  # times Silverman's width in two dimensions: smooth lines, and the level corrects the share
CELLS_PER_WIDTH = 2.0  # of the grid, so that it hides nothing of f
MIN_CELLS, MAX_CELLS = 90, 400  # of the grid, along one parameter
MIDDLE_MASS = 0.98  # of each parameter that the grid covers, with one scale more on each side
HALF_OF_NORMAL = 1.349  # width of the densest half of a normal distribution, in sd


class Smoothed(NamedTuple):
    """A density f (a, b) on a grid with middles (a,) and (b,)."""

    middles: tuple[Array, Array]
    values: Array

    def evaluate_at(self, points: Array) -> Array:
        """Interpolate f at points (n, 2), as lines of equal height do; 0 beyond the grid."""
        from scipy.interpolate import RegularGridInterpolator

        read = RegularGridInterpolator(self.middles, self.values, bounds_error=False, fill_value=0.0)
        return np.asarray(read(points), dtype=np.float64)


def smooth_draws(points: Array, weights: Array, bounds: Sequence[tuple[float, float]]) -> Smoothed:
    """Smooth weighted draws (n, 2) inside bounds; without mass beyond them."""
    from scipy.ndimage import gaussian_filter1d

    factor = SMOOTHING * float(np.sum(weights**2)) ** (1 / 6)
    windows, counts, widths = [], [], []
    for column, ends in zip(points.T, bounds, strict=True):
        scale = measure_scale(column, weights)
        low, high = central_interval(column, weights, MIDDLE_MASS)
        window = max(low - scale, ends[0]), min(high + scale, ends[1])
        cells = np.clip((window[1] - window[0]) * CELLS_PER_WIDTH / (factor * scale), MIN_CELLS, MAX_CELLS)
        windows.append(window)
        counts.append(int(cells))
        widths.append(max(factor * scale * counts[-1] / (window[1] - window[0]), 1.0))
    values, *edges = np.histogram2d(*points.T, bins=counts, range=windows, weights=weights)
    middles = []
    for axis, (cut, window, ends) in enumerate(zip(edges, windows, bounds, strict=True)):
        at_bound = [window[side] == ends[side] for side in (0, 1)]
        rim = min(int(4 * widths[axis]) + 1, counts[axis])
        for side in (0, 1):
            values = _pad(values, axis, side, rim, mirror=at_bound[side])
        values = gaussian_filter1d(values, widths[axis], axis=axis, mode="constant")
        values = values.take(range(rim, rim + counts[axis]), axis=axis)
        middle = (cut[1:] + cut[:-1]) / 2
        for side in (0, 1):  # up to the bound itself, not to the middle of the last cell
            if at_bound[side]:
                values = _pad(values, axis, side, 1, mirror=True)
                middle = np.insert(middle, side * len(middle), ends[side])
        middles.append(middle)
    return Smoothed((middles[0], middles[1]), values)


def _pad(values: Array, axis: int, side: int, width: int, *, mirror: bool) -> Array:
    """Add cells at one end of an axis: those inside, mirrored, or empty ones."""
    widths = [(0, 0), (0, 0)]
    widths[axis] = (width, 0) if side == 0 else (0, width)
    return np.pad(values, widths, mode="symmetric" if mirror else "constant")


def measure_scale(values: Array, weights: Array) -> float:
    """Measure the spread of weighted values (n,) by their densest half, as the sd of a normal distribution.

    Example:
        >>> values = np.append(np.random.default_rng(0).normal(size=2000), [1e6, -1e6])
        >>> bool(0.8 < measure_scale(values, np.full(2002, 1 / 2002)) < 1.1)
        True
    """
    centre = weights @ values
    spread = float(np.sqrt(weights @ (values - centre) ** 2))
    order = np.argsort(values, kind="stable")
    values, steps = values[order], np.cumsum(weights[order])
    before = steps - weights[order]
    last = np.searchsorted(steps, before + 0.5 * steps[-1])
    inside = last < len(values)
    half = float((values[last[inside]] - values[inside]).min()) if inside.any() else 0.0
    scale = min(half / HALF_OF_NORMAL, spread) if half > 0 else spread
    return max(scale, 1e-9 * float(np.abs(values).max()), 1e-300)  # equal values differ by rounding


def find_region_levels(density: Array, weights: Array, shares: Sequence[float]) -> list[float]:
    """Find the density that the stated shares of the draws reach, in rising order.

    Args:
        density: At the draws (n,).
        weights: Of the draws (n,), which sum to one.
        shares: Of the weight, such as 0.5 and 0.9.

    Example:
        >>> find_region_levels(np.array([4.0, 1.0, 3.0, 2.0]), np.full(4, 0.25), (0.5,))
        [3.0]
    """
    order = np.argsort(-density, kind="stable")
    steps = np.cumsum(weights[order])
    at = np.minimum(np.searchsorted(steps, np.array(shares) * (1 - 1e-12)), len(order) - 1)
    return sorted(density[order][at].tolist())
