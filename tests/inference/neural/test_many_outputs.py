"""NLE with more than ten outputs: each keeps its own best epoch, so that useless outputs do not stop the others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp

import thrifty as th
from thrifty.inference.neural import nle
from thrifty.inference.neural.modules.members import MembersNet

PRIOR = th.Normal([0.0, 0.0], [1.0, 1.0])
DESIGN = np.array([[1.0, 0.5], [0.5, 1.0], [1.0, -1.0], [0.3, 0.3]])
NOISE, USELESS = 0.4, 20
COVARIANCE = np.linalg.inv(np.eye(2) + DESIGN.T @ DESIGN / NOISE**2)
AXIS = np.linspace(-1.5, 1.5, 25)  # six posterior sds on each side
AROUND = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), -1).reshape(-1, 2)


def make_runs(n, rng, useless=USELESS):
    """Four outputs that know two parameters, and others that are noise."""
    theta = PRIOR.sample(n, rng)
    x = theta @ DESIGN.T + NOISE * rng.standard_normal((n, 4))
    return th.Simulations.from_arrays(theta=theta, x=np.hstack([x, rng.standard_normal((n, useless))]))


def divergences(posterior, x):
    """Kullback-Leibler divergence (n,) of the exact posterior at outputs x from the learned one, around its mean."""
    exact = stats.multivariate_normal(np.zeros(2), COVARIANCE).logpdf(AROUND)
    exact, out = exact - logsumexp(exact), np.empty(len(x))
    for i, one in enumerate(x):
        points = one[:4] @ DESIGN @ COVARIANCE / NOISE**2 + AROUND
        found = PRIOR.log_prob(points) + posterior.log_likelihood(points, one)
        out[i] = np.exp(exact) @ (exact - found + logsumexp(found))
    return out


def test_useless_outputs_cost_less(seed, rng, monkeypatch):
    """Three tables of 200 runs, and the mutant: one epoch for all outputs."""
    found, of_mutant = [], []
    for i in range(3):
        runs, x = make_runs(200, rng), make_runs(50, rng).x
        found.append(divergences(th.NLE(PRIOR).fit(runs, seed=seed + i), x))
        with monkeypatch.context() as mutant:
            mutant.setattr(nle, "MANY_OUTPUTS", 1_000)
            of_mutant.append(divergences(th.NLE(PRIOR).fit(runs, seed=seed + i), x))
    gain = np.concatenate(of_mutant) - np.concatenate(found)
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain))
    assert np.mean(found) < 1  # nat; the prior is 2.7 from the exact posterior


def test_the_parts_of_the_outputs_add_up(seed):
    torch.manual_seed(seed % 1000)
    for affine in (True, False):
        recipe = th.AutoregressiveMixture(members=2, hidden=(8,), affine=affine, forward=True)
        net = MembersNet(recipe, 3, 2)
        y, c = torch.randn(20, 3), torch.randn(20, 2)
        parts = net.log_prob_outputs(y, c)
        assert parts.shape == (6, 20)
        torch.testing.assert_close(parts.unflatten(0, (2, 3)).sum(1), net.log_prob_members(y, c))


@pytest.mark.parametrize("members", [1, 2])
def test_training_by_output_goes_on_from_a_checkpoint_and_is_kept(members, seed, rng, tmp_path):
    runs, network = make_runs(100, rng, useless=8), th.AutoregressiveMixture(members=members, hidden=(32,))

    def fit(epochs, name):
        training = th.Training(cycle=40, learning_rate=0.02, max_epochs=epochs, checkpoint=tmp_path / name)
        return th.NLE(PRIOR, network=network, training=training).fit(runs, seed=seed)

    fit(6, "a")
    resumed, whole = fit(40, "a"), fit(40, "b")
    at = runs.theta[:5], runs.x[0]
    assert np.array_equal(resumed.log_likelihood(*at), whole.log_likelihood(*at))
    assert len(whole.curve.members) == members and min(whole.curve.members) < whole.curve.best
    whole.save(tmp_path / "posterior")
    assert np.array_equal(th.load_posterior(tmp_path / "posterior").log_likelihood(*at), whole.log_likelihood(*at))


@pytest.mark.parametrize(
    ("outputs", "rounded", "network", "apart"),
    [
        (11, False, th.AutoregressiveMixture(hidden=(4,)), True),
        (10, False, th.AutoregressiveMixture(hidden=(4,)), False),
        (11, True, th.AutoregressiveMixture(hidden=(4,)), False),  # ties: the held-out loss does not tell
        (11, False, th.MixtureDensity(1, hidden=(4,)), False),
    ],
)
def test_when_outputs_are_apart(outputs, rounded, network, apart, rng):
    runs = make_runs(100, rng, useless=outputs - 4)
    x = np.round(runs.x) if rounded else runs.x
    runs = th.Simulations.from_arrays(theta=runs.theta, x=x)
    posterior = th.NLE(PRIOR, network=network, training=th.Training(cycle=2)).fit(runs, seed=0)
    assert posterior.trained.net.by_output is apart
