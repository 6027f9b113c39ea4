"""A plan that is asked for again, or was cut in two by a kill: what is committed is what its weights say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

import thrifty as th
from thrifty.campaign.planner import Planner
from thrifty.errors import CampaignError, ThriftyWarning
from thrifty.tables.simulations import table_hash

PRIOR = th.Uniform(0, 1, names=["beta"])
QUIET = {"engine": th.Inline(), "progress": "quiet"}


def simulate(theta, rng):
    return th.Output(theta + rng.normal(), cost=float(np.exp(5 * theta[0])))


def late(theta, rng):
    """Cheap where eight pilots are, expensive beyond."""
    return th.Output(theta + rng.normal(), cost=1.0 if theta[0] < 0.9 else 1000.0)


def make(folder, simulator=simulate, **settings):
    return th.Campaign(folder, simulator, PRIOR, **{"seed": 3, "cost": "reported", **settings})


def blocks(c):
    with c.session.reading() as opened:
        parts = {number: part.kind for number, part in opened.parts.items()}
        return [(b.part, b.n, b.mode) for b in opened.store.blocks()], parts


def figures(plan):
    """What a plan prints, without what this call added."""
    return str(plan).partition("; this call")[0]


def test_a_plan_that_began_plain_stays_plain(tmp_path):
    """Draws of the second plan carry weight one, so they must come from the prior."""
    c = make(tmp_path / "c", late)
    c.pilot(8, **QUIET)
    assert c.plan(n=100).penalty == "1", "eight pilots below 0.9: cost looks flat"
    c.run(**QUIET)
    with pytest.warns(ThriftyWarning, match="refit=True"):
        assert c.plan(n=2000).penalty == "1"
    c.run(**QUIET)
    sims = c.simulations()
    mean = th.estimate(sims.theta, sims.log_weights)
    assert len(sims) == 2008 and abs(mean.mean[0] - 0.5) < 5 * mean.se[0]
    assert blocks(c) == ([(0, 8, "pilot"), (0, 100, "n"), (0, 1900, "n")], {0: "prior"})
    assert c.plan(n=50, refit=True).penalty == "√c"
    assert blocks(c)[0][-1] == (1, 50, "n"), "a proposal is a part of its own"


def test_the_prior_is_part_zero_without_a_pilot(tmp_path):
    """A pilot that follows a plan is not labelled as the plan's proposal."""
    theta = PRIOR.sample(60, np.random.default_rng(0))
    cost = th.fit_cost(theta, np.exp(5 * theta[:, 0]), model=th.Polynomial(1))
    c = make(tmp_path / "c")
    c.plan(n=1500, cost=cost)
    c.pilot(500, **QUIET)
    c.run(**QUIET)
    assert blocks(c) == ([(1, 1500, "n"), (0, 500, "pilot")], {0: "prior", 1: "cost_aware"})
    sims = c.simulations()
    mean = th.estimate(sims.theta, sims.log_weights)
    assert abs(mean.mean[0] - 0.5) < 5 * mean.se[0]
    assert abs(sims.theta.mean() - 0.5) > 5 * mean.se[0], "unweighted (mutant) must miss the prior"


def test_a_proposal_is_never_committed_as_the_prior(tmp_path):
    theta = PRIOR.sample(60, np.random.default_rng(0))
    proposal = th.CostAware(PRIOR, th.fit_cost(theta, np.exp(5 * theta[:, 0])), th.Power(0.5))
    c = make(tmp_path / "c")
    with c.session.writing() as opened:
        planner = Planner(opened)
        with pytest.raises(CampaignError, match="part 0"):
            planner.commit(0, 10, mode="n", proposal=proposal)
        part = opened.add_part("cost_aware", proposal.to_dict())
        with pytest.raises(CampaignError, match=f"part {part}"):
            planner.commit(part, 10, mode="n")
        assert not opened.store.blocks()


@pytest.mark.filterwarnings("ignore:.*times too low.*:thrifty.errors.ThriftyWarning")
def test_the_same_cost_again_adds_only_what_is_missing(tmp_path):
    c = make(tmp_path / "c")
    c.pilot(20, **QUIET)
    planned = []
    for n in (50, 50, 80):
        c.plan(n=n, cost=lambda theta: np.exp(3 * theta[:, 0]))
        planned.append(c.status().planned)
    c.plan(n=80)
    planned.append(c.status().planned)
    c.plan(n=10, cost=lambda theta: np.exp(4 * theta[:, 0]))
    planned.append(c.status().planned)
    c.plan(n=30, mixture=(0, 1), cost=lambda theta: np.exp(4 * theta[:, 0]))
    c.plan(n=30, mixture=[0, 1], cost=lambda theta: np.exp(4 * theta[:, 0]))
    planned.append(c.status().planned)
    assert planned == [70, 70, 100, 100, 110, 140]


KILLED = """
import os, signal, sys
import numpy as np
import thrifty as th
from thrifty.store.store import Store
folder, key = sys.argv[1:]
put = Store.put
def dying(self, name, value):
    if name == key:
        os.kill(os.getpid(), signal.SIGKILL)
    put(self, name, value)
Store.put = dying
def simulate(theta, rng):
    return th.Output(theta + rng.normal(), cost=float(np.exp(5 * theta[0])))
c = th.Campaign(folder, simulate, th.Uniform(0, 1, names=["beta"]), seed=3, cost="reported")
c.pilot(20, engine=th.Inline(), progress="quiet")
c.plan(n=60)
"""


