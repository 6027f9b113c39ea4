"""Draw the checks of a posterior: calibration curves with bands, and the predictive distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from thrifty.errors import DataError
from thrifty.plots import style
from thrifty.plots.density import draw_distribution, find_column_ends
from thrifty.plots.drawn import pick_check
from thrifty.plots.style import BAND, COLOURS, GREY
from thrifty.types import Array
from thrifty.weights import normalise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TITLES = {
    "sbc": ("Ranks (SBC)", "rank of the truth", "distribution function − rank"),
    "coverage": ("Expected coverage", "nominal coverage", "coverage − nominal"),
    "tarp": ("Random points (TARP)", "nominal coverage", "coverage − nominal"),
}


class CalibrationCurve(Protocol):
    """Result of `sbc`, `coverage` or `tarp`: distribution functions (r, t) with their bands at levels (t,)."""

    name: Final[str]
    names: Final[tuple[str, ...]]
    levels: Final[Array]
    ecdf: Final[Array]
    low: Final[Array]
    high: Final[Array]
    level: Final[float]

    @property
    def verdict(self) -> str:
        """The judgement in words."""
        ...


class PredictiveDraws(Protocol):
    """Result of `th.diagnostics.predictive`: weighted outputs (n, d) and the observation (d,)."""

    x: Final[Array]
    log_weights: Final[Array]
    x_o: Final[Array]
    p_values: Final[Array]
    ess: Final[float]
    names: Final[tuple[str, ...]]

    @property
    def is_judged(self) -> bool:
        """Whether the p-values say something."""
        ...

    @property
    def outside(self) -> tuple[str, ...]:
        """Statistics in which x_o lies beyond all outputs."""
        ...


def calibration(*checks: CalibrationCurve) -> Figure:
    """Draw how far each weighted distribution function is from uniform, with simultaneous bands: inside is right.

    Args:
        checks: Results of `sbc`, `coverage`, `tarp`, one panel each; or a diagnosis, which holds them.

    Example: see `th.diagnose`. `found.figures()` draws all of its figures.
    """
    inner = [getattr(check, "checks", (check,)) for check in checks]
    checks = tuple(check for group in inner for check in group if hasattr(check, "ecdf"))
    if not checks:
        raise DataError("calibration needs at least one result of sbc, coverage or tarp", code="bad-setting")
    figure, axes = style.make_figure(4.1 * len(checks), 3.5, columns=len(checks))
    for ax, check in zip(axes[0], checks, strict=True):
        _draw_curve(ax, check)
    return figure


def _draw_curve(ax: Axes, check: CalibrationCurve) -> None:
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
    style.set_labels(ax, x, y, f"{title}: {check.verdict}")
    style.add_legend(ax, loc="upper right", ncols=1 + len(check.names) // 7)


def predictive(check: PredictiveDraws, *, most: int = 12) -> Figure:
    """Draw the weighted predictive density of each statistic with x_o; the least likely when there are many.

    Args:
        check: Result of `th.diagnostics.predictive`, or a diagnosis in which it was made.
        most: Largest number of statistics shown.

    Example: see `th.diagnose`. `found.figures()` draws all of its figures.
    """
    from matplotlib.lines import Line2D

    check = pick_check(check, "predictive", "p_values", "predictive")
    chosen = np.arange(len(check.x_o))
    if len(chosen) > most:
        chosen = np.sort(np.argsort(check.p_values, kind="stable")[:most])
    columns = min(4, len(chosen))
    rows = -(-len(chosen) // columns)
    figure, axes = style.make_figure(2.6 * columns + 0.4, 2.2 * rows + 0.4, rows=rows, columns=columns)
    empty = not (check.log_weights > -np.inf).any()
    weights = np.full(len(check.x), 1 / len(check.x)) if empty else normalise(check.log_weights)
    keep = weights > 0
    for ax, i in zip(axes.ravel(), chosen, strict=False):
        _draw_predictive(ax, check.x[keep, i], weights[keep], float(check.x_o[i]))
        style.shorten_ticks(ax.xaxis)
        style.set_labels(ax, check.names[i], "", _describe_statistic(check, int(i)))
    for ax in axes.ravel()[len(chosen) :]:
        ax.remove()
    handles = [
        Line2D([], [], color=COLOURS[0], label=f"posterior predictive ({check.ess:,.0f} effective runs)"),
        Line2D([], [], color=COLOURS[1], label="observed"),
    ]
    style.add_figure_legend(figure, handles)
    return figure


def _describe_statistic(check: PredictiveDraws, i: int) -> str:
    """Title of a panel: the p-value where it is judged, and whether x_o lies outside of all outputs."""
    if check.names[i] in check.outside:
        return "outside all outputs"
    return f"p = {check.p_values[i]:.2f}" if check.is_judged else "not judged"


def _draw_predictive(ax: Axes, values: Array, weights: Array, observed: float) -> None:
    draw_distribution(ax, values, weights, COLOURS[0], ends=find_column_ends(values, weights, observed))
    ax.axvline(observed, color=COLOURS[1], lw=1.6)
