"""`Campaign.quote` shows what `plan` would do and changes nothing; every call reads the folder once."""

from __future__ import annotations

import hashlib
import re
import time
import warnings
from collections import Counter

import numpy as np
import pytest

import thrifty as th
from thrifty.campaign import opened
from thrifty.campaign.settings import CampaignSettings
from thrifty.errors import ConfigError, ThriftyError
from thrifty.penalty_table import write_end, write_penalties
from thrifty.store.store import Store

PRIOR = th.Uniform([0.0, 0.0], [1.0, 2.0], names=["beta", "gamma"])
QUIET = {"engine": th.Inline(), "progress": "quiet"}


def simulate(theta, rng):
    return th.Output([theta[0] + rng.normal(), theta[1]], cost=float(np.exp(4 * theta[0])))


def make(folder):
    return th.Campaign(folder, simulate, PRIOR, seed=5, cost="reported", unit="events")


@pytest.fixture
def piloted(tmp_path):
    campaign = make(tmp_path / "c")
    campaign.pilot(60, **QUIET)
    return campaign


def hash_folder(folder) -> dict[str, str]:
    """Hash of each file; SQLite's shared memory and the empty log that a reader makes hold no data."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]
    files = [path for path in files if not path.name.endswith("-shm")]
    return {path.name: hashlib.blake2b(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize(
    "request_",
    [{"n": 200}, {"n": 200, "penalty": 1.0}, {"n": 200, "mixture": True}, {"budget": "20000 events"}],
    ids=["n", "penalty", "mixture", "budget"],
)
def test_a_quote_is_what_a_plan_commits(piloted, request_):
    quote = piloted.quote(**request_)
    plan = piloted.plan(**request_)
    assert quote.chosen.cost == pytest.approx(plan.cost_per_run, rel=1e-12)
    assert quote.p_value == plan.p_value
    if "n" in request_:
        assert quote.runs(quote.chosen) == quote.n == plan.n == 200
    else:
        assert quote.affordable(quote.chosen) * quote.chosen.cost + quote.pilot.spent <= 20_000
        spent = [quote.runs(row) * row.cost + quote.pilot.spent for row in quote.table]
        assert all(20_000 - row.cost <= total <= 20_000 for total, row in zip(spent, quote.table, strict=True))
        assert "which uses up the budget of 20000 events" in str(quote)


def test_a_quote_changes_nothing(piloted):
    before = hash_folder(piloted.folder)
    first = piloted.quote(n=500)
    second = th.Campaign.open(piloted.folder).quote(n=500)
    assert hash_folder(piloted.folder) == before
    assert first.as_dict() == second.as_dict()
    assert piloted.status().planned == 60
    assert "self-test" in str(first) and "500" in str(first)


def test_a_plan_changes_the_folder(piloted):
    """The mutant of the test above: its hash sees a commitment."""
    before = hash_folder(piloted.folder)
    piloted.plan(n=10)
    assert hash_folder(piloted.folder) != before


def test_a_cap_limits_the_quote(piloted):
    free, capped = piloted.quote(n=5000), piloted.quote(n=5000, cap="5000 events")
    assert capped.limited and not free.limited
    assert capped.runs(capped.chosen) < free.runs(free.chosen) == 5000


@pytest.mark.parametrize("request_", [{}, {"n": 10, "budget": "5 events"}, {"cap": "5 events"}])
def test_a_request_must_be_one_thing(piloted, request_):
    with pytest.raises(ConfigError, match="exactly one of n= and budget="):
        piloted.quote(**request_)


def test_a_quote_needs_a_pilot(tmp_path):
    with pytest.raises(ThriftyError) as caught:
        make(tmp_path / "c").quote(n=100)
    assert caught.value.code == "too-few-pilots"
    assert "need at least" in caught.value.what and caught.value.fix.startswith("pilot(200), or at least pilot(")


@pytest.mark.parametrize("call", ["status", "simulations", "plan", "quote", "run", "failure_map"])
def test_one_call_reads_the_folder_once(piloted, monkeypatch, call):
    piloted.plan(n=20)
    if call == "simulations":
        piloted.run(**QUIET)
    counts = Counter()

    def counted(name, function):
        def wrapper(*arguments, **named):
            counts[name] += 1
            return function(*arguments, **named)

        return wrapper

    monkeypatch.setattr(Store, "open", counted("open", Store.open))
    monkeypatch.setattr(CampaignSettings, "parse", counted("parse", CampaignSettings.parse))
    monkeypatch.setattr(opened, "read_columns", counted("table", opened.read_columns))
    monkeypatch.setattr(opened, "read_table", counted("table", opened.read_table))
    arguments = {"plan": {"n": 40}, "quote": {"n": 40}, "run": QUIET}.get(call, {})
    getattr(piloted, call)(**arguments)
    assert counts["open"] == counts["parse"] == 1
    assert counts["table"] <= 1


def test_quote_plan_and_report_show_the_same_table(piloted):
    """One figure for one quantity, digit by digit: with a power of one's own, and with a mixture."""
    from thrifty.report.gather import gather

    for request_ in ({"n": 200}, {"n": 200, "penalty": 0.3}, {"n": 200, "mixture": True}):
        quote, plan = piloted.quote(**request_), piloted.plan(**request_)
        table, chosen = gather(piloted.folder).trade
        assert plan.table.cells() == quote.table.cells() and plan.chosen.label == quote.chosen.label
        assert table.cells() == plan.table.cells() and chosen.label == plan.chosen.label
        shares = [[line[i] for i in (2, 3, 4)] for line in quote.cells()[1]]
        assert shares == [[line[i] for i in (3, 4, 6)] for line in plan.table.cells()[1]]


