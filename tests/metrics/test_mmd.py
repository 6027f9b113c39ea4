"""MMD: exact against the naive sums, unbiased where it says so, and the weights matter."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.spatial.distance import cdist, pdist

import thrifty as th
from thrifty.errors import DataError


def naive(x, y, u, v, scale, *, unbiased=False):
    u, v = u / u.sum(), v / v.sum()
    kernel = lambda a, b: np.exp(-cdist(a, b, "sqeuclidean") / (2 * scale**2))  # noqa: E731
    xx, yy = u @ kernel(x, x) @ u, v @ kernel(y, y) @ v
    if unbiased:
        xx, yy = ((value - w @ w) / (1 - w @ w) for value, w in ((xx, u), (yy, v)))
    return xx + yy - 2 * u @ kernel(x, y) @ v


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 60), st.integers(2, 60), st.integers(1, 5), st.booleans())
def test_equals_the_naive_sums(seed, n, m, dim, unbiased):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(1, 2, (n, dim)), rng.normal(0, 1, (m, dim))
    u, v = rng.random(n) + 0.01, rng.random(m) + 0.01
    expected = naive(x, y, u, v, 0.7, unbiased=unbiased)
    assert th.metrics.mmd2(x, y, u, v, 0.7, unbiased=unbiased) == pytest.approx(expected, abs=1e-12)


def test_blocks_change_nothing(rng, monkeypatch):
    from thrifty.metrics import mmd

    x, y, u = rng.normal(size=(300, 3)), rng.normal(0.2, 1, (170, 3)), rng.random(300)
    whole = th.metrics.mmd2(x, y, u)
    monkeypatch.setattr(mmd, "_NUMBERS_PER_BLOCK", 700)
    assert th.metrics.mmd2(x, y, u) == pytest.approx(whole, abs=1e-14)


@pytest.mark.parametrize("n", [5, 6, 400, 1500])
def test_median_distance_is_the_median_over_pairs(rng, n):
    points = rng.gamma(2.0, 1.0, (n, 2))
    assert th.metrics.median_distance(points) == pytest.approx(np.median(pdist(points)), rel=1e-12)


@pytest.mark.parametrize("n", [40, 1200])
def test_median_distance_counts_pairs_by_weight(rng, n):
    points, weights = rng.gamma(2.0, 1.0, (n, 2)), rng.random(n)
    rows, columns = np.triu_indices(n, 1)
    mass = weights[rows] * weights[columns]
    distance = np.linalg.norm(points[rows] - points[columns], axis=1)
    order = np.argsort(distance)
    steps = np.cumsum(mass[order]) / mass.sum()
    expected = distance[order][np.searchsorted(steps, 0.5)]
    assert th.metrics.median_distance(points, weights) == pytest.approx(expected, rel=1e-9)


def test_lengthscale_comes_from_the_reference(rng):
    x, y = rng.normal(0, 30, (80, 2)), rng.normal(0, 1, (90, 2))
    scale = float(np.median(pdist(y)))
    assert th.metrics.mmd2(x, y) == pytest.approx(th.metrics.mmd2(x, y, lengthscale=scale), abs=1e-14)


def test_far_from_the_origin_nothing_is_lost(rng):
    x, y = rng.normal(size=(50, 2)), rng.normal(0.5, 1, (60, 2))
    assert th.metrics.mmd2(x + 1e6, y + 1e6) == pytest.approx(th.metrics.mmd2(x, y), rel=1e-6)


def test_weights_restore_the_target_and_forgetting_them_does_not(rng):
    """x from N(-1, 1), weighted back to N(0, 1): MMD^2 within 5 standard errors of zero over 25 repeats."""

    def both(_):
        x, y = rng.normal(-1, 1, 400), rng.normal(0, 1, 400)
        weights = np.exp(x + 0.5)
        score = lambda u: th.metrics.mmd2(x, y, u, lengthscale=1.0, unbiased=True)  # noqa: E731
        return score(weights), score(None), score(weights**2)

    right, forgotten, squared = np.array([both(i) for i in range(25)]).T
    error = right.std() / np.sqrt(len(right))
    assert abs(right.mean()) < 5 * error
    assert forgotten.mean() > 50 * error
    assert squared.mean() > 20 * error


def test_agrees_with_sbi(rng):
    torch = pytest.importorskip("torch")
    metrics = pytest.importorskip("sbi.utils.metrics")
    x, y = rng.normal(size=(200, 3)), rng.normal(0.3, 1, (150, 3))
    theirs = float(metrics.unbiased_mmd_squared(torch.from_numpy(x), torch.from_numpy(y), scale=1.3))
    assert th.metrics.mmd2(x, y, lengthscale=1.3, unbiased=True) == pytest.approx(theirs, abs=1e-12)
    biased = float(metrics.biased_mmd(torch.from_numpy(x), torch.from_numpy(y), scale=1.3))
    assert th.metrics.mmd2(x, y, lengthscale=1.3) == pytest.approx(biased**2, abs=1e-12)


def test_memory_is_bounded(rng):
    """Two tables of 3,000 make 72 MB of distances each; no more than 30 MB are ever held."""
    x, y = rng.normal(size=(3000, 2)), rng.normal(size=(3000, 2))
    tracemalloc.start()
    th.metrics.mmd2(x, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6


@pytest.mark.slow
def test_twenty_thousand_fit_in_a_gigabyte(rng):
    x, y = rng.normal(size=(20_000, 2)), rng.normal(size=(20_000, 2))
    tracemalloc.start()
    th.metrics.mmd2(x, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e9


@pytest.mark.parametrize("scale", [0, -1.0, np.nan, np.inf, "median", True])
def test_refuses_a_bad_lengthscale(scale):
    with pytest.raises(DataError, match="lengthscale must be a finite number > 0"):
        th.metrics.mmd2([0.0, 1.0], [0.0, 1.0], lengthscale=scale)


def test_refuses_coinciding_references():
    with pytest.raises(DataError, match="more than half of the pairs"):
        th.metrics.mmd2([0.0, 1.0], [2.0, 2.0, 2.0, 2.0, 3.0])
    with pytest.raises(DataError, match="at least two points"):
        th.metrics.mmd2([0.0, 1.0], [2.0])
    with pytest.raises(DataError, match="unbiased MMD needs"):
        th.metrics.mmd2([0.0], [2.0, 3.0], unbiased=True)


@pytest.mark.parametrize("far", [1e7, 1e8, 1e10])
def test_one_extreme_outlier(rng, far):
    """Its kernel with itself is one, whatever the rounding of its distance from the centre."""
    x, y = rng.normal(size=(100, 2)), rng.normal(size=(100, 2))
    x[0] = far
    scale = th.metrics.median_distance(y)

    def direct(a, b):
        return np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / (2 * scale**2)).mean()

    expected = direct(x, x) + direct(y, y) - 2 * direct(x, y)
    assert th.metrics.mmd2(x, y) == pytest.approx(expected, rel=1e-9)
