"""Find the configuration, the run folder, the observed data and the engine of a command, and open its campaign."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thrifty.cli.config import NAME, read_config
from thrifty.cli.config_errors import did_you_mean
from thrifty.cli.config_tables import RunSettings, Settings
from thrifty.cli.output import FOLDER, Screen
from thrifty.cli.simulator_loading import load_simulator
from thrifty.display import count_things
from thrifty.errors import CampaignError, ConfigError, DataError, SimulatorError, ThriftyError, warn
from thrifty.named import find_nearest

if TYPE_CHECKING:
    from thrifty.campaign.campaign import Campaign
    from thrifty.runner.first_output import OutputCheck
    from thrifty.types import Array

STORE, COPY = "store.sqlite", "frozen.json"  # the copy alone means that the store was lost; opening it says so
MAX_OBSERVED_BYTES = 256 * 2**20


def find_target(folder: Path | None, config: Path | None) -> tuple[Settings, Path]:
    """Find settings and folder of a command that runs the simulator; only the user's own file names it."""
    if folder is not None and folder.is_file():
        raise ConfigError(
            f"{folder} is a file, a run folder was expected",
            code="no-campaign",
            fix=f"if it is the configuration, the same command with --config {folder}",
        )
    settings = read_config(config if config is not None else Path(NAME))
    chosen = folder if folder is not None else settings.run.folder
    FOLDER.set(relative_path(chosen))
    return settings, chosen


def find_folder(folder: Path | None, config: Path | None = None) -> Path:
    """Find the folder of a command that only reads: it must exist, and no code from it is executed."""
    chosen = folder if folder is not None else _read_folder(config)
    FOLDER.set(relative_path(chosen))
    if chosen.is_file():
        raise ConfigError(
            f"{chosen} is a file, a run folder was expected",
            code="no-campaign",
            fix=f"give its folder: {relative_path(chosen.parent)}",
        )
    if not (chosen / STORE).exists() and not (chosen / COPY).is_file():
        near = [p.name for p in chosen.parent.glob("*/") if (p / STORE).is_file()] if chosen.parent.is_dir() else []
        meant = did_you_mean(relative_path(chosen), [relative_path(chosen.parent / name) for name in near])
        fix = "check the spelling" if meant else f"thrifty run {relative_path(chosen)} makes one"
        what = f"no run at {relative_path(chosen)}.{meant}"
        error = CampaignError(what, code="no-campaign", why="nothing was created", fix=fix)
        error.exit_code = 2  # a mistyped name is a usage error
        raise error
    return chosen


def _read_folder(config: Path | None) -> Path:
    """Read the folder that the configuration names; only that key is read."""
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


def infer_command(folder: Path, config: Path | None = None) -> str:
    """Return the command that infers from a folder; the observation is left out where the configuration names it."""
    try:
        section = tomllib.loads((config or Path(NAME)).read_text(encoding="utf-8")).get("infer", {})
        named = bool(section.get("observed"))
    except (OSError, ValueError, AttributeError):
        named = False
    return f"thrifty infer {relative_path(folder)}" + ("" if named else " --observed observed.csv")


def relative_path(folder: Path) -> str:
    """Return a path relative to the current folder, as a user would type it."""
    try:
        near = os.path.relpath(folder)
    except ValueError:
        return str(folder)
    return near if not near.startswith("../..") else str(folder)


