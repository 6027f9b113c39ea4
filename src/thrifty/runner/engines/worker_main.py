"""The side of a local worker that lives in the worker process.

Each worker leads its own session: Ctrl-C at the terminal reaches only the driver, and a time limit ends
the worker with everything it started. A small block of shared memory (the cell) tells the driver
which run is under way since when, without a message: blame and limits need no more.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

import cloudpickle

from thrifty.runner.command import in_worker
from thrifty.runner.engines.pipes import WorkerLane
from thrifty.runner.engines.process_tree import announce
from thrifty.runner.run_one import Runner, cpu_seconds
from thrifty.runner.task import Outcome, Task

PID, BORN, INDEX, STARTED, CPU, WITHDRAWN = range(6)
# doubles: process id, its start time in ticks, index of the run under way or -1, when it started, CPU used until then,
# last bundle to skip
CELL = 6
_worker: dict[str, Any] = {}


def initialise(
    payload: bytes, cell: Any, pipes: tuple[Any, Any], home: tuple[Any, str], environment: dict[str, str]
) -> None:
    """Make a fresh worker ready; a simulator that cannot be rebuilt is reported by the first bundle.

    Its home is the pipe to the warden, who ends it when the driver is gone, and its folder for what runs write.
    """
    warden, scratch = home
    os.setsid()
    cell[BORN] = announce(warden.fileno())
    warden.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.update(environment)
    in_worker(scratch)
    cell[INDEX], cell[PID] = -1, os.getpid()
    _worker["cell"], _worker["lane"] = cell, WorkerLane(*pipes)
    try:
        _worker["runner"] = Runner.of(cloudpickle.loads(payload))
    except BaseException as problem:
        _worker["problem"] = f"{type(problem).__name__}: {problem}"
    gc.freeze()  # modules stay for ever: looking through them for garbage takes milliseconds between runs


def serve() -> None:
    """Run bundles as they come, until the driver closes the lane."""
    lane: WorkerLane = _worker["lane"]
    while True:
        try:
            number, tasks = lane.receive()
        except EOFError:
            return
        lane.send((number, run_bundle(number, tasks)))
        _worker["cell"][INDEX] = -1  # only now: a worker that dies while it sends dies of this run


def run_bundle(number: int, tasks: Sequence[Task]) -> list[Outcome] | str:
    """Run each task, unless the bundle was withdrawn; a string says why nothing could be run at all."""
    runner: Runner | None = _worker.get("runner")
    if runner is None:
        return _worker["problem"]
    cell = _worker["cell"]
    if number <= cell[WITHDRAWN]:
        return []

    def started(index: int) -> None:
        cell[CPU], cell[STARTED], cell[INDEX] = cpu_seconds(), time.monotonic(), index

    outcomes = [runner.run(task, started) for task in tasks]
    cell[STARTED] = math.inf  # nothing is under way, but until the outcomes are sent this run can still be blamed
    return outcomes
