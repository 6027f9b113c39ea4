"""Give all figures one look: plain axes, few colours that survive greyscale and colour blindness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.metrics.samples import Sample, read_sample
from thrifty.plots.tick_labels import break_name
from thrifty.types import Array
from thrifty.weights import normalise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's palette, in an order in which neighbours differ in lightness
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY, LIGHT = "#7a7a7a", "#d9d9d9"
REGION_COLOURS = ["#a9cce3", "#4f94c4"]  # of the 90 % and 50 % regions
BAND = "#bcd3e6"
MAX_COLUMNS = 4  # of marginals side by side: more are too small to read
CHARACTER_INCHES = 0.078  # of a letter of 9 points
Corner = Literal["best", "upper right", "upper left", "lower left", "lower right"]


def make_figure(width: float = 6.0, height: float = 4.0, *, rows: int = 1, columns: int = 1) -> tuple[Figure, Any]:
    """Make a figure and its axes, without boxes, without pyplot: nothing global is opened or has to be closed."""
    from thrifty.plots.notebook_figure import NotebookFigure

    figure = NotebookFigure(figsize=(width, height), layout="constrained", dpi=120)
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)  # type: ignore[union-attr]
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.ravel():
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8, length=3)
    return figure, axes


def set_labels(ax: Axes, x: str = "", y: str = "", title: str = "") -> None:
    """Set axis labels, broken where they are longer than the panel, and a left-aligned title."""
    width, height = _measure_panel(ax)
    ax.set_xlabel(break_name(x, int(width / CHARACTER_INCHES)), fontsize=9)
    ax.set_ylabel(break_name(y, int(height / CHARACTER_INCHES)), fontsize=9)
    if title:
        ax.set_title(title, fontsize=10, loc="left")


def _measure_panel(ax: Axes) -> tuple[float, float]:
    """Return about the width and height in inches that a panel has for its labels."""
    width, height = ax.get_figure(root=True).get_size_inches()  # type: ignore[union-attr]
    place = ax.get_subplotspec()
    rows, columns = (1, 1) if place is None else place.get_gridspec().get_geometry()
    return 0.82 * width / columns, 0.82 * height / rows


def add_legend(ax: Axes, *, loc: Corner = "best", ncols: int = 1) -> None:
    """Add a legend without a frame."""
    ax.legend(frameon=False, fontsize=8, loc=loc, ncols=ncols)


def add_figure_legend(figure: Figure, handles: Sequence[Any], *, right: bool = False, columns: int = 0) -> None:
    """Add a legend above all axes, in one row unless `columns` is given."""
    loc, columns = "outside upper right" if right else "outside upper center", columns or len(handles)
    figure.legend(handles=handles, loc=loc, ncols=columns, frameon=False, fontsize=8)


def set_plain_ticks(axis: Axis, ratio: float) -> None:
    """Write 0.5, 1 and 2 on a logarithmic axis instead of powers of ten; only decades where it spans many."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

    from thrifty.plots.notebook_figure import LogNumbers, ShortNumbers

    narrow = MaxNLocator(nbins=4, steps=[1, 2, 5, 10])  # below a factor of four 1, 2 and 5 may all lie outside
    axis.set_major_locator(narrow if ratio < 4 else LogLocator(subs=(1.0, 2.0, 5.0) if ratio < 200 else (1.0,)))
    if ratio < 4:
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(ShortNumbers() if ratio < 4 else LogNumbers())
    axis.set_minor_formatter(NullFormatter())


def limit_ticks(ax: Axes, most: int = 3) -> None:
    """Write few and short numbers on small panels, so that none touches the next and none stands apart as a factor."""
    for axis in (ax.xaxis, ax.yaxis):
        if len(axis.get_majorticklocs()):  # an axis without numbers stays so
            shorten_ticks(axis, most)


def shorten_ticks(axis: Axis, most: int = 4) -> None:
    """Write few and short numbers on a linear axis."""
    from matplotlib.ticker import MaxNLocator

    from thrifty.plots.notebook_figure import ShortNumbers

    axis.set_major_locator(MaxNLocator(nbins=most, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(ShortNumbers())


def as_sample(draws: npt.ArrayLike, log_weights: npt.ArrayLike | None, name: str) -> Sample:
    """Convert draws with log weights to a sample with linear weights."""
    return read_sample(draws, None if log_weights is None else normalise(log_weights), name)


def estimate_density(
    values: Array, weights: Array, grid: Array, bounds: tuple[float, float] = (-np.inf, np.inf), *, smooth: float = 1.0
) -> Array:
    """Estimate a weighted Gaussian kernel density on a grid, mirrored at finite bounds so that no mass is lost.

    The width is Silverman's for the effective number of points, times `smooth`.
    """
    size = 1 / np.sum(weights**2)
    centre = weights @ values
    spread = float(np.sqrt(weights @ (values - centre) ** 2))
    low, high = central_interval(values, weights, 0.5)
    robust = min(spread, (high - low) / 1.349) if high > low else spread
    width = max(smooth * 0.9 * robust * size ** (-1 / 5), 1e-9 * max(np.ptp(grid), 1e-300))
    total = np.zeros(len(grid))
    mirrored = [values] + [2 * end - values for end in bounds if np.isfinite(end)]
    for points in mirrored:
        for start in range(0, len(points), 2000):
            part = slice(start, start + 2000)
            total += np.exp(-0.5 * ((grid[:, None] - points[None, part]) / width) ** 2) @ weights[part]
    total[(grid < bounds[0]) | (grid > bounds[1])] = 0.0  # the mirrored part is not shown beyond the bounds
    return total / (width * np.sqrt(2 * np.pi))


def central_interval(values: Array, weights: Array, mass: float) -> tuple[float, float]:
    """Find the ends of the central interval that holds `mass` of the weight."""
    order = np.argsort(values)
    steps, tail = np.cumsum(weights[order]), 0.5 * (1 - mass)
    low, high = values[order][np.minimum(np.searchsorted(steps, [tail, 1 - tail]), len(order) - 1)]
    return float(low), float(high)


def find_range(samples: Sequence[Sample], column: int) -> tuple[float, float]:
    """Find the range that holds 99.8 % of each sample, widened by 4 % on each side."""
    ends = [central_interval(s.points[:, column], s.weights, 0.998) for s in samples]
    low, high = float(np.min(ends)), float(np.max(ends))
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin


def parameter_names(names: Sequence[str], dim: int) -> tuple[str, ...]:
    """Return the given names, or theta_1, theta_2, ..."""
    if names and len(names) != dim:
        raise DataError(f"{len(names)} names for {dim} parameters", code="bad-name")
    return tuple(names) or (("theta",) if dim == 1 else tuple(f"theta_{i + 1}" for i in range(dim)))
