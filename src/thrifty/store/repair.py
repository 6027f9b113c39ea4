"""Testing every checksum of a folder, and mending what can be mended without guessing.

Damaged runs become pending: they will run again and give the same numbers. Damaged draws are drawn again from
their block's stream. If the file itself is broken, every row that can still be read and whose checksum holds is
copied into a new file; settings, proposals and blocks come from the copy kept beside it (`frozen.json`).
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thrifty.campaign.planner import drawn, rebuilt
from thrifty.campaign.settings import readable_prior
from thrifty.errors import CampaignError, DamagedStoreError
from thrifty.runner.seeds import flip_coin
from thrifty.store.backup import SIDECAR, read_sidecar, refuse_lost, write_sidecar
from thrifty.store.lock import FolderLock
from thrifty.store.read import Frozen, scan
from thrifty.store.rows import PLAN, RUNS, Row, intact, plan_row
from thrifty.store.schema import NAME, SCHEMA, connect, explained
from thrifty.store.store import Store
from thrifty.types import Prior

TABLES = {
    "meta": ("key", "value"),
    "parts": ("id", "kind", "recipe"),
    "blocks": ("id", "part", "first", "n", "mode", "admitted"),
    "plan": PLAN,
    "runs": RUNS,
}


@dataclass(frozen=True)
class Verification:
    """What a check found.

    Attributes:
        damaged_runs, damaged_plan: Indices whose rows fail their checksum or vanished.
        file: What is wrong with the file as a whole, or "".
        repaired: Whether it was mended; damaged runs are then pending.
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
            return f"{self.folder}: every record is whole"
        found = [self.file] if self.file else []
        for label, indices in (("runs", self.damaged_runs), ("draws", self.damaged_plan)):
            if indices:
                shown = ", ".join(map(str, indices[:10])) + (", ..." if len(indices) > 10 else "")
                found.append(f"{len(indices)} {label} are damaged (indices {shown})")
        end = "mended: run() runs them again" if self.repaired else "verify(repair=True) mends it"
        return f"{self.folder}: {'; '.join(found)}. {end}"


def verify(folder: Path, prior: Prior, *, repair: bool) -> Verification:
    """Check a folder; the caller holds the lock when it is to be repaired."""
    found = _look(folder, prior.dim)
    if found.ok or not repair:
        return found
    if found.file:
        _salvage(folder)
    store = Store.open(folder)
    try:
        again = scan(store, dim=prior.dim)[1]
        store.forget(again["runs"])
        _redraw(store, prior, again["plan"])
        left = scan(store, dim=prior.dim)[1]
    finally:
        store.close()
    if left["plan"] or left["runs"]:
        raise DamagedStoreError(f"{folder} cannot be mended: {left}", code="damaged-folder")
    runs = tuple(sorted({*found.damaged_runs, *again["runs"]}))
    plan = tuple(sorted({*found.damaged_plan, *again["plan"]}))
    return Verification(str(folder), runs, plan, found.file, repaired=True)


def mend(folder: Path, prior: Prior | None = None) -> Verification:
    """Repair a folder that may be too damaged to be opened; settings come from `frozen.json` where they must."""
    if not (folder / NAME).is_file() and read_sidecar(folder) is None:
        refuse_lost(folder)
        raise CampaignError(f"no campaign at {folder}", code="no-campaign", why="nothing was created")
    with FolderLock(folder):
        return verify(folder, prior if prior is not None else _kept_prior(folder), repair=True)


def _kept_prior(folder: Path) -> Prior:
    copy = read_sidecar(folder)
    kept = {key: json.loads(value) for key, value, _ in copy["meta"]} if copy is not None else {}
    if "prior" not in kept:
        raise DamagedStoreError(
            f"frozen.json of {folder} is missing or damaged",
            code="damaged-folder",
            fix="th.Campaign.mend(folder, prior)",
        )
    return readable_prior(None, kept["prior"])


