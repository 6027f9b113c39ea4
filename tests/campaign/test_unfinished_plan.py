"""A plan of which runs are missing: the finished ones are weighted as they were drawn and run, and restore the prior.

The prior is uniform on (0, 4), a run costs e^theta, and runs above theta = 3 fail: a quarter of prior mass. The most
expensive planned runs start first.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thrifty as th
from thrifty.campaign import weighting
from thrifty.campaign.weighting import pool_of
from thrifty.errors import CampaignError, ThriftyWarning
from thrifty.weights import ess, normalise

PRIOR = th.Uniform(0.0, 4.0, names=["theta"])
PILOTS, PLANNED = 400, 1600
FAILED_ABOVE, FAILED_MASS, MEAN = 3.0, 0.25, 2.0
QUIET = {"progress": "quiet"}


def simulate(theta: np.ndarray, rng: np.random.Generator) -> th.Output:
    return th.Output([theta[0] + rng.normal()], cost=float(np.exp(theta[0])))


def fail_above(theta: np.ndarray, rng: np.random.Generator) -> th.Output:
    if theta[0] > FAILED_ABOVE:
        raise ValueError("no solution")
    return simulate(theta, rng)


class Stopped(th.Inline):
    """Presses Ctrl-C after a number of runs."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def submit(self, tasks: Any) -> None:
        super().submit(tasks)
        self.left -= len(tasks)
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def _calm() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ThriftyWarning)
        yield


def plan(folder: Path, simulator: Any = simulate, *, seed: int = 5, **settings: Any) -> th.Campaign:
    c = th.Campaign(folder, simulator, PRIOR, seed=seed, cost="reported", unit="events")
    c.pilot(PILOTS, engine=th.Inline(), **QUIET)
    c.plan(n=PLANNED, avoid_failures=False, **settings)
    return c


def stop_after(c: th.Campaign, runs: int) -> th.Campaign:
    with pytest.raises(KeyboardInterrupt):
        c.run(engine=Stopped(runs), **QUIET)
    return c


def score(values: np.ndarray, log_weights: np.ndarray, truth: float) -> float:
    """Distance of a weighted mean from the truth, in standard errors of these draws."""
    weights = normalise(log_weights)
    mean = float(weights @ values)
    return (mean - truth) / float(np.sqrt(np.sum((weights * (values - mean)) ** 2)))


def finished(sims: th.Simulations) -> tuple[np.ndarray, np.ndarray]:
    counted = np.isfinite(sims.log_weights)
    return sims.theta[counted, 0], sims.log_weights[counted]


def test_before_the_first_planned_run_pilots_are_plain_draws(tmp_path: Path):
    c = plan(tmp_path / "c", fail_above)
    before = float((~th.Campaign.open(c.folder).simulations(allow_incomplete=True, max_failed=1).ok[:PILOTS]).mean())
    status = c.status()
    assert (status.done, status.pending) == (PILOTS, PLANNED)
    assert status.failed_mass == pytest.approx(before, abs=1e-12)
    sims = c.simulations(allow_incomplete=True, max_failed=1)
    done = sims.status != "pending"
    np.testing.assert_allclose(sims.log_weights[done], 0.0, atol=1e-12)
    assert (sims.log_weights[~done] == -np.inf).all() and sims.failed_mass == pytest.approx(before)
    assert int(sims.failed.sum()) == status.failed


@pytest.mark.parametrize("runs", [200, 800, 1400])
@pytest.mark.parametrize("penalty", [None, 1.0, 0])
def test_finished_runs_restore_the_prior(tmp_path: Path, runs: int, penalty: float | None):
    sims = stop_after(plan(tmp_path / "c", penalty=penalty), runs).simulations(allow_incomplete=True)
    theta, log_weights = finished(sims)
    assert len(theta) >= PILOTS + 0.9 * runs  # hardly anything is lost
    assert ess(log_weights) > 200
    for values, truth in ((theta, MEAN), ((theta > FAILED_ABOVE) * 1.0, FAILED_MASS), ((theta < 1) * 1.0, 0.25)):
        assert abs(score(values, log_weights, truth)) < 5


