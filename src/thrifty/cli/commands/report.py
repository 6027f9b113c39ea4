"""`thrifty report`: write the campaign and its results as one HTML file; with --live, rewrite it while runs go on."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from thrifty.cli.commands import Config, Folder, Json, Quiet
from thrifty.cli.output import Screen


def report(
    folder: Folder = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file; report.html in the run folder by default.", show_default=False),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Rewrite the file regularly until the runs are done.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between versions of --live.", min=1)] = 30.0,
    config: Config = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Write the campaign and its results as one HTML file.

    The page opens offline: verdict, cost, weights, posterior, checks, failures, provenance.
    """
    from thrifty.cli.project import find_folder, relative_path
    from thrifty.report import write

    screen = Screen(quiet, json)
    place = find_folder(folder, config)
    path = out if out is not None else place / "report.html"
    command = "thrifty " + shlex.join(sys.argv[1:])
    while live and _is_running(place):
        written = write(path, place, live=True, command=command, refresh=every)
        screen.say(f"{time.strftime('%H:%M:%S')}  {relative_path(written)}")
        time.sleep(every)
    written = write(path, place, live=False, command=command)
    size = written.stat().st_size
    screen.data(f"{relative_path(written)} ({size / 2**20:.1f} MB, opens offline)")
    screen.result({"path": written, "bytes": size})
    screen.next(f"open {relative_path(written)} in a browser")
    return 0


def _is_running(place: Path) -> bool:
    """Whether a process drives the campaign; where that is unknown, whether runs are pending."""
    from thrifty.campaign.campaign import Campaign
    from thrifty.cli.commands.status import has_driver

    running = has_driver(place)
    return running if running is not None else Campaign.open(place).status().pending > 0
