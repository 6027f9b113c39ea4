"""Show progress while runs go on: a bar by predicted cost, plain lines, JSON lines, or nothing.

Progress counts predicted cost, not runs: a bar by count misleads when one run costs a thousand others. Only what is
safe on disk is counted. Everything goes to stderr; stdout is for data.
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
from thrifty.runner.savings import Z95, Saved, estimate_savings
from thrifty.runner.schedule import Schedule
from thrifty.runner.task import Outcome
from thrifty.types import Array

ProgressMode = Literal["auto", "quiet", "plain", "bar", "json"]
SHOW_SECONDS = {"bar": 0.2, "plain": 30.0, "json": 1.0}  # a terminal is watched, a log file is read later


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

    def format_head(self) -> str:
        """Say share, count, workers."""
        of = "of cost" if self.by_cost else "of runs"
        return f"{100 * self.share:3.0f}% {of}   {self.done:,}/{self.total:,} runs   {self.busy} busy"

    def format_lines(self) -> list[str]:
        """Say what is spent and left, and what is saved where that is known."""
        spent = f"spent {format_amount(self.spent, self.unit)}"
        parts = [spent + (f" of {format_amount(self.budget, self.unit)}" if self.budget else "")]
        if np.isfinite(self.left) and self.share < 1:
            at = time.strftime("%H:%M", time.localtime(time.time() + self.left))
            interval = f"({format_amount(self.left_low, 's')}-{format_amount(self.left_high, 's')})"
            parts += [f"left {format_amount(self.left, 's')} {interval}", f"ETA {at}"]
        parts.append(f"failed {self.failed:,} ({100 * self.failed_mass:.2g}% of prior mass)")
        lines = [" | ".join(parts)]
        if self.saved is not None and self.saved.effective < self.total * 0.999:
            s = self.saved
            interval = f"({format_amount(s.low, self.unit)} to {format_amount(s.high, self.unit)})"
            saves = "saved" if self.done == self.total else "the whole plan saves"
            lines.append(
                f"{saves} {format_amount(s.amount, self.unit)} {interval} = {100 * s.share:.0f}% after pilots"
                f" | per effective run {100 * s.per_effective:.0f}%"
            )
        return lines

    def as_dict(self) -> dict[str, object]:
        """Return plain values for JSON; NaN is null."""
        flat = asdict(self)
        more = flat.pop("saved") or {}
        flat |= {f"saved_{key}": value for key, value in more.items()}
        return {key: None if isinstance(v, float) and not np.isfinite(v) else v for key, v in flat.items()}


class Tally:
    """Collect costs and weights of all runs, earlier ones included.

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
        self._cost, self._log_weights = array("d", cost), array("d", log_weights)
        self._failed = array("b", np.asarray(failed, dtype=np.int8))
        self._ahead = ahead or (np.empty(0, np.int64), np.empty(0), np.empty(0))
        self._is_open, self._all_weighted = np.ones(len(self._ahead[0]), dtype=bool), True

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Count outcomes."""
        for outcome in outcomes:
            log_weight = self.weight_of(outcome.index)
            self._all_weighted &= not np.isnan(log_weight)
            self._cost.append(self.price(outcome))
            self._log_weights.append(0.0 if np.isnan(log_weight) else log_weight)
            self._failed.append(outcome.status != "ok")
            row = int(np.searchsorted(self._ahead[0], outcome.index))
            if row < len(self._is_open) and self._ahead[0][row] == outcome.index:
                self._is_open[row] = False

    def compute_figures(self, *, schedule: Schedule | None = None, busy: int = 0) -> Figures:
        """Return the figures of this moment."""
        cost, log_weights = np.array(self._cost), np.array(self._log_weights)
        failed, spent = np.array(self._failed, dtype=bool), float(np.nansum(cost))
        left, low, high, share = _estimate_left(schedule, busy)
        if self.budget:
            share = max(share, min(spent / self.budget, 1.0))  # draws it does not admit never run
        known = np.isfinite(log_weights).any()
        weights = np.exp(log_weights - log_weights.max()) if known else np.ones(len(cost))
        return Figures(
            done=len(cost),
            total=self.total,
            share=share,
            busy=busy,
            spent=spent,
            unit=self.unit,
            left=left,
            left_low=low,
            left_high=high,
            failed=int(failed.sum()),
            failed_mass=float(weights[failed].sum() / weights.sum()) if len(cost) else 0.0,
            saved=self._estimate_savings(cost, log_weights),
            by_cost=schedule is None or schedule.has_predictions,
            budget=self.budget,
        )

    def _estimate_savings(self, cost: Array, log_weights: Array) -> Saved | None:
        """Estimate what the whole plan saves: cost as measured of runs that are done, as predicted of those to come.

        Finished runs alone would flatter, since cheap ones finish first and the weights are those of all. Where the
        cost or the weight of a run is not known (no prediction, or admitted by a budget since), nothing is said.
        """
        predicted, ahead = self._ahead[1][self._is_open], self._ahead[2][self._is_open]
        if not self._all_weighted or len(cost) + len(predicted) < self.total or not np.isfinite(predicted).all():
            return None
        return estimate_savings(np.concatenate([cost, predicted]), np.concatenate([log_weights, ahead]))


def _estimate_left(schedule: Schedule | None, busy: int) -> tuple[float, float, float, float]:
    """Return wall seconds left with a 95 % interval, and the share of predicted cost that is done."""
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


def format_amount(value: float | None, unit: str) -> str:
    """Write a cost for people: seconds become minutes, hours or days.

    Example:
        >>> format_amount(5400, "s"), format_amount(12.34, "eur")
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


