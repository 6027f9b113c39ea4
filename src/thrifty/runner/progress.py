"""What a person sees while runs go on: a bar by predicted cost, plain lines, JSON lines, or nothing.

Progress counts predicted cost, not runs: a bar by count lies when one run costs a thousand others. Only what is
safe on disk is counted. Everything goes to stderr; stdout is for data.

The figures behind progress: spent, left with an interval, failed prior mass, what the plan saves.
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any, Literal, TextIO

import numpy as np
import numpy.typing as npt

from thrifty.errors import ConfigError
from thrifty.runner.savings import Z95, Saved, saved
from thrifty.runner.schedule import Schedule
from thrifty.runner.task import Outcome
from thrifty.types import Array


@dataclass(frozen=True)
class Figures:
    """A moment of a campaign, ready to be shown."""

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

    def head(self) -> str:
        """Share, count, workers."""
        of = "of cost" if self.by_cost else "of runs"
        return f"{100 * self.share:3.0f}% {of}   {self.done:,}/{self.total:,} runs   {self.busy} busy"

    def lines(self) -> list[str]:
        """Spent and left; saved."""
        spent = f"spent {amount(self.spent, self.unit)}"
        spent += f" of {amount(self.budget, self.unit)}" if self.budget else ""
        parts = [spent]
        if np.isfinite(self.left) and self.share < 1:
            at = time.strftime("%H:%M", time.localtime(time.time() + self.left))
            interval = f"({amount(self.left_low, 's')}-{amount(self.left_high, 's')})"
            parts.append(f"left {amount(self.left, 's')} {interval}")
            parts.append(f"ETA {at}")
        parts.append(f"failed {self.failed:,} ({100 * self.failed_mass:.2g}% of prior mass)")
        lines = [" | ".join(parts)]
        if self.saved is not None and self.saved.effective < self.total * 0.999:
            s = self.saved
            interval = f"({amount(s.low, self.unit)} to {amount(s.high, self.unit)})"
            saves = "saved" if self.done == self.total else "the whole plan saves"
            lines.append(
                f"{saves} {amount(s.amount, self.unit)} {interval} = {100 * s.share:.0f}% after pilots"
                f" | per effective run {100 * s.per_effective:.0f}%"
            )
        return lines

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON; NaN is null."""
        flat = asdict(self)
        more = flat.pop("saved") or {}
        flat |= {f"saved_{key}": value for key, value in more.items()}
        return {key: None if isinstance(v, float) and not np.isfinite(v) else v for key, v in flat.items()}


