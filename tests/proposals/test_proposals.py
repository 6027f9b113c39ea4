"""Proposals: exact against known distributions, independent of luck, and never biased by a bad cost."""

from __future__ import annotations

import dataclasses
import json
import warnings

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.errors import PenaltyError, WeightError
from thrifty.proposals import weighting_from_dict


@pytest.mark.parametrize(("a", "k"), [(1.0, 0.5), (1.0, 1.0), (-0.8, 1.5), (0.5, 3.0)])
def test_gaussian_prior_with_exponential_cost_is_a_shifted_gaussian(a: float, k: float, rng):
    """q is N(-ak, 1); log B = (ak)^2/2; gain = exp(a^2 k); ESS/n = exp(-(ak)^2)."""
    q = th.CostAware(th.Normal(0, 1), lambda t: np.exp(a * t[:, 0]), th.Power(k))
    theta = q.sample(40_000, rng).theta[:, 0]
    assert stats.kstest(theta, stats.norm(-a * k, 1).cdf).pvalue > 1e-4
    assert stats.kstest(theta, stats.norm(a * k, 1).cdf).pvalue < 1e-10  # the mutant of the sign
    at = np.linspace(-2, 2, 9)[:, None] - a * k
    assert q.log_prob(at) == pytest.approx(stats.norm(-a * k, 1).logpdf(at[:, 0]), abs=0.05)
    assert q.normaliser.value == pytest.approx(np.exp((a * k) ** 2 / 2), abs=5 * q.normaliser.se + 0.01)
    assert q.gain == pytest.approx(np.exp(a**2 * k), rel=0.05)
    assert q.ess_fraction == pytest.approx(np.exp(-((a * k) ** 2)), rel=0.15)


def test_weighted_least_squares_is_exact_npe(rng):
    """theta ~ N(0,1), x = theta + noise: the posterior mean is x/2. Weights give it, faults do not."""
    q = th.CostAware(th.Normal(0, 1), lambda t: np.exp(t[:, 0]), th.Power(1))
    draws = q.sample(20_000, rng)
    theta, x = draws.theta[:, 0], draws.theta[:, 0] + rng.normal(size=20_000)

    def z(log_weights):
        w = th.normalise(log_weights)
        design = np.column_stack([np.ones_like(x), x])
        gram = np.linalg.inv(design.T @ (design * w[:, None]))
        beta = gram @ design.T @ (w * theta)
        scores = design * (w * (theta - design @ beta))[:, None]
        se = np.sqrt(np.diag(gram @ (scores.T @ scores) @ gram))
        return (beta - [0.0, 0.5]) / se

    assert np.abs(z(draws.log_weights)).max() < 5
    assert abs(z(np.zeros(len(draws)))[0]) > 20
    assert abs(z(2 * draws.log_weights)[0]) > 5


def test_uniform_prior_with_linear_cost(rng):
    """q is proportional to 1/theta on [1, 10]: log theta is uniform."""
    q = th.CostAware(th.Uniform(1, 10), lambda t: t[:, 0], th.Power(1))
    draws = q.sample(30_000, rng)
    assert stats.kstest(np.log10(draws.theta[:, 0]), "uniform").pvalue > 1e-4
    assert q.gain == pytest.approx(th.closed_form.gain(1, 10, 1), rel=0.01)
    assert draws.log_weights == pytest.approx(np.log(np.maximum(draws.theta[:, 0], q.penalty.low)))
    integral = np.trapezoid(np.exp(q.log_prob(np.linspace(1, 10, 2001)[:, None])), np.linspace(1, 10, 2001))
    assert integral == pytest.approx(1, abs=5 * q.normaliser.se / q.normaliser.value + 1e-3)
    assert q.log_prob([[0.5], [11.0]]).tolist() == [-np.inf, -np.inf]


def test_first_draws_do_not_depend_on_the_number_asked_for():
    q = th.CostAware(th.Uniform([1, 0], [50, 1]), lambda t: t[:, 0], th.Power(2))
    few, many = q.sample(10, 3), q.sample(5000, 3)
    assert np.array_equal(few.theta, many.theta[:10])
    assert np.array_equal(few.log_weights, many.log_weights[:10])
    assert not np.array_equal(few.theta, q.sample(10, 4).theta)
    assert len(q.sample(0, 1)) == 0


