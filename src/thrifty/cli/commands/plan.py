"""`thrifty plan`: run the pilot and show the quote; may be repeated with other settings."""

from __future__ import annotations

from thrifty.cli.commands import Changed, Config, Folder, Json, Quiet, Workers
from thrifty.cli.output import Screen


def plan(
    folder: Folder = None,
    *,
    config: Config = None,
    workers: Workers = None,
    accept_changed_simulator: Changed = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Show a quote for every penalty; commits nothing.

    Times a pilot, fits the cost and tests the weights. Change thrifty.toml and plan again as often as you like; thrifty
    run commits the plan and does the runs. Rounds choose their draws on the way: of them it shows what is known.
    """
    from thrifty.cli.failed_runs import describe_failures
    from thrifty.cli.project import find_target, relative_path, start_session
    from thrifty.cli.rounds_run import read_request

    screen = Screen(quiet, json)
    request = read_request(find_target(folder, config)[0])
    check = None if request is None else request.check
    session = start_session(
        folder, config, screen, workers=workers, accept_changed=accept_changed_simulator, check=check
    )
    if request is not None:
        from thrifty.cli.rounds_run import say_rounds, show_plan

        say_rounds(screen, show_plan(session, request))
        screen.next(f"thrifty run {relative_path(session.campaign.folder)}")
        return 0
    quote = session.campaign.quote(**session.settings.plan_arguments(), workers=session.run.workers)
    for label, text in quote.facts():
        screen.step(label, text)
    if quote.pilot.failed:
        screen.say(describe_failures(session.campaign)[0])
    screen.say()
    screen.data(quote.table_text())
    screen.say(quote.advice())
    screen.say(quote.total_text())
    screen.result(quote.as_dict())
    screen.next(f"thrifty run {relative_path(session.campaign.folder)}")
    return 0
