"""`thrifty run`: do the pilot, commit the plan and do its runs; continue an existing folder. `resume` never creates."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thrifty.cli.commands import (
    Changed,
    Config,
    Folder,
    Json,
    Observed,
    Quiet,
    Redo,
    RoundFailed,
    RoundMethod,
    Rounds,
    Workers,
)
from thrifty.cli.output import Screen
from thrifty.display import count_things
from thrifty.errors import ConfigError

if TYPE_CHECKING:
    from thrifty.cli.project import Session


def run(
    folder: Folder = None,
    *,
    config: Config = None,
    workers: Workers = None,
    deadline: Annotated[
        str,
        typer.Option(help='Wall-time limit of this call, "40 min"; the other runs stay pending.', show_default=False),
    ] = "",
    accept_changed_simulator: Changed = False,
    redo_failed: Redo = False,
    add_penalty: Annotated[
        bool, typer.Option("--add-penalty", help="If the penalty has changed, add runs with the new one.")
    ] = False,
    rounds: Rounds = None,
    observed: Observed = None,
    method: RoundMethod = None,
    max_failed: RoundFailed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Commit the plan and do its runs; continue an existing folder.

    With --rounds, or rounds in thrifty.toml: infer in rounds at the observation, each drawn where the posterior of the
    round before lies, check the posterior and keep it, as thrifty infer does.

    Stop it or kill it, and call it again: no run is lost and none is done twice. Exit codes: 0 done, 3 budget or
    deadline reached before the target (without rounds: with them a used budget is the normal end), 4 too much prior
    mass failed or the checks of a posterior say not to trust it, 130 interrupted.
    """
    from thrifty.cli.project import find_target, start_session
    from thrifty.cli.rounds_run import read_request
    from thrifty.durations import read_seconds

    if deadline:
        read_seconds(deadline, "deadline")
    screen = Screen(quiet, json)
    settings, place = find_target(folder, config)
    chosen = None if method is None else str(method)
    request = read_request(
        settings, rounds=rounds, observed=observed, method=chosen, deadline=deadline, max_failed=max_failed
    )
    if request is not None:
        from thrifty.cli.rounds_run import run_rounds

        session = start_session(
            folder,
            config,
            screen,
            workers=workers,
            accept_changed=accept_changed_simulator,
            redo_failed=redo_failed,
            check=request.check,
        )
        return run_rounds(session, request)
    _check_is_plain(place)
    session = start_session(
        folder,
        config,
        screen,
        workers=workers,
        accept_changed=accept_changed_simulator,
        redo_failed=redo_failed,
    )
    _commit(session, add_penalty=add_penalty)
    status = session.campaign.run(**session.run_arguments(), deadline=deadline or session.run.deadline or None)
    return _finish(session, status)


def _check_is_plain(folder: Path) -> None:
    """Reject a folder with rounds for a plain plan, which would add n runs beside them."""
    from thrifty.campaign.campaign import Campaign
    from thrifty.cli.project import STORE, relative_path

    if not (folder / STORE).is_file() or Campaign.open(folder).session.settings().rounds is None:
        return
    raise ConfigError(
        f"{relative_path(folder)} is run in rounds, and neither thrifty.toml nor this command asks for rounds",
        code="conflicting-settings",
        why="a plan over the whole prior would be added and paid for",
        fix=f"thrifty run {relative_path(folder)} --rounds 4 --observed FILE; or rounds = 4 under [infer]",
    )


@wraps(run, assigned=("__annotations__",))
def resume(folder: Path | None = None, **options: Any) -> int:
    """Like run, but never makes a new folder."""
    from thrifty.cli.project import find_folder

    find_folder(folder, options["config"])
    return run(folder, **options)


def _commit(session: Session, *, add_penalty: bool) -> None:
    """Commit the plan of the configuration, or what is missing of it."""
    settings, campaign = session.settings, session.campaign
    if not add_penalty:
        _check_same_penalty(session)
    if _is_budgeted(session):
        return
    plan = campaign.plan(**settings.plan_arguments())
    chosen = "plain sampling" if plan.penalty == "1" else f"penalty {plan.penalty}"
    until = f"until the budget of {plan.budget} is used" if plan.budget else count_things(plan.n or 0, "run")
    if plan.budget and settings.plan.n is not None:
        until = f"{count_things(plan.n, 'run')}, or fewer if the budget of {plan.budget} is used before"
    before = "" if plan.added else " (nothing added: committed before)"
    session.screen.step("plan", f"{until}{before}, {chosen}; self-test p = {plan.p_value:.2g}")


def _check_same_penalty(session: Session) -> None:
    """Reject another penalty, which would add n runs of its own to the pool, before they are paid for."""
    from thrifty.campaign.requests import request_key

    with session.campaign.session.reading() as opened:
        known = opened.settings.plans
        planned = sum(block.admitted for block in opened.store.blocks() if block.mode != "pilot")
    asked = session.settings.plan_arguments()
    if not planned or request_key(asked["penalty"], asked["mixture"], avoid_failures=asked["avoid_failures"]) in known:
        return
    more = f"{asked['n']:,} more runs" if asked["n"] else "runs until the budget is used"
    raise ConfigError(
        f"penalty or mixture changed since {planned:,} runs were planned: this would add {more} under the new one",
        code="penalty-changed",
        why="existing draws stay as they are; the pool of both is weighted jointly, and both are paid for",
        fix="the penalty it was planned with, a new folder, or --add-penalty to have both",
    )


def _is_budgeted(session: Session) -> bool:
    """Whether draws for this budget alone are committed already: the run adds more by itself."""
    plan = session.settings.plan
    with session.campaign.session.reading() as opened:
        modes = {block.mode for block in opened.store.blocks()}
        return plan.n is None and "budget" in modes and opened.settings.budget == plan.budget


def _finish(session: Session, status: Any) -> int:
    """Report how the run ended and what to type next; return the exit code."""
    from thrifty.cli.failed_runs import describe_failures
    from thrifty.cli.project import relative_path

    screen, folder, settings = session.screen, relative_path(session.campaign.folder), session.settings
    code, why = _judge(status, settings.plan.n)
    screen.data(str(status))
    screen.result({**status.as_dict(), "exit": code})
    failures, example = describe_failures(session.campaign) if status.failed else ("", None)
    for line in (failures, why):
        if line:
            screen.say(line)
    if code == 4:  # infer refuses
        screen.next(f"thrifty replay {example} {folder}")
        return code
    observed = "" if settings.infer.observed else " --observed observed.csv"
    screen.next(f"thrifty run {folder}" if code == 3 and status.pending else f"thrifty infer {folder}{observed}")
    return code


def _judge(status: Any, n: int | None) -> tuple[int, str]:
    """Return the exit code and its reason: 0 done, 3 budget or deadline first, 4 too much prior mass failed."""
    from thrifty.campaign.weighting import MAX_FAILED_MASS

    if status.pending:
        return 3, f"{status.pending:,} planned runs are left; the finished ones are safe on disk"
    if status.failed_mass > MAX_FAILED_MASS:
        return 4, (
            f"{status.failed_mass:.1%} of prior mass failed (more than {MAX_FAILED_MASS:.0%}): a posterior would be"
            " conditional on finishing. See thrifty replay INDEX, or accept it with infer --max-failed"
        )
    runs = status.done - status.pilots
    if n is not None and runs < n:
        return 3, f"the budget of {status.budget} ended after {runs:,} of {n:,} runs; a larger one continues from here"
    return 0, ""
