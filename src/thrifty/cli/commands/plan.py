"""`thrifty plan`: run the pilot and show the quote; may be repeated with other settings."""

from __future__ import annotations

from thrifty.cli.options import Changed, Config, Folder, Json, Quiet, Workers


def plan(
    folder: Folder = None,
    *,
    config: Config = None,
    workers: Workers = None,
    accept_changed_simulator: Changed = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Time a pilot and show a quote for every penalty; commits nothing.

    Fits the cost and tests the weights. Change thrifty.toml and plan again as often as you like; thrifty run commits
    the plan and does the runs.
    """
    from thrifty.cli.output import Screen
    from thrifty.cli.project import begin, check_workers, configured, next_run, pilot

    screen = Screen(quiet, json)
    check_workers(workers)
    target = configured(folder, config)
    session = begin(target, screen, workers=workers, accept_changed=accept_changed_simulator)
    pilot(session)
    plan = target.settings.plan
    budget, cap = (plan.budget or None, None) if plan.n is None else (None, plan.budget or None)
    quote = session.campaign.quote(
        plan.n, budget=budget, cap=cap, **target.settings.planned(), workers=session.run.workers
    )
    for label, text in quote.facts():
        screen.step(label, text)
    screen.say()
    screen.data(quote.table_text())
    screen.say(quote.advice())
    screen.say(quote.total_text())
    screen.result(quote.as_dict())
    screen.next(next_run(target.folder))
    return 0
