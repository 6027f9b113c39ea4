"""One local worker: its process, its pipes, its cell of shared memory, the bundle it runs and the one it has next.

Worker processes come from a fork server that never imports the user's script.
"""

from __future__ import annotations

import contextlib
import io
import os
import selectors
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import forkserver, popen_forkserver, reduction, spawn, util
from multiprocessing.context import ForkServerContext, ForkServerProcess, set_spawning_popen
from typing import Any

import psutil

from thrifty.errors import ConfigError
from thrifty.runner.engines.pipes import DriverPipes, GarbledError
from thrifty.runner.engines.process_tree import (
    CleanupProcess,
    end_tree,
    find_process,
    process_cpu_seconds,
    process_state,
)
from thrifty.runner.engines.worker_main import CELL_SIZE, CPU, INDEX, STARTED, WITHDRAWN, serve_bundles
from thrifty.runner.task import Outcome, Report, Task

WITHDRAW_SECONDS = 0.5  # that a bundle waits behind another: twice the longest that is sent ahead (loop.py)
JOIN_SECONDS = 5.0  # to wait for a killed worker; it takes milliseconds unless the kernel holds it
START_METHODS = ("fork", "spawn", "forkserver")  # that every Python has
START_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)  # after each attempt to start a worker while its fork server ends
FORK_SERVER_GONE = 255  # exit code that multiprocessing gives where the fork server ended before the worker

# one thread per worker unless the user says otherwise: the workers fill the cores already
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class _Popen(popen_forkserver.Popen):
    """Start a process without importing the parent's `__main__`: simulators are sent by value."""

    def _launch(self, process_obj: Any) -> None:
        prepared = spawn.get_preparation_data(process_obj._name)
        prepared = {key: value for key, value in prepared.items() if not key.startswith("init_main")}
        if prepared.get("start_method") not in START_METHODS:  # loky's own: a fresh process does not know it
            prepared.pop("start_method", None)
        buffer = io.BytesIO()
        set_spawning_popen(self)
        try:
            reduction.dump(prepared, buffer)
            reduction.dump(process_obj, buffer)
        finally:
            set_spawning_popen(None)
        self.sentinel, write_end = forkserver.connect_to_new_process(self._fds)  # type: ignore[attr-defined]
        duplicate = os.dup(write_end)  # tells the child when we are gone
        self.finalizer = util.Finalize(self, util.close_fds, (duplicate, self.sentinel))  # type: ignore[attr-defined]
        with contextlib.suppress(BrokenPipeError), open(write_end, "wb", closefd=True) as file:
            file.write(buffer.getbuffer())  # a child that was killed meanwhile is noticed through its sentinel
        self.pid = forkserver.read_signed(self.sentinel)  # type: ignore[attr-defined]


class _Process(ForkServerProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _Popen(process_obj)


class _Context(ForkServerContext):
    Process = _Process  # type: ignore[assignment]


CONTEXT = _Context()


def worker_environment() -> dict[str, str]:
    """Return this process's environment, with one thread per numerical library where the user has not chosen."""
    return {**dict.fromkeys(THREAD_VARIABLES, "1"), **os.environ}


def start_forkserver() -> None:
    """Start the fork server with numpy and the runner already imported, single-threaded."""
    CONTEXT.set_forkserver_preload(["thrifty.runner.engines.worker_main"])
    missing = [name for name in THREAD_VARIABLES if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, "1"))
    try:
        forkserver.ensure_running()
    except OSError as error:
        if "path too long" not in str(error):
            raise
        raise ConfigError(
            f"the temporary folder {tempfile.gettempdir()} is too deep for the sockets of worker processes",
            code="bad-setting",
            why="the path of a socket may have about a hundred characters",
            fix="TMPDIR=/tmp, or another short one",
        ) from None
    finally:
        for name in missing:
            del os.environ[name]


def _forget_forkserver() -> None:
    """Let a forked child start a fork server of its own: it cannot wait for the one of its parent."""
    server: Any = forkserver._forkserver  # type: ignore[attr-defined]
    if server._forkserver_alive_fd is not None:
        with contextlib.suppress(OSError):
            os.close(server._forkserver_alive_fd)
        server.__init__()


