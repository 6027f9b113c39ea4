"""A budget of wall time beside costs in CPU time: every number says which it is, and why they differ."""

from __future__ import annotations

import re
import time
import warnings

import numpy as np
import pytest

import thrifty as th

PRIOR = th.Uniform([0.0, 0.0], [1.0, 2.0], names=["beta", "gamma"])
QUIET = {"engine": th.Inline(), "progress": "quiet"}
SECONDS = re.compile(r"[\d.]+ (?:s|ms|µs|min)\b(?! of (?:CPU time|wall time|it left))")


def simulate(theta, rng):
    return np.sort(rng.standard_normal(int(1000 * np.exp(4 * theta[0]))))[:2] + theta


def simulate_events(theta, rng):
    time.sleep(0.002)  # a budget of wall time fixes as many draws as would fit into it
    return th.Output([theta[0] + rng.normal(), theta[1]], cost=float(np.exp(4 * theta[0])))


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Texts of a campaign under a budget of wall time, by what they show."""
    c = th.Campaign(tmp_path_factory.mktemp("wall") / "c", simulate, PRIOR, seed=1)
    c.pilot(60, **QUIET)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on a busy machine the times may be fitted poorly: the texts are the same
        quote, plan = c.quote(budget="1 s"), c.plan(budget="1 s")
    texts = {"quote": quote.total_text(), "plan": str(plan).splitlines()[-1]}
    texts |= {"planned": str(c.status()), "card": repr(c)}
    return texts | {"complete": str(c.run(**QUIET))}


@pytest.mark.parametrize("what", ["quote", "plan", "planned", "complete"])
def test_every_number_of_seconds_names_its_kind(shown, what):
    assert "1 s of wall time" in shown[what]
    interval = re.sub(r"\([^()]* to [^()]*\)", "", shown[what])  # of the saving, whose kind stands before it
    assert "s of CPU time" in interval and not SECONDS.findall(interval)


@pytest.mark.parametrize("what", ["quote", "planned", "complete"])
def test_a_sentence_says_why_the_numbers_differ(shown, what):
    assert "Cost is CPU time, summed over runs; the budget is wall time from start to end." in shown[what]


def test_a_plan_of_a_budget_does_not_look_finished(shown):
    for text in (shown["planned"], shown["card"]):
        assert "60 of 60" not in text and "more are planned until the budget is used" in text
    assert "left about" not in shown["planned"] and "of it left" in shown["planned"]


def test_draws_that_never_run_are_named(shown):
    assert "up to about" in shown["quote"] and "expect fewer" in shown["quote"]
    assert "More draws are fixed than the budget is likely to need" in shown["plan"]
    assert "of the draws that were fixed: the budget is used" in shown["complete"]


def test_a_budget_in_the_unit_of_cost_needs_no_explanation(tmp_path):
    c = th.Campaign(tmp_path / "c", simulate_events, PRIOR, seed=1, cost="reported", unit="events")
    c.pilot(60, **QUIET)
    texts = [str(c.quote(budget="20000 events")), str(c.plan(budget="20000 events")), str(c.status())]
    assert not any("wall time" in text or "CPU time" in text for text in texts)
    assert "budget 20000 events (" in texts[2] and "more are planned until the budget is used" in texts[2]


def test_events_beside_a_budget_of_wall_time(tmp_path):
    c = th.Campaign(tmp_path / "c", simulate_events, PRIOR, seed=1, cost="reported", unit="events")
    c.pilot(60, **QUIET)
    c.plan(budget="5 s")
    text = str(c.status())
    assert "events in " in text and "budget 5 s of wall time" in text and "Cost is summed over runs" in text


def test_a_pilot_with_a_limit_saves_nothing(tmp_path):
    """Runs over a limit have no weight under "restrict", but nothing was chosen by cost."""

    def simulate_slowly(theta, rng):
        time.sleep(5.0 if theta[0] > 0.9 else 0.0)
        return rng.normal()

    campaign = th.Campaign(tmp_path / "c", simulate_slowly, th.Uniform(0, 1), seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        campaign.pilot(30, workers=1, time_limit="0.3 s", on_timeout="restrict", progress="quiet")
    status = campaign.status()
    assert status.saved is not None and status.ess_fraction < 0.999
    assert "saved" not in str(status) and "saved" not in status._repr_html_()
