"""Money across several plans, limits and methods on one folder: nothing is spent twice, unseen, or on another plan."""

from __future__ import annotations

import time

import numpy as np
import pytest

import thrifty as th
from thrifty.report.gather import gather
from thrifty.runner.task import Outcome
from thrifty.sequential.generations import CampaignGenerations

QUIET = {"engine": th.Inline(), "progress": "quiet"}
PRIOR = th.Uniform(0, 3)


def simulate(theta, rng):
    return th.Output(theta[:1] + rng.normal(), cost=float(np.exp(2 * theta[0])))


def start(folder, simulator=simulate, pilots=40, **settings):
    c = th.Campaign(folder / "c", simulator, PRIOR, seed=1, **{"cost": "reported", "unit": "cr", **settings})
    c.pilot(pilots, **QUIET)
    return c


def test_a_cap_admits_nothing_of_an_earlier_budget(tmp_path):
    c = start(tmp_path)
    c.plan(budget="100000 cr")
    c.plan(n=30, cap="10000 cr", penalty=1)
    for _ in range(2):
        status = c.run(**QUIET)
    assert status.done == status.planned == 70 and status.spent < 10_000


def test_a_budget_after_a_number_is_used(tmp_path):
    c = start(tmp_path)
    c.plan(n=100)
    before = c.run(**QUIET)
    budget = 2 * before.spent
    c.plan(budget=f"{budget} cr")
    after = c.run(**QUIET)
    assert 0.97 * budget < after.spent < 1.05 * budget and after.done > before.done


def sleeping(theta, rng):
    time.sleep(0.25 if theta[0] > 1.5 else 0.001)
    return theta[:1] + rng.normal()


def test_lazy_time_outs_are_not_extended_later(tmp_path):
    """The runs that the lazy limit let finish stand for them: finished too, they would count twice."""
    c = th.Campaign(tmp_path / "c", sleeping, PRIOR, seed=1, cost="wall")
    c.pilot(10, workers=2, progress="quiet")
    c.plan(n=60, penalty=0)
    c.run(workers=2, time_limit=0.1, on_timeout="lazy", progress="quiet")
    before = c.simulations()
    late = int((before.status == "timeout").sum())
    c.run(workers=2, time_limit=1.0, on_timeout="extend", progress="quiet")
    after = c.simulations()
    assert late > 5 and np.array_equal(before.log_weights, after.log_weights)
    assert int((after.status == "timeout").sum()) == late


def test_attempts_that_were_extended_are_paid(tmp_path):
    c = th.Campaign(tmp_path / "c", sleeping, PRIOR, seed=1, cost="wall")
    c.pilot(10, workers=2, progress="quiet")
    c.plan(n=30, penalty=0)
    status = c.run(workers=2, time_limit=0.06, on_timeout="extend", progress="quiet")
    with c.session.reading() as opened:
        kept, paid = float(np.nansum(opened.table.wall)), opened.store.discarded()["wall"]
        slow = int((opened.table.theta[10:, 0] > 1.5).sum())
    # each slow run is ended at 0.06, 0.12 and 0.24 s before it may finish
    assert paid > 0.3 * slow and status.spent == pytest.approx(kept + paid)
    assert c.status().spent == pytest.approx(status.spent), "also for who comes later"
    assert gather(c.folder).status.spent == pytest.approx(status.spent), "and in the report"


@pytest.mark.filterwarnings("ignore::thrifty.errors.ThriftyWarning")
def test_runs_of_a_killed_budget_are_finished_before_a_method_uses_them(tmp_path):
    c = start(tmp_path)
    c.plan(budget="20000 cr")
    with c.session.writing() as opened:  # a driver that was killed: admitted, not finished
        block = opened.store.blocks()[-1]
        opened.store.admit_through(block.first + 29, blocks={block.id})
    study = th.SMCABC(PRIOR, particles=20).run(c, [1.5], n=150, engine=th.Inline())
    assert (study.simulations.status != "pending").all() and c.status().pending == 0


def failing_first(theta, rng):
    return th.Output(theta + rng.normal(), cost=np.nan if theta[0] > 0.3 else 1.0)


def test_a_first_generation_that_fails_ends_nothing(tmp_path):
    """The first block of a budget is one run per worker: its failure says nothing about the simulator."""
    c = th.Campaign(tmp_path / "c", failing_first, PRIOR, seed=3, cost="reported")
    generations = CampaignGenerations(c, th.Inline())
    assert generations.read_earlier() == []
    _, first = generations.run(PRIOR, 1)
    assert first.status.tolist() == ["bad-cost"], "choose a seed whose first run fails"
    _, second = generations.run(PRIOR, 30)
    assert second.ok.any()


@pytest.mark.filterwarnings("ignore::thrifty.errors.ThriftyWarning")
def test_costs_in_another_unit_are_charged_even_if_all_are_bad(tmp_path):
    c = start(tmp_path, cost="cpu")
    with c.session.reading() as opened:
        paid = opened.spent("reported")
    c.plan(budget=f"{3 * paid} cr")
    with c.session.writing() as opened:
        block = opened.store.blocks()[-1]
        opened.store.admit_through(block.first + 9, blocks={block.id})
        bad = [Outcome(block.first + i, "bad-cost", wall=1e-4, cpu=1e-4) for i in range(10)]
        opened.store.record(bad, policy=None)
    with c.session.reading() as opened:
        assert opened.spent("reported") == pytest.approx(paid * (1 + 10 / 40))


def sometimes_bad(theta, rng):
    return th.Output(theta[:1] + rng.normal(), cost=np.nan if rng.random() < 0.3 else float(np.exp(2 * theta[0])))


@pytest.mark.filterwarnings("ignore::thrifty.errors.ThriftyWarning")
def test_every_display_shows_the_same_sum(tmp_path):
    c = start(tmp_path, sometimes_bad)
    c.plan(budget="20000 cr")
    assert c.status().state == "planned"
    status = c.run(**QUIET)
    facts = gather(c.folder)
    assert np.nansum(facts.charged) == pytest.approx(status.spent) == pytest.approx(facts.status.spent)
    pilot = c.quote(n=10).pilot
    assert pilot.spent == pytest.approx(np.nansum(facts.charged[facts.pilot & facts.done]))
    assert status.left == 0.0


def test_a_quote_without_a_pilot_is_finite(tmp_path):
    c = th.Campaign(tmp_path / "c", simulate, PRIOR, seed=1, cost="reported", unit="cr")
    c.plan(n=60, cost=lambda theta: np.exp(2 * theta[:, 0]))
    c.run(**QUIET)
    assert 1 < c.quote(budget="50000 cr").n < 5000


def test_a_reader_sees_one_moment(tmp_path):
    """A plan that is committed while a status is computed is no damage."""
    c = start(tmp_path)
    c.plan(n=20)
    with c.session.reading() as opened:
        blocks = opened.store.blocks()
        c.plan(n=60)
        assert opened.store.planned() == sum(block.n for block in blocks)
        assert opened.status().planned == 60
    assert c.status().planned == 100
