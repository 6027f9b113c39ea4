"""Draw costs and failures over the parameters, residuals of the cost model, and the cost of each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from thrifty.durations import choose_unit
from thrifty.errors import DataError
from thrifty.plots import style
from thrifty.plots.discrete_plots import label_axis
from thrifty.plots.drawn import pick_check
from thrifty.plots.style import COLOURS, GREY, LIGHT
from thrifty.priors import as_prior
from thrifty.types import Array, Cost, find_discrete, levels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


class CostComparison(Protocol):
    """Result of `th.diagnostics.cost_check`: predicted and measured costs (n,) of runs at theta (n, p)."""

    theta: Final[Array]
    predicted: Final[Array]
    measured: Final[Array]
    score: Final[float]
    names: Final[tuple[str, ...]]
    unit: Final[str]


class FinishProbability(Protocol):
    """P(finish | theta) on grids, with its runs (n, p) and whether each finished (n,): `campaign.failure_map()`."""

    theta: Final[Array]
    finished: Final[npt.NDArray[np.bool_]]
    names: Final[tuple[str, ...]]

    def grid(self, *names: str, points: int = ...) -> tuple[list[Array], Array]:
        """Return values along one or two parameters and P(finish) over them, the others at their median."""
        ...

    def movers(self) -> list[int]:
        """Return the one or two parameters along which P(finish) changes most."""
        ...


def cost_surface(
    cost: Cost,
    prior: Any,
    *,
    pilot: npt.ArrayLike | None = None,
    seconds: npt.ArrayLike | None = None,
    names: Sequence[str] = (),
    unit: str = "",
) -> Figure:
    """Draw the predicted cost over the prior, with the pilot runs to which it was fitted.

    One parameter: a curve. More: a map over the two parameters that change cost most, the others at their prior
    median.

    Args:
        cost: The cost model, (n, p) -> (n,).
        prior: The prior; its central 99 % is shown.
        pilot: Parameters (m, p) of the pilot runs.
        seconds: Their measured costs (m,), shown in the same colours.
        names: Of the parameters.
        unit: Of cost; by default the model's own.

    Example:
        >>> figure = th.plots.cost_surface(lambda theta: 1 + theta[:, 0], th.Uniform(0, 1, names=["a"]))
        >>> len(figure.axes)
        1
    """
    known = as_prior(prior)
    names = style.parameter_names(names or known.names, known.dim)
    draws = known.sample(4000, np.random.default_rng(0))
    low, high = np.quantile(draws, [0.005, 0.995], axis=0)
    points = None if pilot is None else np.asarray(pilot, dtype=np.float64).reshape(-1, known.dim)
    size, unit = _choose_axis_unit(np.asarray(cost(draws)), unit or str(getattr(cost, "unit", "s")))
    measured = None if seconds is None else np.asarray(seconds, dtype=np.float64) / size
    if points is not None and measured is not None and len(points) != len(measured):
        raise DataError(f"{len(points)} pilot runs, {len(measured)} costs", code="bad-array")
    discrete = find_discrete(levels_of(known))
    cost = _at_values(cost, discrete, size)
    if known.dim == 1:
        figure = _draw_curve(cost, (float(low[0]), float(high[0])), points, measured)
        style.set_labels(figure.axes[0], names[0], f"cost per run [{unit}]", "Cost of a run")
        return figure
    i, j = _find_movers(np.asarray(cost(draws)), draws)
    figure = _draw_map(cost, draws, (i, j), points, measured, discrete=discrete)
    figure.axes[1].set_ylabel(f"cost per run [{unit}]", fontsize=9)
    rest = "" if len(names) == 2 else " (others at their median)"
    style.set_labels(figure.axes[0], names[i], names[j], f"Predicted cost{rest}")
    for axis, column in ((figure.axes[0].xaxis, i), (figure.axes[0].yaxis, j)):
        if (level := levels_of(known)[column]) is not None:
            label_axis(axis, level, np.unique(draws[:, column]))
    return figure


def _choose_axis_unit(costs: Array, unit: str) -> tuple[float, str]:
    """Choose one unit for all numbers of a cost axis: that of the middle of its logarithm."""
    positive = costs[np.isfinite(costs) & (costs > 0)]
    return choose_unit(float(np.sqrt(positive.min()) * np.sqrt(positive.max())) if len(positive) else 1.0, unit)


def _at_values(cost: Cost, discrete: npt.NDArray[np.bool_], size: float) -> Cost:
    """Return the cost in units of a size, at the nearest possible parameters: whole numbers in the discrete columns."""
    return lambda theta: (
        np.asarray(cost(np.where(discrete, np.round(theta), theta) if discrete.any() else theta)) / size
    )


def _draw_curve(cost: Cost, ends: tuple[float, float], points: Array | None, measured: Array | None) -> Figure:
    figure, axes = style.make_figure(5.0, 3.2)
    ax = axes[0, 0]
    grid = np.linspace(*ends, 300)
    ax.plot(grid, np.asarray(cost(grid[:, None])), color=COLOURS[0], lw=1.8, label="predicted")
    if points is not None and measured is not None:
        ax.plot(points[:, 0], measured, "o", ms=4, mfc="none", mec=COLOURS[1], label="pilot runs")
    _set_log_cost(ax.yaxis)
    style.shorten_ticks(ax.xaxis, 6)
    style.add_legend(ax)
    return figure


def _set_log_cost(axis: Axis) -> None:
    """Make an axis logarithmic, with plain numbers."""
    (axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale)("log")
    low, high = axis.get_view_interval()
    style.set_plain_ticks(axis, high / low)


def _find_movers(costs: Array, draws: Array) -> tuple[int, int]:
    """Find the two parameters with the largest effect on log cost, in their own order."""
    ranks = np.argsort(np.argsort(draws, axis=0), axis=0) / len(draws) - 0.5
    terms = np.abs(np.asarray(np.corrcoef(np.column_stack([np.log(costs), ranks]).T))[0, 1:])
    first, second = np.sort(np.argsort(-np.nan_to_num(terms), kind="stable")[:2])
    return int(first), int(second)


def _draw_map(
    cost: Cost,
    draws: Array,
    columns: tuple[int, int],
    points: Array | None,
    measured: Array | None,
    *,
    discrete: npt.NDArray[np.bool_],
) -> Figure:
    from matplotlib.colors import LogNorm

    i, j = columns
    cells = [0.499 if discrete[c] else 0.0 for c in columns]  # a cell around each whole number
    shares = np.array([0.005, 0.995])
    ends = [np.quantile(draws[:, c], shares) + np.array([-w, w]) for c, w in zip(columns, cells, strict=True)]
    axes_grid = [np.linspace(end[0], end[1], 120) for end in ends]
    table = np.tile(np.median(draws, axis=0), (120 * 120, 1))
    mesh = np.meshgrid(*axes_grid)
    table[:, i], table[:, j] = mesh[0].ravel(), mesh[1].ravel()
    surface = np.asarray(cost(table)).reshape(120, 120)
    shown = surface if measured is None else np.concatenate([surface.ravel(), measured])
    low, high = float(shown.min()), float(max(shown.max(), 1.01 * shown.min()))
    norm = LogNorm(low, high)
    figure, axes = style.make_figure(5.2, 4.2)
    ax = axes[0, 0]
    image = ax.pcolormesh(*axes_grid, surface, norm=norm, cmap="viridis", shading="auto", rasterized=True)
    if points is not None:
        fill: dict[str, Any] = {"c": "none"} if measured is None else {"c": measured, "norm": norm, "cmap": "viridis"}
        edge = "white" if measured is None else "black"
        ax.scatter(points[:, i], points[:, j], s=26, edgecolors=edge, linewidths=0.8, label="pilot runs", **fill)
        ax.legend(fontsize=8, loc="upper left", framealpha=0.85, edgecolor="none")
    ax.set_xlim(*ends[0])
    ax.set_ylim(*ends[1])
    style.limit_ticks(ax, most=5)
    bar = figure.colorbar(image, ax=ax)
    bar.ax.tick_params(labelsize=8)
    style.set_plain_ticks(bar.ax.yaxis, high / low)
    return figure


def cost_residuals(check: CostComparison) -> Figure:
    """Draw measured against predicted cost, and their ratio along each parameter.

    Args:
        check: Result of `th.diagnostics.cost_check`, or a diagnosis in which it was made.

    Example: see `th.diagnose`. `found.figures()` draws all of its figures.
    """
    check = pick_check(check, "cost_model", "predicted", "cost_check")
    dim = min(check.theta.shape[1], 4)
    figure, axes = style.make_figure(3.2 * (dim + 1), 3.1, columns=dim + 1)
    ax = axes[0, 0]
    both = np.concatenate([check.predicted, check.measured])
    size, unit = _choose_axis_unit(both, check.unit)
    ends = float(both.min()) / size, float(both.max()) / size
    ax.plot(ends, ends, color=GREY, lw=1)
    ax.plot(check.predicted / size, check.measured / size, ".", ms=3, alpha=0.4, color=COLOURS[0], rasterized=True)
    for axis in (ax.xaxis, ax.yaxis):
        _set_log_cost(axis)
    style.set_labels(ax, f"predicted [{unit}]", f"measured [{unit}]", f"R² = {check.score:.2f} on log cost")
    ratio = check.measured / check.predicted
    for i, ax in enumerate(axes[0, 1:]):
        _draw_trend(ax, check.theta[:, i], ratio)
        style.shorten_ticks(ax.xaxis)
        style.set_labels(ax, check.names[i], "measured / predicted" if i == 0 else "")
    return figure


def _draw_trend(ax: Axes, values: Array, ratio: Array) -> None:
    ax.axhline(1.0, color=GREY, lw=1)
    ax.plot(values, ratio, ".", ms=3, alpha=0.3, color=COLOURS[0], rasterized=True)
    bins = np.array_split(np.argsort(values), max(4, min(12, len(values) // 25)))
    centres = [values[b].mean() for b in bins]
    means = np.array([ratio[b].mean() for b in bins])
    errors = np.array([ratio[b].std() / np.sqrt(len(b)) for b in bins])
    ax.errorbar(centres, means, 2 * errors, color=COLOURS[1], lw=1.4, marker="o", ms=3, capsize=2, label="mean ± 2 se")
    ax.set_yscale("log")
    low, high = np.quantile(ratio, [0.002, 0.998]) * np.array([0.8, 1.25])
    style.set_plain_ticks(ax.yaxis, high / low)
    ax.set_ylim(low, high)
    style.add_legend(ax)


def waterfall(steps: Mapping[str, float], *, unit: str = "s", title: str = "Where the cost goes") -> Figure:
    """Draw a cost waterfall: a start, what each step adds or saves, and the total.

    Args:
        steps: Label to amount in order, e.g. {"plain": 900, "saved by √c": -380, "pilot": 40}; the first is
            the start, the total is drawn as the last bar.
        unit: Of cost.
        title: Above the figure.

    Example:
        >>> figure = th.plots.waterfall({"plain": 900, "saved by √c": -380, "pilot": 40})
        >>> len(figure.axes)
        1
    """
    if not steps:
        raise DataError("a waterfall needs at least one step", code="bad-setting")
    amounts = np.array(list(steps.values()), dtype=np.float64)
    ends = np.cumsum(amounts)
    figure, axes = style.make_figure(max(4.0, 1.15 * (len(steps) + 1)), 3.4)
    ax = axes[0, 0]
    for i, (amount, end) in enumerate(zip(amounts, ends, strict=True)):
        colour = GREY if i == 0 else COLOURS[2] if amount < 0 else COLOURS[1]
        ax.bar(i, amount, bottom=end - amount, color=colour, width=0.62)
        ax.plot([i - 0.31, i + 1.31], [end, end], color=LIGHT, lw=1, zorder=0)
        top = max(end, end - amount)
        text = _format_amount(amount) if i == 0 or amount < 0 else f"+{_format_amount(amount)}"
        ax.annotate(text, (i, top), (0, 3), textcoords="offset points", ha="center", fontsize=8)
    ax.bar(len(amounts), ends[-1], color=COLOURS[0], width=0.62)
    place = (len(amounts), ends[-1])
    ax.annotate(_format_amount(float(ends[-1])), place, (0, 3), textcoords="offset points", ha="center", fontsize=8)
    ax.set_xticks(range(len(amounts) + 1), [*(s.replace(" ", "\n", 1) for s in steps), "total"])
    ax.axhline(0, color="black", lw=0.8)
    ax.set_ylim(min(0.0, 1.12 * float(ends.min())), 1.12 * float(np.maximum(ends, ends - amounts).max()))
    style.shorten_ticks(ax.yaxis, 6)
    style.set_labels(ax, "", f"cost [{unit}]", title)
    return figure


def _format_amount(amount: float) -> str:
    """Write an amount with three figures, without powers of ten below a thousand million.

    Example:
        >>> _format_amount(13_312_345.0), _format_amount(-6.163), _format_amount(3e12)
        ('13,300,000', '-6.16', '3e+12')
    """
    rounded = float(f"{amount:.3g}")
    return f"{rounded:,.0f}" if 1000 <= abs(rounded) < 1e9 else f"{rounded:g}"


def failures(failure_map: FinishProbability, *names: str) -> Figure:
    """Draw P(finish | theta): a curve over one parameter, a map over two; failed runs are marked.

    Args:
        failure_map: `campaign.failure_map()`.
        names: One or two parameters; by default those along which P(finish) changes most. Others are at their
            median.

    Example: `th.plots.failures(campaign.failure_map())`.
    """
    names = names or tuple(failure_map.names[i] for i in failure_map.movers())
    axes, p = failure_map.grid(*names, points=100)
    columns = [failure_map.names.index(name) for name in names]
    figure, panels = style.make_figure(5.2, 3.4 if len(columns) == 1 else 4.2)
    ax = panels[0, 0]
    rest = "" if len(failure_map.names) == len(columns) else " (others at their median)"
    failed, finished = int((~failure_map.finished).sum()), failure_map.finished
    title = f"Share of runs that finish{rest}\n{failed:,} of {len(finished):,} runs failed"
    if len(columns) == 1:
        _draw_finish_curve(ax, failure_map.theta[:, columns[0]], finished, axes[0], p)
        style.shorten_ticks(ax.xaxis, 6)
        style.set_labels(ax, names[0], "P(finish)", title)
    else:
        _draw_finish_map(ax, failure_map.theta[~finished][:, columns], axes, p)
        style.limit_ticks(ax, most=5)
        style.set_labels(ax, names[0], names[1], title)
    return figure


def _draw_finish_map(ax: Axes, failed: Array, axes: list[Array], p: Array) -> None:
    # one hue from dark (never) to light (always), so that it survives greyscale
    image = ax.pcolormesh(axes[0], axes[1], p.T, cmap="cividis", vmin=0, vmax=1, shading="auto", rasterized=True)
    levels = [level for level in (0.05, 0.5, 0.95) if p.min() < level < p.max()]
    if levels:
        colours = ["black" if level > 0.5 else "white" for level in levels]
        lines = ax.contour(axes[0], axes[1], p.T, levels=levels, colors=colours, linewidths=0.9)
        ax.clabel(lines, fmt=lambda level: f"{level:.0%}", fontsize=7)
    if len(failed):
        ax.plot(failed[:, 0], failed[:, 1], "x", ms=4, mew=1, color=COLOURS[1], rasterized=True, label="failed run")
        ax.legend(fontsize=8, loc="upper left", framealpha=0.85, edgecolor="none")
    bar = ax.figure.colorbar(image, ax=ax)
    bar.ax.tick_params(labelsize=8)
    bar.set_label("P(finish)", fontsize=9)


def _draw_finish_curve(ax: Axes, values: Array, finished: npt.NDArray[np.bool_], grid: Array, p: Array) -> None:
    ax.plot(grid, p, color=COLOURS[0], lw=1.8, label="P(finish)")
    for word, chosen, height, colour in (
        ("finished", finished, 1.0, COLOURS[0]),
        ("failed", ~finished, 0.0, COLOURS[1]),
    ):
        y = np.full(chosen.sum(), height)
        ax.plot(values[chosen], y, "|", ms=9, alpha=0.5, color=colour, rasterized=True, label=f"{word} run")
    ax.set_ylim(-0.06, 1.06)
    style.add_legend(ax)
