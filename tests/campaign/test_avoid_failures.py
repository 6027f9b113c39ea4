"""Plans that draw less where runs fail: exact weights, the right failed mass, and more valid runs for the same cost."""

from __future__ import annotations

import json

import numpy as np
import pytest

import thrifty as th
from thrifty.costs import FinishModel
from thrifty.errors import ConfigError
from thrifty.prior_recovery import check_recovery
from thrifty.proposals import weighting_from_dict
from thrifty.proposals.draws import Draws

PRIOR = th.Uniform([0.0, 0.0], [1.0, 1.0], names=["a", "b"])
QUIET = {"engine": th.Inline(), "progress": "quiet"}
FAILS_ABOVE = 0.6  # of a: 40 % of the prior


def simulate(theta, rng):
    """Fail above 0.6; cost from 1 to 5."""
    if theta[0] > FAILS_ABOVE:
        raise ValueError("no solution")
    return th.Output(theta + 0.1 * rng.normal(size=2), cost=1 + 4 * theta[1])


def cost_of(theta):
    return 1 + 4 * np.asarray(theta)[:, 1]


def fit_finish(seed: int, n: int = 200) -> FinishModel:
    theta = PRIOR.sample(n, np.random.default_rng(seed))
    return FinishModel.fit(theta, theta[:, 0] <= FAILS_ABOVE)


@pytest.fixture
def proposal(seed):
    return th.CostAware(PRIOR, cost_of, th.Power(0.5), finish=fit_finish(seed))


def test_weights_restore_the_prior_and_the_failed_mass(proposal, rng):
    """Weights are prior/proposal for all draws, failed ones included: the failed mass is that of the prior."""
    draws = proposal.sample(20_000, rng)
    failed = (draws.theta[:, 0] > FAILS_ABOVE).astype(float)
    found = th.estimate(np.column_stack([failed, draws.theta]), draws.log_weights)
    assert (np.abs(found.mean - [0.4, 0.5, 0.5]) < 5 * found.se).all()
    assert failed.mean() < 0.2
    assert np.ptp(draws.log_weights) < 0.5 * np.log(20 * 5) + 1e-9  # the floor of P and the range of cost bound them


def test_prior_recovery_finds_a_wrong_use_of_the_finish_model(proposal, seed, rng):
    assert th.prior_recovery(proposal, n=20_000, seed=seed) > 1e-3
    draws = proposal.sample(20_000, rng)
    once = -0.5 * np.log(proposal.finish.floored(draws.theta))
    mutants = {"twice": draws.log_weights + once, "forgotten": draws.log_weights - once, "none": np.zeros(len(draws))}
    assert check_recovery(Draws(draws.theta, draws.log_weights), PRIOR, seed=seed) > 1e-3
    for name, weights in mutants.items():
        assert check_recovery(Draws(draws.theta, weights), PRIOR, seed=seed) < 1e-6, name


def test_figures_of_the_trade_off_are_those_of_the_draws(proposal, rng):
    """The table promises valid effective runs and their cost: both are counted in draws."""
    draws = proposal.sample(50_000, rng)
    p = proposal.finish.floored(draws.theta)  # what the model believes
    weights = np.exp(draws.log_weights)
    effective = (p @ weights) ** 2 / (p @ weights**2) / len(draws)
    assert effective == pytest.approx(proposal.valid_ess_fraction, rel=0.02)
    assert cost_of(draws.theta).mean() == pytest.approx(proposal.expected_cost, rel=0.02)
    assert p.mean() == pytest.approx(proposal.valid_share, rel=0.02)
    table = th.tradeoff(PRIOR, cost_of, finish=proposal.finish)
    best = table.best
    assert best.k == 0.5 and best.product <= table.ceiling * (1 + 1e-9)
    assert best.product == pytest.approx(proposal.gain * proposal.valid_ess_fraction / proposal.finish_share, rel=0.02)
    assert "valid" in str(table) and "√(c/P)" in str(table)


def test_numbers_rebuild_the_proposal(proposal, rng):
    theta = PRIOR.sample(60, rng)
    fitted = th.CostAware(PRIOR, th.fit_cost(theta, cost_of(theta)), finish=proposal.finish)
    again = weighting_from_dict(json.loads(json.dumps(fitted.to_dict())), PRIOR)
    assert np.allclose(again.log_weight(theta), fitted.log_weight(theta), atol=1e-6)
    mixture = th.Mixture(PRIOR, fitted.cost, finish=proposal.finish)
    again = weighting_from_dict(json.loads(json.dumps(mixture.to_dict())), PRIOR)
    assert np.allclose(again.log_weight(theta), mixture.log_weight(theta), atol=1e-6)


def run_campaign(folder, seed: int, avoid_failures: bool | None, n: int = 400):
    c = th.Campaign(folder, simulate, PRIOR, seed=seed, cost="reported")
    c.pilot(60, **QUIET)
    plan = c.plan(n=n, cost=cost_of, avoid_failures=avoid_failures)
    with pytest.warns(th.ThriftyWarning, match="conditional on finishing"):
        c.run(**QUIET)
    return c, plan


def test_a_campaign_avoids_failures_by_itself(tmp_path, seed):
    c, plan = run_campaign(tmp_path / "c", seed, None)
    assert "avoided: " in str(plan) and plan.valid_share > plan.table.finish_share + 0.1
    sims = c.simulations(max_failed=1.0)
    failed = (~sims.ok).astype(float)[:, None]
    found = th.estimate(failed, sims.log_weights)
    assert abs(found.mean[0] - 0.4) < 5 * found.se[0]
    assert sims.failed_mass == pytest.approx(found.mean[0])
    quote = c.quote(n=400, cost=cost_of)
    assert "avoided: " in str(quote)
    again = c.plan(n=500, cost=cost_of)  # the same request goes on with the same proposal
    assert again.valid_share == pytest.approx(plan.valid_share)


def test_few_failures_are_left_alone(tmp_path, seed):
    c = th.Campaign(tmp_path / "c", lambda theta, rng: th.Output(theta, cost=cost_of(theta[None])[0]), PRIOR, seed=seed,
                    cost="reported")  # fmt: skip
    c.pilot(60, **QUIET)
    plan = c.plan(n=50)
    assert plan.valid_share == 1.0 and "failures" not in str(plan)
    assert c.plan(n=50, avoid_failures=True).valid_share == 1.0  # nothing failed, so that there is nothing to learn


def test_plain_sampling_cannot_avoid(tmp_path, seed):
    c = th.Campaign(tmp_path / "c", simulate, PRIOR, seed=seed, cost="reported")
    c.pilot(60, **QUIET)
    with pytest.raises(ConfigError, match="penalty=0"):
        c.plan(n=50, cost=cost_of, penalty=0, avoid_failures=True)


@pytest.mark.slow
def test_more_valid_runs_for_the_same_cost(tmp_path):
    """Ten seeds: effective valid runs per cost, over those of a plan that does not avoid failures."""
    ratios = []
    for seed in range(10):
        values = []
        for avoid in (True, False):
            c, _ = run_campaign(tmp_path / f"{avoid}{seed}", seed, avoid)
            sims = c.simulations(max_failed=1.0)[60:]
            spent = cost_of(sims.theta).sum()  # failed runs cost what they cost
            values.append(th.ess(sims.log_weights[sims.ok]) / spent)
        ratios.append(values[0] / values[1])
    mean, se = np.mean(ratios), np.std(ratios, ddof=1) / np.sqrt(len(ratios))
    print(f"effective valid runs per cost, with over without: {mean:.3f} ± {se:.3f}")
    assert mean - 5 * se > 1.2
