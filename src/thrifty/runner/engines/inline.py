"""Run tasks in this process, one after the other: for debuggers, and for simulators that cannot be sent."""

from __future__ import annotations

import time
from collections.abc import Sequence

from thrifty.errors import ConfigError
from thrifty.runner.run_one import Runner
from thrifty.runner.task import Job, Report, Task


class Inline:
    """Run without worker processes: breakpoints work, but a crash of the simulator is a crash of the driver.

    Example:
        >>> sims = th.simulate(lambda theta, rng: theta + 1, th.Draws([[1.0], [2.0]]), engine=th.Inline())
        >>> sims.x.ravel().tolist()
        [2.0, 3.0]
    """

    bundle_seconds = 0.0  # nothing is sent, so nothing is gained by bundling
    slots = 1
    ahead = 0  # nothing is waited for

    def __repr__(self) -> str:
        return "Inline()"

    def __init__(self) -> None:
        self._runner: Runner | None = None
        self._waiting: list[Sequence[Task]] = []

    @property
    def free(self) -> int:
        """One run at a time."""
        return 1 - len(self._waiting)

    def start(self, job: Job) -> None:
        """Read the signature."""
        self._runner = Runner.of(job)

    def submit(self, tasks: Sequence[Task]) -> None:
        """Take a bundle; it runs in `wait`."""
        if any(task.limit is not None for task in tasks):
            raise ConfigError(
                "time_limit needs worker processes: a run in this process cannot be ended",
                code="conflicting-settings",
                fix="use workers=2, or leave the limit out",
            )
        self._waiting.append(tasks)

    def wait(self, timeout: float) -> list[Report]:
        """Run what was submitted."""
        waiting, self._waiting = self._waiting, []
        assert self._runner is not None, "start comes before wait"
        return [Report(tasks, [self._runner.run(task) for task in tasks]) for tasks in waiting]

    def clock(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def stop(self) -> None:
        """Nothing to end."""
        self._waiting = []
