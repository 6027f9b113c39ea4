"""Run bundles on any `concurrent.futures.Executor`: `th.Futures(executor)`.

An executor says only that a call came back, raised, or was lost with its worker. On its worker a bundle runs in a
worker process of its own (`remote.py`): crashes and time limits of runs are therefore judged there, as on this machine.
What breaks the executor itself comes from outside. Then a new executor is made, if `th.Futures` was given a function
that makes one, and the bundles that were under way run again one by one, so that only a run that breaks an executor
alone is blamed for it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass

from thrifty.errors import CampaignError, ConfigError, warn
from thrifty.runner.engines.remote import (
    Parcel,
    call_within,
    check_worker,
    explain_worker_error,
    read_versions,
    run_remote,
)
from thrifty.runner.task import Job, Report, Task

UNKNOWN_SLOTS = 8  # bundles in flight where an executor does not tell its size: enough for a laptop or a small job
MAX_LOSSES = 30  # bundles lost in a row, none finished between: three runs that kill their workers ten times each
CHECK_SECONDS = 60.0  # for a new executor to answer after the last one broke
STOP_SECONDS, SHUTDOWN_SECONDS = 3.0, 10.0  # to wait for bundles under way, and for an executor that we made
# what executors raise for a call whose worker died, by name: none of these libraries is imported here
DEATHS = {
    "KilledWorker",  # Dask
    "WorkerLost",  # Parsl
    "ManagerLost",
    "ExecutorlibSocketError",  # executorlib
    "FailedJobError",  # submitit
    "UncompletedJobError",
    "WorkerCrashedError",  # Ray
    "OutOfMemoryError",
    "NodeDiedError",
}


@dataclass(frozen=True)
class _Sent:
    """A bundle under way."""

    tasks: Sequence[Task]
    future: Future[Report]
    since: float


class Futures:
    """An engine on a `concurrent.futures.Executor`.

    Args:
        executor: An executor, which stays open; or a function without arguments that makes one, which is ended after
            the call and replaced if it breaks.
        slots: Bundles in flight; by default the number of workers, where the executor tells it.
        bundle_seconds: Intended length of a bundle. Two seconds suit executors that send within milliseconds; where
            each bundle is a batch job of its own, minutes are right.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> with ThreadPoolExecutor(2) as executor:
        ...     sims = th.simulate(lambda theta: theta + 1, th.Draws([[1.0], [2.0]]), engine=th.Futures(executor))
        >>> sims.x.ravel().tolist()
        [2.0, 3.0]
    """

    ahead = 0  # an executor has a queue, but what waits there could not be withdrawn

    def __init__(
        self, executor: Executor | Callable[[], Executor], *, slots: int | None = None, bundle_seconds: float = 2.0
    ) -> None:
        if not isinstance(executor, Executor) and not callable(executor):
            raise ConfigError(
                f"th.Futures({executor!r:.80}): expected a concurrent.futures.Executor, or a function that makes one",
                code="bad-setting",
                fix="for submitit th.SubmititExecutor(executor), for Ray th.RayExecutor()",
            )
        if slots is not None and (isinstance(slots, bool) or not isinstance(slots, int) or slots < 1):
            raise ConfigError(f"slots = {slots!r}, expected a whole number of at least 1", code="bad-setting")
        self._given, self._wanted_slots, self.bundle_seconds = executor, slots, bundle_seconds
        self._executor: Executor | None = None
        self._events: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._running: dict[int, _Sent] = {}
        self._suspects: set[int] = set()  # indices under way when an executor broke: each must show itself alone
        self._number, self._slots, self._losses = 0, 1, 0

    def __repr__(self) -> str:
        return f"Futures({getattr(self._given, '__name__', type(self._given).__name__)})"

    @property
    def slots(self) -> int:
        """Bundles that can be in flight; one at a time while it is unknown which run broke an executor."""
        return max(1 if self._suspects else self._slots, len(self._running))

    @property
    def free(self) -> int:
        """Number of bundles that can be sent now."""
        return self.slots - len(self._running)

    def start(self, job: Job) -> None:
        """Pack the simulator by value; make the executor if a function was given."""
        parcel = Parcel.of(job)
        self._running, self._losses, self._executor = {}, 0, self._make_executor()
        self._suspects.clear()
        self._slots = self._wanted_slots or find_slots(self._executor)
        self._parcel = parcel.with_driver_file()

    def submit(self, tasks: Sequence[Task]) -> None:
        """Send a bundle."""
        assert self._executor is not None, "start comes before submit"
        self._number += 1
        number = self._number
        try:
            future = self._executor.submit(run_remote, *self._parcel.arguments(tasks))
        except BrokenExecutor as error:  # reported by `wait`, as if it had broken a moment later
            future = Future()
            future.set_exception(error)
        except RuntimeError as error:
            raise self._executor_gone_error(str(error)) from None
        self._running[number] = _Sent(tasks, future, time.monotonic())
        future.add_done_callback(lambda _: self._events.put(number))

    def wait(self, timeout: float) -> list[Report]:
        """Return bundles that ended; those that an executor lost when it broke run again."""
        reports, problem = [], None
        with contextlib.suppress(queue.Empty):
            number = self._events.get(timeout=timeout)
            while True:
                if number in self._running:
                    sent = self._running[number]
                    problem = _read_break(sent.future) or problem
                    if _read_break(sent.future) is None:
                        del self._running[number]
                        reports.append(self._make_report(sent))
                number = self._events.get_nowait()
        return reports + (self._replace_executor(problem) if problem else [])

    def clock(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def stop(self) -> None:
        """Cancel what waits and end what runs where the driver's files are seen; an executor we made ends."""
        executor, self._executor = self._executor, None
        if executor is None:
            return
        self._parcel.close()
        futures = [sent.future for sent in self._running.values()]
        self._running = {}
        for future in futures:
            with contextlib.suppress(Exception):  # Parsl cannot cancel
                future.cancel()
        concurrent.futures.wait(futures, timeout=STOP_SECONDS)
        if executor is not self._given:
            call_within(SHUTDOWN_SECONDS, executor.shutdown)

    def _make_executor(self) -> Executor:
        made = self._given if isinstance(self._given, Executor) else self._given()
        if not isinstance(made, Executor):
            raise ConfigError(
                f"the function given to th.Futures made {type(made).__name__}, expected an Executor", code="bad-setting"
            )
        return made

    def _make_report(self, sent: _Sent) -> Report:
        """Report what happened to a bundle, as far as the executor tells."""
        self._suspects -= {task.index for task in sent.tasks}
        try:
            report = sent.future.result()
        except CancelledError:
            return self._lose(Report(sent.tasks, (), "lost", None, "cancelled"))
        except BaseException as problem:
            return self._lose(self._judge(sent, problem))
        if report.outcomes:
            self._losses = 0
        return report

    def _judge(self, sent: _Sent, problem: BaseException) -> Report:
        """Tell a dead worker and a lost connection from what cannot be helped by another attempt, which is raised."""
        detail = f"{type(problem).__name__}: {problem}"
        if explained := explain_worker_error(problem):
            raise explained from None
        if type(problem).__name__ in DEATHS:
            return Report(sent.tasks, (), "died", None, detail, elapsed=time.monotonic() - sent.since, outside=True)
        if isinstance(problem, OSError | EOFError | TimeoutError | KeyboardInterrupt):
            return Report(sent.tasks, (), "lost", None, detail)
        raise CampaignError(
            f"the executor {type(self._executor).__name__} could not run a bundle: {detail}",
            code="no-cluster",
            why="runs recorded so far are safe",
            fix="try it with a function of your own: executor.submit(print, 1).result()",
        ) from problem

    def _lose(self, report: Report) -> Report:
        self._losses += 1
        if self._losses >= MAX_LOSSES:
            raise self._executor_gone_error(f"{MAX_LOSSES} bundles in a row were lost, the last one: {report.detail}")
        return report

    def _replace_executor(self, problem: BaseException) -> list[Report]:
        """Make a new executor for one that broke; a bundle that was alone is blamed, the others run one by one."""
        assert self._executor is not None, "start comes before wait"
        lost, self._running = list(self._running.values()), {}
        detail = f"{type(problem).__name__}: {problem}"
        if isinstance(self._given, Executor):
            raise self._executor_gone_error(detail)
        self._executor.shutdown(wait=False)
        self._executor = self._make_executor()
        self._check_new_executor()
        tasks = [sent.tasks for sent in lost]
        if len(lost) == 1:
            self._suspects -= {task.index for task in tasks[0]}
            elapsed = time.monotonic() - lost[0].since
            return [self._lose(Report(tasks[0], (), "died", None, detail, elapsed=elapsed, outside=True))]
        self._suspects |= {task.index for bundle in tasks for task in bundle}
        return [self._lose(Report(bundle, (), "lost", None, detail)) for bundle in tasks]

    def _check_new_executor(self) -> None:
        """Stop if a new executor breaks without a run: then no run is to blame."""
        assert self._executor is not None
        try:
            self._executor.submit(check_worker, read_versions()).result(timeout=CHECK_SECONDS)
        except TimeoutError:
            return  # its workers may still wait in a queue
        except Exception as error:
            raise self._executor_gone_error(f"a new one broke at once, {type(error).__name__}: {error}") from None

    def _executor_gone_error(self, detail: str) -> CampaignError:
        name = type(self._executor).__name__
        return CampaignError(
            f"the executor {name} is broken or shut down: {detail}",
            code="no-cluster",
            why="runs recorded so far are safe",
            fix=f"make a new one and call run() again; th.Futures(lambda: {name}(...)) replaces a broken one itself",
        )


def _read_break(future: Future[Report]) -> BaseException | None:
    """Return the error of an executor that broke as a whole; None for everything else."""
    if not future.done() or future.cancelled():
        return None
    problem = future.exception()
    return problem if isinstance(problem, BrokenExecutor) else None


def find_slots(executor: Executor) -> int:
    """Return the number of workers of an executor, under the names that executors give it.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> find_slots(ThreadPoolExecutor(3))
        3
    """
    for name in ("num_workers", "max_workers", "_max_workers"):
        found = getattr(executor, name, None)
        if isinstance(found, int) and not isinstance(found, bool) and found > 0:
            return found
    warn(
        f"{type(executor).__name__} does not tell how many workers it has: {UNKNOWN_SLOTS} bundles are sent at once;"
        " say it with th.Futures(executor, slots=...)"
    )
    return UNKNOWN_SLOTS
