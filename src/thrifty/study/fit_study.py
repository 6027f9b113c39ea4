"""Infer parameters in one call, with a method that runs on any table or steers its own runs.

pilot ─► plan ─► run ─► fit ─► draws at x_o      each step is public: to change one, copy the body of `infer`
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from thrifty.campaign.weighting import MAX_FAILED_MASS
from thrifty.durations import Duration
from thrifty.errors import ConfigError, warn
from thrifty.runner.time_limits import make_time_limit
from thrifty.study.method_names import make_method, set_progress
from thrifty.study.study import Study
from thrifty.tables.simulations import Simulations
from thrifty.types import Array

if TYPE_CHECKING:
    from thrifty.campaign.campaign import Campaign

_log = logging.getLogger(__name__)
DEFAULT_RUNS = 5000


def infer(
    simulator: Callable[..., Any],
    prior: Any,
    x_o: Any,
    *,
    n: int | None = None,
    budget: float | str | None = None,
    pilot: int | None = None,
    method: Any = None,
    folder: str | os.PathLike[str] | None = None,
    seed: int = 0,
    workers: int = 2,
    cost: Literal["cpu", "wall", "reported"] = "cpu",
    time_limit: Duration | None = None,
    on_timeout: str | None = None,
    max_failed: float = MAX_FAILED_MASS,
    depends_on: Sequence[str | os.PathLike[str]] = (),
    progress: bool | None = None,
    accept_changed: bool = False,
    redo_failed: bool = False,
    name: str = "",
) -> Study:
    """Infer a posterior from simulator, prior and observation: pilot, plan, run, fit; see `thrifty.infer`."""
    from thrifty.campaign.campaign import Campaign
    from thrifty.campaign.redo import begin_redo
    from thrifty.campaign.settings import check_count
    from thrifty.inference.checks import check_observed
    from thrifty.priors import as_prior
    from thrifty.report.results import check_name
    from thrifty.study.campaign_steps import Runs, announce, check_unit

    prior = as_prior(prior)
    check_observed(x_o)
    method = set_progress(make_method(method, prior), progress)
    check_unit(budget, cost)
    is_default = n is None and budget is None
    n = DEFAULT_RUNS if is_default else n
    if n is not None:
        check_count(n, "infer")
    if name:
        check_name(name)
    runs = Runs(n, budget, pilot, time_limit, on_timeout, workers, max_failed, progress, is_default)
    is_sequential = hasattr(method, "run")  # it chooses its own runs
    if is_sequential:
        _check_sequential(method, runs)
    make_time_limit(time_limit, on_timeout)  # refuses before a folder is made
    place = Path(tempfile.mkdtemp(prefix="thrifty-")) / "runs" if folder is None else Path(folder)
    campaign = Campaign(
        place, simulator, prior, seed=seed, cost=cost, depends_on=depends_on, accept_changed=accept_changed
    )
    if redo_failed:
        begin_redo(campaign.session)
    if folder is None:
        weakref.finalize(campaign, shutil.rmtree, campaign.folder.parent, ignore_errors=True)
    if is_sequential:
        if is_default:
            announce(f"neither n nor budget was given: at most {n:,} runs, the default", progress)
        began = time.monotonic()
        study = method.run(campaign, x_o, n=n, budget=budget, seed=seed, workers=workers)
        same = {"campaign": campaign, "method": _name(method), "seed": seed, "seconds": time.monotonic() - began}
        study = replace(study, **same, each=tuple(replace(one, **same) for one in study.each))
    else:
        observed = runs.run(campaign, x_o)
        study = infer_campaign(campaign, observed, method=method, seed=seed, max_failed=max_failed, name=name)
    try:
        study.save(name=name)
    except ConfigError as error:  # a method that steers its own runs knows what it inferred at the end only
        if not is_sequential or error.code != "already-exists":
            raise
        kept = study.save()
        warn(f"[already-exists] {error.what}: the result is kept as infer/{kept.name}")
    return study


def infer_campaign(campaign: Campaign, x_o: Any, *, method: Any, seed: int, max_failed: float, name: str = "") -> Study:
    """Fit a method to the runs of a campaign; see `Campaign.infer`, which keeps the study too."""
    from thrifty.report.results import check_name, refuse_taken_name
    from thrifty.study.campaign_steps import read_observed

    if name:
        check_name(name)
    method = make_method(method, campaign.prior)
    if not hasattr(method, "fit"):
        raise ConfigError(
            f"{_name(method)} chooses its own runs, and a campaign has its runs",
            code="conflicting-settings",
            fix=f'"npe", "abc", ...; or th.{type(method).__name__}(...).run(campaign, x_o, n=...), in a new folder',
        )
    table = campaign.simulations(max_failed=max_failed)
    observed = read_observed(table, x_o)
    if name:  # before the fit, not after
        refuse_taken_name(campaign.folder, name, method=_name(method), x_o=observed)
    return fit_study(method, table, observed, label=_name(method), campaign=campaign, seed=seed)


def _check_sequential(method: Any, runs: Any) -> None:
    """Refuse settings that a method which chooses its own runs cannot keep."""
    for label, why in (
        ("pilot", "its first round is its pilot"),
        ("time_limit", "all runs of a round finish before the next one is drawn"),
    ):
        if getattr(runs, label) is not None:
            raise ConfigError(
                f"{label} = {getattr(runs, label)!r} cannot be used with {_name(method)}: {why}",
                code="conflicting-settings",
                fix=f"leave {label} out, or use a method without rounds",
            )


def fit_study(
    method: Any, simulations: Simulations, x_o: Array, *, label: str, campaign: Campaign | None = None, seed: int = 0
) -> Study:
    """Fit a method to simulations, and keep what it found with the time that it took."""
    began = time.monotonic()
    _log.info("fit %s to %d runs", label, len(simulations))
    posterior = method.fit(simulations, seed=seed)
    _log.info("fit of %s ended after %.1f s", label, time.monotonic() - began)
    return Study(posterior, simulations, x_o, label, campaign, seconds=time.monotonic() - began, seed=seed)


def _name(method: Any) -> str:
    return getattr(method, "name", "") or type(method).__name__.lower()
