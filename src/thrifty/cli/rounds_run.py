"""Run rounds of inference from the command line: what is asked for, what is known before, a line a round, the end."""

from __future__ import annotations

import itertools
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thrifty.cli.config_errors import ManyErrors
from thrifty.cli.config_tables import METHODS, ROUND_METHODS, Settings
from thrifty.cli.failed_runs import accept_failures
from thrifty.cli.finish_study import keep_study
from thrifty.cli.project import Session, make_engine, order_observed, read_observed, relative_path
from thrifty.cli.round_settings import find_conflicts
from thrifty.display import count_things
from thrifty.durations import format_amount
from thrifty.errors import ConfigError
from thrifty.inference.checks import MAX_FAILED_MASS

if TYPE_CHECKING:
    from thrifty.cli.output import Screen
    from thrifty.types import Array

STOPPED = {
    "settled": "the posterior has settled; the rest is not spent",
    "runs": "all runs are used",
    "budget": "the budget is used",
}


@dataclass(frozen=True)
class RoundRequest:
    """Rounds as asked for.

    Attributes:
        rounds: How many, at most.
        method: One of `ROUND_METHODS`.
        observed: File of the observation.
        x_o: What it holds.
        max_failed: Share of prior mass that may fail.
    """

    rounds: int
    method: str
    observed: Path
    x_o: Any
    max_failed: float = MAX_FAILED_MASS

    def check(self, event: tuple[int, ...], names: tuple[str, ...]) -> None:
        """Reject an observation that does not fit the outputs of the simulator.

        Raises:
            DataError: bad-observation.
        """
        order_observed(self.x_o, event, names)


def read_request(
    settings: Settings,
    *,
    rounds: int | None = None,
    observed: Path | None = None,
    method: str | None = None,
    deadline: str = "",
    max_failed: float | None = None,
) -> RoundRequest | None:
    """Read the rounds that file and options ask for, options first; None where neither does.

    Raises:
        ConfigError: conflicting-settings; `ManyErrors` for several.
    """
    asked = rounds if rounds is not None else settings.infer.rounds
    if asked is None:
        options = {"--observed": observed, "--method": method, "--max-failed": max_failed}
        given = [name for name, value in options.items() if value is not None]
        if given:
            what = f"{' and '.join(given)} without --rounds"
            fix = "thrifty run --rounds 4 --observed observed.csv; or thrifty run, then thrifty infer"
            raise ConfigError(what, code="conflicting-settings", fix=fix)
        return None
    path = observed if observed is not None else settings.infer.observed
    chosen = method or _written_method(settings)
    run = replace(settings.run, deadline=deadline or settings.run.deadline)
    problems = [
        ConfigError(what, code="conflicting-settings", fix=fix)
        for _, what, fix in find_conflicts(replace(settings.infer, method=chosen), settings.plan, run)
    ]
    if path is None:
        what, fix = "rounds are run at an observation, and none is given", "--observed observed.csv"
        problems.append(ConfigError(what, code="conflicting-settings", fix=fix))
    if problems or path is None:
        raise problems[0] if len(problems) == 1 else ManyErrors(problems)
    allowed = MAX_FAILED_MASS if max_failed is None else max_failed
    return RoundRequest(asked, chosen, path, read_observed(path), allowed)


def _written_method(settings: Settings) -> str:
    """Return the method that the file names, or the default of rounds: the default of the file is for one fit."""
    written = tomllib.loads(settings.text).get("infer", {})
    return settings.infer.method if "method" in written else ROUND_METHODS[0]


def show_plan(session: Session, request: RoundRequest) -> dict[str, Any]:
    """Say what is known before the first round: the pilot, and how much the rounds may use; return it as values."""
    plan, status = session.settings.plan, session.campaign.status()
    each = status.spent / max(status.done, 1)
    screen, unit = session.screen, status.unit
    label, what = ("pilot", "; a part of round 0") if status.done == status.pilots else ("so far", "")
    spent = (
        f"{count_things(status.done, 'run')}, {format_amount(status.spent, unit)}, {format_amount(each, unit)} a run"
    )
    screen.step(label, spent + what)
    screen.step("rounds", _describe_request(session, request))
    screen.step("round 0", "from the prior: nothing is known of the posterior yet")
    screen.step("later", "each draws where the posterior of the round before lies: what its runs cost is known then")
    found = {"rounds": request.rounds, "method": request.method, "n": plan.n, "budget": plan.budget or None}
    return {**found, "pilots": status.pilots, "spent": status.spent, "cost_per_run": each, "unit": unit}


def _describe_request(session: Session, request: RoundRequest) -> str:
    plan = session.settings.plan
    limits = [f"{count_things(plan.n, 'run')} in all, pilot included"] if plan.n is not None else []
    limits += [f"a budget of {plan.budget}"] if plan.budget else []
    first = ", whichever comes first" if len(limits) > 1 else ""
    return f"at most {request.rounds} of {request.method} at {request.observed.name}, with {' or '.join(limits)}{first}"


def run_rounds(session: Session, request: RoundRequest) -> int:
    """Run the rounds, or what is missing of them, and keep a result for each observation; return the exit code.

    0: the runs or the budget are used, or the posterior has settled; 4: the checks advise against trust.
    """
    from thrifty.campaign.status import describe_round

    campaign, screen, plan = session.campaign, session.screen, session.settings.plan
    x_o = _read_observation(campaign, request)
    unit, ended = campaign.status().unit, itertools.count()

    def show(one: Any) -> None:
        text = describe_round(one.n, one.volume, one.moved, format_amount(one.cost, unit))
        screen.step(f"round {next(ended)}", text)

    screen.step("rounds", _describe_request(session, request))
    study = _make_method(session, request).run(
        campaign,
        x_o,
        n=plan.n,
        budget=plan.budget or None,
        seed=plan.seed,
        engine=make_engine(session.run),
        on_round=show,
    )
    early = len(study.generations) == 1 < request.rounds and study.stopped != "settled"
    more = ", by runs from the prior: a larger n or budget under [plan] adds rounds" if early else ""
    screen.step("rounds", f"{len(study.generations)} done: {STOPPED.get(study.stopped, study.stopped)}{more}")
    status = campaign.status()
    screen.data(str(status))
    screen.result({**status.as_dict(), "stopped": study.stopped, "exit": 0})
    codes = [
        keep_study(one, screen, name=f"{study.method}-{i}" if study.each else "", patient=True)
        for i, one in enumerate(study.each or (study,), start=1)
    ]
    screen.next(f"thrifty report {relative_path(campaign.folder)}")
    return max(codes)


def _make_method(session: Session, request: RoundRequest) -> Any:
    import thrifty as th

    method = accept_failures(getattr(th, METHODS[request.method])(session.campaign.prior), request.max_failed)
    made = th.Rounds(method, rounds=request.rounds, max_failed=request.max_failed)
    penalty = session.settings.plan.penalty
    return made if penalty is None else replace(made, penalty=penalty)


def _read_observation(campaign: Any, request: RoundRequest) -> Array:
    """Return the observation as numbers; reject data that do not fit after the pilot, not after the first round."""
    runs = campaign.simulations(allow_incomplete=True, max_failed=1.0)
    return order_observed(request.x_o, runs.pairs()[1].shape[1:], runs.x_names)


def say_rounds(screen: Screen, found: dict[str, Any]) -> None:
    """Write what `show_plan` returned as data."""
    limit = f"n = {found['n']:,}" if found["n"] is not None else f"budget = {found['budget']}"
    screen.data(f"rounds = {found['rounds']}, method = {found['method']}, {limit}")
    screen.result(found)
