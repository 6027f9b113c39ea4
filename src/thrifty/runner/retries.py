"""Decide who is blamed when a worker dies, and how often a run is tried again.

An index is blamed only for deaths of its own: the run that was under way when its worker died is tried
again alone, and is recorded as `crashed` after three deaths. A fault, an exit and a kill by the kernel for lack of
memory are its own. Any other SIGKILL comes from outside and is no fault of the run; ten of them during one run end
it, so that a run which kills its own worker cannot go on for ever. Everything else in its bundle simply runs again.

A run that passes its time limit has no result, whoever ended it. Under "extend" it is tried again with twice the
limit, after all others.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from thrifty.runner.schedule import Schedule
from thrifty.runner.task import Outcome, Report, Task
from thrifty.runner.time_limits import MAX_EXTENSIONS, TimeLimit

MAX_OWN_DEATHS = 3  # a fault, an exit, out of memory: one may be the machine's fault, two bad luck
MAX_KILLS = 10  # from outside: even if one attempt in four is hit, ten in a row happen once in a million indices


class Retries:
    """Count deaths by run, and put runs that did not finish back into the schedule."""

    def __init__(self, schedule: Schedule, limit: TimeLimit | None) -> None:
        self._schedule, self._limit = schedule, limit
        self._deaths: Counter[int] = Counter()
        self._kills: Counter[int] = Counter()

    def repeat_unfinished(self, report: Report) -> list[Outcome]:
        """Put the runs of a bundle that have no outcome back into the schedule; return outcomes of those given up."""
        finished = {outcome.index for outcome in report.outcomes}
        left = [task for task in report.tasks if task.index not in finished]
        if report.cause != "died":
            self._schedule.repeat(left)
            return []
        guilty = left[0].index if report.guilty is None and len(left) == 1 else report.guilty
        if guilty is None:  # one of them: each must show it alone
            self._schedule.repeat(left, alone=True)
            return []
        self._schedule.repeat([task for task in left if task.index != guilty])
        return self._blame(next(task for task in report.tasks if task.index == guilty), report)

    def _blame(self, task: Task, report: Report) -> list[Outcome]:
        (self._kills if report.outside else self._deaths)[task.index] += 1
        deaths, kills = self._deaths[task.index], self._kills[task.index]
        if deaths < MAX_OWN_DEATHS and kills < MAX_KILLS:
            self._schedule.repeat([replace(task, attempt=task.attempt + 1)], alone=True)
            return []
        error = f"the worker died {deaths + kills} times during this run ({report.detail})"
        seconds = report.elapsed
        return [
            Outcome(task.index, "crashed", None, seconds, seconds, attempt=task.attempt, error=error, limit=task.limit)
        ]

    def apply_limit(self, outcome: Outcome, task: Task) -> Outcome:
        """Take the result of a run that passed its limit away: one rule for every run (lazy weights need this)."""
        if task.limit is None or outcome.wall <= task.limit or outcome.status == "timeout":
            return outcome
        error = f"took {outcome.wall:.3g} s, limit {task.limit:g} s"
        return replace(outcome, x=None, status="timeout", error=error)

    def extend(self, outcome: Outcome, task: Task) -> bool:
        """Try a run that timed out again with twice its limit, where the policy says so; return whether it is."""
        if self._limit is None or self._limit.on_timeout != "extend" or outcome.status != "timeout":
            return False
        if task.attempt > MAX_EXTENSIONS:
            return False
        self._schedule.repeat_with_longer_limit(task)
        return True