def _check_free(folder: Path) -> None:
    """Reject a folder that holds other files."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if not names & {STORE, COPY} and names - {"lock"}:
        raise ConfigError(
            f"{relative_path(folder)} exists and holds other files, but no campaign",
            code="already-exists",
            why="a campaign needs a folder of its own",
            fix="name a new folder: thrifty run runs/first",
        )


def _keep_copy(path: Path, text: str) -> None:
    """Keep the configuration as it was when the folder was made; it is written once and never executed."""
    if path.exists() or path.is_symlink():
        return
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


@dataclass(frozen=True)
class Session:
    """An open campaign with all that is needed to run it."""

    settings: Settings
    campaign: Campaign
    run: RunSettings
    screen: Screen
    made: Path | None  # the outermost folder that this call made; None for a campaign that existed
    check: OutputCheck | None = None  # of the first output of the pilot, before more is run

    def run_arguments(self) -> dict[str, Any]:
        """Return the arguments that `Campaign.pilot` and `Campaign.run` share."""
        from thrifty.runner.first_output import FirstOutputCheck

        engine = make_engine(self.run)
        return {
            "engine": engine if self.check is None else FirstOutputCheck(engine, self.check),
            "time_limit": self.run.time_limit,
            "on_timeout": self.run.on_timeout,
            "progress": self.screen.progress,
        }


def start_session(
    folder: Path | None,
    config: Path | None,
    screen: Screen,
    *,
    workers: int | None,
    accept_changed: bool,
    redo_failed: bool = False,
    check: OutputCheck | None = None,
) -> Session:
    """Load the simulator, open the campaign or make it with a copy of its configuration, and run the missing pilot.

    `check` sees the first output of the pilot before more is run.
    """
    from thrifty.campaign.campaign import Campaign
    from thrifty.campaign.redo import begin_redo

    if workers is not None and workers < 1:
        raise ConfigError(f"workers = {workers}, expected at least 1", code="bad-setting")
    settings, place = find_target(folder, config)
    run = settings.run if workers is None else replace(settings.run, workers=workers)
    make_engine(run)  # reports a wrong number or a missing library before anything is made
    simulator = load_simulator(settings)
    made = None
    if not (place / STORE).is_file():
        _check_free(place)
        made = _first_missing(place)
    elif not accept_changed:
        _check_unchanged(place, simulator, list_files(settings))
    campaign = Campaign(
        place,
        simulator,
        settings.prior,
        seed=settings.plan.seed,
        cost=settings.cost.measure,  # type: ignore[arg-type] - checked on reading
        price=settings.cost.price or None,
        unit=settings.cost.unit,
        m=settings.simulator.realisations,
        accept_changed=accept_changed,
        depends_on=list_files(settings),
    )
    _keep_copy(place / NAME, settings.text)
    if redo_failed and (again := begin_redo(campaign.session)):
        screen.step("redo", f"{count_things(again, 'failed run')}, with the same parameters and random numbers")
    session = Session(settings, campaign, run, screen, made, check)
    _run_pilot(session)
    return session


def list_files(settings: Settings) -> list[Path]:
    """Return the data files on which the simulator depends: relative to the folder of the configuration."""
    return [settings.home / path for path in settings.simulator.depends_on]


def _check_unchanged(folder: Path, simulator: Any, files: list[Path]) -> None:
    """Reject a simulator that changed since the first run, before anything is planned for it."""
    from thrifty.campaign.fingerprint import fingerprint
    from thrifty.campaign.settings import as_paths, differences
    from thrifty.store.store import Store

    now = fingerprint(simulator, as_paths(files))
    with closing(Store.open(folder, readonly=True)) as store:
        changed = differences(store.settings()["simulator"], now) if store.has_runs() else []
    if changed:
        raise CampaignError(
            f"the simulator changed since {relative_path(folder)} began: {'; '.join(changed[:5])}",
            code="simulator-changed",
            why="mixing versions mixes models",
            fix=_accept_fix(folder),
        )


def _accept_fix(folder: Path) -> str:
    """Say how to go on with a changed simulator, and with the runs that failed before."""
    from thrifty.campaign.settings import CampaignSettings
    from thrifty.store.read import known_shape
    from thrifty.store.store import Store
    from thrifty.store.sums import find_failed

    name = relative_path(folder)
    fix = f"a new folder, or thrifty run {name} --accept-changed-simulator (it is recorded)"
    with closing(Store.open(folder, readonly=True)) as store:
        shape = known_shape(store, CampaignSettings.parse(store.settings()).shape)
        failed = len(find_failed(store, ",".join(map(str, shape))))
    return f"{fix}; --redo-failed makes the {count_things(failed, 'failed run')} again" if failed else fix


def _first_missing(folder: Path) -> Path:
    """Find the outermost folder that does not exist yet; the folder itself if all exist."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    return missing[-1] if missing else folder


def make_engine(run: RunSettings) -> Any:
    """Make the engine that a configuration names."""
    import thrifty as th

    if run.engine == "inline":
        return th.Inline()
    return th.Dask(run.address or run.workers) if run.engine == "dask" else th.Processes(run.workers)


def _run_pilot(session: Session) -> None:
    """Run the missing pilot; if a first pilot fails completely, remove the folder again."""
    from thrifty.study.campaign_steps import run_pilot

    campaign, wanted = session.campaign, session.settings.plan.pilot
    status = campaign.status()
    if status.pilots >= wanted and not (status.pending and status.planned == status.pilots):
        return
    session.screen.step("pilot", f"{wanted} timed runs from the prior")
    try:
        asked = session.settings.plan_arguments()
        run_pilot(campaign, wanted, asked["budget"] or asked["cap"], **session.run_arguments())
    except SimulatorError as error:
        if session.made and error.code in ("simulator-failed", "constant-output"):  # it holds failures only
            shutil.rmtree(session.made, ignore_errors=True)
            error.fix = "thrifty check shows what a run does; nothing was kept"
        elif error.code == "simulator-failed":
            error.fix = (
                "correct the simulator (thrifty check shows what a run does), then thrifty run"
                f" {relative_path(campaign.folder)} --accept-changed-simulator --redo-failed"
            )
        raise


