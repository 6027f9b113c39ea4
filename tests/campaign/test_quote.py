"""`Campaign.quote` shows what `plan` would do and changes nothing; every call reads the folder once."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import pytest

import thrifty as th
from thrifty.campaign import opened
from thrifty.campaign.settings import CampaignSettings
from thrifty.errors import ConfigError, ThriftyError
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
    assert caught.value.code in ("too-few-pilots", "no-runs-yet")


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
