"""Results of inference are kept beside each other: nothing but the same method at the same observation is replaced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import ConfigError, DataError
from thrifty.report import results
from thrifty.report.results import read_results

QUIET = {"engine": th.Inline(), "progress": False}
PRIOR = th.Uniform(0.0, 3.0, names=["mu"])


def simulate(theta: np.ndarray, rng: np.random.Generator) -> th.Output:
    return th.Output(theta + 0.3 * rng.normal(size=1), cost=float(np.exp(theta[0])))


@pytest.fixture
def campaign(tmp_path: Path) -> th.Campaign:
    c = th.Campaign(tmp_path / "c", simulate, PRIOR, cost="reported")
    c.pilot(60, **QUIET)
    c.plan(n=40)
    c.run(**QUIET)
    return c


def kept(folder: Path) -> dict[str, float]:
    return {result.name: float(result.x_o[0]) for result in read_results(folder)}


def test_a_second_observation_has_a_name_of_its_own(campaign: th.Campaign):
    first = campaign.infer([1.0], method="abc")
    second = campaign.infer([2.0], method="abc")
    assert kept(campaign.folder) == {"abc": 1.0, "abc-2": 2.0}
    assert "kept as infer/abc-2" in repr(second) and "kept as" not in repr(first)
    first.save()
    second.save()
    campaign.infer([2.0], method="abc")
    assert kept(campaign.folder) == {"abc": 1.0, "abc-2": 2.0}, "the same again replaces its own result"


def test_a_report_keeps_other_results(campaign: th.Campaign, tmp_path: Path):
    campaign.infer([1.0], method="abc")
    campaign.infer([2.0], method="abc").report(tmp_path / "r.html")
    assert kept(campaign.folder) == {"abc": 1.0, "abc-2": 2.0}


def test_a_name_is_used_and_never_taken_from_another(campaign: th.Campaign):
    campaign.infer([1.0], method="abc", name="monday")
    assert kept(campaign.folder) == {"monday": 1.0}
    with pytest.raises(ConfigError, match="of another observation or method") as caught:
        campaign.infer([2.0], method="abc", name="monday")
    assert caught.value.code == "already-exists" and 'name="monday-2"' in caught.value.fix
    with pytest.raises(DataError, match="letters, digits"):
        campaign.infer([2.0], method="abc", name="../x")
    assert kept(campaign.folder) == {"monday": 1.0}


def test_infer_takes_a_name(tmp_path: Path):
    def go(x: float, name: str = "") -> th.Study:
        return th.infer(
            simulate, PRIOR, [x], n=80, method="abc", folder=tmp_path / "c", cost="reported", workers=1, progress=False,
            name=name,
        )  # fmt: skip

    go(1.0)
    go(2.0)
    go(2.5, "monday")
    assert kept(tmp_path / "c") == {"abc": 1.0, "abc-2": 2.0, "monday": 2.5}


def test_several_observations_replace_nothing(campaign: th.Campaign):
    one = campaign.infer([1.0], method="abc", name="abc-1")
    many = [campaign.infer([x], method="abc") for x in (2.0, 2.5)]
    both = th.Study(one.posterior, one.simulations, np.array([[2.0], [2.5]]), "abc", campaign, each=tuple(many))
    both.save()
    assert kept(campaign.folder)["abc-1"] == 1.0 and set(kept(campaign.folder).values()) == {1.0, 2.0, 2.5}


def test_results_of_one_second_are_in_order(campaign: th.Campaign, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(results.time, "strftime", lambda *_: "2026-11-16 13:20:00")
    for name, x in (("z", 1.0), ("b", 2.0), ("a", 2.5)):
        campaign.infer([x], method="abc", name=name)
    assert list(kept(campaign.folder)) == ["z", "b", "a"]
