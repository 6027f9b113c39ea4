"""Test every checksum of a folder, and repair what can be repaired without guessing.

Damaged runs become pending: they run again and give the same numbers. Damaged draws are drawn again from the random
stream of their block, by a function that the campaign passes in. If the file itself is broken, every row that can still
be read and whose checksum matches is copied into a new file; settings, proposals and blocks come from the copy kept
beside it (`frozen.json`).
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from thrifty.errors import CampaignError, DamagedStoreError
from thrifty.store.backup import BACKUP_NAME, read_backup, write_backup
from thrifty.store.read import scan
from thrifty.store.rows import PLAN, RUNS, Row, checksum_matches
from thrifty.store.schema import NAME, SCHEMA, connect, translate_sqlite_errors
from thrifty.store.store import Store
from thrifty.store.validate import BLOCK_COLUMNS

TABLES = {
    "meta": ("key", "value"),
    "parts": ("id", "kind", "recipe"),
    "blocks": BLOCK_COLUMNS,
    "plan": PLAN,
    "runs": RUNS,
}


@dataclass(frozen=True, repr=False)
class Verification:
    """What a test of all checksums found.

    Attributes:
        damaged_runs, damaged_plan: Indices whose rows fail their checksum or vanished.
        file: What is wrong with the file as a whole, or "".
        repaired: Whether it was repaired; damaged runs are then pending.
    """

    folder: str
    damaged_runs: tuple[int, ...] = ()
    damaged_plan: tuple[int, ...] = ()
    file: str = ""
    repaired: bool = False

    @property
    def ok(self) -> bool:
        """Nothing is damaged."""
        return not (self.damaged_runs or self.damaged_plan or self.file)

    def __str__(self) -> str:
        if self.ok:
            return f"{self.folder}: every record is undamaged"
        found = [self.file] if self.file else []
        for label, indices in (("runs", self.damaged_runs), ("draws", self.damaged_plan)):
            if indices:
                shown = ", ".join(map(str, indices[:10])) + (", ..." if len(indices) > 10 else "")
                found.append(f"{len(indices)} {label} are damaged (indices {shown})")
        end = "repaired: run() runs them again" if self.repaired else "verify(repair=True) repairs it"
        return f"{self.folder}: {'; '.join(found)}. {end}"

    __repr__ = __str__


def find_damage(folder: Path, *, dim: int) -> Verification:
    """Test every checksum of a folder; nothing is changed."""
    try:
        store = Store.open(folder, readonly=True)
    except CampaignError as error:
        # Also a table that thrifty did not write: a repair reads only tables declared exactly as ours, and only rows
        # whose checksum matches. So a folder that is refused here may still be repaired.
        if error.code not in ("damaged-folder", "untrusted-folder"):
            raise
        return Verification(str(folder), file=error.what)
    try:
        with closing(store):
            with translate_sqlite_errors(folder):
                result = store.db.execute("PRAGMA quick_check(1)").fetchone()[0]
            store.parts()
            damaged = _damaged_rows(store, dim)
    except (DamagedStoreError, UnicodeDecodeError) as error:
        return Verification(str(folder), file=str(getattr(error, "what", error)))
    file = "" if result == "ok" else f"the file is damaged: {result.splitlines()[-1][:200]}"
    return Verification(str(folder), tuple(damaged["runs"]), tuple(damaged["plan"]), file)


def repair_damage(folder: Path, *, dim: int, redraw: Callable[[Store, list[int]], None]) -> Verification:
    """Repair what is damaged; the caller holds the lock. `redraw` commits the draws of damaged indices again."""
    found = find_damage(folder, dim=dim)
    if found.ok:
        return found
    if found.file:
        _salvage(folder)
    damaged, left = _repair_rows(folder, dim, redraw)
    if any(left.values()) and not found.file:  # rows without a block, or the reverse: the backup knows which is right
        _salvage(folder)
        damaged, left = _repair_rows(folder, dim, redraw)
    if any(left.values()):
        raise DamagedStoreError(f"{folder} cannot be repaired: {str(left)[:200]}", code="damaged-folder")
    runs = tuple(sorted({*found.damaged_runs, *damaged["runs"]}))
    plan = tuple(sorted({*found.damaged_plan, *damaged["plan"]}))
    return Verification(str(folder), runs, plan, found.file, repaired=True)


def _repair_rows(
    folder: Path, dim: int, redraw: Callable[[Store, list[int]], None]
) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Forget damaged runs and draw damaged parameters again; return what was damaged, and what still is."""
    with closing(Store.open(folder)) as store:
        damaged = _damaged_rows(store, dim)
        store.forget(damaged["runs"])
        redraw(store, damaged["plan"])
        return damaged, _damaged_rows(store, dim)


