"""Budgets keep to what runs really cost: wrong predictions, impossible costs, and folders made before."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest

import thrifty as th
from thrifty.campaign.plan import MAX_RATIO_SPREAD
from thrifty.campaign.steps import Driver
from thrifty.errors import CostError, ThriftyWarning
from thrifty.runner.loop import Loop, Priced
from thrifty.runner.run_one import Runner
from thrifty.runner.task import Job, Outcome, Task
from thrifty.store.rows import RUNS, read_outcome, run_row
from thrifty.store.store import Store

PRIOR = th.Uniform(0, 3)
QUIET = {"progress": "quiet"}
INLINE = {**QUIET, "engine": th.Inline()}
MOST = 1000 * np.exp(6)  # credits of the most expensive run


def thousand(theta, rng):
    """The simulator of the report that found the overrun: 1000 exp(2 theta) credits."""
    return th.Output(theta[:1] + rng.normal(), cost=1000 * float(np.exp(2 * theta[0])))


def make(folder, simulator=thousand, prior=PRIOR, **settings):
    return th.Campaign(folder, simulator, prior, **{"seed": 1, "cost": "reported", "unit": "credits", **settings})


def overrun(folder, factor, budget=20_000_000, **where):
    """Share of the budget that was spent beyond it, where the given cost is too low by a factor."""
    c = make(folder)
    c.pilot(40, **INLINE)
    c.plan(budget=f"{budget} credits", cost=lambda x: 1000 / factor * np.exp(2 * x[:, 0]))
    return c.run(**QUIET, **where).spent / budget - 1


@pytest.mark.filterwarnings("ignore:.*times too low.*:thrifty.errors.ThriftyWarning")
@pytest.mark.parametrize("where", [{"engine": th.Inline()}, {"workers": 2}], ids=["inline", "2 workers"])
@pytest.mark.parametrize("factor", [1, 20, 1000])
def test_a_budget_is_passed_by_one_run_per_worker(tmp_path, factor, where):
    assert 0 <= overrun(tmp_path / "c", factor, **where) <= 2 * MOST / 20_000_000


@pytest.mark.parametrize("factor", [2, 20])
def test_the_price_is_that_of_the_pilot_without_rescaling_too(tmp_path, monkeypatch, factor):
    """Folders that were planned before costs were compared; the mutant that believes predictions must overrun."""
    monkeypatch.setattr("thrifty.campaign.plan.match_measured", lambda cost, theta, measured: cost)
    assert 0 <= overrun(tmp_path / "c", factor, engine=th.Inline()) <= MOST / 20_000_000
    monkeypatch.setattr(Driver, "_priced", lambda self, units, budget: Priced(runs=10**9))
    monkeypatch.setattr(Loop, "price_per_unit", property(lambda loop: loop.predicted_price))
    assert factor == 2 or overrun(tmp_path / "mutant", factor, engine=th.Inline()) > 0.3


def test_every_call_of_run_starts_from_what_earlier_ones_measured(tmp_path, monkeypatch):
    c = make(tmp_path / "c")
    c.pilot(40, **INLINE)
    prices = []
    post_init = Loop.__post_init__
    monkeypatch.setattr(Loop, "__post_init__", lambda loop: (post_init(loop), prices.append(loop.earlier)))
    for budget in (5_000_000, 10_000_000):
        c.plan(budget=f"{budget} credits")
        c.run(**INLINE)
    assert [price.runs for price in prices] == [40, pytest.approx(c.status().done / 2, rel=0.5)]
    assert all(price.price == pytest.approx(1, rel=0.1) for price in prices)


def test_a_cap_without_a_pilot_begins_with_single_runs(tmp_path):
    """No price is measured yet, so that an admission is one run; then as many as were measured."""
    theta = PRIOR.sample(60, np.random.default_rng(0))
    cost = th.fit_cost(theta, np.exp(2 * theta[:, 0]), model=th.Polynomial(1))  # a thousand times too low
    c = make(tmp_path / "c")
    c.plan(n=5000, cap="20000000 credits", cost=cost)
    assert c.run(**INLINE).spent < 20_000_000 + MOST


def test_a_given_cost_in_another_unit_is_rescaled(tmp_path):
    c = make(tmp_path / "c")
    c.pilot(40, **INLINE)
    with pytest.warns(ThriftyWarning, match=r"\[other-cost\] cost= is 1e\+03 times too low .* multiplied by 1e\+03"):
        plan = c.plan(n=50, cost=lambda x: np.exp(2 * x[:, 0]))
    same = make(tmp_path / "same")
    same.pilot(40, **INLINE)
    right = same.plan(n=50, cost=lambda x: 1000 * np.exp(2 * x[:, 0]))
    assert plan.cost_per_run == pytest.approx(right.cost_per_run, rel=1e-3)
    for campaign in (c, same):
        campaign.run(**INLINE)
    a, b = c.simulations(), same.simulations()
    np.testing.assert_allclose(a.theta, b.theta)
    np.testing.assert_allclose(a.log_weights, b.log_weights, atol=1e-6)


def test_a_cost_of_another_shape_is_refused(tmp_path):
    c = make(tmp_path / "c")
    c.pilot(40, **INLINE)
    with pytest.raises(CostError, match=r"varies [0-9,]+-fold over 40 runs") as caught:
        c.plan(n=50, cost=lambda x: np.exp(-3 * x[:, 0]))
    assert caught.value.code == "other-cost" and c.status().planned == 40
    c.plan(n=50, cost=lambda x: 1000 * np.exp(1.8 * x[:, 0]))
    assert np.exp(0.9 * 3 * 5) > MAX_RATIO_SPREAD > np.exp(0.9 * 3 * 2), "a constant cost would pass here"


def impossible(value, share):
    def simulate(theta, rng):
        bad = rng.random() < share
        return th.Output(theta[:1] + rng.normal(), cost=value if bad else float(np.exp(theta[0])))

    return simulate


@pytest.mark.filterwarnings("ignore:.*runs failed.*:thrifty.errors.ThriftyWarning")
@pytest.mark.parametrize("value", [-1e6, float("inf"), float("nan"), float("-inf")])
def test_an_impossible_cost_fails_its_run_and_is_charged_as_predicted(tmp_path, value):
    c = make(tmp_path / "c", impossible(value, 0.1), th.Uniform(0, 4))
    c.pilot(60, **INLINE)
    c.plan(budget="6000 credits")
    status = c.run(**INLINE)
    sims = c.simulations(max_failed=1)
    bad = sims.status == "bad-cost"
    assert status.by_status["bad-cost"] == bad.sum() > 10 and set(sims.status.tolist()) == {"ok", "bad-cost"}
    assert 6000 <= status.spent < 6000 + 2 * np.exp(4), "neither endless nor at once"
    assert status.failed_mass == pytest.approx(sims.failed_mass) and 0.02 < sims.failed_mass < 0.3
    assert np.isnan(sims.cost[bad]).all() and np.isfinite(sims.cost[~bad]).all()
    with c.session.reading() as opened:
        table, charges = opened.table, opened.charges("reported")
    planned = (table.status == "bad-cost") & np.isfinite(table.predicted)
    np.testing.assert_array_equal(charges[planned], table.predicted[planned])
    assert status.spent == pytest.approx(np.nansum(charges)), "shown as spent is what the budget was charged"
    error = str(Store.open(c.folder, readonly=True).query("SELECT error FROM runs WHERE status = 'bad-cost'")[0][0])
    assert error.startswith("[bad-cost] the reported cost is")


def test_realisations_do_not_hide_an_impossible_cost(seed):
    def simulate(theta, rng):
        return th.Output(theta, cost=-1.0 if rng.random() < 0.5 else 10.0)

    runner = Runner.of(Job(simulate, seed, m=2))
    found = [runner.run(Task(i, np.zeros(1))) for i in range(40)]
    assert {o.status for o in found} == {"ok", "bad-cost"}
    assert all(o.reported == 20.0 if o.status == "ok" else np.isnan(o.reported) for o in found)


def test_a_cost_that_is_no_number_is_an_error(seed):
    outcome = Runner.of(Job(lambda theta, rng: th.Output(theta, cost="ten"), seed)).run(Task(0, np.zeros(1)))
    assert outcome.status == "error" and "[bad-output] the reported cost is not a number" in outcome.error


def test_old_folders_with_impossible_costs_open(tmp_path):
    """Rows that earlier versions recorded as "ok": read as they are, charged as predicted."""
    c = make(tmp_path / "c")
    c.pilot(20, **INLINE)
    c.plan(n=30)
    c.run(**INLINE)
    spent, sums = c.status().spent, c.simulations().cost.sum()
    rewrite(c.folder, {25: -1e9, 26: float("inf"), 27: float("nan")})
    again, now = c.status(), c.simulations()
    assert now.ok.all() and np.isnan(now.cost[25:28]).all()
    assert again.spent == pytest.approx(spent, rel=0.1) and sums == pytest.approx(spent)
    c.plan(budget=f"{spent + 1e6:g} credits", refit=True)
    assert spent < c.run(**INLINE).spent < spent + 1e6 + MOST


def rewrite(folder, costs):
    """Give runs another reported cost, with a new checksum."""
    with closing(sqlite3.connect(folder / "store.sqlite")) as db, db:
        for index, cost in costs.items():
            row = db.execute(f"SELECT {', '.join(RUNS)}, sum FROM runs WHERE idx = ?", (index,)).fetchone()
            old = read_outcome(row)
            assert isinstance(old, Outcome)
            values = {name: getattr(old, name) for name in Outcome.__slots__}
            new = run_row(Outcome(**{**values, "reported": cost}), policy=None, finished=row[RUNS.index("finished")])
            db.execute("DELETE FROM runs WHERE idx = ?", (index,))
            db.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(new))})", new)


def test_a_budget_without_a_pilot(tmp_path):
    """The given cost says how many draws it needs; single runs measure it. In another unit, a pilot is needed."""
    c = make(tmp_path / "c")
    plan = c.plan(budget="20000000 credits", cost=lambda x: 1000 * np.exp(2 * x[:, 0]))
    assert 300 < plan.n < 3000
    assert 20_000_000 <= c.run(**INLINE).spent < 20_000_000 + MOST
    with pytest.raises(CostError, match="no run has shown") as caught:
        make(tmp_path / "other").plan(budget="1 cpu-h", cost=lambda x: 1000 * np.exp(2 * x[:, 0]))
    assert caught.value.code == "too-few-pilots"
