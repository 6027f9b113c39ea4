"""Runs on dask.distributed: `th.Dask("tcp://scheduler:8786")` or `th.Dask(4)` for a cluster on this machine.

Bundles of a few seconds travel, since a task costs milliseconds. On each Dask thread a bundle runs in a worker
process of its own (`workers.py`): a crash or a time limit ends that process, not the Dask worker, and the same
`run_one` gives the same numbers. If Dask workers die, Dask moves their bundles; if the scheduler dies, the campaign
stops cleanly and continues later.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import hashlib
import multiprocessing
import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

import cloudpickle

from thrifty.errors import CampaignError, ConfigError, MissingExtraError
from thrifty.runner.engines.processes import Processes
from thrifty.runner.simulator import pack
from thrifty.runner.task import Job, Report, Task

PATIENCE = 10.0  # seconds without scheduler or workers before giving up
_local = threading.local()
_engines: list[Processes] = []


def _engine_for(payload: bytes) -> Processes:
    """The worker process of this Dask thread, made ready for this job."""
    digest = hashlib.blake2b(payload, digest_size=16).digest()
    engine: Processes | None = getattr(_local, "engine", None)
    if engine is None or engine.stopped or _local.digest != digest:
        if engine is not None:
            engine.stop()
        # Dask starts its workers as daemons, which may not have children; ours end when their driver ends
        multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
        engine = Processes(1)
        engine.start(cloudpickle.loads(payload))
        _local.engine, _local.digest = engine, digest
        _engines.append(engine)
    return _local.engine


def run_remote(payload: bytes, tasks: Sequence[Task]) -> Report:
    """Run a bundle on a Dask worker."""
    engine = _engine_for(payload)
    engine.submit(tasks)
    while not (reports := engine.wait(1.0)):
        if engine.stopped:
            return Report(tasks, (), "lost")
    return reports[0]


def stop_remote() -> None:
    """End the worker processes of a Dask worker."""
    while _engines:
        _engines.pop().stop()


class Dask:
    """An engine on a Dask cluster.

    Args:
        where: Address of a scheduler, or the number of workers of a cluster on this machine (bound to
            loopback, without dashboard).
        bundle_seconds: Aim for the length of a bundle; two seconds keep Dask's 5 ms below 1 %.
    """

    ahead = 0  # Dask's workers could hold more, but bundles of seconds gain nothing and could not be withdrawn

    def __init__(self, where: str | int = 2, *, bundle_seconds: float = 2.0) -> None:
        if isinstance(where, bool) or not isinstance(where, str | int) or (isinstance(where, int) and where < 1):
            raise ConfigError(
                f"th.Dask({where!r}): expected the address of a scheduler, or a number of workers", code="bad-setting"
            )
        try:
            import distributed
        except ImportError:
            raise MissingExtraError(
                "th.Dask needs dask.distributed", code="missing-extra", fix='pip install "thrifty[dask]"'
            ) from None
        self._distributed = distributed
        self.where, self.bundle_seconds = where, bundle_seconds
        self._cluster: Any = None
        self._client: Any = None
        self._events: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._running: dict[int, tuple[Sequence[Task], Any]] = {}
        self._number, self._slots, self._seen = 0, 1, 0.0

    @property
    def slots(self) -> int:
        """Threads of the cluster, looked up now and then: clusters grow and shrink."""
        return max(self._slots, len(self._running))

    @property
    def free(self) -> int:
        """Threads without a bundle."""
        return self.slots - len(self._running)

    def start(self, job: Job) -> None:
        """Connect, or start a cluster; the simulator is packed by value where workers may not have its file."""
        self._payload = pack(job, everything=True)
        try:
            if isinstance(self.where, int):
                off: Any = None  # no dashboard: nobody asked for a server
                self._cluster = self._distributed.LocalCluster(
                    n_workers=self.where,
                    threads_per_worker=1,
                    processes=False,  # the runs have processes of their own; scripts need no __main__ guard this way
                    protocol="tcp://",
                    host="127.0.0.1",
                    dashboard_address=off,
                )
            target = self._cluster if self._cluster is not None else self.where
            self._client = self._distributed.Client(target, set_as_default=False, timeout=PATIENCE)
        except (OSError, TimeoutError) as error:
            raise CampaignError(
                f"no Dask scheduler at {self.where}: {error}", code="no-cluster", fix="start one: dask scheduler"
            ) from None
        self._seen = time.monotonic()
        self._look()

    def submit(self, tasks: Sequence[Task]) -> None:
        """Send a bundle."""
        self._number += 1
        number = self._number
        if self._client.status in ("closed", "closing"):
            raise self._gone("scheduler")
        future = self._client.submit(
            run_remote, self._payload, list(tasks), key=f"thrifty-{id(self)}-{number}", pure=False
        )
        self._running[number] = (tasks, future)
        future.add_done_callback(lambda done: self._events.put((number, done)))

    def wait(self, timeout: float) -> list[Report]:
        """Bundles that ended."""
        reports: list[Report] = []
        try:
            number, future = self._events.get(timeout=timeout)
            while True:
                if number in self._running:
                    tasks, _ = self._running.pop(number)
                    reports.append(self._report(tasks, future))
                number, future = self._events.get_nowait()
        except queue.Empty:
            self._look()
            return reports

    def clock(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def stop(self) -> None:
        """Cancel what runs, end the worker processes, disconnect; a cluster we started ends."""
        client, self._client = self._client, None
        if client is not None:
            futures = [future for _, future in self._running.values()]
            self._running = {}
            if client.status == "running":
                for call in (lambda: client.cancel(futures, force=True), lambda: client.run(stop_remote)):
                    _within(5.0, call)
            _within(5.0, client.close)
        if self._cluster is not None:
            _within(10.0, self._cluster.close)
            self._cluster = None

    def _report(self, tasks: Sequence[Task], future: Any) -> Report:
        """What became of a bundle; an answer lost with its connection is simply asked for again."""
        try:
            if future.status == "finished":
                report: Report = future.result()
                return report
            problem = future.exception() if future.status == "error" else None
        except (OSError, TimeoutError, asyncio.CancelledError, concurrent.futures.CancelledError) as error:
            return Report(tasks, (), "lost", None, str(error))
        if problem is None:
            return Report(tasks, (), "lost", None, str(future.status))
        if type(problem).__name__ == "KilledWorker":
            return Report(tasks, (), "died", None, "the Dask workers that ran it died")
        raise problem

    def _look(self) -> None:
        """Count threads; give up when scheduler or workers are gone for too long."""
        now, status = time.monotonic(), self._client.status
        if status == "running":
            info = (
                self._client.scheduler_info(n_workers=-1) if _takes_n(self._client) else self._client.scheduler_info()
            )
            threads = sum(worker["nthreads"] for worker in info["workers"].values())
            if threads:
                self._slots, self._seen = threads, now
        if status in ("closed", "closing") or now - self._seen > PATIENCE:
            raise self._gone("workers" if status == "running" else "scheduler")

    def _gone(self, missing: str) -> CampaignError:
        return CampaignError(
            f"the Dask cluster at {self.where} is gone: no {missing}",
            code="no-cluster",
            why="runs recorded so far are safe",
            fix="start the cluster again and call run() again",
        )


def _takes_n(client: Any) -> bool:
    import inspect

    return "n_workers" in inspect.signature(client.scheduler_info).parameters


def _within(seconds: float, call: Any) -> None:
    """Call something that may hang when the other side is gone; do not wait for ever."""

    def quietly() -> None:
        with contextlib.suppress(Exception):  # the other side may be gone: nothing is lost, runs are recorded here
            call()

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    thread.join(seconds)
