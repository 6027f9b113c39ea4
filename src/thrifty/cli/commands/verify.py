"""`thrifty verify`: test every checksum of a run folder; --repair keeps undamaged records, lost runs are repeated."""

from __future__ import annotations

from typing import Annotated

import typer

from thrifty.cli.commands import Config, Folder, Json, Quiet
from thrifty.cli.output import Screen


def verify(
    folder: Folder = None,
    *,
    config: Config = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Keep the undamaged records; the other runs become pending.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Test every record against its checksum.

    Exit code 7 if something is damaged. Executes no code from the folder.
    """
    from thrifty.campaign.campaign import verify_folder
    from thrifty.cli.project import find_folder, relative_path

    screen = Screen(quiet, json)
    place = find_folder(folder, config)
    found = verify_folder(place, repair=repair)
    screen.data(str(found).replace("run() runs them again", "what was lost runs again").replace(
        "verify(repair=True) repairs it", "thrifty verify --repair repairs it"
    ))  # fmt: skip
    code = 0 if found.ok or found.repaired else 7
    screen.result({**vars(found), "ok": found.ok, "exit": code})
    name = relative_path(place)
    after = f"thrifty run {name}" if found.repaired else f"thrifty verify {name} --repair"
    screen.next(f"thrifty status {name}" if found.ok else after)
    return code
