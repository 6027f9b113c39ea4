"""Draw posteriors: pairs of parameters, and marginals of several methods on one axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.metrics.samples import Sample
from thrifty.plots import style
from thrifty.plots.discrete_plots import count_cells, draw_bars, draw_cells, label_values
from thrifty.plots.panel import Panel, choose_prior, read_sets
from thrifty.plots.regions import find_region_levels, smooth_draws
from thrifty.plots.style import COLOURS, GREY
from thrifty.priors import as_prior
from thrifty.types import Array, Prior

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEGEND_LINE_INCHES = 0.18
_SHARES = (0.5, 0.9)  # of the draws inside the regions


def pairs(
    draws: Any,
    x_o: npt.ArrayLike | None = None,
    *,
    log_weights: npt.ArrayLike | None = None,
    prior: Any = None,
    truth: npt.ArrayLike | None = None,
    names: Sequence[str] = (),
    others: Mapping[str, Any] | None = None,
    label: str = "posterior",
    seed: int = 0,
) -> Figure:
    """Draw a pair plot: marginals on the diagonal, 50 and 90 % regions below it.

    Args:
        draws: Draws (n, p), or what holds some: a posterior, a `Study`, `Simulations`.
        x_o: The observation, for a posterior that answers for any.
        log_weights: Of the draws (n,); used in densities and regions.
        prior: Drawn in grey on the diagonal, its bounds respected; by default that of a posterior. False leaves it out.
        truth: Parameters (p,) to mark.
        names: Of the parameters; by default those of the draws or the prior.
        others: Label -> more draws, or what holds some; drawn as lines on the same axes.
        label: Of the first.
        seed: Of draws from posteriors.

    Example:
        >>> figure = th.plots.pairs(np.random.default_rng(0).normal(size=(100, 2)), names=["a", "b"])
        >>> len(figure.axes)
        3
    """
    sets = read_sets({label: draws}, others or {}, x_o, log_weights, seed)
    first = next(iter(sets.values()))
    panel = Panel.of(sets, choose_prior(prior, first), truth, names)
    side = panel.dim * (2.3 if panel.dim <= 3 else 1.8) if panel.dim > 1 else 3.4
    figure, axes = style.make_figure(side, side, rows=panel.dim, columns=panel.dim)
    for i in range(panel.dim):
        for j in range(panel.dim):
            if j > i:
                axes[i, j].remove()
            else:
                _draw_panel(axes[i, j], panel, (j, i))
    shown = {"prior": panel.prior is not None, "truth": panel.truth is not None, "regions": panel.dim > 1}
    _add_legend(figure, tuple(sets), **shown)
    return figure


def marginals(
    methods: Mapping[str, Any],
    x_o: npt.ArrayLike | None = None,
    *,
    log_weights: Mapping[str, npt.ArrayLike] | None = None,
    prior: Any = None,
    truth: npt.ArrayLike | None = None,
    names: Sequence[str] = (),
    seed: int = 0,
) -> Figure:
    """Draw the marginal densities of several methods, one axis per parameter.

    Args:
        methods: Label to draws (n, p), or to what holds some: a posterior, a `Study`, `Simulations`.
        x_o: The observation, for posteriors that answer for any.
        log_weights: Label to log weights (n,), for the methods that have them.
        prior: Drawn in grey.
        truth: Parameters (p,) to mark.
        names: Of the parameters.
        seed: Of draws from posteriors.

    Example:
        >>> figure = th.plots.marginals({"NPE": np.random.default_rng(0).normal(size=(100, 2))}, names=["a", "b"])
        >>> len(figure.axes)
        2
    """
    sets = read_sets(methods, {}, x_o, log_weights or {}, seed)
    panel = Panel.of(sets, None if prior is None or prior is False else as_prior(prior), truth, names)
    rows = -(-panel.dim // style.MAX_COLUMNS)
    columns = min(panel.dim, style.MAX_COLUMNS)
    figure, axes = style.make_figure(3.1 * columns + 0.6, 2.4 * rows + 0.4, rows=rows, columns=columns)
    for i, ax in enumerate(axes.ravel()):
        if i >= panel.dim:
            ax.remove()
            continue
        _draw_marginal(ax, panel, i, fill=False)
        if panel.truth is not None:
            ax.axvline(float(panel.truth[i]), color="black", lw=1, ls=(0, (4, 2)), label="truth")
        ax.set_xlim(*panel.ends[i])
        style.limit_ticks(ax, most=5)
        label_values(ax.xaxis, panel, i)
        style.set_labels(ax, panel.names[i], "density" if i % columns == 0 else "")
    style.add_figure_legend(figure, axes[0][0].get_legend_handles_labels()[0])
    return figure


def _draw_panel(ax: Axes, panel: Panel, columns: tuple[int, int]) -> None:
    """Draw the panel of two parameters, or the marginal where both are the same."""
    j, i = columns
    if i == j:
        _draw_marginal(ax, panel, i, fill=True)
    else:
        for k, sample in enumerate(panel.samples.values()):
            _draw_regions(ax, sample, panel, columns, k)
        ax.set_ylim(*panel.ends[i])
    if panel.truth is not None:
        _mark_truth(ax, panel.truth, j, None if i == j else i)
    ax.set_xlim(*panel.ends[j])
    style.limit_ticks(ax)
    label_values(ax.xaxis, panel, j)
    if i != j:
        label_values(ax.yaxis, panel, i)
    style.set_labels(ax, panel.names[j] if i == panel.dim - 1 else "", panel.names[i] if j == 0 and i > 0 else "")
    if i < panel.dim - 1:
        ax.set_xticklabels([])
    if j > 0 and i != j:
        ax.set_yticklabels([])


def _draw_marginal(ax: Axes, panel: Panel, i: int, *, fill: bool) -> None:
    """Draw the densities of one parameter; with `fill`, the area under the first."""
    if panel.levels[i] is not None:
        draw_bars(ax, panel, i, fill=fill)
        return
    grid, tallest = np.linspace(*panel.ends[i], 300), 0.0
    if panel.prior is not None:
        _draw_prior(ax, panel.prior, i, panel.ends[i])
    for k, (label, s) in enumerate(panel.samples.items()):
        colour = COLOURS[k % len(COLOURS)]
        curve = style.estimate_density(s.points[:, i], s.weights, grid, panel.bounds[i])
        ax.plot(grid, curve, color=colour, lw=1.6, label=label)
        if fill and k == 0:
            ax.fill_between(grid, curve, color=colour, alpha=0.15, lw=0)
        tallest = max(tallest, float(curve.max()))
    ax.set_ylim(0, 1.08 * tallest or 1.0)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _draw_prior(ax: Axes, prior: Prior, i: int, ends: tuple[float, float]) -> None:
    values = np.asarray(prior.sample(20_000, np.random.default_rng(0)))[:, i]
    grid = np.linspace(*ends, 300)
    bounds = float(prior.bounds[0][i]), float(prior.bounds[1][i])
    curve = style.estimate_density(values, np.full(len(values), 1 / len(values)), grid, bounds, smooth=2.5)
    ax.plot(grid, curve, color=GREY, lw=1.2, label="prior")


def _draw_regions(ax: Axes, s: Sample, panel: Panel, columns: tuple[int, int], k: int) -> None:
    """Draw regions of highest density: those of set 0 filled, others as lines."""
    line = None if k == 0 else COLOURS[k % len(COLOURS)]
    discrete = panel.levels[columns[0]] is not None, panel.levels[columns[1]] is not None
    if any(discrete):
        cells, steps = count_cells(s, panel, columns, k)
        for i, (level, colour) in enumerate(zip(_find_levels(cells), style.REGION_COLOURS, strict=True)):
            inside = (cells >= level) & (cells > 0)
            fill = 1.0 if line is None else 0.4 * i  # of others, the inner region is tinted
            draw_cells(ax, inside, steps, discrete, fill=fill, colour=line or colour)
        return
    points = s.points[:, list(columns)]
    smooth = smooth_draws(points, s.weights, [panel.bounds[c] for c in columns])
    cut = find_region_levels(smooth.evaluate_at(points), s.weights, _SHARES)
    fill = [*cut, float(smooth.values.max()) * 1.01]
    if len(set(fill)) < len(fill) or cut[0] <= 0:
        return
    if line is None:
        ax.contourf(*smooth.middles, smooth.values.T, levels=fill, colors=style.REGION_COLOURS, antialiased=True)
    else:
        ax.contour(*smooth.middles, smooth.values.T, levels=cut, colors=[line], linewidths=1.3)


def _find_levels(values: Array) -> list[float]:
    flat = np.sort(values.ravel())[::-1]
    steps = np.cumsum(flat) / flat.sum()
    return sorted(float(flat[np.searchsorted(steps, level)]) for level in _SHARES)


def _mark_truth(ax: Axes, truth: Array, j: int, i: int | None) -> None:
    dashes = {"color": "black", "lw": 0.9, "ls": (0, (4, 2))}
    ax.axvline(float(truth[j]), **dashes)  # type: ignore[arg-type]
    if i is not None:
        ax.axhline(float(truth[i]), **dashes)  # type: ignore[arg-type]


def _add_legend(figure: Figure, labels: Sequence[str], *, prior: bool, truth: bool, regions: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Line2D([], [], color=COLOURS[0], lw=1.6, label=labels[0])]
    levels = zip(("90%", "50%"), style.REGION_COLOURS, strict=True)
    handles += [Patch(color=colour, label=label) for label, colour in reversed(list(levels))] if regions else []
    handles += [
        Line2D([], [], color=COLOURS[(k + 1) % len(COLOURS)], lw=1.6, label=label) for k, label in enumerate(labels[1:])
    ]
    handles += [Line2D([], [], color=GREY, lw=1.2, label="prior")] if prior else []
    handles += [Line2D([], [], color="black", lw=0.9, ls=(0, (4, 2)), label="truth")] if truth else []
    room = 10.5 * figure.get_figwidth()  # characters of a legend's font in one row
    columns = min(max(int(room // (max(len(str(h.get_label())) for h in handles) + 6)), 1), len(handles))
    lines = -(-len(handles) // columns)
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE_INCHES * lines)  # the panels keep their size
    style.add_figure_legend(figure, handles, right=True, columns=columns)
