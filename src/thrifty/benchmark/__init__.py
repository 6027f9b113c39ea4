"""A benchmark in which both the posterior and the cost of a run are known.

    from thrifty import benchmark

    problem = benchmark.find_problem("two_moons")          # prior, simulator, cost, observations, exact draws
    method = benchmark.find_method("npe-aware")            # fit(meter, x_o, budget, seed) -> posterior
    tasks = benchmark.list_tasks(["two_moons"], [method], [300.0, 1000.0], seeds=5)
    records = benchmark.run_benchmark(tasks, Path("records.jsonl"), workers=2)

`thrifty benchmark` is the same from the command line.
"""

from thrifty.benchmark.accuracy import Accuracy, measure
from thrifty.benchmark.benchmark_run import run_benchmark, run_task
from thrifty.benchmark.catalogue import PROBLEMS, describe, draw_reference, find_problem, make_reference, read_reference
from thrifty.benchmark.method import Meter, Method
from thrifty.benchmark.problem import PLACES, Problem, normals
from thrifty.benchmark.records import Record, read_records
from thrifty.benchmark.roster import NAMES as METHODS, find_method
from thrifty.benchmark.tasks import Task, list_tasks

__all__ = [
    "METHODS",
    "PLACES",
    "PROBLEMS",
    "Accuracy",
    "Meter",
    "Method",
    "Problem",
    "Record",
    "Task",
    "describe",
    "draw_reference",
    "find_method",
    "find_problem",
    "list_tasks",
    "make_reference",
    "measure",
    "normals",
    "read_records",
    "read_reference",
    "run_benchmark",
    "run_task",
]
