"""NUTS from five parameters on: exact normals of 10 and 20 parameters, funnels, boxes, peaks, and gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.inference.sampling import mcmc, nuts
from thrifty.inference.sampling.mcmc import MAX_DIVERGENT_SHARE, MAX_STUCK_SHARE, sample_posterior
from thrifty.inference.sampling.nuts import NutsWalkers
from thrifty.inference.sampling.peaks import Peaks, _describe
from thrifty.inference.transforms import BoxTransform


def normal_problem(p: int, rng: np.random.Generator):
    """A normal prior, a correlated normal likelihood with its gradient; mean and covariance of the posterior."""
    root = rng.standard_normal((p, p))
    precision = np.linalg.inv(0.1 * root @ root.T + 0.02 * np.eye(p))
    place = np.linspace(-1, 2, p)

    def gradient(theta):
        slope = -(theta - place) @ precision
        return 0.5 * ((theta - place) * slope).sum(1), slope

    spread = np.linalg.inv(precision + np.eye(p))
    return th.Normal(np.zeros(p), np.ones(p)), gradient, spread @ precision @ place, spread


def draw(gradient, prior: th.Normal | th.Uniform, n: int, rng: np.random.Generator, **settings):
    return sample_posterior(lambda t: gradient(t)[0], prior, n, rng=rng, gradient=gradient, **settings)


def worst(chains, mean, spread) -> float:
    """The largest error of a mean or a variance, in standard errors of these draws."""
    effective, variance = np.minimum(chains.ess, len(chains.samples)), np.diag(spread)
    place = (chains.samples.mean(0) - mean) / np.sqrt(variance / effective)
    width = (chains.samples.var(0) / variance - 1) / np.sqrt(2 / effective)
    return float(max(np.abs(place).max(), np.abs(width).max()))


@pytest.mark.parametrize("p", [5, 10, 20])
def test_correlated_normals(p, rng):
    prior, gradient, mean, spread = normal_problem(p, rng)
    chains = draw(gradient, prior, 2000, rng)
    assert chains.sampler == "nuts" and not chains.poor and chains.divergent == 0
    assert chains.ess.min() > 1000 and chains.rhat.max() < 1.01 and 0.8 < chains.acceptance < 0.97
    assert worst(chains, mean, spread) < 5


@pytest.mark.parametrize("forgotten", ["the kinetic energy", "the prior", "the volume of the bounds"])
def test_mutants_are_found(forgotten, rng, monkeypatch):
    prior, gradient, mean, spread = normal_problem(5, rng)
    if forgotten == "the kinetic energy":
        monkeypatch.setattr(nuts._Points, "energy", property(lambda points: points.value))
    elif forgotten == "the prior":
        prior = th.Normal(np.zeros(5), np.full(5, 100.0))
    else:
        monkeypatch.setattr(BoxTransform, "log_jacobian", lambda self, z: -0.1 * np.square(z).sum(1))
        prior, place = th.Uniform(np.full(5, -1.0), np.full(5, 2.5)), np.linspace(-0.5, 2, 5)
        ends = (np.array([-1.0, 2.5])[:, None] - place) / 0.6
        exact = stats.truncnorm(*ends, loc=place, scale=0.6)
        mean, spread = exact.mean(), np.diag(exact.var())

        def gradient(theta):
            return -0.5 * np.square((theta - place) / 0.6).sum(1), -(theta - place) / 0.36

    assert worst(draw(gradient, prior, 2000, rng, quiet=True, max_steps=20), mean, spread) > 5


def test_densities_against_the_edges_of_a_box(rng):
    place = np.linspace(-0.5, 2, 6)
    exact = stats.truncnorm(*((np.array([-1.0, 2.5])[:, None] - place) / 0.6), loc=place, scale=0.6)
    prior = th.Uniform(np.full(6, -1.0), np.full(6, 2.5))
    chains = draw(lambda t: (-0.5 * np.square((t - place) / 0.6).sum(1), -(t - place) / 0.36), prior, 2000, rng)
    assert worst(chains, exact.mean(), np.diag(exact.var())) < 5
    thin = chains.samples[:: int(np.ceil(2000 / min(chains.ess.min(), 2000)))]
    assert stats.ks_1samp(thin[:, -1], stats.truncnorm(*((np.array([-1.0, 2.5]) - 2) / 0.6), 2, 0.6).cdf).pvalue > 1e-4


def test_half_lines_and_scipy_priors(rng):
    """Each prior times exp(-theta), or exp(theta) below an upper end: gamma(3) with half the scale."""
    up = {f"rate_{i}": stats.gamma(3.0) for i in range(4)}
    prior = th.as_prior(up | {"level": stats.norm(0, 2)})

    def gradient(theta):
        slope = np.zeros_like(theta)
        slope[:, :4] = -1.0
        return -theta[:, :4].sum(1), slope

    chains = draw(gradient, prior, 2000, rng)
    assert chains.sampler == "nuts"
    assert worst(chains, np.array([1.5] * 4 + [0.0]), np.diag([0.75] * 4 + [4.0])) < 6  # variances of gammas: kurtosis


def funnel(sd: float, p: int = 10):
    """Log width v ~ N(0, sd²) and p - 1 places of width exp(v / 2): as a likelihood under a prior N(0, 100²)."""

    def gradient(theta):
        v, y = theta[:, 0], theta[:, 1:]
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.square(y).sum(1) * np.exp(-v)
            slope = -y * np.exp(-v)[:, None]
        value = -0.5 * (v / sd) ** 2 - 0.5 * size - 0.5 * (p - 1) * v
        return value, np.column_stack([-v / sd**2 + 0.5 * size - 0.5 * (p - 1), slope])

    return gradient


def test_a_funnel(rng):
    """Widths of ten places that vary sevenfold with one parameter: its marginal is exactly normal."""
    chains = draw(funnel(1.0), th.Normal(np.zeros(10), np.full(10, 30.0)), 2000, rng)
    thin = chains.samples[:: int(np.ceil(2000 / min(chains.ess[0], 2000))), 0]
    assert not chains.poor and len(thin) >= 200
    assert stats.ks_1samp(thin, stats.norm(0, 1 / np.sqrt(1 + 30.0**-2)).cdf).pvalue > 1e-4
    widths = np.log(np.abs(chains.samples[:, 1:])).mean(1) - chains.samples[:, 0] / 2
    assert abs(np.corrcoef(widths, chains.samples[:, 0])[0, 1]) < 5 / np.sqrt(len(thin))


def test_a_funnel_whose_neck_is_not_entered_is_reported(rng):
    """Twenty parameters: hardly a trajectory diverges, but many walkers wait in front of the neck."""
    chains = draw(funnel(1.75, 20), th.Normal(np.zeros(20), np.full(20, 30.0)), 1000, rng, quiet=True, max_steps=20)
    effective = min(chains.ess[0], 1000)
    assert chains.samples[:, 0].mean() > 5 * 1.75 / np.sqrt(effective)  # the draws are wrong, and
    assert chains.stuck > MAX_STUCK_SHARE and chains.poor
    with pytest.warns(th.ThriftyWarning, match=r"\d+% hardly moved: a part of the posterior is too narrow"):
        mcmc._warn_poor(chains, 20, 400)
    healthy = draw(funnel(0.5, 8), th.Normal(np.zeros(8), np.full(8, 30.0)), 500, rng)
    assert healthy.stuck < MAX_STUCK_SHARE and not healthy.poor


@pytest.mark.slow
def test_the_step_adapts_until_the_neck_is_entered(rng):
    """Width varies a hundredfold over the posterior: right, or reported."""
    wrong = []
    for sd, p in ((1.5, 10), (1.5, 20), (2.0, 20)):
        chains = draw(funnel(sd, p), th.Normal(np.zeros(p), np.full(p, 30.0)), 2000, rng, quiet=True)
        thin = chains.samples[:: int(np.ceil(2000 / min(chains.ess[0], 2000))), 0]
        off = abs(thin.mean()) / sd, abs(thin.std() / sd - 1)
        print(f"funnel of {p} parameters, sd {sd}: mean off by {off[0]:.3f} sd, sd by {off[1]:.3f}; poor {chains.poor}")
        wrong.append(max(off) > 0.15 and not chains.poor)
    assert not any(wrong)


def test_a_funnel_that_no_common_step_fits_is_reported(rng):
    """Neal's funnel from exact draws: the neck is a thousand times narrower than the mouth; trajectories diverge."""
    v = 3 * rng.standard_normal((400, 1))
    walkers = NutsWalkers(funnel(3.0), np.hstack([v, np.exp(v / 2) * rng.standard_normal((400, 9))]), rng)
    walkers.advance(5)
    assert walkers.divergences / (5 * 400) > 10 * MAX_DIVERGENT_SHARE
    healthy = draw(normal_problem(5, rng)[1], th.Normal(np.zeros(5), np.ones(5)), 100, rng)
    assert not healthy.poor and replace(healthy, divergent=2 * MAX_DIVERGENT_SHARE).poor