def test_quote_and_plan_print_one_table(piloted):
    """The same columns, the chosen and the best row named, and the self-test in words."""
    for request_ in ({"n": 200}, {"n": 400, "penalty": 1.0}, {"n": 500, "penalty": 0}):
        quote, plan = piloted.quote(**request_), piloted.plan(**request_)
        lines = quote.table_text().splitlines()
        ends = quote.cells()[0].index("ends")
        quoted = [[cell for i, cell in enumerate(line) if i != ends] for line in quote.cells()[1]]
        assert quoted == plan._cells()[1], "all but the time of its end, which needs the number of workers"
        planned = {line.split("  ")[0]: line for line in str(plan).splitlines()}
        for row in plan.table:
            assert ("<- chosen" in planned[row.label]) == (row is plan.chosen)
            assert ("best" in planned[row.label]) == (row is plan.table.best)
        assert sum("<- chosen" in line for line in lines) == 1
        bold = re.findall("<tr><th>(.*?)</th>", re.sub(' style="[^"]*"', "", plan._repr_html_()))
        assert bold == ["penalty", plan.chosen.label], "the header, and the chosen row"
        words = (
            f"yes (p = {plan.p_value:.2g}; a fault shows below 1e-6)"
            if plan.chosen.k
            else "plain draws need no weights"
        )
        test = f"self-test weighted draws reproduce the prior: {words}"
        assert test in str(quote) and test in str(plan)


@pytest.mark.parametrize(
    "request_",
    [{"n": 1_000_000}, {"n": 90_000, "mixture": True}, {"budget": "20 min"}, {"n": 5000, "cap": "2 cpu-h"},
     {"n": 9000, "penalty": th.Power(0.123456789)}],
)  # fmt: skip
@pytest.mark.parametrize("how", [{"cost": "reported", "unit": "steps"}, {"cost": "cpu"}, {"price": "0.08 eur/cpu-h"}])
def test_quote_and_plan_are_at_most_100_characters_wide(tmp_path, request_, how):
    """The table only: sentences are wrapped by any terminal without harm."""
    if how.get("cost") == "reported" and ("budget" in request_ or "cap" in request_):
        request_ = {key: "20000000 steps" if key in ("budget", "cap") else value for key, value in request_.items()}

    def simulate_steps(theta, rng):
        x = [theta[0] + rng.normal(), theta[1]]
        return th.Output(x, cost=500 * float(np.exp(4 * theta[0]))) if how.get("cost") == "reported" else x

    campaign = th.Campaign(tmp_path / "c", simulate_steps, PRIOR, seed=5, **how)
    campaign.pilot(60, **QUIET)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quote = campaign.quote(**request_)
        plan = campaign.plan(n=300, **{key: request_[key] for key in ("penalty", "mixture") if key in request_})
    rows = quote.table_text().splitlines() + write_penalties(*plan._cells()).splitlines()
    assert max(map(len, rows)) <= 100 and len(rows) >= 12
    assert "saved/eff. run" in rows[0] and sum("<- chosen" in row for row in rows) == 2


def test_an_end_is_a_time_a_weekday_or_a_date():
    noon = time.mktime((2026, 11, 16, 12, 0, 0, 0, 0, -1))
    assert write_end(noon, 1800) == "12:30" and write_end(noon, 86_400) == "Tue 12:00"
    assert write_end(noon, 20 * 86_400) == "2026-12-06" and write_end(noon, 1e12) == "never"
    assert write_end(noon, float("nan")) == "unknown"


def test_a_quote_says_what_pilot_and_runs_come_to_together(tmp_path):
    """The share that the whole pool saves, and its effective runs, are those of the campaign afterwards."""
    campaign = make(tmp_path / "c")
    campaign.pilot(400, **QUIET)
    quote = campaign.quote(n=1600)
    line = quote.total_text().splitlines()[1]
    campaign.plan(n=1600)
    status = campaign.run(**QUIET)
    assert line.startswith("with the pilot: 2,000 runs count as ")
    effective = float(line.split("count as ")[1].split(", saved")[0].replace(",", ""))
    weights = np.exp(campaign.simulations().log_weights)
    weights /= weights.mean()
    slope = 2 * weights - weights**2 / np.mean(weights**2)  # of log (sum w)^2 / sum w^2
    error = status.saved.effective * slope.std() / np.sqrt(2000)
    assert abs(effective - status.saved.effective) < 5 * error
    assert abs(effective - (400 + 1600 * quote.chosen.ess_fraction)) > 5 * error, "the mutant: two tables added"
    low, high = (1 - status.saved.spent / (status.saved.spent + end) for end in (status.saved.low, status.saved.high))
    assert low < float(line.split("saved about ")[1].split("%")[0]) / 100 < high
    assert "with the pilot" not in str(campaign.quote(n=1600)), "runs are done: the status counts them"
