"""What a call will cost, and in which kind of seconds, is said before it is spent."""

from __future__ import annotations

import time

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import ConfigError

PRIOR = th.Uniform([0.0, 0.0], [1.0, 1.0], names=["a", "b"])
QUIET = {"engine": th.Inline(), "progress": "quiet"}


def simulate(theta, rng):
    return th.Output(theta + 0.1 * rng.normal(size=2), cost=float(np.exp(3 * theta[0])))


def works(theta, rng):
    end = time.process_time() + 0.002 * np.exp(theta[0])
    while time.process_time() < end:
        pass
    return theta + 0.1 * rng.normal(size=2)


def test_the_default_number_of_runs_is_said_with_its_cost(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("thrifty.study.fit_study.DEFAULT_RUNS", 100)
    how = {"method": "abc", "folder": tmp_path / "c", "cost": "reported", "workers": 1}
    th.infer(simulate, PRIOR, [0.5, 0.5], **how)
    said = capsys.readouterr().err
    assert "n = 100 is the default, for 100 runs after the pilot" in said and "plain sampling" in said
    assert said.index("is the default") < said.index("100%") if "100%" in said else True
    th.infer(simulate, PRIOR, [0.5, 0.5], **how)
    assert "default" not in capsys.readouterr().err, "nothing more is spent"


@pytest.mark.parametrize("settings", [{}, {"cost": "wall"}, {"rounds": 2}])
def test_a_number_without_a_unit_is_no_budget(tmp_path, settings):
    with pytest.raises(ConfigError, match=r"budget = 20 has no unit") as caught:
        th.infer(simulate, PRIOR, [0.5, 0.5], budget=20, folder=tmp_path / "c", **settings)
    assert 'budget="20 cpu-s"' in caught.value.fix and not (tmp_path / "c").exists()


def test_another_penalty_says_what_it_adds(tmp_path):
    c = th.Campaign(tmp_path / "c", simulate, PRIOR, cost="reported", unit="steps")
    c.pilot(30, **QUIET)
    assert "under another request" not in str(c.plan(n=100))
    c.run(**QUIET)
    spent = c.status().spent
    again = c.plan(n=50)
    assert again.added == 0 and "adds nothing, 100 were committed before" in str(again)
    more = c.plan(n=40, penalty=1)
    first = str(more).splitlines()[0]
    assert first.startswith("adds 40 runs under another request to 130: 170 in all, cost ") and "after" in first
    assert more.earlier is not None and more.earlier[1] == pytest.approx(spent)
    assert first in more._repr_html_().replace("&#x27;", "'")
    assert c.plan(n=40, penalty=1).earlier is None, "adds nothing"
    assert str(c.plan(n=50, penalty=1)).startswith("adds 10 runs under another request to 170: 180 in all")


def test_a_spent_budget_names_both_kinds_of_seconds(tmp_path):
    c = th.Campaign(tmp_path / "c", works, PRIOR)
    assert " of CPU time" in str(c.pilot(30, **QUIET))
    for ask in (c.plan, c.quote):
        with pytest.raises(ConfigError) as caught:
            ask(budget="0.001 s")
        assert " of wall time, " in caught.value.what and " of CPU time)" in caught.value.what
        assert "fewer pilots" in caught.value.fix and 'cpu-s"' in caught.value.fix
    c.plan(n=20)
    c.run(**QUIET)
    with pytest.raises(ConfigError, match="50 runs so far took already") as caught:
        c.plan(budget="0.001 cpu-s")
    assert "pilots" not in caught.value.fix and "CPU time" in caught.value.what


def test_shares_after_a_stop_are_possible(tmp_path, capsys):
    def broken(theta, rng):
        raise ValueError("no")

    c = th.Campaign(tmp_path / "c", broken, PRIOR)
    with pytest.raises(th.errors.SimulatorError):
        c.pilot(160, engine=th.Inline(), progress="bar")
    said = capsys.readouterr().err
    done = c.status().done
    assert f"{100 * done / 160:3.0f}% of runs" in said.splitlines()[-2], "of all planned runs, not of those admitted"
    assert "(100% of prior mass)" in said and "e+0" not in said


def test_a_stopped_campaign_is_not_said_to_run(tmp_path):
    c = th.Campaign(tmp_path / "c", simulate, PRIOR, cost="reported")
    c.pilot(30, **QUIET)
    c.plan(n=100)
    ended = c.run(**QUIET, deadline=1e-6)
    with c.session.writing() as opened:
        opened.store.forget(opened.pilot_indices()[:3])
    for status in (ended, c.status()):
        assert "stopped or running" not in str(status)
    with c.session.writing():
        assert c.status().running is not False and c.status().known_state != "stopped"
    assert c.status().known_state in ("stopped", "stopped or running")