def two_peaks(p: int, widths: tuple[float, float], odds: float):
    """Normal peaks of different widths at 0.3 and 0.7 of each parameter, the second with `odds` times the mass."""
    places, widths_ = np.array([0.3, 0.7])[:, None, None], np.array(widths)[:, None, None]
    mass = np.log([1.0, odds])[:, None] - p * np.log(widths)[:, None]

    def gradient(theta):
        each = mass - 0.5 * np.square((theta - places) / widths_).sum(-1)
        total = np.logaddexp(*each)
        slopes = np.exp(each - total)[:, :, None] * (places - theta) / widths_**2
        return total, slopes.sum(0)

    return gradient


def find_share(chains) -> tuple[float, float]:
    """The share of draws on the second of two peaks, and how far that is from 3/4 in standard errors."""
    share = float((chains.samples.mean(1) > 0.5).mean())
    return share, abs(share - 0.75) / np.sqrt(0.75 * 0.25 / min(chains.ess.min(), len(chains.samples)))


@pytest.mark.parametrize(("p", "narrow"), [(5, 0.02), (15, 0.03)])
def test_walkers_jump_between_peaks(p, narrow, rng, monkeypatch):
    """One to three: jumps make the draws effective; without the volumes the masses of unlike peaks are wrong."""
    gradient = two_peaks(p, (narrow, 0.03), 3.0)
    prior = th.Uniform(np.zeros(p), np.ones(p))
    chains = draw(gradient, prior, 2000, rng)
    assert not chains.poor and chains.ess.min() > 1000 and chains.steps < 100
    assert find_share(chains)[1] < 5
    if p == 5:
        monkeypatch.setattr(Peaks, "log_volumes", property(lambda peaks: np.zeros(len(peaks.means))))
        assert find_share(draw(gradient, prior, 2000, rng, quiet=True, max_steps=60))[1] > 5


