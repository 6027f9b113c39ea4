"""Distances: exact formulas, and one scale for every proposal."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

import thrifty as th
from thrifty.errors import ConfigError, DataError
from thrifty.inference.vector_distances import UserDistance, as_distance, robust_spread
from thrifty.weights import weighted_median


def test_weighted_median_equals_the_median_of_repeated_values(rng):
    for size in (7, 200, 30_000):  # the last takes the bracketed path
        values = rng.normal(size=size).round(2)
        counts = rng.integers(0, 4, size)
        counts[0] += 1
        repeated = np.sort(np.repeat(values, counts))
        lower_median = repeated[(len(repeated) - 1) // 2]
        assert weighted_median(values, counts.astype(float)) == lower_median


@pytest.mark.parametrize("k", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_epsilon_means_the_same_for_every_penalty(k, rng):
    """The paper's Gamma example: 0.05 is 11.2 under the prior; its code gave 5.6 under the cube of the cost."""
    prior = th.Uniform([100.0], [1000.0])
    n = 20_000
    draws = th.CostAware(prior, lambda t: t[:, 0], th.Power(k)).sample(n, rng)
    x = draws.theta + rng.normal(size=(n, 1)) * np.sqrt(draws.theta / 500)
    scale = robust_spread(x, draws.log_weights)[0]
    # MAD of U(100, 1000) is 225; its standard error is 1/(2 f sqrt(n_eff)) with density f = 2/900 at the deviation
    se = 900 / 4 / np.sqrt(th.ess(draws.log_weights))
    assert abs(scale - 225) < 5 * se
    if k >= 1:  # the mutant that forgets the weights
        assert abs(robust_spread(x, np.zeros(n))[0] - 225) > 5 * se


def test_mahalanobis_is_the_formula_and_counts_collinear_statistics_once(rng):
    x = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 3))
    log_weights = rng.normal(size=400)
    weights = th.normalise(log_weights)
    centred = x - weights @ x
    inverse = np.linalg.inv((centred * weights[:, None]).T @ centred)
    x_o = x[0] + 1
    expected = np.sqrt(np.einsum("ni,ij,nj->n", x - x_o, inverse, x - x_o))
    assert np.allclose(th.distances.Mahalanobis().fit(x, log_weights)(x, x_o), expected)
    doubled, doubled_o = np.column_stack([x, x[:, 0]]), np.append(x_o, x_o[0])
    assert np.allclose(th.distances.Mahalanobis().fit(doubled, log_weights)(doubled, doubled_o), expected, rtol=1e-4)


@pytest.mark.parametrize("d", [1, 3])
def test_energy_and_mmd_equal_brute_force(d, rng):
    x, y = rng.normal(size=(5, 12, d)), rng.normal(size=(9, d))
    energy = th.distances.Energy(np.ones(d))(x, y)
    mmd = th.distances.MMD(1.3, np.ones(d))(x, y)
    for i in range(5):
        a, b, c = cdist(x[i], y), cdist(x[i], x[i]), cdist(y, y)
        assert np.isclose(energy[i] ** 2, 2 * a.mean() - b.mean() - c.mean())
        k = [np.exp(-(t**2) / (2 * 1.3**2)).mean() for t in (b, a, c)]
        assert np.isclose(mmd[i] ** 2, k[0] - 2 * k[1] + k[2])


@pytest.mark.parametrize("sizes", [(10, 10), (7, 12), (20, 3)])
def test_wasserstein_equals_scipy(sizes, rng):
    x, y = rng.normal(size=(4, sizes[0])), rng.normal(size=sizes[1])
    ours = th.distances.Wasserstein(np.ones(1))(x, y)
    assert np.allclose(ours, [wasserstein_distance(row, y) for row in x])


@pytest.mark.parametrize("distance", [th.distances.Energy(), th.distances.MMD(), th.distances.Wasserstein()])
def test_sample_distances_are_zero_only_at_the_same_sample(distance, rng):
    x = rng.normal(size=(50, 30))
    fitted = distance.fit(x, np.zeros(50))
    values = fitted(x, x[17])
    assert values[17] == pytest.approx(0, abs=1e-7)
    assert (np.delete(values, 17) > 1e-3).all()


def test_constant_statistic_is_left_out_with_a_note(rng):
    x = np.column_stack([rng.normal(size=100), np.full(100, 7.0)])
    with pytest.warns(th.ThriftyWarning, match=r"x_2 is constant \(7\)"):
        distance = th.distances.Euclidean().fit(x, np.zeros(100))
    assert np.isfinite(distance(x, np.array([0.0, 100.0]))).all()


def test_mostly_zero_counts_still_have_a_scale(rng):
    x = (rng.random((500, 1)) < 0.2).astype(float)
    assert robust_spread(x, np.zeros(500))[0] == pytest.approx(x.std())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_distance(th.distances.Euclidean), "is a class"),
        (lambda: as_distance("euclid"), "must be a distance object or a callable"),  # type: ignore[arg-type]
        (lambda: th.distances.Euclidean([1.0, -1.0]), "scale must be finite"),
        (lambda: th.distances.Euclidean([1.0, 1.0]).fit(np.ones((3, 3)), np.zeros(3)), "2 entries for 3"),
        (lambda: th.distances.Euclidean()(np.ones((3, 3)), np.ones(3)), "no scale yet"),
        (lambda: th.distances.MMD(lengthscale=0.0), "lengthscale must be > 0"),
        (lambda: UserDistance(lambda x, y: 1.0)(np.ones((3, 1)), np.ones(1)), r"shape \(\) for 3 simulations"),
        (lambda: UserDistance(lambda x, y: -x[:, 0])(np.ones((3, 1)), np.ones(1)), "is -1.0 at row 0"),
        (lambda: UserDistance(lambda x, y: np.nan * x[:, 0])(np.ones((3, 1)), np.ones(1)), "is nan at row 0"),
    ],
)
def test_bad_distances_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_all_constant_and_several_variables_are_refused(rng):
    with (
        pytest.raises(DataError, match="all 2 statistics are constant"),
        pytest.warns(th.ThriftyWarning),
    ):
        th.distances.Euclidean().fit(np.ones((10, 2)), np.zeros(10))
    with pytest.raises(DataError, match="compares one variable, the data have 2"):
        th.distances.Wasserstein().fit(rng.normal(size=(5, 4, 2)), np.zeros(5))
