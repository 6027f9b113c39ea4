"""Run one task: a pure function of (campaign seed, index, theta), the same in every engine.

Time comes from the monotonic clock and from resource usage, so a jump of the wall clock cannot
make a cost absurd. Nothing a simulator does by raising or returning escapes as an exception.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import resource
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thrifty.errors import SimulatorError, ThriftyError
from thrifty.named import align
from thrifty.runner.command import ProgramCrashError
from thrifty.runner.peak_memory import PEAK_MEMORY
from thrifty.runner.seeds import NOISE, make_stream, program_seed
from thrifty.runner.simulator import adapt, as_numbers
from thrifty.runner.task import Job, Outcome, Task
from thrifty.types import Array, Status

HOST = socket.gethostname()
MAX_ERROR_CHARACTERS = 4000  # the end of a traceback says it all; a store of logs is not the aim
WARM_UP_SECONDS = 2.0  # a first run longer than this is not repeated: imports are then a small share


def cpu_seconds() -> float:
    """Return CPU seconds of this process and its ended children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@dataclass
class Runner:
    """Hold the simulator in one worker, and whether it has run before."""

    job: Job
    call: Callable[[Array, np.random.SeedSequence, int], Any]
    warm: bool = False

    @classmethod
    def of(cls, job: Job) -> Runner:
        """Read the simulator's signature once."""
        return cls(job, _in_current_folder(adapt(job.simulator, job.names)), warm=not job.warm_up)

    def run(self, task: Task, started: Callable[[int], None] = lambda index: None) -> Outcome:
        """Run a task; call `started` with its index just before the simulator."""
        started(task.index)
        outcome = run_one(self.call, self.job, task)
        if task.probe or (not self.warm and task.attempt == 1 and outcome.wall < WARM_UP_SECONDS):
            started(task.index)
            second = run_one(self.call, self.job, task)
            outcome = replace(second, repeat=is_same_outcome(outcome, second))
        self.warm = True
        return outcome


def _in_current_folder(call: Callable[..., Any]) -> Callable[..., Any]:
    """Call the simulator always in the folder that is current now, also after a run that went elsewhere."""
    try:
        home = os.getcwd()
    except OSError:  # it was removed: there is none to come back to
        return call

    def run_here(theta: Array, sequence: np.random.SeedSequence, seed: int) -> Any:
        try:
            return call(theta, sequence, seed)
        finally:
            with contextlib.suppress(OSError):
                os.chdir(home)

    return run_here


def is_same_outcome(a: Outcome, b: Outcome) -> bool:
    """Whether two runs of one index gave the same answer."""
    if a.x is None or b.x is None:
        return a.status == b.status
    return a.status == b.status and a.x.shape == b.x.shape and a.x.tobytes() == b.x.tobytes()


def run_one(call: Callable[[Array, np.random.SeedSequence, int], Any], job: Job, task: Task) -> Outcome:
    """Run the simulator once (m times for m realisations) and classify what happened."""
    theta = np.array(task.theta, dtype=np.float64)
    theta.setflags(write=False)
    wall, cpu = time.monotonic(), cpu_seconds()
    PEAK_MEMORY.begin(wall)
    x, reported, names, status, error = None, float("nan"), (), "ok", ""
    owner = os.getpid()
    try:
        x, reported, names = _run_realisations(call, job, task.index, theta)
    except ProgramCrashError as problem:
        status, error = "crashed", _read_message(problem)
    except Exception as problem:
        status, error = "error", _describe_error(problem)
    except (SystemExit, KeyboardInterrupt) as problem:
        status, error = "error", f"{type(problem).__name__}: {_read_message(problem)}"
    finally:
        if os.getpid() != owner:  # the simulator forked, and its child comes back as if it were this process
            os._exit(0)
    wall, cpu = time.monotonic() - wall, cpu_seconds() - cpu
    if x is not None:
        x, status, error = _check_output(x, job.output_limit)
    if x is not None and (reported < 0 or math.isinf(reported)):
        x, status, error = None, "bad-cost", _describe_cost(reported)
    if not 0 <= reported < math.inf:
        reported = math.nan
    error = error.encode("utf-8", "backslashreplace").decode("utf-8")  # half a character cannot be stored
    return Outcome(
        task.index, status, x, wall, max(cpu, 0.0), PEAK_MEMORY.end(), reported, HOST, task.attempt, error, task.limit,
        names=() if x is None else _share_names(names),
    )  # fmt: skip


@functools.lru_cache(maxsize=16)
def _share_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return one object for equal names: a bundle of outcomes is then sent with one copy of them."""
    return names


def _run_realisations(call: Any, job: Job, index: int, theta: Array) -> tuple[Array, float, tuple[str, ...]]:
    sequence = make_stream(job.seed, NOISE, index)
    if job.m == 1:
        return as_numbers(call(theta, sequence, program_seed(job.seed, index)))
    parts = [
        as_numbers(call(theta, child, program_seed(job.seed, index * job.m + j)))
        for j, child in enumerate(sequence.spawn(job.m))
    ]
    shapes = {x.shape for x, _, _ in parts}
    if len(shapes) > 1:
        raise SimulatorError(f"the {job.m} realisations have shapes {sorted(shapes)}", code="bad-output")
    costs, names = [cost for _, cost, _ in parts], parts[0][2]
    impossible = [cost for cost in costs if cost < 0 or math.isinf(cost)]  # a sum could hide it
    try:
        x = np.stack([align(x, own, names) for x, _, own in parts])
    except ValueError as error:
        raise SimulatorError(f"the {job.m} realisations have different names: {error}", code="bad-output") from None
    return x, impossible[0] if impossible else float(np.sum(costs)), names


def _check_output(x: Array, limit: int) -> tuple[Array | None, Status, str]:
    if x.nbytes > limit:
        size, most = x.nbytes / 2**20, limit / 2**20
        error = f"[bad-output] output of {size:.1f} MB is above the limit of {most:g} MB: return summaries"
        return None, "error", error
    bad = ~np.isfinite(x)
    if bad.any():
        where = int(np.flatnonzero(bad)[0])
        return x, "invalid", f"{int(bad.sum())} of {x.size} values are not finite (first at {where}: {x.flat[where]})"
    return x, "ok", ""


def _describe_cost(reported: float) -> str:
    value = "not a number" if reported == -math.inf else f"{reported:g}"
    return f"[bad-cost] the reported cost is {value}: a finite number of at least 0 was expected"


def _read_message(problem: BaseException) -> str:
    """Return the end of an exception's message, also where reading it fails."""
    try:
        return str(problem)[-MAX_ERROR_CHARACTERS:]
    except Exception as failure:
        return f"a message that cannot be read ({type(failure).__name__})"


def _describe_error(problem: Exception) -> str:
    if isinstance(problem, ThriftyError):
        return str(problem)[:MAX_ERROR_CHARACTERS]
    text = "".join(traceback.format_exception(problem)[-8:])
    if isinstance(problem, ValueError) and "read-only" in _read_message(problem):
        text += "[bad-simulator] theta is read-only: a changed input would be recorded wrongly; theta = theta.copy()\n"
    return text[-MAX_ERROR_CHARACTERS:]
