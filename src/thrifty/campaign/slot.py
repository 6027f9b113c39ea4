"""One local worker: its pool, its cell of shared memory, the bundle it runs and the one it has next.

One pool per worker because a pool's workers share a pipe and its lock: a worker killed while it holds the
lock would stop the others. Here it stops only itself, and its pool is thrown away.
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
from dataclasses import dataclass, field, replace
from typing import Any

from pebble import ProcessPool

from thrifty.campaign.forkserver import CONTEXT, Warden, workers_environment
from thrifty.campaign.task import Report, Task
from thrifty.campaign.worker_process import CELL, INDEX, PID, STARTED, WITHDRAWN, initialise, run_bundle

PATIENCE = 0.5  # seconds a bundle waits behind another: twice the longest that is sent ahead (loop.py)
SILENCE = 1.0  # seconds after which a worker that is gone without a word from its pool is taken for dead


@dataclass(frozen=True)
class Held:
    """A bundle that a worker has, by number."""

    number: int
    tasks: Sequence[Task]
    since: float = field(default_factory=time.monotonic)


class Slot:
    """A worker process and the bundles it holds: at most one under way and one behind it."""

    def __init__(self, payload: bytes, warden: Warden, events: queue.SimpleQueue[tuple[Slot, int, Any]]) -> None:
        self.payload, self.warden, self.events = payload, warden, events
        self.held: list[Held] = []
        self.early_deaths = 0
        self._number = 0
        self._gone_since: float | None = None
        self._open()

    def _open(self) -> None:
        self.cell: Any = CONTEXT.RawArray("d", [-1.0] * CELL)
        self.suspended: dict[int, float] = {}  # seconds for which the worker was stopped, by run
        self._looked, self._gone_since = time.monotonic(), None
        arguments = (self.payload, self.cell, self.warden.writer, workers_environment())
        self.pool = ProcessPool(max_workers=1, initializer=initialise, initargs=arguments, context=CONTEXT)

    def submit(self, tasks: Sequence[Task]) -> None:
        """Send a bundle, through a new pool if the old one broke while idle."""
        self._number += 1
        number = self._number
        future: Future[Any] = Future()
        try:
            future = self.pool.schedule(run_bundle, args=(number, tasks))
        except RuntimeError as broken:
            if self.held:  # what it held is still to be reported, so this bundle is lost with the worker
                future.set_exception(broken)
            else:
                self.renew()
                future = self.pool.schedule(run_bundle, args=(number, tasks))
        self.held.append(Held(number, tasks))
        with contextlib.suppress(AttributeError):  # no successor in this pool: a death replaces the whole pool
            self.pool._pool_manager.worker_manager.workers_number = 0
        future.add_done_callback(lambda done: self.events.put((self, number, done)))

    def take(self, number: int) -> Held | None:
        """The bundle of this number, which the worker has no longer; None if it was given up before."""
        found = next((held for held in self.held if held.number == number), None)
        if found is not None:
            self.held.remove(found)
        return found

    def withdraw(self) -> Report | None:
        """Take back a bundle that waits behind a run longer than expected.

        The worker skips bundles up to the number in its cell. If it started this one in the same instant, both
        copies run and the first is dropped: a run is a pure function of its index.
        """
        if len(self.held) < 2 or time.monotonic() - self.held[-1].since < PATIENCE:
            return None
        running, _ = self.running()
        if running is None or all(task.index != running.index for task in self.held[0].tasks):
            return None
        held = self.held.pop()
        self.cell[WITHDRAWN] = held.number
        return Report(held.tasks, (), "lost", None, "withdrawn")

    def give_up(self, index: int | None, report: Report) -> list[Report]:
        """Throw the worker away: `report` is for the bundle of the run `index`, the other bundles are lost."""
        held = self.held
        self.renew()
        guilty = [any(task.index == index for task in bundle.tasks) for bundle in held]
        return [
            replace(report, tasks=bundle.tasks) if own else Report(bundle.tasks, (), "lost", None, report.detail)
            for bundle, own in zip(held, guilty, strict=True)
        ]

    def vanished(self) -> bool:
        """Whether the worker is gone for a second and its pool has not said so (an exit with code 0, a race)."""
        pid, now = int(self.cell[PID]), time.monotonic()
        if pid <= 0 or not self.held or alive(pid):
            self._gone_since = None
        elif self._gone_since is None:
            self._gone_since = now
        return self._gone_since is not None and now - self._gone_since > SILENCE

    def renew(self) -> None:
        """Throw the pool away, with all its worker started, and open another."""
        self.end()
        self.held = []
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
        task = next((task for held in self.held for task in held.tasks if task.index == index), None)
        looked, self._looked = self._looked, now
        if task is None:
            return None, 0.0
        if state(int(self.cell[PID])) == "T":
            self.suspended[index] = self.suspended.get(index, 0.0) + now - max(looked, began)
        return task, max(now - began - self.suspended.get(index, 0.0), 0.0)


def alive(pid: int) -> bool:
    """Whether a process of ours exists and has not ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return state(pid) != "Z"


def stat(pid: int) -> list[bytes]:
    """The kernel's line about a process, from its state on; empty where unknown or ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def state(pid: int) -> str:
    """R, S, T (suspended), Z, ..."""
    fields = stat(pid)
    return fields[0].decode() if fields else ""


def cpu_of(pid: int) -> float:
    """CPU seconds of a live process and its ended children."""
    fields = stat(pid)
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK") if len(fields) > 15 else 0.0
