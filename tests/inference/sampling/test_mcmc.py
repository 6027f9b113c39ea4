"""emcee from a prior resample: known targets up to ten parameters, boxes, two peaks, honest warnings."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.errors import InferenceError
from thrifty.inference.sampling import mcmc, walkers
from thrifty.inference.sampling.mcmc import sample_posterior
from thrifty.inference.sampling.mcmc_checks import effective_size, nested_rhat
from thrifty.inference.sampling.peaks import Peaks
from thrifty.inference.sampling.walkers import EmceeWalkers


@pytest.mark.parametrize("p", [1, 3, 10])
def test_correlated_normal_in_a_box(p, rng):
    root = rng.standard_normal((p, p))
    spread = 0.02 * root @ root.T + 0.002 * np.eye(p)
    precision, centre = np.linalg.inv(spread), np.linspace(-1, 2, p)
    prior = th.Uniform(np.full(p, -6.0), np.full(p, 8.0))

    def log_likelihood(theta):
        return -0.5 * np.einsum("ij,jk,ik->i", theta - centre, precision, theta - centre)

    chains = sample_posterior(log_likelihood, prior, 1000, rng=rng)
    sd = np.sqrt(np.diag(spread))
    z = (chains.samples.mean(0) - centre) / sd * np.sqrt(np.minimum(chains.ess, 1000))
    assert chains.samples.shape == (1000, p)
    assert chains.ess.min() > 200 and chains.rhat.max() < 1.05 and not chains.poor
    assert np.abs(z).max() < 5
    ratio = chains.samples.std(0) / sd
    assert np.abs(ratio - 1).max() < 5 / np.sqrt(2 * chains.ess.min())
    assert log_likelihood(chains.best[None])[0] > -p


def test_asymmetric_peaks_get_their_masses(rng):
    prior = th.Uniform([0.0, 0.0], [1.0, 1.0])
    peaks = [(np.array([0.2, 0.3]), np.log(1.0)), (np.array([0.8, 0.6]), np.log(3.0))]

    def log_likelihood(theta):
        return np.logaddexp(*(mass - 0.5 * ((theta - c) ** 2).sum(1) / 0.04**2 for c, mass in peaks))

    chains = sample_posterior(log_likelihood, prior, 2000, rng=rng)
    share = (chains.samples[:, 0] > 0.5).mean()
    assert chains.ess.min() >= 1_000 and abs(share - 0.75) < 5 * np.sqrt(0.75 * 0.25 / 1_000)


def measure_share(start_share: float, rng) -> float:
    """The share of the wide one of two peaks of mass 1 and 3 after 30 steps, from walkers that begin with another."""

    def log_density(z):
        parts = [np.log(m / w) - 0.5 * np.square((z[:, 0] - c) / w) for m, c, w in ((1, 0.0, 0.05), (3, 4.0, 0.2))]
        return np.logaddexp(*parts)

    wide = rng.random(1_000) < start_share
    start = np.where(wide, 4.0, 0.0) + np.where(wide, 0.2, 0.05) * rng.standard_normal(1_000)
    moved = EmceeWalkers(log_density, start[:, None], rng)
    moved.advance(30)
    return float((moved.chain[-1] > 2).mean())


def test_walkers_jump_to_the_shares_of_the_peaks(rng, monkeypatch):
    """Nine of ten walkers begin on the wrong peak. Without jumps they stay; without the volumes they go too far."""
    error = 5 * np.sqrt(0.75 * 0.25 / 1_000)
    assert abs(measure_share(0.1, rng) - 0.75) < error
    with monkeypatch.context() as mutant:
        mutant.setattr(Peaks, "log_volumes", property(lambda peaks: np.zeros(len(peaks.means))))
        assert abs(measure_share(0.1, rng) - 0.75) > error
    monkeypatch.setattr(walkers, "find_peaks", lambda z, rng: None)
    assert measure_share(0.1, rng) < 0.3


def test_walkers_on_two_peaks_need_few_steps(rng):
    prior, seen = th.Uniform([-3.0], [3.0]), 0

    def log_likelihood(theta):
        nonlocal seen
        seen += len(theta)
        return -0.5 * ((theta[:, 0] ** 2 - 4) / 0.1) ** 2

    chains = sample_posterior(log_likelihood, prior, 2000, rng=rng)
    assert seen < 400_000  # half of it for the start; without jumps 690,000
    assert abs((chains.samples > 0).mean() - 0.5) < 5 * np.sqrt(0.25 / 1_000)
    assert abs(np.abs(chains.samples).mean() - 2) < 0.01


def test_density_against_an_edge(rng):
    prior = th.Uniform([0.0], [1.0])
    chains = sample_posterior(lambda t: 20 * t[:, 0], prior, 2000, rng=rng)
    exact = stats.truncexpon(b=20, scale=1 / 20)
    assert stats.ks_1samp(1 - chains.samples[:: int(np.ceil(2000 / chains.ess[0])), 0], exact.cdf).pvalue > 1e-4


def test_half_bounded_prior(rng):
    prior = th.as_prior({"rate": stats.gamma(3.0), "shift": stats.norm(0, 2)})
    chains = sample_posterior(lambda t: -t[:, 0], prior, 2000, rng=rng)  # gamma(3) times exp(-t): gamma(3, scale 1/2)
    se = np.sqrt(3 / 4 / chains.ess[0])
    assert abs(chains.samples[:, 0].mean() - 1.5) < 5 * se


@pytest.mark.parametrize("taken", ["from all walkers", "mutant: from a few"])
def test_the_effective_size_is_that_of_the_draws(taken, rng, monkeypatch):
    """Means of 1,000 draws scatter as their ESS says, unless they are all taken from a twentieth of the walkers."""
    prior = th.Uniform([-5.0, -5.0], [5.0, 5.0])
    root = np.array([[1.0, 0.0], [0.8, 0.6]])
    if taken != "from all walkers":
        monkeypatch.setattr(
            mcmc, "choose_evenly", lambda steps, walkers, n: np.arange(n) % (steps * (walkers // 20)) * 20
        )

    def log_likelihood(theta):
        return -0.5 * (np.linalg.solve(root, theta.T) ** 2).sum(0)

    z = []
    for _ in range(25):
        chains = sample_posterior(log_likelihood, prior, 1000, rng=rng)
        z.append(chains.samples.mean(0) * np.sqrt(np.minimum(chains.ess, 1000)))
    z2 = np.square(z).mean(0).max()  # two correlated means of 25 squares each
    assert (z2 < 1 + 5 * np.sqrt(2 / 25)) == (taken == "from all walkers")


def test_draws_come_from_all_walkers_and_steps_alike():
    rows = mcmc.choose_evenly(60, 400, 2000)
    assert set(np.bincount(rows % 400, minlength=400)) == {5}
    assert np.ptp(np.bincount(rows // 400, minlength=60)) < 30


def test_walkers_that_moved_a_little_are_not_done(rng):
    """From a ball round a point the way to the posterior is long: draws from it would be too narrow."""
    prior = th.Uniform([-5.0, -5.0], [5.0, 5.0])
    start = np.array([2.0, -2.0])
    chains = sample_posterior(lambda t: -0.5 * (t**2).sum(1), prior, 1000, rng=rng, start=start)
    assert np.abs(chains.samples.mean(0)).max() < 5 / np.sqrt(500)
    assert np.abs(chains.samples.std(0) - 1).max() < 5 / np.sqrt(1000)


def test_same_seed_same_draws():
    prior = th.Uniform([0.0], [1.0])
    a, b = (sample_posterior(lambda t: -t[:, 0], prior, 50, rng=np.random.default_rng(3)).samples for _ in range(2))
    np.testing.assert_array_equal(a, b)


def test_poor_chains_warn(rng):
    prior = th.Uniform(np.zeros(10), np.ones(10))
    with pytest.warns(th.ThriftyWarning, match=r"not converged: effective sample size \d+ for 5000 draws"):
        chains = sample_posterior(
            lambda t: -0.5 * (t[:, 0] - 100 * (t[:, 1:] - 0.5).prod(1)) ** 2 / 1e-8,
            prior, 5000, rng=rng, walkers=24, max_steps=40,
        )  # fmt: skip
    assert chains.poor


def test_stuck_walkers_are_seen(rng):
    moving = rng.standard_normal((200, 40, 1))
    stuck = np.broadcast_to(rng.standard_normal((40, 1)), (200, 40, 1)).copy()
    assert effective_size(moving)[0] > 4000
    assert effective_size(stuck)[0] <= 45
    drifting = moving + np.linspace(0, 3, 200)[:, None, None]
    assert nested_rhat(drifting)[0] > 1.05 > nested_rhat(moving)[0]


def test_impossible_likelihood():
    with pytest.raises(InferenceError, match="zero or NaN at all 4000 prior draws") as caught:
        sample_posterior(lambda t: np.full(len(t), np.nan), th.Uniform([0.0], [1.0]), 10, rng=np.random.default_rng(0))
    assert caught.value.code == "far-observation"


@pytest.mark.parametrize(("start", "width"), [(1.0, 1e-4), (-4.9, 0.5), (1.0, 10.0)])
def test_a_start_round_a_point_reaches_the_posterior(start, width, rng):
    """A ball round the maximum may be a hundred times wider or narrower than the peak, or beside it."""
    prior = th.Uniform([-50.0, -50.0], [50.0, 50.0])
    chains = sample_posterior(
        lambda t: -0.5 * np.square((t - 1) / width).sum(1), prior, 1000, rng=rng, start=np.full(2, start)
    )
    assert np.abs(chains.samples.mean(0) - 1).max() < 5 * width / np.sqrt(500)
    assert np.abs(chains.samples.std(0) / width - 1).max() < 5 / np.sqrt(1000)


def test_masses_that_the_start_fixed_lower_the_ess(rng):
    """Along a ridge of 1e-5 of the prior's width walkers hardly move: few first particles decide the mean."""
    prior = th.Uniform([-5.0, -5.0], [5.0, 5.0])
    z2 = []
    for _ in range(4):
        chains = sample_posterior(lambda t: -0.5 * ((t.sum(1) - 1) / 1e-4) ** 2, prior, 1000, rng=rng, quiet=True)
        z2.append(np.square((chains.samples[:, 0].mean() - 0.5) / (9 / np.sqrt(12))) * min(chains.ess[0], 1000))
    assert np.mean(z2) < 1 + 5 * np.sqrt(2 / 4)
    assert chains.poor


