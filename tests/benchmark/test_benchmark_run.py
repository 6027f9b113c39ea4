"""The runner: resumable, kill-safe, honest about failures; and a method is a function."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import thrifty as th
from thrifty.benchmark import Method, find_problem, list_tasks, read_records, run_benchmark
from thrifty.benchmark.method import Meter

COUNT = []


class Exact:
    """The closed-form posterior: what no method can beat."""

    def __init__(self, problem, wider=1.0):
        self.problem, self.wider = problem, wider

    def sample(self, n, x_o, seed=0):
        draws = self.problem.draw_posterior(x_o, n, np.random.default_rng([seed, 5]))
        return draws.mean(0) + self.wider * (draws - draws.mean(0))


def fit_exact(meter, x_o, budget, seed):
    COUNT.append(meter.problem.name)
    meter.simulate_within(meter.prior.sample(10_000, np.random.default_rng(seed)), budget)
    return Exact(meter.problem)


def fit_wide(meter, x_o, budget, seed):
    return Exact(meter.problem, wider=1.6)


def fit_nothing(meter, x_o, budget, seed):
    raise RuntimeError("no luck")


METHODS = {
    "exact": Method("exact", fit_exact, amortised=False),
    "wide": Method("wide", fit_wide),
    "nothing": Method("nothing", fit_nothing, amortised=False),
}


def tasks(*names, seeds=1):
    return list_tasks(["waiting", "gaussian_2"], [METHODS[n] for n in names], [50.0], seeds)


def test_exact_draws_cannot_be_told_and_wide_ones_can(tmp_path):
    found = run_benchmark(tasks("exact", "wide"), tmp_path / "r.jsonl", find=METHODS.__getitem__)
    exact = [r.c2st for r in found if r.method == "exact"]
    wide = [r.c2st for r in found if r.method == "wide"]
    assert len(exact) == 2 and len(wide) == 6
    assert abs(np.mean(exact) - 0.5) < 5 * 0.011 / np.sqrt(len(exact))
    assert np.mean(wide) - 0.5 > 5 * 0.011 / np.sqrt(len(wide)), "too wide is seen (mutant)"


def test_cost_and_runs_are_metered(tmp_path):
    found = run_benchmark(tasks("exact"), tmp_path / "r.jsonl", find=METHODS.__getitem__)
    for record in found:
        assert 50.0 <= record.cost < 50.0 + 40.0 and record.runs > 5
        assert record.machine and record.version == th.__version__ and record.commit
        assert record.judge_seconds is not None and record.judge_seconds > record.sample_seconds > 0


def test_a_second_call_runs_nothing_again(tmp_path):
    path = tmp_path / "r.jsonl"
    first = run_benchmark(tasks("exact"), path, find=METHODS.__getitem__)
    COUNT.clear()
    assert run_benchmark(tasks("exact"), path, find=METHODS.__getitem__) == first and not COUNT
    run_benchmark(tasks("exact", seeds=2), path, find=METHODS.__getitem__)
    assert len(COUNT) == 2, "only the new seed"


def test_a_failure_is_recorded_and_costs_no_other(tmp_path):
    found = run_benchmark(tasks("nothing", "exact"), tmp_path / "r.jsonl", find=METHODS.__getitem__)
    assert {r.error for r in found if r.method == "nothing"} == {"RuntimeError: no luck"}
    assert (
        all(r.c2st is None and r.judge_seconds is None for r in found if r.error)
        and sum(r.error == "" for r in found) == 2
    )


def test_two_runs_in_one_folder_are_refused(tmp_path):
    from thrifty.benchmark.task_runner import hold_alone

    with hold_alone(tmp_path / "r.lock"), pytest.raises(th.ThriftyError, match="in use"):
        run_benchmark(tasks("wide"), tmp_path / "r.jsonl", find=METHODS.__getitem__)


SCRIPT = """
import sys
from pathlib import Path
from thrifty.benchmark import find_method, list_tasks, run_benchmark
tasks = list_tasks(["waiting"], [find_method("abc")], [40.0, 60.0], seeds=40)
run_benchmark(tasks, Path(sys.argv[1]) / "r.jsonl", on_record=lambda r: print(r.seed, flush=True))
"""


def test_a_kill_loses_no_record_and_the_next_run_continues(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as begun:
        assert begun.stdout is not None
        seen = [begun.stdout.readline() for _ in range(4)]
        os.kill(begun.pid, signal.SIGKILL)
    assert all(seen)
    kept = read_records(tmp_path / "r.jsonl")
    assert len(kept) >= 4
    few = list_tasks(["waiting"], [th.benchmark.find_method("abc")], [40.0, 60.0], seeds=1)
    again = run_benchmark(few, tmp_path / "r.jsonl")
    assert {r.key for r in again} == {key for task in few for key in task.keys}
    assert [r for r in again if r in kept], "what was there is not run again"


def test_simulate_within_spends_what_it_may(seed):
    meter = Meter(find_problem("two_moons"), seed)
    x = meter.simulate_within(meter.prior.sample(5_000, np.random.default_rng(seed)), 100.0)
    assert len(x) == meter.runs and 100.0 <= meter.cost < 120.0
    same = find_problem("two_moons").simulate_many(
        meter.prior.sample(5_000, np.random.default_rng(seed))[: len(x)], seed
    )
    assert np.array_equal(same.x, x), "the noise of a run is that of its index"
    assert len(meter.simulate_within(meter.prior.sample(3, np.random.default_rng(1)), 1e9)) == 3


def test_what_failed_is_tried_again_and_what_has_no_answer_is_not(tmp_path):
    """A full disk, a library that was missing: the cause may be gone. A budget that is too small stays so."""

    def fit_silent(meter, x_o, budget, seed):
        raise th.errors.InferenceError("needs more runs", code="too-few-runs")

    path = tmp_path / "r.jsonl"
    methods = {"nothing": Method("nothing", fit_nothing), "silent": Method("silent", fit_silent)}
    asked = list_tasks(["waiting"], list(methods.values()), [50.0], 1)
    assert all(record.error for record in run_benchmark(asked, path, find=methods.__getitem__))
    methods = {name: Method(name, fit_exact) for name in methods}
    COUNT.clear()
    again = run_benchmark(asked, path, find=methods.__getitem__)
    assert len(COUNT) == 1 and len(again) == 6
    assert all(bool(record.error) == (record.method == "silent") for record in again), "its new records count"


def test_records_name_the_library_behind_a_method(tmp_path):
    methods = {"exact": Method("exact", fit_exact, needs="numpy"), "mine": Method("mine", fit_exact, needs="my_module")}
    asked = list_tasks(["waiting"], list(methods.values()), [50.0], 1)
    found = run_benchmark(asked, tmp_path / "r.jsonl", find=methods.__getitem__)
    assert {record.library for record in found} == {f"numpy {np.__version__}", "my_module"}
