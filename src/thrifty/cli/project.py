"""The steps that `plan` and `run` share: the campaign, its pilot, its engine.

Which configuration and which folder a command is about, found before anything is touched.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thrifty.cli.config import NAME, read_config
from thrifty.cli.config_errors import did_you_mean
from thrifty.cli.config_tables import Settings
from thrifty.cli.output import FOLDER
from thrifty.errors import CampaignError, ConfigError

if TYPE_CHECKING:
    from thrifty.campaign.campaign import Campaign


import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from thrifty.cli.config_tables import RunSettings
from thrifty.cli.output import Screen
from thrifty.cli.simulator_loading import load_simulator
from thrifty.errors import SimulatorError

if TYPE_CHECKING:
    from thrifty.campaign.campaign import Campaign


STORE, COPY = "store.sqlite", "frozen.json"  # with the copy alone the store was lost, and opening it says so


@dataclass(frozen=True)
class Target:
    """The user's own configuration and the run folder it is about."""

    settings: Settings
    folder: Path

    @property
    def exists(self) -> bool:
        """Whether a campaign is there."""
        return (self.folder / STORE).is_file()

    def campaign(self, simulator: Any, *, accept_changed: bool = False) -> Campaign:
        """The campaign, made if it is not there, with the configuration kept beside it."""
        from thrifty.campaign.campaign import Campaign

        if not self.exists:
            _check_free(self.folder)
        settings = self.settings
        campaign = Campaign(
            self.folder,
            simulator,
            settings.prior,
            seed=settings.plan.seed,
            cost=settings.cost.measure,  # type: ignore[arg-type] - checked on reading
            price=settings.cost.price or None,
            unit=settings.cost.unit,
            m=settings.simulator.realisations,
            accept_changed=accept_changed,
        )
        _keep_copy(self.folder / NAME, settings.text)
        return campaign


def configured(folder: Path | None, config: Path | None) -> Target:
    """The target of a command that runs the simulator: only the user's own file says which."""
    if folder is not None and folder.is_file():
        raise ConfigError(
            f"{folder} is a file, a run folder was expected", code="no-campaign", fix=f"thrifty run --config {folder}"
        )
    settings = read_config(config if config is not None else Path(NAME))
    chosen = folder if folder is not None else settings.run.folder
    FOLDER.set(shown(chosen))
    return Target(settings, chosen)


def existing(folder: Path | None, config: Path | None = None) -> Path:
    """The folder of a command that reads: it must be there, and nothing of it is executed."""
    chosen = folder if folder is not None else _named(config)
    FOLDER.set(shown(chosen))
    if chosen.is_file():
        raise ConfigError(f"{chosen} is a file, a run folder was expected", code="no-campaign")
    if not (chosen / STORE).exists() and not (chosen / COPY).is_file():
        near = [p.name for p in chosen.parent.glob("*/") if (p / STORE).is_file()] if chosen.parent.is_dir() else []
        meant = did_you_mean(shown(chosen), [shown(chosen.parent / name) for name in near])
        fix = "" if meant else f"thrifty run {shown(chosen)} makes one"
        error = CampaignError(
            f"no run at {shown(chosen)}.{meant}",
            code="no-campaign",
            why="nothing was created",
            fix=fix or "check the spelling",
        )
        error.exit_code = 2  # a mistyped name is a mistake of usage, not of a cluster
        raise error
    return chosen


def _named(config: Path | None) -> Path:
    """The folder that the configuration here names; only that key is read."""
    path = config if config is not None else Path(NAME)
    if config is None and not path.exists():
        if Path(STORE).exists():
            return Path()
        raise ConfigError(
            f"which run? No folder was given and there is no {NAME} here",
            code="bad-config-file",
            fix="thrifty status runs/main",
        )
    try:
        section = tomllib.loads(path.read_text(encoding="utf-8")).get("run", {})
        return path.parent / str(section.get("folder", "runs/main"))
    except (OSError, ValueError, AttributeError):
        return read_config(path).run.folder  # says what is wrong with it


def shown(folder: Path) -> str:
    """A folder as one would type it from here."""
    try:
        near = os.path.relpath(folder)
    except ValueError:
        return str(folder)
    return near if not near.startswith("../..") else str(folder)


def _check_free(folder: Path) -> None:
    """A campaign goes into a folder of its own."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if not names & {STORE, COPY} and names - {"lock"}:
        raise ConfigError(
            f"{shown(folder)} exists and holds other files, but no campaign",
            code="already-exists",
            why="a campaign wants a folder of its own",
            fix="name a new folder: thrifty run runs/first",
        )


def _keep_copy(path: Path, text: str) -> None:
    """The configuration as it was when the folder was made; written once, read by people and never executed."""
    if path.exists() or path.is_symlink():
        return
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


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
    from thrifty.campaign.fingerprint import differences, fingerprint
    from thrifty.store.store import Store

    store = Store.open(folder, readonly=True)
    try:
        changed = differences(store.settings()["simulator"], fingerprint(simulator)) if store.has_runs() else []
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
        from thrifty.runner.engines.inline import Inline

        return Inline()
    if run.engine == "dask":
        from thrifty.runner.engines.dask import Dask

        return Dask(run.address or run.workers)
    from thrifty.runner.engines.processes import Processes

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
