"""Draw C2ST against cost for each problem of the benchmark: a panel for each group of methods."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from peers_page import DEFAULTS, GROUPS, PAPER, PEERS, STEERED

from thrifty.benchmark import Record
from thrifty.benchmark.benchmark_summary import BASELINE, curve
from thrifty.benchmark.records import pick
from thrifty.plots.style import COLOURS, GREY, make_figure

FIT_ONCE = next(iter(GROUPS.values()))
PANELS = {
    "thrifty and the paper, one fit": (*FIT_ONCE, *PAPER),
    "thrifty, a fit for each x_o": STEERED,
    "peers": PEERS,
}
MARKERS = "osv^DPX"
BESIDE = 1.06  # factor of cost between points that would hide one another
INNER = COLOURS[1:6]  # blue is the default's


def choose_styles(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Give each method of a panel a line: a colour for each pair, broken for the plain one of the two.

    Example:
        >>> styles = choose_styles(["nle", "nle-aware"])
        >>> styles["nle"]["ls"], styles["nle-aware"]["ls"], styles["nle"]["color"] == styles["nle-aware"]["color"]
        ('--', '-', True)
    """
    families = list(dict.fromkeys(name.removesuffix("-aware") for name in methods))
    out = {}
    for name in methods:
        place = families.index(name.removesuffix("-aware"))
        plain = f"{name}-aware" in methods
        out[name] = {"color": INNER[place % len(INNER)], "marker": MARKERS[place % len(MARKERS)]}
        out[name] |= {"ls": "--" if plain else "-", "lw": 1.1, "ms": 4, "zorder": 2}
    return out


def draw_problem(records: Sequence[Record], name: str, path: Path) -> None:
    """C2ST against cost: both of thrifty's defaults and plain NPE in each panel, with the other methods of a group."""
    mine = pick(records, problem=name, error="")
    defaults = [default for default, *_ in DEFAULTS.values()]
    figure, axes = make_figure(9.6, 4.4, columns=len(PANELS))
    fixed = {
        BASELINE: {"color": GREY, "marker": "o", "ls": "--", "lw": 1.6, "ms": 4, "zorder": 3},
        **{
            default: {"color": COLOURS[0], "marker": marker, "ls": style, "lw": 2.2, "ms": 5, "zorder": 4}
            for default, marker, style in zip(defaults, "sD", ("-", "-."), strict=True)
        },
    }
    for axis, (title, group) in zip(axes[0], PANELS.items(), strict=True):
        others = [method for method in group if method not in fixed]
        for number, (method, style) in enumerate({**fixed, **choose_styles(others)}.items()):
            label = f"{method} (default)" if method in defaults else method
            _draw_method(axis, pick(mine, method=method), label, style, BESIDE ** (number % 5 - 2))
        axis.axhline(0.5, color="0.7", lw=0.8, zorder=1)
        axis.set_title(title, fontsize=9, loc="left")
        axis.set_xscale("log")
        handles, labels = axis.get_legend_handles_labels()
        axis.legend(
            handles, labels, frameon=False, fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.18),
            columnspacing=1.0, handlelength=2.6,
        )  # fmt: skip
    _set_axes(axes[0], mine)
    figure.suptitle(name, fontsize=10, x=0.02, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90, pil_kwargs={"optimize": True})


def _draw_method(axis: Any, records: Sequence[Record], label: str, style: dict[str, Any], shift: float) -> None:
    """A line with a band of one standard error; for a single budget, a point with a bar, moved aside by a factor."""
    points = curve(records, "c2st")
    if not points:
        return
    cost, value = np.array([p.cost for p in points]), np.array([p.value for p in points])
    error = np.nan_to_num([p.error for p in points])
    cost = cost * shift if len(points) == 1 else cost
    axis.plot(cost, value, label=label, **style)
    if len(points) > 1:
        axis.fill_between(cost, value - error, value + error, color=style["color"], alpha=0.15, lw=0)
    else:
        axis.errorbar(cost, value, error, color=style["color"], lw=1.0, capsize=2, zorder=style["zorder"])


def _set_axes(axes: Sequence[Any], records: Sequence[Record]) -> None:
    """Give all panels the same axes, with a tick at each budget."""
    costs, budgets = [r.cost for r in records], sorted({r.budget for r in records})
    values = [p.value for m in {r.method for r in records} for p in curve(pick(records, method=m), "c2st")]
    low, high = min(costs) / 1.5, max(costs) * 1.5
    top = min(max(max(values) + 0.03, 0.6), 1.02)
    for number, axis in enumerate(axes):
        axis.set_xlim(low, high)
        axis.set_ylim(min(0.48, min(values) - 0.02), top)
        axis.set_xticks(budgets, [f"{budget:,.0f}" for budget in budgets])
        axis.set_xticks([], minor=True)
        axis.set_xlabel("cost of all runs (prior runs)", fontsize=9)
        if number == 0:
            axis.set_ylabel("C2ST (0.5 is perfect)", fontsize=9)
        else:
            axis.tick_params(labelleft=False)