def check_has_runs(campaign: Campaign, *, allow_incomplete: bool, why: str = "") -> None:
    """Reject a campaign that has only pilots, which only measure what a run costs."""
    now = campaign.status()
    if now.planned <= now.pilots and not allow_incomplete:
        what = f"{relative_path(campaign.folder)} has {count_things(now.done, 'pilot')} and no campaign runs"
        error = CampaignError(what, code="no-runs-yet", why=why)
        error.exit_code = 2
        raise error


def read_observed(path: Path) -> Any:
    """Read an observation: csv or text, json, npy; an array, or a dictionary where the file names its numbers.

    Nothing is executed. A csv file names its numbers by a header over one row, a json file by an object.

    Raises:
        DataError: bad-observation, there is no such file, or something in it is not a number.
    """
    import numpy as np

    from thrifty.named import split_names
    from thrifty.runner.command import read_csv, read_npy, split_csv

    try:
        if path.stat().st_size > MAX_OBSERVED_BYTES:
            raise DataError(
                f"{path} is larger than 256 MB: not one observation",
                code="bad-observation",
                fix="a file with one row, the numbers of one run",
            )
        data = path.read_bytes()
    except OSError as error:
        what = f"cannot read the observed data {path}: {error.strerror}"
        raise DataError(what, code="bad-observation", fix=_suggest_file(path)) from None
    try:
        if path.suffix == ".json":
            found = json.loads(data)
            found = found.get("x", found) if isinstance(found, dict) else found
        elif path.suffix == ".npy":
            found = read_npy(data, path.name).x
        else:
            found = read_csv(data, path.name).x
            _check_header(*split_csv(data), path.name)
        numbers, names = split_names(found)
        return found if names else np.asarray(numbers, dtype=np.float64)
    except DataError:
        raise
    except (ThriftyError, ValueError, TypeError, RecursionError) as error:
        what = f"observed data: {getattr(error, 'what', str(error))}"
        fix = "numbers separated by commas, blanks or lines; or .json, .npy"
        raise DataError(what, code="bad-observation", fix=fix) from None


def _suggest_file(path: Path) -> str:
    """Say which file was probably meant, or how to write one."""
    text = str(path)
    if all(_is_number(part) for part in text.split(",")):
        return f"--observed takes a file: write {text} into observed.csv, then --observed observed.csv"
    try:
        names = [one.name for one in path.parent.iterdir() if one.suffix in (".csv", ".json", ".npy", ".txt")]
    except OSError:
        names = []
    near = find_nearest(path.name, names)
    return f"there is {path.parent / near}" if near else "check the path: --observed FILE, a .csv, .json or .npy"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_header(header: list[str], rows: list[list[str]], source: str) -> None:
    """Refuse a header of too few or too many names, and warn of one that is not used."""
    width = len(rows[0])
    if header and len(header) != width:
        raise DataError(
            f"the header of {source} has {count_things(len(header), 'name')} ({', '.join(header)[:60]}),"
            f" and there are {count_things(width, 'value')} below it",
            code="bad-observation",
            fix="one name for each value, separated by commas, or no header",
        )
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        warn(f"the header of {source} is not used: {', '.join(repeated)} is there twice")
    elif header and len(rows) > 1:
        warn(f"the header of {source} is not used: it names the values of one line, and there are {len(rows)}")


def order_observed(observed: Any, event: tuple[int, ...], names: tuple[str, ...]) -> Array:
    """Return what `read_observed` found as numbers: by name where the runs have names, else in the order of the file.

    Raises:
        DataError: bad-observation, it does not fit the outputs of the runs.
    """
    import numpy as np

    from thrifty.inference.checks import read_observations
    from thrifty.named import order_observation, split_names

    found, given = split_names(observed)
    if names:
        found = order_observation(observed, event, names)
    elif given:
        warn(f"the names {', '.join(given)[:60]} are not used: the runs have no names, so the order of the file counts")
    read_observations(found, event)
    return np.asarray(found, dtype=np.float64)
