"""The one loop: hand out bundles, collect outcomes, record them, stop without bias.

    while something is left and may be admitted:  submit
    wait ─► outcomes ─► record (durable) ─► only then count them as done

Who is blamed when a worker dies is in `retries.py`, what may be admitted under a budget in `gates.py`, the order of
runs in `schedule.py`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from thrifty.errors import SimulatorError
from thrifty.runner.causes import find_place, last_line
from thrifty.runner.gates import Gate
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.retries import Retries
from thrifty.runner.schedule import Schedule
from thrifty.runner.signatures import explain_vector
from thrifty.runner.task import Engine, Job, Outcome, OutputNames, Report, Task
from thrifty.runner.time_limits import TimeLimit

_log = logging.getLogger(__name__)
SEND_AHEAD_SECONDS = 0.25  # shorter bundles are sent before their worker is free; 2 ms of round trip are 1 % of them
WAIT_SECONDS = 0.1  # between looks at signals and gates
ADMIT_SECONDS = 0.5  # of work per slot admitted (and committed) at once: one sync per half second
MAX_BUDGET_SHARE = 0.1  # of what is left of a budget, admitted at once: the last admissions are single runs
MAX_FREE_FAILURES = 100  # in a row that cost nothing, under a budget: even if 9 in 10 fail, once in 40,000
FIRST_RUNS = 20  # that all fail: the simulator is broken, not unlucky
Ending = Literal["done", "budget", "interrupted", "timeout", "deadline"]


@dataclass(frozen=True)
class Priced:
    """Runs whose price was measured: their number, what they took from the budget, and their predicted units.

    Example:
        >>> Priced(40, paid=2000.0, units=2.0).price, Priced().price
        (1000.0, 0.0)
    """

    runs: int = 0
    paid: float = 0.0
    units: float = 0.0

    @property
    def price(self) -> float:
        """Measured price of one predicted unit; 0 before the first."""
        return self.paid / self.units if self.units > 0 else 0.0

    def add(self, paid: float, units: float) -> Priced:
        """Return these runs and one more."""
        return Priced(self.runs + 1, self.paid + paid, self.units + units)


class Sink(Protocol):
    """Where outcomes are kept."""

    def record(self, outcomes: Sequence[Outcome]) -> None:
        """Keep outcomes; return when they are buffered or safe."""
        ...

    def flush(self, *, force: bool = False) -> int:
        """Make what is buffered safe if it is time; return the number of runs made safe."""
        ...

    def discard(self, outcome: Outcome) -> None:
        """Note the cost of a run that is tried again."""
        ...

    def admit_through(self, last: int) -> None:
        """Commit that every draw up to this index will be completed; called before any of them starts."""
        ...


class Watcher(Protocol):
    """Who shows progress."""

    def update(self, *, schedule: Schedule, busy: int) -> None:
        """Show what was recorded, when it is time; called after each wait."""
        ...

    def say(self, text: str) -> None:
        """Show something the person must see now."""
        ...


@dataclass
class Loop:
    """Run everything a schedule holds on an engine.

    Attributes:
        price: What a run takes from the budget; NaN for a run that is charged as predicted.
        fail_fast: Whether to stop when all of the first runs fail.
        must_spend: Whether to stop when many runs fail and cost nothing: under a budget they would go on for ever.
        spent: Budget spent so far.
        predicted_price: Price of one predicted unit as long as none was measured.
        earlier: Runs of earlier calls, pilots included, whose price was measured.
        outputs: Names of the outputs, known or learned from the first run.
        failed_fix: What to do when all of the first runs fail.
        timed_out: The run that ended the campaign under on_timeout="stop".
        first_error: Message of the first run that failed.
        differing_index: An index that gave two answers.
    """

    engine: Engine
    job: Job
    schedule: Schedule
    sink: Sink
    limit: TimeLimit | None = None
    gate: Gate = field(default_factory=Gate)
    watcher: Watcher | None = None
    price: Callable[[Outcome], float] = lambda outcome: outcome.cpu
    fail_fast: bool = False
    must_spend: bool = False
    spent: float = 0.0
    predicted_price: float = 0.0
    earlier: Priced = field(default_factory=Priced)
    failed_fix: str = ""
    outputs: OutputNames = field(default_factory=OutputNames)
    timed_out: Outcome | None = field(default=None, init=False)
    first_error: str = field(default="", init=False)
    differing_index: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._retries = Retries(self.schedule, self.limit)
        self._statuses: Counter[str] = Counter()
        self._causes: set[str] = set()  # of failures, as long as all are the same
        self._free_failures: Counter[str] = Counter()  # failures in a row that took nothing from the budget
        self._drain_announced = self._wait_announced = False
        self._in_flight = 0.0  # predicted units that were sent and have not come back
        self._priced = Priced()  # runs of this call that came back

    @property
    def price_per_unit(self) -> float:
        """Price of one predicted unit (of one run where nothing is predicted), as measured by now.

        What this call measures can only raise the price of earlier calls: the runs that come back first are the cheap
        ones. The predicted price counts until one was measured.
        """
        return max(self.earlier.price or self.predicted_price, self._priced.price)

    @property
    def committed(self) -> float:
        """What is spent, and what will be on the runs under way."""
        return self.spent + self.price_per_unit * self._in_flight

    def run(self, interrupts: Interrupts) -> Ending:
        """Run until nothing is left, admission ends, or a signal says so."""
        self.engine.start(self.job)
        try:
            return self._run(interrupts)
        finally:
            self.engine.stop()
            self.sink.flush(force=True)

    def _run(self, interrupts: Interrupts) -> Ending:
        while True:
            if interrupts.stop or (self._is_waiting_for_workers() and interrupts.drain):
                return "interrupted"
            if self.gate.must_end(now=self.engine.clock()):
                return "deadline"
            ending = self._find_stop(interrupts) or self._fill_slots()
            if self.engine.free == self.engine.slots:
                return ending
            self._collect(self.engine.wait(WAIT_SECONDS))

    def _is_waiting_for_workers(self) -> bool:
        """Whether nothing can run until a cluster has workers; say so once, each time that it begins."""
        is_waiting = bool(getattr(self.engine, "is_waiting_for_workers", False))  # only engines on clusters have it
        if is_waiting and not self._wait_announced and self.watcher is not None:
            self.watcher.say("waiting for workers; Ctrl-C stops, and nothing is lost")
        self._wait_announced = is_waiting
        return is_waiting

    def _find_stop(self, interrupts: Interrupts) -> Ending | None:
        """Return why nothing more may start, if so; what runs is finished first."""
        if interrupts.drain:
            if self.watcher is not None and not self._drain_announced:
                running = self.engine.slots - self.engine.free
                self.watcher.say(
                    f"finishing {running} running bundle{'s' * (running != 1)}; press Ctrl-C again to stop now"
                    " (they will run again later)"
                )
            self._drain_announced = True
            return "interrupted"
        if self.timed_out:
            return "timeout"
        return None if self.gate.may_start(now=self.engine.clock()) else "deadline"

    def _fill_slots(self) -> Ending:
        """Give every free slot a bundle; what was admitted always runs, more is admitted while the gate is open."""
        while len(self.schedule) and (self.engine.free > 0 or self._may_send_ahead()):
            if not self.schedule.has_admitted:
                if not self.gate.may_admit(spent=self.committed, now=self.engine.clock()):
                    return "budget"
                share = MAX_BUDGET_SHARE * self.gate.remaining(spent=self.committed)
                cost = share / self.price_per_unit if self.price_per_unit > 0 else np.inf
                runs = max(self.earlier.runs + self._priced.runs, 1)  # no more than the runs that the price rests on
                seconds = ADMIT_SECONDS * self.engine.slots
                self.sink.admit_through(self.schedule.admit(seconds=seconds, cost=cost, runs=runs))
            bundle = self.schedule.take(seconds=self.engine.bundle_seconds, slots=self.engine.slots)
            self._in_flight += self._sum_predicted(bundle)
            self.engine.submit(bundle)
        return "done"

    def _may_send_ahead(self) -> bool:
        """Whether a busy worker gets its next bundle now; it is admitted and counted as in flight like any other."""
        return self.engine.ahead > 0 and self.schedule.is_next_short(
            seconds=SEND_AHEAD_SECONDS, slots=self.engine.slots
        )

    def _sum_predicted(self, tasks: Sequence[Task]) -> float:
        return sum(task.predicted for task in tasks)

    def _collect(self, reports: Sequence[Report]) -> None:
        kept: list[Outcome] = []
        for report in reports:
            self._in_flight -= self._sum_predicted(report.tasks)
            tasks = {task.index: task for task in report.tasks}
            kept += [o for outcome in report.outcomes if (o := self._accept(outcome, tasks[outcome.index]))]
            given_up = self._retries.repeat_unfinished(report)
            self.spent += sum(self.price(outcome) for outcome in given_up)
            kept += given_up
        if kept:
            self.sink.record(kept)
            self._check_failures(kept)
        self.sink.flush()
        if self.watcher is not None:
            self.watcher.update(schedule=self.schedule, busy=self.engine.slots - self.engine.free)

    def _accept(self, outcome: Outcome, task: Task) -> Outcome | None:
        """Return the outcome to record; None for a run that is tried again."""
        if outcome.repeat is False:
            self.differing_index = outcome.index
        outcome = self.outputs.align(self._retries.apply_limit(outcome, task))
        if self._retries.extend(outcome, task):
            self.spent += self.price(outcome)
            self.sink.discard(outcome)
            _log.info("run %d is tried again after its time limit of %s s", outcome.index, task.limit)
            return None
        if outcome.status == "timeout" and self.limit is not None and self.limit.on_timeout == "stop":
            self.timed_out = outcome
        self.schedule.learn(outcome, task.predicted)
        paid = self.price(outcome)
        if paid == paid:  # noqa: PLR0124 - not NaN
            self._priced = self._priced.add(paid, task.predicted)
        self.spent += paid if paid == paid else self.price_per_unit * task.predicted  # noqa: PLR0124
        return outcome if outcome.limit == task.limit else replace(outcome, limit=task.limit)

    def _check_failures(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if outcome.status != "ok":
                _log.warning("run %d failed (%s): %s", outcome.index, outcome.status, last_line(outcome.error))
        self._statuses.update(outcome.status for outcome in outcomes)
        if self.fail_fast and len(self._causes) < 2:
            self._causes |= {last_line(outcome.error) for outcome in outcomes if outcome.status != "ok"}
        self.first_error = self.first_error or next((o.error for o in outcomes if o.status != "ok"), "")
        total = self._statuses.total()
        if self.fail_fast and total >= FIRST_RUNS and self._statuses["ok"] == 0 and not self._statuses["timeout"]:
            raise all_failed_error(
                self._statuses,
                self.first_error,
                fix=self.failed_fix,
                is_same=len(self._causes) == 1,
                hint=explain_vector(self.job.simulator, self.job.names),
            )
        for outcome in outcomes if self.must_spend else ():
            if outcome.status == "ok" or self.price(outcome) != 0:
                self._free_failures.clear()
            else:
                self._free_failures[outcome.status] += 1
            if self._free_failures.total() >= MAX_FREE_FAILURES:
                raise all_failed_error(self._free_failures, outcome.error, which="last")


def all_failed_error(
    statuses: Counter[str],
    first_error: str,
    *,
    which: str = "first",
    fix: str = "",
    is_same: bool = False,
    hint: str = "",
) -> SimulatorError:
    """Make the error for the case that not one of the first runs (or of the last) gave numbers.

    Args:
        statuses: How many runs ended in which way.
        first_error: Message of the first run, or of the last.
        which: "first" or "last".
        fix: The way out; by default to try the simulator by hand.
        is_same: Whether all of them failed with this error.
        hint: What may be the reason.
    """
    total, cause, place = statuses.total(), last_line(first_error), find_place(first_error)
    counted = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    cause += f" ({place})" if place else ""
    what = f"{total} of the {which} {total} runs failed"
    what += (
        f" with {cause}; nothing more was started"
        if is_same
        else (f" ({counted}); nothing more was started. {which.title()}: {cause}")
    )
    return SimulatorError(
        what,
        code="simulator-failed",
        why=hint or "a simulator that always fails is broken, not unlucky",
        fix=fix or "try it in this process: simulator(theta, np.random.default_rng(0))",
    )
