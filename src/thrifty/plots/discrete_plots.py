"""Panels of whole numbers and categories: a bar for each value, with its label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.metrics.samples import Sample
from thrifty.plots.panel import FEW_VALUES, Panel
from thrifty.plots.style import COLOURS, GREY
from thrifty.priors import Categorical, Independent, Integers
from thrifty.types import Array, Prior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PRIOR_DRAWS = 20_000
CELL = 0.8  # width of a bar, and of the cell of a value beside another parameter
_STRIP_BINS = 90  # of a continuous parameter beside a discrete one


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
        shares = find_prior_shares(panel.prior, i, values)
        ax.hlines(shares, values - CELL / 2, values + CELL / 2, color=GREY, lw=1.6, label="prior")
        tallest = max(tallest, float(shares.max(initial=0.0)))
    ax.set_ylim(0, 1.08 * tallest or 1.0)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def find_prior_shares(prior: Prior, i: int, values: Array) -> Array:
    """Return the prior probability of values of parameter i: exact where parameters are independent, else of draws."""
    rng = np.random.default_rng(0)
    low, high = (float(np.asarray(end)[i]) for end in prior.bounds)
    if isinstance(prior, Integers | Categorical | Independent) and high - low < PRIOR_DRAWS:
        support = np.arange(low, high + 1)
        rows = np.repeat(np.asarray(prior.sample(1, rng)), len(support), axis=0)  # the others stay as they are
        rows[:, i] = support
        log_prob = prior.log_prob(rows)
        shares = np.exp(log_prob - log_prob.max())
        return sum_shares(support, shares / shares.sum(), values)
    drawn = np.asarray(prior.sample(PRIOR_DRAWS, rng))[:, i]
    return sum_shares(drawn, np.full(len(drawn), 1 / len(drawn)), values)


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


def count_cells(s: Sample, panel: Panel, columns: tuple[int, int], k: int) -> tuple[Array, list[Array]]:
    """Return the weight (a, b) on cells of two parameters, smoothed along continuous ones, and ends (c, 2) of each.

    The cells of several sets lie side by side, those of set k in the k-th part of the room of each value; those of two
    discrete parameters only along the first.
    """
    from scipy.ndimage import gaussian_filter

    edges, steps, widths = [], [], []
    smooth = np.clip(0.25 * _STRIP_BINS * np.sum(s.weights**2) ** (1 / 5), 1.5, 12)
    part, parted = CELL / len(panel.samples), columns[0 if panel.levels[columns[0]] is not None else 1]
    for column in columns:
        low, high = panel.ends[column]
        values = np.arange(np.ceil(low), np.floor(high) + 1)
        if panel.levels[column] is None:
            cut = np.linspace(low, high, _STRIP_BINS + 1)
            step, width = [cut[:-1], cut[1:]], float(smooth)
        else:
            cut = np.append(values - 0.5, values[-1] + 0.5)
            begin = values - CELL / 2
            step, width = [begin, begin + CELL], 0.0
            if column == parted:
                step = [begin + k * part, begin + (k + 1) * part]
        edges, steps, widths = [*edges, cut], [*steps, np.column_stack(step)], [*widths, width]
    counts = np.histogram2d(*(s.points[:, c] for c in columns), bins=edges, weights=s.weights)[0]
    return gaussian_filter(counts, widths, mode="nearest"), steps


def draw_cells(
    ax: Axes,
    inside: npt.NDArray[np.bool_],
    steps: list[Array],
    discrete: tuple[bool, bool],
    *,
    fill: float,
    colour: str,
) -> None:
    """Draw the cells (a, b) inside a region: a strip for each value of a discrete parameter, nothing between values.

    Cells are joined along a continuous parameter; two discrete ones have a cell for each pair of values. `fill` is how
    strongly they are filled; below 1 they have an edge.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba

    first = discrete[0]
    lines, (own, along) = (inside, steps) if first else (inside.T, steps[::-1])
    boxes = []
    for line, (low, high) in zip(lines, own, strict=True):
        for begin, end in _find_runs(line, join=not all(discrete)):
            near, far = along[begin, 0], along[end - 1, 1]
            box = np.array([[low, near], [high, near], [high, far], [low, far]])
            boxes.append(box if first else box[:, ::-1])
    edge: dict[str, Any] = {"lw": 0.0} if fill == 1 else {"lw": 1.3, "edgecolors": colour}
    ax.add_collection(PolyCollection(boxes, facecolors=[to_rgba(colour, fill)], **edge))


def _find_runs(line: npt.NDArray[np.bool_], *, join: bool) -> list[tuple[int, int]]:
    """Return begin and end of each run of True, or of each True by itself.

    Example:
        >>> _find_runs(np.array([True, True, False, True]), join=True)
        [(0, 2), (3, 4)]
        >>> _find_runs(np.array([True, True, False, True]), join=False)
        [(0, 1), (1, 2), (3, 4)]
    """
    if not join:
        return [(int(k), int(k) + 1) for k in np.flatnonzero(line)]
    ends = np.flatnonzero(np.diff(np.concatenate([[False], line, [False]]).astype(int))).tolist()
    return list(zip(ends[::2], ends[1::2], strict=True))


def sum_shares(column: Array, weights: Array, values: Array) -> Array:
    """Return the weight of each value in a column (n,)."""
    return np.array([weights[column == value].sum() for value in values])
