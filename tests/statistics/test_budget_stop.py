"""What run-time machinery does to a posterior, on a virtual clock, through the loop that runs real campaigns.

Each test has its mutant: what others do (keep what finished, skip what no longer fits, drop what is late) must fail.
"""

from __future__ import annotations

import heapq

import numpy as np
import pytest

import thrifty as th
from thrifty.campaign.simulate import Memory, assemble
from thrifty.runner.engines.virtual import Virtual
from thrifty.runner.gates import Gate
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.loop import Loop, Priced
from thrifty.runner.schedule import Schedule
from thrifty.runner.snapshot import estimate_savings
from thrifty.runner.task import Job
from thrifty.runner.time_limits import TimeLimit

UNPRICED = Priced()
RANGE = 1000.0  # cost = RANGE^theta, theta uniform: the expensive end is what a careless stop loses


def campaign(theta, gate, workers, *, predicted=None, limit=None, duration=None, price=0.0, earlier=UNPRICED):
    """Admit in plan order under a gate; (admitted rows, engine)."""
    duration = duration or (lambda task: float(RANGE ** task.theta[0]))
    engine, memory = Virtual(workers, duration), Memory()
    schedule = Schedule(np.arange(len(theta)), theta, must=0, predicted=predicted, limit=limit)
    prices = {"predicted_price": price, "earlier": earlier}
    loop = Loop(engine, Job(lambda t: t, 0), schedule, memory, gate=gate, limit=limit, **prices)
    ending = loop.run(Interrupts())
    return memory.outcomes, engine, ending


def draws(rng, n, k):
    """Exact draws from RANGE^(-k theta) on [0, 1] by inversion, and log weights."""
    if k == 0:
        return rng.random((n, 1)), np.zeros(n)
    a = k * np.log(RANGE)
    theta = -np.log1p(-rng.random(n) * (1 - np.exp(-a))) / a
    return theta[:, None], a * theta


def estimate(theta, log_weights, rows):
    return float(th.normalise(log_weights[rows]) @ theta[rows, 0])


@pytest.mark.parametrize(
    ("k", "workers", "stop", "campaigns"),
    [
        (0.0, 16, 1600.0, 500),
        (0.5, 16, 500.0, 400),
        pytest.param(0.0, 16, 1600.0, 1500, marks=pytest.mark.slow),
        pytest.param(0.5, 64, 500.0, 1500, marks=pytest.mark.slow),
    ],
)
def test_draining_is_unbiased_and_finished_only_is_not(rng, k, workers, stop, campaigns):
    drained, finished = [], []
    for _ in range(campaigns):
        theta, log_weights = draws(rng, 60 * workers, k)
        outcomes, engine, ending = campaign(theta, Gate(until=stop), workers)
        assert ending == "budget"
        rows = np.array(sorted(outcome.index for outcome in outcomes))
        assert rows.tolist() == list(range(len(rows))), "admission must follow the plan"
        drained.append(estimate(theta, log_weights, rows))
        finished.append(estimate(theta, log_weights, rows[[engine.ended[i] <= stop for i in rows]]))
    bias = [float(np.mean(values) - 0.5) / np.std(values) for values in (drained, finished)]
    assert abs(bias[0]) < 0.15, f"drain: {bias[0]:+.3f} sd"
    assert bias[1] < -1, f"the mutant that keeps only finished runs must fail, but shows {bias[1]:+.3f} sd"


def whatever_fits(cost, workers, stop):
    """The mutant: a free worker takes the next draw that still ends in time, and skips those that do not."""
    free, rows = [0.0] * workers, []
    for row, seconds in enumerate(cost):
        if free[0] + seconds <= stop:
            heapq.heapreplace(free, free[0] + seconds)
            rows.append(row)
    return np.array(rows)


