"""Gamma: moments, law, linear cost, and posteriors in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import thrifty as th


def _sample(theta: float, m: int, seed: int) -> np.ndarray:
    wide = th.Uniform([0.1], [2000.0], names=["shape"])
    return th.models.Gamma(theta_true=theta, m=m, prior=wide).observed_sample(seed)


@pytest.mark.parametrize("theta", [0.4, 1.7, 100.0, 100.9, 643.21])
def test_draws_have_the_gamma_law(theta, seed):
    sample = _sample(theta, 20_000, seed)
    assert stats.kstest(sample, stats.gamma(theta).cdf).pvalue > 1e-4
    assert abs(sample.mean() - theta) < 5 * np.sqrt(theta / 20_000)
    assert abs(sample.var() - theta) < 5 * np.sqrt((2 * theta**2 + 6 * theta) / 20_000)


def test_forgetting_the_fraction_would_be_noticed(seed):
    assert stats.kstest(_sample(100.9, 20_000, seed), stats.gamma(100.0).cdf).pvalue < 1e-6


def test_statistics_are_those_of_the_sample(seed):
    model = th.models.Gamma(summaries=("sd", "mean_log", "mean"))
    sample = model.observed_sample(seed)
    expected = [sample.std(ddof=1), np.log(sample).mean(), sample.mean()]
    assert np.allclose(model.observed(seed), expected, rtol=1e-12)
    assert model.summary_names == ("sd", "mean_log", "mean")


def test_cost_is_linear_in_theta(seed):
    model = th.models.Gamma()
    grid = np.linspace(100, 1000, 301)[:, None]
    expected = model.expected_cost(grid)
    assert np.abs(expected / model.m - grid[:, 0]).max() < 3  # the fraction's rejection costs 2 to 2.8 uniforms
    cost = model.simulate_many(grid, seed).cost
    assert np.all(cost >= model.m * np.floor(grid[:, 0]))
    assert np.corrcoef(cost, grid[:, 0])[0, 1] > 0.9999


def test_measured_seconds_follow_theta(seed):
    model = th.models.Gamma(m=2000)
    model.simulate([100.0], np.random.default_rng(0))
    seconds = [
        np.min(model.simulate_many(np.full((9, 1), theta), seed, measured=True).cost) for theta in (100.0, 1000.0)
    ]
    assert 4 < seconds[1] / seconds[0] < 25  # 10 but for the machine's noise


def test_reference_posterior_is_the_formula(seed):
    model = th.models.Gamma(theta_true=250.0)
    sample = model.observed_sample(seed)
    posterior = model.reference_posterior(sample)
    points = np.array([[248.3], [250.0], [251.9]])
    likelihood = np.array([stats.gamma(t).logpdf(sample).sum() for t in points[:, 0]])
    assert np.allclose(np.diff(posterior.log_prob(points)), np.diff(likelihood), atol=1e-8)
    low, high = posterior.mean - 12 * posterior.sd, posterior.mean + 12 * posterior.sd
    mass = integrate.quad(lambda t: np.exp(posterior.log_prob([[t]])[0]), low, high, epsabs=1e-12)[0]
    assert mass == pytest.approx(1.0, abs=1e-9)
    assert posterior.sd == pytest.approx(np.sqrt(250 / 500), rel=0.05)
    assert posterior.log_prob([[99.0], [1001.0]]).tolist() == [-np.inf, -np.inf]


def test_reference_posterior_near_the_edge_of_the_prior(seed):
    model = th.models.Gamma(theta_true=100.0)
    posterior = model.reference_posterior(model.observed_sample(seed))
    draws = posterior.sample(4000, np.random.default_rng(seed))
    assert draws.min() >= 100.0
    assert stats.kstest(draws[:, 0], lambda t: posterior.cdf(t[:, None])).pvalue > 1e-4
    assert abs(draws.mean() - posterior.mean) < 5 * posterior.sd / np.sqrt(4000)


def _ranks(model: th.models.Gamma, n: int, seed: int, kind: str) -> np.ndarray:
    """Posterior probability below the true theta, for theta from the prior: uniform if the posterior is right."""
    ranks = []
    for i, theta in enumerate(model.prior.sample(n, np.random.default_rng(seed))[:, 0]):
        truth = th.models.Gamma(theta_true=theta, m=model.m, summaries=model.summaries)
        if kind == "raw":
            posterior = model.reference_posterior(truth.observed_sample(seed + i))
        else:
            posterior = model.statistics_posterior(truth.observed(seed + i))
        ranks.append(posterior.cdf([[theta]])[0])
    return np.array(ranks)


@pytest.mark.parametrize(
    ("kind", "summaries"),
    [("raw", ("mean", "sd")), ("x", ("mean", "sd")), ("x", ("mean",)), ("x", ("mean_log",))],
)
def test_posteriors_are_calibrated(kind, summaries, seed):
    ranks = _ranks(th.models.Gamma(summaries=summaries), 200, seed, kind)
    assert stats.kstest(ranks, "uniform").pvalue > 1e-4
    assert abs(ranks.std() - np.sqrt(1 / 12)) < 5 * np.sqrt((1 / 80 - 1 / 144) / 200) / (2 * np.sqrt(1 / 12))


def test_calibration_would_notice_a_posterior_of_the_wrong_width(seed):
    narrow, ranks = th.models.Gamma(m=500), []
    for i, theta in enumerate(narrow.prior.sample(200, np.random.default_rng(seed))[:, 0]):
        fewer = th.models.Gamma(theta_true=theta, m=125).observed_sample(seed + i)
        ranks.append(narrow.reference_posterior(np.tile(fewer, 4)).cdf([[theta]])[0])  # the data counted four times
    assert stats.kstest(ranks, "uniform").pvalue < 1e-6


def test_statistics_lose_next_to_nothing(seed):
    model = th.models.Gamma()
    gaps = []
    for i in range(20):
        full = model.reference_posterior(model.observed_sample(seed + i))
        part = model.statistics_posterior(model.observed(seed + i))
        gaps.append([(part.mean - full.mean) / full.sd, part.sd / full.sd - 1])
    assert np.abs(gaps).max() < 0.02


@pytest.mark.parametrize("theta", [250.0, 500.0, 750.0])
def test_the_papers_truths(theta, seed):
    model = th.models.Gamma(theta_true=theta)
    posterior = model.reference_posterior(model.observed_sample(seed))
    assert abs(posterior.mean - theta) < 5 * posterior.sd
    assert posterior.sd == pytest.approx(np.sqrt(theta / 500), rel=0.02)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda m: m.reference_posterior(m.observed(0)), "bad-observation"),
        (lambda m: m.reference_posterior(np.full(500, -1.0)), "bad-observation"),
        (lambda m: m.statistics_posterior([500.0]), "bad-observation"),
        (lambda m: m.statistics_posterior([500.0, np.nan]), "bad-observation"),
        (lambda m: th.models.Gamma(summaries=("sd",)).statistics_posterior([20.0]), "bad-setting"),
        (lambda m: th.models.Gamma(summaries=("median",)), "bad-setting"),
        (lambda m: th.models.Gamma(summaries=()), "bad-setting"),
        (lambda m: th.models.Gamma(m=1), "bad-setting"),
        (lambda m: th.models.Gamma(theta_true=50.0), "outside-prior"),
        (lambda m: th.models.Gamma(overhead=-1.0), "bad-setting"),
    ],
)
def test_bad_settings(call, code):
    with pytest.raises(th.ThriftyError) as caught:
        call(th.models.Gamma())
    assert caught.value.code == code


def test_other_priors_have_no_closed_form():
    model = th.models.Gamma(prior=th.LogUniform([100.0], [1000.0], names=["shape"]))
    with pytest.raises(th.ThriftyError, match="uniform prior"):
        model.reference_posterior(np.full(500, 500.0))
