"""Cost to reach the baseline's accuracy, on records whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from thrifty.benchmark.benchmark_summary import (
    compare_accuracy,
    compare_cost,
    curve,
    find_middle_budget,
    price_accuracy,
)


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


PLACES = ("cheap", "middle", "expensive")
HARDNESS = dict(zip(PLACES, (0.5, 0.6, 0.9), strict=True))


def visit(make, method, *, gap=0.0, turn=0, seeds=5, noise=0.0, budgets=(100.0, 400.0, 1600.0)):
    """A method for one observation: a place with each seed, another one at each budget; places are unlike."""
    rng = np.random.default_rng(4)
    rows = [(PLACES[(s + i + turn) % 3], s, b) for i, b in enumerate(budgets) for s in range(seeds)]
    return [
        make(
            s, place=p, method=method, budget=b, cost=b, c2st=HARDNESS[p] + np.sqrt(4 / b) + gap + noise * rng.normal()
        )
        for p, s, b in rows
    ]


def test_places_count_alike_whatever_a_seed_has_visited(make):
    """Means over records would follow the places that two seeds have visited: 0.5 twice, 0.6 twice and 0.9 once."""
    points = curve(visit(make, "m"), "c2st")
    mean = np.mean(list(HARDNESS.values()))
    assert np.allclose([p.value for p in points], mean + np.sqrt(4 / np.array([100, 400, 1600])))
    assert all(p.error < 1e-9 for p in points), "places that differ are no error"
    records = visit(make, "m")
    unbalanced = [np.mean([r.c2st for r in records if r.budget == b]) for b in (100.0, 400.0, 1600.0)]
    assert np.ptp(np.array(unbalanced) - np.sqrt(4 / np.array([100, 400, 1600]))) > 0.02, (
        "a plain mean differs (mutant)"
    )


def test_errors_of_one_place_a_seed_are_pooled(make):
    found = [curve(visit(make, "m", noise=0.02, seeds=60), "c2st")[0].error]
    assert 0.75 < found[0] / (0.02 / np.sqrt(60)) < 1.25
    assert np.isnan(curve(visit(make, "m", seeds=3), "c2st")[0].error), "one seed at each place tells nothing"


def test_methods_that_visit_other_places_are_compared(make):
    """The same seeds at other places: no pair is shared, but all places are."""
    records = visit(make, "a", gap=0.04) + visit(make, "b", turn=1)
    found = compare_accuracy(records, "waiting", "a", "b", budget=400.0)
    assert found is not None and found.places == 3 and found.value == pytest.approx(0.04) and found.is_clear
    one = compare_accuracy(
        visit(make, "a", seeds=1) + visit(make, "b", turn=1, seeds=1), "waiting", "a", "b", budget=400.0
    )
    assert one is None, "no place is shared"


def test_a_gap_is_clear_beyond_two_errors(make):
    records = visit(make, "a", gap=0.04, noise=0.02, seeds=30) + visit(make, "b", noise=0.02, seeds=30)
    found = compare_accuracy(records, "waiting", "a", "b", budget=400.0)
    assert found is not None and found.error == pytest.approx(0.02 * np.sqrt(2 / 30), rel=0.3) and found.is_clear
    alike = compare_accuracy(
        visit(make, "a", gap=0.04, seeds=3) + visit(make, "b", seeds=3), "waiting", "a", "b", budget=400.0
    )
    assert alike is not None and np.isnan(alike.error) and not alike.is_clear, "an unknown error is no evidence"


@pytest.mark.parametrize("amortised", [True, False])
def test_equal_methods_are_told_apart_as_often_as_the_level_says(make, amortised):
    """5 seeds each, equal methods: 5 % of 600 pairs; two standard errors (the mutant) call twice as many apart."""
    rng, clear, beyond = np.random.default_rng(8), 0, 0
    for _ in range(600):
        noise = 0.02 * rng.normal(size=(2, 5, 3))
        rows = [
            make(s, place=PLACES[i], method=method, budget=400.0, cost=400.0, c2st=0.6 + noise[k, s, i])
            for k, method in enumerate(("a", "b"))
            for s in range(5)
            for i in (range(3) if amortised or k else [s % 3])
        ]
        gap = compare_accuracy(rows, "waiting", "a", "b", budget=400.0)
        clear += gap.is_clear
        beyond += abs(gap.value) > 2 * gap.error
    assert clear / 600 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 600), clear
    assert beyond > 1.4 * clear and beyond / 600 > 0.05, (clear, beyond)


def test_a_bound_that_rests_on_one_seed_is_not_steady(make):
    """Plain NPE is less accurate at every budget, but for seed 0, without which it is the same."""
    base = [make(s, budget=b, cost=b, c2st=0.6) for s in range(4) for b in (100.0, 400.0)]
    mine = [make(s, method="m", budget=400.0, cost=400.0, c2st=0.55 if s == 0 else 0.601) for s in range(4)]
    found = price_accuracy(base + mine, "waiting", "m", budget=400.0)
    assert found is not None and found.bound == "<" and not found.steady
    clear = [make(s, method="m", budget=400.0, cost=400.0, c2st=0.55) for s in range(4)]
    found = price_accuracy(base + clear, "waiting", "m", budget=400.0)
    assert found is not None and found.bound == "<" and found.steady
    one = price_accuracy([r for r in base + clear if r.seed == 0], "waiting", "m", budget=400.0)
    assert one is not None and not one.steady, "one seed says nothing of others"


def test_cost_against_a_peer_at_its_middle_budget(records, make):
    """The peer at 400 is as accurate as the method at 100; and whatever the places that each visits."""
    both = records("peer", 4.0) + records("fast", 1.0)
    assert find_middle_budget(both, "waiting") == 400.0
    found = compare_cost(both, "waiting", "fast", baseline="peer", budget=400.0)
    assert found is not None and found.value == pytest.approx(0.25) and found.error < 1e-9
    slower = compare_cost(both, "waiting", "peer", baseline="fast", budget=400.0)
    assert slower is not None and slower.value == pytest.approx(4.0) and slower.error < 1e-9
    apart = visit(make, "fast", turn=1) + visit(make, "peer", budgets=(400.0,))
    found = compare_cost(apart, "waiting", "fast", baseline="peer", budget=400.0)
    assert found is not None and found.value == pytest.approx(1.0)
    assert compare_cost(both, "waiting", "fast", baseline="peer", budget=500.0) is None


def test_the_error_of_a_cost_is_not_known_where_one_seed_decides(make):
    """Without seed 0 the accuracy is never reached."""
    base = [make(s, budget=b, cost=b, c2st=0.6) for s in range(3) for b in (100.0, 400.0)]
    mine = [
        make(s, method="m", budget=b, cost=b, c2st=0.7 if s or b < 400 else 0.1)
        for s in range(3)
        for b in (100.0, 400.0)
    ]
    found = compare_cost(base + mine, "waiting", "m")
    assert found is not None and found.bound == "" and 0.25 < found.value < 1 and np.isnan(found.error)


def test_the_price_of_an_accuracy_needs_one_budget_of_the_method(records, make):
    """0.5 + √(2 / 400) = 0.571 lies between the accuracies of plain NPE at 400 (0.6) and 1,600 (0.55)."""
    base = records("npe", 4.0)
    one = [r for r in records("fast", 2.0) if r.budget == 400.0]
    found = price_accuracy(base + one, "waiting", "fast")
    assert found is not None and found.bound == "" and found.seeds == 4 and found.error < 1e-9
    assert found.value == pytest.approx(4 ** -((0.1 - np.sqrt(2 / 400)) / 0.05)), "interpolated in log cost"
    itself = price_accuracy(base, "waiting", "npe")
    assert itself is not None and itself.value == pytest.approx(1.0)
    best, worst = (price_accuracy(base + records("m", factor), "waiting", "m") for factor in (0.1, 100.0))
    assert best is not None and best.bound == "<" and best.value == pytest.approx(400 / 1600)
    assert worst is not None and worst.bound == ">" and worst.value == pytest.approx(400 / 100)
    assert price_accuracy(base, "waiting", "other") is None
    noisy = price_accuracy(records("npe", 4.0, noise=0.01) + records("m", 2.0, noise=0.01), "waiting", "m")
    assert noisy is not None and 0.01 < noisy.error < 0.3


def test_the_price_is_compared_over_shared_places(records, make):
    hard = [make(s, place="expensive", budget=b, cost=b, c2st=0.9) for s in range(4) for b in (100.0, 400.0, 1600.0)]
    one = [r for r in records("same", 4.0) if r.budget == 400.0]
    found = price_accuracy(records("npe", 4.0) + hard + one, "waiting", "same")
    assert found is not None and found.value == pytest.approx(1.0)
