"""Problems of the rounds study: the two halves, and those that the benchmark does not have."""

from __future__ import annotations

import numpy as np
import pytest
from problem_checks import check_likelihood, check_noise, check_reference

from thrifty.benchmark import PLACES
from thrifty.benchmark.catalogue import NARROW_VOLUME, REFERENCE_DRAWS
from thrifty.benchmark.exact_draws import relative_volume

NAMES = (
    "lotka_volterra", "slcp", "gaussian_8", "exchange", "hooks", "arc", "gaussian_2", "counts",
    "epidemic_ode", "gaussian_10", "poisson_regression", "two_moons", "squares", "waiting", "shares", "useless",
)  # fmt: skip
OWN = ("exchange", "hooks", "arc")


@pytest.fixture
def problems(study):
    return study("rounds_development")


def test_halves_are_disjoint_and_complete(problems, study):
    development, test = problems.DEVELOPMENT, study("rounds").TEST
    assert not set(development) & set(test)
    assert (*development, *test) == NAMES and tuple(problems.OWN) == OWN
    test = [problems.find_problem(name) for name in test]
    assert sum(made.narrow for made in test) >= 4 and sum(not made.narrow for made in test) >= 3
    assert any(made.modes > 1 for made in test)
    assert {made.prior.dim for made in test} >= {1, 2, 3, 10}


@pytest.mark.parametrize("name", OWN)
def test_noise_of_a_run_is_a_function_of_seed_and_index(problems, name, rng):
    check_noise(problems.find_problem(name), rng)


@pytest.mark.parametrize("name", NAMES)
def test_cost_has_mean_one_and_a_wide_range(problems, name, rng):
    made = problems.find_problem(name)
    cost = made.cost(made.prior.sample(40_000, rng))
    error = cost.std() / np.sqrt(len(cost))
    assert abs(cost.mean() - 1) < 5 * error
    assert abs(1.15 * cost.mean() - 1) > 5 * error, "another constant is seen (mutant)"
    low, high = np.quantile(cost, [0.01, 0.99])
    assert 10 < high / low < 500
    ranks = [(cost < made.cost(made.observations[place][0][None])).mean() for place in PLACES]
    assert np.allclose(ranks, [0.1, 0.5, 0.9], atol=5 * np.sqrt(0.25 / 1_001))


def test_the_arc_is_seen_with_the_stated_likelihood(problems, rng):
    check_likelihood(problems.find_problem("arc"), problems.read_reference("arc", "middle"), rng)


@pytest.mark.parametrize("place", PLACES)
def test_reference_draws_of_the_arc_have_the_exact_density(problems, place):
    check_reference(problems.find_problem("arc"), place, problems.read_reference("arc", place))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["exchange", "hooks"])
def test_reference_draws_of_thin_peaks_have_the_exact_density(problems, name, place, rng):
    """Weighted by |a - b|, the area of sum and product, x_o less both is the noise of runs with such a sum and product.

    The mutants forget that weight, or lie 3 % farther from 0; each place shows one of them.
    """
    made, draws = problems.find_problem(name), problems.read_reference(name, place)
    x_o = made.x_o(place)
    noise = made.respond(np.zeros((200_000, 2)), rng.random((200_000, 2)))  # sum and product are 0
    total, product = (x_o - noise).T
    root = np.sqrt(np.maximum(total**2 - 4 * product, 0.0))
    possible = (root > 0) & np.isfinite(made.prior.log_prob(np.column_stack([total + root, total - root]) / 2))

    def deviations(theta, weights):
        found = (x_o - np.column_stack([theta.sum(1), theta.prod(1)])) ** 2
        mean = np.average(found, axis=0, weights=weights)
        error = np.sqrt(np.square(weights[:, None] * (found - mean)).sum(0)) / weights.sum()
        return np.abs(mean - (noise[possible] ** 2).mean(0)) / error

    area = np.abs(draws[:, 0] - draws[:, 1])
    assert deviations(draws, area).max() < 5
    assert max(deviations(draws, np.ones(len(draws))).max(), deviations(1.03 * draws, area).max()) > 5
    assert abs((draws[:, 0] > draws[:, 1]).mean() - 0.5) < 5 * np.sqrt(0.25 / len(draws))


@pytest.mark.parametrize("name", OWN)
def test_narrow_means_a_thousandth_of_the_prior(problems, name):
    made = problems.find_problem(name)
    prior = made.prior.sample(REFERENCE_DRAWS, np.random.default_rng(4))
    volumes = [relative_volume(problems.read_reference(name, place), prior) for place in PLACES]
    assert (max(volumes) < NARROW_VOLUME) == made.narrow, volumes