@pytest.mark.parametrize("key", ["pilots", "plans", "budget"])
def test_a_kill_between_draws_and_their_note_doubles_nothing(tmp_path, key):
    """Killed after its draws were written and before it was noted that they were, a step is simply done again."""
    script = tmp_path / "script.py"
    script.write_text(KILLED)
    ended = subprocess.run([sys.executable, script, tmp_path / "c", key], env=os.environ, check=False)
    assert ended.returncode == -signal.SIGKILL
    hashes = []
    for name in ("c", "calm"):
        c = make(tmp_path / name)
        c.session = type(c.session)(c.folder, c.prior, c.simulator, accept_changed=True)
        c.pilot(20, **QUIET)
        c.plan(n=60)
        c.run(**QUIET)
        sims = c.simulations()
        assert len(sims) == 80 and c.status().pilots == 20
        hashes.append(table_hash(sims))
    assert hashes[0] == hashes[1]


class Counted:
    """Count the calls of what a plan computes."""

    def __init__(self, monkeypatch):
        self.calls: Counter[str] = Counter()
        for module, name in (
            ("thrifty.campaign.plan", "fit_cost"),
            ("thrifty.campaign.planner", "fit_cost"),
            ("thrifty.campaign.plan", "prior_recovery"),
            ("thrifty.campaign.plan", "tradeoff"),
            ("thrifty.campaign.opened", "read_columns"),
        ):
            monkeypatch.setattr(f"{module}.{name}", self.counting(name, getattr(sys.modules[module], name)))

    def counting(self, name, function):
        def wrapper(*arguments, **named):
            self.calls[name] += 1
            return function(*arguments, **named)

        return wrapper


def flat(theta, rng):
    return th.Output(theta + rng.normal(), cost=float(rng.uniform(1, 1.01)))


def cubed(theta):
    return np.exp(4.9 * theta[:, 0])


@pytest.mark.filterwarnings("ignore:.*cost model explains.*:thrifty.errors.ThriftyWarning")
@pytest.mark.parametrize("simulator", [simulate, flat], ids=["cost-aware", "plain"])
@pytest.mark.parametrize(
    "request_",
    [{"n": 60}, {"budget": "9000 events"}, {"n": 60, "cap": "9000 events"}, {"n": 60, "cost": cubed}],
    ids=["n", "budget", "cap", "cost"],
)
def test_the_same_request_again_computes_nothing(tmp_path, monkeypatch, simulator, request_):
    """No fit, no self-check, no trade-off, no table read, nothing written; the same figures."""
    if simulator is flat and "cost" in request_:
        request_ = {"n": 60, "cost": lambda theta: 1 + 0 * theta[:, 0]}
    c = make(tmp_path / "c", simulator, unit="events")
    c.pilot(20, **QUIET)
    first = c.plan(**request_)
    c.run(**QUIET)
    before = (c.folder / "frozen.json").stat().st_mtime_ns
    counted = Counted(monkeypatch)
    again = c.plan(**request_)
    assert not counted.calls and (c.folder / "frozen.json").stat().st_mtime_ns == before
    assert figures(again) == str(first) or "budget" in request_  # a budget may have been topped up
    assert (again.cost_per_run, again.p_value, again.penalty) == (first.cost_per_run, first.p_value, first.penalty)
    assert again.n >= first.n and c.status().pending == 0


def test_another_request_is_computed(tmp_path, monkeypatch):
    """The mutant of the test above: what is counted is what a new request needs."""
    c = make(tmp_path / "c")
    c.pilot(20, **QUIET)
    c.plan(n=60)
    counted = Counted(monkeypatch)
    c.plan(n=60, penalty=0.7)
    assert set(counted.calls) == {"fit_cost", "prior_recovery", "tradeoff", "read_columns"}
    counted.calls.clear()
    c.plan(n=90)
    assert set(counted.calls) == {"prior_recovery"}, "more draws of a frozen proposal are tested, and nothing is fitted"


def test_plans_of_earlier_versions_are_continued(tmp_path):
    """A folder without figures gets them; its parts are the same."""
    c = make(tmp_path / "c")
    c.pilot(20, **QUIET)
    first = c.plan(n=60, cost=cubed)
    with c.session.writing() as opened:
        opened.keep(figures={})
        old = {key: part for key, part in opened.settings.plans.items() if '"values"' not in key}
        assert len(old) == 2
        opened.keep(plans=old)
    assert figures(c.plan(n=60, cost=cubed)) == str(first) and c.status().planned == 80
    with c.session.reading() as opened:
        assert opened.settings.figures and len(opened.settings.plans) == 3


def test_a_plan_says_what_it_adds(tmp_path):
    c = make(tmp_path / "c")
    c.pilot(30, **QUIET)
    first = c.plan(n=100)
    assert first.added == 100 and "adds" not in str(first) and "plan (committed)" in first._repr_html_()
    again = c.plan(n=100)
    assert again.added == 0 and "this call adds nothing, 100 were committed before" in str(again)
    assert "nothing added" in again._repr_html_()
    more = c.plan(n=130)
    assert more.added == 30 and "this call adds 30 runs, 100 were committed before" in str(more)
    assert c.status().planned == 160
