"""Local worker processes through pebble, one single-worker pool per slot.

One pool per slot because a pool's workers share a pipe and its lock: a worker killed while it holds the
lock would stop the others. Here it stops only itself, and its pool is thrown away. Workers start from a
fork server that never imports the user's script: notebooks and scripts without a `__main__` guard work,
and neither BLAS nor torch is ever forked after use. Time limits are kept here, on the monotonic clock.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from pebble import ProcessPool

from thrifty.campaign.forkserver import CONTEXT, Warden, workers_environment
from thrifty.campaign.simulator import name_of, pack
from thrifty.campaign.task import Job, Outcome, Report, Task
from thrifty.campaign.worker_process import CELL, CPU, INDEX, PID, STARTED, initialise, run_bundle
from thrifty.errors import ConfigError, SimulatorError, warn

TICK = 0.05  # seconds between looks at time limits: a fortieth of the two seconds promised
EARLY_DEATHS = 10  # workers that die before their first run, in a row, before giving up


class Slot:
    """One worker: its pool, its cell of shared memory and the bundle it has."""

    def __init__(self, payload: bytes, warden: Warden, events: queue.SimpleQueue[tuple[Slot, int, Any]]) -> None:
        self.payload, self.warden, self.events = payload, warden, events
        self.tasks: Sequence[Task] | None = None
        self.epoch = 0
        self.early_deaths = 0
        self._open()

    def _open(self) -> None:
        self.cell: Any = CONTEXT.RawArray("d", [-1.0] * CELL)
        self.suspended: dict[int, float] = {}  # seconds for which the worker was stopped, by run
        self._looked = time.monotonic()
        arguments = (self.payload, self.cell, self.warden.writer, workers_environment())
        self.pool = ProcessPool(max_workers=1, initializer=initialise, initargs=arguments, context=CONTEXT)

    def submit(self, tasks: Sequence[Task]) -> None:
        """Send a bundle, through a new pool if the old one broke while idle."""
        self.tasks, self.suspended = tasks, {}
        self.epoch += 1
        epoch = self.epoch
        try:
            future = self.pool.schedule(run_bundle, args=(tasks,))
        except RuntimeError:
            self.renew()
            future = self.pool.schedule(run_bundle, args=(tasks,))
        with contextlib.suppress(AttributeError):  # no successor in this pool: a death replaces the whole pool
            self.pool._pool_manager.worker_manager.workers_number = 0
        future.add_done_callback(lambda done: self.events.put((self, epoch, done)))

    def renew(self) -> None:
        """Throw the pool away, with all its worker started, and open another."""
        self.end()
        self._open()

    def end(self) -> None:
        """Kill the worker's process group; the pool's threads are joined in the background."""
        pool = self.pool
        pool.stop()
        self.kill()
        threading.Thread(target=pool.join, daemon=True).start()

    def kill(self) -> None:
        """End the worker and everything it started."""
        pid = int(self.cell[PID])
        if pid > 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)

    def running(self) -> tuple[Task | None, float]:
        """The run under way and its wall time, less the time the worker was suspended."""
        index, began, now = int(self.cell[INDEX]), float(self.cell[STARTED]), time.monotonic()
        task = next((task for task in self.tasks or () if task.index == index), None)
        looked, self._looked = self._looked, now
        if task is None:
            return None, 0.0
        if _state(int(self.cell[PID])) == "T":
            self.suspended[index] = self.suspended.get(index, 0.0) + now - max(looked, began)
        return task, max(now - began - self.suspended.get(index, 0.0), 0.0)


class Processes:
    """`n` local worker processes: the default engine.

    Example:
        >>> th.Processes(2).slots
        2
    """

    bundle_seconds = 0.02  # sending costs about 0.5 ms: 20 ms keeps it below 3 %, and a lost bundle is cheap

    def __init__(self, n: int = 2) -> None:
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ConfigError(f"workers = {n!r}, expected a whole number of at least 1", code="F06")
        cores = os.cpu_count() or 1
        if n > 4 * cores:
            warn(f"workers = {n} on {cores} cores: runs will share cores, and wall times will be longer")
        self.n = n
        self._slots: list[Slot] = []
        self._events: queue.SimpleQueue[tuple[Slot, int, Any]] = queue.SimpleQueue()
        self._warden: Warden | None = None
        self.stopped = False

    @property
    def slots(self) -> int:
        """Number of workers."""
        return self.n

    @property
    def free(self) -> int:
        """Workers without a bundle."""
        return self.n - sum(slot.tasks is not None for slot in self._slots)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers that have started."""
        return [int(slot.cell[PID]) for slot in self._slots if slot.cell[PID] > 0]

    def start(self, job: Job) -> None:
        """Pack the simulator; workers start with their first bundle."""
        self._payload = pack(job)
        self._name = name_of(job.simulator)
        self._warden, self.stopped = Warden(), False

    def submit(self, tasks: Sequence[Task]) -> None:
        """Give a bundle to an idle worker, or to a new one."""
        assert self._warden is not None, "start comes before submit"
        slot = next((slot for slot in self._slots if slot.tasks is None), None)
        if slot is None:
            slot = Slot(self._payload, self._warden, self._events)
            self._slots.append(slot)
        slot.submit(tasks)

    def wait(self, timeout: float) -> list[Report]:
        """Bundles that ended: finished, died, or were ended at their time limit."""
        deadline = time.monotonic() + timeout
        while True:
            reports = self._collect(min(TICK, max(deadline - time.monotonic(), 0.0)))
            reports += [report for slot in self._slots if (report := self._past_limit(slot))]
            if reports or time.monotonic() >= deadline:
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

    def _collect(self, timeout: float) -> list[Report]:
        reports: list[Report] = []
        try:
            slot, epoch, future = self._events.get(timeout=timeout)
            while True:
                if epoch == slot.epoch and slot.tasks is not None:
                    reports.append(self._report(slot, future))
                slot, epoch, future = self._events.get_nowait()
        except queue.Empty:
            return reports

    def _report(self, slot: Slot, future: Future[list[Outcome] | str]) -> Report:
        task, elapsed = slot.running()
        tasks, slot.tasks = slot.tasks or (), None
        problem = future.exception()
        if problem is not None:
            slot.early_deaths = 0 if task else slot.early_deaths + 1
            if slot.early_deaths >= EARLY_DEATHS:
                raise SimulatorError(f"{EARLY_DEATHS} workers died before their first run: {problem}", code="S01")
            slot.renew()
            cause = "died" if task else "lost"
            return Report(tasks, (), cause, task.index if task else None, _why(problem), {"elapsed": elapsed})
        outcomes = future.result()
        if isinstance(outcomes, str):
            raise SimulatorError(
                f"simulator {self._name!r} cannot be rebuilt in a worker process: {outcomes}",
                code="S01",
                fix="make its module importable (PYTHONPATH), or define the function in the script itself",
            )
        slot.early_deaths = 0
        # a suspended worker did not work: neither cost nor time-out
        outcomes = [_shortened(outcome, slot.suspended.get(outcome.index, 0.0)) for outcome in outcomes]
        return Report(tasks, outcomes)

    def _past_limit(self, slot: Slot) -> Report | None:
        if slot.tasks is None:
            return None
        task, elapsed = slot.running()
        if task is None or task.limit is None or elapsed <= task.limit:
            return None
        cpu = _cpu_seconds(int(slot.cell[PID])) - slot.cell[CPU]
        slot.kill()
        error = f"ended after {elapsed:.3g} s, limit {task.limit:g} s"
        outcome = Outcome(
            task.index, "timeout", None, elapsed, max(cpu, 0.0), attempt=task.attempt, error=error, limit=task.limit
        )
        tasks, slot.tasks = slot.tasks, None
        slot.renew()
        return Report(tasks, [outcome], "timeout", task.index)


def _shortened(outcome: Outcome, seconds: float) -> Outcome:
    return replace(outcome, wall=max(outcome.wall - seconds, 0.0)) if seconds else outcome


def _why(problem: BaseException) -> str:
    code = getattr(problem, "exitcode", None)
    if isinstance(code, int) and code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exited with code {code}" if code is not None else f"{type(problem).__name__}: {problem}"


def _stat(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _state(pid: int) -> str:
    fields = _stat(pid)
    return fields[0].decode() if fields else ""


def _cpu_seconds(pid: int) -> float:
    """CPU seconds of a live process and its ended children."""
    fields = _stat(pid)
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK") if len(fields) > 15 else 0.0
