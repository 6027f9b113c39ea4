"""Weighted draws reproduce the prior; planted faults are found. The guard that every plan runs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.campaign.plan import self_check
from thrifty.errors import SelfCheckError
from thrifty.prior_recovery import weighted_ks

PRIORS = [
    lambda r: th.Uniform(r.uniform(-3, 0, 2), r.uniform(1, 4, 2)),
    lambda r: th.Normal(r.normal(size=3), r.uniform(0.5, 2, 3)),
    lambda r: th.LogUniform([1e-2], [1e2]),
    lambda r: th.Independent({"a": stats.gamma(2.0), "b": stats.norm(0, 1), "c": stats.beta(2, 5)}),
    lambda r: th.as_prior(stats.multivariate_normal([0, 1], [[1.0, 0.6], [0.6, 2.0]])),
]


def random_cost(r: np.random.Generator, dim: int):
    """A cost over one to four decades, monotone or not."""
    slope, bend, phase = r.normal(size=dim), r.normal(size=dim) * 0.5, r.uniform(0, 6)

    scale = 1 + np.abs(r.normal(size=dim))

    def cost(theta):
        z = np.tanh(theta / scale)
        return np.exp(1.5 * z @ slope + z**2 @ bend + 0.5 * np.sin(3 * z[:, 0] + phase))

    return cost


def random_proposal(i: int):
    r = np.random.default_rng([7, i])
    prior = PRIORS[i % len(PRIORS)](r)
    cost = random_cost(r, prior.dim)
    if i % 3 == 2:
        return th.Mixture(prior, cost, powers=(0, *r.uniform(0.2, 1.5, 3)), scheme="paper" if i % 2 else "balance")
    k = float(r.uniform(0.2, 2.5))
    typical = float(np.median(cost(prior.sample(1000, r))))
    penalty = [
        th.Power(k),
        th.Power(k, low=typical),
        th.Power(k, high=typical),
        th.AtLeast(th.Power(k), typical**k),
        th.AtMost(th.Power(k), typical**k),
        th.Custom(lambda c: np.log1p(c) + 0.1),
    ][i % 6]
    return th.CostAware(prior, cost, penalty)


@pytest.mark.parametrize("i", range(20))
def test_random_proposals_recover_their_prior(i: int):
    # one false alarm in a thousand runs of the whole family of 20
    assert th.prior_recovery(random_proposal(i), seed=i) > 1e-3 / 20


class Tampered:
    """A proposal whose draws are right and whose weights are not, or the other way round."""

    def __init__(self, q, weights=None, sampler=None):
        self.q, self.prior, self._weights, self._sampler = q, q.prior, weights, sampler

    def log_weight(self, theta):
        return self.q.log_weight(theta)

    def sample(self, n, rng):
        draws = (self._sampler or self.q).sample(n, rng)
        log_weights = draws.log_weights if self._weights is None else self._weights(draws)
        return th.Draws(theta=draws.theta, log_weights=log_weights, proposal=self.q)


def planted_faults():
    prior = th.Uniform([0.0, 0.0], [1.0, 1.0])
    rng = np.random.default_rng(0)

    def cost(theta):
        return 10.0 ** (2 * theta[:, 0])

    q = th.CostAware(prior, cost, th.Power(0.5))
    floored = th.CostAware(prior, cost, th.Power(0.5, low=3.0))
    pilot = prior.sample(60, rng)
    refit = th.fit_cost(pilot, cost(pilot) * rng.lognormal(0, 0.5, 60))
    first = th.fit_cost(pilot[:20], cost(pilot[:20]) * rng.lognormal(0, 0.5, 20))
    learned = th.CostAware(prior, first, th.Power(0.5))

    def measured(draws):  # run time depends on the outcome: slow outcomes weigh more
        return 0.5 * np.log(cost(draws.theta) * rng.lognormal(0, 1, len(draws)) ** (1 + draws.theta[:, 1]))

    grid = th.Draws(theta=np.stack(np.meshgrid(np.linspace(0, 1, 40), [0.5]), -1).reshape(-1, 2))

    class WithGrid:
        def sample(self, n, rng):
            draws = q.sample(n - 40 * 50, rng)
            theta = np.concatenate([draws.theta, np.repeat(grid.theta, 50, axis=0)])
            return th.Draws(theta=theta, log_weights=q.log_weight(theta), proposal=q)

    return {
        "forgotten": Tampered(q, lambda d: np.zeros(len(d))),
        "squared": Tampered(q, lambda d: 2 * d.log_weights),
        "sign": Tampered(q, lambda d: -d.log_weights),
        "floor in the weight only": Tampered(q, lambda d: floored.log_weight(d.theta)),
        "floor in the draws only": Tampered(floored, lambda d: q.log_weight(d.theta)),
        "refitted cost": Tampered(learned, lambda d: 0.5 * np.log(refit(d.theta))),
        "measured cost": Tampered(q, measured),
        "pilot grid mixed in": Tampered(q, sampler=WithGrid()),
    }


@pytest.mark.parametrize("fault", list(planted_faults()))
def test_planted_faults_are_found(fault: str):
    q = planted_faults()[fault]
    assert th.prior_recovery(q, seed=1) < 1e-6
    with pytest.raises(SelfCheckError, match="do not reproduce the prior"):
        self_check(q, seed=1)


def test_size_is_nominal(seed: int):
    """False alarms over 400 checks of a right proposal stay within five standard errors of nominal, or below."""
    q = th.CostAware(th.Uniform([1, 0], [100, 1]), lambda t: t[:, 0], th.Power(1, low=3))
    p = np.array([th.prior_recovery(q, n=4000, seed=seed + i) for i in range(400)])
    for level in (0.01, 0.05, 0.2):
        assert (p < level).mean() <= level + 5 * np.sqrt(level * (1 - level) / len(p))
    assert (p < 0.5).mean() > 0.1  # and it is no rubber stamp


def test_weighted_ks_agrees_with_scipy_without_weights(rng):
    a, b = rng.normal(size=700), rng.normal(0.1, 1.1, size=900)
    ours, p = weighted_ks(a, np.zeros(700), b)
    theirs = stats.ks_2samp(a, b, method="asymp")
    assert ours == pytest.approx(theirs.statistic, abs=1e-12)
    assert p == pytest.approx(theirs.pvalue, rel=0.15)


def test_no_draws_is_an_error():
    q = th.CostAware(th.Uniform(1, 2), lambda t: t[:, 0])
    with pytest.raises(th.ThriftyError, match="no draws"):
        th.prior_recovery(q, n=0)


def strong(k: float = 2.0):
    """A right proposal whose 50,000 draws hold ten effective ones: forward weights cannot tell, backward ones can."""
    return th.CostAware(th.LogUniform(1, 1e3), lambda t: t[:, 0], th.Power(k))


@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_strong_penalties_are_tested_backwards():
    assert min(th.prior_recovery(strong(), n=20_000, seed=i) for i in range(20)) > 1e-4


@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_faults_under_strong_penalties_are_found():
    q = strong()

    class Squared(Tampered):  # draws and stored weights agree with each other, not with the sampler
        def log_weight(self, theta):
            return 2 * self.q.log_weight(theta)

        def sample(self, n, rng):
            draws = self.q.sample(n, rng)
            return th.Draws(theta=draws.theta, log_weights=2 * draws.log_weights, proposal=self)

    assert th.prior_recovery(Squared(q), n=20_000, seed=1) < 1e-6
    assert th.prior_recovery(Tampered(q, lambda d: 2 * d.log_weights), n=20_000, seed=1) < 1e-6


@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_what_cannot_be_tested_is_said():
    q = th.CostAware(th.Uniform(1, 1e4), lambda t: t[:, 0], th.Power(2))
    with pytest.warns(th.ThriftyWarning, match="too few effective"):
        th.prior_recovery(q, n=2000, seed=1)