def test_no_penalty_is_the_prior_stream():
    prior = th.Uniform([0, 1], [1, 2])
    for penalty in (th.Power(0), th.Constant(), 0):
        draws = th.CostAware(prior, lambda t: 1 + t[:, 0], penalty).sample(100, 7)
        assert np.array_equal(draws.theta, prior.sample(100, np.random.default_rng(7)))
        assert draws.log_weights.tolist() == [0.0] * 100


def test_stored_weights_are_the_function(rng):
    cost = th.fit_cost(*_pilot(rng))
    q = th.CostAware(th.Uniform([0, 0], [1, 1]), cost, th.Power(1))
    draws = q.sample(2000, rng)
    assert q.log_weight(draws.theta) == pytest.approx(draws.log_weights, abs=1e-4)
    assert draws.proposal is q


def _pilot(rng):
    theta = rng.uniform(size=(60, 2))
    return theta, np.exp(3 * theta[:, 0]) * rng.lognormal(0, 0.2, 60)


TERRIBLE = {
    "inverted": lambda t: np.exp(-4 * t[:, 0]),
    "ragged": lambda t: 1 + 50 * (np.floor(t[:, 0] * 40) % 2) + t[:, 1],
    "wrong axis": lambda t: 1 + 50 * t[:, 1] ** 4,
    "absurd scale": lambda t: 1e-9 * (1 + 1e3 * t[:, 0]),
}


@pytest.mark.parametrize("name", TERRIBLE)
@pytest.mark.parametrize("k", [0.5, 1.0])
def test_a_terrible_cost_model_never_biases(name: str, k: float, rng):
    """Only efficiency suffers: the mean of an asymmetric function stays within five standard errors."""
    q = th.CostAware(th.Uniform([0, 0], [1, 1]), TERRIBLE[name], th.Power(k))
    draws = q.sample(20_000, rng)
    assert th.ess(draws.log_weights) > 200
    f = draws.theta[:, 0] ** 3 * (1 + draws.theta[:, 1])
    result = th.estimate(f, draws.log_weights)
    assert abs(result.mean - 0.375) < 5 * result.se
    assert th.prior_recovery(q, seed=3) > 1e-4


