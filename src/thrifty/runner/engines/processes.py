"""Local worker processes: pebble starts and watches them, one pool per slot (`slot.py`), bundles go by their own pipes.

Workers start from a fork server that never imports the user's script: notebooks and scripts without a `__main__`
guard work, and neither BLAS nor torch is ever forked after use. Time limits are kept here, on the monotonic clock.

Waiting for many workers at once: which have said something, and which have ended.

Lanes are watched by the kernel. Deaths come from the pools' threads, which leave a note and ring a bell.

One local worker: its process, its pipes, its cell of shared memory, the bundle it runs and the one it has next.

The process belongs to a pool of pebble with one worker, which starts it, watches it and says how it ended. Its one task
is to serve bundles through a lane of its own (`lane.py`): pebble's own way through three threads takes 0.5 ms.
"""

from __future__ import annotations

import contextlib
import queue
import selectors
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from pebble import ProcessPool

from thrifty.errors import ConfigError, SimulatorError, warn
from thrifty.runner.engines.forkserver import CONTEXT, Warden, workers_environment
from thrifty.runner.engines.out_of_memory import OutOfMemory
from thrifty.runner.engines.pipes import GarbledError, Lane
from thrifty.runner.engines.process_tree import end_tree, stat
from thrifty.runner.engines.worker_main import BORN, CELL, CPU, INDEX, PID, STARTED, WITHDRAWN, initialise, serve
from thrifty.runner.simulator import name_of, pack
from thrifty.runner.task import Job, Outcome, Report, Task

Death = tuple["Slot", int, BaseException | None]


class Switchboard:
    """One per engine; only `note` may be called from another thread."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._bell, self._button = socket.socketpair()
        for end in (self._bell, self._button):
            end.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._deaths: queue.SimpleQueue[Death] = queue.SimpleQueue()

    def watch(self, slot: Slot) -> None:
        """Listen to a slot's lane."""
        self._selector.register(slot.lane, selectors.EVENT_READ, slot)

    def unwatch(self, slot: Slot) -> None:
        """Before the lane is closed."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(slot.lane)

    def note(self, slot: Slot, life: int, problem: BaseException | None) -> None:
        """A worker ended; `life` says which of the slot's workers it was."""
        self._deaths.put((slot, life, problem))
        with contextlib.suppress(OSError):  # closed already, or rung often enough
            self._button.send(b"!")

    def wait(self, timeout: float) -> tuple[list[Slot], list[Death]]:
        """Slots whose workers have said something, and workers that ended, after at most `timeout` seconds."""
        heard = [key.data for key, _ in self._selector.select(timeout)]
        deaths: list[Death] = []
        if None in heard:
            with contextlib.suppress(BlockingIOError):
                self._bell.recv(4096)
            with contextlib.suppress(queue.Empty):
                while True:
                    deaths.append(self._deaths.get_nowait())
        return [slot for slot in heard if slot is not None], deaths

    def close(self) -> None:
        """Nothing is heard any more."""
        self._selector.close()
        self._bell.close()
        self._button.close()


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
