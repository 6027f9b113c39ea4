"""Who is blamed for a death, and how often a run is tried again, without any process."""

from __future__ import annotations

import numpy as np
import pytest

from thrifty.runner.retries import MAX_KILLS, MAX_OWN_DEATHS, Retries
from thrifty.runner.schedule import Schedule
from thrifty.runner.task import Outcome, Report
from thrifty.runner.time_limits import MAX_EXTENSIONS, TimeLimit


@pytest.fixture
def schedule():
    return Schedule(np.arange(4), np.zeros((4, 1)), history=(1e-6, 1.0))


def take_all(schedule):
    found = []
    while bundle := schedule.take(seconds=1e9, slots=1):
        found.append([task.index for task in bundle])
    return found


def test_the_run_under_way_is_tried_alone_and_the_others_simply_again(schedule):
    bundle = [*schedule.take(seconds=1e9, slots=1), *schedule.take(seconds=1e9, slots=1)]
    assert len(bundle) >= 2
    rest = len(schedule)
    retries = Retries(schedule, None)
    assert retries.repeat_unfinished(Report(bundle, (), "died", bundle[1].index, "exited with code 1")) == []
    assert len(schedule) == rest + len(bundle)
    (first,) = schedule.take(seconds=1e9, slots=1)
    assert first.index == bundle[1].index and first.attempt == 2, "the suspect goes first, alone"


def test_where_nobody_knows_each_must_show_it_alone(schedule):
    bundle = [*schedule.take(seconds=1e9, slots=1), *schedule.take(seconds=1e9, slots=1)]
    Retries(schedule, None).repeat_unfinished(Report(bundle, (), "died"))
    assert [len(schedule.take(seconds=1e9, slots=1)) for _ in bundle] == [1] * len(bundle)


@pytest.mark.parametrize(("outside", "most"), [(False, MAX_OWN_DEATHS), (True, MAX_KILLS)])
def test_how_often(schedule, outside, most):
    retries = Retries(schedule, None)
    (task,) = schedule.take(seconds=0, slots=1)
    for attempt in range(1, most + 1):
        report = Report([task], (), "died", task.index, "killed by SIGKILL", elapsed=2.0, outside=outside)
        given_up = retries.repeat_unfinished(report)
        if attempt < most:
            assert not given_up
            (task,) = schedule.take(seconds=0, slots=1)
            assert task.attempt == attempt + 1
    (outcome,) = given_up
    assert outcome.status == "crashed" and outcome.wall == 2.0 and f"died {most} times" in outcome.error


def test_a_lost_bundle_blames_nobody(schedule):
    retries = Retries(schedule, None)
    for _ in range(2 * MAX_KILLS):
        (task,) = schedule.take(seconds=0, slots=1)
        assert retries.repeat_unfinished(Report([task], (), "lost")) == []
    assert schedule.take(seconds=0, slots=1)[0].attempt == 1


def test_past_its_limit_a_run_has_no_result_and_is_extended_five_times():
    limit = TimeLimit(1.0, "extend")
    schedule = Schedule(np.arange(1), np.zeros((1, 1)), limit=limit)
    retries = Retries(schedule, limit)
    limits = []
    while True:
        (task,) = schedule.take(seconds=0, slots=1)
        limits.append(task.limit)
        late = retries.apply_limit(Outcome(0, "ok", np.ones(1), wall=1000.0), task)
        assert late.status == "timeout" and late.x is None and "took 1e+03 s" in late.error
        if not retries.extend(late, task):
            break
    assert limits == [2.0**k for k in range(MAX_EXTENSIONS + 1)] and not len(schedule)
    in_time = Outcome(0, "ok", np.ones(1), wall=0.5)
    assert retries.apply_limit(in_time, task) is in_time and not retries.extend(in_time, task)