def test_a_cost_budget_is_unbiased_and_skipping_is_not(rng):
    """Spent and in flight count, as predicted; the draw that would pass the budget is run all the same."""
    drained, skipped, spent = [], [], []
    for _ in range(300):
        theta, log_weights = draws(rng, 3000, 0.5)
        cost = RANGE ** theta[:, 0]
        outcomes, _, ending = campaign(theta, Gate(budget=8000.0), 8, predicted=cost, price=1.0)
        assert ending == "budget"
        rows = np.array(sorted(outcome.index for outcome in outcomes))
        drained.append(estimate(theta, log_weights, rows))
        spent.append(sum(outcome.cpu for outcome in outcomes))
        skipped.append(estimate(theta, log_weights, whatever_fits(cost, 8, 1000.0)))
    bias = [float(np.mean(values) - 0.5) / np.std(values) for values in (drained, skipped)]
    assert abs(bias[0]) < 0.15, f"drain: {bias[0]:+.3f} sd"
    assert bias[1] < -1, f"the mutant that skips must fail, but shows {bias[1]:+.3f} sd"
    assert 8000 <= np.mean(spent) < 8000 + RANGE, "overshoot is one run at most"


def test_predictions_twenty_times_too_low_do_not_double_the_bill(rng, monkeypatch):
    """Runs under way count at the measured cost; counted as predicted, a whole wave is overlooked."""
    theta, budget = rng.random((2000, 1)), 20_000.0
    cost = 100 * (1 + theta[:, 0])

    def bill():
        seconds = {"predicted": cost / 20, "duration": lambda task: float(cost[task.index])}
        outcomes, _, ending = campaign(theta, Gate(budget=budget), 64, **seconds, price=1.0)
        assert ending == "budget"
        return sum(outcome.cpu for outcome in outcomes) / budget

    learned = bill()
    monkeypatch.setattr(Loop, "price_per_unit", property(lambda loop: loop.predicted_price))
    assert 1 <= learned < 1.1 and bill() > 1.25, "the mutant believes the prediction"


def test_a_hard_deadline_stops_admitting_early(rng):
    """With the 99 % quantile in reserve nearly nothing is cut; what is cut stays pending."""
    theta, _ = draws(rng, 900, 0.5)
    reserve = float(np.quantile(RANGE ** theta[:, 0], 0.99))
    outcomes, engine, ending = campaign(theta, Gate(deadline=1500.0, reserve=reserve), 16)
    assert ending == "deadline"
    rows = sorted(outcome.index for outcome in outcomes)
    assert rows == list(range(len(rows))) and max(engine.ended.values()) <= 1500.0
    cut, engine, _ = campaign(theta, Gate(deadline=1500.0), 16)
    assert len(cut) < len(engine.ended), "without reserve some runs are cut, and have no result"


def posterior_mean_at_two(sims):
    """Weighted least squares of theta on x is exact NPE here; the mean at x = 2 with its standard error."""
    theta, x, w = sims.theta[sims.ok, 0], sims.x[sims.ok, 0], np.exp(sims.log_weights[sims.ok])
    design = np.column_stack([np.ones_like(x), x])
    inverse = np.linalg.inv((design.T * w) @ design)
    beta = inverse @ (design.T * w) @ theta
    residual = theta - design @ beta
    covariance = inverse @ (design.T * (w * residual) ** 2) @ design @ inverse
    at = np.array([1.0, 2.0])
    return float(at @ beta), float(np.sqrt(at @ covariance @ at))


def lazy_table(rng, n, policy, seed):
    """theta ~ N(0, 1), x = theta + noise, cost exp(1.5 theta + noise/2): slow runs have large x too."""
    theta = rng.normal(size=(n, 1))
    z, e = rng.normal(size=n), rng.normal(size=n)
    time = np.exp(1.5 * theta[:, 0] + 0.5 * e + 0.5 * z)
    limit = TimeLimit(float(np.quantile(time, 0.9)), policy)
    engine, memory = Virtual(4, lambda t: float(time[t.index]), output=lambda t: [t.theta[0] + z[t.index]]), Memory()
    schedule = Schedule(np.arange(n), theta, limit=limit, seed=seed)
    Loop(engine, Job(lambda t: t, seed), schedule, memory, limit=limit).run(Interrupts())
    return assemble(th.Draws(theta), memory.outcomes, limit=limit, cost="wall", m=1, seed=seed), time


