"""Cost to reach the baseline's accuracy, on records whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from thrifty.benchmark.benchmark_summary import compare_cost, curve


@pytest.fixture
def records(make):
    """Accuracy 0.5 + (factor / cost)^0.5 at three budgets."""

    def table(method, factor, *, seeds=4, noise=0.0):
        rng = np.random.default_rng(3)
        return [
            make(seed, method=method, budget=b, cost=b, c2st=0.5 + np.sqrt(factor / b) + noise * rng.normal())
            for b in (100.0, 400.0, 1600.0)
            for seed in range(seeds)
        ]

    return table


def test_a_method_that_needs_a_quarter_of_the_cost(records):
    found = compare_cost(records("npe", 4.0) + records("fast", 1.0), "waiting", "fast")
    assert found is not None and abs(found.value - 0.25) < 1e-9 and found.bound == "" and found.seeds == 4
    assert found.error < 1e-9


def test_the_baseline_is_one(records):
    found = compare_cost(records("npe", 4.0), "waiting", "npe")
    assert found is not None and found.value == pytest.approx(1.0)


def test_bounds_are_said(records):
    slow = compare_cost(records("npe", 4.0) + records("slow", 20.0), "waiting", "slow")
    assert slow is not None and slow.bound == ">" and np.isnan(slow.value)
    fast = compare_cost(records("npe", 4.0) + records("fast", 0.1), "waiting", "fast")
    assert fast is not None and fast.bound == "<" and fast.value == pytest.approx(100 / 1600)
    assert compare_cost(records("npe", 4.0), "waiting", "other") is None


def test_places_and_seeds_are_matched(records, make):
    """A method seen at an easy place only must not be compared with a baseline averaged over hard ones."""
    hard = [make(s, place="expensive", budget=b, cost=b, c2st=0.9) for s in range(4) for b in (100.0, 400.0, 1600.0)]
    found = compare_cost(records("npe", 4.0) + hard + records("same", 4.0), "waiting", "same")
    assert found is not None and found.value == pytest.approx(1.0)


def test_errors_come_from_seeds(records):
    points = curve(records("npe", 4.0, noise=0.02, seeds=50), "c2st")
    assert all(0.015 / np.sqrt(50) < p.error < 0.028 / np.sqrt(50) for p in points)
    assert np.isnan(curve(records("npe", 4.0, seeds=1), "c2st")[0].error)
