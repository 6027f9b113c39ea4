"""The SQLite file of a campaign: its tables, how it is opened, and what errors of SQLite and of the system mean.

What the machine around a folder may refuse (open files, inodes, long names, a folder that is no longer there) becomes
one message that says what is missing and what to do.
"""

from __future__ import annotations

import contextlib
import errno
import os
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
MAX_PATH_BYTES = 500  # of the file: SQLite takes 512, with what it adds for its log
MIN_FREE_BYTES = 2**20  # with less free space, a failed write is explained by a full disk
SAFE = "runs recorded so far are safe; runs in flight will run again"
_FILES = (
    "this process may open no more files",
    "raise the limit (ulimit -n 4096), or use fewer workers; then call again",
)
_NAME = ("its name is longer than the file system allows", "choose a shorter name")
_INODES = ("the file system has no room for another file (no inodes left)", "delete files that are not needed")
_MOVED = (
    "it was moved or deleted while it was in use",
    "call again with the folder where it is now; there, every recorded run is safe",
)
_ROOM = ("the disk is full", "make room and call run() again")
_REASONS = {
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ENAMETOOLONG: _NAME,
    errno.ESTALE: _MOVED,
    errno.EDQUOT: ("the quota of this account is used up", "make room and call run() again"),
}


@contextlib.contextmanager
def translate_os_errors(folder: Path, *, exists: bool = True) -> Iterator[None]:
    """Turn what the system refuses around a folder into one error; every other error passes.

    What is missing was moved away, unless the folder does not exist yet.
    """
    try:
        yield
    except OSError as error:
        found = _REASONS.get(error.errno or 0) or (explain_room(folder) if error.errno == errno.ENOSPC else None)
        missing = exists and error.errno in (errno.ENOENT, errno.ENOTDIR)
        if found is None and missing and _is_below(error.filename, folder):
            found = _MOVED
        if found is None:
            raise
        raise storage_error(folder, *found) from None


def storage_error(folder: Path, reason: str, fix: str) -> StorageError:
    """Return the error for a folder that cannot be used, with a shortened name where that is the problem."""
    name = str(folder)
    shown = name if len(name) < 200 else f"{name[:80]}...{name[-20:]}"
    return StorageError(f"cannot use {shown}: {reason}", code="disk-problem", why=SAFE, fix=fix)


def explain(folder: Path) -> tuple[str, str] | None:
    """Find out why nothing can be opened or written in a folder: reason and way out, None if nothing is found."""
    try:
        with open(os.devnull, "rb"):
            pass
        whole = os.fsencode((folder / NAME).absolute())
        if len(whole) > MAX_PATH_BYTES or any(len(os.fsencode(part)) > 255 for part in folder.parts):
            return _NAME
        if not folder.is_dir():
            return _MOVED
        return explain_room(folder)
    except OSError as error:
        return _REASONS.get(error.errno or 0)


def explain_room(folder: Path) -> tuple[str, str] | None:
    """Find out what a file system lacks for one more file in a folder that may not be there yet."""
    place = next((path for path in (folder, *folder.absolute().parents) if path.is_dir()), Path("/"))
    room = os.statvfs(place)
    if room.f_files and room.f_favail == 0:
        return _INODES
    return _ROOM if shutil.disk_usage(place).free < MIN_FREE_BYTES else None


def check_in_place(folder: Path, opened: os.stat_result | None, path: Path) -> None:
    """Refuse to write into a file that no longer lies where it was opened: nobody would find the runs."""
    try:
        now = os.stat(path)
    except FileNotFoundError:
        now = None
    if opened is not None and (now is None or (now.st_ino, now.st_dev) != (opened.st_ino, opened.st_dev)):
        raise storage_error(folder, *_MOVED)


def _is_below(name: object, folder: Path) -> bool:
    return isinstance(name, str) and Path(name).absolute().is_relative_to(folder.absolute())


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
        reason, fix = next((words for key, words in why.items() if key in text), text), "make room and call run() again"
        if "readonly" not in text and "full" not in text and (found := explain(folder)) is not None:
            if "unable to open" in text:
                raise storage_error(folder, *found) from None
            reason, fix = found  # a log or its shared memory that cannot grow is reported as an I/O error
        raise StorageError(f"cannot write to {folder}: {reason}", code="disk-problem", why=SAFE, fix=fix) from None


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
