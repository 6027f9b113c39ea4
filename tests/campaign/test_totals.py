"""Sums that a driver keeps for `status`: the figures of a full computation, or they are not used."""

from __future__ import annotations

import contextlib
from dataclasses import asdict

import numpy as np
import pytest

import thrifty as th
from thrifty.campaign import opened as opened_module, totals
from thrifty.campaign.status import make_status
from thrifty.campaign.weighting import weigh_finished
from thrifty.runner.snapshot import Snapshot, Totals, estimate_savings
from thrifty.store.store import Store
from thrifty.weights import mass_of

pytestmark = pytest.mark.filterwarnings("ignore:.*runs failed:thrifty.ThriftyWarning")
PRIOR = th.Uniform([0.0, 0.0], [2.0, 1.0], names=["a", "b"])


def simulate(theta, rng):
    if theta[1] > 0.97:
        raise ValueError("no mesh")
    return th.Output(theta + rng.normal(), cost=float(np.exp(theta[0] + 0.3 * rng.normal())))


class Stopped(BaseException):
    pass


@pytest.fixture
def half(tmp_path, monkeypatch):
    """A campaign of 40 pilots and 400 runs that ended half way, and keeps figures whatever its size."""
    monkeypatch.setattr(opened_module, "MIN_KEPT_RUNS", 1)
    c = th.Campaign(tmp_path / "c", simulate, PRIOR, seed=3, cost="reported")
    c.pilot(40, engine=th.Inline(), progress="quiet")
    c.plan(n=400)
    monkeypatch.setattr("thrifty.store.driving.GROUP_RUNS", 50)
    groups, real = [], Store.record

    def record(self, *given, **named):
        real(self, *given, **named)
        groups.append(1)
        if len(groups) == 4:
            raise Stopped

    monkeypatch.setattr(Store, "record", record)
    with contextlib.suppress(Stopped):
        c.run(engine=th.Inline(), progress="quiet")
    monkeypatch.setattr(Store, "record", real)
    return c


def compute_anew(c):
    """The status from the whole table in memory, by other code than that of the sums."""
    with c.session.reading() as opened:
        opened.judge_shapes()
        now = opened.take_snapshot()
        known = np.where(now.done, now.cost, now.predicted)
        finished = now.log_weights
        if not now.done.all():
            table, blocks = opened.table.counted(), opened.store.blocks()
            finished = weigh_finished(table, opened.parts, opened.prior, opened.settings, blocks)
        return {
            "done": int(now.done.sum()),
            "failed": int((now.done & (now.status != "ok")).sum()),
            "failed_mass": mass_of(now.status[now.done] != "ok", finished[now.done]),
            "spent": float(np.nansum(now.cost[now.done])),
            "left": float(np.nansum(now.predicted[~now.done])),
            **{f"saved {key}": value for key, value in asdict(estimate_savings(known, now.log_weights)).items()},
        }


def agrees(c):
    """Whether `status` says what follows from the whole table."""
    expected, status = compute_anew(c), asdict(c.status())
    status = {key: value for key, value in status.items() if key in expected or key == "saved"}
    saved = {f"saved {key}": value for key, value in (status.pop("saved") or {}).items()}
    return status | saved == pytest.approx(status | saved | expected, rel=1e-9)


def kept(c):
    with c.session.reading() as opened:
        return opened.store.figures()


def uses_kept(c, monkeypatch):
    """Whether status starts from what was kept."""
    asked = []
    real = totals.stream_columns

    def stream(*given, **named):
        asked.append(named.get("after"))
        return real(*given, **named)

    monkeypatch.setattr(totals, "stream_columns", stream)
    c.status()
    monkeypatch.setattr(totals, "stream_columns", real)
    return asked[:1] == [kept(c)["runs"]["through"]] if kept(c) else False  # a second look is for the failed mass


def test_figures_of_the_plan_are_brought_up_to_date(half, monkeypatch):
    """The figures were kept before the last runs: those are added, and everything is as if computed anew."""
    assert half.status().done > 150 and kept(half)["totals"]["by_status"]["pending"] == 400
    assert uses_kept(half, monkeypatch) and agrees(half)


