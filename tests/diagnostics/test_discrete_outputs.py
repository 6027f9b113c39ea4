"""Counts and flags: a rare value of x fits itself in a regression, and must not reject a right posterior for it."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty import diagnostics


class Counting:
    """theta ~ Gamma(2, 1), x ~ Poisson(rate theta): the exact posterior, or the prior when it does not look."""

    def __init__(self, rate, *, looks=True):
        self.rate, self.looks = rate, looks

    def sample_batched(self, n, x, *, seed):
        count = np.asarray(x)[:, None, :] if self.looks else np.zeros((len(x), 1, x.shape[1]))
        scale = 1 / (1 + self.rate) if self.looks else 1.0
        return np.random.default_rng(seed).gamma(2 + count, scale, (len(x), n, x.shape[1]))

    def sample(self, n, x_o, *, seed):
        return self.sample_batched(n, np.asarray(x_o)[None], seed=seed)[0]


def rejected(posterior, seed, repeats, *, rate, dim, n):
    """Share of p-values of data_use below 0.05."""
    found = []
    for i in range(repeats):
        rng = np.random.default_rng(seed + i)
        theta = rng.gamma(2, 1, (n, dim))
        runs = th.Simulations.from_arrays(theta=theta, x=rng.poisson(rate * theta))
        found.append(diagnostics.data_use(posterior, runs, pairs=300, seed=i).p_value)
    return float(np.mean(np.array(found) < 0.05))


def test_rare_counts_do_not_reject_a_right_posterior(seed):
    share = rejected(Counting(0.05), seed, 40, rate=0.05, dim=3, n=100)
    assert share <= 0.20  # of 40 at 5 %: more than 8 has chance 3e-4; it was 0.75


def test_frequent_counts_reject_one_that_does_not_look(seed):
    assert rejected(Counting(3.0, looks=False), seed, 5, rate=3.0, dim=2, n=300) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "dim", "n"), [(0.05, 1, 300), (0.05, 3, 100), (0.02, 5, 300), (0.5, 1, 300)])
def test_size_with_counts_over_200_seeds(seed, rate, dim, n):
    share = rejected(Counting(rate), seed, 200, rate=rate, dim=dim, n=n)
    print("data_use, counts", rate, dim, n, share)
    assert share <= 0.10
