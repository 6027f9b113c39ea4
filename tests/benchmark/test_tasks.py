"""Any beginning of the list covers all problems and methods, and all places in the end."""

from __future__ import annotations

import pytest

import thrifty as th
from thrifty.benchmark import PROBLEMS as ALL_PROBLEMS, Method, list_tasks
from thrifty.benchmark.roster import NAMES
from thrifty.benchmark.tasks import CURVES, DEFAULT_PROBLEMS

METHODS = [Method("a", None), Method("b", None, amortised=False), Method("c", None, amortised=False, costly=True)]  # type: ignore[arg-type]
PROBLEMS = ["p", "q", "r", "s"]


def test_all_tasks_are_there_once():
    tasks = list_tasks(PROBLEMS, METHODS, [10, 100, 1000], seeds=2)
    assert len(tasks) == len(set(tasks)) == 2 * 4 * (3 + 3 + 1)
    assert {t.budget for t in tasks if t.method == "c"} == {100.0}, "a costly method at the middle budget only"
    assert all(len(t.places) == (3 if t.method == "a" else 1) for t in tasks)


def test_methods_that_draw_no_curve_have_the_middle_budget():
    tasks = list_tasks(PROBLEMS, METHODS, [10, 100, 1000], seeds=2, curves=("a", "c"))
    assert {t.budget for t in tasks if t.method == "a"} == {10.0, 100.0, 1000.0}
    assert {t.budget for t in tasks if t.method == "b"} == {100.0}
    assert {t.budget for t in tasks if t.method == "c"} == {10.0, 100.0, 1000.0}, "costly, but asked for by name"
    without = list_tasks(PROBLEMS, METHODS, [10, 100, 1000], seeds=2, curves=("a",))
    assert set(without) < set(list_tasks(PROBLEMS, METHODS, [10, 100, 1000], seeds=2))
    assert set(CURVES) < set(NAMES)


def test_a_beginning_covers_all_problems_and_methods():
    tasks = list_tasks(PROBLEMS, METHODS, [10, 100, 1000], seeds=3)
    start = tasks[: len(PROBLEMS) * len(METHODS)]
    assert {(t.problem, t.method) for t in start} == {(p, m.name) for p in PROBLEMS for m in METHODS}
    assert {t.method for t in tasks[:3]} == {"a", "b", "c"} and len({t.problem for t in tasks[:3]}) == 3


def test_methods_for_one_observation_visit_all_places():
    tasks = list_tasks(PROBLEMS, METHODS, [10, 100, 1000], seeds=3)
    for problem in PROBLEMS:
        assert {t.places for t in tasks if t.method == "b" and t.problem == problem} == {
            ("cheap",), ("middle",), ("expensive",)
        }  # fmt: skip


@pytest.mark.parametrize(("budgets", "seeds"), [([], 1), ([0.0], 1), ([10.0], 0), ([float("inf")], 1)])
def test_nonsense_is_refused(budgets, seeds):
    with pytest.raises(th.ThriftyError, match="budgets"):
        list_tasks(PROBLEMS, METHODS, budgets, seeds)


def test_a_smaller_set_is_a_part_of_a_larger_one():
    """Places do not depend on what else is asked for; else a benchmark that is begun with a few would be run again."""
    whole = set(list_tasks(PROBLEMS, METHODS, [10, 100, 1000], seeds=3))
    assert set(list_tasks(["r", "p"], METHODS[1:], [10, 100, 1000], seeds=2)) < whole
    assert set(list_tasks(PROBLEMS, METHODS[1:2], [1000, 10], seeds=2)) < whole, "some of the budgets"
    steered = [t for t in whole if t.method != "a"]
    assert all(len({t.places for t in steered if (t.problem, t.seed, t.budget) == key}) == 1
               for key in {(t.problem, t.seed, t.budget) for t in steered})  # fmt: skip


def test_the_default_set_has_the_papers_models():
    assert set(DEFAULT_PROBLEMS) < set(ALL_PROBLEMS) and len(DEFAULT_PROBLEMS) == len(set(DEFAULT_PROBLEMS))
    assert {"gamma_shape", "homogeneous_sir", "temporal_sir", "bernoulli_sir", "radio"} < set(DEFAULT_PROBLEMS)
    assert len(DEFAULT_PROBLEMS) >= 10
