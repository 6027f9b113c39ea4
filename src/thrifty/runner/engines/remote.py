"""Run bundles on a worker of somebody else's cluster, in a worker process of its own.

Dask and executors call `run_remote` on their workers. Each of their threads starts one worker process (`processes.py`):
a crash or a time limit ends that process and not the cluster's worker, and the same `run_one` gives the same numbers.
The process ends when nothing came for a while, when the driver says so, or with the cluster's worker.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import re
import signal
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from thrifty.errors import CampaignError, SimulatorError, ThriftyError
from thrifty.runner.engines.processes import Processes
from thrifty.runner.simulator import get_name, pack
from thrifty.runner.task import Job, Report, Task
from thrifty.version import __version__

IDLE_SECONDS = 60.0  # before a worker process without a bundle ends; a new one takes a third of a second
WATCH_SECONDS = 0.25  # between looks at the driver's file
STOP_SECONDS = 5.0  # for the thread of a bundle to notice that it must stop
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")


def read_versions() -> dict[str, str]:
    """Return the versions that driver and workers must share: packing and random streams depend on them."""
    python = ".".join(map(str, sys.version_info[:2]))
    return {"thrifty": __version__, "Python": python, "numpy": ".".join(np.__version__.split(".")[:2])}


@dataclass(frozen=True)
class Parcel:
    """What every bundle of a job carries to a remote worker.

    Attributes:
        payload: The job, packed by value.
        name: What to call the simulator in messages.
        token: Tells this call of `run()` from all others.
        driver_file: A file of the driver that is removed when the driver stops; "" for none.
    """

    payload: bytes
    name: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    driver_file: str = ""

    @classmethod
    def of(cls, job: Job) -> Parcel:
        """Pack a job."""
        return cls(pack(job, everything=True), get_name(job.simulator))

    def with_driver_file(self) -> Parcel:
        """Let workers that see this machine's files notice when the driver stops; `close` removes the file."""
        handle, path = tempfile.mkstemp(prefix="thrifty-driver-")
        os.close(handle)
        return replace(self, driver_file=path)

    def arguments(self, tasks: Sequence[Task]) -> tuple[bytes, dict[str, str]]:
        """Return the arguments of `run_remote` for a bundle; packed, so that versions are compared first."""
        return pickle.dumps((self, list(tasks))), read_versions()

    def close(self) -> None:
        """Tell the workers that see the driver's file to end."""
        if self.driver_file:
            with contextlib.suppress(OSError):
                os.remove(self.driver_file)


def run_remote(packed: bytes, versions: dict[str, str]) -> Report:
    """Run a bundle on this worker of a cluster, in a worker process of its own.

    Raises:
        CampaignError: worker-environment, if this worker's versions differ or a module is missing here.
    """
    check_worker(versions)
    parcel, tasks = pickle.loads(packed)
    worker: _RemoteWorker | None = getattr(_here.thread, "worker", None)
    if worker is None or worker.parcel.token != parcel.token:
        if worker is not None:
            worker.stop()
        worker = _here.thread.worker = _RemoteWorker(parcel)
    try:
        report = worker.run(tasks)
    except SimulatorError as error:
        _refuse_missing_module(error.what)
        raise
    for outcome in report.outcomes:
        if outcome.status == "error":
            _refuse_missing_module(outcome.error)
    return report


def check_worker(versions: dict[str, str]) -> None:
    """Refuse to run on a worker whose versions differ from the driver's, and leave Ctrl-C to the driver."""
    here = read_versions()
    differing = [f"{name} {here.get(name)} (driver: {wanted})" for name, wanted in versions.items()
                 if here.get(name) != wanted]  # fmt: skip
    if differing:
        raise CampaignError(
            f"the worker on {socket.gethostname()} has {', '.join(differing)}",
            code="worker-environment",
            why="with other versions a run may give other numbers",
            fix="install the driver's versions in the workers' environment",
        )
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # the driver's is its own
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _refuse_missing_module(text: str) -> None:
    """Stop for a module that is missing on this worker: the same run would succeed on another."""
    found = _MISSING_MODULE.search(text.strip().splitlines()[-1] if text.strip() else "")
    if found:
        raise missing_module_error(found[1], socket.gethostname())


