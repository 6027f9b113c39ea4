"""Checks: calibration bands and the predictive distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thrifty.errors import DataError
from thrifty.plots.style import BAND, COLOURS, GREY, density, labels, legend, new
from thrifty.weights import normalise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from thrifty.diagnostics import Calibration, Predictive

_TITLES = {
    "sbc": ("Ranks (SBC)", "rank of the truth", "distribution function − rank"),
    "coverage": ("Expected coverage", "nominal coverage", "coverage − nominal"),
    "tarp": ("Random points (TARP)", "nominal coverage", "coverage − nominal"),
}


def calibration(*checks: Calibration) -> Figure:
    """Difference of each weighted distribution function from uniform, with simultaneous bands: inside is right.

    Args:
        checks: Results of `sbc`, `coverage`, `tarp`, one panel each.
    """
    if not checks:
        raise DataError("calibration needs at least one result of sbc, coverage or tarp", code="bad-setting")
    figure, axes = new(4.1 * len(checks), 3.5, columns=len(checks))
    for ax, check in zip(axes[0], checks, strict=True):
        title, x, y = _TITLES.get(check.name, (check.name, "level", "difference"))
        widest = (check.high - check.low).sum(axis=1).argmax()
        band = (check.low[widest] - check.levels, check.high[widest] - check.levels)
        ax.fill_between(check.levels, *band, color=BAND, lw=0, label=f"{check.level:.0%} simultaneous band")
        ax.axhline(0, color=GREY, lw=1)
        for i, name in enumerate(check.names):
            colour = COLOURS[i % len(COLOURS)]
            ax.step(check.levels, check.ecdf[i] - check.levels, where="mid", color=colour, lw=1.5, label=name)
        reach = max(float(np.abs(check.ecdf - check.levels).max()), float(band[1].max()))
        lines = 0.075 * (1 + len(check.names))  # share of the height that the legend takes, kept free above
        ax.set_ylim(-1.15 * reach, (1.05 + 1.15 * lines) / max(1 - lines, 0.3) * reach)
        ax.set_xlim(0, 1)
        labels(ax, x, y, f"{title}: {check.verdict}")
        legend(ax, loc="upper right", ncols=1 + len(check.names) // 7)
    return figure


def predictive(check: Predictive, *, most: int = 12) -> Figure:
    """Weighted predictive density of each statistic with x_o; the least likely first when there are many.

    Args:
        check: Result of `th.diagnostics.predictive`.
        most: Statistics shown at most.
    """
    chosen = np.arange(len(check.x_o))
    if len(chosen) > most:
        chosen = np.sort(np.argsort(check.p_values, kind="stable")[:most])
    columns = min(4, len(chosen))
    rows = -(-len(chosen) // columns)
    figure, axes = new(2.6 * columns + 0.4, 2.2 * rows + 0.4, rows=rows, columns=columns)
    empty = not (check.log_weights > -np.inf).any()
    weights = np.full(len(check.x), 1 / len(check.x)) if empty else normalise(check.log_weights)
    keep = weights > 0
    for ax, i in zip(axes.ravel(), chosen, strict=False):
        values, observed = check.x[keep, i], check.x_o[i]
        order = np.argsort(values)
        steps = np.cumsum(weights[keep][order])
        low, high = values[order][np.minimum(np.searchsorted(steps, [0.002, 0.998]), len(order) - 1)]
        low, high = min(low, observed), max(high, observed)
        margin = 0.08 * (high - low) or 0.5
        grid = np.linspace(low - margin, high + margin, 250)
        curve = density(values, weights[keep], grid)
        ax.fill_between(grid, curve, color=COLOURS[0], alpha=0.25, lw=0)
        ax.plot(grid, curve, color=COLOURS[0], lw=1.4)
        ax.axvline(float(observed), color=COLOURS[1], lw=1.6)
        ax.set_ylim(bottom=0)
        ax.set_yticks([])
        labels(ax, check.names[i], "", f"p = {check.p_values[i]:.2f}")
    for ax in axes.ravel()[len(chosen) :]:
        ax.remove()
    _key(figure, check.ess)
    return figure


def _key(figure: Figure, size: float) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=COLOURS[0], label=f"posterior predictive ({size:,.0f} effective runs)"),
        Line2D([], [], color=COLOURS[1], label="observed"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False, fontsize=8)