class Tally:
    """Collects costs and weights of all runs, earlier ones included.

    Args:
        total: Runs of the table when all is done.
        price: Cost of an outcome, in `unit`.
        weight_of: Log weight of an index.
        earlier: Cost, log weight and failure of the runs recorded earlier, (n,) each.
        ahead: Index, predicted cost and log weight of the runs to come, (n,) each, in order of the index.
    """

    def __init__(
        self,
        total: int,
        *,
        price: Callable[[Outcome], float] = lambda outcome: outcome.cpu,
        unit: str = "s",
        weight_of: Callable[[int], float] = lambda index: 0.0,
        earlier: tuple[Array, Array, np.ndarray] | None = None,
        ahead: tuple[npt.NDArray[np.int64], Array, Array] | None = None,
        budget: float | None = None,
    ) -> None:
        self.total, self.price, self.unit, self.weight_of, self.budget = total, price, unit, weight_of, budget
        cost, log_weights, failed = earlier or (np.empty(0), np.empty(0), np.empty(0, bool))
        # plain arrays: 17 bytes a run, where lists of numbers take 72
        self._cost, self._weight = array("d", cost), array("d", log_weights)
        self._failed = array("b", np.asarray(failed, dtype=np.int8))
        self._ahead = ahead or (np.empty(0, np.int64), np.empty(0), np.empty(0))
        self._open, self._weighed = np.ones(len(self._ahead[0]), dtype=bool), True

    def take(self, outcomes: Sequence[Outcome]) -> None:
        """Count outcomes."""
        for outcome in outcomes:
            weight = self.weight_of(outcome.index)
            self._weighed &= not np.isnan(weight)
            self._cost.append(self.price(outcome))
            self._weight.append(0.0 if np.isnan(weight) else weight)
            row = int(np.searchsorted(self._ahead[0], outcome.index))
            if row < len(self._open) and self._ahead[0][row] == outcome.index:
                self._open[row] = False
            self._failed.append(outcome.status != "ok")

    def figures(self, *, schedule: Schedule | None = None, busy: int = 0) -> Figures:
        """The figures now."""
        cost, weight, failed = np.array(self._cost), np.array(self._weight), np.array(self._failed, dtype=bool)
        left, low, high, share = self._left(schedule, busy)
        if self.budget:
            share = max(share, min(float(np.nansum(cost)) / self.budget, 1.0))  # draws it does not admit never run
        weights = np.exp(weight - weight.max()) if len(weight) and np.isfinite(weight).any() else np.ones(len(weight))
        return Figures(
            done=len(cost),
            total=self.total,
            share=share,
            busy=busy,
            spent=float(np.nansum(cost)),
            unit=self.unit,
            left=left,
            left_low=low,
            left_high=high,
            failed=int(failed.sum()),
            failed_mass=float(weights[failed].sum() / weights.sum()) if len(cost) else 0.0,
            saved=self._saved(cost, weight),
            by_cost=schedule is None or schedule.has_predictions,
            budget=self.budget,
        )

    def _saved(self, cost: Array, weight: Array) -> Saved | None:
        """What the whole plan saves: cost as measured of runs that are done, as predicted of those to come.

        Finished runs alone would flatter, since cheap ones finish first and the weights are those of all. Where the
        cost or the weight of a run is not known (no prediction, or admitted by a budget since), nothing is said.
        """
        predicted, weights = self._ahead[1][self._open], self._ahead[2][self._open]
        if not self._weighed or len(cost) + len(predicted) < self.total or not np.isfinite(predicted).all():
            return None
        return saved(np.concatenate([cost, predicted]), np.concatenate([weight, weights]))

    def _left(self, schedule: Schedule | None, busy: int) -> tuple[float, float, float, float]:
        """Wall seconds left with a 95 % interval, and the share of predicted cost that is done."""
        if schedule is None:
            return 0.0, 0.0, 0.0, 1.0
        units, squares = schedule.sum_outstanding()
        share = 1 - units / max(schedule.predicted.sum(), 1e-300)
        if schedule.pace is None or busy == 0:
            return np.nan, np.nan, np.nan, share
        left = units * schedule.pace / busy
        relative = schedule.spread * np.sqrt(squares / max(units**2, 1e-300) + 1 / max(schedule.learned, 1))
        factor = float(np.exp(min(Z95 * relative, 20.0)))
        return left, left / factor, left * factor, share


def amount(value: float | None, unit: str) -> str:
    """A cost for people: seconds become minutes, hours or days.

    Example:
        >>> amount(5400, "s"), amount(12.34, "eur")
        ('1.5 h', '12.3 eur')
    """
    if value is None:
        return "?"
    if unit not in ("s", "cpu-s"):
        return f"{value:,.3g} {unit}"
    for seconds, word in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if abs(value) >= seconds:
            return f"{value / seconds:.3g} {word}"
    return f"{value:.3g} s"


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

    def update(self, *, schedule: Schedule, busy: int, outcomes: Sequence[Outcome]) -> None:
        """Take new outcomes in; show figures when it is time."""
        self.tally.take(outcomes)
        self._schedule = schedule
        now = time.monotonic()
        if now - self._shown >= self.every:
            self._shown = now
            self.view.show(self.tally.figures(schedule=schedule, busy=busy))

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
