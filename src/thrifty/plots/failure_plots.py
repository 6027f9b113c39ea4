"""Where runs fail: P(finish | theta) with the runs it was learned from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thrifty.plots.style import COLOURS, labels, legend, new

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from thrifty.campaign.failures import FailureMap


def failures(failure_map: FailureMap, *names: str) -> Figure:
    """P(finish | theta): a curve over one parameter, a map over two; failed runs are marked.

    Args:
        failure_map: `campaign.failure_map()`, or `FailureMap.of(simulations)`.
        names: One or two parameters; those along which P(finish) changes most when left out. Others are at their
            median.
    """
    names = names or tuple(failure_map.names[i] for i in failure_map.movers())
    axes, p = failure_map.grid(*names, points=100)
    columns = [failure_map.names.index(name) for name in names]
    figure, panels = new(5.2, 3.4 if len(columns) == 1 else 4.2)
    ax = panels[0, 0]
    rest = "" if len(failure_map.names) == len(columns) else " (others at their median)"
    title = f"Share of runs that finish{rest}\n{failure_map.failed:,} of {len(failure_map.finished):,} runs failed"
    if len(columns) == 1:
        _curve(ax, failure_map, columns[0], axes[0], p)
        labels(ax, names[0], "P(finish)", title)
        return figure
    # one hue from dark (never) to light (always), so that it survives greyscale
    image = ax.pcolormesh(axes[0], axes[1], p.T, cmap="cividis", vmin=0, vmax=1, shading="auto", rasterized=True)
    levels = [level for level in (0.05, 0.5, 0.95) if p.min() < level < p.max()]
    if levels:
        lines = ax.contour(axes[0], axes[1], p.T, levels=levels, colors="white", linewidths=0.9)
        ax.clabel(lines, fmt=lambda level: f"{100 * level:g} %", fontsize=7)
    failed = failure_map.theta[~failure_map.finished][:, columns]
    if len(failed):
        ax.plot(failed[:, 0], failed[:, 1], "x", ms=4, mew=1.0, color=COLOURS[1], label="failed run")
        ax.legend(fontsize=8, loc="upper left", framealpha=0.85, edgecolor="none")
    bar = figure.colorbar(image, ax=ax)
    bar.ax.tick_params(labelsize=8)
    bar.set_label("P(finish)", fontsize=9)
    labels(ax, names[0], names[1], title)
    return figure


def _curve(ax: Axes, failure_map: FailureMap, column: int, grid: np.ndarray, p: np.ndarray) -> None:
    values, finished = failure_map.theta[:, column], failure_map.finished
    ax.plot(grid, p, color=COLOURS[0], lw=1.8, label="P(finish)")
    for chosen, height, colour, word in (
        (finished, 1.0, COLOURS[0], "finished"),
        (~finished, 0.0, COLOURS[1], "failed"),
    ):
        ax.plot(values[chosen], np.full(chosen.sum(), height), "|", ms=9, alpha=0.5, color=colour, label=f"{word} run")
    ax.set_ylim(-0.06, 1.06)
    legend(ax)
