"""`thrifty infer`: fit a method to the table of a run folder, check the posterior, and keep the result there."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from thrifty.cli.commands import AllowIncomplete, Config, Folder, Json, MaxFailed, Quiet
from thrifty.cli.config_tables import METHODS
from thrifty.cli.output import Screen
from thrifty.errors import ConfigError, DataError, ThriftyError

CHECKED_POSTERIORS = 300  # that the diagnosis draws from
MIN_ACCEPTED = 100  # runs that ABC keeps: fewer describe no posterior
MAX_CHECK_MINUTES = 5.0  # networks take seconds, a Markov chain for each of 300 data sets may take hours
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
    all_checks: Annotated[bool, typer.Option("--all-checks", help="Run the checks even if they take hours.")] = False,
    no_checks: Annotated[bool, typer.Option("--no-checks", help="Skip the checks.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Find the parameters behind an observation.

    Executes no code from the folder. Exit code 4 if the checks say that the posterior should not be trusted.
    """
    from thrifty.campaign.campaign import Campaign
    from thrifty.cli.project import check_has_runs, find_folder, relative_path
    from thrifty.inference.checks import read_observations
    from thrifty.report.results import check_name
    from thrifty.study.study import fit_study

    screen = Screen(quiet, json)
    place = find_folder(folder, config)
    settings = _read_settings(config)
    if name:
        check_name(name)
    x_o, label = _read_observation(observed, settings), str(method) if method else settings.get("method", "npe")
    campaign = Campaign.open(place)
    check_has_runs(campaign, allow_incomplete=allow_incomplete)
    _check_not_kept(place, name or label, x_o)
    simulations = campaign.simulations(allow_incomplete=allow_incomplete, max_failed=max_failed)
    event = simulations.x.shape[2:] if simulations.m > 1 else simulations.x.shape[1:]
    read_observations(x_o, event)  # rejects data of the wrong length before training, not after
    chosen = _make_method(label, campaign.prior, settings, runs=int(simulations.ok.sum()))
    screen.step(label, f"fitting {len(simulations):,} runs")
    study = fit_study(chosen, simulations, x_o, label=label, campaign=campaign, seed=seed)
    screen.step(label, f"fitted {int(simulations.ok.sum()):,} runs in {study.seconds:.0f} s")
    checked = None if no_checks else _run_checks(study, screen, patient=all_checks)
    result = study.save(name=name)
    _show(screen, study, checked=bool(checked))
    code = _exit_code(study, checked)
    screen.result(_as_dict(study, result, exit_code=code))
    screen.say(f"kept in {relative_path(place)}/infer/{result.name}")
    screen.next(f"thrifty report {relative_path(place)}")
    return code


def _exit_code(study: Any, checked: bool | None) -> int:
    """Return 4 where the report advises against trust: checks failed or impossible, or too much prior mass failed."""
    from thrifty.campaign.weighting import MAX_FAILED_MASS

    doubtful = checked is False or (checked and study.diagnosis.verdict == "do not trust")
    return 4 if doubtful or study.simulations.failed_mass > MAX_FAILED_MASS else 0


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


def _run_checks(study: Any, screen: Any, *, patient: bool) -> bool | None:
    """Run the checks: True when done, None when left out because they take too long, False when impossible.

    The fit is kept in all cases.
    """
    began = time.monotonic()
    study.posterior.sample(100, study.x_o, seed=study.seed)
    minutes = CHECKED_POSTERIORS * (time.monotonic() - began) / 60
    if minutes > MAX_CHECK_MINUTES and not patient:
        screen.say(
            f"warning: the checks would take about {minutes:.0f} minutes and were left out; --all-checks runs them"
        )
        return None
    screen.step("checks", "calibration, weights, reach" + (f" (about {minutes:.0f} minutes)" if minutes > 1 else ""))
    try:
        _ = study.diagnosis
    except ThriftyError as error:
        screen.say(f"warning: the checks are not possible: {error.what}")
        return False
    return True


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


def _make_method(label: str, prior: Any, settings: dict[str, Any], *, runs: int) -> Any:
    import thrifty as th

    if label == "abc":
        own = {key: settings[key] for key in ("quantile", "epsilon", "adjust") if key in settings}
        if not {"quantile", "epsilon"} & set(own):  # one percent, but not too few for a posterior
            own["n_accept"] = min(max(MIN_ACCEPTED, runs // 100), runs)
        return th.ABC(prior, **own)
    return getattr(th, METHODS[label])(prior)


def _show(screen: Any, study: Any, *, checked: bool) -> None:
    from thrifty.campaign.quote import align_columns

    rows = [[name, f"{m:.4g}", f"{a:.4g}", f"{b:.4g}", ""] for name, m, a, b in study.summary()]
    screen.data(align_columns(["parameter", "median", "5 %", "95 %", ""], rows))
    if not checked:
        return
    screen.data(f"verdict   {study.diagnosis.verdict}")
    for line in str(study.diagnosis).splitlines()[1:]:
        screen.say(line)


def _as_dict(study: Any, result: Any, *, exit_code: int) -> dict[str, Any]:
    rows = {name: {"median": m, "low": a, "high": b} for name, m, a, b in study.summary()}
    return {
        "method": result.method, "name": result.name, "parameters": rows, "runs": len(study.simulations),
        "seconds": study.seconds, "diagnosis": result.diagnosis, "posterior": result.posterior_path, "exit": exit_code,
    }  # fmt: skip
