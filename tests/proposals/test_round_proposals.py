"""Proposals of rounds: kernels with a share of the prior, and the truncated prior; exact, and restoring the prior."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.errors import WeightError
from thrifty.prior_recovery import weighted_ks
from thrifty.proposals import weighting_from_dict
from thrifty.proposals.kernel import KernelProposal, measure_local_covariance
from thrifty.proposals.truncated import TruncatedPrior

SLOPE = 0.8  # of log cost along the first parameter


def cost(theta):
    return np.exp(SLOPE * theta[:, 0])


def make_prior(p):
    return th.Normal(np.zeros(p), np.ones(p))


def posterior_draws(p, rng, n=1_000, sd=0.3):
    """An asymmetric posterior: off the prior's centre, of different widths."""
    return 0.6 + sd * np.linspace(0.7, 1.3, p) * rng.standard_normal((n, p))


def truncated(p, rng, *, sd=0.3, left_out=0.001):
    theta = posterior_draws(p, rng, sd=sd)
    return TruncatedPrior.around(make_prior(p), theta, left_out=left_out, penalty=th.Power(0.5), cost=cost)


def mixture(p, rng, share=0.2):
    centres = posterior_draws(p, rng, n=300)
    kernel = measure_local_covariance(centres)
    return KernelProposal(make_prior(p), centres, np.zeros(300), kernel, th.Power(0.5), cost, prior_share=share)


@pytest.mark.parametrize("make", [mixture, truncated])
def test_density_in_one_dimension_integrates_to_one_and_draws_follow_it(make, rng):
    q = make(1, rng)
    grid = np.linspace(-8, 8, 40_001)
    density = np.exp(q.log_prob(grid[:, None]))
    assert np.trapezoid(density, grid) == pytest.approx(1, abs=0.03)  # Z from free draws, to 1 %
    steps = np.cumsum(density) / density.sum()
    draws = q.sample(5_000, rng).theta[:, 0]
    assert stats.kstest(draws, lambda t: np.interp(t, grid, steps)).pvalue > 1e-3
    moved = stats.kstest(draws + 0.1, lambda t: np.interp(t, grid, steps)).pvalue
    assert moved < 1e-6  # a mutant that the test sees


@pytest.mark.parametrize(("p", "sd"), [(1, 0.3), (1, 0.01), (2, 0.3), (6, 0.3), (10, 0.3), (10, 1.0)])
def test_inside_its_region_a_truncated_prior_is_the_prior_over_g(p, sd, rng):
    """Importance weights g restore the prior inside the region, drawn independently from kernels or the prior."""
    q = truncated(p, rng, sd=sd, left_out=0.01)
    draws = q.sample(4_000, rng)
    assert q.contains(draws.theta).all()
    wide = np.concatenate([q.region.draw_candidates(40_000, rng), q.prior.sample(40_000, rng)])
    log_prior = q.prior.log_prob(wide)
    log_mixture = np.logaddexp(q.region.log_kernel(wide), log_prior) - np.log(2)
    inside = q.contains(wide)
    truth = th.estimate(wide[inside], (log_prior - log_mixture)[inside])
    ours = th.estimate(draws.theta, draws.log_weights)
    gap = np.abs(ours.mean - truth.mean) / np.hypot(ours.se, truth.se)
    assert ours.ess > 200 and truth.ess > 200 and gap.max() < 5
    forgotten = th.estimate(draws.theta, np.zeros(len(draws)))
    spread = SLOPE / 2 * np.var(draws.theta[:, 0])  # what g shifts the mean by
    if spread > 10 * forgotten.se[0]:
        assert abs(forgotten.mean[0] - truth.mean[0]) > 5 * np.hypot(forgotten.se[0], truth.se[0])
    mass = np.exp(log_prior - log_mixture - q.log_weight(np.where(inside[:, None], wide, wide[inside][:1])))[inside]
    z, error = mass.sum() / len(wide), np.sqrt(np.square(mass).sum()) / len(wide)
    assert abs(z - q.normaliser.value) < 5 * np.hypot(error, q.normaliser.se)


