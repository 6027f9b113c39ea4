"""`thrifty run`: pilot, plan and campaign; on an existing folder it continues. `resume` never creates."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from thrifty.cli.options import Changed, Config, Folder, Json, Quiet, Workers

Deadline = Annotated[
    str, typer.Option(help='Hard wall-time limit of this call, "40 min"; the rest stays pending.', show_default=False)
]

AddPenalty = Annotated[
    bool, typer.Option("--add-penalty", help="A penalty that changed adds its runs to those of the old one.")
]


def run(
    folder: Folder = None,
    *,
    config: Config = None,
    workers: Workers = None,
    deadline: Deadline = "",
    accept_changed_simulator: Changed = False,
    add_penalty: AddPenalty = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Do the runs; on an existing folder, continue.

    Stop it, kill it, call it again: no run is lost and none is done twice. Exit code 0 done, 3 budget or deadline
    before the target, 4 too much prior mass failed, 130 interrupted.
    """
    from thrifty.cli.output import Screen
    from thrifty.cli.project import begin, check_workers, configured, pilot

    screen = Screen(quiet, json)
    check_workers(workers)
    _check_deadline(deadline)
    target = configured(folder, config)
    session = begin(target, screen, workers=workers, accept_changed=accept_changed_simulator)
    session = replace(session, add_penalty=add_penalty)
    pilot(session)
    _commit(session)
    until = deadline or session.run.deadline or None
    status = session.campaign.run(**session.driving(), deadline=until)
    return _ended(session, status)


def resume(
    folder: Folder = None,
    *,
    config: Config = None,
    workers: Workers = None,
    deadline: Deadline = "",
    accept_changed_simulator: Changed = False,
    add_penalty: AddPenalty = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Like run, but never makes a new folder."""
    from thrifty.cli.project import existing

    existing(folder, config)
    return run(
        folder, config=config, workers=workers, deadline=deadline, accept_changed_simulator=accept_changed_simulator,
        add_penalty=add_penalty, quiet=quiet, json=json,
    )  # fmt: skip


def _check_deadline(deadline: str) -> None:
    from thrifty.campaign.budget import seconds

    if deadline:
        seconds(deadline)


def _commit(session: Any) -> None:
    """Commit the plan of the configuration, or what is missing of it."""
    settings, campaign = session.target.settings, session.campaign
    _check_same_penalty(session)
    if _is_budgeted(campaign, settings):
        return
    n, limit = settings.plan.n, settings.plan.budget or None
    budget, cap = (limit, None) if n is None else (None, limit)
    plan = campaign.plan(n=n, budget=budget, cap=cap, **settings.planned())
    chosen = "plain sampling" if plan.penalty == "1" else f"penalty {plan.penalty}"
    until = f"until the budget of {plan.budget} is used" if plan.budget else f"{plan.n:,} runs"
    if plan.budget and settings.plan.n is not None:
        until = f"{plan.n:,} runs, or fewer if the budget of {plan.budget} is used before"
    session.screen.step("plan", f"{until}, {chosen}; self-test p = {plan.p_value:.2g}")


def _check_same_penalty(session: Any) -> None:
    """Another penalty adds n runs of its own to the pool: say so before they are paid for."""
    from thrifty.campaign.planner import request_key
    from thrifty.errors import ConfigError

    settings = session.target.settings
    with session.campaign.session.reading() as opened:
        known = opened.settings.plans
        planned = sum(block.admitted for block in opened.store.blocks() if block.mode != "pilot")
    asked = settings.planned()
    if session.add_penalty or not planned or request_key(asked["penalty"], asked["mixture"], None) in known:
        return
    more = f"{settings.plan.n:,} more runs" if settings.plan.n else "runs until the budget is used"
    raise ConfigError(
        f"penalty or mixture changed since {planned:,} runs were planned: this would add {more} under the new one",
        code="penalty-changed",
        why="draws that were made stay as they are; the pool of both is weighted jointly, and both are paid for",
        fix="the penalty it was planned with, a new folder, or --add-penalty to have both",
    )


def _is_budgeted(campaign: Any, settings: Any) -> bool:
    """Whether draws for this budget alone are committed already: the run adds more by itself."""
    with campaign.session.reading() as opened:
        modes = {block.mode for block in opened.store.blocks()}
        known = opened.settings.budget
    return settings.plan.n is None and "budget" in modes and known == settings.plan.budget


def _ended(session: Any, status: Any) -> int:
    """Say how it ended and what to type next; the exit code."""
    from thrifty.cli.project import shown

    screen, folder = session.screen, shown(session.target.folder)
    code, why = outcome(status, session.target.settings.plan.n)
    screen.data(str(status))
    screen.result({**status.as_dict(), "exit": code})
    if why:
        screen.say(why)
    observed = "" if session.target.settings.infer.observed else " --observed observed.csv"
    screen.next(f"thrifty run {folder}" if code == 3 and status.pending else f"thrifty infer {folder}{observed}")
    return code


def outcome(status: Any, n: int | None) -> tuple[int, str]:
    """Exit code of a finished call: 0 done, 3 budget or deadline before the target, 4 too much prior mass failed."""
    from thrifty.campaign.weighting import MAX_FAILED_MASS

    if status.pending:
        return 3, f"{status.pending:,} planned runs are left; what is done is safe on disk"
    if status.failed_mass > MAX_FAILED_MASS:
        return 4, (
            f"{status.failed_mass:.1%} of prior mass failed (more than {MAX_FAILED_MASS:.0%}): a posterior would be"
            " conditional on finishing. See thrifty replay INDEX, or accept it with infer --max-failed"
        )
    campaign = status.done - status.pilots
    if n is not None and campaign < n:
        return (
            3,
            f"the budget of {status.budget} ended after {campaign:,} of {n:,} runs; a larger one goes on from here",
        )
    return 0, ""
