"""Write the sections on the runs: failures, runs over time, and provenance."""

from __future__ import annotations

import platform
import re
import sys
import time
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from thrifty import plots
from thrifty.campaign.failures import describe_where
from thrifty.display import count_things
from thrifty.durations import format_amount, name_unit
from thrifty.plots.style import BAND, COLOURS, add_legend, make_figure, set_labels
from thrifty.report.content import Drawing, Grid, Section, as_label, clean
from thrifty.report.gather import Facts, Session, Stamps
from thrifty.types import Array
from thrifty.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CITATION = (
    "A. Bharti, D. Huang, S. Kaski, F.-X. Briol: Cost-aware simulation-based inference. Proceedings of the 28th"
    " International Conference on Artificial Intelligence and Statistics (AISTATS), 2025."
)
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch", "zuko", "matplotlib")
MAX_TIME_BINS = 120  # of the timeline: a few pixels each
_MAX_CAUSES = 8  # different errors listed
_MIN_MAPPED = 3  # fewer failures say nothing on a map


def failures_section(facts: Facts) -> Section:
    """Show failed runs by cause, their prior mass, the time limits, and a map."""
    if not facts.done.any():
        return Section(missing="No run has finished.", command=facts.command("run"))
    failed = facts.done & ~facts.ok
    limits = [f"{limit.seconds:g} s, {limit.on_timeout}" for limit in facts.table.policies]
    rule = f"Time limit: {'; '.join(limits)}." if limits else "No time limit was set."
    if not failed.any():
        return Section([f"None of {count_things(int(facts.done.sum()), 'run')} failed. {rule}"])
    where = describe_where(facts.table.theta[facts.done], failed[facts.done], tuple(clean(n, 40) for n in facts.names))
    lead = [
        f"{int(failed.sum()):,} of {int(facts.done.sum()):,} runs failed{', ' + where if where else ''}. They represent"
        f" {facts.status.failed_mass:.2%} of the prior mass; above 1% the posterior is conditional on finishing."
        f" {rule}",
        "A failed run is never repeated with other noise or replaced: that would bias the posterior.",
    ]
    drawings = []
    if _MIN_MAPPED <= failed.sum() < facts.done.sum():
        figure = plots.failures(facts.failure_map)
        what = f"Share of runs that finish over the parameters that change it most; {int(failed.sum())} runs failed"
        drawings.append(Drawing(figure, "Where runs fail", what))
    return Section(lead, drawings, [_list_causes(facts, failed)], beside=True)


def _list_causes(facts: Facts, failed: np.ndarray) -> Grid:
    """List failed runs by status and error, with counts, prior mass and one index to replay."""
    text = dict(zip(facts.stamps.index.tolist(), facts.stamps.error, strict=True))
    weights = np.where(np.isfinite(facts.log_weights), np.exp(facts.log_weights - np.nanmax(facts.log_weights)), 0.0)
    total = weights[facts.done].sum()
    groups: dict[tuple[str, str], list[int]] = {}
    for row in np.flatnonzero(failed):
        error = text.get(int(facts.table.index[row]), "")
        lines = [line for line in error.strip().splitlines() if line.strip()]
        cause = re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "#", clean(lines[-1] if lines else "", 160))
        groups.setdefault((str(facts.table.status[row]), cause), []).append(int(row))
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    body = [
        [status, cause or "no message", f"{len(rows):,}", f"{weights[rows].sum() / total:.2%}",
         str(int(facts.table.index[rows[0]]))]
        for (status, cause), rows in ordered[:_MAX_CAUSES]
    ]  # fmt: skip
    rest = sum(len(rows) for _, rows in ordered[_MAX_CAUSES:])
    body += [["others", f"{len(ordered) - _MAX_CAUSES} other messages", f"{rest:,}", "", ""]] if rest else []
    header = ["status", "last line of the error (numbers as #)", "runs", "prior mass", "index of one"]
    return Grid(header, body, words=2)


