"""A prior cut to an interval of each parameter: a proper prior with the same shape inside."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.errors import PriorError

PRIORS = {
    "normal": th.Normal([0.2, 0.6], [0.3, 0.2], names=["a", "b"]),
    "uniform": th.Uniform([-1.0, 0.2], [1.0, 3.0], names=["a", "b"]),
    "log-uniform": th.LogUniform([0.1, 0.1], [10.0, 10.0], names=["a", "b"]),
    "mixed": th.Independent({"a": th.Normal(0, 1), "b": stats.norm(0.5, 0.4)}),
    "inside already": th.Independent({"a": stats.beta(2, 2), "b": th.LogUniform(0.1, 2.0)}),
}


@pytest.mark.parametrize("name", PRIORS)
def test_the_density_is_that_of_the_prior_and_normalised(name, rng):
    prior = PRIORS[name]
    cut = th.truncate(prior, [0, 0], [1, 1])
    th.check_prior(cut)
    theta = cut.sample(2000, rng)
    assert cut.names == prior.names
    assert ((theta >= 0) & (theta <= 1)).all()
    assert np.ptp(cut.log_prob(theta) - prior.log_prob(theta)) < 1e-9
    everything = prior.sample(40_000, rng)
    share = ((everything >= 0) & (everything <= 1)).all(1).mean()
    gap = np.exp(-(cut.log_prob(theta) - prior.log_prob(theta)).mean())
    assert abs(gap - share) < 5 * np.sqrt(share * (1 - share) / 40_000) + 1e-12
    assert np.isneginf(cut.log_prob([[1.5, 0.5]])).all()


def test_nothing_to_cut_leaves_the_prior():
    prior = PRIORS["uniform"]
    assert th.truncate(prior, -5, 5) is prior


def test_what_cannot_be_cut_is_refused():
    with pytest.raises(PriorError, match="nothing of the prior"):
        th.truncate(PRIORS["uniform"], 2, 5)
    with pytest.raises(PriorError, match="truncnorm"):
        th.truncate(th.Independent({"a": stats.gamma(2.0)}), 0, 1)
    with pytest.raises(PriorError, match="independent"):
        th.truncate(th.as_prior(stats.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]])), 0, 1)
