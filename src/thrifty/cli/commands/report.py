"""`thrifty report`: the campaign and its results as one HTML file; with --live rewritten while it runs."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from thrifty.cli.options import Config, Folder, Json, Quiet


def report(
    folder: Folder = None,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file; report.html in the folder.", show_default=False)
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Rewrite it every half minute until the runs are done.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between versions.", min=1)] = 30.0,
    config: Config = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Write the campaign and its results as one page.

    One HTML file that opens offline: verdict, cost, weights, posterior, checks, failures, provenance.
    """
    from thrifty.cli.output import Screen
    from thrifty.cli.project import existing, shown
    from thrifty.report import write

    screen = Screen(quiet, json)
    place = existing(folder, config)
    path = out if out is not None else place / "report.html"
    command = "thrifty " + shlex.join(sys.argv[1:])
    while live and _going(place):
        written = write(path, place, live=True, command=command, refresh=every)
        screen.say(f"{time.strftime('%H:%M:%S')}  {shown(written)}")
        time.sleep(every)
    written = write(path, place, live=False, command=command)
    size = written.stat().st_size
    screen.data(f"{shown(written)} ({size / 2**20:.1f} MB, opens offline)")
    screen.result({"path": written, "bytes": size})
    screen.next(f"open {shown(written)} in a browser")
    return 0


def _going(place: Path) -> bool:
    """Whether somebody drives the campaign; where that cannot be known, whether runs are pending."""
    from thrifty.campaign.campaign import Campaign
    from thrifty.cli.commands.status import driven

    running = driven(place)
    return running if running is not None else Campaign.open(place).status().pending > 0