def test_mutants_do_not_restore_the_prior(tmp_path: Path):
    """Weights of the whole plan, of the finished counts, and a limit that is forgotten: each is found."""
    c = stop_after(plan(tmp_path / "c"), 800)
    with c.session.reading() as opened:
        table = opened.table_with_outputs()
        whole = pool_of(table, opened.parts, c.prior).log_weight(table.theta)[table.done]
        by_count = pool_of(table.select(table.done), opened.parts, c.prior).log_weight(table.theta[table.done])
    theta = table.theta[table.done, 0]
    assert abs(score(theta, whole, MEAN)) > 5
    assert abs(score(theta, by_count, MEAN)) > 5
    sims = c.simulations(allow_incomplete=True)
    counted = np.isfinite(sims.log_weights)
    squared = 2 * sims.log_weights[counted]
    assert abs(score(sims.theta[counted, 0], squared, MEAN)) > 5


def test_a_forgotten_limit_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    c = stop_after(plan(tmp_path / "c"), 800)
    monkeypatch.setattr(weighting.CostlierPart, "covers", lambda self, theta: np.ones(len(theta), dtype=bool))
    theta, log_weights = finished(c.simulations(allow_incomplete=True))
    assert abs(score(theta, log_weights, MEAN)) > 5


@pytest.mark.parametrize("runs", [300, 1200])
def test_the_failed_mass_does_not_jump_while_a_plan_runs(tmp_path: Path, runs: int):
    c = stop_after(plan(tmp_path / "c", fail_above), runs)
    sims, status = c.simulations(allow_incomplete=True, max_failed=1), c.status()
    counted = np.isfinite(sims.log_weights)
    assert abs(score(sims.failed[counted] * 1.0, sims.log_weights[counted], FAILED_MASS)) < 5
    assert status.failed_mass == pytest.approx(sims.failed_mass, rel=1e-9)
    report = c.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"{status.failed_mass:.2%}" in report


def test_one_missing_run_changes_little_and_none_nothing(tmp_path: Path):
    c = stop_after(plan(tmp_path / "c"), PLANNED - 1)
    almost = c.simulations(allow_incomplete=True)
    assert int((almost.status == "pending").sum()) == 1
    c.run(engine=th.Inline(), **QUIET)
    whole = c.simulations()
    both = np.isfinite(almost.log_weights)
    assert both.sum() >= PILOTS + PLANNED - 2
    gap = almost.log_weights[both] - whole.log_weights[both]
    cheapest = whole.theta[both, 0] <= np.sort(whole.theta[PILOTS:, 0])[2]
    np.testing.assert_allclose(gap[~cheapest], 0, atol=1e-9)


def test_a_budget_counts_the_runs_before_the_first_missing_one(tmp_path: Path):
    c = th.Campaign(tmp_path / "c", simulate, PRIOR, seed=6, cost="reported", unit="events")
    c.pilot(PILOTS, engine=th.Inline(), **QUIET)
    c.plan(budget="30000 events")
    stop_after(c, 300)
    with c.session.writing() as opened:  # as if the driver had been killed while run PILOTS + 200 was under way
        opened.store.forget([PILOTS + 200])
    sims = c.simulations(allow_incomplete=True)
    counted = np.isfinite(sims.log_weights)
    assert counted.sum() == PILOTS + 200 and not counted[PILOTS + 200 :].any()
    assert abs(score(sims.theta[counted, 0], sims.log_weights[counted], MEAN)) < 5


def test_messages_say_what_is_missing_and_what_counts(tmp_path: Path):
    c = plan(tmp_path / "c")
    with pytest.raises(CampaignError, match="1,600 planned runs") as caught:
        c.simulations()
    assert "most expensive runs start first" in str(caught.value)
    with pytest.warns(ThriftyWarning, match="400 finished runs are weighted as drawn and run so far"):
        sims = c.simulations(allow_incomplete=True)
    assert "not finished" in str(sims) and "failed" not in str(sims)


def test_without_a_pilot_the_cheap_side_is_said_to_be_missing(tmp_path: Path):
    c = th.Campaign(tmp_path / "c", simulate, PRIOR, seed=7, cost="reported", unit="events")
    c.plan(n=400, cost=lambda theta: np.exp(theta[:, 0]))
    stop_after(c, 200)
    with pytest.warns(ThriftyWarning, match="none of them stands for parameters with a predicted cost below"):
        c.simulations(allow_incomplete=True)


def test_the_saving_of_missing_runs_is_in_the_future(tmp_path: Path):
    c = stop_after(plan(tmp_path / "c"), 800)
    assert "\nwill save about " in str(c.status()) and "\nsaved" not in str(c.status())
    c.run(engine=th.Inline(), **QUIET)
    assert "\nsaved " in str(c.status()) and "will save" not in str(c.status())
