"""`thrifty status`: where a campaign stands; reads only, also while it runs."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from thrifty.cli.options import Config, Folder, Json


def status(
    folder: Folder = None,
    *,
    config: Config = None,
    watch: Annotated[bool, typer.Option("--watch", help="Again every few seconds, until it is done.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between looks.", min=0.2)] = 2.0,
    json: Json = False,
) -> int:
    """Show where a campaign stands.

    Runs done, spent, left, failed and saved. Executes nothing of the folder and never disturbs a run.
    """
    from thrifty.campaign.campaign import Campaign
    from thrifty.cli.output import Screen
    from thrifty.cli.project import existing

    screen = Screen(json=json)
    campaign = Campaign.open(existing(folder, config))
    found = _look(campaign)
    _show(screen, found, watch=watch)
    with contextlib.suppress(KeyboardInterrupt):  # the way out of watching; the campaign does not notice
        while watch and (found["running"] or found["state"] not in ("complete", "pilot done", "stopped")):
            time.sleep(every)
            found = _look(campaign)
            _show(screen, found, watch=True)
    screen.next(found["next"])
    return 0


def _look(campaign: Any) -> dict[str, Any]:
    """The status as plain values, with whether somebody drives it now and what to type next."""
    from thrifty.cli.project import shown

    now = campaign.status()
    running = driven(campaign.folder)
    state = now.state
    if state == "stopped or running" and running is not None:
        state = "running" if running else "stopped"
    folder = shown(campaign.folder)
    follow = {
        "running": f"thrifty status {folder} --watch",
        "complete": f"thrifty infer {folder} --observed observed.csv",
    }.get(state, f"thrifty run {folder}")
    flat = now.as_dict()
    return {**flat, "folder": folder, "state": state, "running": running, "next": follow, "text": str(now)}


def _show(screen: Any, found: dict[str, Any], *, watch: bool) -> None:
    text = found.pop("text").split(":", 1)[1].strip()
    head, *rest = text.splitlines()
    head = head.replace("stopped or running", found["state"], 1)
    if watch and sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not screen.json:
        print("\x1b[2J\x1b[H", end="")
    screen.data("\n".join([f"{found['folder']}: {head}", *rest]))
    screen.result(found)


def driven(folder: Path) -> bool | None:
    """Whether a process holds the folder's lock, from the kernel's own list; None where there is no such list.

    Asking for the lock would tell too, but could make a driver that starts at that moment fail.
    """
    try:
        lock = (folder / "lock").stat()
        held = Path("/proc/locks").read_text()
    except FileNotFoundError:
        return False if Path("/proc/locks").exists() else None
    except OSError:
        return None
    return any("FLOCK" in line and line.split()[5].endswith(f":{lock.st_ino}") for line in held.splitlines())
