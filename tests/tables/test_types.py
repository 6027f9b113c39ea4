"""The two tables: checked once, frozen, sliced without losing a column."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import DataError, WeightError
from thrifty.types import as_rows


def test_draws_are_frozen_and_sliced():
    theta = np.array([[1.0], [2.0], [3.0]])
    draws = th.Draws(theta=theta, log_weights=[0.0, 1.0, 2.0], component=[0, 1, 1])
    theta[0] = 99
    assert draws.theta[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        draws.theta[0, 0] = 5
    part = draws[1:]
    assert part.log_weights.tolist() == [1.0, 2.0] and part.component.tolist() == [1, 1]


def test_draws_default_to_equal_weights():
    assert th.Draws(theta=[1.0, 2.0]).log_weights.tolist() == [0.0, 0.0]


BAD_DRAWS = {
    "length": ({"theta": [[1.0]], "log_weights": [0.0, 0.0]}, WeightError, "expected \\(1,\\)"),
    "nan weight": ({"theta": [[1.0], [2.0]], "log_weights": [0.0, np.nan]}, WeightError, "row 1"),
    "zero weights": ({"theta": [[1.0]], "log_weights": [-np.inf]}, WeightError, "all -inf"),
    "nan theta": ({"theta": [[np.nan]]}, DataError, "row 0"),
    "text": ({"theta": ["a"]}, DataError, "not a table of numbers"),
    "names": ({"theta": [[1.0, 2.0]], "names": ("a",)}, DataError, "1 names for 2 columns"),
    "shape": ({"theta": np.zeros((2, 2, 2))}, DataError, "expected \\(n, p\\)"),
}


@pytest.mark.parametrize("case", BAD_DRAWS)
def test_bad_draws(case: str):
    arguments, error, message = BAD_DRAWS[case]
    with pytest.raises(error, match=message):
        th.Draws(**arguments)


def test_simulations_classify_and_weigh_failures():
    sims = th.Simulations.from_arrays(
        theta=np.arange(4.0), x=[[1, 2], [np.nan, 1], [3, np.inf], [4, 4]], weights=[1, 2, 3, 4]
    )
    assert sims.status.tolist() == ["ok", "invalid", "invalid", "ok"]
    assert sims.failed_mass == pytest.approx(0.5)
    valid = sims.valid()
    assert valid.index.tolist() == [0, 3] and len(valid) == 2
    assert np.exp(valid.log_weights).tolist() == pytest.approx([1, 4])


def test_realisations_count_a_share_each():
    x = np.arange(12.0).reshape(2, 3, 2)
    sims = th.Simulations.from_arrays(theta=[[1.0], [2.0]], x=x, m=3, weights=[1.0, 2.0])
    theta, flat, log_weights = sims.pairs()
    assert theta[:, 0].tolist() == [1, 1, 1, 2, 2, 2]
    assert flat.shape == (6, 2) and flat[4].tolist() == x[1, 1].tolist()
    assert np.exp(log_weights).sum() == pytest.approx(3.0)


def test_known_proposal_gives_the_weights():
    q = th.CostAware(th.Uniform(1, 4), lambda t: t[:, 0], th.Power(1))
    sims = th.Simulations.from_arrays(theta=[[2.0], [4.0]], x=[[0.0], [1.0]], proposal=q)
    assert np.exp(sims.log_weights[1] - sims.log_weights[0]) == pytest.approx(2.0)


BAD_TABLES = {
    "twice": ({"weights": [1.0, 1.0], "log_weights": [0.0, 0.0]}, WeightError, "twice"),
    "negative": ({"weights": [1.0, -0.2]}, WeightError, "row 1: -0.2"),
    "nan": ({"weights": [np.nan, 1.0]}, WeightError, "NaN"),
    "flat": ({"weights": [[1.0, 1.0]]}, WeightError, "shape"),
    "text": ({"weights": ["a", "b"]}, WeightError, "not numbers"),
    "ragged": ({"x": [[1.0], [1.0, 2.0]]}, DataError, "not a table"),
    "nan theta": ({"theta": [[np.nan], [1.0]]}, DataError, "not finite at row 0"),
    "m": ({"m": 2.0}, DataError, "whole number"),
    "rows": ({"x": [[1.0]]}, DataError, "theta has 2 rows"),
    "m shape": ({"m": 3}, DataError, "m = 3"),
    "cost": ({"cost": [1.0]}, DataError, "cost has shape"),
    "x_names": ({"x_names": ["a", "b"]}, DataError, "2 x_names for 1"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables(case: str):
    arguments, error, message = BAD_TABLES[case]
    with pytest.raises(error, match=message):
        th.Simulations.from_arrays(**{"theta": [[1.0], [2.0]], "x": [[1.0], [2.0]], **arguments})


def test_rows_reads_vectors_as_meant():
    assert as_rows(3.0).shape == (1, 1)
    assert as_rows([1.0, 2.0], dim=1).shape == (2, 1)
    assert as_rows([1.0, 2.0], dim=2).shape == (1, 2)
    with pytest.raises(DataError, match="expected \\(n, 3\\)"):
        as_rows([1.0, 2.0], dim=3)


def test_errors_survive_a_pickle_and_say_all():
    import pickle

    error = WeightError("what", why="because", fix="do", code="bad-weights")
    assert str(pickle.loads(pickle.dumps(error))) == "[bad-weights] what\n  why: because\n  fix: do"
    assert error.exit_code == 2
