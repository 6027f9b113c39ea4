"""GaussianToy: every closed form is checked as an identity, then by simulation."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import stats

import thrifty as th


def test_posterior_is_prior_times_likelihood(rng):
    model = th.models.GaussianToy(p=3, noise_sd=0.7)
    x_o = np.array([1.0, -2.0, 0.3])
    theta = rng.normal(size=(20, 3))
    likelihood = stats.norm(theta, 0.7).logpdf(x_o).sum(1)
    gap = model.prior.log_prob(theta) + likelihood - model.reference_posterior(x_o).log_prob(theta)
    assert np.ptp(gap) < 1e-10


@pytest.mark.parametrize("k", [0.0, 0.5, 2.0])
def test_proposal_is_prior_over_cost_to_the_k(rng, k):
    model = th.models.GaussianToy(p=2, a=[2.0, -1.0])
    theta = rng.normal(size=(20, 2))
    gap = model.prior.log_prob(theta) - k * np.log(model.expected_cost(theta))
    assert np.ptp(gap - model.reference_proposal(k).log_prob(theta)) < 1e-10


def test_gain_and_efficiency_of_the_docstring():
    """E[c] E[1/g] / E[c/g] and 1/(E[g] E[1/g]) by quadrature."""
    a, k = 1.3, 0.5
    theta = np.linspace(-14, 14, 40_001)
    prior, cost = stats.norm.pdf(theta), np.exp(a * theta)
    mean = lambda f: np.trapezoid(prior * f, theta)  # noqa: E731
    assert mean(cost) * mean(cost**-k) / mean(cost ** (1 - k)) == pytest.approx(np.exp(k * a**2))
    assert 1 / (mean(cost**k) * mean(cost**-k)) == pytest.approx(np.exp(-(k**2) * a**2))


def test_weighted_least_squares_on_proposal_draws_is_the_posterior_slope(seed):
    model = th.models.GaussianToy(a=1.0)
    q = th.CostAware(model.prior, model.expected_cost, th.Power(0.5))
    sims = model.simulate_many(q.sample(10_000, np.random.default_rng(seed)), seed)
    w, x, t = np.exp(sims.log_weights - sims.log_weights.max()), sims.x[:, 0], sims.theta[:, 0]
    slope, intercept = np.linalg.solve(
        [[(w * x * x).sum(), (w * x).sum()], [(w * x).sum(), w.sum()]], [(w * x * t).sum(), (w * t).sum()]
    )
    residual = w * (t - slope * x - intercept)
    error = np.sqrt((residual**2 * x**2).sum()) / (w * x * x).sum()
    assert abs(slope - 0.5) < 5 * error
    assert abs(intercept) < 5 * np.sqrt((residual**2).sum()) / w.sum()
    unweighted = np.polyfit(x, t, 1)
    assert abs(unweighted[1]) > 10 * np.sqrt((residual**2).sum()) / w.sum()  # forgetting the weights is noticed


def test_cost_scatter_keeps_the_mean_and_may_follow_x(seed):
    theta = np.full((8000, 1), 0.4)
    own = th.models.GaussianToy(cost_noise=0.5).simulate_many(theta, seed)
    shared = th.models.GaussianToy(cost_noise=0.5, cost_from_x=True).simulate_many(theta, seed)
    for sims in (own, shared):
        error = sims.cost.std() / np.sqrt(len(sims))
        assert abs(sims.cost.mean() - np.exp(0.4)) < 5 * error
        assert np.log(sims.cost).std() == pytest.approx(0.5, rel=0.05)
    assert abs(np.corrcoef(own.x[:, 0], own.cost)[0, 1]) < 5 / np.sqrt(8000)
    assert np.corrcoef(shared.x[:, 0], np.log(shared.cost))[0, 1] > 0.999


def test_burnt_seconds_follow_the_cost(seed):
    model = th.models.GaussianToy(seconds_per_unit=0.004)
    theta = np.array([[-2.0], [0.0], [1.5]])
    begin = time.thread_time()
    sims = model.simulate_many(theta, seed, measured=True)
    spent = time.thread_time() - begin
    assert (sims.cost >= 0.004 * model.expected_cost(theta)).all() and sims.cost.sum() <= spent


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"p": 0}, "bad-setting"),
        ({"p": 2, "a": [1.0, 2.0, 3.0]}, "bad-setting"),
        ({"a": np.nan}, "bad-setting"),
        ({"noise_sd": 0.0}, "bad-setting"),
        ({"cost_noise": -1.0}, "bad-setting"),
        ({"seconds_per_unit": np.inf}, "bad-setting"),
    ],
)
def test_bad_settings(settings, code):
    with pytest.raises(th.ThriftyError) as caught:
        th.models.GaussianToy(**settings)
    assert caught.value.code == code


def test_bad_observation_and_overhead():
    model = th.models.GaussianToy(p=2)
    for x_o in ([1.0], [1.0, np.nan]):
        with pytest.raises(th.ThriftyError) as caught:
            model.reference_posterior(x_o)
        assert caught.value.code == "bad-observation"
    with pytest.raises(th.ThriftyError, match="overhead"):
        th.models.GaussianToy(overhead=1.0).reference_proposal(1.0)
