"""Homogeneous SIR: exact law for small N, large-N theory, Wald's identity for the cost, the slow oracle."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

import thrifty as th

from .conftest import exact_outbreak, frequencies_p, runs_of, smallest_p


def _sizes(model, theta, n, seed):
    sims = model.simulate_many(np.full((n, 1), theta), seed, workers=2)
    return sims.x[:, 0], sims.cost


@pytest.mark.parametrize("theta", [1.2, 2.5])
def test_final_size_has_its_exact_law(theta, seed):
    sizes, _ = _sizes(th.models.HomogeneousSIR(population=60), theta, 10_000, seed)
    assert frequencies_p(sizes, exact_outbreak(60, theta, 1.0).size_probability) > 1e-4
    assert frequencies_p(sizes, exact_outbreak(60, 1.3 * theta, 1.0).size_probability) < 1e-6  # 30 % off is noticed


@pytest.mark.parametrize(("theta", "k"), [(2.0, 1.0), (5.0, 1.0), (2.0, 0.5), (1.7, 3.4)])
def test_extinction_final_size_and_its_spread(theta, k, seed):
    """Andersson and Britton (2000), theorems 3.1 and 4.2, at the paper's N = 10,000."""
    n = 10_000
    sizes, _ = _sizes(th.models.HomogeneousSIR(k=k), theta, 1000, seed)
    major = sizes[sizes > n / 10]
    extinct = brentq(lambda q: (1 + theta * (1 - q) / k) ** -k - q, 0.0, 1 - 1e-9)
    share = brentq(lambda z: 1 - np.exp(-theta * z) - z, 1e-9, 1.0)
    assert abs(1 - len(major) / 1000 - extinct) < 5 * np.sqrt(extinct * (1 - extinct) / 1000)
    escape = 1 - share
    variance = n * (escape * share + theta**2 / k * share * escape**2) / (1 - theta * escape) ** 2
    assert abs(major.mean() - n * share) < 5 * np.sqrt(variance / len(major)) + 2  # bias of order one person
    assert abs(major.var() / variance - 1) < 5 * np.sqrt(2 / len(major)) + 0.02


def test_cost_obeys_walds_identity(seed):
    """E[contacts] = theta E[final size], so E[cost] = (1 + theta) E[final size]."""
    theta = 1.5
    sizes, cost = _sizes(th.models.HomogeneousSIR(population=300, k=2.0), theta, 5000, seed)
    gap = cost - (1 + theta) * sizes
    assert abs(gap.mean()) < 5 * gap.std() / np.sqrt(len(gap))
    assert cost.max() > 50 * cost.min()  # cost is the outbreak's, not a constant


def test_same_law_as_the_plain_loop(oracles, rng, seed):
    for theta, k in ((1.3, 1.0), (3.0, 2.5)):
        fast, cost = _sizes(th.models.HomogeneousSIR(population=150, k=k), theta, 4000, seed)
        slow = np.array(
            [(x[0], c) for x, c in (oracles.homogeneous_sir([theta], rng, population=150, k=k) for _ in range(500))]
        )
        assert smallest_p(np.stack([fast, cost], 1), slow) > 1e-3
        wrong = runs_of(lambda t, r, k=k: oracles.homogeneous_sir(t, r, population=150, k=k), [1.3 * theta], 500, rng)
        assert smallest_p(fast[:, None], wrong) < 1e-6


@pytest.mark.parametrize(
    ("settings", "code"),
    [({"population": 1}, "bad-setting"), ({"population": 50.5}, "bad-setting"), ({"k": 0.0}, "bad-setting")],
)
def test_bad_settings(settings, code):
    with pytest.raises(th.ThriftyError) as caught:
        th.models.HomogeneousSIR(**settings)
    assert caught.value.code == code
