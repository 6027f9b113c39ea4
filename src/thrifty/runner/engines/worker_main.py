"""Run bundles in a worker process.

Each worker leads its own session: Ctrl-C at the terminal reaches only the driver, and a time limit ends
the worker with everything it started. A small block of shared memory (the cell) shows the driver
which run is under way since when, without a message: blame and limits need no more.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

import cloudpickle

from thrifty.runner.command import enter_worker
from thrifty.runner.engines.pipes import WorkerPipes
from thrifty.runner.run_one import Runner, cpu_seconds
from thrifty.runner.task import Outcome, Task

# doubles of the cell: index of the run under way or -1, when it started, CPU seconds until then, last bundle to skip
INDEX, STARTED, CPU, WITHDRAWN = range(4)
CELL_SIZE = 4
_worker: dict[str, Any] = {}


def serve_bundles(payload: bytes, cell: Any, ends: tuple[Any, Any], scratch: str, environment: dict[str, str]) -> None:
    """Run bundles as they come, until the driver closes the pipe; the whole life of a worker."""
    os.setsid()
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined] - simulators may start processes
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(environment)
    enter_worker(scratch)
    pipes = WorkerPipes(*ends)
    _worker.update(cell=cell, pipes=pipes)
    try:
        _worker["runner"] = Runner.of(cloudpickle.loads(payload))
    except BaseException as problem:  # a simulator that cannot be rebuilt is reported by the first bundle
        _worker["problem"] = f"{type(problem).__name__}: {problem}"
    gc.freeze()  # modules stay for ever: looking through them for garbage takes milliseconds between runs
    while True:
        try:
            number, tasks = pipes.receive()
        except EOFError:
            return
        pipes.send((number, run_bundle(number, tasks)))
        cell[INDEX] = -1  # only now: a worker that dies while it sends dies of this run


def run_bundle(number: int, tasks: Sequence[Task]) -> list[Outcome] | str:
    """Run each task, unless the bundle was withdrawn; a string says why nothing could be run at all."""
    runner: Runner | None = _worker.get("runner")
    if runner is None:
        return _worker["problem"]
    cell = _worker["cell"]
    if number <= cell[WITHDRAWN]:
        return []

    def note_start(index: int) -> None:
        cell[CPU], cell[STARTED], cell[INDEX] = cpu_seconds(), time.monotonic(), index

    outcomes = [runner.run(task, note_start) for task in tasks]
    cell[STARTED] = math.inf  # nothing is under way, but until the outcomes are sent this run can still be blamed
    return outcomes
