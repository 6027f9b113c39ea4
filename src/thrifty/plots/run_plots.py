"""Draw a table of runs: where they were made, what they returned and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from thrifty.durations import choose_unit
from thrifty.errors import DataError
from thrifty.plots import style
from thrifty.plots.density import MAX_BARS
from thrifty.plots.discrete_plots import label_axis
from thrifty.plots.drawn import read_drawn
from thrifty.plots.style import COLOURS, GREY
from thrifty.types import Array
from thrifty.weights import ess, normalise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_POINTS = 3000  # of a panel: more hide each other


class Runs(Protocol):
    """A `th.Simulations`: parameters (n, p), outputs (n, ...), log weights, costs and status of n runs."""

    theta: Final[Array]
    x: Final[Array]
    log_weights: Final[Array]
    cost: Final[Array]
    names: Final[tuple[str, ...]]
    x_names: Final[tuple[str, ...]]
    unit: Final[str]
    m: Final[int]

    @property
    def ok(self) -> npt.NDArray[np.bool_]:
        """Which runs finished (n,)."""
        ...

    @property
    def failed(self) -> npt.NDArray[np.bool_]:
        """Which runs ended without numbers (n,)."""
        ...


def simulations(runs: Runs, *, x_o: npt.ArrayLike | None = None, most: int = 4) -> Figure:
    """Draw the parameters of the runs, and each statistic and the cost against each parameter.

    The first row has the parameters as they were drawn (grey) and weighted (blue), which is the prior.

    Args:
        runs: A `th.Simulations`.
        x_o: The observation, drawn as lines.
        most: Largest number of parameters, and of statistics, that are shown.

    Example:
        >>> theta = np.linspace(0, 1, 50)[:, None]
        >>> figure = th.plots.simulations(th.Simulations.from_arrays(theta=theta, x=theta))
        >>> len(figure.axes)
        2
    """
    if not all(hasattr(runs, label) for label in ("theta", "x", "log_weights", "ok")):
        raise DataError(
            f"{type(runs).__name__} is not a table of runs",
            code="bad-array",
            fix="pass th.Simulations, such as campaign.simulations()",
        )
    parameters, levels = _name_parameters(runs)[:most], read_drawn(runs, name="runs").levels
    responses = _list_responses(runs, x_o, most)
    rows, columns = 1 + len(responses), len(parameters)
    figure, axes = style.make_figure(2.5 * columns + 0.8, 1.9 * rows + 0.5, rows=rows, columns=columns)
    for j, name in enumerate(parameters):
        _draw_parameter(axes[0, j], runs, j)
        for i, (label, values, observed) in enumerate(responses, start=1):
            _draw_response(axes[i, j], runs, j, values, observed)
            if label.startswith("cost"):
                axes[i, j].set_yscale("log")
            axes[i, j].set_xlim(axes[0, j].get_xlim())
            style.set_labels(axes[i, j], name if i == rows - 1 else "", label if j == 0 else "")
            _thin_labels(axes[i, j], bottom=i == rows - 1, left=j == 0)
        _thin_labels(axes[0, j], bottom=rows == 1, left=False)
        style.set_labels(axes[0, j], name if rows == 1 else "", "density" if j == 0 else "")
        if levels and (level := levels[j]) is not None:
            _label_values(axes[:, j], level, _choose_edges(runs.theta[:, j]))
    _add_key(figure, runs, x_o is not None and len(responses) > 0)
    if left_out := _list_left_out(runs, most):
        figure.supxlabel(left_out, fontsize=8, color=GREY)
    return figure


def _list_left_out(runs: Runs, most: int) -> str:
    """Say what is not drawn, "" where everything is."""
    statistics = runs.x.shape[1] if runs.m == 1 and runs.x.ndim == 2 else 0
    counts = ((runs.theta.shape[1], "parameters"), (statistics, "statistics"))
    words = [f"the first {most} of {count} {what}" for count, what in counts if count > most]
    return f"Shown: {' and '.join(words)}; most={max(count for count, _ in counts)} shows all." if words else ""


def _name_parameters(runs: Runs) -> tuple[str, ...]:
    return style.parameter_names(runs.names, runs.theta.shape[1])


def _list_responses(runs: Runs, x_o: npt.ArrayLike | None, most: int) -> list[tuple[str, Array, float | None]]:
    """Return (label, values (n,), observed) of the statistics, where runs return a row of them, and of the cost."""
    flat = runs.x.reshape(len(runs.x), -1) if runs.m == 1 and runs.x.ndim == 2 else np.empty((len(runs.x), 0))
    observed = _read_observed(x_o, flat.shape[1])
    names: Sequence[str] = runs.x_names or [f"x_{i + 1}" for i in range(flat.shape[1])]
    found: list[tuple[str, Array, float | None]] = [
        (names[i], flat[:, i], None if observed is None else float(observed[i]))
        for i in range(min(most, flat.shape[1]))
    ]
    positive = runs.cost[np.isfinite(runs.cost) & (runs.cost > 0)]
    if len(positive):
        size, unit = choose_unit(float(np.sqrt(positive.min()) * np.sqrt(positive.max())), runs.unit)
        found.append((f"cost [{unit}]", np.where(runs.cost > 0, runs.cost / size, np.nan), None))
    return found


def _read_observed(x_o: npt.ArrayLike | None, count: int) -> Array | None:
    if x_o is None or not count:
        return None
    values = np.asarray(x_o, dtype=np.float64).ravel()
    if len(values) != count:
        raise DataError(f"x_o has {len(values)} numbers, a run has {count}", code="bad-observation")
    return values


def _draw_parameter(ax: Axes, runs: Runs, j: int) -> None:
    """Draw the histogram of a parameter as drawn and weighted; failed runs as marks below it."""
    values, ok, failed = runs.theta[:, j], runs.ok, runs.failed
    edges = _choose_edges(values)
    if np.isfinite(runs.log_weights[ok]).any():
        look: dict[str, Any] = {"bins": edges, "density": True, "histtype": "step"}
        ax.hist(values[ok], color=GREY, lw=1.2, **look)
        ax.hist(values[ok], weights=normalise(runs.log_weights[ok]), color=COLOURS[0], lw=1.6, **look)
    if failed.any():
        bottom = 0.03 * ax.get_ylim()[1]
        ax.plot(values[failed], np.full(failed.sum(), bottom), "|", ms=7, color=COLOURS[1], rasterized=True)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _choose_edges(values: Array) -> Array:
    """Return edges of bins: whole numbers are in the middle of a bin of their own, unless they are many.

    Example:
        >>> _choose_edges(np.array([2.0, 4.0])).tolist(), len(_choose_edges(np.array([0.5, 4.0])))
        ([1.5, 2.5, 3.5, 4.5], 25)
    """
    low, high = float(values.min()), float(values.max())
    if high - low <= MAX_BARS and (values == np.round(values)).all():
        return np.arange(low - 0.5, high + 1)
    return np.linspace(low, high if high > low else low + 1, 25)


def _label_values(column: Sequence[Axes], level: tuple[str, ...], edges: Array) -> None:
    """Set the ticks of a discrete parameter in all its panels, with labels below the last."""
    for ax in column:
        label_axis(ax.xaxis, level, (edges[:-1] + edges[1:]) / 2)
        if ax is not column[-1]:
            ax.set_xticklabels([])


def _draw_response(ax: Axes, runs: Runs, j: int, values: Array, observed: float | None) -> None:
    rows = np.flatnonzero(runs.ok & np.isfinite(values))
    if len(rows) > MAX_POINTS:
        rows = np.random.default_rng(0).choice(rows, MAX_POINTS, replace=False)
    size = 3.0 if len(rows) > 300 else 5.0
    ax.plot(runs.theta[rows, j], values[rows], "o", ms=size, mew=0, alpha=0.35, color=COLOURS[0], rasterized=True)
    if observed is not None:
        ax.axhline(observed, color=COLOURS[1], lw=1.4)


def _thin_labels(ax: Axes, *, bottom: bool, left: bool) -> None:
    if ax.get_yscale() != "log":
        style.limit_ticks(ax)
    else:
        style.shorten_ticks(ax.xaxis, 3)
        low, high = ax.get_ylim()
        style.set_plain_ticks(ax.yaxis, high / low)
    if not bottom:
        ax.set_xticklabels([])
    if not left:
        ax.set_yticklabels([])
        ax.tick_params(axis="y", which="minor", labelleft=False)


def _add_key(figure: Figure, runs: Runs, observed: bool) -> None:
    from matplotlib.lines import Line2D

    failed, ok = int(runs.failed.sum()), int(runs.ok.sum())
    effective = ess(runs.log_weights[runs.ok]) if np.isfinite(runs.log_weights[runs.ok]).any() else 0.0
    handles = [
        Line2D([], [], color=GREY, lw=1.2, label=f"{ok:,} runs as drawn"),
        Line2D([], [], color=COLOURS[0], lw=1.6, label=f"weighted: {effective:,.0f} effective"),
    ]
    if failed:
        handles.append(Line2D([], [], color=COLOURS[1], ls="", marker="|", ms=7, label=f"{failed:,} failed"))
    if observed:
        handles.append(Line2D([], [], color=COLOURS[1], lw=1.4, label="observed"))
    columns = max(int(figure.get_figwidth() // 1.9), 1)
    style.add_figure_legend(figure, handles, columns=min(columns, len(handles)))
