"""`thrifty infer`: fit a method to the table of a run folder, check the posterior, and keep the result there."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from thrifty.cli.commands import AllowIncomplete, Config, Folder, Json, MaxFailed, Quiet
from thrifty.cli.config_tables import METHODS
from thrifty.cli.output import Screen
from thrifty.display import count_things
from thrifty.errors import ConfigError, DataError

Method = StrEnum("Method", list(METHODS))


def infer(
    folder: Folder = None,
    *,
    observed: Annotated[
        Path | None, typer.Option("--observed", "-o", help="Your data: csv, json or npy.", show_default=False)
    ] = None,
    method: Annotated[
        Method | None, typer.Option("--method", "-m", help="Instead of [infer] method.", show_default=False)
    ] = None,
    config: Config = None,
    name: Annotated[
        str, typer.Option(help="Name of the result; by default the name of the method.", show_default=False)
    ] = "",
    seed: Annotated[int, typer.Option(help="Seed of training and draws.", min=0)] = 0,
    max_failed: MaxFailed = 0.01,
    allow_incomplete: AllowIncomplete = False,
    all_checks: Annotated[
        bool, typer.Option("--all-checks", help="Check without a time limit, even if it takes hours.")
    ] = False,
    no_checks: Annotated[bool, typer.Option("--no-checks", help="Skip the checks.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Find the parameters behind an observation.

    Executes no code from the folder. Exit code 4 if the checks say that the posterior should not be trusted.
    """
    from thrifty.campaign.campaign import Campaign
    from thrifty.cli.failed_runs import accept_failures
    from thrifty.cli.finish_study import advise_more_runs, keep_study
    from thrifty.cli.project import check_has_runs, find_folder, order_observed, relative_path
    from thrifty.report.results import check_name
    from thrifty.study.fit_study import fit_study

    screen = Screen(quiet, json)
    place = find_folder(folder, config)
    settings = _read_settings(config)
    if name:
        check_name(name)
    given, label = _read_observation(observed, settings), str(method) if method else settings.get("method", "npe")
    campaign = Campaign.open(place)
    check_has_runs(campaign, allow_incomplete=allow_incomplete)
    simulations = campaign.simulations(allow_incomplete=allow_incomplete, max_failed=max_failed)
    event = simulations.x.shape[2:] if simulations.m > 1 else simulations.x.shape[1:]
    x_o = order_observed(given, event, simulations.x_names)  # rejects data that do not fit before training, not after
    _check_not_kept(place, name or label, x_o)
    chosen = accept_failures(_make_method(label, campaign.prior, settings), max_failed)
    screen.step(label, f"fitting {count_things(len(simulations), 'run')}")
    study = fit_study(chosen, simulations, x_o, label=label, campaign=campaign, seed=seed)
    screen.step(label, f"fitted {count_things(int(simulations.ok.sum()), 'run')} in {study.seconds:.0f} s")
    code = keep_study(study, screen, name=name, checks=not no_checks, patient=all_checks)
    if "diagnosis" in vars(study) and (advice := advise_more_runs(study.diagnosis, label)):
        screen.say(advice)
    screen.next(f"thrifty report {relative_path(place)}")
    return code


def _check_not_kept(place: Path, name: str, x_o: Any) -> None:
    """Reject a name that belongs to a result of another observation: nothing is overwritten."""
    import numpy as np

    from thrifty.report.results import read_results

    for kept in read_results(place):
        if kept.name == name and not np.array_equal(np.ravel(kept.x_o), np.ravel(x_o)):
            raise ConfigError(
                f"the result {name!r} of this folder is of another observation",
                code="already-exists",
                why="nothing is overwritten",
                fix=f"thrifty infer --name {name}-2",
            )


def _read_settings(config: Path | None) -> dict[str, Any]:
    """Read `[infer]` of the user's configuration, if there is one here; its mistakes are errors."""
    from thrifty.cli.config import NAME, read_config

    path = config if config is not None else Path(NAME)
    if config is None and not path.exists():
        return {}
    found = read_config(path).infer
    return {key: value for key, value in vars(found).items() if value is not None}


def _read_observation(observed: Path | None, settings: dict[str, Any]) -> Any:
    from thrifty.cli.project import read_observed

    path = observed if observed is not None else settings.get("observed")
    if path is None:
        raise DataError(
            "no observed data",
            code="bad-observation",
            fix="--observed observed.csv, or [infer] observed in thrifty.toml",
        )
    return read_observed(path)


def _make_method(label: str, prior: Any, settings: dict[str, Any]) -> Any:
    import thrifty as th

    if label == "abc":  # what is not set is the library's to choose
        return th.ABC(prior, **{key: settings[key] for key in ("quantile", "epsilon", "adjust") if key in settings})
    return getattr(th, METHODS[label])(prior)