def test_a_lazy_limit_is_unbiased_and_dropping_is_not(rng, seed):
    lazy, time = lazy_table(rng, 6000, "lazy", seed)
    mean, se = posterior_mean_at_two(lazy)
    assert abs(mean - 1.0) < 3 * se, f"lazy: {mean:.3f} +- {se:.3f}"
    dropped, _ = lazy_table(rng, 6000, "restrict", seed)
    mean, se = posterior_mean_at_two(dropped)
    assert mean < 1.0 - 10 * se, f"the mutant that drops late runs must fail, but gives {mean:.3f} +- {se:.3f}"
    assert lazy.cost.sum() < 0.9 * time.sum(), "the limit must save something"
    assert lazy.failed_mass == 0.0, "late runs are represented by the lazy share"


def test_lazy_weights_are_one_on_average(rng, seed):
    """E[factor] = 1 exactly, so the mean factor is 1 within its error; squared weights (mutant) are not."""
    lazy, _ = lazy_table(rng, 6000, "lazy", seed)
    factor = np.exp(lazy.log_weights)
    assert set(np.unique(factor).round(9)) == {0.0, 1.0, 4.0}
    assert abs(factor.mean() - 1) < 5 * factor.std() / np.sqrt(len(factor))
    assert abs((factor**2).mean() - 1) > 5 * (factor**2).std() / np.sqrt(len(factor))


@pytest.mark.filterwarnings("ignore:.*runs failed.*:thrifty.errors.ThriftyWarning")
@pytest.mark.parametrize(("kind", "mass"), [("theta", 0.2), ("x", 0.25), ("both", 0.125)])
def test_failures_are_counted_as_prior_mass(rng, seed, kind, mass):
    """Draws from a proposal that avoids the failing region; the failed share must be that of the prior."""
    theta, log_weights = draws(rng, 4000, 0.2)

    def simulate(theta, rng):
        x = rng.random()
        fails = {"theta": theta[0] > 0.8, "x": x > 0.75, "both": theta[0] > 0.5 and x > 0.75}[kind]
        return np.nan if fails else x

    sims = th.simulate(simulate, th.Draws(theta, log_weights), engine=th.Inline(), seed=seed, progress="quiet")
    w = th.normalise(log_weights)
    se = np.sqrt(np.sum((w * (~sims.ok - sims.failed_mass)) ** 2))
    assert abs(sims.failed_mass - mass) < 3 * se
    counted = float((~sims.ok).mean())
    assert kind == "x" or abs(counted - mass) > 5 * se, "a count (mutant) is not prior mass"


def test_weighting_repairs_lateness_that_depends_on_theta(rng, seed):
    """P(finish | theta) is learned; 1/P restores the prior mean, dropping does not."""
    theta = rng.random((8000, 1))
    time = np.where(rng.random(8000) < 1 / (1 + np.exp(-6 * (theta[:, 0] - 0.7))), 10.0, 1.0)
    limit = TimeLimit(5.0, "weight")
    engine, memory = Virtual(8, lambda t: float(time[t.index])), Memory()
    Loop(engine, Job(lambda t: t, 0), Schedule(np.arange(8000), theta, limit=limit), memory, limit=limit).run(
        Interrupts()
    )
    sims = assemble(th.Draws(theta), memory.outcomes, limit=limit, cost="wall", m=1, seed=0)
    result = th.estimate(sims.theta[sims.ok, 0], sims.log_weights[sims.ok])
    assert abs(float(result.mean) - 0.5) < 3 * float(result.se)
    kept = sims.theta[sims.ok, 0]
    assert abs(kept.mean() - 0.5) > 10 * kept.std() / np.sqrt(len(kept))


def test_the_interval_of_savings_covers(rng):
    """1,000 campaigns: 50 pilots and 450 draws under the square root of cost, noisy times."""
    prior = th.Uniform(0, 1)
    cost = lambda t: 100.0 ** np.asarray(t)[:, 0]  # noqa: E731
    root = th.CostAware(prior, cost, th.Power(0.5))
    pool = th.Pool([(50, prior), (450, root)], prior)
    mean = 99 / np.log(100)
    covered = naive = 0
    for _ in range(1000):
        theta = np.concatenate([rng.random((50, 1)), draws_between(rng, 450)])
        measured = cost(theta) * rng.lognormal(-0.02, 0.2, 500)
        figures = estimate_savings(measured, pool.log_weight(theta))
        truth = 500 * mean - measured.sum()
        covered += figures.low <= truth <= figures.high
        wrong = estimate_savings(measured, np.zeros(500))
        naive += wrong.low <= truth <= wrong.high
    assert 930 <= covered <= 970
    assert naive < 100, "the mutant that forgets the weights must fail"


