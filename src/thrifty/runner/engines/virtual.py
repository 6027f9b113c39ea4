"""Run tasks on a virtual clock: any number of workers, durations from a formula, no waiting.

For tests and for asking "how long would this take on a thousand workers?" through the very loop that runs campaigns.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

import numpy as np

from thrifty.runner.task import Job, Outcome, Report, Task


class Virtual:
    """`slots` workers whose runs take `duration(task)` seconds of a clock that jumps from end to end.

    Example:
        >>> engine = Virtual(2, lambda task: 3.0)
        >>> engine.submit([Task(0, np.zeros(1))])
        >>> engine.wait(0.1)[0].outcomes[0].wall, engine.clock()
        (3.0, 3.0)
    """

    bundle_seconds = 0.0
    ahead = 0  # a virtual answer takes no time

    def __init__(
        self,
        slots: int,
        duration: Callable[[Task], float],
        *,
        output: Callable[[Task], Sequence[float]] | None = None,
    ) -> None:
        self.slots, self._duration, self._output = slots, duration, output
        self._now = 0.0
        self._running: list[tuple[float, int, Sequence[Task], list[Outcome]]] = []
        self.ended: dict[int, float] = {}

    @property
    def free(self) -> int:
        """Number of workers without a bundle."""
        return self.slots - len(self._running)

    def start(self, job: Job) -> None:
        """Nothing to prepare."""

    def submit(self, tasks: Sequence[Task]) -> None:
        """Start a bundle now."""
        outcomes, at = [], self._now
        for task in tasks:
            wall = self._duration(task)
            late = task.limit is not None and wall > task.limit
            wall = float(task.limit or 0.0) if late else wall
            at += wall
            x = self._output(task) if self._output is not None and not late else None
            outcomes.append(_make_outcome(task, wall, x, late=late))
            self.ended[task.index] = at
        heapq.heappush(self._running, (at, tasks[0].index, tasks, outcomes))

    def wait(self, timeout: float) -> list[Report]:
        """Return the next bundle to end; the clock jumps there."""
        if not self._running:
            return []
        self._now, _, tasks, outcomes = heapq.heappop(self._running)
        return [Report(tasks, outcomes)]

    def clock(self) -> float:
        """Virtual seconds."""
        return self._now

    def stop(self) -> None:
        """Forget what runs."""
        self._running = []


def _make_outcome(task: Task, wall: float, x: Sequence[float] | None, *, late: bool) -> Outcome:
    values = None if late else np.atleast_1d(np.asarray(task.theta if x is None else x, dtype=np.float64))
    return Outcome(task.index, "timeout" if late else "ok", values, wall, wall, limit=task.limit)