def _look(folder: Path, dim: int) -> Verification:
    try:
        store = Store.open(folder, readonly=True)
    except DamagedStoreError as error:
        return Verification(str(folder), file=error.what)
    except CampaignError as error:
        # A table that is not ours: salvage reads nothing but tables declared exactly as ours, and row by row what
        # its checksum vouches for. So the refusal to open it need not be a refusal to mend it.
        if error.code != "untrusted-folder":
            raise
        return Verification(str(folder), file=error.what)
    try:
        with explained(folder):
            result = store.db.execute("PRAGMA quick_check(1)").fetchone()[0]
        store.settings()
        store.parts()
        _, damaged = scan(store, dim=dim)
        file = "" if result == "ok" else f"the file is damaged: {result.splitlines()[-1][:200]}"
        return Verification(str(folder), tuple(damaged["runs"]), tuple(damaged["plan"]), file)
    except (DamagedStoreError, UnicodeDecodeError) as error:
        return Verification(str(folder), file=str(getattr(error, "what", error)))
    finally:
        store.close()


def _redraw(store: Store, prior: Prior, indices: list[int]) -> None:
    """Draw damaged parameters again, each block from its own stream."""
    settings, wanted = store.settings(), set(indices)
    for block in store.blocks():
        rows = [i for i in range(block["first"], block["first"] + block["n"]) if i in wanted]
        if not rows:
            continue
        kind = store.parts()[block["part"]][0]
        if kind not in ("prior", "cost_aware"):
            raise DamagedStoreError(
                f"{len(rows):,} draws of {store.folder} cannot be made again: they were chosen by a method ({kind})",
                code="damaged-folder",
                why="they depend on results that are lost",
                fix="restore the folder from a backup, or begin again in a new one",
            )
        proposal = rebuilt(store, block["part"], prior)
        theta, weights = drawn(prior, proposal, block["n"], seed=settings["seed"], block=block["id"])
        predict = Frozen(store.parts()[block["part"]][1]).cost if proposal is not None else None
        with explained(store.folder), store.db:
            for i in rows:
                at = i - block["first"]
                predicted = float(predict(theta[at : at + 1])[0]) if predict is not None else float("nan")
                row = plan_row(
                    i,
                    block["id"],
                    theta[at],
                    log_weight=float(weights[at]),
                    predicted=predicted,
                    coin=flip_coin(settings["seed"], i),
                )
                store.db.execute("INSERT OR REPLACE INTO plan VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def _salvage(folder: Path) -> None:
    """Copy every whole row into a new file and put it in place of the broken one, which is kept aside."""
    copy = read_sidecar(folder)
    if copy is None:
        raise CampaignError(
            f"{folder / NAME} is broken and frozen.json beside it is missing or damaged too",
            code="damaged-folder",
            fix="restore the folder from a backup",
        )
    planned = sum(row[3] for row in copy["blocks"])
    rows = {name: list(_whole_rows(folder, name, planned)) for name in ("plan", "runs")}
    target = Path(tempfile.mkdtemp(prefix="mending-", dir=folder))  # new: a link prepared there is never followed
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
    write_sidecar(store)
    store.close()


def _put_in_place(folder: Path, target: Path) -> None:
    aside = time.strftime("damaged-%Y%m%d-%H%M%S-")
    for suffix in ("", "-wal", "-shm", "-journal"):
        old = folder / (NAME + suffix)
        if old.exists():
            os.replace(old, folder / (aside + NAME + suffix))
    os.replace(target / NAME, folder / NAME)
    for name in (NAME + "-wal", NAME + "-shm", NAME + "-journal", SIDECAR):
        (target / name).unlink(missing_ok=True)
    target.rmdir()


def _whole_rows(folder: Path, table: str, planned: int) -> Any:
    """Rows of a possibly broken file whose checksum holds, read one by one past the damage."""
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
                    yield from (row for row in found if intact(row))
                    at += 64
                    continue
                if not found:
                    return
                yield from (row for row in found if intact(row))
                at = found[-1][0]
    except sqlite3.DatabaseError:
        return


def _one_by_one(db: sqlite3.Connection, table: str, first: int, last: int) -> Any:
    for index in range(first, last + 1):
        try:
            row = db.execute(f"SELECT {', '.join(TABLES[table])}, sum FROM {table} WHERE idx = ?", (index,)).fetchone()
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            continue
        if row is not None:
            yield row
