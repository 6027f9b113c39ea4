"""Radio: the sum against exponentials, exact mean power and moments, the slow oracle, wrong component variances."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import thrifty as th
from thrifty.models.radio import _sum_components

from .conftest import runs_of, smallest_p

THETA = np.array([4e-9, 7e-9, 1.5e9, 3e-10])


def test_sum_equals_the_exponentials(rng):
    counts = np.array([0, 1, 63, 64, 65, 700])
    ends = np.concatenate([[0], np.cumsum(counts)])
    beta, angle = rng.normal(size=(2, ends[-1])), -2 * np.pi * rng.random(ends[-1])
    before = beta.copy()
    sums = _sum_components(beta, np.stack([np.cos(angle), np.sin(angle)]), ends, 801)
    assert np.array_equal(beta, before)
    for r, (a, b) in enumerate(pairwise(ends)):
        direct = np.exp(1j * np.outer(np.arange(801), angle[a:b])) @ (beta[0, a:b] + 1j * beta[1, a:b])
        assert np.abs(sums[r, :, 0] + 1j * sums[r, :, 1] - direct).max() <= 1e-11 * max(b - a, 1)


def exact_moments(model: th.models.Radio, theta: np.ndarray) -> np.ndarray:
    """E M_k: the transform of E[Y_l Y*_l'] = gain B ∫ exp(−tau/T − 2πi (l − l') Δf tau) dtau, plus the noise."""
    gain, decay, _, noise = theta
    n, t_max = model.points, model.t_max
    lag = np.arange(-(n - 1), n)
    rate = 1 / decay + 2j * np.pi * lag / t_max
    correlation = gain * model.bandwidth * (1 - np.exp(-rate * t_max)) / rate
    phase = np.exp(2j * np.pi * np.outer(np.arange(n), lag) / n)
    power = (phase @ ((n - np.abs(lag)) * correlation)).real / n**2 + noise / n
    time = np.arange(n) * t_max / n
    return np.array([(time**k * power).sum() * t_max / n for k in range(3)])


def test_mean_power_and_moments_are_exact(rng):
    model = th.models.Radio(m=3000, points=201)
    signals = model.signals(THETA, rng)
    energy = (np.abs(signals) ** 2).sum(1)  # by Parseval the mean over frequencies of |Y|²
    assert abs(energy.mean() - model.mean_power(THETA)) < 5 * energy.std() / np.sqrt(3000)
    moments, exact = model._moments(signals), exact_moments(model, THETA)
    assert np.all(np.abs(moments.mean(0) - exact) < 5 * moments.std(0) / np.sqrt(3000))
    # half the variance (a component without its imaginary part) or the noise left out would be noticed
    assert abs(energy.mean() - model.mean_power(THETA * [0.5, 1, 1, 1])) > 20 * energy.std() / np.sqrt(3000)
    assert exact[0] == pytest.approx(model.mean_power(THETA) * model.t_max / model.points)


def test_mean_power_does_not_depend_on_the_arrival_rate():
    """The reason for B/theta_3: as printed (1/(theta_3 B)) more arrivals would mean less power per component twice."""
    model = th.models.Radio()
    assert model.mean_power(THETA) == model.mean_power(THETA * [1, 1, 5, 1])


def test_noise_alone_is_white(rng):
    prior = th.Uniform([0.0, 1e-9, 1e9, 1e-10], [1e-8, 1e-8, 1e10, 1e-9], names=("a", "b", "c", "d"))
    model = th.models.Radio(m=2000, points=51, prior=prior)
    power = np.abs(model.signals([0.0, 5e-9, 1e9, 4e-10], rng)) ** 2
    z = (power.mean(0) - 4e-10 / 51) / (4e-10 / 51 / np.sqrt(2000))
    assert np.abs(z).max() < 5 and abs(z.var() - 1) < 5 * np.sqrt(2 / 51)


def test_cost_is_the_poisson_number_of_components(seed):
    model = th.models.Radio(m=6, points=101)
    cost = model.simulate_many(np.tile(THETA, (1500, 1)), seed).cost
    mean = 6 * 1.5e9 * 100 / 4e9
    assert model.expected_cost(THETA) == pytest.approx(mean)
    assert abs(cost.mean() - mean) < 5 * np.sqrt(mean / 1500)
    assert abs(cost.var() / mean - 1) < 5 * np.sqrt(2 / 1500)


def test_measured_seconds_grow_with_the_arrival_rate(seed):
    model = th.models.Radio(m=10)
    model.simulate(THETA, np.random.default_rng(0))
    few, many = (
        model.simulate_many(np.tile(THETA * [1, 1, f, 1], (9, 1)), seed, measured=True).cost.min() for f in (1, 6)
    )
    assert 2.5 < many / few < 9  # 6 but for noise, transform and the machine


def test_same_law_as_the_plain_loop_and_not_with_another_gain(oracles, rng, seed):
    model = th.models.Radio(m=8, points=51)
    fast = model.simulate_many(np.tile(THETA, (3000, 1)), seed).x
    slow = runs_of(lambda t, r: oracles.radio(t, r, m=8, points=51), THETA, 300, rng)
    louder = runs_of(lambda t, r: oracles.radio(t, r, m=8, points=51), THETA * [1.5, 1, 1, 1], 300, rng)
    denser = runs_of(lambda t, r: oracles.radio(t, r, m=8, points=51), THETA * [1, 1, 3, 1], 300, rng)
    assert smallest_p(fast, slow) > 1e-3
    assert smallest_p(fast, louder) < 1e-6 and smallest_p(fast, denser) < 1e-6


def test_observed_has_the_m_of_the_simulations(seed):
    model = th.models.Radio()
    assert model.m == 50 and model.observed(seed).shape == (6,)
    assert model.summary_names[3:] == ("sd_log_m0", "sd_log_m1", "sd_log_m2")


@pytest.mark.parametrize(
    ("settings", "code"),
    [({"m": 1}, "bad-setting"), ({"points": 1}, "bad-setting"), ({"bandwidth": 0.0}, "bad-setting")],
)
def test_bad_settings(settings, code):
    with pytest.raises(th.ThriftyError) as caught:
        th.models.Radio(**settings)
    assert caught.value.code == code