def test_jumps_correct_the_masses_of_the_start(rng, monkeypatch):
    """Nine of ten walkers start on the peak that has a quarter of the mass; without jumps they stay."""
    gradient = two_peaks(6, (0.02, 0.03), 3.0)
    small = np.arange(400) < 360
    start = np.where(small[:, None], 0.3, 0.7) + np.where(small, 0.02, 0.03)[:, None] * rng.standard_normal((400, 6))
    shares = {}
    for jumps in (True, False):
        monkeypatch.setattr(nuts, "PEAK_STEPS", (10,) if jumps else (100,))
        walkers = NutsWalkers(gradient, start, rng)
        walkers.advance(11)
        assert (walkers._peaks is not None) == jumps
        walkers.reset()
        walkers.advance(20)
        shares[jumps] = (walkers.chain[5:].mean(2) > 0.5).mean()
    assert abs(shares[True] - 0.75) < 5 * np.sqrt(0.75 * 0.25 / 400) and shares[False] < 0.15


def test_peaks_that_are_none_cost_acceptance_only(rng):
    """A normal cut into two halves, and jumps between them: its mean and covariance stay."""
    z = rng.standard_normal((400, 5))
    halves = [z[z[:, 0] < 0], z[z[:, 0] >= 0]]
    walkers = NutsWalkers(lambda z: (-0.5 * (z**2).sum(1), -z), z, rng)
    walkers._peaks = _describe(halves, z.std(0))
    walkers.advance(20)
    walkers.reset()
    walkers.advance(20)
    flat = walkers.chain.reshape(-1, 5)
    assert np.abs(flat.mean(0)).max() < 5 / np.sqrt(len(flat) / 4)
    assert np.abs(np.cov(flat.T) - np.eye(5)).max() < 5 * np.sqrt(2 / (len(flat) / 4))


