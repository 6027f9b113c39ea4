"""Observations and tables are checked once, with the value and its place in the message."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import DataError
from thrifty.inference.checks import (
    Reach,
    check_run_count,
    check_weights,
    find_varying,
    read_observation,
    read_observations,
    warn_if_far,
)


@pytest.mark.parametrize(
    ("x_o", "event", "says"),
    [
        (np.zeros(9), (10,), "has 9 values, simulations have 10"),
        ([0, 1, np.nan, 3], (4,), "has NaN in statistic 3 of 4"),
        ([0, 1, np.inf, np.nan], (4,), "an infinite value in statistic 3 of 4 and 1 more"),
        ("text", (4,), "not an array of numbers"),
        ([], (4,), "has 0 values, simulations have 4"),
        (np.zeros((3, 5)), (4,), r"has shape \(3, 5\), simulations have 4"),
        (np.zeros((2, 4)), (4,), "2 observations of shape"),
    ],
)
def test_unusable_observations(x_o, event, says):
    with pytest.raises(DataError, match=says) as caught:
        read_observation(x_o, event)
    assert caught.value.code == "bad-observation"


def test_shapes_that_are_understood():
    assert read_observation(3.0, (1,)).shape == (1,)
    assert read_observation([[1, 2]], (2,)).shape == (2,)
    assert read_observations([1, 2, 3], (1,)).shape == (3, 1)
    assert read_observations(np.zeros((5, 2, 3)), (2, 3)).shape == (5, 2, 3)


def test_far_observation_is_warned_with_distances(rng):
    x = rng.standard_normal((5000, 10))
    reach = Reach.of(x, np.zeros(5000))
    with pytest.warns(
        th.ThriftyWarning, match=r"far-observation.* outside all 5,000 simulations in 3 of 10 .*nearest distance 2\d"
    ):
        warn_if_far(reach, np.r_[np.full(3, 14.0), np.zeros(7)])


def test_every_statistic_outside_is_named():
    """One statistic is far outside, another a little: the diagnosis names both, and so does the warning."""
    grid = np.linspace(0.0, 1.0, 101)
    reach = Reach.of(np.column_stack([grid, grid, grid]), np.zeros(101), ("final", "chicks", "year"))
    assert "in 2 of 3 statistics (final, chicks; up to" in reach.describe_far(np.array([2.0, 1.01, 0.5]))
    assert not reach.describe_far(np.array([1.01, 1.01, 1.0])), "a little outside alone is not far"


def test_off_the_sheet_is_warned_too(rng):
    first = rng.standard_normal(2000)
    x = np.column_stack([first, first + 0.01 * rng.standard_normal(2000)])
    assert "between the 2,000 simulations" in Reach.of(x, np.zeros(2000)).describe_far(np.array([1.5, -1.5]))


def test_ordinary_observations_are_not_warned(rng):
    x = rng.standard_normal((5000, 10)) ** 3  # heavy tails
    reach = Reach.of(x, np.zeros(5000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alarms = sum(bool(reach.describe_far(row)) for row in rng.standard_normal((200, 10)) ** 3)
    assert alarms <= 4


def test_constant_statistics_are_dropped_with_a_note(rng):
    x = np.column_stack([rng.standard_normal(20), np.full(20, 7.0)])
    mask, notes = find_varying(x, ("mean", "count"))
    assert mask.tolist() == [True, False]
    assert notes == ["count is constant (7) in all 20 runs; dropped"]
    with pytest.raises(DataError, match="all 1 statistics are constant"):
        find_varying(np.zeros((5, 1)))


def test_copies_of_a_statistic_are_dropped_with_a_note(rng):
    a, b = rng.standard_normal((2, 20))
    mask, notes = find_varying(np.column_stack([a, b, a, b, a + 1e-12]), tuple("vwxyz"))
    assert mask.tolist() == [True, True, False, False, True]
    assert notes == ["x repeats v in all 20 runs; dropped", "y repeats w in all 20 runs; dropped"]


def test_too_few():
    with pytest.raises(DataError, match="40 valid simulations for 3 parameters; need at least 60"):
        check_run_count(40, 3)


def test_dominated_weights(rng):
    with pytest.warns(
        th.ThriftyWarning, match=r"few-effective-runs.* 1000 simulations count as 1 .*99% of all.*Power\(0.5\)"
    ):
        check_weights(np.r_[12.0, np.zeros(999)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_weights(rng.standard_normal(1000))
