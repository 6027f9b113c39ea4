"""Run the benchmark: fit each method at a budget, draw at the observations, record accuracy, cost and CPU seconds."""

from __future__ import annotations

import datetime
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from thrifty.benchmark.accuracy import measure
from thrifty.benchmark.catalogue import find_problem, read_reference
from thrifty.benchmark.method import Meter, Method
from thrifty.benchmark.records import Record, append_records, list_done, read_records
from thrifty.benchmark.roster import find_method
from thrifty.benchmark.task_runner import hold_alone, name_commit, name_machine, run_tasks
from thrifty.benchmark.tasks import Task
from thrifty.errors import ThriftyWarning
from thrifty.types import Array
from thrifty.version import __version__

DRAWS = 1_000  # of a posterior, to compare with the reference
MAX_ERROR_LENGTH = 200


def run_benchmark(
    tasks: Sequence[Task],
    path: Path,
    *,
    workers: int = 1,
    find: Callable[[str], Method] = find_method,
    on_record: Callable[[Record], None] | None = None,
) -> list[Record]:
    """Run the tasks that have no record yet and append theirs to a file; return the records of all tasks.

    A fit that failed is tried again. A record stays as it is when the code behind it changes: take a new file then.

    Args:
        tasks: In the order in which they are begun.
        path: The file of records, one JSON line each.
        workers: Processes side by side.
        find: Name -> method; give your own to run methods that thrifty does not know.
        on_record: Called with each new record.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with hold_alone(path.with_suffix(".lock")):
        done = list_done(read_records(path))
        missing = [task for task in tasks if not set(task.keys) <= done]
        for task, found in run_tasks(partial(run_task, find=find), missing, workers=workers):
            records = (
                [_make_failure(task, place, found) for place in task.places] if isinstance(found, Exception) else found
            )
            append_records(path, records)
            if on_record is not None:
                for record in records:
                    on_record(record)
        wanted = {key for task in tasks for key in task.keys}
        return [record for record in read_records(path) if record.key in wanted]


def run_task(task: Task, *, find: Callable[[str], Method] = find_method) -> list[Record]:
    """Fit once and measure the draws at every place of the task."""
    method, problem = find(task.method), find_problem(task.problem)
    for place in task.places:
        read_reference(task.problem, place)  # loads or draws it, outside of the clock
    meter = Meter(problem, task.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ThriftyWarning)  # small budgets are what the benchmark is about
        begin = time.process_time()
        x_o = None if method.amortised else problem.x_o(task.places[0])
        posterior = method.fit(meter, x_o, task.budget, task.seed)
        fit_seconds = time.process_time() - begin - meter.seconds
        fitted = Fitted(method, posterior, meter, fit_seconds)
        return [_judge(task, place, fitted) for place in task.places]


@dataclass(frozen=True)
class Fitted:
    """A posterior, the method and the meter behind it, and the CPU seconds of the fit without the simulator's."""

    method: Method
    posterior: Any
    meter: Meter
    seconds: float


def _judge(task: Task, place: str, fitted: Fitted) -> Record:
    posterior, meter = fitted.posterior, fitted.meter
    problem, reference = meter.problem, read_reference(task.problem, place)
    x_o, begin = problem.x_o(place), time.process_time()
    draws = np.asarray(posterior.sample(DRAWS, x_o, seed=task.seed), dtype=np.float64)
    sampled = time.process_time()
    accuracy = measure(draws, reference, modes=problem.modes, seed=task.seed)
    density = _mean_log_density(posterior, reference, x_o) if fitted.method.has_density else None
    judge_seconds = time.process_time() - sampled
    return Record(
        task.problem, place, task.method, task.budget, task.seed,
        **accuracy.row(), log_density=density, cost=meter.cost, runs=meter.runs, fit_seconds=fitted.seconds,
        sample_seconds=sampled - begin, simulator_seconds=meter.seconds, judge_seconds=judge_seconds, error="",
        library=_name_library(fitted.method.needs), **describe_run(),
    )  # fmt: skip


def _mean_log_density(posterior: Any, reference: Array, x_o: Array) -> float | None:
    value = np.asarray(posterior.log_prob(reference, x_o), dtype=np.float64)
    return float(value.mean()) if np.isfinite(value).all() else None


def _make_failure(task: Task, place: str, error: Exception) -> Record:
    text = f"{type(error).__name__}: {error}"[:MAX_ERROR_LENGTH]
    return Record(
        task.problem, place, task.method, task.budget, task.seed, None, None, None, None, None,
        cost=0.0, runs=0, fit_seconds=0.0, sample_seconds=0.0, simulator_seconds=0.0, error=text, **describe_run(),
    )  # fmt: skip


@cache
def _name_library(module: str) -> str:
    """Return a package and its version; "" for none, the module alone where no package has its name."""
    try:
        return f"{module} {version(module)}" if module else ""
    except PackageNotFoundError:
        return module


@cache
def describe_run() -> dict[str, Any]:
    """Return version and commit of this code, date and machine, as records have them."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    root = Path(__file__).resolve().parents[3]
    commit = name_commit(root, "src/thrifty")
    return {"version": __version__, "commit": commit, "date": today, "machine": name_machine()}
