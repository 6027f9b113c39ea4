"""`thrifty status`: show the progress of a campaign; reads only, also while it runs."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from thrifty.cli.commands import Config, Folder, Json
from thrifty.cli.output import Screen


def status(
    folder: Folder = None,
    *,
    config: Config = None,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat every few seconds until the runs are done.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between updates.", min=0.2)] = 2.0,
    json: Json = False,
) -> int:
    """Show the progress of a campaign.

    Runs done, cost spent, runs left, failed, and cost saved. Executes no code from the folder and never disturbs a run.
    """
    from thrifty.campaign.campaign import Campaign
    from thrifty.cli.project import find_folder

    screen = Screen(json=json)
    campaign = Campaign.open(find_folder(folder, config))
    found = _read_status(campaign, config)
    _show(screen, found, watch=watch)
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the watching, not the campaign
        while watch and (found["running"] or found["state"] not in ("complete", "pilot done", "stopped")):
            time.sleep(every)
            found = _read_status(campaign, config)
            _show(screen, found, watch=True)
    screen.next(found["next"])
    return 0


def _read_status(campaign: Any, config: Path | None) -> dict[str, Any]:
    """Return the status as plain values, with whether a process drives the campaign and what to type next."""
    from thrifty.campaign.weighting import MAX_FAILED_MASS
    from thrifty.cli.failed_runs import describe_failures
    from thrifty.cli.project import infer_command, relative_path
    from thrifty.report.results import list_results

    now = campaign.status()
    running, state = now.running, now.known_state
    folder = relative_path(campaign.folder)
    results = list_results(campaign.folder)
    if now.rounds and state == "complete":  # rounds end with a posterior; between two of them one is trained
        state = "complete" if any("-rounds" in name for name in results) else "in rounds"
    failures, example = describe_failures(campaign) if now.failed else ("", None)
    infer = infer_command(campaign.folder, config)
    if now.failed_mass > MAX_FAILED_MASS:  # infer refuses
        infer = f"thrifty replay {example} {folder}"
    follow = {
        "running": f"thrifty status {folder} --watch",
        "complete": f"thrifty report {folder}" if results else infer,
    }.get(state, f"thrifty run {folder}")
    text = str(now) + (f"\n{failures}" if failures else "") + (f"\ninferred {', '.join(results)}" if results else "")
    found = {"folder": folder, "state": state, "running": running, "results": results, "next": follow, "text": text}
    return {**now.as_dict(), **found}


def _show(screen: Screen, found: dict[str, Any], *, watch: bool) -> None:
    text = found.pop("text").split(":", 1)[1].strip()
    head, *rest = text.splitlines()
    head = head.replace("complete", found["state"], 1)
    if watch and sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not screen.json:
        print("\x1b[2J\x1b[H", end="")
    screen.data("\n".join([f"{found['folder']}: {head}", *rest]))
    screen.result(found)