os.register_at_fork(after_in_child=_forget_forkserver)


@dataclass(frozen=True)
class Bundle:
    """Tasks that a worker has, by number."""

    number: int
    tasks: Sequence[Task]
    since: float = field(default_factory=time.monotonic)


class WorkerSlot:
    """A worker process and the bundles it holds: at most one under way and one behind it.

    The process starts with the first bundle. In the selector its pipe has the data
    (slot, False), its end (slot, True).
    """

    def __init__(self, payload: bytes, cleanup: CleanupProcess, selector: selectors.BaseSelector) -> None:
        self._payload, self._cleanup, self._selector = payload, cleanup, selector
        self.held: list[Bundle] = []
        self.early_deaths = 0  # in a row, of workers that died before their first run
        self._number = 0
        self._prepare()

    def _prepare(self) -> None:
        self.cell: Any = CONTEXT.RawArray("d", [-1.0] * CELL_SIZE)
        self._process: Any = None
        self._tree: psutil.Process | None = None
        self._suspended: dict[int, float] = {}  # seconds for which the worker was seen stopped, by run
        self._unwatched: dict[int, float] = {}  # seconds for which the driver itself did not run, by run
        self._checked_at = time.monotonic()
        self.pipes = DriverPipes()
        self._scratch = tempfile.mkdtemp(dir=self._cleanup.scratch)

    def _start(self) -> None:
        arguments = (self._payload, self.cell, self.pipes.worker_ends, self._scratch, worker_environment())
        failure = ""
        for pause in START_PAUSES_S:
            process: Any = CONTEXT.Process(target=serve_bundles, args=arguments, daemon=True)
            try:
                process.start()  # where it fails, there is none to end
                break
            except (ConnectionError, EOFError) as error:  # a fork server that is ending is replaced once it has ended
                failure = type(error).__name__
                time.sleep(pause)
        else:
            raise ConfigError(
                f"worker processes cannot be started: their fork server ended ({failure})",
                code="bad-setting",
                why="it has the limits of this process; too few open files is the usual cause",
                fix="raise the limit (ulimit -n 4096); then call again",
            )
        self._process = process
        self._tree = find_process(self._process.pid)
        self._cleanup.add_worker(self._process.pid)
        self._selector.register(self.pipes, selectors.EVENT_READ, (self, False))
        self._selector.register(self._process.sentinel, selectors.EVENT_READ, (self, True))

    @property
    def pid(self) -> int | None:
        """Process id of the worker; None before its first bundle."""
        return None if self._process is None else self._process.pid

    @property
    def has_begun(self) -> bool:
        """Whether this worker has ever started a run."""
        return self.cell[STARTED] >= 0

    def submit(self, tasks: Sequence[Task]) -> None:
        """Send a bundle."""
        if self._process is None:
            self._start()
        self._number += 1
        self.held.append(Bundle(self._number, tasks))
        self.pipes.send((self._number, tasks))

    def receive(self) -> list[tuple[int, list[Outcome] | str]]:
        """Return what the worker has sent, by number of the bundle."""
        found = self.pipes.receive()
        for message in found:
            match message:
                case (int(), str() | list()):
                    continue
            raise GarbledError(f"a message of type {type(message).__name__}")
        return found

    def take(self, number: int) -> Bundle | None:
        """Remove and return the bundle of this number; None if it was given up before."""
        found = next((bundle for bundle in self.held if bundle.number == number), None)
        if found is not None:
            self.held.remove(found)
        return found

    def withdraw(self) -> list[Report]:
        """Take back a bundle that waits behind a run longer than expected.

        The worker skips bundles up to the number in its cell. If it started this one in the same instant, both
        copies run and the first is dropped: a run is a pure function of its index.
        """
        if len(self.held) < 2 or time.monotonic() - self.held[-1].since < WITHDRAW_SECONDS:
            return []
        running, _ = self.find_running()
        if running is None or all(task.index != running.index for task in self.held[0].tasks):
            return []
        bundle = self.held.pop()
        self.cell[WITHDRAWN] = bundle.number
        return [Report(bundle.tasks, (), "lost", None, "withdrawn")]

    def give_up(self, index: int | None, report: Report) -> list[Report]:
        """Replace the worker: `report` is for the bundle of the run `index`, the other bundles are lost."""
        held, self.held = self.held, []
        self.end()
        self._prepare()
        guilty = [any(task.index == index for task in bundle.tasks) for bundle in held]
        if index is None and report.cause == "died" and held:  # between two runs: one of the first bundle
            guilty[0] = True
        return [
            replace(report, tasks=bundle.tasks) if own else Report(bundle.tasks, (), "lost", None, report.detail)
            for bundle, own in zip(held, guilty, strict=True)
        ]

    def find_running(self) -> tuple[Task | None, float]:
        """Return the run under way and its wall seconds, less the time when the worker or the driver was suspended."""
        index, began = int(self.cell[INDEX]), float(self.cell[STARTED])
        task = next((task for bundle in self.held for task in bundle.tasks if task.index == index), None)
        if task is None:
            return None, 0.0
        paused = self._suspended.get(index, 0.0) + self._unwatched.get(index, 0.0)
        return task, max(time.monotonic() - began - paused, 0.0)

    def end_late_run(self) -> list[Report]:
        """End a run that has passed its time limit, and its worker with it."""
        task, elapsed = self.find_running()
        if task is None or task.limit is None or elapsed <= task.limit:
            return []
        cpu = process_cpu_seconds(self._tree) - self.cell[CPU] if self._tree is not None else 0.0
        error = f"ended after {elapsed:.3g} s, limit {task.limit:g} s"
        outcome = Outcome(
            task.index, "timeout", None, elapsed, max(cpu, 0.0), attempt=task.attempt, error=error, limit=task.limit
        )
        return self.give_up(task.index, Report((), [outcome], "timeout", task.index))

    def note_suspension(self) -> None:
        """Exclude time for which the worker is suspended from its run."""
        now = time.monotonic()
        checked_at, self._checked_at = self._checked_at, now
        index = int(self.cell[INDEX])
        if self._tree is None or not self.held or index < 0:
            return
        if process_state(self._tree) == psutil.STATUS_STOPPED:
            stopped = max(now - max(checked_at, float(self.cell[STARTED])), 0.0)
            self._suspended[index] = self._suspended.get(index, 0.0) + stopped

    def note_absence(self, seconds: float) -> None:
        """Exclude time during which the driver was suspended from the run's time limit."""
        self._checked_at = time.monotonic()
        for task in (task for bundle in self.held[:1] for task in bundle.tasks):
            self._unwatched[task.index] = self._unwatched.get(task.index, 0.0) + seconds

    def correct_wall_time(self, outcome: Outcome) -> Outcome:
        """Subtract the time for which the worker was suspended, which is neither cost nor time-out.

        While the driver did not run, the worker may have gone on (Ctrl-Z stops the driver alone) or not (a frozen
        container, a paused machine). It was suspended too if the run's wall time has room for its CPU time beside it.
        """
        seconds = self._suspended.pop(outcome.index, 0.0)
        unwatched = self._unwatched.pop(outcome.index, 0.0)
        if outcome.cpu <= outcome.wall - seconds - unwatched:
            seconds += unwatched
        return replace(outcome, wall=max(outcome.wall - seconds, 0.0)) if seconds else outcome

    def describe_exit(self) -> tuple[str, bool]:
        """Return how the worker ended, and whether by SIGKILL (or with the fork server): not by the run itself."""
        code = self._process.exitcode
        if code == FORK_SERVER_GONE and self._tree is not None and process_state(self._tree) != psutil.STATUS_ZOMBIE:
            return "the fork server ended", True
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}", code == -signal.SIGKILL
        return f"exited with code {code}", False

    def end(self) -> None:
        """Kill the worker and all its descendants; remove its folder."""
        if self._process is not None:
            if self._tree is not None:
                end_tree(self._tree)
            for watched in (self.pipes, self._process.sentinel):
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(watched)
            self._process.join(JOIN_SECONDS)
            self._cleanup.forget_worker(self._process.pid)
            with contextlib.suppress(ValueError):  # held by the kernel: it ends when it can
                self._process.close()
        self.pipes.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
