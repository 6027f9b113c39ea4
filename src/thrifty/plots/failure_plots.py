"""Draw where runs fail: P(finish | theta) with the runs from which it was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from thrifty.plots.style import COLOURS, add_legend, make_figure, set_labels
from thrifty.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


def failures(failure_map: FinishProbability, *names: str) -> Figure:
    """Draw P(finish | theta): a curve over one parameter, a map over two; failed runs are marked.

    Args:
        failure_map: `campaign.failure_map()`.
        names: One or two parameters; by default those along which P(finish) changes most. Others are at their
            median.
    """
    names = names or tuple(failure_map.names[i] for i in failure_map.movers())
    axes, p = failure_map.grid(*names, points=100)
    columns = [failure_map.names.index(name) for name in names]
    figure, panels = make_figure(5.2, 3.4 if len(columns) == 1 else 4.2)
    ax = panels[0, 0]
    rest = "" if len(failure_map.names) == len(columns) else " (others at their median)"
    failed, finished = int((~failure_map.finished).sum()), failure_map.finished
    title = f"Share of runs that finish{rest}\n{failed:,} of {len(finished):,} runs failed"
    if len(columns) == 1:
        _draw_curve(ax, failure_map.theta[:, columns[0]], finished, axes[0], p)
        set_labels(ax, names[0], "P(finish)", title)
    else:
        _draw_map(ax, failure_map.theta[~finished][:, columns], axes, p)
        set_labels(ax, names[0], names[1], title)
    return figure


def _draw_map(ax: Axes, failed: Array, axes: list[Array], p: Array) -> None:
    # one hue from dark (never) to light (always), so that it survives greyscale
    image = ax.pcolormesh(axes[0], axes[1], p.T, cmap="cividis", vmin=0, vmax=1, shading="auto", rasterized=True)
    levels = [level for level in (0.05, 0.5, 0.95) if p.min() < level < p.max()]
    if levels:
        colours = ["black" if level > 0.5 else "white" for level in levels]
        lines = ax.contour(axes[0], axes[1], p.T, levels=levels, colors=colours, linewidths=0.9)
        ax.clabel(lines, fmt=lambda level: f"{100 * level:g} %", fontsize=7)
    if len(failed):
        ax.plot(failed[:, 0], failed[:, 1], "x", ms=4, mew=1, color=COLOURS[1], rasterized=True, label="failed run")
        ax.legend(fontsize=8, loc="upper left", framealpha=0.85, edgecolor="none")
    bar = ax.figure.colorbar(image, ax=ax)
    bar.ax.tick_params(labelsize=8)
    bar.set_label("P(finish)", fontsize=9)


def _draw_curve(ax: Axes, values: Array, finished: npt.NDArray[np.bool_], grid: Array, p: Array) -> None:
    ax.plot(grid, p, color=COLOURS[0], lw=1.8, label="P(finish)")
    for word, chosen, height, colour in (
        ("finished", finished, 1.0, COLOURS[0]),
        ("failed", ~finished, 0.0, COLOURS[1]),
    ):
        y = np.full(chosen.sum(), height)
        ax.plot(values[chosen], y, "|", ms=9, alpha=0.5, color=colour, rasterized=True, label=f"{word} run")
    ax.set_ylim(-0.06, 1.06)
    add_legend(ax)
