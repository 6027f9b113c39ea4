"""Ten parameters in a uniform box: learned likelihoods sampled by emcee, against the exact truncated normals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import thrifty as th

NOISE = 0.5
P = 10


def table(rng: np.random.Generator, n: int) -> tuple[th.Uniform, th.Simulations]:
    """X = theta + noise over [-2, 2]^10, drawn from the prior tilted towards low theta_0."""
    prior = th.Uniform(np.full(P, -2.0), np.full(P, 2.0))
    q = th.CostAware(prior, lambda t: np.exp(t[:, 0]), th.Power(0.5))
    draws = q.sample(n, rng)
    x = draws.theta + NOISE * rng.standard_normal((n, P))
    return prior, th.Simulations.from_arrays(theta=draws.theta, x=x, log_weights=draws.log_weights)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nle", "npe"])
def test_ten_parameters_in_a_box(method: str, seed: int, rng: np.random.Generator) -> None:
    prior, simulations = table(rng, 10_000)
    fitted = (th.NLE if method == "nle" else th.NPE)(prior).fit(simulations, seed=seed)
    x_o = np.linspace(-1.8, 1.8, P)  # posteriors cut by both ends and by none
    drawn = fitted.draw(2000, x_o, seed=seed)
    ends = (np.array([-2.0, 2.0])[:, None] - x_o) / NOISE
    exact = stats.truncnorm(*ends, loc=x_o, scale=NOISE)
    effective = np.minimum(drawn.ess, 2000)
    place = (drawn.samples.mean(0) - exact.mean()) / exact.std()
    assert (np.abs(drawn.samples) <= 2).all()
    assert (drawn.rhat < 1.05).all() and (effective > 200).all()
    # network error allowed: 0.2 sd of each place, 15 % of each width; Monte Carlo: 5 standard errors
    assert (np.abs(place) < 0.2 + 5 / np.sqrt(effective)).all()
    np.testing.assert_allclose(drawn.samples.std(0) / exact.std(), 1, atol=0.15 + 5 / np.sqrt(2 * effective.min()))
    assert (np.abs(drawn.samples.mean(0)[[0, -1]]) > 1).all()  # a sampler stuck at the prior's centre
