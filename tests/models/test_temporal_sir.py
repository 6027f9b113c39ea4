"""Temporal SIR: exact jump-chain law, durations, bins, the slow oracle and its inverted clock."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.models.temporal_sir import outbreak_statistics

from .conftest import exact_outbreak, frequencies_p, runs_of, smallest_p


def _runs(model, theta, n, seed):
    return model.simulate_many(np.tile(theta, (n, 1)), seed)


@pytest.mark.parametrize("theta", [(0.3, 0.9), (0.9, 0.3)])
def test_final_size_has_its_exact_law(theta, seed):
    sizes = _runs(th.models.TemporalSIR(population=50), theta, 10_000, seed).x[:, 0]
    assert frequencies_p(sizes, exact_outbreak(50, *theta).size_probability) > 1e-4
    assert frequencies_p(sizes, exact_outbreak(50, 1.3 * theta[0], theta[1]).size_probability) < 1e-6


@pytest.mark.parametrize("theta", [(0.5, 0.5), (0.2, 0.8), (0.9, 0.3)])
def test_mean_size_and_duration_are_exact_at_full_size(theta, seed):
    """N = 1000; at (0.5, 0.5) the mean duration is 6.09 (282 with the published code's inverted waiting times)."""
    x, exact = _runs(th.models.TemporalSIR(), theta, 8000, seed).x, exact_outbreak(1000, *theta)
    for column, truth in ((0, exact.mean_size), (1, exact.mean_duration)):
        assert abs(x[:, column].mean() - truth) < 5 * x[:, column].std() / np.sqrt(len(x))
    if theta == (0.5, 0.5):
        assert exact.mean_duration == pytest.approx(6.0875, abs=1e-4)


def test_below_and_above_the_threshold(seed):
    """R0 < 1: mean size 1/(1 − R0), no major outbreak; R0 > 1: extinct with probability 1/R0, else the fixed point."""
    model = th.models.TemporalSIR(population=10_000)
    small = _runs(model, (0.2, 0.8), 4000, seed).x[:, 0]
    assert small.max() < 100 and abs(small.mean() - 4 / 3) < 5 * small.std() / np.sqrt(4000)
    large = _runs(model, (1.0, 0.5), 2000, seed).x[:, 0]
    major = large > 1000
    assert abs(1 - major.mean() - 0.5) < 5 * np.sqrt(0.25 / 2000)
    assert large[major].mean() == pytest.approx(7968.1, rel=0.005)  # z = 1 − exp(−2 z)


def test_statistics_and_cost_hang_together(seed, rng):
    model = th.models.TemporalSIR()
    sims = model.simulate_many(model.prior.sample(500, rng), seed)
    assert np.array_equal(sims.cost, 2 * sims.x[:, 0] - 1)
    assert np.array_equal(sims.x[:, 2:].sum(1), sims.x[:, 0])
    assert (sims.x[:, 1] > 0).all() and (sims.x[:, -1] >= 1).all()  # the last removal is at T
    single = sims.x[sims.x[:, 0] == 1]
    assert len(single) > 50 and (single[:, -1] == 1).all() and (single[:, 2:-1] == 0).all()
    assert sims.cost.max() / sims.cost.min() > 1000


def test_bins_are_numpys_histogram(rng):
    for n, bins in ((1, 10), (2, 10), (500, 10), (500, 7), (40, 1)):
        times = np.sort(rng.exponential(size=n))
        x = outbreak_statistics(np.append(times, np.nan), n, bins)
        edges = np.linspace(0, times[-1], bins + 1)
        assert x[0] == n and x[1] == times[-1]
        assert np.array_equal(x[2:], np.histogram(times, edges)[0])


def test_bins_of_an_outbreak_without_duration():
    assert outbreak_statistics(np.zeros(3), 3, 4).tolist() == [3, 0, 0, 0, 0, 3]


def test_same_law_as_the_plain_loop_and_not_as_the_inverted_clock(oracles, rng, seed):
    model = th.models.TemporalSIR(population=200)
    for theta in ((0.5, 0.5), (0.8, 0.3)):
        fast = _runs(model, theta, 4000, seed).x
        slow = runs_of(lambda t, r: oracles.temporal_sir(t, r, population=200), theta, 500, rng)
        inverted = runs_of(
            lambda t, r: oracles.temporal_sir(t, r, population=200, inverted_waiting=True), theta, 500, rng
        )
        assert smallest_p(fast, slow) > 1e-3
        assert smallest_p(fast, inverted) < 1e-6


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"population": 1}, "bad-setting"),
        ({"population": 10.0}, "bad-setting"),
        ({"bins": 0}, "bad-setting"),
        ({"theta_true": (0.5,)}, "bad-array"),
    ],
)
def test_bad_settings(settings, code):
    with pytest.raises(th.ThriftyError) as caught:
        th.models.TemporalSIR(**settings)
    assert caught.value.code == code