def _damaged_rows(store: Store, dim: int) -> dict[str, list[int]]:
    shape = store.settings().get("shape")
    return scan(store, dim=dim, shape=None if shape is None else tuple(shape))[1]


def _salvage(folder: Path) -> None:
    """Copy every undamaged row into a new file that replaces the broken one, which is kept under another name."""
    copy = read_backup(folder)
    if copy is None:
        raise CampaignError(
            f"{folder / NAME} is broken and frozen.json beside it is missing or damaged too",
            code="damaged-folder",
            fix="restore the folder from a backup",
        )
    planned = sum(row[3] for row in copy["blocks"])
    rows = {name: list(_undamaged_rows(folder, name, planned)) for name in ("plan", "runs")}
    target = Path(tempfile.mkdtemp(prefix="repairing-", dir=folder))  # new: a link prepared there is never followed
    store = Store.create(target, {})
    with closing(store.db), store.db as db:
        db.execute("DELETE FROM meta")
        for name, columns in TABLES.items():
            marks = ", ".join("?" * (len(columns) + 1))
            db.executemany(f"INSERT OR IGNORE INTO {name} VALUES ({marks})", copy.get(name) or rows.get(name, []))
        query = "SELECT p.block, max(r.idx) FROM runs r JOIN plan p ON p.idx = r.idx GROUP BY p.block"
        highest = dict(db.execute(query).fetchall())
    _put_in_place(folder, target)
    store = Store.open(folder)
    for block, last in highest.items():
        store.admit_through(last, blocks={block})  # what has a result was admitted
    write_backup(store.db, store.folder)
    store.close()


def _put_in_place(folder: Path, target: Path) -> None:
    aside = time.strftime("damaged-%Y%m%d-%H%M%S-")
    for suffix in ("", "-wal", "-shm", "-journal"):
        old = folder / (NAME + suffix)
        if old.exists():
            os.replace(old, folder / (aside + NAME + suffix))
    os.replace(target / NAME, folder / NAME)
    for name in (NAME + "-wal", NAME + "-shm", NAME + "-journal", BACKUP_NAME):
        (target / name).unlink(missing_ok=True)
    target.rmdir()


def _undamaged_rows(folder: Path, table: str, planned: int) -> Iterator[Row]:
    """Yield the rows of a possibly broken file whose checksum matches, reading past the damage."""
    columns = TABLES[table]
    try:
        with closing(connect(folder, readonly=True)) as db:
            if SCHEMA[table] not in [row[0] for row in db.execute("SELECT sql FROM sqlite_master")]:
                return
            at = -1
            while at < planned:
                query = f"SELECT {', '.join(columns)}, sum FROM {table} WHERE idx > ? ORDER BY idx LIMIT 64"
                try:
                    found: list[Row] = db.execute(query, (at,)).fetchall()
                except (sqlite3.DatabaseError, UnicodeDecodeError):
                    found = list(_one_by_one(db, table, at + 1, at + 64))
                    yield from (row for row in found if checksum_matches(row))
                    at += 64
                    continue
                if not found:
                    return
                yield from (row for row in found if checksum_matches(row))
                at = found[-1][0]
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return


def _one_by_one(db: sqlite3.Connection, table: str, first: int, last: int) -> Iterator[Row]:
    for index in range(first, last + 1):
        try:
            row = db.execute(f"SELECT {', '.join(TABLES[table])}, sum FROM {table} WHERE idx = ?", (index,)).fetchone()
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            continue
        if row is not None:
            yield row
