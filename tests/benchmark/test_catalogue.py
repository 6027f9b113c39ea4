"""Problems of the benchmark: simulator, likelihood, reference draws, costs and volumes belong together."""

from __future__ import annotations

import numpy as np
import pytest
from problem_checks import check_likelihood, check_noise, check_reference
from scipy import stats

import thrifty as th
from thrifty.benchmark import PLACES, PROBLEMS, catalogue, describe, draw_reference, find_problem, read_reference
from thrifty.benchmark.catalogue import NARROW_VOLUME, measure_volume

pytest.importorskip("numba")
OUTBREAKS = ("homogeneous_sir", "temporal_sir", "bernoulli_sir")  # a likelihood takes milliseconds
# a crescent ends with a jump; the Gamma model's likelihood is that of its posterior on a grid
SMOOTH = [n for n in PROBLEMS if n not in (*OUTBREAKS, "two_moons", "gamma_shape")]


def test_problems_span_what_a_user_may_have():
    made = [find_problem(name) for name in PROBLEMS]
    assert len(made) >= 10
    assert {p.prior.dim for p in made} >= {1, 2, 3, 4, 5, 10}
    assert {p.modes for p in made} >= {1, 2, 4} and {p.narrow for p in made} == {True, False}
    ranges = [describe(name)["cost_range"] for name in PROBLEMS]
    assert min(ranges) < 3.5 and max(ranges) > 900
    counts = [p for p in made if np.array_equal(p.x_o("middle"), np.round(p.x_o("middle")))]
    assert 3 <= len(counts) < len(made) - 3, "counts and continuous outputs"


@pytest.mark.parametrize("name", PROBLEMS)
def test_noise_of_a_run_is_a_function_of_seed_and_index(name, rng):
    check_noise(find_problem(name), rng)


@pytest.mark.parametrize("name", PROBLEMS)
def test_cost_has_mean_one_as_charged_and_as_expected(name, rng):
    made = find_problem(name)
    theta = made.prior.sample(1_500 if made.charge else 40_000, rng)
    expected, charged = made.cost(theta), made.run_rows(theta, rng.random((len(theta), made.words)))[1]
    for cost in (expected, charged):
        error = cost.std() / np.sqrt(len(cost))
        assert abs(cost.mean() - 1) < 5 * error
        assert abs((1 + 12 * error) * cost.mean() - 1) > 5 * error, "another constant is seen (mutant)"
    gap = charged - expected  # at every theta, not only on average
    weights = (theta - theta.mean(0)) / theta.std(0)
    for column in np.column_stack([np.ones(len(gap)), weights]).T:
        part = gap * column
        assert abs(part.mean()) <= 5 * part.std() / np.sqrt(len(part)) + 0.003
    ranks = [(expected < made.cost(made.observations[place][0][None])).mean() for place in PLACES]
    assert np.allclose(ranks, [0.1, 0.5, 0.9], atol=5 * np.sqrt(0.25 / min(1_001, len(theta))))


@pytest.mark.parametrize("name", SMOOTH)
def test_the_simulator_has_the_stated_likelihood(name, rng):
    check_likelihood(find_problem(name), read_reference(name, "middle"), rng)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", SMOOTH)
def test_reference_draws_have_the_exact_density(name, place):
    check_reference(find_problem(name), place, read_reference(name, place))


@pytest.mark.parametrize(
    "name",
    [
        *("epidemic_ode", "slcp", "poisson_regression"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("lotka_volterra", "bernoulli_glm")),
    ],
)
def test_a_sampler_with_another_seed_agrees(name, monkeypatch):
    """Means and spreads; references 0.3 deviations beside, or 1.3 times as wide, are seen (mutants)."""
    again = draw_reference(name, "middle", catalogue.REFERENCE_SEED + 1, catalogue.REFERENCE_DRAWS)
    monkeypatch.setattr(catalogue, "draw_reference", lambda *asked: again)  # a sampler takes seconds
    assert max(catalogue.measure_disagreement(name, "middle")) < 5
    draws = read_reference(name, "middle")
    centre, spread = draws.mean(0), np.abs(draws).std(0)
    for wrong, which in ((draws + 0.3 * spread * np.sign(draws), 0), (centre + 1.3 * (draws - centre), 1)):
        monkeypatch.setattr(catalogue, "read_reference", lambda *asked, wrong=wrong: wrong)
        assert catalogue.measure_disagreement(name, "middle")[which] > 5


@pytest.mark.parametrize("place", PLACES)
def test_crescents_are_what_the_observation_left(place):
    """x_o less the shift of an exact draw is a moon: its radius normal, its angle uniform; both modes as likely."""
    half = find_problem("two_moons")
    draws, x_o = read_reference("two_moons", place), half.x_o(place)
    assert np.isfinite(half.log_likelihood(draws, x_o)).all()
    total, gap = draws.sum(1), draws[:, 1] - draws[:, 0]
    moon = x_o - np.column_stack([-np.abs(total), gap]) / np.sqrt(2) - [0.25, 0.0]
    radius, angle = np.hypot(*moon.T), np.arctan2(moon[:, 1], moon[:, 0])
    assert stats.kstest(radius, "norm", (0.1, 0.01)).pvalue > 1e-5
    assert stats.kstest(angle, "uniform", (-np.pi / 2, np.pi)).pvalue > 1e-5
    assert stats.kstest(radius, "norm", (0.1, 0.013)).pvalue < 1e-5, "another thickness is seen (mutant)"
    assert abs((total > 0).mean() - 0.5) < 5 * 0.5 / np.sqrt(len(draws))


def test_moons_are_drawn_as_stated(rng):
    made = find_problem("two_moons")
    x = made.simulate(np.zeros((4_000, 2)), rng) - [0.25, 0.0]
    assert stats.kstest(np.hypot(*x.T), "norm", (0.1, 0.01)).pvalue > 1e-5
    assert stats.kstest(np.arctan2(x[:, 1], x[:, 0]), "uniform", (-np.pi / 2, np.pi)).pvalue > 1e-5


@pytest.mark.parametrize("name", PROBLEMS)
def test_narrow_means_a_thousandth_of_the_prior(name):
    volumes = [measure_volume(name, place) for place in PLACES]
    assert (max(volumes) < NARROW_VOLUME) == find_problem(name).narrow, volumes


def test_volume_is_that_of_normals():
    """Ten parameters: the square root of the ratio of determinants, within what the estimate is trusted to."""
    made = find_problem("gaussian_10")
    truth = np.sqrt(np.linalg.det(np.cov(draw_reference("gaussian_10", "cheap", 1, 20_000).T)))
    assert abs(np.log(measure_volume("gaussian_10", "cheap") / truth)) < 0.5
    assert made.narrow


def test_all_four_squares_are_found():
    """Both signs of a and b, in unequal shares."""
    draws = read_reference("squares", "expensive")
    shares = [((draws[:, 0] > 0) == s).mean() for s in (True, False)]
    assert min(shares) > 0.02 and abs(shares[0] - 0.5) > 5 * 0.5 / np.sqrt(len(draws))
    assert 0.02 < (draws[:, 1] > 0).mean() < 0.98


def test_sequential_abc_runs_on_a_problem():
    made = find_problem("gaussian_2")
    study = th.SMCABC(made.prior, particles=100).run(made, made.x_o("cheap"), budget=400.0)
    assert 0.9 < study.cost / 400 < 1.1 and study.simulations.unit == "prior runs"
    exact = read_reference("gaussian_2", "cheap")
    error = exact.std(0) / np.sqrt(50)
    assert (np.abs(study.posterior.mean - exact.mean(0)) < 5 * error).all()