def watch_progress(mode: ProgressMode, *, tally: Tally, stream: TextIO | None = None) -> Progress:
    """Show progress in a mode; "auto" is a bar in a terminal and plain lines elsewhere."""
    if mode not in ("auto", "quiet", "plain", "bar", "json"):
        raise ConfigError(f"progress = {mode!r}, expected auto, quiet, plain, bar or json", code="bad-setting")
    target: TextIO = stream if stream is not None else sys.stderr
    if mode == "auto":
        mode = "bar" if target.isatty() else "plain"
    view = {"quiet": Quiet, "plain": Plain, "json": Json, "bar": Bar}[mode]
    return Progress(view(target), tally, every=SHOW_SECONDS.get(mode, 1.0))


class Progress(AbstractContextManager["Progress"]):
    """Give a view new figures, not more often than is useful."""

    def __init__(self, view: Quiet, tally: Tally, *, every: float) -> None:
        self.view, self.tally, self.every = view, tally, every
        self._shown_at = time.monotonic()
        self._schedule: Schedule | None = None

    def __enter__(self) -> Progress:
        self.view.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.view.end(self.tally.compute_figures(schedule=self._schedule))  # as far as it came, not always the end

    def update(self, *, schedule: Schedule, busy: int, outcomes: Sequence[Outcome]) -> None:
        """Take new outcomes in; show figures when it is time."""
        self.tally.add(outcomes)
        self._schedule = schedule
        now = time.monotonic()
        if now - self._shown_at >= self.every:
            self._shown_at = now
            self.view.show(self.tally.compute_figures(schedule=schedule, busy=busy))

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
        self._live.update(self._draw(figures))

    def say(self, text: str) -> None:
        """Write a line above the bar."""
        self._live.console.print(text, highlight=False, markup=False)

    def end(self, figures: Figures) -> None:
        """Leave the last state on the screen."""
        self.show(figures)
        self._live.stop()

    def _draw(self, figures: Figures) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=1.0, completed=figures.share, width=30)
        grid.add_row(Text("running "), bar, Text(figures.format_head()))
        return Group(grid, *(Text(line, no_wrap=True, overflow="ellipsis") for line in figures.format_lines()))
