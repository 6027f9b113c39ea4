"""sbi beside `th.Rounds`: the same priors, the same runs, better than the prior."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sbi")
pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["lotka_volterra", "slcp", "counts", "waiting", "shares"])
def test_priors_are_the_same_in_torch(study, name, rng):
    """Log densities agree, and draws have the prior's means."""
    import torch

    torch.manual_seed(int(rng.integers(2**31)))
    prior = study("rounds_problems").problem(name).prior
    there = study("rounds_peers").make_torch_prior(prior)
    theta = prior.sample(2_000, rng)
    value = there.log_prob(torch.tensor(theta, dtype=torch.float32)).double().numpy()
    assert value.shape == (2_000,) and np.allclose(value, prior.log_prob(theta), atol=1e-3)
    draws = there.sample((2_000,)).double().numpy()
    assert draws.shape == theta.shape
    assert (np.abs(draws.mean(0) - theta.mean(0)) < 5 * theta.std(0) * np.sqrt(2 / 2_000)).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["snle", "snpe_c", "tsnpe"])
def test_peers_find_a_posterior(study, method):
    """400 runs in four rounds: nearer to the exact posterior than the prior is, and every run is counted."""
    problems, peers, measures = (study(f"rounds_{part}") for part in ("problems", "peers", "measures"))
    made = problems.problem("gaussian_2")
    result = peers.PEERS[method].run(made, "middle", 400, 0)
    exact = problems.reference("gaussian_2", "middle")
    prior = made.prior.sample(1_000, np.random.default_rng(0))
    draws = result.draws["middle"]
    assert draws.shape == (1_000, 2) and result.runs == 400 and result.seconds > 0
    assert measures.scaled_mmd2(draws, exact) < 0.2 * measures.scaled_mmd2(prior, exact)


def test_one_fit_gives_draws_at_all_places(study):
    problems, peers = study("rounds_problems"), study("rounds_peers")
    made = problems.problem("waiting")
    result = peers.plain_npe(made, 300, 1, method=Prior(made.prior))
    assert list(result.draws) == ["cheap", "middle", "expensive"] and result.runs == 300
    assert abs(result.cost / 300 - 1) < 5 * 1.1 / np.sqrt(300)
    assert not np.array_equal(result.draws["cheap"], result.draws["middle"])


class Prior:
    """A method that learns nothing but the number of its runs."""

    def __init__(self, prior):
        self.prior = prior

    def fit(self, sims, *, seed):
        assert len(sims) == 300 and seed == 1
        return self

    def sample(self, n, x, *, seed):
        return self.prior.sample(n, np.random.default_rng([seed, abs(int(1e6 * x.sum()))]))
