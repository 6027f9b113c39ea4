"""The steps that `plan` and `run` share: the campaign, its pilot, its engine."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thrifty.cli.screen import Screen
from thrifty.cli.settings import RunSettings
from thrifty.cli.simulators import load_simulator
from thrifty.cli.targets import Target, shown
from thrifty.errors import CampaignError, ConfigError, SimulatorError

if TYPE_CHECKING:
    from thrifty.campaign.campaign import Campaign


@dataclass(frozen=True)
class Session:
    """An open campaign with what is needed to drive it."""

    target: Target
    campaign: Campaign
    run: RunSettings
    screen: Screen
    new: bool  # made by this call
    made: Path  # the outermost folder that was made
    add_penalty: bool = False  # whether a changed penalty may add runs of its own

    def driving(self) -> dict[str, Any]:
        """Arguments that `pilot` and `run` share."""
        return {
            "engine": engine_of(self.run),
            "time_limit": self.run.time_limit,
            "on_timeout": self.run.on_timeout,
            "progress": self.screen.progress,
        }


def begin(target: Target, screen: Screen, *, workers: int | None, accept_changed: bool) -> Session:
    """Load the simulator, make or open the campaign."""
    run = target.settings.run if workers is None else replace(target.settings.run, workers=workers)
    engine_of(run)  # a wrong number or a missing library is said before anything is made
    simulator = load_simulator(target.settings)
    new, made = not target.exists, _first_missing(target.folder)
    if not new and not accept_changed:
        _check_unchanged(target.folder, simulator)
    campaign = target.campaign(simulator, accept_changed=accept_changed)
    return Session(target, campaign, run, screen, new, made)


def _check_unchanged(folder: Path, simulator: Any) -> None:
    """Refuse a simulator that changed since the first run, before anything is planned for it."""
    from thrifty.campaign.fingerprint import changes
    from thrifty.campaign.store import Store

    store = Store.open(folder, readonly=True)
    try:
        changed = changes(store.settings()["simulator"], simulator) if store.totals()["done"] else []
    finally:
        store.close()
    if changed:
        raise CampaignError(
            f"the simulator changed since {shown(folder)} began: {'; '.join(changed[:5])}",
            code="simulator-changed",
            why="mixing versions mixes models",
        )


def _first_missing(folder: Path) -> Path:
    """The outermost folder that does not exist yet; the folder itself when all do."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    return missing[-1] if missing else folder


def engine_of(run: RunSettings) -> Any:
    """The engine a configuration names."""
    if run.engine == "inline":
        from thrifty.campaign.inline import Inline

        return Inline()
    if run.engine == "dask":
        from thrifty.campaign.dask import Dask

        return Dask(run.address or run.workers)
    from thrifty.campaign.workers import Processes

    return Processes(run.workers)


def pilot(session: Session) -> None:
    """Run the pilot that is missing; a first one that is all failures leaves nothing behind."""
    campaign, wanted = session.campaign, session.target.settings.plan.pilot
    status = campaign.status()
    if status.pilots >= wanted and not (status.pending and status.planned == status.pilots):
        return
    session.screen.step("pilot", f"{wanted} timed runs from the prior")
    try:
        campaign.pilot(wanted, **session.driving())
    except SimulatorError as error:
        if session.new and error.code in (
            "simulator-failed",
            "constant-output",
        ):  # made by this very call, and it holds failures only
            shutil.rmtree(session.made, ignore_errors=True)
            error.fix = "thrifty check shows what a run does; nothing was kept"
        raise


def check_campaign(campaign: Campaign, *, allow_incomplete: bool, why: str = "") -> None:
    """Pilots alone are not a campaign: they only say what a run costs."""
    now = campaign.status()
    if now.planned <= now.pilots and not allow_incomplete:
        error = CampaignError(
            f"{shown(campaign.folder)} has {now.done:,} pilots and no campaign runs",
            code="no-runs-yet",
            why=why,
        )
        error.exit_code = 2
        raise error


def check_workers(workers: int | None) -> None:
    """Refuse a number that is none, before anything else is read."""
    if workers is not None and workers < 1:
        raise ConfigError(f"workers = {workers}, expected at least 1", code="bad-setting")


def next_run(folder: Path) -> str:
    """The command that goes on."""
    return f"thrifty run {shown(folder)}"