def test_extrapolating_and_noisy_cost_models_never_bias(rng):
    """Fitted on a corner, on noise, on four decades of outliers: still unbiased everywhere in the prior."""
    prior = th.Uniform([0, 0], [1, 1])
    corner = rng.uniform(0, 0.2, size=(30, 2))
    wild = np.exp(5 * corner[:, 0]) * rng.lognormal(0, 2, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", th.ThriftyWarning)
        models = [th.fit_cost(corner, wild, model=m) for m in (th.Polynomial(3), th.GaussianProcess(), "auto")]
    for cost in models:
        draws = th.CostAware(prior, cost, th.Power(0.5)).sample(10_000, rng)
        result = th.estimate(draws.theta[:, 0] ** 2, draws.log_weights)
        assert abs(result.mean - 1 / 3) < 5 * result.se


@pytest.mark.parametrize("shares", [(), (0.5, 0.3, 0.2)])
def test_balance_mixture_draws_from_its_components(shares, rng):
    """The one-penalty sampler gives the same law as drawing each component in its share."""
    q = th.Mixture(th.Uniform(1, 20), lambda t: t[:, 0], powers=(0, 1, 2), shares=shares)
    draws = q.sample(30_000, rng).theta[:, 0]
    used = shares or (1 / 3, 1 / 3, 1 / 3)
    parts = [c.sample(int(30_000 * s), rng).theta[:, 0] for c, s in zip(q.components, used, strict=True)]
    assert stats.ks_2samp(draws, np.concatenate(parts)).pvalue > 1e-4
    assert np.exp(q.log_weight([[20.0]]))[0] <= 1 / used[0] + 1e-9
    assert q.normaliser.value == pytest.approx(1, abs=1e-9)


def test_paper_scheme_self_normalises_each_component(rng):
    q = th.Mixture(th.Uniform(1, 20), lambda t: t[:, 0], powers=(0, 1, 2, 3), scheme="paper")
    draws = q.sample(1003, rng)
    w = np.exp(draws.log_weights)
    assert w.sum() == pytest.approx(1)
    for j in range(4):
        assert w[draws.component == j].sum() == pytest.approx(0.25)
    assert np.bincount(draws.component).tolist() in ([251, 251, 251, 250], [250, 251, 251, 251])
    with pytest.raises(WeightError, match="belongs to a draw"):
        q.log_weight(draws.theta)


@pytest.mark.parametrize("width", [6, 100])
def test_balance_is_more_efficient_than_the_papers_average(width: float):
    """Theory: ESS/n 0.60 against 0.19 at cost range 6 with k = 0, 1, 2, 3."""
    settings = {"prior": th.Uniform(1, width), "cost": lambda t: t[:, 0], "powers": (0, 1, 2, 3)}
    balance, paper = th.Mixture(**settings), th.Mixture(**settings, scheme="paper")
    assert balance.ess_fraction > 1.3 * paper.ess_fraction
    n = 40_000
    for q in (balance, paper) if width == 6 else (balance,):  # at 100 the paper's weights rest on a handful of draws
        assert th.ess(q.sample(n, 1).log_weights) / n == pytest.approx(q.ess_fraction, rel=0.2)


def test_pool_of_pilot_campaign_and_topup_recovers_the_prior(rng):
    prior = th.Uniform([0, 0], [1, 1])
    first = th.CostAware(prior, lambda t: np.exp(4 * t[:, 0]), th.Power(1))
    second = th.CostAware(prior, th.fit_cost(*_pilot(rng)), th.Power(0.5))
    mixture = th.Mixture(prior, lambda t: 1 + 9 * t[:, 1], powers=(0, 2))
    counts = [2000, 12_000, 9000, 7000]
    pool = th.Pool(list(zip(counts, [prior, first, second, mixture], strict=True)), prior)
    theta = [prior.sample(2000, rng)] + [
        q.sample(n, rng).theta for q, n in zip(pool_parts(pool), counts[1:], strict=True)
    ]
    draws = th.Draws(theta=np.concatenate(theta), log_weights=pool.log_weight(np.concatenate(theta)), proposal=pool)
    from thrifty.prior_recovery import check_recovery

    assert check_recovery(draws, prior, seed=4) > 1e-3
    # the mutant: each part keeps the weights of its own proposal
    own = [np.zeros(2000), *(q.log_weight(t) for q, t in zip(pool_parts(pool), theta[1:], strict=True))]
    forgotten = th.Draws(theta=draws.theta, log_weights=np.concatenate(own), proposal=pool)
    assert check_recovery(forgotten, prior, seed=4) < 1e-3 or th.ess(forgotten.log_weights) < th.ess(draws.log_weights)
    assert np.exp(pool.log_weight(draws.theta)).max() <= 30_000 / 2000 + 1e-9


def pool_parts(pool):
    return [proposal for _, proposal in pool.parts[1:]]


def test_pool_of_one_is_that_proposal(rng):
    prior = th.Uniform(1, 10)
    q = th.CostAware(prior, lambda t: t[:, 0], th.Power(1))
    theta = prior.sample(50, rng)
    pool = th.Pool([(100, q)], prior)
    assert th.normalise(pool.log_weight(theta)) == pytest.approx(th.normalise(q.log_weight(theta)))
    assert th.Pool([(5, prior)], prior).log_weight(theta).tolist() == [0.0] * 50
    other = th.Pool([(5, stats.uniform(1, 9)), (0, q)], prior)  # any density will do
    assert other.log_weight(theta) == pytest.approx(np.zeros(50), abs=1e-12)


@pytest.mark.parametrize("kind", ["single", "mixture", "pool"])
def test_frozen_as_plain_numbers(kind: str, rng):
    prior = th.Uniform([0, 0], [1, 1])
    cost = th.fit_cost(*_pilot(rng))
    single = th.CostAware(prior, cost, th.Power(0.5))
    mixture = th.Mixture(prior, cost)
    q = {"single": single, "mixture": mixture, "pool": th.Pool([(10, prior), (90, mixture)], prior)}[kind]
    again = weighting_from_dict(json.loads(json.dumps(q.to_dict())), prior)
    theta = prior.sample(100, rng)
    assert np.array_equal(again.log_weight(theta), q.log_weight(theta))


def test_a_rebuilt_proposal_draws_nothing_until_asked(rng):
    """Its numbers are enough for weights: a prior that cannot be sampled any more will do."""

    class Unsampled(th.Uniform):
        def sample(self, n, rng):
            raise AssertionError("a rebuilt proposal must not draw")

    prior = th.Uniform([0, 0], [1, 1])
    q = th.CostAware(prior, th.fit_cost(*_pilot(rng)), th.Power(0.5))
    recipe = json.loads(json.dumps(q.to_dict()))
    again = weighting_from_dict(recipe, Unsampled([0, 0], [1, 1]))
    pool = th.Pool([(10, again.prior), (90, again)], again.prior)
    theta = prior.sample(100, rng)
    assert np.array_equal(again.log_ratio(theta), q.log_ratio(theta))
    assert np.array_equal(again.cost(theta), q.cost(theta))
    assert again.to_dict() == recipe and pool.to_dict()["parts"][1] == recipe
    assert np.array_equal(pool.log_weight(theta), th.Pool([(10, prior), (90, q)], prior).log_weight(theta))
    with pytest.raises(AssertionError, match="must not draw"):
        _ = again.gain
    here = weighting_from_dict(recipe, prior)
    assert (here.gain, here.acceptance, here.normaliser) == (q.gain, q.acceptance, q.normaliser)


def test_low_acceptance_warns_then_refuses():
    prior, cost = th.Uniform(0, 1), lambda t: 10.0 ** (6 * t[:, 0])
    rare = th.CostAware(prior, cost, th.Power(4, low=0.2))
    assert 1e-6 < rare.acceptance < 1e-4
    with pytest.warns(th.ThriftyWarning, match="1 in .* prior draws is accepted.*\n.*raise the floor"):
        assert len(rare.sample(2, 0)) == 2
    hopeless = th.CostAware(prior, cost, th.Power(8, low=1e-2))
    with pytest.raises(PenaltyError, match="million prior draws is accepted") as caught:
        hopeless.sample(1, 0)
    assert caught.value.code == "few-effective-runs" and "low=" in caught.value.fix


def test_a_penalty_that_lies_about_its_floor_is_stopped():
    class Liar:
        low = 5.0

        def log(self, cost):
            return np.log(cost)

        def floored(self, low):
            return self

    with pytest.raises(PenaltyError, match="falls to") as caught:
        th.CostAware(th.Uniform(1, 10), lambda t: t[:, 0], Liar()).sample(10, 0)
    assert caught.value.code == "bad-penalty"


def test_memory_of_nothing_between_calls(rng):
    """A proposal is frozen: sampling twice from one seed gives one answer."""
    q = th.Mixture(th.Uniform(1, 20), lambda t: t[:, 0])
    assert np.array_equal(q.sample(500, 1).theta, q.sample(500, 1).theta)
    with pytest.raises(AttributeError):
        q.balanced.penalty = th.Power(3)  # type: ignore[misc]


def test_pool_of_a_truncated_prior(rng):
    """A part may have a prior of its own: only its density counts."""
    wide, narrow = th.Uniform(1, 10), th.Uniform(1, 4)
    truncated = th.CostAware(narrow, lambda t: t[:, 0], th.Power(1))
    theta = np.concatenate([wide.sample(4000, rng), truncated.sample(16_000, rng).theta])
    pool = th.Pool([(4000, wide), (16_000, truncated)], wide)
    result = th.estimate(theta[:, 0], pool.log_weight(theta))
    assert abs(result.mean - 5.5) < 5 * result.se
    assert th.Pool([(1, th.Uniform(1, 10))], wide).log_weight([[3.0]]).tolist() == [0.0]


def test_replacing_the_penalty_starts_afresh():
    q = th.CostAware(th.Uniform(1, 10), lambda t: t[:, 0], 1)
    fresh = th.CostAware(th.Uniform(1, 10), lambda t: t[:, 0], th.Power(2))
    assert dataclasses.replace(q, penalty=th.Power(2)).log_normaliser == pytest.approx(fresh.log_normaliser)


NOISE = np.random.default_rng(0)
COSTS = {
    "bad-cost random": (lambda t: t[:, 0] * NOISE.lognormal(0, 1, len(t)), "and then"),
    "bad-cost in place": (lambda t: np.multiply(t, 2, out=t)[:, 0], "changes its input"),
    "bad-cost text": (lambda t: ["a"] * len(t), "does not return numbers"),
}


@pytest.mark.parametrize("case", COSTS)
def test_costs_that_would_spoil_the_weights(case: str):
    cost, message = COSTS[case]
    for build in (th.CostAware, th.Mixture, th.tradeoff):
        with pytest.raises(th.ThriftyError, match=message) as caught:
            build(th.Uniform(1, 10), cost)
        assert caught.value.code == case.split(maxsplit=1)[0]


def test_a_rough_normaliser_is_sharpened_then_said():
    prior = th.Uniform(1, 1e4)
    q = th.CostAware(prior, lambda t: t[:, 0], th.Power(2, low=1))
    assert q.log_normaliser == pytest.approx(np.log(th.closed_form.normaliser(1, 1e4, 2)), abs=0.2)
    with pytest.warns(th.ThriftyWarning, match="normaliser of c\\^2 is known to"):
        th.Pool([(10, prior), (10, q)], prior)


def test_collapsed_penalty_is_said():
    with pytest.warns(th.ThriftyWarning, match="keeps .* effective draws"):
        th.CostAware(th.LogUniform(1, 1e3), lambda t: t[:, 0], 2).sample(5, 0)


def test_max_of_one_and_a_function_that_starts_negative(rng):
    q = th.CostAware(th.Uniform(1, 20), lambda t: t[:, 0], th.AtLeast(lambda c: c - 5, 1.0))
    assert np.exp(q.log_weight([[2.0], [15.0]])) == pytest.approx([1.0, 10.0])
    assert th.prior_recovery(q, seed=1) > 1e-3


@pytest.mark.parametrize(
    "build",
    [
        lambda u, c: th.CostAware(u, c, th.Power),
        lambda u, c: th.Mixture(u, c, powers=1),
        lambda u, c: th.Mixture(u, None),
        lambda u, c: th.tradeoff(u, 3),
        lambda u, c: th.tradeoff(u, c, powers=()),
        lambda u, c: th.tradeoff(u, c, n=0),
        lambda u, c: th.tradeoff(u, c).choose(budget="2 cpu-h"),
        lambda u, c: th.tradeoff(u, c).choose(budget=1e-9),
        lambda u, c: th.Power(1, low="a"),
        lambda u, c: th.CostAware(u, c).sample("abc", 0),
        lambda u, c: th.CostAware(u, c).sample(float("nan"), 0),
        lambda u, c: th.Pool([(u, 100)], u),
        lambda u, c: th.Pool([100, 900], u),
        lambda u, c: th.Pool([(10.7, u)], u),
    ],
)
def test_mistakes_have_a_word(build):
    with pytest.raises(th.ThriftyError):
        build(th.Uniform(1, 10), lambda t: t[:, 0])


def test_effective_draws_of_a_pool_with_prior_draws():
    """c = theta on U(1, 10), g = c: the weights of the pool are 1 / (a + (1 - a) r), r = (1 / c) / E[1 / c]."""
    q = th.CostAware(th.Uniform(1, 10), lambda t: t[:, 0], th.Power(1))
    assert q.pooled_ess_fraction(1.0) == pytest.approx(1.0) and q.pooled_ess_fraction(0.0) == pytest.approx(
        q.ess_fraction, rel=1e-9
    )
    c, share = np.linspace(1, 10, 200_001), 0.25
    exact = 1 / np.mean(1 / (share + (1 - share) * (9 / np.log(10)) / c))
    assert q.pooled_ess_fraction(share) == pytest.approx(exact, rel=0.003)  # as B is known
    assert abs(share + (1 - share) * q.ess_fraction - exact) > 0.02, "the mutant: two tables added"