def test_a_region_keeps_separate_peaks_apart_and_holds_the_posterior(rng):
    prior = th.Uniform([-3.0, -3.0], [3.0, 3.0])
    peaks = 2.0 * rng.choice([-1.0, 1.0], (2_000, 2))
    q = TruncatedPrior.around(prior, peaks + 0.1 * rng.standard_normal((2_000, 2)), left_out=0.001)
    assert q.contains(peaks + 0.1 * rng.standard_normal((2_000, 2))).mean() > 0.99
    assert not q.contains([[0.0, 0.0], [2.0, 0.0]]).any()
    assert q.normaliser.value < 0.2  # four discs, not the square between them


@pytest.fixture(scope="module")
def rounds_pool():
    """Runs of three rounds: prior, kernels with a share of the prior, truncated prior."""
    rng = np.random.default_rng(20_261_118)
    prior, first, second = make_prior(2), mixture(2, rng), truncated(2, rng)
    counts = (2_000, 4_000, 4_000)
    parts = (prior.sample(counts[0], rng), first.sample(counts[1], rng).theta, second.sample(counts[2], rng).theta)
    return prior, first, second, counts, np.concatenate(parts)


def recover(prior, theta, log_weights):
    plain = prior.sample(50_000, np.random.default_rng(7))
    return min(weighted_ks(a, log_weights, b)[1] for a, b in zip(theta.T, plain.T, strict=True))


def test_pooled_weights_of_rounds_restore_the_prior(rounds_pool):
    prior, first, second, counts, theta = rounds_pool
    pool = th.Pool(tuple(zip(counts, (prior, first, second), strict=True)), prior)
    weights = pool.log_weight(theta)
    assert th.ess(weights) > 200 and recover(prior, theta, weights) > 1e-3
    assert np.exp(weights).max() <= sum(counts) / counts[0]  # bounded by the share of round 0


@pytest.mark.parametrize("mutant", ["forgotten constant", "forgotten prior share", "refitted density", "forgotten g"])
def test_wrong_pooled_weights_are_caught(mutant, rounds_pool):
    prior, first, second, counts, theta = rounds_pool
    rng = np.random.default_rng(3)
    if mutant == "forgotten constant":
        second = TruncatedPrior(second.region, second.level, second._floored, cost, log_z=0.0)
    elif mutant == "forgotten prior share":
        first = KernelProposal(prior, first.centres, first.log_weights, first.kernel, th.Power(0.5), cost)
    elif mutant == "refitted density":
        second = truncated(2, rng, sd=0.2)
    else:
        first = KernelProposal(prior, first.centres, first.log_weights, first.kernel, th.Constant(), prior_share=0.2)
        second = TruncatedPrior(second.region, second.level)
    pool = th.Pool(tuple(zip(counts, (prior, first, second), strict=True)), prior)
    assert recover(prior, theta, pool.log_weight(theta)) < 1e-6


@pytest.mark.parametrize("make", [mixture, truncated])
def test_numbers_written_and_read_again_give_the_same_weights(make, rng):
    theta = make_prior(2).sample(80, rng)
    fitted = th.fit_cost(theta, cost(theta) * rng.lognormal(0, 0.1, 80), model=th.Polynomial(1))
    q = make(2, rng)
    if make is truncated:
        q = TruncatedPrior.around(q.prior, q.region.centres, left_out=0.01, penalty=th.Power(0.5), cost=fitted)
    else:
        q = KernelProposal(q.prior, q.centres, q.log_weights, q.kernel, q.penalty, fitted, prior_share=0.2)
    again = weighting_from_dict(json.loads(json.dumps(q.to_dict())), q.prior)
    points = np.concatenate([q.sample(200, rng).theta, q.prior.sample(200, rng)])
    assert np.array_equal(q.log_ratio(points), again.log_ratio(points))
    assert np.array_equal(q.sample(50, 3).theta, again.sample(50, 3).theta)


def test_a_region_that_is_no_kernel_mixture_is_refused(rng):
    described = TruncatedPrior.around(make_prior(1), posterior_draws(1, rng), left_out=0.01).to_dict()
    described["region"] = {"kind": "pool", "counts": [5], "parts": [{"kind": "prior"}]}
    with pytest.raises(WeightError, match="not a kernel mixture"):
        weighting_from_dict(described, make_prior(1))
