"""Show the progress of posterior calls, estimate their time, and end them when the time is over."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from thrifty.progress_bar import NotebookBar, is_notebook, wants_bar

_DENSITY_SHARE = 0.5  # densities that take more of the time than this are given up first: they serve one check of five
_SECONDS_BEFORE_ESTIMATE = 0.5  # spent before the time of the rest is estimated


class Pace:
    """A clock for calls of a posterior: how many are done, how long the rest takes, and whether the time is over.

    Args:
        seconds: Wall seconds allowed, or None without limit.
        progress: Show a bar, on stderr or in the notebook; None: where one can be drawn.

    Example:
        >>> pace = Pace(seconds=60.0, progress=False)
        >>> with pace.begin(300):
        ...     pace.advance(1)
        >>> pace.is_over(), pace.gives_up_densities()
        (False, False)
    """

    def __init__(self, seconds: float | None = None, progress: bool | None = False) -> None:
        self.seconds = seconds
        self.progress = wants_bar(progress)
        self.total, self.done = 0, 0
        self.began = self.last = time.monotonic()
        self.drawing, self.evaluating = 0.0, 0.0
        self._given_up = False
        self._bar: Any = None
        self._task: Any = None
        self._notebook: NotebookBar | None = None

    @contextlib.contextmanager
    def begin(self, total: int) -> Iterator[None]:
        """Start the clock for `total` calls, with a bar where one is wanted."""
        self.total, self.done = total, 0
        self.began = self.last = time.monotonic()
        if not self.progress:
            yield
            return
        if is_notebook():
            self._notebook = NotebookBar("checking")
            yield
            self._notebook.update(self.done / max(total, 1), [f"{self.done} of {total} runs"], force=True)
            self._notebook = None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TimeElapsedColumn

        columns = ("checking", BarColumn(), "{task.completed:.0f} of {task.total:.0f} runs", "{task.fields[left]}")
        with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as self._bar:
            self._task = self._bar.add_task("checking", total=total, left="estimating its time")
            yield
        self._bar = None

    def note_draws(self) -> None:
        """Count the time since the last note as drawing."""
        now = time.monotonic()
        self.drawing, self.last = self.drawing + now - self.last, now

    def note_densities(self) -> None:
        """Count the time since the last note as evaluating densities."""
        now = time.monotonic()
        self.evaluating, self.last = self.evaluating + now - self.last, now

    def advance(self, done: int) -> None:
        """Say how many calls are done."""
        self.done, self.last = done, time.monotonic()
        left = f"about {self.estimate_left():.0f} s left"
        if self._notebook is not None:
            self._notebook.update(done / max(self.total, 1), [f"{done} of {self.total} runs, {left}"])
        if self._bar is not None:
            self._bar.update(self._task, completed=done, left=left)

    def estimate_left(self) -> float:
        """Estimate the seconds of the calls that are left."""
        spent = time.monotonic() - self.began
        return spent / max(self.done, 1) * (self.total - self.done)

    def is_over(self) -> bool:
        """Whether the time is over."""
        return self.seconds is not None and time.monotonic() - self.began > self.seconds

    def gives_up_densities(self) -> bool:
        """Whether densities take most of the time, and too much of it."""
        spent = time.monotonic() - self.began
        if self.seconds is None or spent < min(_SECONDS_BEFORE_ESTIMATE, 0.1 * self.seconds) or not self.done:
            return self._given_up
        late = spent + self.estimate_left() > self.seconds
        self._given_up |= late and self.evaluating > _DENSITY_SHARE * (self.drawing + self.evaluating)
        return self._given_up
