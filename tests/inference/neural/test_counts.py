"""Counts, zero-inflated, rounded and otherwise tied outputs: the likelihood stays bounded and the posterior right."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp

import thrifty as th
from thrifty.inference.neural import standardise
from thrifty.inference.neural.cells import Cells
from thrifty.inference.transforms import find_step

PRIOR = th.Uniform([0.2, 0.1], [6.0, 0.9], names=["rate", "share"])
AXES = [np.linspace(a, b, 61)[1::2] for a, b in zip(*PRIOR.bounds, strict=True)]
SCALES = np.array([0.2, 0.3, 0.5, 1.0])
GRID = np.stack(np.meshgrid(*AXES, indexing="ij"), -1).reshape(-1, 2)


def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Four small counts, two zero-inflated numbers, the logarithm of a count, and a number rounded to halves."""
    rate, share = theta.T
    counts = rng.poisson(rate[:, None] * SCALES, (len(theta), 4))
    inflated = np.where(rng.random((2, len(theta))) < share, rng.normal(rate, 0.5, (2, len(theta))), 0.0)
    rounded = np.round(2 * rng.normal(rate, 0.6)) / 2
    return np.column_stack([counts, *inflated, np.log1p(rng.poisson(2 * rate)), rounded])


def log_likelihoods(theta: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Exact log likelihood (8, n) of each of the eight outputs by itself; they are independent given theta."""
    rate, share = theta.T
    counts = stats.poisson.logpmf(x[:4, None], rate * SCALES[:, None])
    inflated = [np.log(share) + stats.norm.logpdf(v, rate, 0.5) if v != 0 else np.log1p(-share) for v in x[4:6]]
    edges = stats.norm.cdf([x[7] + 0.25, x[7] - 0.25], rate[:, None], 0.6)
    log_count = stats.poisson.logpmf(np.round(np.expm1(x[6])), 2 * rate)
    return np.vstack([counts, *inflated, log_count, np.log(edges @ [1, -1] + 1e-300)])


def diverge(exact: np.ndarray, found: np.ndarray) -> float:
    """Kullback-Leibler divergence (nats) of two log likelihoods on the grid."""
    exact, found = exact - logsumexp(exact), found - logsumexp(found)
    return float(np.sum(np.exp(exact) * (exact - found)))


def make_outputs(seed: int, pairs: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return simulate(PRIOR.sample(pairs, rng), rng)


def distances(posterior, seed: int, pairs: int = 60) -> np.ndarray:
    """Divergence (pairs,) from the exact posterior at fresh outputs."""
    x = make_outputs(seed, pairs)
    return np.array([diverge(log_likelihoods(GRID, one).sum(0), posterior.log_likelihood(GRID, one)) for one in x])


def loss_of_an_output(seed: int, pairs: int = 60) -> float:
    """Mean divergence of exact posteriors that know seven of the eight outputs, over all eight and the same outputs.

    What learning may cost: a posterior beyond this bound knows less than an exact one with an output fewer.
    """
    parts = [log_likelihoods(GRID, one) for one in make_outputs(seed, pairs)]
    return float(np.mean([[diverge(each.sum(0), each.sum(0) - lost) for lost in each] for each in parts]))


def standard_errors(gain: np.ndarray) -> float:
    """How many standard errors the mean gain (pairs,) is above zero."""
    return float(gain.mean() / (gain.std(ddof=1) / np.sqrt(len(gain))))


def table(n: int, rng: np.random.Generator) -> th.Simulations:
    theta = PRIOR.sample(n, rng)
    return th.Simulations.from_arrays(theta=theta, x=simulate(theta, rng))


def test_nle_of_counts_and_ties(seed, rng, monkeypatch):
    sims, bound = table(1500, rng), loss_of_an_output(seed)
    posterior = th.NLE(PRIOR).fit(sims, seed=seed)
    assert posterior.curve.stopped == "patience" and distances(posterior, seed).mean() < bound
    monkeypatch.setattr(standardise.Cells, "of", lambda x, log_weights: None)  # the mutant: outputs as they are
    assert distances(th.NLE(PRIOR).fit(sims, seed=seed), seed).mean() > bound


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "told"),
    [
        pytest.param(th.NSF(transforms=1, hidden=(32, 32)), False, id="NSF"),
        pytest.param(th.MAF(), True, id="MAF"),
        pytest.param(th.MixtureDensity(4), True, id="MixtureDensity"),
    ],
)
def test_other_networks_see_cells(network, told, seed, rng, monkeypatch):
    """Cells help each of them; the note that the default fits better is true. Differences at the same 300 outputs."""
    sims = table(1500, rng)
    posterior = th.NLE(PRIOR, network=network).fit(sims, seed=seed)
    found = distances(posterior, seed, pairs=300)
    assert any("8 outputs have ties" in note for note in posterior.notes) is told
    assert not told or standard_errors(found - distances(th.NLE(PRIOR).fit(sims, seed=seed), seed, pairs=300)) > 3
    monkeypatch.setattr(standardise.Cells, "of", lambda x, log_weights: None)  # the mutant: outputs as they are
    assert standard_errors(distances(th.NLE(PRIOR, network=network).fit(sims, seed=seed), seed, pairs=300) - found) > 3


def test_nre_of_counts_and_ties(seed, rng):
    """It has no density over x that could grow."""
    assert distances(th.NRE(PRIOR).fit(table(3000, rng), seed=seed), seed).mean() < loss_of_an_output(seed)


def test_a_likelihood_of_a_count_is_a_probability(seed, rng):
    """Poisson counts of a known rate: the learned probabilities of all counts sum to 1."""
    prior = th.Uniform(0.5, 4.0)
    theta = prior.sample(3000, rng)
    sims = th.Simulations.from_arrays(theta=theta, x=rng.poisson(theta).astype(float))
    posterior = th.NLE(prior).fit(sims, seed=seed)
    at = np.array([[1.0], [2.5]])
    log_p = np.array([posterior.log_likelihood(at, [float(k)]) for k in range(25)])
    np.testing.assert_allclose(np.exp(log_p).sum(0), 1, atol=0.1)
    exact = stats.poisson.pmf(np.arange(6)[:, None], at[:, 0])
    assert np.abs(np.exp(log_p[:6]) - exact).max() < 0.06  # 5 sd of 3,000 runs in about ten places
    evidence = posterior.log_evidence([2.0])
    marginal = stats.gamma(3).cdf([0.5, 4.0]) @ [-1, 1] / 3.5  # the integral of a Poisson probability over its rate
    assert evidence.over == ("probability",) and abs(np.exp(evidence.value) - marginal) < 0.06


def test_saved_and_loaded(seed, rng, tmp_path):
    posterior = th.NLE(PRIOR, training=th.Training(max_epochs=2)).fit(table(200, rng), seed=seed)
    posterior.save(tmp_path / "p")
    again, x = th.load_posterior(tmp_path / "p"), simulate(PRIOR.sample(1, rng), rng)[0]
    np.testing.assert_array_equal(again.log_likelihood(GRID, x), posterior.log_likelihood(GRID, x))


def test_which_outputs_have_cells(rng):
    n = 1000
    counts, normal = rng.poisson(3.0, n).astype(float), rng.standard_normal(n)
    inflated = np.where(rng.random(n) < 0.3, 0.0, normal)
    x = np.column_stack([counts, normal, inflated, np.log1p(counts), np.round(normal, 1), rng.integers(10**9, size=n)])
    cells = Cells.of(x, np.zeros(n))
    assert cells is not None
    assert cells.which.tolist() == [True, False, True, True, True, False]
    assert cells.step[0] == 1 and cells.step[1] == 0 == cells.step[2] and cells.step[3] == pytest.approx(0.1)
    assert cells.tied[1][np.isfinite(cells.tied[1])].tolist() == [0.0]
    assert Cells.of(normal[:, None], np.zeros(n)) is None


def test_cells_are_scores_with_their_share_of_probability(rng):
    x = np.where(rng.random(4000) < 0.3, 0.0, rng.standard_normal(4000))[:, None]
    cells = Cells.of(x, np.zeros(len(x)))
    assert cells is not None
    low, width = cells.probabilities(np.zeros((1, 1)))
    assert width[0, 0] == pytest.approx((x == 0).mean(), abs=1e-3)
    assert cells.probabilities(np.array([[0.5]]))[1] == 0  # between the ties nothing is drawn
    u = low + width * rng.random((4000, 1))
    z = torch.special.ndtri(torch.tensor(u)).numpy()[:, 0]
    scores = np.where(x[:, 0] == 0, z, cells.encode(x)[:, 0])
    assert stats.kstest(scores, "norm").pvalue > 1e-3
    assert (np.diff(cells.encode(np.linspace(-9, 9, 500)[:, None])[:, 0]) >= 0).all()


def test_steps():
    rng = np.random.default_rng(0)
    assert find_step(np.unique(np.round(rng.standard_normal(500), 2))) == pytest.approx(0.01)
    assert find_step(np.unique(2 * rng.integers(0, 50, 100)).astype(float)) == 2
    assert find_step(np.unique(rng.standard_normal(100))) == 0
