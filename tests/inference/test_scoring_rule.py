"""Scoring-rule posteriors: unbiased scores, honest intervals from the calibrated learning rate."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import ConfigError, DataError
from thrifty.inference.scoring_rule import SampleScore
from thrifty.inference.surrogate import Quadratic


@pytest.mark.parametrize("kind", ["energy", "kernel"])
def test_scores_are_unbiased(kind, rng):
    """m = 3 runs a time, averaged, must agree with one score from very many runs; the V-statistic would not."""
    score = SampleScore(kind, np.ones(1), 1.0)
    y = np.array([[0.7]])
    small = score(rng.normal(size=(60_000, 3, 1)), y)[:, 0]
    many = rng.normal(size=(1, 4_000, 1))
    large = score(many, y)[0, 0]
    assert abs(small.mean() - large) < 5 * small.std() / np.sqrt(len(small)) + 0.03


@pytest.mark.parametrize("kind", ["energy", "kernel"])
def test_scores_are_proper(kind, rng):
    """The expected score is smallest at the truth."""
    score = SampleScore(kind, np.ones(1), 1.0)
    theta = np.linspace(-1.5, 1.5, 13)
    x = theta[:, None, None] + rng.normal(size=(1, 800, 1))
    y = 0.5 + rng.normal(size=(800, 1))
    assert abs(theta[np.argmin(score(x, y).mean(1))] - 0.5) <= 0.25


def location(n, m, rng, *, k=0.0, low=-4.0, high=4.0):
    prior = th.Uniform([low], [high])
    draws = th.CostAware(prior, lambda t: np.exp(0.5 * t[:, 0]), th.Power(k)).sample(n, rng)
    x = draws.theta[:, None] + rng.standard_t(5, size=(n, m, 1))
    return prior, th.Simulations(theta=draws.theta, x=x, log_weights=draws.log_weights, m=m)


@pytest.mark.parametrize("k", [0.0, 1.0])
def test_posterior_does_not_depend_on_the_proposal(k, rng):
    prior, sims = location(6_000, 60, rng, k=k)
    x_o = 0.8 + rng.standard_t(5, size=(30, 1))
    post = th.ScoringRule(prior, weight=1.0).fit(sims).weighted(x_o)
    exact_prior, exact = location(3_000, 60, rng)
    other = th.ScoringRule(exact_prior, weight=1.0).fit(exact).weighted(x_o)
    assert post.ess > 200
    assert abs(post.mean[0] - other.mean[0]) < 5 * np.hypot(post.mean_se[0], other.mean_se[0])
    wrong = th.ScoringRule(prior, weight=0.05).fit(sims.reweighted(np.zeros(len(sims)))).weighted(x_o)
    right = th.ScoringRule(prior, weight=0.05).fit(sims).weighted(x_o)
    if k == 1.0:  # a flat score leaves the prior to be restored: forgetting the weights shows
        assert abs(wrong.mean[0] - right.mean[0]) > 5 * right.mean_se[0]


@pytest.mark.parametrize("score", ["energy", "kernel"])
def test_calibrated_intervals_have_their_coverage(score, rng):
    """Sixty data sets: 90 % intervals must cover about 90 %, and a rate 25 times too large must not."""
    prior, sims = location(300, 100, rng, low=-1.5, high=2.5)
    fitted = th.ScoringRule(prior, score=score).fit(sims)
    rate = fitted.likelihood.rate(fitted.x, 0.5 + rng.standard_t(5, size=(40, 1)))  # type: ignore[attr-defined]
    honest = th.ScoringRule(prior, score=score, weight=rate).fit(sims)
    sharp = th.ScoringRule(prior, score=score, weight=25 * rate).fit(sims)
    hits = {"honest": 0, "sharp": 0}
    for _ in range(60):
        x_o = 0.5 + rng.standard_t(5, size=(40, 1))
        for name, method in (("honest", honest), ("sharp", sharp)):
            low, high = method.weighted(x_o).quantile([0.05, 0.95])[:, 0]
            hits[name] += bool(low <= 0.5 <= high)
    se = np.sqrt(0.9 * 0.1 / 60)
    assert abs(hits["honest"] / 60 - 0.9) < 3.5 * se
    assert hits["sharp"] / 60 < 0.9 - 3.5 * se


def test_calibration_is_the_same_in_every_call_and_does_not_depend_on_units(rng):
    prior, sims = location(1_000, 40, rng)
    x_o = 0.5 + rng.standard_t(5, size=(30, 1))
    post = th.ScoringRule(prior).fit(sims)
    first = post.likelihood.rate(post.x, x_o)  # type: ignore[attr-defined]
    assert first == th.ScoringRule(prior).fit(sims).likelihood.rate(post.x, x_o)  # type: ignore[attr-defined]
    scaled = th.Simulations(theta=sims.theta, x=1e6 * sims.x, log_weights=sims.log_weights, m=40)
    other = th.ScoringRule(prior).fit(scaled)
    assert other.weighted(1e6 * x_o).sd == pytest.approx(post.weighted(x_o).sd, rel=1e-6)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda p, s: th.ScoringRule(p, score="log"), ConfigError, 'score must be "energy" or "kernel"'),  # type: ignore
        (lambda p, s: th.ScoringRule(p, weight=0.0), ConfigError, "weight must be a positive number"),
        (lambda p, s: th.ScoringRule(p, how="x"), ConfigError, "how must be one of"),  # type: ignore[arg-type]
        (lambda p, s: th.ScoringRule(p).fit(th.Simulations(theta=s.theta, x=s.x[:, 0])), DataError, "one run per"),
        (lambda p, s: th.ScoringRule(p).fit(s).weighted([np.nan]), DataError, "NaN in statistic 1 of 1"),
        (lambda p, s: th.ScoringRule(th.Normal([0, 0], 1)).fit(s), DataError, "1 parameters, the prior has 2"),
    ],
)
def test_bad_input_gets_one_clear_message(make, kind, message, rng):
    prior, sims = location(100, 10, rng)
    with pytest.raises(kind, match=message):
        make(prior, sims)


def test_a_quadratic_that_is_flat_but_for_rounding_has_its_peak_at_the_centre():
    """Curvatures -1 and -1e-20: a step of 1e20 along the second, or a singular matrix, ended a diagnosis."""
    flat = Quadratic(np.zeros(2), np.ones(2), np.array([0.0, 1.0, 1.0, -0.5, 0.0, -0.5e-20]), np.ones(9))
    round_ = Quadratic(np.zeros(2), np.ones(2), np.array([0.0, 1.0, 1.0, -0.5, 0.0, -0.5]), np.ones(9))
    assert flat.peak.tolist() == [0.0, 0.0] and round_.peak.tolist() == [1.0, 1.0]
