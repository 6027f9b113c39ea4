"""`frozen.json`: a second copy of settings, proposals and blocks.

Draws and runs can be computed again from these rows; these rows cannot be computed from anything else. The file is
written completely and then renamed, so it is always one complete version; every row keeps its own checksum.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from thrifty.errors import DamagedStoreError, StorageError
from thrifty.store.rows import Row, checksum_matches
from thrifty.store.validate import parse_blocks, parse_parts, parse_settings

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

BACKUP_NAME = "frozen.json"
MAX_BACKUP_BYTES = 256 * 2**20
_COLUMNS = {"meta": "key, value", "parts": "id, kind, recipe", "blocks": "id, part, first, n, mode, admitted"}


def write_backup(db: sqlite3.Connection, folder: Path) -> None:
    """Write the copy in one atomic step."""
    tables = {name: db.execute(f"SELECT {columns}, sum FROM {name}").fetchall() for name, columns in _COLUMNS.items()}
    tables["meta"] = [row for row in tables["meta"] if row[0] != "sums"]  # sums that can be computed again
    path = folder / BACKUP_NAME
    temporary = path.with_suffix(".tmp")
    try:
        temporary.unlink(missing_ok=True)  # left by a killed driver, or a link that somebody made
        number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        with open(number, "w", encoding="utf-8") as file:
            json.dump(tables, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", code="disk-problem") from None


def refuse_lost_store(folder: Path) -> None:
    """Refuse a folder whose store was deleted while its backup is still there; say what can be restored."""
    if not (folder / BACKUP_NAME).is_file():
        return
    copy = read_backup(folder)
    planned = "" if copy is None else f" of its {sum(row[3] for row in copy['blocks']):,} planned runs"
    raise DamagedStoreError(
        f"the store of {folder} is missing, and with it all results{planned}",
        code="damaged-folder",
        why="nothing was created or changed; "
        + (
            f"{BACKUP_NAME} is damaged too"
            if copy is None
            else f"settings, proposals and plan are undamaged in {BACKUP_NAME}"
        ),
        fix="put store.sqlite back from a backup"
        + ("" if copy is None else "; or th.Campaign.repair(folder), then run() repeats all runs, with equal results"),
    )


def read_backup(folder: Path) -> dict[str, list[Row]] | None:
    """Return the rows of the copy, or None if it is missing or damaged."""
    path = folder / BACKUP_NAME
    try:
        if path.is_symlink() or path.stat().st_size > MAX_BACKUP_BYTES:
            return None
        data: dict[str, list[list[Any]]] = json.loads(path.read_text(encoding="utf-8"))
        tables = {name: [tuple(row) for row in data[name]] for name in _COLUMNS}
        widths = {name: len(columns.split(", ")) + 1 for name, columns in _COLUMNS.items()}
        if not all(len(row) == widths[name] and checksum_matches(row) for name, rows in tables.items() for row in rows):
            return None
        parse_settings([row[:2] for row in tables["meta"]], folder)
        parts = parse_parts([row[:3] for row in tables["parts"]], folder)
        parse_blocks([row[:-1] for row in tables["blocks"]], folder, parts=parts)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, DamagedStoreError):
        return None
    return tables