def test_a_posterior_of_1e_9_of_the_prior():
    prior = th.Uniform([-5.0, -5.0], [5.0, 5.0])
    chains = sample_posterior(
        lambda t: -0.5 * np.square((t - 1) / 1e-9).sum(1), prior, 1000, rng=np.random.default_rng(0)
    )
    assert np.abs(chains.samples.std(0) / 1e-9 - 1).max() < 5 / np.sqrt(1000)


def test_one_prior_draw_with_positive_density_is_spread_over_its_region(rng):
    prior = th.Uniform([0.0, 0.0], [1.0, 1.0])
    seen = prior.sample(mcmc.START_DRAWS, np.random.default_rng(7))[0]
    chains = sample_posterior(
        lambda t: np.where((np.abs(t - seen) < 0.004).all(1), 0.0, -np.inf), prior, 1000, rng=np.random.default_rng(7)
    )
    sd = 0.008 / np.sqrt(12)
    assert np.abs(chains.samples.mean(0) - seen).max() < 5 * sd / np.sqrt(500)
    assert np.abs(chains.samples.std(0) / sd - 1).max() < 0.15


def test_more_walkers_than_the_usual_pool(rng):
    chains = sample_posterior(lambda t: -t[:, 0], th.Uniform([0.0], [1.0]), 100, rng=rng, walkers=5_000)
    assert chains.samples.shape == (100, 1)
