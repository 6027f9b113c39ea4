"""Local ESS, predictive, misspecification, weight health and cost model: size, power and words."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty import diagnostics
from thrifty.errors import CostError, DataError
from thrifty.proposals.kernel import KernelProposal


def test_local_ess_counts_what_supports_the_posterior(world, rng):
    """With the pool from the prior, u is posterior over prior: ESS/n = (E u)^2 / E u^2 in closed form."""
    runs = world.pool(20_000, rng, k=0.0, dim=1)
    posterior = world.Exact(dim=1)
    result = diagnostics.local_ess(posterior, runs, [0.0])
    sd = world.NOISE / np.sqrt(1 + world.NOISE**2)
    second = 1 / (sd**2 * np.sqrt(2 / sd**2 - 1))  # E[(q/p)^2] for q = N(0, sd), p = N(0, 1)
    assert result.ess == pytest.approx(20_000 / second, rel=0.03)
    assert result.verdict == "trust"


def test_local_ess_falls_where_runs_are_dear(world, rng):
    runs = world.pool(2000, rng, k=1.0)
    cheap, dear = (diagnostics.local_ess(world.Exact(), runs, [x, 0.0]) for x in (-3.0, 6.0))
    assert cheap.region > 3 * dear.region and cheap.ess > 20 * dear.ess
    assert dear.verdict != "trust" and "add runs" in dear.reason
    nothing = diagnostics.local_ess(world.Exact(shift=60.0), runs, [0.0, 0.0])
    assert nothing.verdict == "do not trust" and nothing.region == 0


def test_predictive_from_the_pool_is_the_predictive(world, rng):
    """Weighted outputs must have the mean and variance of the posterior predictive distribution."""
    runs = world.pool(20_000, rng)
    x_o = np.array([1.0, -1.0])
    result = diagnostics.predictive(world.Exact(), runs, x_o)
    mean, sd = world.Exact().moments(x_o)
    ours = th.estimate(result.x, result.log_weights)
    assert (np.abs(ours.mean - mean) < 5 * ours.se).all()
    spread = th.estimate((result.x - mean) ** 2, result.log_weights)
    assert (np.abs(spread.mean - (sd**2 + world.NOISE**2)) < 5 * spread.se).all()
    bare = th.estimate(result.x, result.log_weights - runs.log_weights)  # the mutant: campaign weights forgotten
    assert abs(bare.mean[0] - mean[0]) > 10 * bare.se[0]
    assert result.verdict == "trust"


def test_predictive_rejects_a_posterior_that_cannot_give_the_data(world, rng):
    runs = world.pool(5000, rng, k=0.0)
    fresh_theta = world.Exact(shift=-8.0).sample(300, [1.0, 1.0], seed=1)
    fresh = th.Simulations.from_arrays(theta=fresh_theta, x=fresh_theta + world.NOISE * rng.normal(size=(300, 2)))
    result = diagnostics.predictive(world.Exact(shift=-8.0), runs, [1.0, 1.0], fresh=fresh)
    assert result.verdict == "do not trust" and "unlike data of the posterior" in result.reason
    thin = diagnostics.predictive(world.Exact(shift=-8.0), runs, [1.0, 1.0])
    assert thin.verdict == "with care" and "fresh=" in thin.reason


def misfits(world, seed, repeats, *, gap=0.0, weighted=True, k=0.5):
    hits = 0
    for i in range(repeats):
        rng = np.random.default_rng(seed + i)
        runs = world.pool(1000, rng, k=k)
        runs = runs if weighted else runs.reweighted(np.zeros(len(runs)))
        hits += diagnostics.misspecification(runs, world.observation(rng) + gap).p_value < 0.05
    return hits / repeats


def test_misspecification_accepts_the_model_and_rejects_another(world, seed):
    assert misfits(world, seed, 60) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 60)
    assert misfits(world, seed, 20, gap=9.0) == 1.0
    # the mutant: without weights an x_o from the dear region looks strange
    assert misfits(world, seed, 60, weighted=False, k=1.5) > misfits(world, seed, 60, k=1.5) + 0.1


def test_misspecification_names_the_statistic(world, rng):
    runs = world.pool(1000, rng)
    result = diagnostics.misspecification(runs, [0.0, 40.0])
    assert result.verdict == "do not trust"
    assert result.outside == ("x_2",) and "x_2" in result.reason


@pytest.mark.slow
def test_sizes_over_200_seeds(world, seed):
    """Misspecification, predictive and cost check: false alarms at most twice the nominal 5 %."""
    assert misfits(world, seed, 200) <= 0.10
    predictive, cost = [], []
    for i in range(200):
        rng = np.random.default_rng(seed + 7 * i)
        runs = world.pool(1000, rng)
        predictive.append(diagnostics.predictive(world.Exact(), runs, world.observation(rng)).p_value)
        cost.append(diagnostics.cost_check(lambda t: np.exp(world.A * t[:, 0]), runs).p_value)
    shares = np.mean(np.array([predictive, cost]) < 0.05, axis=1)
    print("predictive, cost", shares, "misspecification", misfits(world, seed, 200))
    assert (shares <= 0.10).all()


def test_a_heavy_tail_that_is_bounded_lowers_no_verdict(rng):
    """110 of 5,000 draws are from the prior: no run can hold more than 1/110. The mutant forgets that."""
    prior = th.Uniform([0.0] * 2, [1.0] * 2)
    near = KernelProposal(prior, np.full((1, 2), 0.5), np.zeros(1), 1e-3 * np.eye(2), th.Power(0))
    theta = np.concatenate([prior.sample(110, rng), near.sample(4_890, rng).theta])
    pool = th.Pool([(110, prior), (4_890, near)], prior)
    sims = th.Simulations.from_arrays(theta=theta, x=theta, proposal=pool)
    bounded = th.diagnostics.weight_health(sims)
    mutant = th.diagnostics.weight_health(sims.log_weights)
    assert bounded.pareto_k > 0.7 and bounded.ess > 105 and bounded.max_share == 1 / 110
    assert bounded.verdict == "trust" and mutant.verdict == "with care"


def test_weight_health_has_the_closed_form(world, rng):
    runs = world.pool(50_000, rng)
    health = diagnostics.weight_health(runs)
    assert health.ess_fraction == pytest.approx(np.exp(-((world.A * world.K) ** 2)), rel=0.1)
    assert health.top_percent == pytest.approx(np.sort(health.weights)[-500:].sum(), abs=1e-12)
    assert health.verdict == "trust"


@pytest.mark.parametrize(
    ("log_weights", "verdict", "word"),
    [
        (np.zeros(500), "trust", "over the whole prior 500 runs count as 500"),
        (np.append(np.zeros(500), 10.0), "do not trust", "gentler penalty"),
        (np.append(np.zeros(400), np.full(50, 3.0)), "with care", "runs count as"),
        (-0.85 * np.log(np.random.default_rng(0).random(20_000)), "with care", "Pareto k"),
    ],
)
def test_weight_health_verdicts(log_weights, verdict, word):
    health = diagnostics.weight_health(log_weights)
    assert health.verdict == verdict and word in health.reason


def test_weight_health_sees_failed_prior_mass(world, rng):
    runs = world.pool(1000, rng)
    x = runs.x.copy()
    x[runs.theta[:, 0] > 1.0] = np.nan
    health = diagnostics.weight_health(th.Simulations(theta=runs.theta, x=x, log_weights=runs.log_weights))
    assert health.failed_mass == pytest.approx(0.16, abs=0.06)
    assert health.verdict == "do not trust" and "conditional on finishing" in health.reason


def test_cost_check(world, rng):
    runs = world.pool(800, rng)
    right = diagnostics.cost_check(lambda t: np.exp(world.A * t[:, 0]), runs)
    assert right.verdict == "trust" and right.score > 0.95
    assert abs(right.ratio - 1) < 5 * right.ratio_se
    steep = diagnostics.cost_check(lambda t: np.exp(0.6 * world.A * t[:, 0]), runs)
    double = diagnostics.cost_check(lambda t: 2 * np.exp(world.A * t[:, 0]), runs)
    assert steep.verdict == double.verdict == "with care"
    assert steep.trends[0] > 0.2 and abs(steep.trends[1]) < 5 * steep.trend_se[1]
    assert "not affected" in steep.reason


def test_bad_input(world, rng):
    runs = world.pool(100, rng)
    with pytest.raises(CostError, match="positive numbers"):
        diagnostics.cost_check(lambda t: -t[:, 0], runs)
    with pytest.raises(DataError, match="0 runs with a measured cost"):
        diagnostics.cost_check(lambda t: t[:, 0], th.Simulations.from_arrays(theta=runs.theta, x=runs.x))
    with pytest.raises(DataError, match="observed data has 3 values"):
        diagnostics.misspecification(runs, [1.0, 2.0, 3.0])
    with pytest.raises(DataError, match="at least 20 are needed"):
        diagnostics.misspecification(runs[:5], [1.0, 2.0])

    class NoPrior:
        sample, log_prob = world.Exact().sample, world.Exact().log_prob

    with pytest.raises(DataError, match="prior is not known"):
        diagnostics.local_ess(NoPrior(), runs, [0.0, 0.0])