def missing_module_error(module: str, host: str = "") -> CampaignError:
    """Make the error for a module that a worker does not have."""
    where = f"the worker on {host}" if host else "a worker"
    if module.split(".", maxsplit=1)[0] == "thrifty":
        return CampaignError(
            f"{where} has no thrifty",
            code="worker-environment",
            fix=f"install it in the workers' environment: pip install thrifty=={__version__}",
        )
    return CampaignError(
        f"{where} has no module {module!r}, which the simulator needs",
        code="worker-environment",
        fix="install it in the workers' environment, or put its folder on their PYTHONPATH",
    )


def explain_worker_error(problem: BaseException) -> ThriftyError | None:
    """Return our error for what went wrong on a worker, where it is about the worker's environment; else None."""
    if isinstance(problem, ThriftyError):
        return problem
    for each in (problem, problem.__cause__):
        if isinstance(each, ModuleNotFoundError) and each.name:
            return missing_module_error(each.name)
    found = _MISSING_MODULE.search(f"{type(problem).__name__}: {problem}")
    return missing_module_error(found[1]) if found else None


def stop_remote(token: str) -> None:
    """End the worker processes that this worker of a cluster has for one call of `run()`."""
    for worker in [worker for worker in _here.workers if worker.parcel.token == token]:
        worker.stop()


def call_within(seconds: float, call: Callable[[], object]) -> None:
    """Call something that may hang when the other side is gone; wait for at most `seconds`."""

    def quietly() -> None:
        with contextlib.suppress(Exception):  # the other side may be gone: nothing is lost, runs are recorded here
            call()

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    thread.join(seconds)


class _RemoteWorker:
    """The worker process of one thread of a cluster's worker.

    Only who holds the lock touches the process: the thread of the bundle while one runs, else who ends it.
    """

    def __init__(self, parcel: Parcel) -> None:
        self.parcel = parcel
        self._lock, self._must_stop = threading.Lock(), False
        self._engine: Processes | None = None

    def run(self, tasks: Sequence[Task]) -> Report:
        """Run a bundle; it is lost if the driver stops meanwhile."""
        with self._lock:
            engine = self._engine or self._start()
            engine.submit(tasks)
            while not (reports := engine.wait(WATCH_SECONDS)):
                if self._must_stop:
                    self._end()
                    return Report(tasks, (), "lost", None, "the driver stopped")
            self._used_at = time.monotonic()
            return reports[0]

    def stop(self) -> None:
        """End the worker process; a bundle under way is lost."""
        self._must_stop = True
        if self._lock.acquire(timeout=STOP_SECONDS):
            try:
                self._end()
            finally:
                self._lock.release()

    def _start(self) -> Processes:
        # clusters start their workers as daemons, which may not have children; ours end when their driver ends
        multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
        engine = Processes(1)
        with _here.lock:  # threads of one worker: the environment is changed while the fork server starts
            engine.start_packed(self.parcel.payload, self.parcel.name)
            _here.workers.append(self)
        self._engine, self._must_stop, self._used_at = engine, False, time.monotonic()
        threading.Thread(target=self._watch, args=(engine,), daemon=True).start()
        return engine

    def _end(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.stop()
            with _here.lock:
                _here.workers.remove(self)

    def _watch(self, engine: Processes) -> None:
        """End the process when the driver is gone, where its file can be seen, or when nothing came for long."""
        is_seen = bool(self.parcel.driver_file) and os.path.exists(self.parcel.driver_file)
        while self._engine is engine:
            time.sleep(WATCH_SECONDS)
            is_gone = is_seen and not os.path.exists(self.parcel.driver_file)
            is_idle = not self._lock.locked() and time.monotonic() - self._used_at > IDLE_SECONDS
            if is_gone or is_idle:
                self.stop()


class _Here:
    """What this process has: a remote worker per thread, all of them, and a lock for changes."""

    def __init__(self) -> None:
        self.thread, self.workers, self.lock = threading.local(), list[_RemoteWorker](), threading.Lock()


_here = _Here()
# a forked child forgets the worker processes of its parent: they are not its own to use or to end
os.register_at_fork(after_in_child=_here.__init__)
