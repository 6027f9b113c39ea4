"""`thrifty verify`: test every checksum of a folder; with --repair keep what is whole, the rest is run again."""

from __future__ import annotations

from typing import Annotated

import typer

from thrifty.cli.options import Config, Folder, Json, Quiet


def verify(
    folder: Folder = None,
    *,
    config: Config = None,
    repair: Annotated[bool, typer.Option("--repair", help="Keep what is whole; the rest becomes pending.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Test every record against its checksum.

    Exit code 7 when something is damaged. Executes nothing of the folder.
    """
    from thrifty.campaign.campaign import verify_folder
    from thrifty.cli.output import Screen
    from thrifty.cli.project import existing, shown

    screen = Screen(quiet, json)
    place = existing(folder, config)
    found = verify_folder(place, repair=repair)
    screen.data(str(found).replace("run() runs them again", "what was lost runs again").replace(
        "verify(repair=True) repairs it", "thrifty verify --repair repairs it"
    ))  # fmt: skip
    code = 0 if found.ok or found.repaired else 7
    screen.result({**vars(found), "ok": found.ok, "exit": code})
    screen.next(
        f"thrifty status {shown(place)}" if found.ok else f"thrifty run {shown(place)}" if found.repaired
        else f"thrifty verify {shown(place)} --repair"
    )  # fmt: skip
    return code
