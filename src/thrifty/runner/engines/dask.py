"""Run bundles on dask.distributed: `th.Dask("tcp://scheduler:8786")`, or `th.Dask(4)` for a cluster on this machine.

Bundles of a few seconds are sent, since a Dask task costs milliseconds. On each Dask thread a bundle runs in a worker
process of its own (`processes.py`): a crash or a time limit ends that process, not the Dask worker, and the same
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

MAX_ABSENCE_SECONDS = 10.0  # without scheduler or workers before giving up
CALL_SECONDS, CLOSE_SECONDS = 5.0, 10.0  # for calls that hang when the other side is gone
_local = threading.local()
_engines: list[Processes] = []


def _engine_for(payload: bytes) -> Processes:
    """Return the worker process of this Dask thread, started for this job."""
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
        bundle_seconds: Intended length of a bundle; two seconds keep Dask's 5 ms below 1 %.
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
        self._number, self._slots, self._seen_at = 0, 1, 0.0

    @property
    def slots(self) -> int:
        """Number of threads of the cluster, which may grow and shrink."""
        return max(self._slots, len(self._running))

    @property
    def free(self) -> int:
        """Number of threads without a bundle."""
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
            self._client = self._distributed.Client(target, set_as_default=False, timeout=MAX_ABSENCE_SECONDS)
        except (OSError, TimeoutError) as error:
            raise CampaignError(
                f"no Dask scheduler at {self.where}: {error}", code="no-cluster", fix="start one: dask scheduler"
            ) from None
        self._seen_at = time.monotonic()
        self._check_cluster()

    def submit(self, tasks: Sequence[Task]) -> None:
        """Send a bundle."""
        self._number += 1
        number = self._number
        if self._client.status in ("closed", "closing"):
            raise self._cluster_gone_error("scheduler")
        future = self._client.submit(
            run_remote, self._payload, list(tasks), key=f"thrifty-{id(self)}-{number}", pure=False
        )
        self._running[number] = (tasks, future)
        future.add_done_callback(lambda done: self._events.put((number, done)))

    def wait(self, timeout: float) -> list[Report]:
        """Return bundles that ended."""
        reports: list[Report] = []
        try:
            number, future = self._events.get(timeout=timeout)
            while True:
                if number in self._running:
                    tasks, _ = self._running.pop(number)
                    reports.append(self._make_report(tasks, future))
                number, future = self._events.get_nowait()
        except queue.Empty:
            self._check_cluster()
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
                    _call_within(CALL_SECONDS, call)
            _call_within(CALL_SECONDS, client.close)
        if self._cluster is not None:
            _call_within(CLOSE_SECONDS, self._cluster.close)
            self._cluster = None

    def _make_report(self, tasks: Sequence[Task], future: Any) -> Report:
        """Report what happened to a bundle; one whose answer was lost with its connection runs again."""
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

    def _check_cluster(self) -> None:
        """Count threads; give up when scheduler or workers are gone for too long."""
        now, status = time.monotonic(), self._client.status
        if status == "running":
            every = {"n_workers": -1} if _accepts_n_workers(self._client) else {}  # all of them
            info = self._client.scheduler_info(**every)
            threads = sum(worker["nthreads"] for worker in info["workers"].values())
            if threads:
                self._slots, self._seen_at = threads, now
        if status in ("closed", "closing") or now - self._seen_at > MAX_ABSENCE_SECONDS:
            raise self._cluster_gone_error("workers" if status == "running" else "scheduler")

    def _cluster_gone_error(self, missing: str) -> CampaignError:
        return CampaignError(
            f"the Dask cluster at {self.where} is gone: no {missing}",
            code="no-cluster",
            why="runs recorded so far are safe",
            fix="start the cluster again and call run() again",
        )


def _accepts_n_workers(client: Any) -> bool:
    import inspect

    return "n_workers" in inspect.signature(client.scheduler_info).parameters


def _call_within(seconds: float, call: Any) -> None:
    """Call something that may hang when the other side is gone; wait for at most `seconds`."""

    def quietly() -> None:
        with contextlib.suppress(Exception):  # the other side may be gone: nothing is lost, runs are recorded here
            call()

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    thread.join(seconds)
