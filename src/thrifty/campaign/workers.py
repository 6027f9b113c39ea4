"""Local worker processes: pebble starts and watches them, one pool per slot (`slot.py`), bundles go by their own pipes.

Workers start from a fork server that never imports the user's script: notebooks and scripts without a `__main__`
guard work, and neither BLAS nor torch is ever forked after use. Time limits are kept here, on the monotonic clock.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence

from thrifty.campaign.forkserver import Warden
from thrifty.campaign.lane import GarbledError
from thrifty.campaign.out_of_memory import OutOfMemory
from thrifty.campaign.simulator import name_of, pack
from thrifty.campaign.slot import Slot, cpu_of
from thrifty.campaign.switchboard import Switchboard
from thrifty.campaign.task import Job, Outcome, Report, Task
from thrifty.campaign.worker_process import CPU, PID
from thrifty.errors import ConfigError, SimulatorError, warn

TICK = 0.1  # seconds between looks at time limits: a twentieth of the two seconds promised
UNSENT = 0.01  # seconds between attempts to send what did not fit into a pipe
ABSENT = 0.5  # seconds beyond its time-out after which a wait shows that the driver itself was suspended meanwhile
EARLY_DEATHS = 10  # workers that die before their first run, in a row, before giving up


class Processes:
    """`n` local worker processes: the default engine.

    Example:
        >>> th.Processes(2).slots
        2
    """

    bundle_seconds = 0.02  # sending costs about 0.5 ms: 20 ms keeps it below 3 %, and a lost bundle is cheap

    def __init__(self, n: int = 2) -> None:
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ConfigError(f"workers = {n!r}, expected a whole number of at least 1", code="bad-setting")
        cores = os.cpu_count() or 1
        if n > 4 * cores:
            warn(f"workers = {n} on {cores} cores: runs will share cores, and wall times will be longer")
        self.n = n
        self._slots: list[Slot] = []
        self._switchboard: Switchboard | None = None
        self._warden: Warden | None = None
        self._memory, self._looked = OutOfMemory(), 0.0
        self.stopped = False

    @property
    def slots(self) -> int:
        """Number of workers."""
        return self.n

    @property
    def free(self) -> int:
        """Workers without a bundle."""
        return self.n - sum(bool(slot.held) for slot in self._slots)

    @property
    def ahead(self) -> int:
        """Workers with nothing behind the bundle they run."""
        return sum(len(slot.held) == 1 for slot in self._slots)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers that have started."""
        return [int(slot.cell[PID]) for slot in self._slots if slot.cell[PID] > 0]

    def start(self, job: Job) -> None:
        """Pack the simulator; workers start with their first bundle."""
        self._payload = pack(job)
        self._name = name_of(job.simulator)
        self._warden, self._switchboard = Warden(), Switchboard()
        self._memory, self.stopped = OutOfMemory(), False

    def submit(self, tasks: Sequence[Task]) -> None:
        """Give a bundle to an idle worker, to a new one, or behind the oldest bundle under way."""
        assert self._warden is not None, "start comes before submit"
        assert self._switchboard is not None, "start comes before submit"
        slot = next((slot for slot in self._slots if not slot.held), None)
        if slot is None and len(self._slots) < self.n:
            slot = Slot(self._payload, self._warden, self._switchboard)
            self._slots.append(slot)
        if slot is None:
            slot = min((s for s in self._slots if len(s.held) == 1), key=lambda s: s.held[0].since)
        slot.submit(tasks)

    def wait(self, timeout: float) -> list[Report]:
        """Bundles that ended: finished, died, were ended at their time limit, or withdrawn."""
        deadline = time.monotonic() + timeout
        while True:
            reports = self._collect(min(TICK, max(deadline - time.monotonic(), 0.0)))
            now = time.monotonic()
            if now - self._looked >= TICK:
                self._looked = now
                self._memory.look(now)
                for slot in self._slots:
                    gone = slot.look()
                    reports += self._past_limit(slot)
                    reports += [report] if (report := slot.withdraw()) else []
                    reports += self._death(slot, RuntimeError("the worker ended")) if gone else []
            if reports or now >= deadline or self.stopped:
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
        if self._warden is not None:
            self._warden.close()
            self._warden = None
        if self._switchboard is not None:
            self._switchboard.close()
            self._switchboard = None

    def _collect(self, timeout: float) -> list[Report]:
        """What workers have sent, then what became of those that ended."""
        switchboard, reports = self._switchboard, []
        if switchboard is None:
            return reports
        unsent = [slot for slot in self._slots if slot.lane.flush()]
        timeout, began = min(timeout, UNSENT) if unsent else timeout, time.monotonic()
        try:
            ready, deaths = switchboard.wait(timeout)
        except (OSError, ValueError):
            if self.stopped:  # by another thread, while this one waited
                return reports
            raise
        if (absent := time.monotonic() - began - timeout) > ABSENT:
            for slot in self._slots:
                slot.unwatch(absent)
        ended = {slot: problem for slot, life, problem in deaths if slot.life == life}
        for slot in dict.fromkeys([*ready, *ended]):
            try:
                for number, outcomes in slot.answers():
                    reports += self._answered(slot, number, outcomes)
            except GarbledError as garbled:  # the lane is lost, and its worker with it; the others are not concerned
                ended[slot] = ended.get(slot) or garbled
        for slot, problem in ended.items():
            reports += self._death(slot, problem or RuntimeError("the worker ended"))
        return reports

    def _answered(self, slot: Slot, number: int, outcomes: list[Outcome] | str) -> list[Report]:
        held = slot.take(number)
        if isinstance(outcomes, str):
            raise SimulatorError(
                f"simulator {self._name!r} cannot be rebuilt in a worker process: {outcomes}",
                code="cannot-load-simulator",
                fix="make its module importable (PYTHONPATH), or define the function in the script itself",
            )
        slot.early_deaths = 0
        outcomes = [slot.measured(outcome) for outcome in outcomes]
        return [Report(held.tasks, outcomes)] if held is not None else []

    def _death(self, slot: Slot, problem: BaseException) -> list[Report]:
        """The run under way died with its worker; what else the worker had is lost and simply runs again."""
        task, elapsed = slot.running()
        slot.early_deaths = 0 if task or slot.begun else slot.early_deaths + 1
        if slot.early_deaths >= EARLY_DEATHS:
            raise SimulatorError(
                f"{EARLY_DEATHS} workers died before their first run: {problem}", code="cannot-load-simulator"
            )
        killed = getattr(problem, "exitcode", None) == -signal.SIGKILL
        starved = killed and self._memory.killed()
        detail = "killed by the kernel for lack of memory" if starved else _why(problem)
        index = task.index if task else None
        cause = "died" if slot.begun else "lost"
        report = Report((), (), cause, index, detail, {"elapsed": elapsed}, outside=killed and not starved)
        return slot.give_up(index, report)

    def _past_limit(self, slot: Slot) -> list[Report]:
        task, elapsed = slot.running() if slot.held else (None, 0.0)
        if task is None or task.limit is None or elapsed <= task.limit:
            return []
        cpu = cpu_of(int(slot.cell[PID])) - slot.cell[CPU]
        slot.kill()
        error = f"ended after {elapsed:.3g} s, limit {task.limit:g} s"
        outcome = Outcome(
            task.index, "timeout", None, elapsed, max(cpu, 0.0), attempt=task.attempt, error=error, limit=task.limit
        )
        return slot.give_up(task.index, Report((), [outcome], "timeout", task.index))


def _why(problem: BaseException) -> str:
    code = getattr(problem, "exitcode", None)
    if isinstance(code, int) and code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exited with code {code}" if code is not None else f"{type(problem).__name__}: {problem}"
