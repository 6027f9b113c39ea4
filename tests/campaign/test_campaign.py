"""The facade: pilot, plan, run, read; every step again continues; what does not fit is refused before anything runs."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import thrifty as th
from thrifty.campaign.budget import Budget, Price
from thrifty.campaign.weighting import proposal_of
from thrifty.durations import format_amount
from thrifty.errors import CampaignError, ConfigError, CostError, SelfCheckError, SimulatorError, ThriftyWarning
from thrifty.runner.snapshot import estimate_savings
from thrifty.runner.task import Outcome
from thrifty.tables.simulations import table_hash

PRIOR = th.Uniform([0.0, 0.0], [1.0, 2.0], names=["beta", "gamma"])
QUIET = {"engine": th.Inline(), "progress": "quiet"}


def simulate(theta, rng):
    return th.Output([theta[0] + rng.normal(), theta[1]], cost=float(np.exp(4 * theta[0])))


def flat(theta, rng):
    return th.Output(theta + rng.normal(), cost=1.0 + 0.01 * theta[0])


def make(folder, simulator=simulate, **settings):
    return th.Campaign(folder, simulator, PRIOR, **{"seed": 5, "cost": "reported", "unit": "events", **settings})


@pytest.fixture(scope="module")
def cost():
    theta = PRIOR.sample(60, np.random.default_rng(0))
    return th.fit_cost(theta, np.exp(4 * theta[:, 0]), model=th.Polynomial(1))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "c"
    c = make(folder)
    c.pilot(60, **QUIET)
    plan = c.plan(n=200)
    c.run(**QUIET)
    return c, plan


def test_pilot_plan_run(finished):
    c, plan = finished
    sims = c.simulations()
    assert len(sims) == 260 and sims.ok.all() and sims.unit == "events"
    assert plan.penalty == "√c" and plan.n == 200 and plan.total < plan.plain and plan.p_value > 1e-6
    assert "for 200 runs after the pilot under penalty √c" in str(plan)
    status = c.status()
    assert (status.state, status.done, status.pending, status.pilots) == ("complete", 260, 0, 60)
    assert status.saved.share > 0.2 and "saved" in str(status)
    json.dumps(status.as_dict())


def test_weights_are_those_of_the_pool(finished):
    """Pilot and campaign count as one sample from (60 prior + 200 q)/260."""
    c, _ = finished
    sims = c.simulations()
    with c.session.reading() as opened:
        q = proposal_of(opened.parts[1], c.prior)
    ratio = np.exp(-q.penalty.log(q.cost(sims.theta)) - q.log_normaliser)
    np.testing.assert_allclose(np.exp(sims.log_weights), 1 / (60 / 260 + 200 / 260 * ratio), rtol=1e-10)
    mean = th.estimate(sims.theta, sims.log_weights)
    assert (np.abs(mean.mean - [0.5, 1.0]) < 5 * mean.se).all()
    assert np.abs(sims.theta[:, 0].mean() - 0.5) > 3 * mean.se[0], "unweighted (mutant) must miss the prior"


def test_everything_again_changes_nothing(finished):
    c, _ = finished
    before = table_hash(c.simulations())
    again = make(c.folder)
    again.pilot(60, **QUIET)
    again.plan(n=200)
    again.run(**QUIET)
    assert table_hash(again.simulations()) == before
    assert table_hash(th.Campaign.open(c.folder).simulations()) == before


def test_later_plans_add_components_and_never_rewrite(tmp_path, cost):
    c = make(tmp_path / "c")
    c.pilot(30, **QUIET)
    c.plan(n=40, cost=cost)
    c.run(**QUIET)
    first = c.simulations()
    c.pilot(35, **QUIET)
    c.plan(n=50, penalty=1, cost=cost)
    with pytest.raises(CampaignError, match="50 planned runs") as caught:
        c.simulations()
    assert caught.value.code == "unfinished-runs"
    c.run(**QUIET)
    later = c.simulations()
    assert len(later) == 30 + 40 + 5 + 50
    np.testing.assert_array_equal(later.theta[:70], first.theta)
    np.testing.assert_array_equal(later.x[:70], first.x)
    assert not np.allclose(later.log_weights[:70], first.log_weights), "the pool is weighted anew"
    mean = th.estimate(later.theta, later.log_weights)
    assert (np.abs(mean.mean - [0.5, 1.0]) < 5 * mean.se).all()
    c.plan(n=20, mixture=True, cost=cost)
    c.run(**QUIET)
    assert len(c.simulations()) == 145


def test_the_same_table_for_any_engine(tmp_path, cost):
    hashes = set()
    executor = th.Futures(lambda: ThreadPoolExecutor(2))
    ways = [{"workers": 1}, {"workers": 3}, {"engine": executor}]
    for i, how in enumerate([QUIET, *({**way, "progress": "quiet"} for way in ways)]):
        c = make(tmp_path / str(i))
        c.pilot(20, **how)
        c.plan(n=60, cost=cost)
        c.run(**how)
        hashes.add(table_hash(c.simulations()))
    assert len(hashes) == 1


def test_a_cost_function_is_frozen_as_a_fit(tmp_path):
    """Any function of theta; the weights are those of the fit that is kept, read back from the folder alone."""
    c = make(tmp_path / "c")
    c.pilot(20, **QUIET)
    plan = c.plan(n=300, cost=lambda theta: np.exp(4 * theta[:, 0]))
    theta = PRIOR.sample(50, np.random.default_rng(1))
    np.testing.assert_allclose(plan.cost(theta), np.exp(4 * theta[:, 0]), rtol=0.1)
    c.run(**QUIET)
    sims = th.Campaign.open(c.folder).simulations()
    mean = th.estimate(sims.theta, sims.log_weights)
    assert (np.abs(mean.mean - [0.5, 1.0]) < 5 * mean.se).all()
    assert np.abs(sims.theta[:, 0].mean() - 0.5) > 3 * mean.se[0], "unweighted (mutant) must miss the prior"
    for bad, code in ((lambda theta: -theta[:, 0], "bad-cost"), (lambda theta: 1.0, "bad-cost"), ("cheap", "bad-cost")):
        with pytest.raises(CostError) as caught:
            c.plan(n=400, cost=bad)
        assert caught.value.code == code and c.status().planned == 320


def test_failure_map(tmp_path, rng):
    """P(finish | theta) where it is known: 0.9 below beta = 0.6, nothing above; asked, printed, drawn."""

    def fragile(theta, rng):
        if theta[0] > 0.6 or rng.random() < 0.1:
            raise ValueError("no mesh")
        return theta

    c = make(tmp_path / "c", fragile)
    with pytest.raises(CampaignError, match="no run has finished"):
        c.failure_map()
    c.pilot(400, **QUIET)
    failures = c.failure_map()
    assert failures.movers()[0] == 0 and len(failures.finished) == 400
    inside, outside = failures([[0.3, 1.0], [0.9, 1.0]])
    assert abs(inside - 0.9) < 5 * np.sqrt(0.9 * 0.1 / 240) and outside < 0.05
    axes, p = failures.grid("beta", points=7)
    assert p.shape == (7,) and len(axes) == 1 and (np.diff(p[2:]) < 0).all()
    assert failures.grid(points=5)[1].shape == (5, 5)
    assert "runs failed" in str(failures) and "finish:  beta 0.0" in str(failures)
    for names in (("beta",), ()):
        assert th.plots.failures(failures, *names).axes
    with pytest.raises(ConfigError) as caught:
        failures.grid("delta")
    assert caught.value.code == "bad-name"


def test_flat_cost_samples_plainly(tmp_path):
    c = make(tmp_path / "c", flat)
    c.pilot(30, **QUIET)
    plan = c.plan(n=20)
    assert plan.penalty == "1" and "Plain sampling it is" in str(plan)
    c.run(**QUIET)
    np.testing.assert_array_equal(c.simulations().log_weights, 0)


def test_a_plan_that_fails_its_self_check_runs_nothing(tmp_path, cost, monkeypatch):
    c = make(tmp_path / "c")
    c.pilot(30, **QUIET)
    monkeypatch.setattr(sys.modules["thrifty.campaign.plan"], "prior_recovery", lambda q, seed: 3e-12)
    with pytest.raises(SelfCheckError, match="p = 3e-12") as caught:
        c.plan(n=50, cost=cost)
    assert caught.value.code == "self-check-failed" and c.status().planned == 30


def test_budget_stops_without_bias_and_continues_when_raised(tmp_path, cost):
    c = make(tmp_path / "c")
    c.pilot(30, **QUIET)
    spent = c.status().spent
    c.plan(budget=f"{spent + 500:g} events", cost=cost)
    status = c.run(**QUIET)
    assert status.not_admitted > 0 and spent + 500 <= status.spent < spent + 500 + np.exp(4) + 5
    sims = c.simulations()
    assert sims.index.tolist() == list(range(len(sims))), "a prefix of the plan"
    counts = np.bincount((sims.index >= 30).astype(int))
    assert np.exp(sims.log_weights).max() <= len(sims) / counts[0] + 1e-9, "weights count admitted draws only"
    c.run(**QUIET)
    assert table_hash(c.simulations()) == table_hash(sims), "the budget is used"
    c.plan(budget=f"{spent + 900:g} events", cost=cost)
    more = c.run(**QUIET)
    assert more.spent >= spent + 900
    np.testing.assert_array_equal(c.simulations().theta[: len(sims)], sims.theta)


def test_a_budget_tops_up_its_plan(tmp_path, monkeypatch, cost):
    """A plan that is too short for its budget is continued, in the same streams."""
    monkeypatch.setattr(sys.modules["thrifty.campaign.plan"], "draws_for_budget", lambda left, each: 20)
    c = make(tmp_path / "c")
    c.pilot(30, **QUIET)
    c.plan(budget=f"{c.status().spent + 800:g} events", cost=cost)
    assert c.run(**QUIET).done > 60


def burning(theta, rng):
    import time

    until = time.process_time() + 0.0005 * np.exp(3 * theta[0])
    while time.process_time() < until:
        pass
    return theta + rng.normal()


def test_money(tmp_path):
    c = th.Campaign(tmp_path / "c", burning, PRIOR, price="3600 eur/cpu-h")
    c.pilot(30, **QUIET)
    assert c.status().unit == "eur" and c.simulations().unit == "eur"
    plan = c.plan(budget=f"{c.status().spent + 0.05:.4f} eur", penalty=0.5)
    assert plan.unit == "eur" and c.run(**QUIET).spent >= 0.05


@pytest.mark.parametrize(
    ("text", "amount", "of"),
    [("2 cpu-h", 7200, "cpu"), ("40 min", 2400, "elapsed"), ("12h", 43200, "elapsed"), ("1.5 d", 129600, "elapsed")],
)
def test_budgets_are_read(text, amount, of):
    budget = Budget.read(text)
    assert (budget.amount, budget.of) == (amount, of)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("40", "bad-amount"),
        ("-3 h", "bad-amount"),
        ("many h", "bad-amount"),
        ("", "bad-amount"),
        (40, "bad-amount"),
        ("inf h", "bad-amount"),
        ("20 eur", "bad-price"),
    ],
)
def test_bad_budgets(text, code, tmp_path):
    with pytest.raises(ConfigError) as caught:
        Budget.read(text)
    assert caught.value.code == code


def test_bad_prices():
    for text in ("0.05", "eur/h", "0.05 eur", "0 eur/h", "1 eur/parsec"):
        with pytest.raises(ConfigError):
            Price.read(text)
    with pytest.raises(ConfigError, match="the price in usd"):
        Budget.read("5 eur", price=Price.read("1 usd/h"))


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda c: c.plan(), "conflicting-settings"),
        (lambda c: c.plan(n=5, budget="3 h"), "conflicting-settings"),
        (lambda c: c.plan(budget="3 h", cap="3 h"), "conflicting-settings"),
        (lambda c: c.plan(n=5, cap="40"), "bad-amount"),
        (lambda c: c.plan(n=0), "bad-setting"),
        (lambda c: c.plan(n=2.5), "bad-setting"),
        (lambda c: c.plan(n=5, penalty=1, mixture=True), "conflicting-settings"),
        (lambda c: c.plan(n=5, penalty=-1), "bad-penalty"),
        (lambda c: c.plan(budget="0.001 events"), "budget-too-small"),
        (lambda c: c.pilot(0), "bad-setting"),
        (lambda c: c.run(time_limit=3), "conflicting-settings"),
        (lambda c: c.run(workers=0), "bad-setting"),
        (lambda c: c.run(engine=th.Inline(), deadline="5 eur"), "bad-amount"),
        (lambda c: c.run(engine=th.Inline(), deadline=-1), "bad-amount"),
    ],
)
def test_bad_calls_change_nothing(finished, call, code):
    c, _ = finished
    before = c.status()
    with pytest.raises(th.ThriftyError) as caught:
        call(c)
    assert caught.value.code == code
    assert c.status().planned == before.planned


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seed": 6}, "seed 5 -> 6"),
        ({"m": 2}, "m 1 -> 2"),
        ({"cost": "cpu"}, "cost reported -> cpu"),
        ({"prior": th.Uniform([0, 0], [1, 3], names=["beta", "gamma"])}, "prior.gamma.high 2.0 -> 3.0"),
        ({"prior": th.Uniform([0, 0], [1, 2], names=["beta", "delta"])}, "beta, gamma -> beta, delta"),
        (
            {"prior": th.Independent({"beta": th.Uniform(0, 1), "gamma": th.Integers(0, 2)})},
            "prior.gamma a number -> a whole number",
        ),
    ],
)
def test_other_settings_are_refused(finished, settings, words):
    c, _ = finished
    prior = settings.pop("prior", PRIOR)
    with pytest.raises(ConfigError) as caught:
        th.Campaign(c.folder, simulate, prior, **{"seed": 5, "cost": "reported", "unit": "events", **settings})
    assert caught.value.code == "other-settings" and words in str(caught.value)


def other(theta, rng):
    return th.Output([theta[0] + 2 * rng.normal(), theta[1]], cost=float(np.exp(4 * theta[0])))


def test_a_changed_simulator_is_refused_unless_accepted(tmp_path):
    make(tmp_path / "c").pilot(20, **QUIET)
    with pytest.raises(CampaignError, match="the simulator changed") as caught:
        make(tmp_path / "c", other).pilot(25, **QUIET)
    assert caught.value.code == "simulator-changed" and "other is new" in str(caught.value)
    c = make(tmp_path / "c", other, accept_changed=True)
    c.pilot(25, **QUIET)
    assert "simulator changed and accepted" in str(c.status())


def test_missing_folders_are_not_created(tmp_path):
    with pytest.raises(CampaignError) as caught:
        th.Campaign.open(tmp_path / "srr")
    assert caught.value.code == "no-campaign" and not (tmp_path / "srr").exists()
    with pytest.raises(SimulatorError):
        th.Campaign(tmp_path / "c", lambda a, b, c: a, PRIOR)
    assert not (tmp_path / "c").exists()


def test_reading_too_early(tmp_path):
    c = make(tmp_path / "c")
    for call in (c.simulations, c.run):
        with pytest.raises(CampaignError) as caught:
            call()
        assert caught.value.code == "no-runs-yet"
    with pytest.raises(CostError) as caught:
        c.plan(n=5)
    assert caught.value.code == "too-few-pilots"
    c.pilot(5, **QUIET)
    with pytest.raises(CostError, match="5 finished pilot runs for 2 parameters; need at least 8"):
        c.plan(n=5)


def test_pilots_that_teach_nothing(tmp_path):
    with pytest.raises(SimulatorError) as caught:
        make(tmp_path / "a", lambda theta, rng: float("nan")).pilot(30, **QUIET)
    assert caught.value.code == "simulator-failed"
    with pytest.raises(SimulatorError) as caught:
        make(tmp_path / "b", lambda theta, rng: 1.0).pilot(30, **QUIET)
    assert caught.value.code == "constant-output"


def test_a_simulator_that_ignores_its_seed_is_named(tmp_path):
    c = make(tmp_path / "c", lambda theta, rng: np.random.default_rng().normal())
    with pytest.warns(ThriftyWarning, match="ignores-seed"):
        c.pilot(12, **QUIET)
    assert c.status().deterministic is False


def test_a_deadline_leaves_runs_pending(tmp_path, cost):
    import time

    c = make(tmp_path / "c", lambda theta, rng: time.sleep(0.05) or simulate(theta, rng))
    c.pilot(12, **QUIET)
    c.plan(n=600, cost=cost)
    status = c.run(workers=2, deadline="5 s", progress="quiet")
    assert 0 < status.pending < 600
    with pytest.warns(ThriftyWarning, match="weighted as drawn and run so far"):
        partial = c.simulations(allow_incomplete=True)
    assert (partial.status == "pending").sum() == status.pending


def test_time_limits_are_kept_with_the_runs(tmp_path, cost):
    """A lazy limit in one session and none in the next: each run is weighted by the rule it ran under."""
    import time

    def slow(theta, rng):
        time.sleep(0.5 if theta[0] > 0.6 else 0)
        return simulate(theta, rng)

    c = make(tmp_path / "c", slow)
    c.pilot(40, workers=2, time_limit=0.25, on_timeout="lazy", progress="quiet")
    sims = c.simulations()
    late = sims.status == "timeout"
    assert late.any() and (sims.log_weights[late] == -np.inf).all() and sims.failed_mass == 0
    represented = (sims.theta[:, 0] > 0.6) & sims.ok
    np.testing.assert_allclose(sims.log_weights[represented], np.log(4))
    np.testing.assert_allclose(sims.log_weights[sims.ok & ~represented], 0)


def test_the_store_is_readable_with_plain_sqlite(finished):
    """The ten lines of the documentation, verbatim in spirit: no thrifty needed."""
    c, _ = finished
    code = (
        "import sqlite3, sys, numpy as np\n"
        "db = sqlite3.connect(f'file:{sys.argv[1]}/store.sqlite?mode=ro', uri=True)\n"
        "rows = db.execute('SELECT p.theta, r.x, r.shape FROM plan p JOIN runs r USING (idx) WHERE status = \"ok\"')\n"
        "theta, x = zip(*[(np.frombuffer(t, '<f8'), np.frombuffer(x, '<f8').reshape(eval('[' + s + ']')))\n"
        "                 for t, x, s in rows])\n"
        "print(len(theta), theta[0].shape, x[0].shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, c.folder], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "260 (2,) (2,)"


def test_statuses_are_safe_without_shared_memory(finished, tmp_path):
    """A folder copied to a place where nothing can be written still opens."""
    import shutil

    c, _ = finished
    folder = tmp_path / "copy"
    shutil.copytree(c.folder, folder)
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    try:
        assert th.Campaign.open(folder).status().done >= 260
    finally:
        folder.chmod(0o755)


def test_no_wal_falls_back(tmp_path, monkeypatch, cost):
    """Where the write-ahead log cannot be used the rollback journal is."""
    c = make(tmp_path / "c")
    with sqlite3.connect(tmp_path / "c" / "store.sqlite") as db:
        db.execute("PRAGMA journal_mode = DELETE")
    db.close()
    database = sys.modules["thrifty.store.schema"]
    real = sqlite3.connect

    class NoWal(sqlite3.Connection):
        def execute(self, sql, *arguments):
            if "journal_mode" in sql:
                raise sqlite3.OperationalError("unable to open shared memory")
            return super().execute(sql, *arguments)

    monkeypatch.setattr(database.sqlite3, "connect", lambda *a, **k: real(*a, factory=NoWal, **k))
    c.pilot(20, **QUIET)
    assert c.status().done == 20 and not (tmp_path / "c" / "store.sqlite-wal").exists()


def test_draws_that_a_budget_withdrew_stay_withdrawn(tmp_path, cost):
    """A plan by number, or a pilot, that follows a used budget adds its own draws and no others."""
    c = make(tmp_path / "c")
    c.pilot(30, **QUIET)
    c.plan(budget=f"{c.status().spent + 300:g} events", cost=cost)
    before = c.run(**QUIET)
    assert before.not_admitted > 20
    c.pilot(33, **QUIET)
    assert c.status().done == before.done + 3 and c.status().pending == 0
    within = before.done - 30
    c.plan(n=within + 7, cost=cost)
    after = c.run(**QUIET)
    assert (after.done, after.not_admitted, after.pending) == (before.done + 3 + 7, before.not_admitted, 0)


def test_a_cap_ends_what_n_would_not(tmp_path, cost):
    """n runs, or fewer if the cap is used before; raised, it goes on to n and no further."""
    c = make(tmp_path / "c")
    c.pilot(30, **QUIET)
    pilots = c.status().spent
    c.plan(n=200, cap=f"{pilots + 300:g} events", cost=cost)
    first = c.run(**QUIET)
    assert 30 < first.done < 230 and first.pending == 0 and pilots + 300 <= first.spent < pilots + 300 + 2 * np.exp(3)
    assert c.run(**QUIET).done == first.done, "a used cap stays used"
    c.plan(n=200, cap="1e9 events", cost=cost)
    assert c.run(**QUIET).done == 230
    assert c.run(**QUIET).done == 230, "a cap that is not used adds nothing beyond n"


def test_a_cap_after_a_budget_alone_counts_its_runs(tmp_path, cost):
    c = make(tmp_path / "c")
    c.pilot(30, **QUIET)
    c.plan(budget=f"{c.status().spent + 300:g} events", cost=cost)
    before = c.run(**QUIET)
    n = before.done - 30 + 7
    assert before.not_admitted > 20
    c.plan(n=n, cap="1e9 events", cost=cost)
    assert c.run(**QUIET).done == before.done + 7


BROKEN = {"now": False}


def breaking(theta, rng):
    if BROKEN["now"]:
        raise OSError("licence expired")
    return th.Output(theta + rng.normal(), cost=0.0 if BROKEN["now"] is None else float(np.exp(3 * theta[0])))


@pytest.mark.parametrize(("state", "words"), [(True, "100 of the last 100 runs failed"), (None, "took nothing")])
def test_a_budget_that_nothing_uses_up_ends(tmp_path, monkeypatch, state, words):
    c = make(tmp_path / "c", breaking, accept_changed=True)
    c.pilot(20, **QUIET)
    c.plan(budget=f"{c.status().spent + 300:g} events")
    monkeypatch.setitem(BROKEN, "now", state)
    with pytest.raises(SimulatorError, match=words) as caught:
        c.run(**QUIET)
    assert caught.value.code == ("simulator-failed" if state else "bad-cost") and c.status().done < 1000
    if state:
        assert "licence expired" in str(caught.value)
    monkeypatch.setitem(BROKEN, "now", False)
    with pytest.warns(ThriftyWarning, match="100 of") if state else contextlib.nullcontext():
        assert c.run(**QUIET).spent > 300, "the budget goes on when the simulator does"


@pytest.mark.filterwarnings("ignore:.*times too high.*:thrifty.errors.ThriftyWarning")
def test_left_is_in_the_unit_of_the_price(tmp_path, cost):
    """Costs are predicted in seconds and shown in euros."""
    c = th.Campaign(tmp_path / "c", simulate, PRIOR, seed=5, price="36 eur/cpu-h")
    c.pilot(10, **QUIET)
    plan = c.plan(n=50, cost=cost)
    with c.session.reading() as opened:
        seconds = opened.table.predicted[~opened.table.done].sum()
    status = c.status()
    assert status.unit == plan.unit == "eur"
    np.testing.assert_allclose(status.left, 0.01 * seconds)
    with pytest.raises(CampaignError, match="50 planned runs") as caught:
        c.simulations()
    assert f"({format_amount(0.01 * seconds, 'eur')} predicted)" in str(caught.value)


def test_saved_is_that_of_the_whole_plan_at_any_time(finished, tmp_path):
    """The most expensive runs come first; with the weights of the whole plan they alone would tell another story."""
    whole = finished[0].status().saved
    c = make(tmp_path / "c")
    c.pilot(60, **QUIET)
    c.plan(n=200)
    assert c.status().saved is None, "nothing but pilots has run"
    with c.session.writing() as opened, finished[0].session.reading() as other:
        table, done, store = opened.table, other.table, opened.store
        first = [int(i) for i in table.index[np.argsort(-table.predicted)] if i >= 60][:40]
        store.record([Outcome(i, "ok", np.zeros(2), reported=float(done.reported[i])) for i in first], policy=None)
    part = c.status()
    assert part.done == 100 and abs(part.saved.share - whole.share) < 0.05
    with c.session.reading() as opened:
        table, weights = opened.table, opened.log_weights()
    alone = estimate_savings(table.reported[table.done], weights[table.done])
    assert abs(alone.share - whole.share) > 0.1, "finished runs alone (mutant) must miss it"
