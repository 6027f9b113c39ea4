"""Penalties: values, floors inside, shapes that are refused, plain numbers out and in."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import PenaltyError
from thrifty.penalties import Balance, penalty_from_dict, penalty_to_dict

COSTS = np.geomspace(1e-3, 1e3, 50)


def test_the_papers_forms():
    h = th.Power(1)
    assert th.AtLeast(h, 1.0)(COSTS) == pytest.approx(np.maximum(1, COSTS))
    assert th.AtMost(h, 5.0)(COSTS) == pytest.approx(np.minimum(5, COSTS))
    assert th.AtMost(th.AtLeast(th.Power(2), 0.5), 9)(COSTS) == pytest.approx(np.clip(COSTS**2, 0.5, 9))
    assert th.Constant()(COSTS).tolist() == [1.0] * 50


def test_floor_and_cap_are_inside():
    g = th.Power(2, low=0.1, high=10)
    assert g(COSTS) == pytest.approx(np.clip(COSTS, 0.1, 10) ** 2)
    assert np.exp(g.log(COSTS)) == pytest.approx(g(COSTS))
    assert th.Power(1).floored(3.0).low == 3.0
    assert th.Power(1, low=2.0).floored(3.0).low == 2.0
    assert th.Power(1, high=1.0).floored(3.0)(COSTS).tolist() == [1.0] * 50


@pytest.mark.parametrize(
    "penalty",
    [
        th.Power(0.5),
        th.Power(2, low=0.1, high=4.0),
        th.Constant(),
        th.AtLeast(th.Power(1), 2.0),
        th.AtMost(th.Power(3, low=0.2), 7.0),
        Balance((th.Power(0), th.Power(1, low=0.1)), (0.25, 0.75), (0.0, -0.3)),
    ],
    ids=str,
)
def test_plain_numbers_out_and_in(penalty):
    import json

    again = penalty_from_dict(json.loads(json.dumps(penalty_to_dict(penalty))))
    assert again == penalty
    assert np.array_equal(again.log(COSTS), penalty.log(COSTS))


def test_functions_and_numbers_are_read():
    assert th.as_penalty(2) == th.Power(2.0)
    assert th.as_penalty(np.log1p)(COSTS) == pytest.approx(np.log1p(COSTS))
    with pytest.raises(PenaltyError, match="cannot be saved"):
        penalty_to_dict(th.as_penalty(np.log1p))


def propose(penalty):
    return th.CostAware(th.Uniform(1, 10), lambda t: t[:, 0], penalty)


BAD = {
    "bad-penalty decreasing": (lambda: propose(lambda c: 1 / c), "falls from"),
    "bad-penalty negative": (lambda: propose(lambda c: c - 5), "must be positive"),
    "bad-penalty zero": (lambda: propose(lambda c: np.where(c < 3, 0.0, c)), "penalty is 0 at cost"),
    "bad-penalty nan": (lambda: propose(lambda c: np.where(c > 5, np.nan, c)), "penalty is nan"),
    "bad-penalty k < 0": (lambda: th.Power(-1), "got -1 \\(that would prefer expensive runs\\)"),
    "bad-penalty nan power": (lambda: th.Power(np.nan), "got nan"),
    "bad-penalty text": (lambda: th.Power("2"), "got '2'"),
    "bad-penalty bool": (lambda: th.Power(True), "got True"),
    "bad-penalty not a penalty": (lambda: propose("sqrt"), "number k >= 0"),
    "bad-penalty shape": (lambda: propose(lambda c: c[:3]), "returned shape"),
    "bad-penalty low": (lambda: th.Power(1, low=-1), "low must be a positive cost"),
    "bad-penalty low above high": (lambda: th.Power(1, low=3, high=2), "above high"),
    "bad-penalty level": (lambda: th.AtLeast(th.Power(1), 0.0), "positive number"),
    "bad-penalty shares": (
        lambda: th.Mixture(th.Uniform(1, 2), lambda t: t[:, 0], shares=(0.5, 0.2, 0.1, 0.1)),
        "sum to 0.9",
    ),
    "bad-penalty count": (
        lambda: th.Mixture(th.Uniform(1, 2), lambda t: t[:, 0], shares=(1.0,)),
        "1 mixture shares for 4",
    ),
    "bad-penalty second negative": (
        lambda: th.Mixture(th.Uniform(1, 2), lambda t: t[:, 0], powers=(0, 1), shares=(1.5, -0.5)),
        "numbers >= 0",
    ),
    "bad-penalty empty": (lambda: th.Mixture(th.Uniform(1, 2), lambda t: t[:, 0], powers=()), "at least one"),
    "bad-penalty scheme": (lambda: th.Mixture(th.Uniform(1, 2), lambda t: t[:, 0], scheme="best"), "balance"),
    "bad-setting count": (lambda: propose(1).sample(2.5, 0), "whole number"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_penalties(case: str):
    make, message = BAD[case]
    with pytest.raises(PenaltyError, match=message) as caught:
        make()
    assert caught.value.code == case.split(maxsplit=1)[0]