def timeline_section(facts: Facts) -> Section:
    """Show drivers and running runs, from the times in the store."""
    stamps = facts.stamps
    if not len(stamps.finished) or not facts.sessions:
        return Section(missing="No run has finished.", command=facts.command("run"))
    hosts = Counter(stamps.host)
    repeated = int((stamps.attempt > 1).sum())
    elapsed, wall = sum(s.elapsed for s in facts.sessions), float(stamps.wall.sum())
    lead = [
        f"{count_things(len(facts.sessions), 'driver session')}, {format_amount(elapsed, 's')} in all, on"
        f" {count_things(len(hosts), 'host')}; {format_amount(wall, 's')} of run time."
        f" Started again after a worker died or a limit was extended: {count_things(repeated, 'run')}.",
    ]
    body = [
        [time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(s.started)), format_amount(s.elapsed, "s"), s.engine, s.host,
         str(s.pid)]
        for s in facts.sessions[-12:]
    ]  # fmt: skip
    figure = _draw_timeline(facts.sessions[-30:], stamps)
    what = f"When each of {len(facts.sessions)} drivers ran, and how many runs were running on each host"
    notes = [
        "The store keeps host, end, duration and attempt of every run, not the worker: the lower figure counts running"
        " runs. The end is written when a group of runs is committed (twice a second). A session that was killed"
        " ends at its last commit."
    ]
    notes += ["The last 12 sessions are listed, the last 30 drawn."] if len(facts.sessions) > 12 else []
    grid = Grid(["began (UTC)", "lasted", "engine", "host", "pid"], body, words=5)
    return Section(lead, [Drawing(figure, "Drivers and running runs", what)], [grid], notes, beside=True)


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


def _draw_timeline(sessions: list[Session], stamps: Stamps) -> Figure:
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


def provenance_section(facts: Facts, digest: str, command: str | None) -> Section:
    """List versions, seed, hashes, the command, and how to cite."""
    settings, repeats = facts.settings, count_things(facts.settings.m, "realisation")
    rows: list[list[str]] = [
        ["folder", clean(facts.folder)],
        ["command", clean(command) if command else "written from Python: thrifty.report.write"],
        ["seed", clean(settings.seed, 40)],
        ["prior", _describe_prior(settings.prior)],
        ["cost", f"{clean(settings.cost, 20)}, in {name_unit(facts.unit)}; {repeats} a run"],
        ["simulator", _describe_simulator(settings.simulator)],
        ["repeatable", "same seed, same output" if facts.status.deterministic else "NO: two runs with one seed differ"],
        ["table hash", digest or "no complete table yet"],
        ["plans", _describe_plans(facts)],
        ["created with", f"thrifty {clean(settings.made_by, 20)}, store format {clean(settings.store_format, 20)}"],
        ["this report", f"thrifty {__version__}, Python {platform.python_version()}, {sys.platform}; {_libraries()}"],
    ]  # fmt: skip
    notes = [f"Note of the campaign: {clean(note)}" for note in facts.status.notes]
    words = f"Please cite the paper of this method, and thrifty {__version__}: {CITATION}"
    grid = Grid(["", ""], rows, words=2)
    return Section([words], tables=[grid], notes=notes)


def _describe_prior(described: dict[str, Any]) -> str:
    names, low, high = (described.get(key, []) for key in ("names", "low", "high"))
    recipe = described.get("recipe") or {}
    kind, marginals = clean(recipe.get("kind", "own object"), 40), recipe.get("marginals") or [{}] * len(names)
    parts = [
        f"{clean(name, 40)}{_name_family(marginal)} in [{_format_bound(a)}, {_format_bound(b)}]"
        for name, marginal, a, b in zip(names, marginals, low, high, strict=False)
    ]
    return f"{kind}: " + ", ".join(parts[:20]) + (" …" if len(parts) > 20 else "")


def _name_family(marginal: dict[str, Any]) -> str:
    """Name the family of one parameter of an independent prior, with a blank before it; nothing where it has none.

    Example:
        >>> _name_family({"prior": {"kind": "Integers"}}), _name_family({"name": "loguniform"}), _name_family({})
        (' Integers', ' loguniform', '')
    """
    name = (marginal.get("prior") or {}).get("kind") or marginal.get("name")
    return f" {clean(name, 40)}" if name else ""


def _format_bound(value: Any) -> str:
    return clean(value, 12).removesuffix(".0")


def _describe_simulator(parts: Any) -> str:
    if not isinstance(parts, dict):
        return "unknown"
    labels = {"format": "fingerprint format"}  # the store has a format of its own
    shown = [f"{clean(labels.get(name, name), 50)} {clean(value, 30)}" for name, value in list(parts.items())[:8]]
    return "; ".join(shown) + (f"; and {len(parts) - 8} more" if len(parts) > 8 else "")


def _describe_plans(facts: Facts) -> str:
    planned = [block for block in facts.blocks if block.mode != "pilot"]
    words = [count_things(facts.status.pilots, "pilot")] if facts.status.pilots else []
    words += [
        f"{count_things(block.n, 'draw')} of part {block.part} ({clean(block.mode, 10)})" for block in planned[:6]
    ]
    wall = " of wall time" if facts.status.budget_is_wall else ""
    words += [f"budget {clean(facts.status.budget, 40)}{wall}"] if facts.status.budget else []
    return ", ".join(words) or "none yet"


def _libraries() -> str:
    found = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
