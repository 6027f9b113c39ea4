"""Rounds say which one runs, and show runs as well as training, where progress is wanted."""

from __future__ import annotations

import re

import pytest

import thrifty as th

PRIOR = th.Uniform([0.0], [4.0], names=["a"])


def simulator(theta, rng):
    return theta + 0.2 * rng.normal(size=1)


def make_rounds(*, progress):
    training = th.Training(max_epochs=3, progress=progress)
    return th.Rounds(th.NLE(PRIOR, network=th.MixtureDensity(2), training=training), rounds=2)


@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
@pytest.mark.parametrize("kind", ["memory", "campaign"])
def test_rounds_and_their_runs_are_shown(kind, capfd, tmp_path):
    place = simulator if kind == "memory" else th.Campaign(tmp_path / "c", simulator, PRIOR, seed=0)
    make_rounds(progress=True).run(place, [2.0], n=200, engine=th.Inline())
    shown = capfd.readouterr().err
    assert "round 1 of 2\n" in shown
    assert "round 2 of 2, 100 runs so far\n" in shown
    assert len(re.findall(r"100% of (?:runs|cost)", shown)) >= 2, "a bar for the runs of each round"


@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_nothing_is_shown_where_it_is_not_wanted(capfd):
    make_rounds(progress=False).run(simulator, [2.0], n=200, engine=th.Inline())
    assert capfd.readouterr().err == ""
