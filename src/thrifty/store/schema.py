"""The SQLite file of a campaign: its tables, how it is opened, and what its errors mean."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from thrifty.errors import CampaignError, DamagedStoreError, StorageError
from thrifty.store.rows import checksum_matches

FORMAT = 1
APPLICATION_ID = 0x74687266  # "thrf"
NAME = "store.sqlite"
SCHEMA = {
    "meta": "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT, sum INTEGER)",
    "parts": "CREATE TABLE parts (id INTEGER PRIMARY KEY, kind TEXT, recipe TEXT, sum INTEGER)",
    "blocks": "CREATE TABLE blocks (id INTEGER PRIMARY KEY, part INTEGER, first INTEGER, n INTEGER, mode TEXT,"
    " admitted INTEGER, sum INTEGER)",
    "plan": "CREATE TABLE plan (idx INTEGER PRIMARY KEY, block INTEGER, theta BLOB, log_weight REAL, predicted REAL,"
    " coin REAL, sum INTEGER)",
    "runs": "CREATE TABLE runs (idx INTEGER PRIMARY KEY, status TEXT, shape TEXT, x BLOB, wall REAL, cpu REAL,"
    " memory INTEGER, reported REAL, host TEXT, attempt INTEGER, error TEXT, time_limit REAL, policy TEXT,"
    " finished REAL, sum INTEGER)",
    "sessions": "CREATE TABLE sessions (id INTEGER PRIMARY KEY, started REAL, elapsed REAL, host TEXT, pid INTEGER,"
    " note TEXT)",
}


DAMAGE_WORDS = (
    "malformed",
    "decode to UTF-8",
    "codec can't decode",
    "not a database",
    "corrupt",
    "file format",
    "encrypted",
    "no such table",
    "no such column",
)
MIN_FREE_BYTES = 2**20  # with less free space, a failed write is explained by a full disk


@contextlib.contextmanager
def translate_sqlite_errors(folder: Path) -> Iterator[None]:
    """Turn errors of SQLite into those of thrifty: damage, a full disk, a read-only folder."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite may quote damaged names
        text = str(error)
        if any(word in text for word in DAMAGE_WORDS):
            raise DamagedStoreError(
                f"{folder / NAME} is damaged: {text}",
                code="damaged-folder",
                fix="th.Campaign.repair(folder) keeps the undamaged rows; run() runs the others again",
            ) from None
        why = {"full": "the disk is full", "readonly": "it is read-only", "disk I/O": "the disk reports an error"}
        reason = next((words for key, words in why.items() if key in text), text)
        with contextlib.suppress(OSError):  # a log or its shared memory that cannot grow is reported as an I/O error
            reason = (
                "the disk is full"
                if shutil.disk_usage(folder).free < MIN_FREE_BYTES and "readonly" not in text
                else reason
            )
        raise StorageError(
            f"cannot write to {folder}: {reason}",
            code="disk-problem",
            why="runs recorded so far are safe; runs in flight will run again",
            fix="make room and call run() again",
        ) from None


def connect(folder: Path, *, readonly: bool) -> sqlite3.Connection:
    """Open the file without executing anything of its schema."""
    mode = "ro" if readonly else "rwc"
    db = sqlite3.connect(f"{(folder / NAME).absolute().as_uri()}?mode={mode}", uri=True, timeout=30)
    if readonly:
        try:
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:  # a place where not even the shared memory of the log can be made
            db.close()
            db = sqlite3.connect(f"{(folder / NAME).absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
    if not readonly:
        # write-ahead log where the file system shares memory between processes, else sqlite keeps its rollback journal
        with contextlib.suppress(sqlite3.OperationalError):
            db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")  # groups of commits twice a second: a sync costs about 1 %
    return db


def check_schema(db: sqlite3.Connection, folder: Path) -> None:
    """Refuse a store that a newer version wrote, or whose tables are not exactly those of a campaign."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version != FORMAT and _recorded_format(db) == FORMAT:
        raise DamagedStoreError(
            f"{folder / NAME} is damaged: its header says format {version}, its own record format {FORMAT}",
            code="damaged-folder",
            fix="th.Campaign.repair(folder) writes a new header",
        )
    if version > FORMAT:
        raise CampaignError(
            f"store format {version} of {folder} was written by a newer thrifty; this version reads {FORMAT}",
            code="newer-version",
            fix="upgrade thrifty; nothing was changed",
        )
    found = dict(db.execute("SELECT name, sql FROM sqlite_master").fetchall())
    found = {name: sql for name, sql in found.items() if not name.startswith("sqlite_autoindex")}
    if found != SCHEMA:
        unknown = sorted(set(found) ^ set(SCHEMA)) or sorted(k for k in SCHEMA if found.get(k) != SCHEMA[k])
        raise CampaignError(
            f"refusing {folder}: its tables are not those of a campaign ({', '.join(unknown)[:200]})",
            code="untrusted-folder",
            why="a foreign table, view or trigger could change what is read or written",
            fix="if this is damage: th.Campaign.repair(folder) keeps the undamaged rows, in a new file",
        )


def _recorded_format(db: sqlite3.Connection) -> int | None:
    """Return the format from the settings, if that row is undamaged: the header of the file has no checksum."""
    with contextlib.suppress(sqlite3.DatabaseError, ValueError, TypeError):
        row = db.execute("SELECT key, value, sum FROM meta WHERE key = 'format'").fetchone()
        return int(row[1]) if checksum_matches(row) else None
    return None