def test_figures_at_the_end(half, monkeypatch):
    status = half.run(engine=th.Inline(), progress="quiet")
    assert status.pending == 0 and uses_kept(half, monkeypatch) and agrees(half)
    assert status.failed > 0 and asdict(half.status()) == asdict(th.Campaign.open(half.folder).status())


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE runs SET reported = reported + 1 WHERE idx = 7",
        "UPDATE runs SET status = 'error' WHERE idx = 7",
        "DELETE FROM runs WHERE idx = 107",
        "UPDATE meta SET value = replace(value, '0', '1') WHERE key = 'sums'",
        "DELETE FROM meta WHERE key = 'sums'",
    ],
)
def test_figures_that_do_not_match_are_not_used(half, monkeypatch, change):
    half.run(engine=th.Inline(), progress="quiet")
    with half.session.writing() as opened, opened.store.db as db:
        db.execute(change)
    assert not uses_kept(half, monkeypatch) and agrees(half)


def test_another_admission_or_plan_is_noticed(half, monkeypatch):
    half.run(engine=th.Inline(), progress="quiet")
    monkeypatch.setattr(opened_module, "MIN_KEPT_RUNS", 10**9)  # nothing new is kept
    half.plan(n=500, penalty=1)
    assert half.status().planned == 940 and not uses_kept(half, monkeypatch) and agrees(half)


@pytest.mark.parametrize("odd", [{}, {"basis": 1}, {"totals": []}, {"runs": {"through": "x"}}])
def test_odd_figures_are_not_used(half, odd):
    with half.session.writing() as opened:
        good = opened.store.figures()
        opened.store.put_figures(good | odd if odd else {})
    assert agrees(half)


def example(rng, n=200):
    status = rng.choice(["ok", "error", "pending"], n).astype("<U8")
    cost = np.where(status == "pending", np.nan, rng.lognormal(size=n))
    return Snapshot(status, cost, rng.lognormal(size=n), 3 * rng.normal(size=n) + 700)


def columns_of(now):
    return [column for column in vars(now).values() if column is not None]  # without time limits: weights once


def test_sums_can_be_added_and_taken_away(rng):
    now = example(rng)
    pieces = [Snapshot(*(column[part] for column in columns_of(now))) for part in np.array_split(np.arange(200), 7)]
    total = Totals()
    for piece in pieces:
        total = total.plus(piece.sum_up())
    assert total.by_status == now.sum_up().by_status
    assert asdict(total.estimate_savings()) == pytest.approx(asdict(now.sum_up().estimate_savings()), rel=1e-9)
    cost = np.where(now.done, now.cost, now.predicted)
    assert asdict(total.estimate_savings()) == pytest.approx(asdict(estimate_savings(cost, now.log_weights)), rel=1e-9)
    less = total.plus(pieces[3].sum_up(), sign=-1)
    rest = Snapshot(*(np.delete(column, np.array_split(np.arange(200), 7)[3]) for column in columns_of(now)))
    assert asdict(less.estimate_savings()) == pytest.approx(asdict(rest.sum_up().estimate_savings()), rel=1e-9)
    assert less.failed_mass == pytest.approx(rest.sum_up().failed_mass)


def test_a_mutant_of_the_sums_is_seen(rng, monkeypatch):
    """Weights that are forgotten when rows are added: the test above would fail."""
    now = example(rng)
    monkeypatch.setattr(Totals, "moved", lambda self, *, shift, center, sign=1: self)
    halves = [Snapshot(*(column[part] for column in columns_of(now))) for part in (slice(90), slice(90, 200))]
    wrong = halves[0].sum_up().plus(halves[1].sum_up())
    assert asdict(wrong.estimate_savings()) != pytest.approx(asdict(now.sum_up().estimate_savings()), rel=1e-3)


def test_status_of_nothing_planned(tmp_path):
    c = th.Campaign(tmp_path / "c", simulate, PRIOR, cost="reported")
    status = c.status()
    assert (status.state, status.planned, status.failed_mass, status.saved) == ("empty", 0, 0.0, None)
    assert make_status("x", Totals(), c.session.settings(), elapsed=0.0, withdrawn=0).state == "empty"


def test_a_lazy_table_is_the_table(half, tmp_path):
    half.run(engine=th.Inline(), progress="quiet")
    lazy, whole = (half.simulations(max_failed=1, lazy=flag) for flag in (True, False))
    assert th.table_hash(lazy) == th.table_hash(whole)
    assert isinstance(lazy.x, np.memmap) and not isinstance(whole.x, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        lazy.x[0] = 0.0
    assert th.table_hash(lazy.valid()) == th.table_hash(whole.valid())
    for sims in (lazy, whole):
        with pytest.raises(ValueError, match="read-only"):
            sims.theta[0] = 0.0
