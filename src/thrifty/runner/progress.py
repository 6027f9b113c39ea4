"""Show progress while runs go on: a bar by predicted cost, plain lines, JSON lines, or nothing.

Progress counts predicted cost, not runs: a bar by count misleads when one run costs a thousand others. Only what is
safe on disk is counted. Everything goes to stderr; stdout is for data.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any, Literal, TextIO

import numpy as np

from thrifty.durations import format_amount, format_kind, format_percent
from thrifty.errors import ConfigError
from thrifty.progress_bar import NotebookBar, is_notebook
from thrifty.runner.schedule import Schedule
from thrifty.runner.snapshot import Z95, Saved, Totals

ProgressMode = Literal["auto", "quiet", "plain", "bar", "json"]
SHOW_SECONDS = {"bar": 0.2, "plain": 30.0, "json": 1.0}  # a terminal is watched, a log file is read later
MAX_SHOW_SHARE = 0.02  # of the driver's time: the weights of a million rows take seconds


@dataclass(frozen=True)
class Figures:
    """One moment of a campaign: spent, left with an interval, failed prior mass, what the plan saves."""

    done: int
    total: int
    share: float
    busy: int
    spent: float
    unit: str
    left: float
    left_low: float
    left_high: float
    failed: int
    failed_mass: float
    saved: Saved | None
    by_cost: bool
    budget: float | None = None
    left_cost: float = np.nan
    kind: str = ""

    def format_head(self) -> str:
        """Say share, count, workers."""
        of = "of cost" if self.by_cost else "of runs"
        return f"{100 * self.share:3.0f}% {of}   {self.done:,}/{self.total:,} runs   {self.busy} busy"

    def format_end(self) -> str:
        """Say how far it came; draws that a budget did not admit are no runs that are missing."""
        of = "of cost" if self.by_cost else "of runs"
        if self.share < 1 or self.done == self.total:
            return f"{100 * self.share:3.0f}% {of}   {self.done:,}/{self.total:,} runs"
        return f"100% {of}   {self.done:,} runs done"

    def format_lines(self) -> list[str]:
        """Say what is spent and left, and what is saved where that is known."""
        spent = f"spent {format_kind(self.spent, self.unit, self.kind)}"
        parts = [spent + (f" of {format_amount(self.budget, self.unit)}" if self.budget else "")]
        if np.isfinite(self.left_cost) and self.share < 1:
            parts.append(f"left {format_amount(self.left_cost, self.unit)}")  # in the unit of what is spent
        if np.isfinite(self.left) and self.share < 1:
            at = time.strftime("%H:%M", time.localtime(time.time() + self.left))
            interval = f"({format_amount(self.left_low, 's')}-{format_amount(self.left_high, 's')})"
            parts.append(f"ETA {at}, in {format_amount(self.left, 's')} {interval}")
        parts.append(f"failed {self.failed:,} ({format_percent(self.failed_mass)} of prior mass)")
        lines = [" | ".join(parts)]
        if self.saved is not None and self.saved.effective < self.total * 0.999:
            s = self.saved
            interval = f"({format_amount(s.low, self.unit)} to {format_amount(s.high, self.unit)})"
            saves = "saved" if self.done == self.total else "the whole plan saves"
            lines.append(
                f"{saves} {format_amount(s.amount, self.unit)} {interval} = {100 * s.share:.0f}%"
                f" | per effective run {100 * s.per_effective:.0f}%"
            )
        return lines

    def as_dict(self) -> dict[str, object]:
        """Return plain values for JSON; NaN is null."""
        flat = asdict(self)
        more = flat.pop("saved") or {}
        flat |= {f"saved_{key}": value for key, value in more.items()}
        return {key: None if isinstance(v, float) and not np.isfinite(v) else v for key, v in flat.items()}


@dataclass(frozen=True)
class Watched:
    """What progress is shown of.

    Attributes:
        total: Runs of the table when all is done.
        unit: Unit of cost.
        sum_up: Returns sums over the runs that count, as far as they are safe; called only when something is shown.
        budget: In the unit of cost, or None.
        used: Returns the share of a budget that is used, whatever its unit; None where all runs of the table will run.
        kind: Kind of seconds of costs, or "".
    """

    total: int
    unit: str
    sum_up: Callable[[], Totals]
    budget: float | None = None
    used: Callable[[], float] | None = None
    kind: str = ""

    def compute_figures(self, *, schedule: Schedule | None = None, busy: int = 0) -> Figures:
        """Return the figures of this moment."""
        now = self.sum_up()
        left, low, high, share = _estimate_left(schedule, busy, all_run=self.used is None)
        if self.used is not None:
            share = max(share, min(self.used(), 1.0))  # draws that the budget does not admit never run
        return Figures(
            done=now.done,
            total=self.total,
            share=share,
            busy=busy,
            spent=now.spent,
            unit=self.unit,
            left=left,
            left_low=low,
            left_high=high,
            failed=now.failed,
            failed_mass=now.failed_mass,
            saved=now.estimate_savings(),
            by_cost=schedule is None or schedule.has_predictions,
            budget=self.budget,
            left_cost=self._estimate_left_cost(now),
            kind=self.kind,
        )

    def _estimate_left_cost(self, now: Totals) -> float:
        """Return the predicted cost of what is left, no more than is left of the budget; NaN where it is not known."""
        if now.unpredicted or not now.predicted:
            return np.nan
        return min(now.left, max(self.budget - now.spent, 0.0)) if self.budget else now.left


def _estimate_left(schedule: Schedule | None, busy: int, *, all_run: bool = True) -> tuple[float, float, float, float]:
    """Return wall seconds left with a 95 % interval, and the share of predicted cost that is done."""
    if schedule is None:
        return 0.0, 0.0, 0.0, 1.0
    units, squares = schedule.sum_outstanding(everything=True)
    share = 1 - units / max(schedule.predicted.sum(), 1e-300)
    if not all_run:
        units, squares = schedule.sum_outstanding()
    if schedule.pace is None or busy == 0:
        return np.nan, np.nan, np.nan, share
    left = units * schedule.pace / busy
    relative = schedule.spread * np.sqrt(squares / max(units**2, 1e-300) + 1 / max(schedule.learned, 1))
    factor = float(np.exp(min(Z95 * relative, 20.0)))
    return left, left / factor, left * factor, share


def read_mode(progress: ProgressMode | bool | None) -> ProgressMode:
    """Read how progress is shown: a mode, True for a bar, False for nothing, None for "auto".

    Example:
        >>> read_mode(None), read_mode(False), read_mode(True), read_mode("json")
        ('auto', 'quiet', 'bar', 'json')
    """
    if progress is None or isinstance(progress, bool):
        return "auto" if progress is None else "bar" if progress else "quiet"
    if progress not in ("auto", "quiet", "plain", "bar", "json"):
        raise ConfigError(
            f"progress = {progress!r}, expected True, False, None, auto, quiet, plain, bar or json", code="bad-setting"
        )
    return progress


def watch_progress(progress: ProgressMode | bool | None, watched: Watched, *, stream: TextIO | None = None) -> Progress:
    """Show progress in a mode; "auto" is a bar in a terminal and in a notebook, and plain lines elsewhere."""
    mode = read_mode(progress)
    target: TextIO = stream if stream is not None else sys.stderr
    in_notebook = mode in ("auto", "bar") and stream is None and is_notebook()
    if mode == "auto":
        mode = "bar" if target.isatty() or in_notebook else "plain"
    view = {"quiet": Quiet, "plain": Plain, "json": Json, "bar": InNotebook if in_notebook else Bar}[mode]
    return Progress(view(target), watched, every=SHOW_SECONDS.get(mode, np.inf))


class Progress(AbstractContextManager["Progress"]):
    """Give a view new figures, not more often than is useful, and never for more than a share of the time."""

    def __init__(self, view: Quiet, watched: Watched, *, every: float) -> None:
        self.view, self.watched, self.every = view, watched, every
        self._due = time.monotonic() + every
        self._schedule: Schedule | None = None

    def __enter__(self) -> Progress:
        self.view.begin()
        return self

    def __exit__(self, *_: object) -> None:
        if self.every < np.inf:  # as far as it came, not always the end
            self.view.end(self.watched.compute_figures(schedule=self._schedule))

    def update(self, *, schedule: Schedule, busy: int) -> None:
        """Show new figures when it is time."""
        self._schedule = schedule
        began = time.monotonic()
        if began >= self._due:
            self.view.show(self.watched.compute_figures(schedule=schedule, busy=busy))
            now = time.monotonic()
            self._due = now + max(self.every, (now - began) / MAX_SHOW_SHARE)

    def say(self, text: str) -> None:
        """Show a line that must be seen now."""
        self.view.say(text)


class Quiet:
    """Show nothing."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def begin(self) -> None:
        """Prepare for the first run."""

    def show(self, figures: Figures) -> None:
        """Show figures while runs go on."""

    def say(self, text: str) -> None:
        """Show a line of its own."""

    def end(self, figures: Figures) -> None:
        """Show the last state."""


