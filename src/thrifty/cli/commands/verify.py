"""`thrifty verify`: test every checksum of a folder; with --repair keep what is whole, the rest is run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thrifty.cli.options import Config, Folder, Json, Quiet
from thrifty.types import Prior


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
    from thrifty.cli.output import Screen
    from thrifty.cli.project import existing, shown
    from thrifty.store.lock import FolderLock
    from thrifty.store.repair import verify as look

    screen = Screen(quiet, json)
    place = existing(folder, config)
    prior = _prior(place)
    if repair:
        with FolderLock(place):
            found = look(place, prior, repair=True)
    else:
        found = look(place, prior, repair=False)
    screen.data(str(found).replace("run() runs them again", "what was lost runs again").replace(
        "verify(repair=True) mends it", "thrifty verify --repair mends it"
    ))  # fmt: skip
    code = 0 if found.ok or found.repaired else 7
    screen.result({**vars(found), "ok": found.ok, "exit": code})
    screen.next(
        f"thrifty status {shown(place)}" if found.ok else f"thrifty run {shown(place)}" if found.repaired
        else f"thrifty verify {shown(place)} --repair"
    )  # fmt: skip
    return code


def _prior(place: Path) -> Prior:
    """The prior by its numbers: from the store, or where that cannot be opened from the copy beside it."""
    import json

    from thrifty.campaign.campaign import Campaign
    from thrifty.campaign.settings import readable_prior
    from thrifty.errors import CampaignError
    from thrifty.store.backup import read_backup

    try:
        return Campaign.open(place).prior
    except CampaignError as error:
        copy = read_backup(place)
        stored = {row[0]: row[1] for row in copy["meta"]} if copy else {}
        if error.code not in ("damaged-folder", "untrusted-folder") or "prior" not in stored:
            raise
        return readable_prior(None, json.loads(stored["prior"]))
