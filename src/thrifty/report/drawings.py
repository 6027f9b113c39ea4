"""Figures that only the report needs: the chosen penalty and the runs over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thrifty.plots import tradeoff as draw_tradeoff
from thrifty.plots.style import BAND, COLOURS, add_legend, make_figure, set_labels
from thrifty.report.content import as_label
from thrifty.report.gather import Session, Stamps
from thrifty.tradeoff import Row, Tradeoff
from thrifty.types import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_TIME_BINS = 120  # of the timeline: a few pixels each


def draw_chosen_tradeoff(table: Tradeoff, chosen: Row, word: str = "chosen") -> Figure:
    """Draw the trade-off with a ring around the chosen penalty."""
    figure = draw_tradeoff(table)
    left, right = figure.axes
    ring = {"ms": 13, "mfc": "none", "mew": 1.6, "color": "black"}
    left.plot(chosen.gain, chosen.ess_fraction, "o", label=word, **ring)
    add_legend(left, loc="upper right")
    place = list(table).index(chosen)
    right.annotate(
        word, (place, 0), (0, 4), textcoords="offset points", ha="center", va="bottom", fontsize=8, rotation=90,
        color="white",
    )  # fmt: skip
    return figure


def count_running(stamps: Stamps, start: float, end: float) -> tuple[Array, dict[str, Array]]:
    """Return edges of time bins (b+1,) and, for each host, the mean number of running runs in each bin (b,).

    A run takes the `wall` seconds before its end; the store writes the end when a group of runs is committed, so
    bins are never shorter than a second.
    """
    bins = int(np.clip(np.ceil(end - start), 1, MAX_TIME_BINS))
    edges = np.linspace(start, end, bins + 1)
    hosts = np.array(stamps.host)
    found = {}
    for host in dict.fromkeys(stamps.host):
        mine = hosts == host
        last = np.minimum(stamps.finished[mine], end)
        first = np.maximum(last - stamps.wall[mine], start)
        # seconds of work before each edge: integral of the number of running runs
        before = [np.clip(edge - first, 0, np.maximum(last - first, 0)).sum() for edge in edges]
        found[host] = np.diff(before) / np.diff(edges)
    return edges, found


def draw_timeline(sessions: list[Session], stamps: Stamps) -> Figure:
    """Draw drivers above and running runs below, over the time since the first driver."""
    start = min([s.started for s in sessions] + (stamps.finished - stamps.wall).tolist())
    end = max([s.started + s.elapsed for s in sessions] + stamps.finished.tolist() + [start + 1])
    unit, size = ("h", 3600.0) if end - start > 7200 else ("min", 60.0) if end - start > 120 else ("s", 1.0)
    figure, axes = make_figure(4.6, 5.4, rows=2)
    top, bottom = axes[:, 0]
    for i, session in enumerate(sessions):
        width = max(session.elapsed, (end - start) / 300)
        top.barh(-i, width / size, left=(session.started - start) / size, height=0.7, color=COLOURS[0])
    top.set_yticks([])
    top.spines["left"].set_visible(False)
    when = f"time since the first driver [{unit}]"
    set_labels(top, when, "", "Drivers, the first on top")
    edges, hosts = count_running(stamps, start, end)
    base = np.zeros(len(edges) - 1)
    for i, (host, mean) in enumerate(hosts.items()):
        colour = COLOURS[i % len(COLOURS)]
        look = {"fill": True, "color": colour, "alpha": 0.75, "label": as_label(host)}
        bottom.stairs(base + mean, (edges - start) / size, baseline=base, **look)
        base = base + mean
    unusual = (stamps.attempt > 1) | (np.array(stamps.status) != "ok")
    if unusual.any():
        height = np.full(int(unusual.sum()), -0.04 * max(float(base.max()), 1))
        at = (stamps.finished[unusual] - start) / size
        bottom.plot(at, height, "|", ms=7, color=COLOURS[1], rasterized=True, label="failed or repeated")
    for ax in (top, bottom):
        ax.set_xlim(0, (end - start) / size)
    set_labels(bottom, when, "running runs", "Runs at a time")
    if len(hosts) <= 6:
        add_legend(bottom, loc="upper right")
    bottom.set_ylim(top=1.35 * max(float(base.max()), 0.5))
    top.set_facecolor("none")
    top.axhspan(-len(sessions) + 0.4, 0.6, color=BAND, alpha=0.15, lw=0)
    return figure