def test_a_wrong_gradient_costs_acceptance_only(rng):
    prior, gradient, mean, spread = normal_problem(6, rng)

    def rough(theta):
        value, slope = gradient(theta)
        return value, slope * 1.3 + 0.3 * np.sin(7 * theta)

    assert worst(draw(rough, prior, 2000, rng), mean, spread) < 5


def test_gradients_that_are_no_numbers_are_refused_moves(rng):
    prior, gradient, mean, spread = normal_problem(5, rng)

    def broken(theta):
        value, slope = gradient(theta)
        return value, np.where(theta[:, :1] > mean[0] + 4 * np.sqrt(spread[0, 0]), np.nan, slope)

    chains = draw(broken, prior, 2000, rng)
    assert np.isfinite(chains.samples).all() and worst(chains, mean, spread) < 5


def test_four_parameters_stay_with_emcee(rng):
    prior, gradient, _, _ = normal_problem(4, rng)
    first = draw(gradient, prior, 100, np.random.default_rng(5))
    assert first.sampler == "emcee"
    alone = sample_posterior(lambda t: gradient(t)[0], prior, 100, rng=np.random.default_rng(5))
    np.testing.assert_array_equal(first.samples, alone.samples)


def test_same_seed_same_draws(rng):
    prior, gradient, _, _ = normal_problem(5, rng)
    one, two, other = (draw(gradient, prior, 50, np.random.default_rng(s)).samples for s in (3, 3, 4))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_every_block_of_a_trajectory_is_compared_once(count, monkeypatch):
    """Blocks of 2^j steps that end at a step: their first momentum, last momentum and sum, whatever their place."""
    seen = set()

    def record(first, last, total):
        seen.add((int(first[0, 0]), int(last[0, 0]), int(total[0, 0])))
        return np.zeros(len(first), bool)

    monkeypatch.setattr(nuts, "_turns", record)
    kept, total = np.zeros((2, count.bit_length(), 1, 1)), np.zeros((1, 1))
    for leaf in range(count):
        r = np.full((1, 1), float(leaf + 1))
        total = total + r
        nuts._keep_or_compare(kept, leaf, r, total, np.arange(1))
    blocks = {(a + 1, a + n) for n in (2, 4, 8, 16) if n <= count for a in range(0, count, n)}
    assert seen == {(a, b, sum(range(a, b + 1))) for a, b in blocks}


def test_the_step_adapts_to_the_acceptance_wanted():
    walkers = NutsWalkers(lambda z: (-0.5 * (z**2).sum(1), -z), np.zeros((300, 8)) + 0.1, np.random.default_rng(0))
    walkers.step = 0.1
    walkers.advance(40)
    walkers.reset()
    walkers.advance(10)
    assert abs(walkers.acceptance - nuts.TARGET_ACCEPTANCE) < 0.05
