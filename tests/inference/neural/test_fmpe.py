"""Flow matching: its ODE, its density, exact weighted posteriors, and sbi's fields."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
import linear_gaussian as lg

import thrifty as th
from thrifty.inference.neural.modules.flow_matching import FlowMatchingNet, integrate, integrate_back
from thrifty.inference.neural.networks import make_generator


def gaussian_field(place: float, width: float):
    """The exact field from N(0, 1) to N(place, width²) along straight ways."""

    def field(y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        variance = (1 - t) ** 2 + (t * width) ** 2
        return place + (t * width**2 - (1 - t)) / variance * (y - t * place)

    return field


def test_the_flow_of_a_known_field_is_exact():
    y = torch.randn(2000, 2, generator=make_generator(0), dtype=torch.float64)
    end = integrate(gaussian_field(1.5, 0.1), y, 0.0, 1.0)
    torch.testing.assert_close(end, 1.5 + 0.1 * y, atol=1e-3, rtol=0)
    start, volume = integrate_back(gaussian_field(1.5, 0.1), end, 1.0, 0.0)
    torch.testing.assert_close(start, y, atol=1e-2, rtol=0)
    torch.testing.assert_close(volume, torch.full((2000,), -2 * math.log(0.1), dtype=torch.float64), atol=1e-2, rtol=0)


def test_the_loss_is_least_at_the_exact_field():
    """Of fields around the exact one of N(0.5, 0.3²), the exact one has the least mean loss."""
    y = 0.5 + 0.3 * torch.randn(20_000, 1, generator=make_generator(1))
    net, losses = FlowMatchingNet(th.FlowMatching((4,)), 1, 1), {}
    for place, width in ((0.5, 0.3), (0.6, 0.3), (0.4, 0.3), (0.5, 0.36), (0.5, 0.25)):
        exact = gaussian_field(place, width)
        net.field = lambda z, t, c, exact=exact: exact(z, t[:, None])
        losses[place, width] = float(net.loss(y, torch.zeros(20_000, 1), make_generator(2)).mean())
    assert min(losses, key=losses.__getitem__) == (0.5, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["kept", "mutant: forgotten", "mutant: squared"])
def test_weighted_posterior(weights, rng):
    """Theta ~ N(0, 1) drawn from N(-1, 1): the posterior is N(x/2, 1/2); without weights it is half a unit low."""
    runs = lg.simulations(4000, rng)
    factor = {"kept": 1.0, "mutant: forgotten": 0.0, "mutant: squared": 2.0}[weights]
    posterior = th.FMPE(lg.PRIOR).fit(runs.reweighted(factor * runs.log_weights), seed=0)
    errors = [posterior.sample(2000, [x], seed=1).mean() - x / 2 for x in (-1.0, 0.0, 1.0)]
    spreads = [posterior.sample(2000, [x], seed=2).std() / lg.POSTERIOR_SD for x in (-1.0, 0.0, 1.0)]
    # the network's error is allowed 0.2 units of the posterior's 0.7: 4,000 runs count as 1,500
    assert (abs(np.mean(errors)) < 0.2) == (weights == "kept")
    if weights == "kept":
        assert 0.85 < np.mean(spreads) < 1.15


def test_a_score_warns_and_a_field_does_not(rng, recwarn):
    factory = pytest.importorskip("sbi.neural_nets")
    runs, short = lg.simulations(200, rng), th.Training(max_epochs=1)
    th.FMPE(lg.PRIOR, network=factory.posterior_flow_nn(), training=short).fit(runs, seed=0)
    assert not [w for w in recwarn if issubclass(w.category, th.ThriftyWarning)]
    with pytest.warns(th.ThriftyWarning, match="score estimator is learned less exactly"):
        th.FMPE(lg.PRIOR, network=factory.posterior_score_nn(), training=short).fit(runs, seed=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*score estimator:thrifty.ThriftyWarning")
@pytest.mark.parametrize("build", ["posterior_flow_nn", "posterior_score_nn"])
def test_fields_of_sbi(build, rng, tmp_path):
    factory = pytest.importorskip("sbi.neural_nets")
    network = getattr(factory, build)()
    runs = lg.simulations(2000, rng)
    small_steps = th.Training(learning_rate=5e-4, batch=100, patience=40)  # without them a score is off by 0.9 sd
    training = small_steps if build == "posterior_score_nn" else th.Training(patience=30)
    posterior = th.FMPE(lg.PRIOR, network=network, training=training).fit(runs, seed=0)
    draws = posterior.sample(1000, [1.0], seed=1)
    grid = np.linspace(-4, 5, 400)[:, None]
    density = np.exp(posterior.log_prob(grid, [1.0]))
    assert density.sum() * (grid[1, 0] - grid[0, 0]) == pytest.approx(1, abs=0.05)
    mean = density @ grid[:, 0] / density.sum()
    sd = np.sqrt(density @ (grid[:, 0] - mean) ** 2 / density.sum())
    assert abs(draws.mean() - mean) < 5 * sd / np.sqrt(1000) and abs(draws.std() / sd - 1) < 5 / np.sqrt(2000)
    if build == "posterior_flow_nn":  # a score is not exact enough to be judged: thrifty warns
        assert abs(draws.mean() - 0.5) < 0.25 * lg.POSTERIOR_SD and 0.75 < draws.std() / lg.POSTERIOR_SD < 1.25
    posterior.save(tmp_path / "p")
    again = th.load_posterior(tmp_path / "p", network=network)
    np.testing.assert_allclose(again.log_prob(grid, [1.0]), posterior.log_prob(grid, [1.0]), rtol=1e-5, atol=1e-5)
