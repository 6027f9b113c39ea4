"""What a person sees while runs go on: a bar by predicted cost, plain lines, JSON lines, or nothing.

Progress counts predicted cost, not runs: a bar by count lies when one run costs a thousand others. Only what is
safe on disk is counted. Everything goes to stderr; stdout is for data.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, TextIO

from thrifty.campaign.schedule import Schedule
from thrifty.campaign.tally import Figures, Tally
from thrifty.campaign.task import Outcome
from thrifty.errors import ConfigError

ProgressMode = Literal["auto", "quiet", "plain", "bar", "json"]
EVERY = {"bar": 0.2, "plain": 30.0, "json": 1.0}  # seconds: a terminal is watched, a log file is read later


def watcher(mode: ProgressMode, *, tally: Tally, stream: TextIO | None = None) -> Watching:
    """The watcher for a mode; "auto" is a bar in a terminal and plain lines elsewhere."""
    if mode not in ("auto", "quiet", "plain", "bar", "json"):
        raise ConfigError(f"progress = {mode!r}, expected auto, quiet, plain, bar or json", code="bad-setting")
    target: TextIO = stream if stream is not None else sys.stderr
    if mode == "auto":
        mode = "bar" if target.isatty() else "plain"
    view = {"quiet": Quiet, "plain": Plain, "json": Json, "bar": Bar}[mode]
    return Watching(view(target), tally, every=EVERY.get(mode, 1.0))


class Watching(AbstractContextManager["Watching"]):
    """Feeds a view with figures, not more often than is useful."""

    def __init__(self, view: Quiet, tally: Tally, *, every: float) -> None:
        self.view, self.tally, self.every = view, tally, every
        self._shown = time.monotonic()
        self._schedule: Schedule | None = None

    def __enter__(self) -> Watching:
        self.view.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.view.end(self.tally.figures(schedule=self._schedule))  # as far as it came, not always the end

    def update(self, *, recorded: int, schedule: Schedule, busy: int, outcomes: Sequence[Outcome]) -> None:
        """Take new outcomes in; show figures when it is time."""
        self.tally.take(outcomes)
        self._schedule = schedule
        now = time.monotonic()
        if now - self._shown >= self.every:
            self._shown = now
            self.view.show(self.tally.figures(recorded=recorded, schedule=schedule, busy=busy))

    def say(self, text: str) -> None:
        """A line that must be seen now."""
        self.view.say(text)


class Quiet:
    """Nothing, except what must be said."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def begin(self) -> None:
        """Before the first run."""

    def show(self, figures: Figures) -> None:
        """While running."""

    def say(self, text: str) -> None:
        """A line of its own."""

    def end(self, figures: Figures) -> None:
        """After the last run."""


class Plain(Quiet):
    """One line every half minute: for log files and batch queues."""

    def show(self, figures: Figures) -> None:
        """While running."""
        self.say("  ".join([figures.head(), *figures.lines()]))

    def say(self, text: str) -> None:
        """A line of its own."""
        print(text, file=self.stream, flush=True)


class Json(Quiet):
    """One object per line: for programs."""

    def show(self, figures: Figures) -> None:
        """While running."""
        print(json.dumps(figures.as_dict()), file=self.stream, flush=True)

    def say(self, text: str) -> None:
        """A line of its own."""
        print(json.dumps({"message": text}), file=self.stream, flush=True)

    def end(self, figures: Figures) -> None:
        """The last state."""
        self.show(figures)


class Bar(Quiet):
    """Two or three lines that stay in place, in a terminal."""

    def begin(self) -> None:
        """Take over the last lines of the terminal."""
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(file=self.stream), refresh_per_second=5, transient=False)
        self._live.start()

    def show(self, figures: Figures) -> None:
        """While running."""
        self._live.update(self._drawn(figures))

    def say(self, text: str) -> None:
        """A line above the bar."""
        self._live.console.print(text, highlight=False, markup=False)

    def end(self, figures: Figures) -> None:
        """Leave the last state on the screen."""
        self._live.update(self._drawn(figures))
        self._live.stop()

    def _drawn(self, figures: Figures) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        grid.add_row(Text("running "), ProgressBar(total=1.0, completed=figures.share, width=30), Text(figures.head()))
        return Group(grid, *(Text(line, no_wrap=True, overflow="ellipsis") for line in figures.lines()))
