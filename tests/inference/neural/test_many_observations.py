"""Draws and densities at many observations in one call agree with one call for each."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import thrifty as th
from thrifty.diagnostics.replicates import replicate

sys.path.insert(0, str(Path(__file__).parent))
from linear_gaussian import POSTERIOR_SD, PRIOR, simulations

X = np.linspace(-2.0, 2.0, 40)[:, None]
QUICK = th.Training(max_epochs=60)


def posteriors(rng) -> dict[str, object]:
    sims, box = simulations(1000, rng, k=0.5), th.Uniform(0.0, 1.0)
    theta = box.sample(400, rng)
    narrow = th.Simulations.from_arrays(theta=theta, x=theta + 0.5 * rng.standard_normal((400, 1)))
    return {
        "npe": th.NPE(PRIOR, training=QUICK).fit(sims, seed=0),
        "after": th.NPE(PRIOR, correction="after", training=QUICK).fit(sims, seed=0),
        "leaking": th.NPE(box, network=th.MAF(2, (16,)), training=QUICK).fit(narrow, seed=0),
        "nle": th.NLE(PRIOR, training=QUICK).fit(sims, seed=0),
        "nre": th.NRE(PRIOR, training=QUICK).fit(sims, seed=0),
    }


def test_the_same_posteriors_as_one_by_one(seed, rng):
    for name, posterior in posteriors(rng).items():
        x = X if name != "leaking" else np.linspace(0.1, 0.9, 40)[:, None]
        many = posterior.sample_batched(200, x, seed=seed)
        assert many.shape == (40, 200, 1)
        np.testing.assert_array_equal(many, posterior.sample_batched(200, x, seed=seed))
        for i in (0, 13, 39):
            one = posterior.sample(2000, x[i], seed=seed)
            off = (many[i].mean() - one.mean()) / (one.std() * np.sqrt(1 / 100 + 1 / 1000))
            assert abs(off) < 5, (name, i)
            assert 0.7 < many[i].std() / one.std() < 1.4, (name, i)
        points = rng.normal(0.5, 0.1, (40, 3, 1)) if name == "leaking" else rng.normal(X[:, None], 0.5, (40, 3, 1))
        together = posterior.log_prob_batched(points, x)
        alone = np.stack([posterior.log_prob(p, o) for p, o in zip(points, x, strict=True)])
        np.testing.assert_allclose(together, alone, atol=1e-4)


@pytest.mark.parametrize("method", [th.NLE, th.NRE])
def test_draws_are_those_of_the_exact_posterior(method, seed, rng):
    """Means and widths over forty observations; the mutant forgets the data of each."""
    posterior = method(PRIOR, training=QUICK).fit(simulations(3000, rng, k=0.5), seed=seed)
    draws = posterior.sample_batched(200, X, seed=seed)[..., 0]
    off = (draws.mean(1) - X[:, 0] / 2) / POSTERIOR_SD
    assert np.abs(off).mean() < 0.15 and abs(draws.std(1).mean() / POSTERIOR_SD - 1) < 0.1
    mutant = posterior.sample_batched(200, np.roll(X, 20, axis=0), seed=seed)[..., 0]
    assert np.abs((mutant.mean(1) - X[:, 0] / 2) / POSTERIOR_SD).mean() > 0.5


def test_evidences_of_many_are_those_of_one(seed, rng):
    posterior = th.NLE(PRIOR, training=QUICK).fit(simulations(1000, rng, k=0.5), seed=seed)
    alone = np.array([posterior.log_prob([[0.2]], x)[0] for x in X[::10]])
    again = type(posterior)(posterior.prior, posterior.trained)
    together = again.log_prob_batched(np.full((4, 1, 1), 0.2), X[::10])[:, 0]
    np.testing.assert_allclose(together, alone, atol=5 * 0.05)


def test_separate_peaks_keep_their_share(seed, rng):
    """x = theta² + noise: two peaks, of which differences of walkers reach both."""
    prior = th.Uniform(-1.0, 1.0)
    theta = prior.sample(2000, rng)
    table = th.Simulations.from_arrays(theta=theta, x=theta**2 + 0.05 * rng.standard_normal((2000, 1)))
    posterior = th.NLE(prior, training=QUICK).fit(table, seed=seed)
    draws = posterior.sample_batched(200, np.full((30, 1), 0.4), seed=seed)[..., 0]
    assert abs((draws > 0).mean() - 0.5) < 0.1 and abs(np.abs(draws).mean() - np.sqrt(0.4)) < 0.05


def test_calibration_takes_the_batch(seed, rng):
    posterior = th.NLE(PRIOR, training=QUICK).fit(simulations(500, rng, k=0.5), seed=seed)
    found = replicate(posterior, simulations(60, rng, k=0.5), draws=20, seed=seed)
    assert found.draws.shape == (60, 20, 1) and np.isfinite(found.density).all()
