"""Final sizes and posteriors of the benchmark's outbreaks against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from thrifty.benchmark import PLACES, find_problem, read_reference

pytest.importorskip("numba")

from thrifty.benchmark.problems.outbreak_sizes import graph_size_probabilities, size_probabilities


def p_value(sizes, probabilities):
    """Pearson's test of final sizes against their probabilities, in cells of at least 20 expected."""
    expected = len(sizes) * probabilities
    edges = np.unique(np.searchsorted(np.cumsum(expected), np.arange(20, len(sizes), 20)))
    cells = [(a, b) for a, b in zip([0, *edges], [*edges, len(expected)], strict=True) if expected[a:b].sum() > 5]
    seen = np.bincount(sizes.astype(int), minlength=len(expected))
    pairs = np.array([(seen[a:b].sum(), expected[a:b].sum()) for a, b in cells])
    return stats.chi2.sf((np.square(pairs[:, 0] - pairs[:, 1]) / pairs[:, 1]).sum(), len(pairs) - 1)


@pytest.mark.parametrize("beta", [1.5, 4.0])
def test_final_sizes_are_those_of_the_homogeneous_model(beta, rng):
    made = find_problem("homogeneous_sir")
    sizes = made.simulate(np.full((3_000, 1), beta), rng)[:, 0]
    exact = size_probabilities(beta, 1_000)
    assert abs(exact.sum() - 1) < 1e-9
    assert p_value(sizes, exact) > 1e-5
    assert p_value(sizes, size_probabilities(1.1 * beta, 1_000)) < 1e-5, "another rate is seen (mutant)"


@pytest.mark.parametrize("theta", [(0.9, 0.8, 0.013), (0.4, 0.9, 0.03)])
def test_final_sizes_are_those_of_the_graph_model(theta, rng):
    made = find_problem("bernoulli_sir")
    sizes = made.simulate(np.tile(theta, (3_000, 1)), rng)[:, 0]
    exact = graph_size_probabilities(theta[0] / theta[1], theta[2], 200)
    assert abs(exact.sum() - 1) < 1e-9
    assert p_value(sizes, exact) > 1e-5
    assert p_value(sizes, graph_size_probabilities(theta[0] / theta[1], 1.2 * theta[2], 200)) < 1e-5, "mutant"


def ranks(name, n, rng, spread=1.0):
    """Rank of theta among draws of the posterior at its own run, for n prior draws; `spread` widens the draws."""
    made = find_problem(name)
    theta = made.prior.sample(n, rng)
    x = made.simulate(theta, rng)
    out = np.empty((n, made.prior.dim))
    for i in range(n):
        draws = made.draw_posterior(x[i], 99, rng)
        out[i] = (draws.mean(0) + spread * (draws - draws.mean(0)) < theta[i]).mean(0)
    return (out * 99 + rng.random(out.shape)) / 100


@pytest.mark.parametrize(
    "name", ["homogeneous_sir", "gamma_shape", pytest.param("bernoulli_sir", marks=pytest.mark.slow)]
)
def test_reference_posteriors_are_calibrated(name, rng):
    """Simulation-based calibration of the reference itself: ranks, and their distances from the middle, are uniform."""
    found = ranks(name, 200, rng)
    for column in np.hstack([found, 2 * np.abs(found - 0.5)]).T:
        assert stats.kstest(column, "uniform").pvalue > 1e-5
    narrow = 2 * np.abs(ranks(name, 200, rng, spread=0.5) - 0.5)
    assert min(stats.kstest(column, "uniform").pvalue for column in narrow.T) < 1e-5, "too narrow is seen (mutant)"


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_temporal_draws_have_the_density_of_the_likelihood(place, rng):
    """Shipped draws against importance-weighted prior draws: another sampler of the same exact likelihood."""
    made = find_problem("temporal_sir")
    draws, theta = read_reference("temporal_sir", place), made.prior.sample(3_000, rng)
    value = made.log_likelihood(theta, made.x_o(place))
    weights = np.exp(value - value.max()) / np.exp(value - value.max()).sum()
    effective = 1 / np.square(weights).sum()
    assert effective > 20
    mean, sd = weights @ theta, draws.std(0)
    error = sd * np.sqrt(1 / effective + 1 / len(draws))
    assert (np.abs(draws.mean(0) - mean) < 5 * error).all()
    assert (np.abs(draws.mean(0) + 8 * error - mean) > 5 * error).any(), "draws elsewhere are seen (mutant)"
