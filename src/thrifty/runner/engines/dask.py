"""Run bundles on dask.distributed: `th.Dask("tcp://scheduler:8786")`, or `th.Dask(4)` inside this process.

Bundles of a few seconds are sent, since a Dask task costs milliseconds; on each Dask thread they run as `remote.py`
says. If Dask workers die, Dask moves their bundles; if the scheduler dies, the campaign stops cleanly and continues
later. Workers that still wait in a queue are waited for without limit.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import queue
import time
from collections.abc import Callable, Sequence
from typing import Any

from thrifty.errors import CampaignError
from thrifty.runner.engines.dask_connection import connect, read_target, start_cluster
from thrifty.runner.engines.remote import Parcel, call_within, explain_worker_error, stop_remote
from thrifty.runner.task import Job, Report, Task

PATIENCE_SECONDS = 10.0  # without scheduler, or without workers after one was seen, before giving up
CALL_SECONDS, CLOSE_SECONDS = 5.0, 10.0  # for calls that hang when the other side is gone


class Dask:
    """An engine on a Dask cluster.

    Args:
        where: Address of a scheduler, a `Client`, a cluster object (`SLURMCluster`, `LocalCluster`, ...), or a number
            of workers inside this process: these have no network connection at all. What was passed in stays open.
        bundle_seconds: Intended length of a bundle; two seconds keep Dask's 5 ms below 1 %.
        patience: Seconds without scheduler, or without any worker after one was seen, before the campaign stops.
            The first worker is waited for without limit.
        security: `distributed.Security` with the certificates of an address that begins with tls://.
        dashboard: Whether workers inside this process have a dashboard on a free port of 127.0.0.1, or its address.

    Example:
        >>> th.Dask(2)  # two workers on this machine, started with the first run
        Dask(2)
    """

    ahead = 0  # Dask's workers could hold more, but bundles of seconds gain nothing and could not be withdrawn

    def __init__(
        self,
        where: Any = 2,
        *,
        bundle_seconds: float = 2.0,
        patience: float = PATIENCE_SECONDS,
        security: Any = None,
        dashboard: bool | str = False,
    ) -> None:
        self.where, self.bundle_seconds, self.patience = where, bundle_seconds, patience
        self._target = read_target(where, security=security, dashboard=dashboard, patience=patience)
        self._cluster: Any = None  # one that we started
        self._client: Any = None
        self._events: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._running: dict[int, tuple[Sequence[Task], Any]] = {}
        self._number, self._slots, self._seen_at = 0, 0, 0.0
        self._has_seen_workers = False

    def __repr__(self) -> str:
        return f"Dask({self.where if isinstance(self.where, int | str) else type(self.where).__name__})"

    @property
    def slots(self) -> int:
        """Number of threads of the cluster, which may grow and shrink; one where there is none yet."""
        return max(self._slots, len(self._running), 1)

    @property
    def free(self) -> int:
        """Number of threads without a bundle."""
        return self.slots - len(self._running)

    @property
    def is_waiting_for_workers(self) -> bool:
        """Whether nothing runs because no worker is there; what was sent starts with the first one."""
        return self._slots == 0

    def start(self, job: Job) -> None:
        """Connect, or start a cluster; the simulator is packed by value where workers may not have its file."""
        self._parcel = Parcel.of(job)
        self._running, self._slots, self._has_seen_workers = {}, 0, False
        if self._target.workers:
            self._cluster = start_cluster(self._target)
        self._client = connect(self._target, self._cluster)
        self._seen_at = time.monotonic()
        self._check_cluster()

    def submit(self, tasks: Sequence[Task]) -> None:
        """Send a bundle."""
        self._number += 1
        number = self._number
        if self._client.status in ("closed", "closing"):
            raise self._cluster_gone_error("scheduler")
        key = f"thrifty-{self._parcel.token}-{number}"
        future = self._client.submit(make_call(), *self._parcel.arguments(tasks), key=key, pure=False)
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
        """Cancel what runs, end the worker processes, disconnect; a cluster or client we started ends."""
        client, self._client = self._client, None
        if client is not None:
            token, futures = self._parcel.token, [future for _, future in self._running.values()]
            self._running = {}
            if client.status == "running":
                for call in (lambda: client.cancel(futures, force=True), lambda: client.run(stop_remote, token)):
                    call_within(CALL_SECONDS, call)
            if client is not self._target.client:
                call_within(CALL_SECONDS, client.close)
        if self._cluster is not None:
            call_within(CLOSE_SECONDS, self._cluster.close)
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
        raise explain_worker_error(problem) or problem

    def _check_cluster(self) -> None:
        """Count threads; give up when the scheduler, or workers that were there, are gone for too long."""
        now, status = time.monotonic(), self._client.status
        if status == "running":
            every = {"n_workers": -1} if _accepts_n_workers(self._client) else {}  # all of them
            info = self._client.scheduler_info(**every)
            self._slots = sum(worker["nthreads"] for worker in info["workers"].values())
            self._has_seen_workers |= self._slots > 0
            if self._slots or not self._has_seen_workers:
                self._seen_at = now
        if status in ("closed", "closing") or now - self._seen_at > self.patience:
            raise self._cluster_gone_error("workers" if status == "running" else "scheduler")

    def _cluster_gone_error(self, missing: str) -> CampaignError:
        return CampaignError(
            f"the Dask cluster at {self._target.name} is gone: no {missing} for {self.patience:g} s",
            code="no-cluster",
            why="runs recorded so far are safe",
            fix="start the cluster again and call run() again; th.Dask(..., patience=600) waits longer",
        )


def make_call() -> Callable[[bytes, dict[str, str]], Report]:
    """Return `run_remote` as a function that Dask sends by value.

    A Dask worker without thrifty ends when it unpacks a function of thrifty, and a scheduler without it refuses all;
    this one fails in its call, and its error comes back.
    """

    def call(packed: bytes, versions: dict[str, str]) -> Report:
        from thrifty.runner.engines.remote import run_remote

        return run_remote(packed, versions)

    return call


def _accepts_n_workers(client: Any) -> bool:
    return "n_workers" in inspect.signature(client.scheduler_info).parameters
