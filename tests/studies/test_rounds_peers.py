"""sbi beside `th.Rounds`: the same runs, better than the prior."""

from __future__ import annotations

import numpy as np
import pytest

from thrifty.benchmark import find_problem, read_reference
from thrifty.benchmark.accuracy import scaled_mmd2

pytest.importorskip("sbi")
pytest.importorskip("torch")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["snle", "snpe_c", "tsnpe"])
def test_peers_find_a_posterior(study, method):
    """400 runs in four rounds: nearer to the exact posterior than the prior is, and every run is counted."""
    made = find_problem("gaussian_2")
    result = study("rounds_peers").run_peer(method, made, "middle", 400, 0)
    exact = read_reference("gaussian_2", "middle")
    prior = made.prior.sample(1_000, np.random.default_rng(0))
    draws = result.draws["middle"]
    assert draws.shape == (1_000, 2) and result.runs == 400 and result.seconds > 0
    assert scaled_mmd2(draws, exact) < 0.2 * scaled_mmd2(prior, exact)


def test_one_fit_gives_draws_at_all_places(study):
    made = find_problem("waiting")
    result = study("rounds_peers").plain_npe(made, 300, 1, method=Prior(made.prior))
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
