"""A flat cost is said to be flat, once a campaign; a single parameter is a vector, and a failure says so."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import SimulatorError, ThriftyWarning, warn

PRIOR = th.Uniform([0.0, 0.0], [1.0, 1.0], names=["a", "b"])
QUIET = {"engine": th.Inline(), "progress": "quiet"}


def noisy(theta, rng):
    return th.Output(theta + rng.normal(), cost=float(np.exp(0.3 * rng.normal())))


def test_a_flat_cost_is_said_once_and_asks_for_nothing(tmp_path):
    c = th.Campaign(tmp_path / "c", noisy, PRIOR, cost="reported")
    c.pilot(60, **QUIET)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        c.quote(n=50)
        c.plan(n=50)
        c.quote(n=60, penalty=1)
    poor = [str(one.message) for one in said if "poor-cost-fit" in str(one.message)]
    assert len(poor) == 1 and "hardly varies" in poor[0]
    assert "nothing to do, unless" in poor[0]


def test_a_warning_points_past_the_standard_library():
    namespace = {"warn": warn, "functools": functools}
    inside = "class T:\n    @functools.cached_property\n    def v(self): warn('deep')\n"
    exec(compile(inside, th.__file__, "exec"), namespace)
    with pytest.warns(ThriftyWarning, match="deep") as said:
        _ = namespace["T"]().v  # cached_property of functools lies between
    assert said[0].filename == __file__


def test_a_single_parameter_is_named_as_a_vector_when_all_fails(tmp_path):
    def simulate(mu, rng):
        return [0.0] * int(mu) if mu.shape == () else {}[0]

    prior = th.Normal(0, 1, names=["mu"])
    with pytest.raises(SimulatorError, match=r"vector of length 1, not a number: use mu\[0\]"):
        th.Campaign(tmp_path / "c", simulate, prior).pilot(40, **QUIET)
    draws = th.Draws(prior.sample(40, np.random.default_rng(0)), names=prior.names)
    with pytest.raises(SimulatorError, match=r"use mu\[0\]"):
        th.simulate(simulate, draws, **QUIET)
