"""Sliced Wasserstein and energy distance against scipy and known answers."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

import thrifty as th
from thrifty.errors import DataError


def test_one_column_is_scipys_wasserstein(rng):
    x, y, u, v = rng.normal(size=70), rng.gamma(2, 1, 50), rng.random(70), rng.random(50)
    expected = stats.wasserstein_distance(x, y, u, v)
    assert th.metrics.sliced_wasserstein(x, y, u, v, order=1) == pytest.approx(expected, rel=1e-12)


def test_a_shift_moves_every_slice_by_its_projection(rng):
    x, shift = rng.normal(size=(200, 3)), np.array([1.0, -2.0, 0.5])
    far = th.metrics.sliced_wasserstein(x, x + shift, directions=4000)
    expected = np.linalg.norm(shift) / np.sqrt(3)  # E cos^2 = 1/p
    assert far == pytest.approx(expected, rel=5 * np.sqrt(0.8 / 4000))


def test_one_column_is_scipys_energy_distance(rng):
    x, y, u, v = rng.normal(size=70), rng.gamma(2, 1, 50), rng.random(70), rng.random(50)
    assert th.metrics.energy_distance(x, y, u, v) == pytest.approx(stats.energy_distance(x, y, u, v), rel=1e-9)


def test_energy_is_the_naive_sum(rng, monkeypatch):
    energy = import_module("thrifty.metrics.energy_distance")

    monkeypatch.setattr(energy, "_NUMBERS_PER_BLOCK", 500)
    x, y, u, v = rng.normal(size=(70, 3)), rng.normal(0.5, 1, (50, 3)), rng.random(70), rng.random(50)
    u, v = u / u.sum(), v / v.sum()
    expected = 2 * u @ cdist(x, y) @ v - u @ cdist(x, x) @ u - v @ cdist(y, y) @ v
    assert th.metrics.energy_distance(x, y, u, v) ** 2 == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("metric", [th.metrics.sliced_wasserstein, th.metrics.energy_distance])
def test_zero_for_equal_and_weights_matter(rng, metric):
    x = rng.normal(size=(300, 2))
    tilt = np.exp(-0.8 * x[:, 0])
    assert metric(x, x) == pytest.approx(0.0, abs=1e-7)
    fresh = rng.normal([-0.8, 0.0], 1, (300, 2))
    assert metric(x, fresh, tilt) < 0.6 * metric(x, fresh)
    assert metric(x, fresh, tilt) < 0.6 * metric(x, fresh, tilt**2)


@pytest.mark.parametrize("settings", [{"order": 0.5}, {"directions": 0}])
def test_refuses_bad_settings(settings):
    with pytest.raises(DataError, match="order must be >= 1"):
        th.metrics.sliced_wasserstein([0.0, 1.0], [0.0, 1.0], **settings)
