"""Make a `concurrent.futures.Executor` of submitit and of Ray, for `th.Futures`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from importlib import import_module
from typing import Any

from thrifty.errors import ConfigError, MissingExtraError

POLL_SECONDS = 0.5  # between looks at submitit's jobs; a look reads files, and sacct only now and then


class SubmititExecutor(Executor):
    """Run each call as a job of a submitit executor: `th.Futures(th.SubmititExecutor(submitit.AutoExecutor("logs")))`.

    Every bundle is a batch job of its own, so bundles should last minutes: `th.Futures(..., bundle_seconds=600)`.

    Args:
        executor: A submitit executor; its folder must be on a file system that driver and nodes share.
        max_workers: Jobs in the queue at a time.

    Example: see `th.Futures`.
    """

    def __init__(self, executor: Any, *, max_workers: int = 8) -> None:
        if not callable(getattr(executor, "submit", None)) or not hasattr(executor, "folder"):
            raise ConfigError(
                f"th.SubmititExecutor({type(executor).__name__}): expected an executor of submitit", code="bad-setting"
            )
        self._submitit, self.max_workers = executor, max_workers
        self._jobs: dict[Future[Any], Any] = {}
        self._lock, self._thread = threading.Lock(), None
        self._stopped = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue a job."""
        if self._stopped:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = _JobFuture(self._submitit.submit(_capture, fn, args, kwargs))
        with self._lock:
            self._jobs[future] = future.job
            if self._thread is None:
                self._thread = threading.Thread(target=self._poll, daemon=True)
                self._thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more jobs; cancel those that have not ended if asked to."""
        self._stopped = True
        with self._lock:
            futures = list(self._jobs)
        for future in futures if cancel_futures else ():
            future.cancel()
        while wait and self._jobs:
            time.sleep(POLL_SECONDS)

    def _poll(self) -> None:
        """Look at the jobs until none is left."""
        while True:
            with self._lock:
                jobs = dict(self._jobs)
                if not jobs:
                    self._thread = None
                    return
            for future, job in jobs.items():
                if future.cancelled() or _finish(future, job):
                    with self._lock:
                        del self._jobs[future]
            time.sleep(POLL_SECONDS)


def _capture(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, BaseException | None]:
    """Return what a call returned and what it raised: submitit itself would keep only the text of an error."""
    try:
        return fn(*args, **kwargs), None
    except BaseException as problem:
        return None, problem


class _JobFuture(Future[Any]):
    """A future that cancels its batch job."""

    def __init__(self, job: Any) -> None:
        super().__init__()
        self.job = job

    def cancel(self) -> bool:
        """Cancel the job, also one that runs: nobody waits for it any more."""
        if not self.done():
            with contextlib.suppress(Exception):
                self.job.cancel(check=False)
        return super().cancel()


def _finish(future: Future[Any], job: Any) -> bool:
    """Give a future the result of its job, if that has ended; return whether it has."""
    try:
        if not job.done():
            return False
        result, problem = job.result()
    except BaseException as error:
        result, problem = None, error
    with contextlib.suppress(Exception):  # cancelled in this instant
        if problem is None:
            future.set_result(result)
        else:
            future.set_exception(problem)
    return True


class RayExecutor(Executor):
    """Run each call as a task of Ray: `th.Futures(th.RayExecutor())` after `ray.init(...)`.

    Ray must not repeat tasks itself: thrifty repeats runs by its own rules.

    Args:
        num_cpus: CPUs of a task.
        max_workers: Tasks in flight; by default as many as the cluster's CPUs allow now.

    Example: see `th.Futures`.
    """

    def __init__(self, *, num_cpus: float = 1.0, max_workers: int | None = None) -> None:
        try:
            ray = import_module("ray")
        except ImportError:
            raise MissingExtraError("th.RayExecutor needs ray", code="missing-extra", fix="pip install ray") from None
        if not ray.is_initialized():
            raise ConfigError("Ray is not running", code="bad-setting", fix='ray.init(), or ray.init(address="auto")')
        self._ray, self._num_cpus = ray, num_cpus
        cpus = float(ray.cluster_resources().get("CPU", 1.0))
        self.max_workers = max_workers or max(int(cpus / num_cpus), 1)
        self._references: dict[Future[Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a task."""
        task = self._ray.remote(num_cpus=self._num_cpus, max_retries=0)(fn)
        reference = task.remote(*args, **kwargs)
        future: Future[Any] = reference.future()
        self._references[future] = reference
        future.add_done_callback(lambda done: self._references.pop(done, None))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave Ray running; cancel tasks if asked to."""
        for reference in list(self._references.values()) if cancel_futures else ():
            with contextlib.suppress(Exception):
                self._ray.cancel(reference, force=True)