class Plain(Quiet):
    """Write one line every half minute: for log files and batch queues."""

    def show(self, figures: Figures) -> None:
        """Write all figures in one line."""
        self.say("  ".join([figures.format_head(), *figures.format_lines()]))

    def say(self, text: str) -> None:
        """Write a line."""
        print(text, file=self.stream, flush=True)


class Json(Quiet):
    """Write one object per line: for programs."""

    def show(self, figures: Figures) -> None:
        """Write all figures as one object."""
        print(json.dumps(figures.as_dict()), file=self.stream, flush=True)

    def say(self, text: str) -> None:
        """Write a message as an object."""
        print(json.dumps({"message": text}), file=self.stream, flush=True)

    end = show


class InNotebook(Plain):
    """Draw a bar in the output of a notebook's cell; messages are lines above or below it."""

    def begin(self) -> None:
        """Prepare the bar; it appears with the first figures."""
        self._bar = NotebookBar("running")

    def show(self, figures: Figures) -> None:
        """Draw the bar again."""
        self._bar.update(figures.share, [figures.format_head(), *figures.format_lines()], force=True)

    def end(self, figures: Figures) -> None:
        """Leave the last state, which is not running any more."""
        self._bar.label = "ended"
        self._bar.update(figures.share, [figures.format_end(), *figures.format_lines()], force=True)


class Bar(Quiet):
    """Draw two or three lines that stay in place, in a terminal."""

    def begin(self) -> None:
        """Take over the last lines of the terminal."""
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(file=self.stream), refresh_per_second=5, transient=False)
        self._live.start()

    def show(self, figures: Figures) -> None:
        """Draw the bar again."""
        self._live.update(self._draw(figures, "running", figures.format_head()))

    def say(self, text: str) -> None:
        """Write a line above the bar."""
        self._live.console.print(text, highlight=False, markup=False)

    def end(self, figures: Figures) -> None:
        """Leave the last state on the screen."""
        self._live.update(self._draw(figures, "ended", figures.format_end()))
        self._live.stop()

    def _draw(self, figures: Figures, label: str, head: str) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=1.0, completed=figures.share, width=30)
        grid.add_row(Text(f"{label} "), bar, Text(head))
        return Group(grid, *(Text(line, no_wrap=True, overflow="ellipsis") for line in figures.format_lines()))
