"""Synthetic likelihoods: unbiased where they say so, right where the statistics are what they assume."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import thrifty as th
from thrifty.errors import ConfigError, DataError, InferenceError
from thrifty.inference import likelihood_posterior
from thrifty.inference.surrogate import fit_surrogate
from thrifty.inference.synthetic_likelihood import shrink
from thrifty.inference.transforms import BoxTransform

LINE = BoxTransform(np.array([-np.inf]), np.array([np.inf]))


def test_ghurye_olkin_is_unbiased_and_the_plug_in_is_not(rng):
    mean, covariance = np.array([0.5, -1.0]), np.array([[1.0, 0.6], [0.6, 2.0]])
    x = rng.multivariate_normal(mean, covariance, size=(20_000, 9))
    x_o = np.array([1.3, 0.2])
    truth = multivariate_normal(mean, covariance).pdf(x_o)
    for unbiased, right in ((True, True), (False, False)):
        values = np.exp(th.likelihoods.Gaussian(unbiased=unbiased)(x, x_o))
        z = (values.mean() - truth) / (values.std() / np.sqrt(len(values)))
        assert (abs(z) < 4.5) == right


def test_gaussian_equals_scipy_on_the_sample_moments(rng):
    x = rng.normal(size=(3, 40, 4)) @ rng.normal(size=(4, 4))
    x_o = rng.normal(size=4)
    ours = th.likelihoods.Gaussian()(x, x_o)
    theirs = [multivariate_normal(r.mean(0), np.cov(r.T)).logpdf(x_o) for r in x]
    assert np.allclose(ours, theirs, rtol=1e-6)


def test_shrinkage_one_is_independence_and_auto_beats_none_when_runs_are_few(rng):
    d, m = 10, 14
    x = rng.normal(size=(2_000, m, d))
    x_o = rng.normal(size=d)
    independent = norm(x.mean(1), x.std(1, ddof=1)).logpdf(x_o).sum(1)
    assert np.allclose(th.likelihoods.Gaussian(shrinkage=1.0)(x, x_o), independent)
    truth = norm.logpdf(x_o).sum()
    error = {a: np.abs(th.likelihoods.Gaussian(shrinkage=a)(x, x_o) - truth).mean() for a in (0.0, "auto")}
    assert error["auto"] < 0.5 * error[0.0]


def test_automatic_shrinkage_vanishes_with_many_correlated_runs(rng):
    covariance = np.array([[1.0, 0.8], [0.8, 1.0]])
    centred = rng.multivariate_normal([0, 0], covariance, size=(1, 5_000))
    centred -= centred.mean(1, keepdims=True)
    sample = np.swapaxes(centred, 1, 2) @ centred / 4_999
    assert shrink(centred, sample, "auto")[0, 0, 1] == pytest.approx(sample[0, 0, 1], rel=0.01)


def test_semi_parametric_follows_skew_that_the_gaussian_misses(rng):
    x = rng.exponential(size=(400, 200, 1))
    x_o = np.array([3.0])
    truth = -3.0
    semi = th.likelihoods.SemiParametric()(x, x_o).mean()
    plain = th.likelihoods.Gaussian()(x, x_o).mean()
    assert abs(semi - truth) < 0.5 * abs(plain - truth) + 0.05
    joint = rng.multivariate_normal([0, 0], [[1.0, 0.7], [0.7, 1.0]], size=(50, 400))
    exact = multivariate_normal([0, 0], [[1.0, 0.7], [0.7, 1.0]]).logpdf([0.5, 0.8])
    assert abs(th.likelihoods.SemiParametric()(joint, np.array([0.5, 0.8])).mean() - exact) < 0.15


@pytest.mark.parametrize("process", [False, True])
def test_surrogate_finds_a_quadratic_under_noise(process, rng):
    theta = rng.uniform(-5, 5, (400, 1))
    values = -4.0 * (theta[:, 0] - 1.0) ** 2 + rng.normal(size=400)
    fit = fit_surrogate(theta, values, LINE, process=process)
    grid = np.linspace(0.0, 2.0, 21)[:, None]
    error = fit(grid) + 4.0 * (grid[:, 0] - 1.0) ** 2
    assert np.ptp(error) < 1.5  # against noise of sd 1 in each run


def test_surrogate_process_follows_a_peak_that_is_no_parabola(rng):
    theta = rng.uniform(-3, 3, (500, 1))
    target = norm(0.4, 0.5).logpdf(theta[:, 0]) - 0.4 * np.abs(theta[:, 0]) ** 3
    values = target + 0.1 * rng.normal(size=500)
    grid = np.linspace(-1, 1.5, 26)[:, None]
    truth = norm(0.4, 0.5).logpdf(grid[:, 0]) - 0.4 * np.abs(grid[:, 0]) ** 3
    error = {}
    for process in (False, True):
        gap = fit_surrogate(theta, values, LINE, process=process)(grid) - truth
        error[process] = gap.std()
    assert error[True] < 0.15 and error[True] < error[False]


@pytest.mark.parametrize("how", ["surrogate", "regression", "pointwise"])
@pytest.mark.parametrize("k", [0.0, 1.0])
def test_posterior_of_a_gaussian_mean_for_any_design(how, k, rng):
    """No weights are needed but in the pointwise way; the design is two prior sd off the posterior at k = 1."""
    prior = th.Normal(0, 1)
    draws = th.CostAware(prior, lambda t: np.exp(t[:, 0]), th.Power(k)).sample(1_500, rng)
    x = draws.theta[:, None] + rng.normal(size=(1_500, 60, 1))
    sims = th.Simulations(theta=draws.theta, x=x, log_weights=draws.log_weights, m=60)
    post = th.SyntheticLikelihood(prior, how=how).fit(sims)
    sample = post.sample(4_000, [1.2], seed=0)
    # 1,500 parameters with noise sd about 0.2 in each log-likelihood: 0.06 on the mean is five standard errors
    assert abs(sample.mean() - 0.6) < 0.1
    assert abs(sample.std() - np.sqrt(0.5)) < 0.08


def test_independent_observations_add_up(rng):
    prior = th.Uniform([-4.0], [4.0])
    theta = prior.sample(800, rng)
    sims = th.Simulations(theta=theta, x=theta[:, None] + rng.normal(size=(800, 50, 1)), m=50)
    post = th.SyntheticLikelihood(prior).fit(sims)
    x_o = np.array([[0.2], [0.9], [1.3], [0.4]])
    both = post.log_likelihood(x_o)
    assert np.allclose(both, sum(post.log_likelihood(x) for x in x_o))
    assert abs(post.sample(2_000, x_o, seed=0).std() - 0.5) < 0.07


def test_one_surrogate_serves_the_draws_and_densities_of_an_observation(rng, monkeypatch):
    """Without a constant nothing is integrated; the constant is that of the normalised density."""
    fits = []

    def fit_and_count(*given, **settings):
        fits.append(1)
        return fit_surrogate(*given, **settings)

    monkeypatch.setattr(likelihood_posterior, "fit_surrogate", fit_and_count)
    prior = th.Uniform([-4.0], [4.0])
    theta = prior.sample(300, rng)
    sims = th.Simulations(theta=theta, x=theta[:, None] + rng.normal(size=(300, 20, 1)), m=20)
    post, at = th.SyntheticLikelihood(prior).fit(sims), np.linspace(-1, 1, 5)[:, None]
    post.sample(100, [0.3], seed=0)
    free = post.log_prob(at, [0.3], normalise=False)
    gap = post.log_prob(at, [0.3]) - free
    assert len(fits) == 1 and np.ptp(gap) < 1e-9 and abs(gap[0]) > 0.1
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(post)).log_prob(at, [0.3], normalise=False), free)
    other = post.log_prob(at, [0.9], normalise=False)
    assert len(fits) == 3 and np.ptp(other - free) > 0.1  # the mutant: one fit for all observations


@pytest.mark.parametrize("how", ["surrogate", "pointwise"])
def test_draws_at_many_observations_are_those_at_each(how, rng):
    """Posterior N(x/2, 1/2) at each; the mutant: the same draws at all."""
    prior = th.Normal(0, 1)
    theta = prior.sample(600, rng)
    sims = th.Simulations(theta=theta, x=theta[:, None] + rng.normal(size=(600, 40, 1)), m=40)
    x = np.array([[-1.0], [0.4], [1.2]])
    draws = th.SyntheticLikelihood(prior, how=how).fit(sims).sample_batched(1_000, x, seed=0)
    assert draws.shape == (3, 1_000, 1)
    # 600 parameters with noise sd about 0.2 in each log-likelihood, as above, and 1,000 draws
    assert np.abs(draws.mean((1, 2)) - x[:, 0] / 2).max() < 0.15
    assert np.abs(draws.std((1, 2)) - np.sqrt(0.5)).max() < 0.1


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda s: th.SyntheticLikelihood(th.Normal(0, 1), how="mcmc"), ConfigError, "how must be one of"),  # type: ignore
        (lambda s: th.SyntheticLikelihood(th.Normal(0, 1), m=1), ConfigError, "m must be a whole number >= 2"),
        (lambda s: th.SyntheticLikelihood(th.Normal(0, 1), m=9).fit(s), DataError, "m = 9, but the simulations have 6"),
        (lambda s: th.SyntheticLikelihood(th.Normal(0, 1), likelihood="g"), ConfigError, "likelihood must be"),  # type: ignore
        (lambda s: th.likelihoods.Gaussian(shrinkage=2.0), ConfigError, r"shrinkage must lie in \[0, 1\]"),
        (lambda s: th.likelihoods.Gaussian(0.1, True), ConfigError, "admits no shrinkage"),
        (lambda s: th.likelihoods.SemiParametric("auto"), ConfigError, "must be a number"),  # type: ignore[arg-type]
        (lambda s: th.SyntheticLikelihood(th.Normal([0, 0], 1)).fit(s), DataError, "1 parameters, the prior has 2"),
        (
            lambda s: th.SyntheticLikelihood(th.Normal(0, 1)).fit(th.Simulations(theta=s.theta, x=s.x[:, 0])),
            DataError,
            "one run per parameter",
        ),
        (
            lambda s: th.SyntheticLikelihood(th.Normal(0, 1)).fit(
                th.Simulations(theta=s.theta, x=np.repeat(s.x, 5, axis=2), m=6)
            ),
            DataError,
            "6 runs per theta for 5 statistics; the Gaussian synthetic likelihood needs at least 7",
        ),
        (
            lambda s: th.SyntheticLikelihood(th.Normal(0, 1)).fit(s[:10]).sample(5, [0.0], seed=0),
            InferenceError,
            "needs 15",
        ),
        (
            lambda s: (
                th.SyntheticLikelihood(
                    th.Normal(0, 1), how="pointwise", likelihood=th.likelihoods.Gaussian(unbiased=True)
                )
                .fit(s)
                .sample(5, [1e6], seed=0)
            ),
            InferenceError,
            "zero at all",
        ),
    ],
)
def test_bad_input_gets_one_clear_message(make, kind, message, rng):
    theta = rng.normal(size=(60, 1))
    sims = th.Simulations(theta=theta, x=theta[:, None] + rng.normal(size=(60, 6, 1)), m=6)
    with pytest.raises(kind, match=message):
        make(sims)
