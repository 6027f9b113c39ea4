"""sbi's methods in the benchmark: the same priors, equal rounds, and corrections where draws are not the prior's."""

from __future__ import annotations

import numpy as np
import pytest

from thrifty.benchmark import Meter, find_problem
from thrifty.benchmark.methods import sbi_methods
from thrifty.benchmark.methods.sbi_methods import ROUNDS, fit_in_rounds, make_torch_prior

pytest.importorskip("sbi")
pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["lotka_volterra", "slcp", "counts", "waiting", "shares"])
def test_priors_are_the_same_in_torch(name, rng):
    """Log densities agree, and draws have the prior's means."""
    import torch

    torch.manual_seed(int(rng.integers(2**31)))
    prior = find_problem(name).prior
    there = make_torch_prior(prior)
    theta = prior.sample(2_000, rng)
    value = there.log_prob(torch.tensor(theta, dtype=torch.float32)).double().numpy()
    assert value.shape == (2_000,) and np.allclose(value, prior.log_prob(theta), atol=1e-3)
    draws = there.sample((2_000,)).double().numpy()
    assert draws.shape == theta.shape
    assert (np.abs(draws.mean(0) - theta.mean(0)) < 5 * theta.std(0) * np.sqrt(2 / 2_000)).all()


class Trainer:
    """A trainer of sbi that learns nothing: its posterior is the prior, in an object of its own."""

    def __init__(self, prior):
        self.prior, self.sizes, self.proposals, self.options = prior, [], [], []

    def append_simulations(self, theta, x, proposal=None):
        assert len(theta) == len(x)
        self.sizes.append(len(theta))
        self.proposals.append(proposal)
        return self

    def train(self, **options):
        self.options.append(options)

    def build_posterior(self):
        return Posterior(self.prior)


class Posterior:
    def __init__(self, prior):
        self.prior = prior

    def set_default_x(self, x):
        self.x = x
        return self

    def sample(self, shape):
        return self.prior.sample(shape)


@pytest.fixture
def run(monkeypatch):
    """Run rounds with a trainer that learns nothing; the trainer and the meter."""

    def fit(name, budget, **options):
        meter = Meter(find_problem("gaussian_2"), 3)
        prior = make_torch_prior(meter.prior)
        trainer = Trainer(prior)
        monkeypatch.setattr(sbi_methods, "_open", lambda *given: (trainer, prior))
        monkeypatch.setattr(sbi_methods, "truncate", lambda prior, posterior: posterior)
        fit_in_rounds(name, **options)(meter, meter.problem.x_o("middle"), budget, 3)
        return trainer, meter

    return fit


def test_a_budget_by_count_is_that_of_the_runs(run):
    trainer, meter = run("NLE", 203, truncated=False, by_count=True)
    assert meter.runs == 203 and trainer.sizes == [50, 51, 51, 51] and len(trainer.sizes) == ROUNDS
    assert meter.cost != 203
    trainer, meter = run("NLE", 203, truncated=False)
    assert 203 <= meter.cost < 203 + 40, "otherwise it is that of their cost"


def test_atomic_proposals_are_told_where_runs_were_drawn(run):
    trainer, _ = run("NPE_C", 40, truncated=False, by_count=True)
    assert trainer.proposals[0] is trainer.prior and all(isinstance(p, Posterior) for p in trainer.proposals[1:])
    trainer, _ = run("NPE_C", 40, truncated=True, by_count=True)
    assert trainer.proposals == [None] * ROUNDS and trainer.options == [{"force_first_round_loss": True}] * ROUNDS
    trainer, _ = run("NLE", 40, truncated=False, by_count=True)
    assert trainer.proposals == [None] * ROUNDS and trainer.options == [{}] * ROUNDS
