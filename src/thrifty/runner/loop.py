"""The one loop: hand out bundles, collect outcomes, record them, blame the guilty, stop without bias.

    while something is left and may be admitted:  submit
    wait ─► outcomes ─► record (durable) ─► only then count them as done

An index is blamed only for deaths of its own: the run that was under way when its worker died is tried
again alone, and is recorded as `crashed` after three deaths. A fault, an exit and a kill by the kernel for lack of
memory are its own. Any other SIGKILL comes from outside and is forgiven; ten of them during one run end it, so that
a run which kills its own worker cannot go on for ever. Everything else in its bundle simply runs again.

What stands around the loop: where outcomes are kept, who decides on admission, who watches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from thrifty.errors import SimulatorError
from thrifty.runner.gates import Gate
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.schedule import Schedule
from thrifty.runner.task import Engine, Job, Outcome, Report, Task
from thrifty.runner.time_limits import EXTENSIONS, TimeLimit


class Sink(Protocol):
    """Where outcomes are kept."""

    def record(self, outcomes: Sequence[Outcome]) -> None:
        """Keep outcomes; returns when they are buffered or safe."""
        ...

    def flush(self, *, force: bool = False) -> int:
        """Make what is buffered safe if it is time; the number of runs made safe."""
        ...

    def admit_through(self, last: int) -> None:
        """Commit that every draw up to this index will be completed; called before any of them starts."""
        ...


class Watcher(Protocol):
    """Progress, told what is safe."""

    def update(self, *, recorded: int, schedule: Schedule, busy: int, outcomes: Sequence[Outcome]) -> None:
        """Called after each wait."""
        ...

    def say(self, text: str) -> None:
        """Something the person must see now."""
        ...


DEATHS = 3  # of its own (a fault, an exit, out of memory): one may be the machine's fault, two bad luck
KILLS = 10  # from outside: even if one attempt in four is hit, ten in a row happen once in a million indices
AHEAD = 0.25  # seconds: shorter bundles are sent before their worker is free; 2 ms of round trip are 1 % of them
WAIT = 0.1  # seconds between looks at signals and gates
ADMISSION = 0.5  # seconds of work per slot admitted (and committed) at once: one sync per half second
SHARE = 0.1  # of what is left of a budget, at most: the last admissions are single runs
IN_VAIN = 100  # failures in a row that cost nothing, under a budget: even if 9 in 10 fail, once in 40,000
FAIL_FAST = 20  # first runs that all fail: the simulator is broken, not unlucky
Ending = Literal["done", "budget", "interrupted", "timeout", "deadline"]


@dataclass
class Loop:
    """Run everything a schedule holds on an engine."""

    engine: Engine
    job: Job
    schedule: Schedule
    sink: Sink
    limit: TimeLimit | None = None
    gate: Gate = field(default_factory=Gate)
    watcher: Watcher | None = None
    price: Callable[[Outcome], float] = lambda outcome: outcome.cpu
    fail_fast: bool = False
    must_spend: bool = False  # under a budget of cost, runs that fail and cost nothing would go on for ever
    spent: float = 0.0
    predicted_price: float = 0.0  # of one predicted unit, so that what is in flight counts against the budget
    differs: int | None = None  # an index that gave two answers
    _deaths: Counter[int] = field(default_factory=Counter)
    _kills: Counter[int] = field(default_factory=Counter)
    _statuses: Counter[str] = field(default_factory=Counter)
    _first_error: str = ""
    _in_vain: Counter[str] = field(default_factory=Counter)  # failures in a row that took nothing from the budget
    _timed_out: Outcome | None = None
    _told: bool = False
    _flying: float = 0.0  # predicted units that were sent and have not come back
    _paid: float = 0.0  # price of the runs that came back, and what was predicted for them
    _foretold: float = 0.0

    @property
    def rate(self) -> float:
        """Price of one predicted unit: as measured where runs turned out dearer than predicted.

        Never less than predicted: the runs that come back first are the cheap ones.
        """
        dearer = self._paid / self._foretold if self._foretold > 0 else 1.0
        return self.predicted_price * max(1.0, dearer)

    @property
    def committed(self) -> float:
        """What is spent, and what will be on the runs under way."""
        return self.spent + self.rate * self._flying

    def run(self, interrupts: Interrupts) -> Ending:
        """Until nothing is left, admission ends, or a signal says so."""
        self.engine.start(self.job)
        try:
            return self._run(interrupts)
        finally:
            self.engine.stop()
            self.sink.flush(force=True)

    def _run(self, interrupts: Interrupts) -> Ending:
        while True:
            if interrupts.stop:
                return "interrupted"
            if self.gate.must_end(now=self.engine.clock()):
                return "deadline"
            ending = self._closed(interrupts) or self._fill()
            if self.engine.free == self.engine.slots:
                return ending
            self._collect(self.engine.wait(WAIT))

    def _closed(self, interrupts: Interrupts) -> Ending | None:
        """Why nothing more may start, if so; what runs is finished first."""
        if interrupts.drain:
            if self.watcher is not None and not self._told:
                running = self.engine.slots - self.engine.free
                self.watcher.say(
                    f"finishing {running} running bundle{'s' * (running != 1)}; press Ctrl-C again to stop now"
                    " (they will run again later)"
                )
            self._told = True
            return "interrupted"
        if self._timed_out:
            return "timeout"
        return None if self.gate.may_start(now=self.engine.clock()) else "deadline"

    def _fill(self) -> Ending:
        """Give every free slot a bundle; what was admitted always runs, more is admitted while the gate is open."""
        while len(self.schedule) and (self.engine.free > 0 or self._may_send_ahead()):
            if not self.schedule.ready:
                if not self.gate.may_admit(spent=self.committed, now=self.engine.clock()):
                    return "budget"
                share = SHARE * self.gate.remaining(spent=self.committed)
                cost = share / self.rate if self.rate > 0 else np.inf
                self.sink.admit_through(self.schedule.admit(seconds=ADMISSION * self.engine.slots, cost=cost))
            bundle = self.schedule.take(seconds=self.engine.bundle_seconds, slots=self.engine.slots)
            self._flying += self._units(bundle)
            self.engine.submit(bundle)
        return "done"

    def _may_send_ahead(self) -> bool:
        """Whether a busy worker gets its next bundle now; it is admitted and counted as in flight like any other."""
        return self.engine.ahead > 0 and self.schedule.short(seconds=AHEAD, slots=self.engine.slots)

    def _units(self, tasks: Sequence[Task]) -> float:
        return sum(task.predicted for task in tasks) if self.schedule.known else 0.0

    def _collect(self, reports: Sequence[Report]) -> None:
        kept: list[Outcome] = []
        for report in reports:
            kept += self._judge(report)
        if kept:
            self.sink.record(kept)
            self.spent += sum(self.price(outcome) for outcome in kept)
            self._check_first(kept)
        recorded = self.sink.flush()
        if self.watcher is not None:
            busy = self.engine.slots - self.engine.free
            self.watcher.update(recorded=recorded, schedule=self.schedule, busy=busy, outcomes=kept)

    def _judge(self, report: Report) -> list[Outcome]:
        tasks = {task.index: task for task in report.tasks}
        self._flying -= self._units(report.tasks)
        kept = [o for outcome in report.outcomes if (o := self._finished(outcome, tasks[outcome.index]))]
        done = {outcome.index for outcome in report.outcomes}
        left = [task for task in report.tasks if task.index not in done]
        guilty = report.guilty
        if report.cause == "died" and guilty is None and len(left) == 1:
            guilty = left[0].index
        if report.cause == "died" and guilty is None:
            self.schedule.again(left, alone=True)  # one of them: each must show it alone
            return kept
        self.schedule.again([task for task in left if task.index != guilty])
        if report.cause == "died" and guilty is not None:
            kept += self._died(tasks[guilty], report)
        return kept

    def _finished(self, outcome: Outcome, task: Task) -> Outcome | None:
        if outcome.repeat is False:
            self.differs = outcome.index
        if task.limit is not None and outcome.wall > task.limit and outcome.status != "timeout":
            # one rule for every run, whoever ended it: past its limit a run has no result (lazy weights need this)
            error = f"took {outcome.wall:.3g} s, limit {task.limit:g} s"
            outcome = replace(outcome, x=None, status="timeout", error=error)
        if outcome.status == "timeout" and self.limit is not None:
            if self.limit.on_timeout == "extend" and task.attempt <= EXTENSIONS:
                self.spent += self.price(outcome)
                self.schedule.extend(task)
                return None
            if self.limit.on_timeout == "stop":
                self._timed_out = outcome
        self.schedule.learn(outcome, task.predicted)
        self._paid += self.price(outcome)
        self._foretold += self.predicted_price * self._units([task])
        return outcome if outcome.limit == task.limit else replace(outcome, limit=task.limit)

    def _died(self, task: Task, report: Report) -> list[Outcome]:
        (self._kills if report.outside else self._deaths)[task.index] += 1
        deaths, kills = self._deaths[task.index], self._kills[task.index]
        if deaths < DEATHS and kills < KILLS:
            self.schedule.again([replace(task, attempt=task.attempt + 1)], alone=True)
            return []
        elapsed = report.elapsed
        error = f"the worker died {deaths + kills} times during this run ({report.detail})"
        return [
            Outcome(task.index, "crashed", None, elapsed, elapsed, attempt=task.attempt, error=error, limit=task.limit)
        ]

    def _check_first(self, outcomes: Sequence[Outcome]) -> None:
        self._statuses.update(outcome.status for outcome in outcomes)
        self._first_error = self._first_error or next((o.error for o in outcomes if o.status != "ok"), "")
        total = self._statuses.total()
        if self.fail_fast and total >= FAIL_FAST and self._statuses["ok"] == 0 and not self._statuses["timeout"]:
            raise all_failed(self._statuses, self._first_error)
        for outcome in outcomes if self.must_spend else ():
            if outcome.status == "ok" or self.price(outcome) > 0:
                self._in_vain.clear()
            else:
                self._in_vain[outcome.status] += 1
            if self._in_vain.total() >= IN_VAIN:
                raise all_failed(self._in_vain, outcome.error, which="last")

    @property
    def timed_out(self) -> Outcome | None:
        """The run that ended the campaign under on_timeout="stop"."""
        return self._timed_out


def all_failed(statuses: Counter[str], first_error: str, *, which: str = "first") -> SimulatorError:
    """The message when not one of the first runs (or of the last) gave numbers."""
    total = statuses.total()
    causes = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    lines = first_error.strip().splitlines() or ["no message"]
    last = lines[0] if lines[0].startswith("[") else lines[-1]  # our messages begin with what is wrong, others end so
    return SimulatorError(
        f"{total} of the {which} {total} runs failed ({causes}); nothing more was started. {which.title()}: {last}",
        code="simulator-failed",
        why="a simulator that always fails is broken, not unlucky",
        fix="try it in this process: simulator(theta, np.random.default_rng(0)), or engine=th.Inline()",
    )
