"""NPE, NLE and NRE over a category, a whole number and a number, against the exact posterior of `mixed_model`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import thrifty as th
from thrifty.errors import ConfigError
from thrifty.inference.answers.states import list_states

sys.path.insert(0, str(Path(__file__).parents[1]))
from mixed_model import PRIOR, exact_figures, exact_shift, exact_states, make_table, summarise

POINTS = np.array([[0.9, 3.1], [-1.0, 4.6], [2.4, 2.2], [0.2, 1.4]])


def mean_error(posterior, draws: int = 2_000) -> np.ndarray:
    """Mean absolute error of each figure over four observations (4,)."""
    found = [summarise(posterior.sample(draws, x, seed=0)) for x in POINTS]
    return np.mean([np.abs(a - exact_figures(x)) for a, x in zip(found, POINTS, strict=True)], axis=0)


@pytest.mark.slow
def test_npe_learns_probabilities_before_densities(seed):
    """Trained on 3,000 cost-aware runs; without their weights P(wide) is off by 0.15 and more."""
    table = make_table(3_000, seed)
    posterior = th.NPE(PRIOR).fit(table, seed=1)
    error = mean_error(posterior)
    assert error[0] < 0.06 and error[2] < 0.06 and error[1] < 0.15 and error[3] < 0.15
    forgotten = th.NPE(PRIOR).fit(th.Simulations.from_arrays(theta=table.theta, x=table.x), seed=1)
    assert mean_error(forgotten)[0] > 0.1


def test_npe_density_sums_to_one_and_agrees_with_draws(seed):
    posterior = th.NPE(PRIOR, network=th.MixtureDensity(2, (16,)), training=th.Training(max_epochs=10)).fit(
        make_table(500, seed), seed=1
    )
    x_o, grid = POINTS[0], np.linspace(-6, 6, 401)
    states = [(m, k) for m in range(2) for k in range(1, 5)]
    rows = np.array([(m, k, a) for m, k in states for a in grid])
    density = np.exp(posterior.log_prob(rows, x_o)).reshape(len(states), -1)
    mass = density.sum(1) * (grid[1] - grid[0])
    assert mass.sum() == pytest.approx(1.0, abs=1e-3)
    draws = posterior.sample(10_000, x_o, seed=2)
    shares = np.array([((draws[:, 0] == m) & (draws[:, 1] == k)).mean() for m, k in states])
    assert (np.abs(shares - mass) < 5 * np.sqrt(mass / len(draws)) + 1e-3).all()
    assert posterior.log_prob([[0.0, 2.5, 0.0]], x_o)[0] == -np.inf


def exact_likelihood(x_o):
    """Log likelihood (n,) of theta (n, 3): what NLE would learn from endless runs."""
    from mixed_model import COUNT_SD, SD, SLOPE, START

    def log_likelihood(theta):
        m = theta[:, 0].astype(int)
        first = stats.norm.logpdf(x_o[0], START[m] + SLOPE[m] * theta[:, 2], SD[m])
        return first + stats.norm.logpdf(x_o[1], theta[:, 1] + theta[:, 0], COUNT_SD)

    return log_likelihood


def test_states_are_sampled_by_their_evidence(rng):
    """With the exact likelihood: every probability within 5 standard errors, and the evidence itself."""
    x_o = POINTS[0]
    states = list_states(PRIOR)
    n = 5_000
    chains = states.sample(exact_likelihood(x_o), n, rng=rng)
    exact = exact_states(x_o).ravel()
    draws = chains.samples
    found = np.array([((draws[:, 0] == m) & (draws[:, 1] == k)).mean() for m in range(2) for k in range(1, 5)])
    assert (np.abs(found - exact) < 5 * np.sqrt(exact * (1 - exact) / n) + 0.01 * exact).all()
    mean, sd = exact_shift(x_o)
    for m in range(2):
        inside = draws[draws[:, 0] == m, 2]
        assert abs(inside.mean() - mean[m]) < 5 * sd[m] / np.sqrt(len(inside) / 3)
    marginal = stats.norm.pdf(x_o[0], [0.0, 1.5], np.hypot([1.0, 0.5], [0.5, 1.0])) * [0.4, 0.6]
    total = sum(marginal[m] * 0.25 * stats.norm.pdf(x_o[1], k + m, 0.8) for m in range(2) for k in range(1, 5))
    evidence = states.integrate(exact_likelihood(x_o), rng=rng)
    assert abs(evidence.value - np.log(total)) < 5 * evidence.se < 0.1


def test_many_values_are_moved_by_the_sampler(rng):
    """Thirty whole numbers and a number, correlated: emcee over cells, against the sum."""
    prior = th.Independent({"n": th.Integers(1, 30), "p": th.Uniform(0.0, 1.0)})
    assert list_states(prior) is None
    from thrifty.inference.sampling.mcmc import sample_posterior

    def log_likelihood(theta):
        return stats.binom.logpmf(8, theta[:, 0].astype(int), theta[:, 1])

    values = np.arange(1, 31)
    weight = np.array([quad(lambda p, n=n: stats.binom.pmf(8, n, p), 0, 1)[0] for n in values])
    weight /= weight.sum()
    chains = sample_posterior(log_likelihood, prior, 4_000, rng=rng)
    draws = chains.samples[:, 0]
    assert np.array_equal(draws, np.round(draws)) and draws.min() >= 8
    size = min(float(chains.ess.min()), 4_000)
    for chosen in (values == 8, values <= 12, values > 25):
        share, p = np.isin(draws, values[chosen]).mean(), weight[chosen].sum()
        assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / size)


@pytest.mark.slow
@pytest.mark.parametrize("method", [th.NLE, th.NRE])
def test_likelihoods_see_categories(method, seed):
    posterior = method(PRIOR).fit(make_table(3_000, seed), seed=1)
    error = mean_error(posterior)
    assert error[0] < 0.08 and error[2] < 0.08 and error[1] < 0.2 and error[3] < 0.2


def test_files_of_a_likelihood_keep_categories(seed, tmp_path):
    prior = th.Independent({"model": th.Categorical([0.4, 0.6], ["a", "b"]), "shift": th.Normal(0, 1)})
    table = make_table(300, seed)
    table = th.Simulations.from_arrays(theta=table.theta[:, [0, 2]], x=table.x)
    for method in (
        th.NLE(prior, training=th.Training(max_epochs=3)),
        th.NRE(prior, training=th.Training(max_epochs=3)),
    ):
        posterior = method.fit(table, seed=1)
        posterior.save(tmp_path / "p.npz")
        again = th.load_posterior(tmp_path / "p.npz")
        assert again.parameter_levels == (("a", "b"), None)
        theta = prior.sample(20, np.random.default_rng(0))
        assert np.array_equal(again.log_likelihood(theta, POINTS[0]), posterior.log_likelihood(theta, POINTS[0]))


def test_too_many_values_are_refused():
    with pytest.raises(ConfigError, match="256 at most"):
        th.NPE(th.Independent({"n": stats.poisson(3.0), "a": th.Uniform(0, 1)}))


def test_networks_of_others_are_refused(seed):
    class Own:
        loss = sample = None

    with pytest.raises(ConfigError, match="cannot learn whole numbers"):
        th.NPE(PRIOR, network=Own()).fit(make_table(200, seed), seed=0)


GAMMA_SHAPE, LOG_SD, SIZE = 2.0, 0.8, 3
CHOICE = th.Independent({"model": th.Categorical([0.5, 0.5], ["gamma", "lognormal"]), "scale": th.Uniform(0.5, 3.0)})


def draw_sizes(theta, rng):
    """Three independent numbers of a Gamma(2, scale) or of a log-normal with median scale and log sd 0.8."""
    scale = theta[:, 1:]
    gamma = rng.gamma(GAMMA_SHAPE, scale, (len(theta), SIZE))
    return np.log(np.where(theta[:, :1] == 0, gamma, scale * np.exp(LOG_SD * rng.normal(size=gamma.shape))))


def exact_choice(x_o) -> float:
    """Posterior probability of the log-normal, by integration over the scale."""

    def both(scale):
        x = np.exp(x_o)
        return np.array(
            [stats.gamma.pdf(x, GAMMA_SHAPE, scale=scale).prod(), stats.lognorm.pdf(x, LOG_SD, 0, scale).prod()]
        )

    evidence = [quad(lambda s, m=m: both(s)[m], 0.5, 3.0)[0] for m in range(2)]
    return evidence[1] / sum(evidence)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["abc", "npe", "nle"])
def test_gamma_against_lognormal(name, seed):
    """Log-normal runs cost ten times as much: cost-aware runs are mostly Gamma, and the weights undo it."""
    rng = np.random.default_rng(seed)
    n = 100_000 if name == "abc" else 4_000
    draws = th.CostAware(CHOICE, lambda t: 1 + 9 * t[:, 0], th.Power(0.5)).sample(n, rng)
    table = th.Simulations.from_arrays(theta=draws.theta, x=draw_sizes(draws.theta, rng), proposal=draws.proposal)
    points = draw_sizes(CHOICE.sample(6, rng), rng)
    exact = np.array([exact_choice(x) for x in points])
    forgotten = th.Simulations.from_arrays(theta=table.theta, x=table.x)
    method = {"abc": th.ABC(CHOICE, n_accept=1_000), "npe": th.NPE(CHOICE), "nle": th.NLE(CHOICE)}[name]
    errors = []
    for sims in (table, forgotten):
        posterior = method.fit(sims, seed=1)
        found = np.array([posterior.sample(2_000, x, seed=0)[:, 0].mean() for x in points])
        errors.append(np.abs(found - exact).mean())
    print(f"{name}: mean |error| of P(log-normal) {errors[0]:.3f}; without weights {errors[1]:.3f}")
    assert errors[0] < 0.06
    assert name == "nle" or errors[1] > 0.12  # a likelihood needs no weights
