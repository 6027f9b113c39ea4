"""`thrifty infer`: a method of the library on the table of a folder, its checks, and a result kept beside the runs."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from thrifty.cli.options import Config, Folder, Json, Quiet

CALLS = 300  # posteriors that the diagnosis draws from
ACCEPTED = 100  # runs at least that ABC keeps: fewer are no posterior
PATIENCE = 5.0  # minutes: networks take seconds, a Markov chain for each of 300 data sets may take hours


class Method(StrEnum):
    """The methods by name; the library takes them as objects."""

    npe = "npe"
    nle = "nle"
    nre = "nre"
    abc = "abc"
    synthetic = "synthetic"
    scoring = "scoring"


def infer(
    folder: Folder = None,
    *,
    observed: Annotated[
        Path | None, typer.Option("--observed", "-o", help="csv, json or npy.", show_default=False)
    ] = None,
    method: Annotated[Method | None, typer.Option("--method", "-m", show_default=False)] = None,
    config: Config = None,
    name: Annotated[str, typer.Option(help="Name of the result; the method's by default.", show_default=False)] = "",
    seed: Annotated[int, typer.Option(help="Seed of training and draws.", min=0)] = 0,
    max_failed: Annotated[
        float, typer.Option(help="Share of prior mass that may have failed.", min=0.0, max=1.0)
    ] = 0.01,
    allow_incomplete: Annotated[bool, typer.Option("--allow-incomplete", help="Although runs are missing.")] = False,
    all_checks: Annotated[bool, typer.Option("--all-checks", help="The diagnosis, however long it takes.")] = False,
    no_checks: Annotated[bool, typer.Option("--no-checks", help="Skip the diagnosis.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Find the parameters behind an observation.

    Executes nothing of the folder. Exit code 4 when the checks say that the answer should not be trusted.
    """
    from thrifty.campaign.campaign import Campaign
    from thrifty.cli.output import Screen
    from thrifty.cli.project import check_campaign, existing, shown
    from thrifty.report.results import check_name

    screen = Screen(quiet, json)
    place = existing(folder, config)
    settings = _settings(config)
    if name:
        check_name(name)
    x_o, label = _observation(observed, settings), method.value if method else settings.get("method", "npe")
    campaign = Campaign.open(place)
    check_campaign(campaign, allow_incomplete=allow_incomplete)
    _check_kept(place, name or label, x_o)
    simulations = campaign.simulations(allow_incomplete=allow_incomplete, max_failed=max_failed)
    _check_observation(x_o, simulations)
    chosen = _method(label, campaign.prior, settings, runs=int(simulations.ok.sum()))
    screen.step(label, f"fitting {len(simulations):,} runs")
    study = _fitted(chosen, simulations, x_o, campaign=campaign, label=label, seed=seed)
    screen.step(label, f"fitted {int(simulations.ok.sum()):,} runs in {study.seconds:.0f} s")
    checked = None if no_checks else _checked(study, screen, patient=all_checks)
    result = study.save(name=name)
    _show(screen, study, checked=bool(checked))
    code = _code(study, checked)
    screen.result(_as_dict(study, result, exit_code=code))
    screen.say(f"kept in {shown(place)}/infer/{result.name}")
    screen.next(f"thrifty report {shown(place)}")
    return code


def _code(study: Any, checked: bool | None) -> int:
    """4 where the report would say no: checks failed or could not be made, or too much prior mass failed."""
    from thrifty.campaign.weighting import MAX_FAILED_MASS

    doubtful = checked is False or (checked and study.diagnosis.verdict == "do not trust")
    return 4 if doubtful or study.simulations.failed_mass > MAX_FAILED_MASS else 0


def _check_kept(place: Path, name: str, x_o: Any) -> None:
    """A result of another observation is not overwritten."""
    import numpy as np

    from thrifty.errors import ConfigError
    from thrifty.report.results import read_results

    for kept in read_results(place):
        if kept.name == name and not np.array_equal(np.ravel(kept.x_o), np.ravel(x_o)):
            raise ConfigError(
                f"the result {name!r} of this folder is of another observation",
                code="already-exists",
                why="nothing is overwritten",
                fix=f"thrifty infer --name {name}-2",
            )


def _checked(study: Any, screen: Any, *, patient: bool) -> bool | None:
    """Make the checks: True when made, None when left out for their length, False when they cannot be made.

    The fit is kept all the same.
    """
    from thrifty.errors import ThriftyError

    began = time.monotonic()
    study.posterior.sample(100, study.x_o, seed=study.seed)
    minutes = CALLS * (time.monotonic() - began) / 60
    if minutes > PATIENCE and not patient:
        screen.say(
            f"warning: the checks would take about {minutes:.0f} minutes and were left out; --all-checks makes them"
        )
        return None
    screen.step("checks", "calibration, weights, reach" + (f" (about {minutes:.0f} minutes)" if minutes > 1 else ""))
    try:
        _ = study.diagnosis
    except ThriftyError as error:
        screen.say(f"warning: the checks could not be made: {error.what}")
        return False
    return True


def _settings(config: Path | None) -> dict[str, Any]:
    """`[infer]` of the user's configuration, when there is one here; its mistakes count."""
    from thrifty.cli.config import NAME, read_config

    path = config if config is not None else Path(NAME)
    if config is None and not path.exists():
        return {}
    found = read_config(path).infer
    return {key: value for key, value in vars(found).items() if value is not None}


def _observation(observed: Path | None, settings: dict[str, Any]) -> Any:
    from thrifty.cli.project import read_observed
    from thrifty.errors import DataError

    path = observed if observed is not None else settings.get("observed")
    if path is None:
        raise DataError(
            "no observed data",
            code="bad-observation",
            fix="--observed observed.csv, or [infer] observed in thrifty.toml",
        )
    return read_observed(path)


def _method(label: str, prior: Any, settings: dict[str, Any], *, runs: int) -> Any:
    import thrifty as th

    if label == "abc":
        own = {key: settings[key] for key in ("quantile", "epsilon", "adjust") if key in settings}
        if not {"quantile", "epsilon"} & set(own):  # a hundredth, but never so few that they are no posterior
            own["n_accept"] = min(max(ACCEPTED, runs // 100), runs)
        return th.ABC(prior, **own)
    made = {
        "npe": lambda: th.NPE(prior), "nle": lambda: th.NLE(prior), "nre": lambda: th.NRE(prior),
        "synthetic": lambda: th.SyntheticLikelihood(prior), "scoring": lambda: th.ScoringRule(prior),
    }  # fmt: skip
    return made[label]()


def _check_observation(x_o: Any, simulations: Any) -> None:
    """The wrong length is said before training, not after."""
    from thrifty.inference.checks import read_observations

    event = simulations.x.shape[2:] if simulations.m > 1 else simulations.x.shape[1:]
    read_observations(x_o, event)


def _fitted(method: Any, simulations: Any, x_o: Any, *, campaign: Any, label: str, seed: int) -> Any:
    from thrifty.study.study import Study

    began = time.monotonic()
    posterior = method.fit(simulations, seed=seed)
    seconds = time.monotonic() - began
    return Study(posterior, simulations, x_o, label, campaign, seconds=seconds, seed=seed)


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
