"""One look for all figures: quiet axes, few colours that survive greyscale and colour blindness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.metrics.samples import Sample, sample
from thrifty.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's palette, in an order in which neighbours differ in lightness
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY, LIGHT = "#7a7a7a", "#d9d9d9"
BAND = "#bcd3e6"


def new(width: float = 6.0, height: float = 4.0, *, rows: int = 1, columns: int = 1) -> tuple[Figure, Any]:
    """A figure and its axes, drawn without pyplot: nothing global is opened or has to be closed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=120)
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)  # type: ignore[union-attr]
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.ravel():
        quiet(ax)
    return figure, axes


def quiet(ax: Axes) -> None:
    """No box, small ticks."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8, length=3)


def labels(ax: Axes, x: str = "", y: str = "", title: str = "") -> None:
    """Axis labels and a title set left."""
    ax.set_xlabel(x, fontsize=9)
    ax.set_ylabel(y, fontsize=9)
    if title:
        ax.set_title(title, fontsize=10, loc="left")


def legend(ax: Axes, **place: Any) -> None:
    """A frameless legend."""
    ax.legend(frameon=False, fontsize=8, **place)


def plain_ticks(axis: Axis, ratio: float) -> None:
    """0.5, 1 and 2 on a logarithmic axis instead of powers of ten; only decades where it spans many."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if ratio < 200 else (1.0,)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def weighted(draws: npt.ArrayLike, log_weights: npt.ArrayLike | None, name: str) -> Sample:
    """Draws with log weights as a sample with linear weights."""
    from thrifty.weights import normalise

    return sample(draws, None if log_weights is None else normalise(log_weights), name)


def density(
    values: Array,
    weights: Array,
    grid: Array,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    *,
    smooth: float = 1.0,
) -> Array:
    """Weighted Gaussian kernel density on a grid, mirrored at finite bounds so that no mass leaks.

    The width is Silverman's for the effective number of points, times `smooth`.
    """
    size = 1 / np.sum(weights**2)
    centre = weights @ values
    spread = float(np.sqrt(weights @ (values - centre) ** 2))
    order = np.argsort(values)
    steps = np.cumsum(weights[order])
    low, high = values[order][np.minimum(np.searchsorted(steps, [0.25, 0.75]), len(values) - 1)]
    robust = min(spread, (high - low) / 1.349) if high > low else spread
    width = max(smooth * 0.9 * robust * size ** (-1 / 5), 1e-9 * max(np.ptp(grid), 1e-300))
    total = np.zeros(len(grid))
    mirrored = [values] + [2 * end - values for end in bounds if np.isfinite(end)]
    for points in mirrored:
        for start in range(0, len(points), 2000):
            part = slice(start, start + 2000)
            total += np.exp(-0.5 * ((grid[:, None] - points[None, part]) / width) ** 2) @ weights[part]
    total[(grid < bounds[0]) | (grid > bounds[1])] = 0.0  # mirrors are not seen beyond the bounds
    return total / (width * np.sqrt(2 * np.pi))


def span(samples: Sequence[Sample], column: int) -> tuple[float, float]:
    """Range that holds 99.8 % of each sample, a little widened."""
    ends = []
    for s in samples:
        order = np.argsort(s.points[:, column])
        steps = np.cumsum(s.weights[order])
        ends.append(s.points[order, column][np.minimum(np.searchsorted(steps, [0.001, 0.999]), len(order) - 1)])
    low, high = float(np.min(ends)), float(np.max(ends))
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin


def parameter_names(names: Sequence[str], dim: int) -> tuple[str, ...]:
    """Given names, or theta_1, theta_2, ..."""
    if names and len(names) != dim:
        raise DataError(f"{len(names)} names for {dim} parameters", code="bad-name")
    return tuple(names) or (("theta",) if dim == 1 else tuple(f"theta_{i + 1}" for i in range(dim)))
