"""No two displays of one campaign give two figures for one thing."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import thrifty as th
from thrifty.runner.snapshot import Saved

PRIOR = th.Uniform([0.0, 1.0], [2.0, 4.0], names=["beta", "gamma"])
RATIO = re.compile(r"\(?(\d[\d.,]*)\s?[x×]")


def make(folder, slope: float) -> th.Campaign:
    def simulate(theta: np.ndarray, rng: np.random.Generator) -> th.Output:
        cost = np.exp(slope * theta[0]) * (1 + 0.2 * rng.random())
        return th.Output(theta + rng.normal(size=2), cost=float(cost))

    campaign = th.Campaign(folder, simulate, PRIOR, seed=3, cost="reported", unit="s")
    campaign.pilot(40, engine=th.Inline(), progress=False)
    return campaign


@pytest.mark.parametrize("slope", [0.0, 0.05, 2.0])
def test_the_ratio_of_costs_is_one_figure(tmp_path, slope):
    campaign = make(tmp_path / "runs", slope)
    quote = campaign.quote(n=60)
    plan = campaign.plan(n=60)
    campaign.run(engine=th.Inline(), progress=False)
    shown = [quote, plan, plan.table, plan.cost, campaign, campaign.status(), campaign.simulations()]
    found = {ratio for thing in shown for text in (str(thing), thing._repr_html_()) for ratio in RATIO.findall(text)}
    assert len(found) == 1, found
    words = f"predicted cost varies {found.pop()}× over 99.8% of the prior"
    assert words in str(plan) and (slope > 1 or words in str(quote))
    assert float(re.findall(r"varies ([\d.]+)×", words)[0]) == pytest.approx(plan.table.cost_range, rel=5e-3)


def test_quote_and_plan_say_the_same_of_a_flat_cost(tmp_path):
    campaign = make(tmp_path / "runs", 0.0)
    quote = str(campaign.quote(n=60))
    assert campaign.plan(n=60).table.verdict() in quote


@pytest.fixture(scope="module")
def status(tmp_path_factory) -> th.Status:
    campaign = make(tmp_path_factory.mktemp("surplus") / "runs", 2.0)
    campaign.plan(n=60)
    return campaign.run(engine=th.Inline(), progress=False)


def test_the_status_knows_what_the_plan_gave_as_the_most(status):
    ceiling = th.tradeoff(PRIOR, lambda t: np.exp(2 * t[:, 0])).ceiling
    assert status.most_saved == pytest.approx(1 - 1 / ceiling, abs=0.03)
    assert status.as_dict()["most_saved"] == status.most_saved


@pytest.mark.parametrize(("above", "explained"), [(0.1, True), (0.0, False), (-0.1, False)])
def test_more_than_the_most_is_explained(status, above, explained):
    saved = status.saved
    assert isinstance(saved, Saved) and status.most_saved is not None
    shown = replace(status, saved=replace(saved, per_effective=status.most_saved + above))
    most = status.most_saved
    words = f"{most + above:.0%} per effective run is more than the {most:.0%} that the plan gives"
    assert (words in str(shown)) == (words in shown._repr_html_()) == explained
    assert "is more than" not in str(replace(shown, most_saved=None))
