"""Draw the distribution of one column as it is: counts as bars, other numbers as a density that ends at zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thrifty.plots import style
from thrifty.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_BARS = 40  # counts over a wider range are drawn as a density: bars would be hairlines


def draw_distribution(
    ax: Axes, values: Array, weights: Array, colour: str, *, ends: tuple[float, float] | None = None, label: str = ""
) -> None:
    """Draw weighted values (n,) between two ends, by default those of the values."""
    low, high = ends or find_column_ends(values, weights)
    if is_counts(values) and high - low <= MAX_BARS:
        counts = np.arange(np.floor(low), np.ceil(high) + 1)
        shares = [float(weights[values == count].sum()) for count in counts]
        ax.bar(counts, shares, width=0.85, color=colour, alpha=0.45, lw=0, label=label)
        ax.set_xlim(counts[0] - 0.6, counts[-1] + 0.6)
    else:
        grid = np.linspace(low, high, 250)
        curve = style.estimate_density(values, weights, grid, find_support(values))
        ax.fill_between(grid, curve, color=colour, alpha=0.25, lw=0)
        ax.plot(grid, curve, color=colour, lw=1.4, label=label)
        ax.set_xlim(low, high)
    ax.set_ylim(bottom=0)
    ax.set_yticks([])


def is_counts(values: Array) -> bool:
    """Return whether all values are whole numbers of at least 0.

    Example:
        >>> is_counts(np.array([0.0, 3.0])), is_counts(np.array([0.5, 3.0])), is_counts(np.array([-1.0, 3.0]))
        (True, False, False)
    """
    return bool((values >= 0).all() and (values == np.round(values)).all())


def find_support(values: Array) -> tuple[float, float]:
    """Return bounds for a density: no mass below zero where no value is negative.

    Example:
        >>> find_support(np.array([0.1, 2.0])), find_support(np.array([-0.1, 2.0]))
        ((0.0, inf), (-inf, inf))
    """
    return (0.0, np.inf) if (values >= 0).all() else (-np.inf, np.inf)


def find_column_ends(values: Array, weights: Array, *more: float) -> tuple[float, float]:
    """Return the range that holds nearly all of the values and some more numbers, inside the support."""
    low, high = style.central_interval(values, weights, 0.996)
    low, high = min(low, *more, low), max(high, *more, high)
    margin = 0.08 * (high - low) or 0.5
    least = find_support(np.append(values, more))[0]
    return max(low - margin, least), high + margin
