"""Networks and what goes into them: splines in one dimension, signals, sets, several observations, sbi's estimators."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import thrifty as th
from thrifty.inference.neural import direct_posterior as direct
from thrifty.inference.neural.training_settings import mark_held_out

sys.path.insert(0, str(Path(__file__).parent))
from linear_gaussian import POSTERIOR_SD, PRIOR, simulations

MDN = th.MixtureDensity(components=2, hidden=(32, 32))
QUICK = th.Training(patience=8, max_epochs=80)


def test_one_parameter_is_a_spline_not_a_gaussian(seed, rng):
    """x = theta² + noise with a skewed prior share: two unequal peaks, which a Gaussian cannot have."""
    prior = th.Uniform(-1.0, 2.0)
    theta = prior.sample(1500, rng)
    table = th.Simulations.from_arrays(theta=theta, x=theta**2 + 0.1 * rng.standard_normal((1500, 1)))
    network = th.NSF(transforms=2, hidden=(32, 32))
    posterior = th.NPE(prior, network=network, training=QUICK).fit(table, seed=seed)
    draws = posterior.sample(2000, [0.5], seed=seed)[:, 0]
    assert (np.abs(draws) < 0.4).mean() < 0.1  # a Gaussian of this mean and sd would put 40 % there
    assert 0.3 < (draws > 0).mean() < 0.7
    assert abs(np.abs(draws).mean() - np.sqrt(0.5)) < 0.05


def test_narrow_posteriors_are_found(seed, rng, tmp_path):
    """A posterior a thousandth of the prior wide, from 1,000 runs: place and width, in the middle and at an end."""
    prior = th.Uniform(100.0, 1000.0)
    theta = prior.sample(1000, rng)
    table = th.Simulations.from_arrays(theta=theta, x=theta + rng.standard_normal((1000, 1)))
    method = th.NPE(prior, network=th.NSF(transforms=1, hidden=(32, 32)), training=QUICK)
    posterior = method.fit(table, seed=seed)
    draws = posterior.sample(1000, [400.0], seed=seed)
    # the regression's own noise: 4 to 8 functions of 7 numbers on 900 runs is a quarter of an sd
    assert abs(draws.mean() - 400) < 0.5 and 0.8 < draws.std() < 1.25
    end = posterior.sample(1000, [100.5], seed=seed)
    assert end.min() >= 100 and end.mean() < 103 and end.std() < 2
    grid = np.linspace(350, 450, 4001)
    assert np.exp(posterior.log_prob(grid, [400.0])).sum() * 0.025 == pytest.approx(1, abs=0.02)
    posterior.save(tmp_path / "p")
    again = th.load_posterior(tmp_path / "p")
    np.testing.assert_array_equal(again.sample(20, [400.0]), posterior.sample(20, [400.0]))


def test_a_narrow_posterior_at_the_ends_of_its_prior(seed, rng):
    """x = theta + 0.01 noise on [0, 1]: truncated normals, within half an sd even where they are cut."""
    prior = th.Uniform(0.0, 1.0)
    theta = prior.sample(2000, rng)
    table = th.Simulations.from_arrays(theta=theta, x=theta + 0.01 * rng.standard_normal((2000, 1)))
    posterior = th.NPE(prior, network=th.NSF(transforms=1, hidden=(32, 32)), training=QUICK).fit(table, seed=seed)
    for x, most in ((0.2, 0.2), (0.5, 0.2), (0.005, 1.0), (1.0, 1.0)):
        exact = stats.truncnorm(-x / 0.01, (1 - x) / 0.01, loc=x, scale=0.01)
        draws = posterior.sample(2000, [x], seed=seed)
        assert abs(draws.mean() - exact.mean()) < (most + 5 / np.sqrt(2000)) * exact.std()
        assert 0.7 < draws.std() / exact.std() < 1.5


def test_atomic_and_a_narrow_parameter_warn(seed, rng):
    prior = th.Uniform([0.0, 0.0], [1.0, 1.0])
    theta = prior.sample(400, rng)
    table = th.Simulations.from_arrays(theta=theta, x=theta + np.array([1e-3, 0.3]) * rng.standard_normal((400, 2)))
    method = th.NPE(prior, network=MDN, correction="atomic", training=th.Training(max_epochs=2))
    with pytest.warns(th.ThriftyWarning, match="poor-training"):
        method.fit(table, seed=seed)


def test_weightless_held_out_runs_are_told(rng):
    index = np.arange(300)
    log_weights = np.where(mark_held_out(index, 0.1), -200.0, 0.0)
    theta = PRIOR.sample(300, rng)
    table = th.Simulations.from_arrays(theta=theta, x=theta + rng.standard_normal((300, 1)), log_weights=log_weights)
    with pytest.raises(th.ThriftyError, match="held-out runs carry no weight"):
        th.NPE(PRIOR, network=MDN, training=QUICK).fit(table, seed=0)


def test_several_observations_multiply_likelihoods(seed, rng):
    """r observations: the posterior is N(sum x / (1 + r), 1 / (1 + r))."""
    posterior = th.NLE(PRIOR, network=MDN, training=QUICK).fit(simulations(2000, rng, k=0.5), seed=seed)
    x_o = np.array([[0.2], [0.9], [0.4], [0.5]])
    drawn = posterior.draw(2000, x_o, seed=seed)
    assert abs(drawn.samples.mean() - 2.0 / 5) < 0.15 * np.sqrt(1 / 5) + 5 * np.sqrt(1 / 5 / drawn.ess[0])
    assert drawn.samples.std() == pytest.approx(np.sqrt(1 / 5), rel=0.15)
    one = posterior.log_likelihood([[0.3]], x_o[:1]) + posterior.log_likelihood([[0.3]], x_o[1:])
    np.testing.assert_allclose(posterior.log_likelihood([[0.3]], x_o), one, rtol=1e-6)


def test_sets_of_any_size_in_any_order(seed, rng):
    """NPE with a permutation-invariant embedding, trained on m = 6, right for 1 and for 5."""
    method = th.NPE(PRIOR, network=MDN, embedding=th.SetEmbedding(8, (32, 32)), training=QUICK)
    posterior = method.fit(simulations(2500, rng, k=0.5, m=6), seed=seed)
    x_o = np.array([[0.2], [0.9], [0.4], [0.5], [-0.1]])
    for r in (1, 5):
        draws = posterior.sample(2000, x_o[:r], seed=seed)
        assert abs(draws.mean() - x_o[:r].sum() / (1 + r)) < 0.3 * np.sqrt(1 / (1 + r))
        assert draws.std() == pytest.approx(np.sqrt(1 / (1 + r)), rel=0.2)
    np.testing.assert_allclose(
        posterior.log_prob([[0.1]], x_o), posterior.log_prob([[0.1]], x_o[::-1].copy()), rtol=1e-4
    )


@pytest.mark.parametrize("own", [False, True], ids=["recipe", "module"])
def test_a_signal_of_801_points(own, seed, rng, tmp_path):
    prior = th.Uniform([1.0, 0.5], [2.0, 2.0], names=["frequency", "height"])
    theta, t = prior.sample(400, rng), np.linspace(0, 2 * np.pi, 801)
    x = theta[:, 1:] * np.sin(theta[:, :1] * t) + 0.1 * rng.standard_normal((400, 801))
    table = th.Simulations.from_arrays(theta=theta, x=x)
    embedding = th.SignalEmbedding(8, (4, 8))
    if own:
        embedding = torch.nn.Sequential(torch.nn.Linear(801, 16), torch.nn.SiLU(), torch.nn.Linear(16, 8))
    method = th.NPE(prior, network=MDN, embedding=embedding, training=th.Training(max_epochs=40))
    posterior = method.fit(table, seed=seed)
    spread = np.mean([posterior.sample(300, x[i], seed=seed).std(0) for i in range(8)], axis=0)
    assert (spread < 0.8 * prior.sample(1000, rng).std(0)).all()  # it learned something of each
    posterior.save(tmp_path / "p")
    if own:
        with pytest.raises(th.ThriftyError, match="trained with a embedding of your own") as caught:
            th.load_posterior(tmp_path / "p")
        assert caught.value.code == "code-not-saved"
    again = th.load_posterior(tmp_path / "p", embedding=embedding if own else None)
    np.testing.assert_array_equal(again.sample(20, x[7], seed=1), posterior.sample(20, x[7], seed=1))


@pytest.mark.parametrize("embedding", [object(), torch.nn.Linear(3, 2), torch.nn.Flatten(0)])
def test_unusable_embeddings(embedding, rng):
    with pytest.raises(th.ThriftyError, match="embedding") as caught:
        th.NPE(PRIOR, embedding=embedding).fit(simulations(100, rng), seed=0)
    assert caught.value.code == "bad-setting"


def test_leakage_is_reported_and_divided_out(seed, rng):
    """An affine flow leaves the box; draws do not, and the density integrates to 1 inside."""
    prior = th.Uniform(0.0, 1.0)
    theta = prior.sample(500, rng)
    table = th.Simulations.from_arrays(theta=theta, x=theta + 0.5 * rng.standard_normal((500, 1)))
    posterior = th.NPE(prior, network=th.MAF(2, (16,)), training=th.Training(max_epochs=30)).fit(table, seed=seed)
    drawn = posterior.draw(3000, [0.9], seed=seed)
    assert 0.3 < drawn.acceptance < 0.99
    assert drawn.acceptance == pytest.approx(posterior.acceptance([0.9]), abs=5 * np.sqrt(0.25 / 3000))
    grid = np.linspace(0, 1, 2001)[1::2]
    assert np.exp(posterior.log_prob(grid, [0.9])).mean() == pytest.approx(1, abs=0.02)
    raw = np.exp(posterior.log_density(grid, np.full((1000, 1), 0.9))).mean()
    assert raw == pytest.approx(posterior.acceptance([0.9]), abs=0.02)  # without the division the mass is missing
    splines = th.NPE(prior, training=th.Training(max_epochs=2)).fit(table, seed=seed)
    assert splines.draw(100, [1.0]).acceptance == 1.0 == splines.acceptance([1.0])


def test_sampling_never_hangs(seed, rng, monkeypatch):
    monkeypatch.setattr(direct, "MAX_CANDIDATES", 2000)
    posterior = th.NPE(PRIOR, network=MDN, training=th.Training(max_epochs=5)).fit(simulations(200, rng), seed=seed)
    elsewhere = direct.DirectPosterior(th.Uniform(50.0, 51.0), posterior.trained)
    with pytest.raises(th.ThriftyError, match=r"only 0 of \d+ network draws lie in the prior's support") as caught:
        elsewhere.sample(10, [0.0])
    assert caught.value.code == "outside-prior"


def failing(n: int, rng: np.random.Generator) -> th.Simulations:
    """x is NaN with probability 1 / (1 + exp(-2 theta)): large theta fails more often."""
    theta = rng.standard_normal((n, 1))
    x = theta + rng.standard_normal((n, 1))
    x[rng.random(n) < 1 / (1 + np.exp(-2 * theta[:, 0]))] = np.nan
    return th.Simulations.from_arrays(theta=theta, x=x)


@pytest.mark.parametrize("method", [th.NLE, th.NRE])
def test_failed_runs_are_refused_above_the_gate(method, rng):
    with pytest.raises(
        th.ThriftyError, match=r"\d+ of 400 runs failed \(\d+ invalid\): \d+.\d+% of the prior mass"
    ) as got:
        method(PRIOR).fit(failing(400, rng), seed=0)
    assert got.value.code == "too-many-failures" and 'failures="model"' in got.value.fix


def test_learned_validity_is_multiplied_in(seed, rng):
    sims = failing(4000, rng)
    posterior = th.NLE(PRIOR, network=MDN, training=QUICK, failures="model").fit(sims, seed=seed)
    theta = np.linspace(-1.5, 1.5, 7)[:, None]
    learned = posterior.valid.log_prob(torch.tensor(posterior.trained.frame.encode_theta(theta))).exp().detach().numpy()
    truth = 1 / (1 + np.exp(2 * theta[:, 0]))
    assert np.abs(learned - truth).max() < 5 * np.sqrt(0.25 / 400)  # about 400 runs near each point
    grid = np.linspace(-5, 5, 2001)
    density = np.exp(-0.5 * grid**2 - 0.5 * (0.5 - grid) ** 2) / (1 + np.exp(2 * grid))
    drawn = posterior.draw(2000, [0.5], seed=seed)
    assert abs(drawn.samples.mean() - np.average(grid, weights=density)) < 0.12
    without = posterior.__class__(posterior.prior, posterior.trained).sample(2000, [0.5], seed=seed)
    assert without.mean() - np.average(grid, weights=density) > 0.2  # the mutant that ignores failures


def test_npe_drops_invalid_outputs_and_says_so(rng):
    posterior = th.NPE(PRIOR, network=MDN, training=th.Training(max_epochs=2)).fit(failing(400, rng), seed=0)
    assert "runs failed" in posterior.notes[0]
    sims = simulations(400, rng)
    status = np.where(sims.theta[:, 0] > -0.5, "timeout", "ok")
    lost = th.Simulations(theta=sims.theta, x=sims.x, log_weights=sims.log_weights, status=status)
    with pytest.warns(th.ThriftyWarning, match="too-many-failures.*conditional on runs that finish"):
        th.NPE(PRIOR, network=MDN, training=th.Training(max_epochs=2)).fit(lost, seed=0)


def test_map_start_agrees(seed, rng):
    posterior = th.NLE(PRIOR, network=MDN, training=QUICK).fit(simulations(1500, rng, k=0.5), seed=seed)
    a, b = (posterior.draw(2000, [0.6], seed=seed, start=s) for s in ("resample", "map"))
    se = POSTERIOR_SD * np.sqrt(1 / a.ess[0] + 1 / b.ess[0])
    assert abs(a.samples.mean() - b.samples.mean()) < 5 * se


def test_ensembles_average_densities(seed, rng):
    method = th.NPE(PRIOR, network=MDN, training=th.Training(max_epochs=5))
    posterior = th.Ensemble(method, members=3).fit(simulations(300, rng), seed=seed)
    theta = np.linspace(-1, 1, 5)
    each = [np.exp(member.log_prob(theta, [0.2])) for member in posterior.members]
    np.testing.assert_allclose(np.exp(posterior.log_prob(theta, [0.2])), np.mean(each, axis=0), rtol=1e-9)
    assert not np.allclose(each[0], each[1])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_sbi_estimators_are_accepted(seed, rng, tmp_path):
    nets = pytest.importorskip("sbi.neural_nets")
    sims = simulations(1000, rng, k=0.5)
    for method in (
        th.NPE(PRIOR, network=nets.posterior_nn("mdn"), training=QUICK),
        th.NPE(PRIOR, network=nets.posterior_nn("mdn")(torch.randn(50, 1), torch.randn(50, 2)), training=QUICK),
        th.NLE(PRIOR, network=nets.likelihood_nn("mdn"), training=QUICK),
        th.NRE(PRIOR, network=nets.classifier_nn("mlp"), training=QUICK),
    ):
        posterior = method.fit(sims, seed=seed)
        assert abs(posterior.sample(1000, [0.5], seed=seed).mean() - 0.25) < 0.25
        posterior.save(tmp_path / "p")
        with pytest.raises(th.ThriftyError, match="network of your own"):
            th.load_posterior(tmp_path / "p")
        again = th.load_posterior(tmp_path / "p", network=method.network)
        theta = np.linspace(-1, 1, 5)
        np.testing.assert_array_equal(again.log_prob(theta, [0.5]), posterior.log_prob(theta, [0.5]))
