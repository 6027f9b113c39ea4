"""Learned likelihoods of five parameters and more: their gradients, and NUTS against exact posteriors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import thrifty as th

P = 5
HALF_LINES = th.as_prior(
    {"a": stats.uniform(0.01, 5), "b": stats.gamma(2.0), "c": stats.norm(1, 2), "d": stats.uniform(-1, 2)}
    | {"e": stats.expon()}
)
RUN = th.Training(max_epochs=4)
METHODS = {
    "nle": th.NLE(HALF_LINES, training=RUN),
    "nle-maf": th.NLE(HALF_LINES, network=th.MAF(2, (16,)), training=RUN),
    "nre": th.NRE(HALF_LINES, training=RUN),
    "nle-valid": th.NLE(HALF_LINES, network=th.MixtureDensity(2, (16,)), failures="model", training=RUN),
}


@pytest.mark.parametrize("name", METHODS)
def test_gradients_are_differences(name, rng):
    theta = HALF_LINES.sample(400, rng)
    x = theta + 0.5 * rng.standard_normal(theta.shape)
    if name == "nle-valid":
        x[theta[:, 2] > 2.5] = np.nan
    table = th.Simulations.from_arrays(theta=theta, x=x, names=HALF_LINES.names)
    posterior = METHODS[name].fit(table, seed=0)
    seen, at = np.stack([theta[0], theta[1]]), HALF_LINES.sample(20, rng)
    value, slope = posterior._differentiate(at, seen)
    np.testing.assert_allclose(value, posterior.log_likelihood(at, seen), rtol=1e-6, atol=1e-5)
    step = 1e-2 * np.array([1.0, 0.3, 1.0, 0.3, 0.3])
    for j in range(P):
        move = np.eye(P)[j] * step * (np.minimum(1.0, at[:, [j]] / 5) if j in (0, 1, 4) else np.ones((20, 1)))
        ends = [posterior.log_likelihood(at + sign * move, seen) for sign in (1, -1)]
        found = (ends[0] - ends[1]) / (2 * move[:, j])
        np.testing.assert_allclose(slope[:, j], found, rtol=0.05, atol=0.05 * (1 + np.abs(slope[:, j]).max()))


def test_the_sampler_follows_the_number_of_parameters(rng):
    for p, expected in ((4, "emcee"), (5, "nuts")):
        prior = th.Normal(np.zeros(p), np.ones(p))
        theta = prior.sample(300, rng)
        table = th.Simulations.from_arrays(theta=theta, x=theta + rng.standard_normal((300, p)))
        posterior = th.NLE(prior, network=th.MixtureDensity(1, (8,)), training=RUN).fit(table, seed=1)
        assert posterior.draw(50, np.zeros(p), seed=1).sampler == expected
        assert posterior.draw(50, np.zeros(p), seed=1, sampler="emcee").sampler == "emcee"
        with pytest.raises(th.ThriftyError, match="sampler must be"):
            posterior.draw(50, np.zeros(p), seed=1, sampler="hmc")


@pytest.mark.slow
@pytest.mark.parametrize("p", [10, 20])
def test_nuts_and_emcee_agree_with_each_other(p, seed, rng):
    """One learned posterior, two samplers: means within 5 standard errors of both; and near the exact ones."""
    prior = th.Normal(np.zeros(p), np.ones(p))
    theta = prior.sample(4000, rng)
    table = th.Simulations.from_arrays(theta=theta, x=theta + 0.5 * rng.standard_normal((4000, p)))
    posterior, x_o = th.NLE(prior).fit(table, seed=seed), np.linspace(-1, 1.5, p)
    one, two = posterior.draw(2000, x_o, seed=1), posterior.draw(2000, x_o, seed=2, sampler="emcee")
    se = np.sqrt(sum(d.samples.var(0) / np.minimum(d.ess, 2000) for d in (one, two)))
    assert (one.sampler, two.sampler) == ("nuts", "emcee") and not one.poor
    assert (np.abs(one.samples.mean(0) - two.samples.mean(0)) < 5 * se).all()
    assert (np.abs(one.samples.mean(0) - 0.8 * x_o) < 0.3 * np.sqrt(0.2)).all()  # 4,000 runs: the network's error
