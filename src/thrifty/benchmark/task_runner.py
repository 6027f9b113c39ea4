"""Run independent tasks in this process or in several, each on one thread, and give results as they come.

A task that fails costs no other: its exception is given instead of a result. Workers end with the process that started
them, so that a killed benchmark leaves nothing behind.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from thrifty.errors import CampaignError, FolderInUseError

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_tasks(
    work: Callable[[Task], Result], tasks: Sequence[Task], *, workers: int = 1
) -> Iterator[tuple[Task, Result | Exception]]:
    """Yield each task with its result, or with the exception that ended it."""
    return _run_in_order(work, tasks) if workers == 1 else _run_side_by_side(work, tasks, workers)


def _run_in_order(work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    for task in tasks:
        try:
            yield task, _work_on_one_thread(work, task)
        except Exception as error:
            yield task, error


def _run_side_by_side(work: Callable[[Any], Any], tasks: Sequence[Any], workers: int) -> Iterator[tuple[Any, Any]]:
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_end_with_parent, initargs=(os.getpid(),)
    ) as pool:
        futures = {pool.submit(_work_on_one_thread, work, task): task for task in tasks}
        try:
            for future in as_completed(futures):
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    raise CampaignError(
                        "a worker died",
                        code="worker-environment",
                        why="perhaps it ran out of memory",
                        fix="what is done is kept; the same command continues",
                    ) from None
                if error is not None and not isinstance(error, Exception):
                    error = RuntimeError(f"the task ended its worker with {error!r}")
                yield futures[future], error or future.result()
        except BaseException:  # an interrupt: what has not begun is left for the next run
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _work_on_one_thread(work: Callable[[Any], Any], task: Any) -> Any:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return work(task)


def _end_with_parent(parent: int) -> None:
    """End a worker whose parent was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def hold_alone(path: Path) -> Iterator[None]:
    """Refuse a second run that would do the same tasks: hold a lock on a file."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FolderInUseError(
                f"in use by another run: {path}",
                code="folder-in-use",
                fix="wait for its end, or give another folder (--out)",
            ) from None
        yield


def name_machine() -> str:
    """Return cores and processor, without names or paths."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")
    return f"{os.cpu_count()} cores, {model}"


def name_commit(root: Path, *parts: str) -> str:
    """Return the last commit that changed parts of a checkout, with a + where files differ from it."""
    try:
        last = _run_git(root, "log", "-1", "--format=%h", "--", *parts)
        return (last or "unknown") + ("+" if _run_git(root, "status", "--porcelain", "--", *parts) else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _run_git(root: Path, *command: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *command], capture_output=True, text=True, check=True)
    return done.stdout.strip()