def draws_between(rng, n):
    a = 0.5 * np.log(100.0)
    return (-np.log1p(-rng.random(n) * (1 - np.exp(-a))) / a)[:, None]


@pytest.mark.parametrize("factor", [1.0, 1000.0])
def test_admission_at_a_measured_price_is_unbiased_and_skipping_is_not(rng, factor):
    """Predictions too low by a factor and noisy, a price from forty pilots: unbiased, and within a run per worker.

    Wald's identity is exact: weighted sums of theta - E[theta] over the admitted runs have mean zero. The weighted mean
    is a ratio of two sums, whose own bias falls with the number of runs (0.1 standard deviations here, as before).
    """
    drained, spent, beyond = [], [], []
    sums: dict[str, list[float]] = {"drained": [], "skipped": []}
    for _ in range(300):
        theta, log_weights = draws(rng, 3000, 0.5)
        cost = RANGE ** theta[:, 0] * rng.lognormal(-0.5, 1.0, len(theta))
        predicted = RANGE ** theta[:, 0] / factor
        pilots = rng.random(40)
        paid = RANGE**pilots * rng.lognormal(-0.5, 1.0, 40)
        earlier = Priced(40, float(paid.sum()), float((RANGE**pilots / factor).sum()))
        outcomes, _, ending = campaign(
            theta, Gate(budget=8000.0), 8, predicted=predicted, price=1.0, earlier=earlier,
            duration=lambda task, cost=cost: float(cost[task.index]),
        )  # fmt: skip
        assert ending == "budget"
        rows = np.array(sorted(outcome.index for outcome in outcomes))
        assert rows.tolist() == list(range(len(rows))), "admission must follow the plan"
        drained.append(estimate(theta, log_weights, rows))
        bill = sorted(outcome.cpu for outcome in outcomes)
        spent.append(sum(bill))
        beyond.append(sum(bill[:-8]))
        for label, chosen in (("drained", rows), ("skipped", whatever_fits(cost, 8, 1000.0))):
            sums[label].append(float(np.exp(log_weights[chosen]) @ (theta[chosen, 0] - 0.5)))
    errors = {label: np.mean(v) / np.std(v) * np.sqrt(len(v)) for label, v in sums.items()}
    assert abs(errors["drained"]) < 5, f"{errors['drained']:+.1f} standard errors"
    assert errors["skipped"] < -20, f"the mutant that skips must fail, but is off by {errors['skipped']:+.1f}"
    assert abs(np.mean(drained) - 0.5) < 0.15 * np.std(drained)
    assert min(spent) >= 8000 > np.mean(beyond), "passed by less than one expensive run per worker"


def test_a_thousandfold_error_without_a_pilot_costs_a_run_per_worker(rng, monkeypatch):
    """No price is known: single runs until one is. The mutant admits by the prediction and overruns many times."""
    theta, budget = rng.random((40_000, 1)), 20_000.0
    cost = 100 * (1 + theta[:, 0])
    monkeypatch.setattr("thrifty.runner.loop.ADMIT_SECONDS", 1e9)  # as where runs are short and cost a lot

    def bill():
        seconds = {"predicted": cost / 1000, "duration": lambda task: float(cost[task.index])}
        outcomes, _, ending = campaign(theta, Gate(budget=budget), 16, **seconds, price=1.0)
        assert ending in ("budget", "done")
        return sum(outcome.cpu for outcome in outcomes) / budget

    assert 1 <= bill() < 1 + 16 * 200 / budget
    monkeypatch.setattr(Loop, "price_per_unit", property(lambda loop: loop.predicted_price))
    monkeypatch.setattr(Schedule, "admit", lambda self, *, runs, admit=Schedule.admit, **limits: admit(self, **limits))
    assert bill() > 2, "the mutant believes the prediction"
