"""One local worker: its process, its pipes, its cell of shared memory, the bundle it runs and the one it has next.

The process belongs to a pool of pebble with one worker, which starts it, watches it and says how it ended. Its one task
is to serve bundles through a lane of its own (`lane.py`): pebble's own way through three threads takes 0.5 ms.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from pebble import ProcessPool

from thrifty.campaign.forkserver import CONTEXT, Warden, workers_environment
from thrifty.campaign.lane import GarbledError, Lane
from thrifty.campaign.switchboard import Switchboard
from thrifty.campaign.task import Outcome, Report, Task
from thrifty.campaign.warden import end_tree, stat
from thrifty.campaign.worker_process import BORN, CELL, INDEX, PID, STARTED, WITHDRAWN, initialise, serve

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

    def __init__(self, payload: bytes, warden: Warden, switchboard: Switchboard) -> None:
        self.payload, self.warden, self.switchboard = payload, warden, switchboard
        self.held: list[Held] = []
        self.early_deaths = 0
        self.life = 0  # which worker of this slot it is
        self._number = 0
        self._open()

    def _open(self) -> None:
        self.cell: Any = CONTEXT.RawArray("d", [-1.0] * CELL)
        self.suspended: dict[int, float] = {}  # seconds for which the worker was seen stopped, by run
        self.unwatched: dict[int, float] = {}  # seconds for which the driver itself did not run, by run
        self._looked = time.monotonic()
        self._gone_since: float | None = None
        self._serving = False
        self.lane = Lane()
        self.switchboard.watch(self)
        self.scratch = tempfile.mkdtemp(dir=self.warden.scratch)
        home = (self.warden.writer, self.scratch)
        arguments = (self.payload, self.cell, self.lane.theirs, home, workers_environment())
        self.pool = ProcessPool(max_workers=1, initializer=initialise, initargs=arguments, context=CONTEXT)

    def _serve(self) -> None:
        """Start the worker, once."""
        self._serving, life = True, self.life
        future: Future[Any] = self.pool.schedule(serve)
        with contextlib.suppress(AttributeError):  # no successor in this pool: a death replaces the whole pool
            self.pool._pool_manager.worker_manager.workers_number = 0
        future.add_done_callback(lambda done: self.switchboard.note(self, life, done.exception()))

    def submit(self, tasks: Sequence[Task]) -> None:
        """Send a bundle."""
        if not self._serving:
            self._serve()
        self._number += 1
        self.held.append(Held(self._number, tasks))
        self.lane.send((self._number, tasks))

    def answers(self) -> list[tuple[int, list[Outcome] | str]]:
        """What the worker has sent since, by number of the bundle."""
        found = self.lane.receive()
        for message in found:
            match message:
                case (int(), str() | list()):
                    continue
            raise GarbledError(f"a message of type {type(message).__name__}")
        return found

    @property
    def begun(self) -> bool:
        """Whether this worker has ever started a run."""
        return self.cell[STARTED] >= 0

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
        if index is None and report.cause == "died" and held:  # between two runs: one of the first bundle
            guilty[0] = True
        return [
            replace(report, tasks=bundle.tasks) if own else Report(bundle.tasks, (), "lost", None, report.detail)
            for bundle, own in zip(held, guilty, strict=True)
        ]

    def unwatch(self, seconds: float) -> None:
        """The driver itself did not run for so long: nobody knows what the worker did, so its limit stands still."""
        self._looked = time.monotonic()
        for task in (task for held in self.held[:1] for task in held.tasks):
            self.unwatched[task.index] = self.unwatched.get(task.index, 0.0) + seconds

    def measured(self, outcome: Outcome) -> Outcome:
        """An outcome less the time its worker was suspended, which is neither cost nor time-out.

        While the driver did not run, the worker may have gone on (Ctrl-Z stops the driver alone) or not (a frozen
        container, a paused machine). It was suspended too if the run's wall time has room for its CPU time beside it.
        """
        seconds = self.suspended.pop(outcome.index, 0.0)
        unwatched = self.unwatched.pop(outcome.index, 0.0)
        if outcome.cpu <= outcome.wall - seconds - unwatched:
            seconds += unwatched
        return replace(outcome, wall=max(outcome.wall - seconds, 0.0)) if seconds else outcome

    def look(self) -> bool:
        """Look at the process: time for which it is suspended is not its own. Whether it is gone without a word."""
        pid, now = int(self.cell[PID]), time.monotonic()
        looked, self._looked = self._looked, now
        if pid <= 0 or not self.held:
            return False
        seen = state(pid)
        if seen == "T" and (index := int(self.cell[INDEX])) >= 0:
            stopped = max(now - max(looked, float(self.cell[STARTED])), 0.0)
            self.suspended[index] = self.suspended.get(index, 0.0) + stopped
        if seen not in ("", "Z"):
            self._gone_since = None
        elif self._gone_since is None:  # an exit with code 0, or a race: its pool has a second to say so
            self._gone_since = now
        return self._gone_since is not None and now - self._gone_since > SILENCE

    def renew(self) -> None:
        """Throw the worker away, with all it started, and make ready for another."""
        self.end()
        self.held = []
        self.life += 1
        self._open()

    def end(self) -> None:
        """Kill the worker and its kin; in the background the pool's threads are joined and its folder is removed."""
        pool, scratch = self.pool, self.scratch
        pool.stop()
        self.kill()
        self.switchboard.unwatch(self)
        self.lane.close()

        def clear() -> None:
            pool.join()
            shutil.rmtree(scratch, ignore_errors=True)

        threading.Thread(target=clear, daemon=True).start()

    def kill(self) -> None:
        """End the worker and everything it started."""
        pid = int(self.cell[PID])
        if pid > 0:
            end_tree(pid, int(self.cell[BORN]))

    def running(self) -> tuple[Task | None, float]:
        """The run under way and its wall time, less the time the worker was suspended or nobody watched it."""
        index, began = int(self.cell[INDEX]), float(self.cell[STARTED])
        task = next((task for held in self.held for task in held.tasks if task.index == index), None)
        if task is None:
            return None, 0.0
        paused = self.suspended.get(index, 0.0) + self.unwatched.get(index, 0.0)
        return task, max(time.monotonic() - began - paused, 0.0)


def state(pid: int) -> str:
    """R, S, T (suspended), Z, ..."""
    fields = stat(pid)
    return fields[0].decode() if fields else ""


def cpu_of(pid: int) -> float:
    """CPU seconds of a live process and its ended children."""
    fields = stat(pid)
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK") if len(fields) > 15 else 0.0
