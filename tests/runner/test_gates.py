"""When runs may be admitted, when they may start, when they must end; bias is tested in tests/statistics."""

from __future__ import annotations

import numpy as np
import pytest

from thrifty.runner.gates import Gate, reserve_before_deadline


def test_without_limits_everything_may_start():
    gate = Gate()
    assert gate.may_admit(spent=1e300, now=1e300) and gate.may_start(now=1e300) and not gate.must_end(now=1e300)
    assert gate.remaining(spent=5.0) == np.inf


def test_a_budget_closes_admission_and_nothing_else():
    gate = Gate(budget=10.0)
    assert gate.may_admit(spent=9.99, now=0.0) and not gate.may_admit(spent=10.0, now=0.0)
    assert gate.remaining(spent=4.0) == 6.0 and gate.remaining(spent=11.0) == 0.0
    assert gate.may_start(now=1e9) and not gate.must_end(now=1e9), "what was admitted is finished"


def test_a_time_closes_admission_and_a_deadline_ends_runs():
    soft, hard = Gate(until=100.0), Gate(deadline=100.0, reserve=30.0)
    assert soft.may_admit(spent=0.0, now=99.0) and not soft.may_admit(spent=0.0, now=100.0)
    assert soft.may_start(now=200.0) and not soft.must_end(now=200.0)
    assert hard.may_admit(spent=0.0, now=69.0) and not hard.may_admit(spent=0.0, now=70.0)
    assert not hard.may_start(now=70.0) and not hard.must_end(now=99.0) and hard.must_end(now=100.0)


def test_the_tightest_of_several_limits_counts():
    gate = Gate(budget=10.0, until=50.0, deadline=100.0, reserve=60.0)
    assert gate.may_admit(spent=9.0, now=39.0)
    assert not gate.may_admit(spent=9.0, now=40.0) and not gate.may_admit(spent=10.0, now=0.0)


def test_the_reserve_is_a_high_quantile_of_durations():
    assert reserve_before_deadline(np.arange(101.0), 2.0) == pytest.approx(198.0)
    assert reserve_before_deadline(np.empty(0), 2.0) == 0.0
