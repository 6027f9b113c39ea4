"""Failed runs are made again by a corrected simulator: all of them, with the same parameters and random numbers."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import CampaignError, ConfigError, SimulatorError
from thrifty.tables.simulations import table_hash

PRIOR = th.Uniform([0.0, 0.0], [1.0, 1.0], names=["a", "b"])
QUIET = {"engine": th.Inline(), "progress": "quiet"}


def correct(theta, rng):
    return th.Output({"x": theta[0] + rng.normal(), "y": theta[1] + rng.normal()}, cost=1.0 + theta[0])


def misspelt(theta, rng):
    x = theta[0] + rng.normal()
    return th.Output({"x": x, "y": undefined_name}, cost=1.0)  # noqa: F821 - the mistake


def fails_above(theta, rng):
    if theta[0] > 0.8:
        raise ValueError(f"no convergence at {theta[0]}")
    return correct(theta, rng)


def make(folder, simulator, **settings):
    return th.Campaign(folder, simulator, PRIOR, seed=3, cost="reported", **settings)


def table_of(c):
    c.plan(n=60, penalty=1)
    c.run(**QUIET)
    return c.simulations()


def test_a_pilot_that_failed_is_made_again_as_if_it_had_never_failed(tmp_path):
    undisturbed = make(tmp_path / "other", correct)
    undisturbed.pilot(40, **QUIET)
    broken = make(tmp_path / "c", misspelt)
    with pytest.raises(SimulatorError) as caught:
        broken.pilot(40, **QUIET)
    first = caught.value.what.splitlines()[0]
    assert "runs failed with NameError: name 'undefined_name' is not defined (line " in first
    assert "test_redo_failed.py, in misspelt)" in first and "redo_failed=True" in caught.value.fix
    failed = broken.status().failed
    for _ in range(2):
        with pytest.raises(SimulatorError, match="NameError"):
            broken.pilot(40, **QUIET)
    assert broken.status().failed == failed, "the same code is not tried again and again"
    with pytest.raises(CampaignError, match=rf"redo_failed=True\) makes the {failed} failed runs") as refused:
        make(tmp_path / "c", correct).pilot(40, **QUIET)
    assert refused.value.code == "simulator-changed"
    c = make(tmp_path / "c", correct, accept_changed=True)
    status = c.pilot(40, **QUIET, redo_failed=True)
    assert (status.failed, status.done) == (0, 40)
    assert any("made again" in note and "NameError" in note for note in status.notes)
    assert table_hash(table_of(c)) == table_hash(table_of(undisturbed))


def test_all_failed_runs_are_made_again_and_only_they(tmp_path):
    c = make(tmp_path / "c", fails_above)
    c.pilot(40, **QUIET)
    c.plan(n=60, penalty=1, avoid_failures=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = c.run(**QUIET)
    kept = c.simulations(max_failed=1)
    assert before.failed > 3
    again = make(tmp_path / "c", correct, accept_changed=True)
    after = again.run(**QUIET, redo_failed=True)
    now = again.simulations()
    assert after.failed == 0 and now.ok.all() and len(now) == len(kept)
    np.testing.assert_array_equal(now.theta, kept.theta)
    np.testing.assert_array_equal(now.x[kept.ok], kept.x[kept.ok])
    np.testing.assert_array_equal(now.log_weights, kept.log_weights)
    assert again.run(**QUIET, redo_failed=True).notes == after.notes, "nothing failed: nothing is made again or noted"


def test_a_kill_between_leaves_failed_runs_pending(tmp_path):
    from thrifty.campaign.redo import begin_redo

    c = make(tmp_path / "c", fails_above)
    c.pilot(40, **QUIET)
    failed = c.status().failed
    again = make(tmp_path / "c", correct, accept_changed=True)
    assert begin_redo(again.session) == failed and again.status().pending == failed
    assert again.pilot(40, **QUIET).failed == 0


def test_what_failed_runs_took_stays_paid(tmp_path):
    def dear(theta, rng):
        return th.Output(np.array([np.nan, 1.0]) if theta[0] > 0.8 else theta, cost=5.0)

    c = make(tmp_path / "c", dear)
    spent = c.pilot(30, **QUIET).spent
    failed = c.status().failed
    assert (
        failed and make(tmp_path / "c", correct, accept_changed=True).pilot(30, **QUIET, redo_failed=True).spent > spent
    )


def test_new_random_numbers_are_refused(tmp_path):
    def ignores_seed(theta, rng):
        x = np.random.default_rng().normal(size=2)
        if theta[0] > 0.8:
            raise ValueError("too large")
        return th.Output(x, cost=1.0)

    c = make(tmp_path / "c", ignores_seed)
    with pytest.warns(th.errors.ThriftyWarning, match="ignores-seed"):
        c.pilot(40, **QUIET)
    with pytest.raises(CampaignError, match="changes the prior") as caught:
        c.run(**QUIET, redo_failed=True)
    assert caught.value.code == "ignores-seed" and c.status().failed > 0


def test_rounds_that_have_learned_are_refused(tmp_path):
    c = make(tmp_path / "c", fails_above)
    c.pilot(40, **QUIET)
    with c.session.writing() as opened:
        opened.keep(generations=1)
    with pytest.raises(ConfigError, match="drawn in rounds"):
        c.run(**QUIET, redo_failed=True)


def test_infer_takes_both(tmp_path):
    with pytest.raises(SimulatorError):
        th.infer(
            misspelt, PRIOR, [0.5, 0.5], n=100, method="abc", folder=tmp_path / "c", cost="reported", progress=False
        )
    study = th.infer(
        correct, PRIOR, [0.5, 0.5], n=100, method="abc", folder=tmp_path / "c", cost="reported", progress=False,
        accept_changed=True, redo_failed=True,
    )  # fmt: skip
    assert study.simulations.ok.all()


def test_runs_that_fail_again_are_paid_once(tmp_path):
    c = make(tmp_path / "c", fails_above)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", th.ThriftyWarning)
        c.pilot(40, **QUIET)
        c.pilot(40, redo_failed=True, **QUIET)
    spent, attempts = c.status().spent, len(c.status().notes)
    with pytest.warns(th.ThriftyWarning, match="failed again"):
        c.pilot(40, redo_failed=True, **QUIET)
    assert (c.status().spent, len(c.status().notes)) == (spent, attempts)


def test_nothing_is_made_again_beside_timed_out_runs(tmp_path):
    """A slow run that failed was chosen to finish: made again without the limit it would lose its weight."""

    def slow(theta, rng):
        time.sleep(0.05 if theta[0] > 0.5 else 0.0)
        return fails_above(theta, rng)

    c = th.Campaign(tmp_path / "c", slow, PRIOR, seed=3, cost="wall")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", th.ThriftyWarning)
        c.pilot(10, workers=2, progress="quiet")
        c.plan(n=40, penalty=0)
        c.run(time_limit=0.03, on_timeout="lazy", workers=2, progress="quiet")
        assert c.status().by_status["timeout"] > 0
        with pytest.raises(ConfigError, match="timed out"):
            c.run(redo_failed=True, **QUIET)


def test_nothing_is_made_again_under_a_budget(tmp_path):
    """What failed took less than a run that finishes, so that the budget admitted more draws than it can pay for."""
    c = make(tmp_path / "c", fails_above, unit="steps")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", th.ThriftyWarning)
        c.pilot(40, **QUIET)
        c.plan(budget="300 steps")
        c.run(**QUIET)
        with pytest.raises(ConfigError, match="under the budget"):
            c.run(redo_failed=True, **QUIET)
