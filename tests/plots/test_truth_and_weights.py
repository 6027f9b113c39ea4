"""The truth is always seen, and weights are never dropped for a typo."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import DataError


@pytest.mark.parametrize("prior", [None, th.Normal([0, 0], [1, 1]), th.Uniform([-0.5, -0.5], [0.5, 0.5])])
def test_a_truth_outside_the_posterior_is_drawn(rng, prior):
    draws = 0.1 * rng.normal(size=(1000, 2))
    truth = [1.0, -1.0]
    pairs = th.plots.pairs(draws, prior=prior, truth=truth)
    marginals = th.plots.marginals({"a": draws}, prior=prior, truth=truth)
    corner = next(ax for ax in pairs.axes if ax.get_xlabel() and ax.get_ylabel())
    for ax, value in ((corner, truth[0]), *zip(marginals.axes, truth, strict=True)):
        assert ax.get_xlim()[0] < value < ax.get_xlim()[1]
    assert corner.get_ylim()[0] < truth[1] < corner.get_ylim()[1]
    inside = th.plots.marginals({"a": draws}, truth=[0.0, 0.0]).axes[0].get_xlim()
    assert inside == th.plots.marginals({"a": draws}).axes[0].get_xlim()  # no wider than need be


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: th.plots.marginals({"NPE": d}, log_weights={"npe": np.zeros(50)}), "log weights for 'npe'"),
        (lambda d: th.plots.marginals({}), "no method to draw"),
        (lambda d: th.plots.marginals({"a": d, "b": d[:, :1]}), "'b' has 1 parameters, others 2"),
        (lambda d: th.plots.pairs(d, truth=[1.0]), r"truth must be 2 finite numbers, got \[1.0\]"),
        (lambda d: th.plots.marginals({"a": d}, truth="x"), "truth is not a row of numbers"),
        (lambda d: th.plots.pairs(d, truth=[np.nan, 0.0]), "truth must be 2 finite"),
    ],
)
def test_bad_input(rng, call, message):
    with pytest.raises(DataError, match=message):
        call(rng.normal(size=(50, 2)))
