"""Evidences against known answers: linear Gaussian in closed form, Gamma and log-normal by quadrature; mutants fail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import digamma

import thrifty as th
from thrifty.inference.answers.acceptance import measure_log_volume
from thrifty.inference.answers.evidence import (
    LEARNING,
    LogEvidence,
    average_likelihood,
    average_members,
    integrate_likelihood,
)

SLOPE = np.array([[1.0, 0.5], [-0.3, 2.0], [0.8, 0.1]])  # x = SLOPE theta + noise, asymmetric
NOISE = np.array([0.5, 1.0, 0.7])
PRIOR = th.Normal([0.5, -1.0], [1.0, 0.6], names=["a", "b"])
X_O = np.array([2.2, -2.4, 1.2])  # the posterior lies where runs are expensive


def exact_evidence(noise=NOISE):
    """log N(x_o; A mu, A S A' + D), the closed form of the linear Gaussian model."""
    cover = SLOPE @ np.diag(PRIOR.sd**2) @ SLOPE.T + np.diag(noise**2)
    return float(stats.multivariate_normal(SLOPE @ PRIOR.mean, cover).logpdf(X_O))


def log_likelihood(theta, noise=NOISE):
    return stats.norm.logpdf(X_O, theta @ SLOPE.T, noise).sum(1)


def linear_table(n, rng, m=1, noise=NOISE):
    """A cost-aware table of the linear model: weights are far from equal."""
    draws = th.CostAware(PRIOR, lambda t: np.exp(t[:, 0] - t[:, 1]), th.Power(0.7)).sample(n, rng)
    x = (draws.theta @ SLOPE.T)[:, None] + noise * rng.standard_normal((n, m, 3))
    names = {"names": PRIOR.names, "x_names": ("u", "v", "w")}
    return th.Simulations(theta=draws.theta, x=x if m > 1 else x[:, 0], log_weights=draws.log_weights, m=m, **names)


def z_scores(estimate, truth, seeds):
    found = [estimate(seed) for seed in seeds]
    return np.array([(one.value - truth) / one.se for one in found])


def test_integral_is_right_and_its_error_too(seed):
    z = z_scores(
        lambda s: integrate_likelihood(log_likelihood, PRIOR, rng=np.random.default_rng(s)),
        exact_evidence(),
        range(seed % 1000, seed % 1000 + 12),
    )
    assert abs(z.mean()) < 3.5 / np.sqrt(len(z))
    assert stats.chi2.sf(np.square(z).sum(), len(z)) > 1e-3 and stats.chi2.cdf(np.square(z).sum(), len(z)) > 1e-3


def test_an_integral_without_the_jacobian_is_caught(rng):
    """The mutant: prior × likelihood over z, its volume element forgotten, on a bounded prior."""
    prior = th.Uniform([0.0], [3.0])

    def likelihood(t):
        return stats.norm.logpdf(t[:, 0], 2.7, 0.2)

    truth = np.log((stats.norm.cdf(3.0, 2.7, 0.2) - stats.norm.cdf(0.0, 2.7, 0.2)) / 3.0)
    found = integrate_likelihood(likelihood, prior, rng=rng)
    assert abs(found.value - truth) < 5 * found.se < 0.05

    def forgotten(t):  # as if |d theta / d z| were counted twice
        return likelihood(t) + np.log(t[:, 0] * (3 - t[:, 0]) / 3)

    assert abs(integrate_likelihood(forgotten, prior, rng=rng).value - truth) > 20 * found.se


def test_average_is_right_under_a_proposal_and_its_mutants_are_caught(rng):
    """Exact likelihoods at cost-aware draws: only the weights can be wrong."""
    draws = th.CostAware(PRIOR, lambda t: np.exp(t[:, 0] - t[:, 1]), th.Power(0.7)).sample(20_000, rng)
    values = log_likelihood(draws.theta)
    found = average_likelihood(values, draws.log_weights)
    assert abs(found.value - exact_evidence()) < 5 * found.se < 0.3
    for factor in (0.0, 2.0, -1.0):  # forgotten, squared, inverted
        wrong = average_likelihood(values, factor * draws.log_weights)
        assert abs(wrong.value - exact_evidence()) > 5 * np.hypot(found.se, wrong.se)


def test_pointwise_synthetic_likelihood(rng):
    method = th.SyntheticLikelihood(PRIOR, likelihood=th.likelihoods.Gaussian(unbiased=True), how="pointwise")
    sims = linear_table(4_000, rng, m=40)
    found = method.fit(sims).log_evidence(X_O)
    assert abs(found.value - exact_evidence()) < 5 * found.se < 0.5
    assert found.over == ("density",) * 3 and not found.missing
    forgotten = method.fit(sims.reweighted(np.zeros(len(sims))))
    assert abs(forgotten.log_evidence(X_O).value - exact_evidence()) > 5 * found.se


def expected_log_likelihood(theta, m, d=3):
    """What m runs give on average: E log N(x_o; mean, S) of estimated means and covariances, in closed form."""
    square = np.square((X_O - theta @ SLOPE.T) / NOISE).sum(1)
    log_det = digamma((m - np.arange(1, d + 1)) / 2).sum() + d * np.log(2 / (m - 1)) + 2 * np.log(NOISE).sum()
    return -0.5 * (d * np.log(2 * np.pi) + log_det + (m - 1) / (m - d - 2) * (square + d / m))


def test_surrogate_synthetic_likelihood(rng):
    """The surrogate smooths noisy log-likelihoods, so it tends to their expectation; five tables give the error."""
    m = 60
    expected = integrate_likelihood(lambda theta: expected_log_likelihood(theta, m), PRIOR, rng=rng).value
    method = th.SyntheticLikelihood(PRIOR, how="regression")  # exactly quadratic here: nothing but noise is left
    found = np.array([method.fit(linear_table(400, rng, m=m)).log_evidence(X_O).value for _ in range(5)])
    assert abs(found.mean() - expected) < 5 * found.std(ddof=1) / np.sqrt(5)
    assert abs(found.mean() - expected - np.log(np.sqrt(2 * np.pi))) > 5 * found.std(ddof=1) / np.sqrt(5)  # a mutant


def test_abc_is_the_mean_density_within_epsilon(rng):
    """x = theta + noise in one dimension: the mean of a normal density over the interval, known exactly."""
    prior, x_o, epsilon = th.Normal(0, 1), 1.2, 0.4
    truth = np.log((stats.norm.cdf(x_o + epsilon, 0, np.sqrt(2)) - stats.norm.cdf(x_o - epsilon, 0, np.sqrt(2))) / 0.8)
    for m in (1, 3):
        draws = th.CostAware(prior, lambda t: np.exp(1.4 * t[:, 0]), th.Power(1.0)).sample(20_000, rng)
        x = draws.theta[:, None] + rng.normal(size=(20_000, m, 1))
        sims = th.Simulations(theta=draws.theta, x=x if m > 1 else x[:, 0], log_weights=draws.log_weights, m=m)
        method = th.ABC(prior, epsilon=epsilon / 2.0, distance=th.distances.Euclidean([2.0]))
        found = method.fit(sims).log_evidence([x_o])
        assert abs(found.value - truth) < 5 * found.se < 0.3
        forgotten = method.fit(sims.reweighted(np.zeros(20_000))).log_evidence([x_o])
        assert abs(forgotten.value - truth) > 5 * found.se


def test_volumes_of_balls(rng):
    points = rng.uniform(-3, 3, (200_000, 2))
    correlated = th.distances.Mahalanobis().fit(rng.normal(size=(50, 2)) @ [[1.0, 0.6], [0.0, 0.7]], np.zeros(50))
    for distance in (th.distances.Euclidean([0.5, 1.5]), correlated):
        share = float((distance(points, np.zeros(2)) <= 1.1).mean())
        volume = np.exp(measure_log_volume(distance, 1.1))
        assert abs(volume / 36 - share) < 5 * np.sqrt(share / len(points))
        assert abs(2 * volume / 36 - share) > 5 * np.sqrt(share / len(points))  # the mutant: a wrong volume
    assert measure_log_volume(th.distances.Euclidean([1.0, 0.0]), 1.0) is None
    assert measure_log_volume(th.distances.Euclidean([1.0]), 0.0) is None


def test_distances_without_a_volume_say_so(rng):
    sims = linear_table(2_000, rng)
    post = th.ABC(PRIOR, quantile=0.05, distance=lambda x, x_o: np.abs(x - x_o).max(1)).fit(sims)
    found = post.log_evidence(X_O)
    assert "volume" in found.missing and np.exp(found.value) == pytest.approx(0.05, abs=0.01)


def test_a_scoring_rule_has_no_evidence(rng):
    with pytest.raises(th.ThriftyError, match="not a density") as caught:
        th.ScoringRule(PRIOR).fit(linear_table(200, rng, m=10)).log_evidence(X_O)
    assert caught.value.code == "bad-setting"


def test_an_impossible_observation_is_refused():
    with pytest.raises(th.ThriftyError, match="zero at all 3 drawn") as caught:
        average_likelihood(np.full(3, -np.inf), np.zeros(3))
    assert caught.value.code == "far-observation"


def test_members_that_disagree_widen_the_error():
    each = [LogEvidence(v, 0.01, 100.0, ("density",)) for v in (-1.0, -0.6, -1.3)]
    found = average_members(each)
    spread = np.exp([-1.0, -0.6, -1.3])
    assert found.value == pytest.approx(np.log(spread.mean()))
    assert found.se == pytest.approx(spread.std(ddof=1) / spread.mean() / np.sqrt(3), rel=0.01)
    halves = average_members(each, share=0.5)  # the delete-half jackknife: the spread itself, not that of the mean
    assert halves.se == pytest.approx(spread.std(ddof=1) / spread.mean(), rel=0.01)
    assert average_members(each[:1]) == LogEvidence(-1.0, 0.01, 100.0, ("density",))


def gamma_evidence(x_o):
    """x | k ~ Gamma(k, 1), k ~ U(1, 6)."""
    return integrate.quad(lambda k: stats.gamma.pdf(x_o, k) / 5, 1, 6)[0]


def lognormal_evidence(x_o):
    """x | mu ~ log-normal(mu, 0.5), mu ~ U(-1, 2.5)."""
    return integrate.quad(lambda mu: stats.lognorm.pdf(x_o, 0.5, scale=np.exp(mu)) / 3.5, -1, 2.5)[0]


def gamma_tables(n, rng):
    tables = {}
    for name, prior, draw in (
        ("gamma", th.Uniform([1.0], [6.0]), rng.gamma),
        ("lognormal", th.Uniform([-1.0], [2.5]), lambda t: np.exp(t + 0.5 * rng.standard_normal(t.shape))),
    ):
        draws = th.CostAware(prior, lambda t: np.exp(0.8 * t[:, 0]), th.Power(0.5)).sample(n, rng)
        x = draw(draws.theta)
        tables[name] = prior, th.Simulations(theta=draws.theta, x=x, log_weights=draws.log_weights, x_names=("x",))
    return tables


def test_members_on_halves_show_the_error_of_learning(rng):
    """A mean learned from n runs has variance 1/n: members on halves find it, members on all runs none of it."""
    n = 400

    class Mean:
        def fit(self, simulations, seed):
            return Learned(simulations.x.mean())

    class Learned:
        def __init__(self, value):
            self.value = value

        def log_evidence(self, x_o, seed):
            return LogEvidence(self.value, 0.0, 1.0, se_without=LEARNING)

    x = rng.normal(size=(n, 1))
    sims = th.Simulations(theta=np.zeros((n, 1)), x=x)
    found = th.Ensemble(Mean(), members=60, share=0.5).fit(sims, seed=3).log_evidence([0.0])
    assert found.se == pytest.approx(x.std() / np.sqrt(n), rel=5 / np.sqrt(2 * 59)) and "bias" in found.se_without
    same = th.Ensemble(Mean(), members=60).fit(sims, seed=3).log_evidence([0.0])
    assert same.se < 1e-9 and same.se_without == LEARNING
    with pytest.raises(th.ThriftyError, match=r"share = 1.5"):
        th.Ensemble(Mean(), share=1.5)


@pytest.mark.slow
def test_neural_likelihood_of_gamma_and_lognormal(rng):
    """Three times the spread that `benchmarks/answers.py` finds for a learned evidence, 0.12 nat, and no more."""
    x_o = 1.3
    for (name, (prior, sims)), truth in zip(
        gamma_tables(3_000, rng).items(), (gamma_evidence(x_o), lognormal_evidence(x_o)), strict=True
    ):
        found = th.Ensemble(th.NLE(prior), members=6, share=0.5).fit(sims, seed=1).log_evidence([x_o])
        assert abs(found.value - np.log(truth)) < 0.36, name
        forgotten = np.log(np.ptp(prior.bounds))  # the mutant: an integral without the prior's density
        assert abs(found.value + forgotten - np.log(truth)) > 0.36, name
