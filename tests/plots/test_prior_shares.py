"""The prior of a discrete parameter is drawn from its exact probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.plots.discrete_plots import find_prior_shares


@pytest.mark.parametrize(
    ("prior", "exact"),
    [
        (th.Integers([1, 0], [6, 9], names=["a", "b"]), np.full(6, 1 / 6)),
        (th.Independent({"a": th.Integers(1, 8), "b": stats.norm(0, 1)}), np.full(6, 1 / 8)),
        (th.Independent({"a": stats.binom(7, 0.3), "b": th.Uniform(0, 2)}), stats.binom(7, 0.3).pmf(np.arange(1, 7))),
    ],
    ids=["integers", "mixed", "binomial"],
)
def test_shares_are_exact(prior, exact):
    assert find_prior_shares(prior, 0, np.arange(1.0, 7.0)) == pytest.approx(exact, rel=1e-12)
