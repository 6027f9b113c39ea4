"""Whole numbers and categories: draws, probabilities, mixed priors, their files, and what finds a wrong one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.costs import cost_from_dict
from thrifty.errors import PriorError
from thrifty.prior_recovery import check_recovery
from thrifty.priors.prior_dict import prior_from_dict, prior_to_dict
from thrifty.proposals.draws import Draws
from thrifty.proposals.kernel import KernelProposal
from thrifty.types import levels_of

MIXED = th.Independent(
    {
        "model": th.Categorical([0.3, 0.7], ["gamma", "lognormal"]),
        "count": th.Integers(0, 6),
        "events": stats.poisson(2.0),
        "rate": th.Uniform(0.0, 1.0),
    }
)


def expensive_category(theta):
    return (1 + 9 * theta[:, 0]) * (1 + theta[:, 1])


def test_draws_have_the_probabilities(rng):
    theta = MIXED.sample(40_000, rng)
    expected = [0.7, 1 / 7, stats.poisson(2.0).pmf(3)]
    shares = [(theta[:, 0] == 1).mean(), (theta[:, 1] == 6).mean(), (theta[:, 2] == 3).mean()]
    error = np.sqrt(np.array(expected) * (1 - np.array(expected)) / len(theta))
    assert (np.abs(np.array(shares) - expected) < 5 * error).all()
    assert MIXED.log_prob([[1, 6, 3, 0.5]])[0] == pytest.approx(np.log(np.prod(expected)))
    outside = [[0.5, 1, 1, 0.5], [2, 1, 1, 0.5], [0, 7, 1, 0.5], [0, 1, 1.5, 0.5], [0, 1, -1, 0.5], [-1, 1, 1, 0.5]]
    assert np.isneginf(MIXED.log_prob(outside)).all()


def test_files_keep_labels_and_kinds(rng):
    for prior in (MIXED, th.Integers([0, 2], [3, 4], names=["a", "b"]), th.Categorical([0.5, 0.5], ["a", "b"])):
        again = prior_from_dict(json.loads(json.dumps(prior_to_dict(prior))))
        theta = prior.sample(50, rng)
        assert again.names == prior.names and levels_of(again) == levels_of(prior)
        assert np.array_equal(again.log_prob(theta), prior.log_prob(theta))
        assert [end.tolist() for end in again.bounds] == [end.tolist() for end in prior.bounds]


def test_sampler_and_probabilities_are_compared():
    th.check_prior(MIXED)

    class Wrong(th.Categorical):
        def log_prob(self, theta):
            return np.log(np.where(np.asarray(theta)[:, 0] == 0, 0.6, 0.4))

    with pytest.raises(PriorError, match="disagree"):
        th.check_prior(Wrong([0.4, 0.6]))


@pytest.mark.parametrize("penalty", [0.5, 1.0])
def test_weighted_draws_restore_a_mixed_prior(penalty):
    q = th.CostAware(MIXED, expensive_category, th.Power(penalty))
    assert th.prior_recovery(q, n=20_000, seed=1) > 1e-3


def test_forgotten_weights_are_found_in_ties(rng):
    """The mutants change the probability of a category only: the Kolmogorov distance sees it in spite of ties."""
    prior = th.Categorical([0.5, 0.5])
    draws = th.CostAware(prior, lambda t: 1 + 9 * t[:, 0], th.Power(0.5)).sample(20_000, rng)
    assert check_recovery(Draws(draws.theta, draws.log_weights), prior, seed=0) > 1e-3
    for mutant in (np.zeros(len(draws)), 2 * draws.log_weights, -draws.log_weights):
        assert check_recovery(Draws(draws.theta, mutant), prior, seed=0) < 1e-6


def test_rounding_of_a_cost_model_is_no_jump(rng):
    """A process predicts in single precision: one theta in two batches has two weights, which once was an alarm."""
    prior = th.Independent({"model": th.Categorical([0.5, 0.5]), "count": th.Integers(0, 3)})

    def jittering(theta):
        return expensive_category(theta) * (1 + 1e-6 * np.sin(theta.sum()))

    assert min(th.prior_recovery(th.CostAware(prior, jittering), n=5_000, seed=s) for s in range(5)) > 1e-3


@pytest.fixture
def kernels(rng):
    centres = MIXED.sample(50, rng)
    covariance = np.diag([1.0, 2.0, 1.0, 0.02])
    return KernelProposal(MIXED, centres, rng.normal(size=50), covariance, th.Power(1), expensive_category)


def test_kernels_over_values_are_a_distribution(kernels, rng):
    """Draws follow the density: its sum over all values is one, and counts of each category and number agree."""
    states = np.array([(m, k, e) for m in range(2) for k in range(7) for e in range(25)], dtype=float)
    rate = (np.arange(200) + 0.5) / 200
    theta = np.column_stack([np.repeat(states, len(rate), axis=0), np.tile(rate, len(states))])
    mass = np.exp(kernels.log_prob(theta)).reshape(len(states), -1).mean(1)
    assert mass.sum() == pytest.approx(1.0, abs=0.02)  # Z is known to 1 %
    mass /= mass.sum()
    drawn = kernels.sample(20_000, rng).theta
    for chosen in (states[:, 0] == 1, states[:, 1] == 4, states[:, 2] == 0, (states[:, 0] == 0) & (states[:, 1] < 2)):
        same = (drawn[:, None, :3] == states[chosen]).all(2).any(1)
        p = mass[chosen].sum()
        assert abs(same.mean() - p) < 5 * np.sqrt(p * (1 - p) / len(drawn))


def test_kernel_weights_restore_the_prior(kernels, rng):
    draws = kernels.sample(40_000, rng)
    values = np.column_stack([draws.theta[:, 0] == 1, draws.theta[:, 1] == 4, draws.theta[:, 3]]).astype(float)
    for weights, good in ((draws.log_weights, True), (np.zeros(len(draws)), False), (2 * draws.log_weights, False)):
        found = th.estimate(values, weights)
        assert (np.abs(found.mean - [0.7, 1 / 7, 0.5]) < 5 * found.se).all() == good


def test_cost_of_a_category_is_learned_by_itself(rng):
    """Three categories whose codes are in no order of cost: as numbers their cost is a bent line, and worse."""
    prior = th.Independent({"model": th.Categorical([0.4, 0.3, 0.3]), "rate": th.Uniform(0.0, 1.0)})
    theta = prior.sample(60, rng)
    seconds = np.array([1.0, 30.0, 4.0])[theta[:, 0].astype(int)] * np.exp(theta[:, 1])
    cost = th.fit_cost(theta, seconds * rng.lognormal(0, 0.1, 60), prior=prior, model=th.Polynomial(1))
    with pytest.warns(th.ThriftyWarning, match="poor-cost-fit"):
        th.fit_cost(theta, seconds * rng.lognormal(0, 0.1, 60), model=th.Polynomial(1))
    found, expected = cost([[0, 0.5], [1, 0.5], [2, 0.5]]), np.array([1.0, 30.0, 4.0]) * np.exp(0.5)
    assert np.abs(np.log(found / expected)).max() < 0.15
    assert cost.score > 0.95
    assert np.allclose(cost_from_dict(json.loads(json.dumps(cost.to_dict())))(theta), cost(theta), rtol=1e-12)


def test_cost_of_categories_alone(rng):
    prior = th.Categorical([0.5, 0.5])
    theta = prior.sample(40, rng)
    cost = th.fit_cost(theta, np.array([1.0, 20.0])[theta[:, 0].astype(int)] * rng.lognormal(0, 0.1, 40), prior=prior)
    assert np.abs(np.log(cost([[0.0], [1.0]]) / [1.0, 20.0])).max() < 0.15
