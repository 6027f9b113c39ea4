"""`thrifty report`: write the campaign and its results as one HTML file; with --live, show a page while it runs."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from thrifty.cli.commands import Config, Folder, Json, Quiet
from thrifty.cli.output import Screen

GRACE_SECONDS = 20.0  # without a driver: between pilot and plan, and between two rounds, none holds the folder
LAST_SECONDS = 10.0  # in which an open page fetches the last figures


def report(
    folder: Folder = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file; report.html in the run folder by default.", show_default=False),
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", help="Of the page; the name of the folder by default.", show_default=False)
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Show the run on a local page until it ends, then write the file.")
    ] = False,
    every: Annotated[float, typer.Option(help="Seconds between updates of --live.", min=0.5)] = 2.0,
    port: Annotated[int, typer.Option(help="Port of --live; 0 chooses a free one.", min=0, max=65535)] = 0,
    config: Config = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Write the campaign and its results as one HTML file.

    The page opens offline: verdict, cost, weights, posterior, checks, failures, provenance. With --live, a page on this
    machine alone shows progress, cost, failures and effective runs while the campaign runs; it only reads.
    """
    from thrifty.cli.project import find_folder, relative_path
    from thrifty.report import write

    screen = Screen(quiet, json)
    place = find_folder(folder, config)
    path = out if out is not None else place / "report.html"
    if live and _is_running(place):
        _serve(place, screen, every=every, port=port)
    elif live:
        screen.say("no run is under way: the report is written at once")
    written = write(path, place, command="thrifty " + shlex.join(sys.argv[1:]), title=title)
    size = written.stat().st_size
    screen.data(f"{relative_path(written)} ({size / 2**20:.1f} MB, opens offline)")
    screen.result({"path": written, "bytes": size})
    screen.next(f"open {relative_path(written)} in a browser")
    return 0


def _serve(place: Path, screen: Screen, *, every: float, port: int) -> None:
    """Serve the live page until the run ends; Ctrl-C ends the page, not the run."""
    from thrifty.report.live_page import LivePage
    from thrifty.report.live_server import LiveServer

    page = LivePage(place)
    with LiveServer(port) as server:
        server.content = page.render("running")
        server.page = page.frame(server.token, server.nonce, every)
        screen.data(f"open {server.address}")
        screen.result({"address": server.address})
        screen.say("this page updates itself until the run ends; Ctrl-C closes it and does not stop the run")
        try:
            seen = time.monotonic()
            while time.monotonic() - seen < GRACE_SECONDS:
                time.sleep(every)
                server.content = page.render("running")
                if _is_running(place):
                    seen = time.monotonic()
                elif _is_complete(place):
                    break
        except KeyboardInterrupt:
            screen.say("the page is closed; the run goes on")
            return
        server.finish(page.render("complete" if _is_complete(place) else "stopped"), max(2 * every, LAST_SECONDS))


def _is_running(place: Path) -> bool:
    """Whether a process drives the campaign; where that is unknown, whether runs are pending."""
    from thrifty.campaign.campaign import Campaign
    from thrifty.store.lock import has_driver

    running = has_driver(place)
    return running if running is not None else Campaign.open(place).status().pending > 0


def _is_complete(place: Path) -> bool:
    """Whether all that was planned has run; between two rounds that is not known."""
    from thrifty.campaign.campaign import Campaign

    now = Campaign.open(place).status()
    return now.state == "complete" and not now.rounds
