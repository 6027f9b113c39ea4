"""Draw the plan: the worth of each penalty, the proposal against the prior, and the weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from thrifty.errors import DataError
from thrifty.plots import style
from thrifty.plots.discrete_plots import label_axis, make_steps, sum_shares
from thrifty.plots.style import COLOURS, GREY
from thrifty.proposals.draws import Proposal
from thrifty.types import Array, levels_of
from thrifty.weights import ess, normalise, pareto_k

if TYPE_CHECKING:
    from matplotlib.figure import Figure


AXIS_POINTS = (270.0, 190.0)  # width of the axis of gains, and height of an effective share of 1
LETTER_POINTS = (5.0, 11.0)  # of a label
WIDE_GAIN = 30.0  # of the cheapest penalty: above it the axis is logarithmic


class Worth(Protocol):
    """One penalty of a trade-off: how cheap its runs are and how much they count, relative to plain sampling."""

    label: Final[str]
    gain: Final[float]
    ess_fraction: Final[float]
    product: Final[float]


class TradeoffTable(Protocol):
    """Result of `th.tradeoff`: one row per penalty, and the highest product possible."""

    ceiling: Final[float]

    @property
    def best(self) -> Worth:
        """The row with the highest product."""
        ...

    def __iter__(self) -> Iterator[Worth]:
        """Yield the rows."""
        ...


class WeightSummary(Protocol):
    """Result of `th.diagnostics.weight_health`: normalised weights (n,) and figures computed from them."""

    n: Final[int]
    ess: Final[float]
    top_percent: Final[float]
    pareto_k: Final[float]
    weights: Final[Array]


def tradeoff(table: TradeoffTable) -> Figure:
    """Draw gain against efficiency, with the curve of equal worth, the upper bound, and the best in bold.

    Args:
        table: Result of `th.tradeoff`, or a quote or plan, which hold one.

    Example:
        >>> figure = th.plots.tradeoff(th.tradeoff(th.Uniform(1, 10), lambda theta: theta[:, 0]))
        >>> len(figure.axes)
        2
    """
    table = getattr(table, "table", table)
    if not hasattr(table, "ceiling"):
        raise DataError(
            f"{type(table).__name__} is not a trade-off",
            code="bad-array",
            fix="pass th.tradeoff(...), a quote or a plan",
        )
    figure, axes = style.make_figure(9.2, 3.8, columns=2)
    ax = axes[0, 0]
    gains = np.array([row.gain for row in table])
    sizes = np.array([row.ess_fraction for row in table])
    most = max(gains.max(), table.ceiling)
    is_wide = most > WIDE_GAIN  # on a linear axis the usual penalties would share one place
    x = np.geomspace(1, most**1.12, 300) if is_wide else np.linspace(1, 1.12 * most, 300)
    ax.plot(x, np.minimum(1 / x, 1), color=GREY, lw=1.2, label="as good as plain sampling")
    ax.plot(x, np.minimum(table.ceiling / x, 1), color=COLOURS[1], lw=1.2, ls=(0, (4, 2)), label="ceiling")
    ax.plot(gains, sizes, "o", color=COLOURS[0], ms=5)
    along = np.log(gains) / np.log(x[-1]) if is_wide else (gains - 1) / (x[-1] - 1)  # shares of the axis
    offsets = _place_labels([row.label for row in table], along * AXIS_POINTS[0], sizes * AXIS_POINTS[1])
    for row, offset in zip(table, offsets, strict=True):
        ax.annotate(
            row.label, (row.gain, row.ess_fraction), (6, offset), textcoords="offset points", fontsize=8,
            fontweight="bold" if row is table.best else "normal",
            bbox={"fc": "white", "ec": "none", "pad": 0.6},  # the ceiling does not run through it
        )  # fmt: skip
    ax.set_ylim(0, 1.08)
    ax.set_xlim(left=x[-1] ** -0.02 if is_wide else 1 - 0.02 * (x[-1] - 1))
    if is_wide:
        ax.set_xscale("log")
        style.set_plain_ticks(ax.xaxis, x[-1])
    style.set_labels(
        ax, "gain: cost per run, plain / proposal", "effective runs per run", "Cheaper runs count for less"
    )
    style.add_legend(ax, loc="lower left" if table.ceiling / x[-1] > 0.5 else "upper right")  # away from the curves
    _draw_worth(axes[0, 1], table)
    return figure


def _place_labels(labels: Sequence[str], x: Array, y: Array) -> list[float]:
    """Return how far above its point (n,) each label begins, in points, so that none lies on another or on a point.

    Example:
        >>> _place_labels(["k = 0", "k = 1", "k = 2"], np.array([0.0, 1.0, 90.0]), np.array([9.0, 9.0, 9.0]))
        [4.0, -7.0, 4.0]
    """
    width, height = LETTER_POINTS
    ends = [x[i] + width * (len(label) + 1) for i, label in enumerate(labels)]
    bottoms: list[float] = []
    for i in range(len(labels)):
        points = y[(x > x[i] + width) & (x < ends[i] + width)]
        others = [bottoms[j] for j in range(i) if x[i] < ends[j] and x[j] < ends[i]]
        bottom = y[i] + 4.0
        for bottom in y[i] + 4.0 + height * np.array([0, *range(-1, -9, -1), *range(1, 9)]):
            free = all(abs(bottom - other) >= height for other in others)
            inside = 0 <= bottom <= AXIS_POINTS[1] + height / 2
            if free and inside and not any(-5 < point - bottom < height for point in points):
                break
        bottoms.append(float(bottom))
    return [float(bottom - at) for bottom, at in zip(bottoms, y, strict=True)]


def _draw_worth(ax: Any, table: TradeoffTable) -> None:
    products = [row.product for row in table]
    colours = [COLOURS[0] if row is not table.best else COLOURS[2] for row in table]
    ax.bar(range(len(products)), products, color=colours, width=0.62)
    ax.axhline(1, color=GREY, lw=1.2)
    ax.axhline(table.ceiling, color=COLOURS[1], lw=1.2, ls=(0, (4, 2)))
    place = (len(products) - 0.55, table.ceiling)
    text = f"ceiling {table.ceiling:.2f}"
    ax.annotate(text, place, (0, 3), textcoords="offset points", ha="right", fontsize=8, color=COLOURS[1])
    for i, product in enumerate(products):
        inside = product > 0.9 * table.ceiling
        ax.annotate(
            f"{product:.2f}", (i, product), (0, -11 if inside else 3), textcoords="offset points", ha="center",
            fontsize=8, color="white" if inside else "black",
        )  # fmt: skip
    ax.set_xticks(range(len(products)), [row.label.replace(" (", "\n(") for row in table])
    ax.set_ylim(0, 1.12 * max(table.ceiling, *products))
    style.set_labels(ax, "", "effective runs per unit of cost", "What a fixed budget buys, plain = 1")


def proposal(q: Proposal, *, n: int = 20_000, seed: int = 0) -> Figure:
    """Draw the proposal against the prior, one axis per parameter; weighted draws must agree with the prior.

    Example:
        >>> figure = th.plots.proposal(th.CostAware(th.Uniform(1, 10), lambda theta: theta[:, 0], 0.5))
        >>> len(figure.axes)
        1
    """
    rng = np.random.default_rng(seed)
    draws, plain = q.sample(n, rng), q.prior.sample(n, rng)
    proposed, restored = (
        style.as_sample(draws.theta, None, "draws"),
        style.as_sample(draws.theta, draws.log_weights, "draws"),
    )
    prior = style.as_sample(plain, None, "prior")
    dim = draws.dim
    names = style.parameter_names(draws.names, dim)
    rows, columns = -(-dim // style.MAX_COLUMNS), min(dim, style.MAX_COLUMNS)
    figure, axes = style.make_figure(3.2 * columns + 0.6, 2.5 * rows + 0.4, rows=rows, columns=columns)
    low, high = q.prior.bounds
    for ax in axes.ravel()[dim:]:
        ax.remove()
    for i, ax in enumerate(axes.ravel()[:dim]):
        bounds = float(low[i]), float(high[i])
        ends = style.find_range([proposed, prior], i)
        grid = np.linspace(max(ends[0], bounds[0]), min(ends[1], bounds[1]), 300)
        level = levels_of(q.prior)[i]
        if level is not None:
            grid = np.arange(np.ceil(grid[0]), np.floor(grid[-1]) + 1)
        curves = [
            ("prior", prior, {"color": GREY, "lw": 3.5, "alpha": 0.55}),
            ("proposal", proposed, {"color": COLOURS[1], "lw": 1.8}),
            ("proposal, weighted", restored, {"color": COLOURS[0], "lw": 1.4, "ls": (0, (5, 2))}),
        ]
        for label, s, look in curves:
            if level is None:
                curve = style.estimate_density(s.points[:, i], s.weights, grid, bounds, smooth=1.5)
                ax.plot(grid, curve, label=label, **look)
            else:  # a step over each value
                ax.step(*make_steps(grid, sum_shares(s.points[:, i], s.weights, grid)), label=label, **look)
        ax.set_ylim(0, 1.08 * max(float(np.max(line.get_ydata())) for line in ax.lines))
        ax.set_yticks([])
        if level is None:
            ax.set_xlim(grid[0], grid[-1])
            style.shorten_ticks(ax.xaxis, 5)
        else:
            label_axis(ax.xaxis, level, grid)
        style.set_labels(ax, names[i], "density" if i % columns == 0 else "")
    style.add_figure_legend(figure, axes[0][0].get_legend_handles_labels()[0])
    return figure


def _describe_tail(k: float) -> str:
    return f"Pareto k = {k:.2f}" if np.isfinite(k) else "all weights are alike"


def weights(health: Any) -> Figure:
    """Draw a histogram of the weights, plain = 1, and the share of all weight on the heaviest runs.

    Args:
        health: Result of `th.diagnostics.weight_health`, or what has weights: `Simulations`, `Draws`, log weights.

    Example:
        >>> figure = th.plots.weights(np.log(np.linspace(1, 2, 400)))
        >>> len(figure.axes)
        2
    """
    health = _sum_up_weights(health)
    figure, axes = style.make_figure(8.6, 3.2, columns=2)
    ax = axes[0, 0]
    relative = health.weights * len(health.weights)
    positive = relative[relative > 0]
    low, high = positive.min() * 0.95, positive.max() * 1.05
    ax.hist(positive, bins=np.geomspace(low, high, 40), color=COLOURS[0], edgecolor="white", lw=0.4)
    ax.axvline(1, color=GREY, lw=1.2)
    if high / low > 3:
        ax.set_xscale("log")
        style.set_plain_ticks(ax.xaxis, high / low)
    style.set_labels(ax, "weight / mean weight", "runs", f"{health.n:,} runs count as {health.ess:,.0f}")
    ax = axes[0, 1]
    heaviest = np.sort(health.weights)[::-1]
    share = np.arange(1, len(heaviest) + 1) / len(heaviest)
    ax.plot([0, 1], [0, 1], color=GREY, lw=1, label="equal weights")
    ax.plot(np.append(0, share), np.append(0, np.cumsum(heaviest)), color=COLOURS[0], lw=1.8, label="these")
    ax.plot(0.01, health.top_percent, "o", color=COLOURS[1], ms=5, label=f"heaviest 1%: {health.top_percent:.0%}")
    style.set_labels(ax, "share of runs, heaviest first", "share of weight", _describe_tail(health.pareto_k))
    style.add_legend(ax, loc="lower right")
    return figure


@dataclass(frozen=True)
class _Weights:
    """Weights that were passed as such, with the figures of `WeightSummary`."""

    n: int
    ess: float
    top_percent: float
    pareto_k: float
    weights: Array


def _sum_up_weights(given: Any) -> WeightSummary:
    """Read a summary of weights, or make one of log weights or of a table that has them."""
    if hasattr(given, "top_percent"):
        return given
    log_weights = getattr(given, "log_weights", given)
    if hasattr(given, "ok"):  # simulations: failed runs are left out
        log_weights = log_weights[given.ok]
    try:
        values = normalise(log_weights)
    except (TypeError, ValueError):
        raise DataError(
            f"{type(given).__name__} has no weights to draw",
            code="bad-array",
            fix="pass Simulations or log weights (n,)",
        ) from None
    n = len(values)
    top = float(np.sort(values)[-max(1, round(n / 100)) :].sum())
    return _Weights(n, ess(log_weights), top, pareto_k(log_weights), values)
