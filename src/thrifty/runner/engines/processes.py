"""Run bundles in local worker processes, the default engine: `th.Processes(2)`.

Workers start from a fork server that never imports the user's script: notebooks and scripts without a `__main__`
guard work, and neither BLAS nor torch is ever forked after use. One selector waits for what workers send and for the
end of their processes. Time limits are kept here, on the monotonic clock.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Sequence

from thrifty.errors import ConfigError, SimulatorError, warn
from thrifty.runner.engines.pipes import GarbledError
from thrifty.runner.engines.process_tree import CleanupProcess, OutOfMemoryCounter
from thrifty.runner.engines.worker_slot import WorkerSlot, start_forkserver
from thrifty.runner.simulator import get_name, pack
from thrifty.runner.task import Job, Outcome, Report, Task

CHECK_SECONDS = 0.1  # between looks at time limits: a twentieth of the two seconds promised
UNSENT_SECONDS = 0.01  # between attempts to send what did not fit into a pipe
ABSENT_SECONDS = 0.5  # a wait longer than asked for by this much: the driver itself was suspended meanwhile
MAX_EARLY_DEATHS = 10  # workers that die before their first run, in a row, before giving up


class Processes:
    """`n` local worker processes: the default engine.

    Example:
        >>> th.Processes(2).slots
        2
    """

    bundle_seconds = 0.02  # sending costs about 0.5 ms: 20 ms keeps it below 3 %, and a lost bundle is cheap

    def __repr__(self) -> str:
        return f"Processes({self.slots})"

    def __init__(self, n: int = 2) -> None:
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ConfigError(f"workers = {n!r}, expected a whole number of at least 1", code="bad-setting")
        cores = os.cpu_count() or 1
        if n > 4 * cores:
            warn(f"workers = {n} on {cores} cores: runs will share cores, and wall times will be longer")
        self.slots = n
        self._slots: list[WorkerSlot] = []
        self._selector: selectors.BaseSelector | None = None
        self._cleanup: CleanupProcess | None = None
        self._checked_at, self.stopped = 0.0, False

    @property
    def free(self) -> int:
        """Number of workers without a bundle."""
        return self.slots - sum(bool(slot.held) for slot in self._slots)

    @property
    def ahead(self) -> int:
        """Number of workers with nothing behind the bundle they run."""
        return sum(len(slot.held) == 1 for slot in self._slots)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers that have started."""
        return [slot.pid for slot in self._slots if slot.pid is not None]

    def start(self, job: Job) -> None:
        """Pack the simulator; workers start with their first bundle."""
        self.start_packed(pack(job), get_name(job.simulator))

    def start_packed(self, payload: bytes, name: str) -> None:
        """Make ready to run a job that was packed elsewhere; it is unpacked only in the worker process."""
        self._payload, self._name = payload, name
        start_forkserver()
        self._cleanup, self._selector = CleanupProcess(), selectors.DefaultSelector()
        self._out_of_memory, self.stopped = OutOfMemoryCounter(), False

    def submit(self, tasks: Sequence[Task]) -> None:
        """Give a bundle to an idle worker, to a new one, or behind the oldest bundle under way."""
        assert self._cleanup is not None, "start comes before submit"
        assert self._selector is not None, "start comes before submit"
        slot = next((slot for slot in self._slots if not slot.held), None)
        if slot is None and len(self._slots) < self.slots:
            slot = WorkerSlot(self._payload, self._cleanup, self._selector)
            self._slots.append(slot)
        if slot is None:
            slot = min((s for s in self._slots if len(s.held) == 1), key=lambda s: s.held[0].since)
        slot.submit(tasks)

    def wait(self, timeout: float) -> list[Report]:
        """Return bundles that ended: finished, died, were ended at their time limit, or withdrawn."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                reports = self._collect(min(CHECK_SECONDS, max(deadline - time.monotonic(), 0.0)))
                reports += self._check_workers()
            except (OSError, ValueError):
                if self.stopped:  # by another thread, while this one waited
                    return []
                raise
            if reports or self.stopped or time.monotonic() >= deadline:
                return reports

    def clock(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def stop(self) -> None:
        """Kill all workers and what they started, and wait until they are gone."""
        self.stopped = True
        slots, self._slots = self._slots, []
        for slot in slots:
            slot.end()
        if self._cleanup is not None and self._selector is not None:
            self._cleanup.close()
            self._selector.close()
            self._cleanup = self._selector = None

    def _collect(self, timeout: float) -> list[Report]:
        """Read what workers have sent, then judge those that ended."""
        if self._selector is None:
            return []
        unsent = [slot for slot in self._slots if slot.pipes.flush()]
        timeout, began = min(timeout, UNSENT_SECONDS) if unsent else timeout, time.monotonic()
        events = [key.data for key, _ in self._selector.select(timeout)]
        if (absent := time.monotonic() - began - timeout) > ABSENT_SECONDS:
            for slot in self._slots:
                slot.note_absence(absent)
        ended = [slot for slot, has_ended in events if has_ended]
        reports: list[Report] = []
        for slot in dict.fromkeys(slot for slot, _ in events):
            try:
                for number, outcomes in slot.receive():
                    reports += self._accept(slot, number, outcomes)
            except GarbledError as garbled:  # the pipe is lost, and its worker with it; the others are not concerned
                reports += self._judge_death(slot, f"GarbledError: {garbled}", killed=False)
                continue
            if slot in ended:
                detail, killed = slot.describe_exit()
                reports += self._judge_death(slot, detail, killed=killed)
        return reports

    def _check_workers(self) -> list[Report]:
        """Look, ten times a second, at suspended workers, time limits and bundles that wait too long."""
        now, reports = time.monotonic(), []
        if now - self._checked_at >= CHECK_SECONDS and self._cleanup is not None:
            self._checked_at = now
            self._out_of_memory.update(now)
            self._cleanup.ensure_running()
            for slot in self._slots:
                slot.note_suspension()
                reports += slot.end_late_run()
                reports += slot.withdraw()
        return reports

    def _accept(self, slot: WorkerSlot, number: int, outcomes: list[Outcome] | str) -> list[Report]:
        bundle = slot.take(number)
        if isinstance(outcomes, str):
            raise SimulatorError(
                f"simulator {self._name!r} cannot be rebuilt in a worker process: {outcomes}",
                code="cannot-load-simulator",
                fix="make its module importable (PYTHONPATH), or define the function in the script itself",
            )
        slot.early_deaths = 0
        outcomes = [slot.correct_wall_time(outcome) for outcome in outcomes]
        return [Report(bundle.tasks, outcomes)] if bundle is not None else []

    def _judge_death(self, slot: WorkerSlot, detail: str, *, killed: bool) -> list[Report]:
        """Blame the run under way for the death of its worker; what else the worker had is lost and runs again."""
        task, elapsed = slot.find_running()
        slot.early_deaths = 0 if task or slot.has_begun else slot.early_deaths + 1
        if slot.early_deaths >= MAX_EARLY_DEATHS:
            raise SimulatorError(
                f"{MAX_EARLY_DEATHS} workers died before their first run: {detail}", code="cannot-load-simulator"
            )
        if killed and self._out_of_memory.has_risen():
            detail, killed = "killed by the kernel for lack of memory", False
        index = task.index if task else None
        cause = "died" if slot.has_begun else "lost"
        return slot.give_up(index, Report((), (), cause, index, detail, elapsed=elapsed, outside=killed))
