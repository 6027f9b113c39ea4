"""Panels of whole numbers and categories: a bar for each value, with its label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thrifty.plots.panel import FEW_VALUES, Panel
from thrifty.plots.style import COLOURS, GREY
from thrifty.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PRIOR_DRAWS = 20_000
CELL = 0.8  # width of a bar, and of the cell of a value beside another parameter
_JITTER_SEED = 20_250_506  # a figure is the same each time


def draw_bars(ax: Axes, panel: Panel, i: int, *, fill: bool) -> None:
    """Draw the probability of each value of one parameter: bars side by side, the prior as a grey line over each."""
    low, high = panel.ends[i]
    values = np.arange(np.ceil(low), np.floor(high) + 1)
    width, tallest = CELL / len(panel.samples), 0.0
    for k, (label, s) in enumerate(panel.samples.items()):
        shares = sum_shares(s.points[:, i], s.weights, values)
        places = values + (k + 0.5) * width - CELL / 2
        colour = COLOURS[k % len(COLOURS)]
        ax.bar(places, shares, width, color=colour, alpha=0.45 if fill else 0.8, edgecolor=colour, label=label)
        tallest = max(tallest, float(shares.max(initial=0.0)))
    if panel.prior is not None:
        drawn = np.asarray(panel.prior.sample(PRIOR_DRAWS, np.random.default_rng(0)))[:, i]
        shares = sum_shares(drawn, np.full(len(drawn), 1 / len(drawn)), values)
        ax.hlines(shares, values - CELL / 2, values + CELL / 2, color=GREY, lw=1.6, label="prior")
        tallest = max(tallest, float(shares.max(initial=0.0)))
    ax.set_ylim(0, 1.08 * tallest or 1.0)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def label_values(axis: Any, panel: Panel, i: int) -> None:
    """Write the labels of categories, or the whole numbers where they are few, at an axis; others stay as they are."""
    level = panel.levels[i]
    if level is None:
        return
    low, high = panel.ends[i]
    label_axis(axis, level, np.arange(np.ceil(low), np.floor(high) + 1))


def label_axis(axis: Any, level: tuple[str, ...], values: Array) -> None:
    """Write the labels of categories at an axis, or whole numbers where they are few."""
    if level or len(values) <= FEW_VALUES:
        axis.set_ticks(values, [level[int(v)] if level else f"{v:.0f}" for v in values])


def make_steps(values: Array, shares: Array) -> tuple[Array, Array]:
    """Return places and heights of a line that is level over the cell of each value."""
    edges = np.append(values - 0.5, values[-1] + 0.5)
    return edges, np.append(shares[:1], shares)


def spread_values(values: Array, level: tuple[str, ...] | None, column: int) -> Array:
    """Spread a discrete column (n,) over cells, so that regions have an area; others stay as they are."""
    if level is None:
        return values
    return values + CELL * (np.random.default_rng([_JITTER_SEED, column]).random(len(values)) - 0.5)


def sum_shares(column: Array, weights: Array, values: Array) -> Array:
    """Return the weight of each value in a column (n,)."""
    return np.array([weights[column == value].sum() for value in values])
