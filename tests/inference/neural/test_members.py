"""The default network: members that learn side by side, their mean, their own early stopping, files and resuming."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import thrifty as th
from thrifty.inference.neural.modules.members import MembersNet
from thrifty.inference.neural.networks import make_generator
from thrifty.inference.neural.recipes import AutoregressiveMixture
from thrifty.inference.neural.training_settings import TrainingCurve, assign_folds, mark_held_out

sys.path.insert(0, str(Path(__file__).parent))
from linear_gaussian import POSTERIOR_SD, PRIOR, simulations

SMALL = AutoregressiveMixture(members=3, components=3, hidden=(16, 16))


def numbers(posterior) -> np.ndarray:
    return np.concatenate([v.numpy().ravel() for v in posterior.trained.net.state_dict().values()])


def grid_mass(net: MembersNet, c: torch.Tensor) -> float:
    axis = torch.linspace(-12, 12, 401)
    y = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    with torch.no_grad():
        return float(net.log_prob(y, c.expand(len(y), -1)).exp().sum() * 0.06**2)


@pytest.mark.parametrize("affine", [True, False])
def test_the_density_is_the_mean_of_members_and_of_its_draws(affine):
    torch.manual_seed(0)
    net = MembersNet(AutoregressiveMixture(members=4, components=3, hidden=(8, 8), affine=affine), 2, 3)
    c = torch.randn(1, 3)
    assert grid_mass(net, c) == pytest.approx(1, abs=0.01)
    y, rows = torch.randn(50, 2), torch.randn(50, 3)
    each = net.log_prob_members(y, rows)
    assert each.shape == (4, 50) and float(each.detach().std(0).min()) > 0
    torch.testing.assert_close(net.log_prob(y, rows), torch.logsumexp(each, 0) - np.log(4))
    with torch.no_grad():
        draws = net.sample(c.expand(20_000, -1), make_generator(1))
        other = net.sample(c.repeat(20_000, 1), make_generator(2))  # rows that are not one repeated
    value = torch.exp(net.log_prob(draws, c.expand(20_000, -1))).detach()
    near = ((draws - draws[0]).abs() < 0.25).all(1).float().mean()
    assert float(near) == pytest.approx(float(value[0]) * 0.25, abs=0.3 * float(value[0]) * 0.25 + 0.01)
    for a, b in ((draws.mean(0), other.mean(0)), (draws.std(0), other.std(0))):
        assert float((a - b).abs().max()) < 5 * float(draws.std()) * np.sqrt(2 / 20_000) * 2


@pytest.mark.parametrize("affine", [True, False])
def test_kept_members_are_as_before(affine, seed):
    torch.manual_seed(seed)
    net = MembersNet(AutoregressiveMixture(members=3, hidden=(8,), affine=affine), 2, 1)
    y, c = torch.randn(20, 2), torch.randn(20, 1)
    before = net.log_prob_members(y, c).detach()
    net.keep((0, 2))
    assert torch.allclose(net.log_prob_members(y, c), before[[0, 2]], atol=1e-6)
    assert torch.allclose(net.log_prob(y, c), torch.logsumexp(before[[0, 2]], 0) - np.log(2), atol=1e-6)
    assert net.sample(c, make_generator(0)).shape == (20, 2)


def test_a_member_that_did_not_learn_is_dropped(seed, rng, tmp_path, monkeypatch):
    monkeypatch.setattr(TrainingCurve, "choose_members", lambda self, held_out: (0, 2))
    method = th.NLE(PRIOR, network=SMALL, training=th.Training(cycle=5))
    posterior = method.fit(simulations(300, rng), seed=seed)
    assert posterior.trained.network.members == 2 and len(posterior.curve.members) == 3
    posterior.save(tmp_path / "p")
    again = th.load_posterior(tmp_path / "p")
    assert np.array_equal(numbers(again), numbers(posterior)) and again.curve == posterior.curve
    assert again.log_likelihood([[0.2]], [0.3]) == posterior.log_likelihood([[0.2]], [0.3])


def test_each_place_sees_only_those_before(seed):
    torch.manual_seed(seed % 1000)
    net = MembersNet(SMALL, 3, 2)
    y, c = torch.randn(1, 5, 3), torch.randn(1, 5, 2)
    changed = y.clone()
    changed[..., 0] += 1  # the first for the affine layer, the last for the mixture
    assert net.affine is not None
    torch.testing.assert_close(net.affine(y, c)[:, 0], net.affine(changed, c)[:, 0])
    assert not torch.allclose(net.affine(y, c)[:, 1], net.affine(changed, c)[:, 1])
    torch.testing.assert_close(net.mixture(y, c), net.mixture(changed, c))


def test_same_seed_same_bits_and_files(seed, rng, tmp_path):
    sims = simulations(300, rng)
    method = th.NPE(PRIOR, training=th.Training(max_epochs=5))
    a, b = method.fit(sims, seed=seed), method.fit(sims, seed=seed)
    np.testing.assert_array_equal(numbers(a), numbers(b))
    a.save(tmp_path / "p")
    again = th.load_posterior(tmp_path / "p")
    assert again.trained.network == AutoregressiveMixture(members=5)
    np.testing.assert_array_equal(again.sample(50, [0.3], seed=1), a.sample(50, [0.3], seed=1))
    np.testing.assert_array_equal(again.log_prob([[0.1]], [0.3]), a.log_prob([[0.1]], [0.3]))


def test_a_training_resumes_to_the_same_bits(seed, rng, tmp_path):
    sims, file = simulations(200, rng), tmp_path / "t.npz"

    def method(epochs: int, checkpoint=None) -> th.NPE:
        training = th.Training(max_epochs=epochs, patience=50, checkpoint=checkpoint)
        return th.NPE(PRIOR, network=SMALL, training=training)

    method(5, file).fit(sims, seed=seed)
    resumed = method(12, file).fit(sims, seed=seed)
    np.testing.assert_array_equal(numbers(resumed), numbers(method(12).fit(sims, seed=seed)))


def test_folds_go_by_index_and_leave_the_held_out_runs_alone():
    index = np.arange(400)
    validates = mark_held_out(index, 0.1)
    apart = assign_folds(index, validates, 5)
    assert (apart & validates).sum() == 5 * validates.sum() and (apart[:, ~validates].sum(0) <= 1).all()
    share = apart[:, ~validates].mean(1)
    assert ((share > 0.04) & (share < 0.18)).all()
    order = np.random.default_rng(0).permutation(400)
    np.testing.assert_array_equal(assign_folds(index[order], validates[order], 5), apart[:, order])
    many = np.arange(5000)
    held = mark_held_out(many, 0.1)
    assert (assign_folds(many, held, 5) == held).all()  # enough held-out runs: one split for all


@pytest.mark.parametrize("correction", ["weights", "after", "atomic"])
def test_strong_penalties(correction, seed, rng):
    """g = z^2: the proposal is N(-2, 1), the weights exp(2 theta); the posterior at 0 is N(0, 1/2)."""
    sims = simulations(4000, rng, k=1.5)
    posterior = th.NPE(PRIOR, correction=correction).fit(sims, seed=seed)
    draws = posterior.sample(2000, [-0.5], seed=seed)
    assert abs(draws.mean() + 0.25) < 0.35 * POSTERIOR_SD and 0.75 < draws.std() / POSTERIOR_SD < 1.3
    if correction == "weights":  # the mutant forgets them: N((x - 1.5) / 2, 1/2)
        plain = th.NPE(PRIOR).fit(sims.reweighted(np.zeros(len(sims))), seed=seed).sample(2000, [-0.5], seed=seed)
        assert abs(plain.mean() + 0.25) > 0.7 * POSTERIOR_SD


@pytest.mark.parametrize("embedding", [th.MLPEmbedding(4, hidden=(8,)), th.SetEmbedding(4, hidden=(8,))])
def test_embeddings(embedding, seed, rng, tmp_path):
    m = 3 if isinstance(embedding, th.SetEmbedding) else 1
    method = th.NPE(PRIOR, network=SMALL, embedding=embedding, training=th.Training(max_epochs=40))
    posterior = method.fit(simulations(800, rng, k=0.5, m=m), seed=seed)
    draws = posterior.sample(1000, [[1.0]], seed=seed)
    assert abs(draws.mean() - 0.5) < 0.4 and 0.5 < draws.std() < 1.0
    assert posterior.sample_batched(20, [[1.0], [0.0]], seed=seed).shape == (2, 20, 1)
    posterior.save(tmp_path / "p")
    again = th.load_posterior(tmp_path / "p")
    np.testing.assert_array_equal(again.sample(20, [[1.0]], seed=1), posterior.sample(20, [[1.0]], seed=1))


def test_parameters_piled_up_at_a_bound(seed, rng):
    """x = min(theta, 0.2) + noise: at a large x the posterior is flat up to the bound and stays inside."""
    prior = th.Uniform(0.0, 1.0)
    theta = prior.sample(2000, rng)
    table = th.Simulations.from_arrays(theta=theta, x=np.minimum(theta, 0.2) + 0.02 * rng.standard_normal((2000, 1)))
    posterior = th.NPE(prior).fit(table, seed=seed)
    draws = posterior.sample(4000, [0.2], seed=seed)[:, 0]
    assert draws.min() >= 0 and draws.max() <= 1
    assert abs((draws > 0.6).mean() - 0.4 / 0.8) < 0.08  # nearly uniform on [0.2, 1]
    grid = np.linspace(0, 1, 2001)[1::2]
    assert np.exp(posterior.log_prob(grid, [0.2])).mean() == pytest.approx(1, abs=0.03)
