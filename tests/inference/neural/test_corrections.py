"""Every way to use cost-aware simulations reaches the posterior under the prior; forgetting the weights does not."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import thrifty as th

sys.path.insert(0, str(Path(__file__).parent))
from linear_gaussian import POSTERIOR_SD, PRIOR, simulations

SMALL = th.MixtureDensity(components=2, hidden=(32, 32))
QUICK = th.Training(patience=10, max_epochs=100)
METHODS = {
    "NPE weights": th.NPE(PRIOR, network=SMALL, training=QUICK),
    "NPE after": th.NPE(PRIOR, network=SMALL, training=QUICK, correction="after"),
    "NPE atomic": th.NPE(PRIOR, network=SMALL, training=QUICK, correction="atomic"),
    "NLE": th.NLE(PRIOR, network=SMALL, training=QUICK),
    "NLE weighted": th.NLE(PRIOR, network=SMALL, training=QUICK, weighted=True),
    "NRE": th.NRE(PRIOR, training=QUICK),
    "NRE weighted": th.NRE(PRIOR, training=QUICK, weighted=True),
}
POINTS = (-1.0, -0.25, 0.5)


def shift(method, sims: th.Simulations, seed: int) -> float:
    """Mean over observations of (posterior mean − truth), in standard errors of the pool: sd / sqrt(ESS)."""
    posterior = method.fit(sims, seed=seed)
    errors = [posterior.sample(1000, [x], seed=seed).mean() - x / 2 for x in POINTS]
    return float(np.mean(errors) / (POSTERIOR_SD / np.sqrt(th.ess(simulations_weights(sims)))))


def simulations_weights(sims: th.Simulations) -> np.ndarray:
    return sims.proposal.log_weight(sims.theta)


@pytest.mark.parametrize("name", METHODS)
def test_posterior_mean_is_right(name, seed, rng):
    assert abs(shift(METHODS[name], simulations(3000, rng, k=1.0), seed)) < 5


@pytest.mark.parametrize("name", ["NPE weights", "NPE after"])
def test_forgetting_the_weights_is_seen(name, seed, rng):
    sims = simulations(3000, rng, k=1.0)
    flat = sims.reweighted(np.zeros(len(sims)), proposal=sims.proposal)
    assert shift(METHODS[name], flat, seed) < -10  # it learns the posterior under N(-1, 1): mean lower by 1/2


def test_squared_weights_are_seen(seed, rng):
    sims = simulations(3000, rng, k=1.0)
    squared = sims.reweighted(2 * sims.log_weights, proposal=sims.proposal)
    assert shift(METHODS["NPE weights"], squared, seed) > 10


def test_weighting_only_the_loss_of_nre_is_seen(seed, rng, monkeypatch):
    """Without the weights inside the scores, log w enters the ratio and the posterior moves by a k / 2."""
    honest = th.NRE._loss
    wrong = staticmethod(lambda net, rows, g: honest(net, (rows[0], rows[1], 0 * rows[2]), g))
    monkeypatch.setattr(th.NRE, "_loss", wrong)
    assert shift(METHODS["NRE weighted"], simulations(3000, rng, k=1.0), seed) > 8


def test_after_needs_a_weight_function(rng):
    sims = simulations(200, rng)
    numbers = sims.reweighted(sims.log_weights)
    with pytest.raises(th.ThriftyError, match="needs the weight of any theta") as caught:
        METHODS["NPE after"].fit(numbers, seed=0)
    assert caught.value.code == "bad-weights"


def test_local_ess_is_reported(seed, rng):
    sims = simulations(1000, rng, k=0.5)
    posterior = METHODS["NPE after"].fit(sims, seed=seed)
    drawn = posterior.draw(2000, [0.5], seed=seed)
    # weights exp(theta/2) over a posterior of variance 1/2: ESS/n = exp(-1/8)
    assert abs(drawn.local_ess - np.exp(-1 / 8)) < 0.03
    assert posterior.draw(10, [0.5]).acceptance == 1.0
