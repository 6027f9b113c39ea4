"""Regression adjustment ends where the accepted runs end."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.inference.adjustment import limit_extrapolation


def test_a_far_observation_is_not_extrapolated_onto_the_bounds(rng):
    """u lies 160 sd beyond all runs: a ends near its largest accepted values, with a width; b is observed as ever."""
    prior = th.Uniform([0, 0], [1, 1], names=["a", "b"])
    theta = prior.sample(2000, rng)
    sims = th.Simulations.from_arrays(
        theta=theta, x=theta + 0.1 * rng.normal(size=theta.shape), names=prior.names, x_names=["u", "v"]
    )
    posterior = th.ABC(prior).fit(sims)
    with pytest.warns(th.ThriftyWarning, match="adjusts no further than the accepted runs reach"):
        far = posterior.accepted([50.0, 0.4])
    near = posterior.accepted([0.9, 0.4])
    assert far.sd[0] > 0.005
    assert far.quantile([0.0])[0, 0] < 0.999
    assert far.mean[0] > 0.8
    assert abs(far.mean[1] - near.mean[1]) < 5 * np.hypot(far.mean_se[1], near.mean_se[1])
    assert 0.5 < far.sd[1] / near.sd[1] < 2


def test_an_observation_among_the_runs_is_adjusted_as_before():
    offset = np.array([[-2.0, 1.0], [0.5, 2.0], [1.0, -1.0]])
    found, limited = limit_extrapolation(offset, np.zeros(3))
    np.testing.assert_array_equal(found, offset)
    assert not limited
