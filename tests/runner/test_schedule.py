"""The order of runs, the size of bundles, and admission that never looks at the next run."""

from __future__ import annotations

import numpy as np
import pytest

from thrifty.runner.schedule import MAX_BUNDLE_RUNS, Schedule
from thrifty.runner.task import Outcome


def make(n, **settings):
    return Schedule(np.arange(n), np.zeros((n, 1)), **settings)


def take_indices(schedule, seconds=0.0, slots=1):
    return [task.index for task in schedule.take(seconds=seconds, slots=slots)]


def test_longest_first_among_runs_that_will_all_be_done():
    schedule = make(4, predicted=np.array([1.0, 4.0, 2.0, 3.0]))
    assert [take_indices(schedule) for _ in range(5)] == [[1], [3], [2], [0], []]


def test_behind_them_plan_order_whatever_the_cost():
    schedule = make(5, predicted=np.array([1.0, 4.0, 9.0, 1.0, 5.0]), must=2)
    assert [take_indices(schedule) for _ in range(3)] == [[1], [0], []] and not schedule.has_admitted
    assert schedule.admit(seconds=np.inf, cost=9.5) == 3, "the run that fills the measure is admitted too"
    assert [take_indices(schedule) for _ in range(3)] == [[2], [3], []]


@pytest.mark.parametrize("next_cost", [0.1, 1.0, 1000.0])
def test_admission_does_not_depend_on_the_run_that_comes_next(next_cost):
    schedule = make(3, predicted=np.array([2.0, 3.0, next_cost]), must=0)
    assert schedule.admit(seconds=np.inf, cost=4.0) == 1


def test_bundles_fill_the_time_and_leave_others_their_share():
    unit = 2.0**-10  # sums are exact
    schedule = make(900, predicted=np.full(900, unit))
    assert len(take_indices(schedule, seconds=20 * unit)) == 20
    assert len(take_indices(schedule, seconds=1e9, slots=2)) == 880 // 6
    many = make(10 * MAX_BUNDLE_RUNS, predicted=np.full(10 * MAX_BUNDLE_RUNS, 1e-9))
    assert len(take_indices(many, seconds=1e9)) == MAX_BUNDLE_RUNS


def test_without_a_pace_runs_are_sent_one_by_one_and_then_bundled():
    schedule = make(100)
    (task,) = schedule.take(seconds=0.02, slots=1)
    assert schedule.pace is None
    schedule.learn(Outcome(task.index, "ok", wall=0.001), task.predicted)
    assert schedule.pace == pytest.approx(0.001) and len(take_indices(schedule, seconds=0.0101)) == 10


def test_suspects_go_alone_and_first_lost_runs_next_extended_ones_last():
    schedule = make(6)
    tasks = [schedule.take(seconds=0, slots=1)[0] for _ in range(3)]
    schedule.repeat([tasks[0]])
    schedule.repeat([tasks[1]], alone=True)
    assert [take_indices(schedule) for _ in range(3)] == [[1], [0], [3]]
    assert len(schedule) == 2


def test_only_short_runs_with_enough_behind_them_are_sent_ahead():
    cost = np.full(50, 0.01)
    schedule = make(50, predicted=cost)
    assert schedule.is_next_short(seconds=0.25, slots=2) and not schedule.is_next_short(seconds=0.001, slots=2)
    assert not schedule.is_next_short(seconds=0.25, slots=13), "the last four runs per slot wait for whoever is free"
    schedule.repeat(schedule.take(seconds=0, slots=2), alone=True)
    assert not schedule.is_next_short(seconds=0.25, slots=2), "a suspect is not sent behind another run"


def test_what_is_outstanding():
    schedule = make(3, predicted=np.array([1.0, 2.0, 4.0]))
    assert schedule.sum_outstanding() == (7.0, 21.0)
    (task,) = schedule.take(seconds=0, slots=1)
    assert schedule.sum_outstanding() == (7.0, 21.0), "a run under way is not finished"
    schedule.learn(Outcome(task.index, "ok", wall=8.0), task.predicted)
    assert schedule.sum_outstanding() == (3.0, 5.0) and schedule.pace == 2.0
