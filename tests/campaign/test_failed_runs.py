"""Messages of failed runs: the cause with its count and a run, and a way to read all of them."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import ThriftyWarning

PRIOR = th.Uniform([0.0], [1.0], names=["a"])
QUIET = {"engine": th.Inline(), "progress": "quiet"}


def fails(theta, rng):
    if theta[0] > 0.8:
        raise ValueError(f"step {int(1000 * theta[0])} diverged")
    return th.Output(rng.normal(size=2 + (theta[0] < 0.1)), cost=1.0)


def test_the_warning_of_a_campaign_names_cause_run_and_way_out(tmp_path):
    c = th.Campaign(tmp_path / "c", fails, PRIOR, cost="reported")
    c.pilot(40, **QUIET)
    c.plan(n=60, avoid_failures=False)
    with pytest.warns(ThriftyWarning, match="too-many-failures") as caught:
        c.run(**QUIET)
    said = str(caught[-1].message)
    found = c.failures()
    assert "ValueError: step " in said and f"(for example run {found.causes[0].index})" in said and "fix:" in said
    assert "returned 3 values, the others 2 values" in said, "lengths vary: it says so"
    assert len(found) == c.status().failed == len(found.messages)
    assert "Traceback" in found.messages[found.causes[0].index]
    assert f"{found.causes[0].count}  ValueError: step" in str(found)


def test_messages_of_runs_in_memory():
    draws = th.Draws(PRIOR.sample(60, np.random.default_rng(0)), names=PRIOR.names)
    with pytest.warns(ThriftyWarning, match=r"(?s)\[too-many-failures\] .* diverged.*simulations.messages") as caught:
        sims = th.simulate(fails, draws, seed=0, **QUIET)
    assert "others 2 values" in str(caught[0].message)
    assert set(sims.messages) == set(sims.index[sims.failed].tolist())
    assert any("diverged" in text for text in sims.messages.values())
    assert sims[:5].messages and not th.Simulations.from_arrays(theta=[[1.0]], x=[[1.0]]).messages


def test_a_table_of_parameters_is_no_prior():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [0.1, 0.2, 0.3]})
    runs = th.simulate(lambda theta, rng: theta[0] + rng.normal(), table, engine=th.Inline(), seed=0)
    assert runs.theta[:, 0].tolist() == [0.1, 0.2, 0.3]
    from scipy import stats

    drawn = th.simulate(lambda theta, rng: theta[0] + rng.normal(), {"a": stats.norm()}, 5, engine=th.Inline(), seed=0)
    assert len(drawn) == 5
