"""The run folder: one SQLite file, written by one driver, readable by anybody with plain sqlite3.

    meta    key, value                       settings as JSON: format, seed, prior, simulator, output shape
    parts   id, kind, recipe                 proposals, frozen as JSON numbers; "prior" is the prior itself
    blocks  id, part, first, n, mode, admitted   draws idx = first .. first+n-1; `admitted` of them will be completed
    plan    idx, block, theta, log_weight, predicted, coin       draws, committed before they run
    runs    idx, status, shape, x, wall, cpu, memory, reported, host, attempt, error, time_limit, policy, finished
    sessions id, started, elapsed, host, pid, note               who drove when

theta and x are little-endian doubles, x in the shape given as text "2,3". Every row ends with a checksum (rows.py).
There is no running state: pending = planned - finished. Commits come in groups, each synced to disk.

The sink of a campaign: groups of outcomes, committed by time and count, before they are counted as done.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import time
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

from thrifty.errors import CampaignError, DamagedStoreError, StorageError
from thrifty.runner.task import Outcome
from thrifty.store.backup import refuse_lost_store, write_backup
from thrifty.store.rows import PLAN, RUNS, Row, checksum_matches, plan_row, printable, run_row, with_checksum
from thrifty.store.schema import APPLICATION_ID, FORMAT, NAME, SCHEMA, check, connect, translate_sqlite_errors
from thrifty.store.validate import BLOCK, parse_blocks, parse_parts, parse_settings
from thrifty.types import Array
from thrifty.version import __version__

GROUP_SECONDS = 0.5  # what a crash of the machine can cost; a sync takes milliseconds
GROUP_RUNS = 256


class Recorder:
    """Buffers outcomes and commits them in groups; `recorded` counts only what is safe."""

    def __init__(self, store: Store, *, policy: str | None, session: int, blocks: frozenset[int]) -> None:
        self.store, self.policy, self.session, self.blocks = store, policy, session, blocks
        self.recorded = 0
        self._buffer: list[Outcome] = []
        self._begun = self._committed = time.monotonic()

    def record(self, outcomes: Sequence[Outcome]) -> None:
        """Buffer outcomes; they count as done after the next commit."""
        self._buffer += outcomes

    def flush(self, *, force: bool = False) -> int:
        """Commit if the group is large or old enough; the number of runs that are safe."""
        now = time.monotonic()
        due = len(self._buffer) >= GROUP_RUNS or now - self._committed >= GROUP_SECONDS
        if self._buffer and (force or due):
            group, self._buffer = self._buffer, []
            self.store.record(group, policy=self.policy)
            self.store.note_session(self.session, now - self._begun)
            self.recorded += len(group)
            self._committed = time.monotonic()
        return self.recorded

    def admit_through(self, last: int) -> None:
        """Commit an admission under a budget, before it is acted upon."""
        self.store.admit_through(last, blocks=self.blocks)


class Store:
    """Open with `Store.create` or `Store.open`; `readonly` never takes part in writing."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, *, readonly: bool) -> None:
        self.folder, self.db, self.readonly = folder, connection, readonly
        self._in_transaction = False

    @classmethod
    def create(cls, folder: Path, settings: dict[str, Any]) -> Store:
        """Make the folder and its store; what exists already is an error of the caller."""
        refuse_lost_store(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot create {folder}: {error.strerror}", code="disk-problem") from None
        with translate_sqlite_errors(folder):
            store = cls(folder, connect(folder, readonly=False), readonly=False)
            with store.db:
                store.db.execute("BEGIN IMMEDIATE")
                for statement in SCHEMA.values():
                    store.db.execute(statement)
                store.db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                store.db.execute(f"PRAGMA user_version = {FORMAT}")
                for key, value in {**settings, "format": FORMAT, "thrifty": __version__}.items():
                    store._put(key, value)
            write_backup(store)
        return store

    @classmethod
    def open(cls, folder: Path, *, readonly: bool = False) -> Store:
        """Open an existing store, after checking that it is one of ours and no newer than we are."""
        path = folder / NAME
        if path.is_symlink() or not path.is_file():
            refuse_lost_store(folder)
            raise CampaignError(
                f"no campaign at {folder}",
                code="no-campaign",
                why="nothing was created",
                fix="check the spelling of the folder",
            )
        with translate_sqlite_errors(folder):
            store = cls(folder, connect(folder, readonly=readonly), readonly=readonly)
            try:
                check(store.db, folder)
            except BaseException:
                store.close()
                raise
        return store

    @staticmethod
    def exists(folder: Path) -> bool:
        """Whether the folder holds a store whose creation was completed."""
        path = folder / NAME
        if path.is_symlink():
            raise CampaignError(f"refusing {folder}: {NAME} is a link that leads elsewhere", code="untrusted-folder")
        if not path.is_file() or path.stat().st_size == 0:
            return False
        with translate_sqlite_errors(folder), contextlib.closing(connect(folder, readonly=True)) as db:
            return db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0

    def close(self) -> None:
        """Close the file; the write-ahead log is folded in by the last one out."""
        self.db.close()

    # --- settings and plan ---

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """What is put or added inside is committed at once: a kill leaves all of it or nothing."""
        if self._in_transaction:
            yield
            return
        with translate_sqlite_errors(self.folder), self.db:
            self._in_transaction = True
            try:
                yield
            finally:
                self._in_transaction = False
        write_backup(self)

    def _put(self, key: str, value: Any) -> None:
        self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", with_checksum((key, json.dumps(value))))

    def put(self, key: str, value: Any) -> None:
        """Keep a setting."""
        with self.transaction():
            self._put(key, value)

    def settings(self) -> dict[str, Any]:
        """All settings."""
        with translate_sqlite_errors(self.folder):
            rows = self.db.execute("SELECT key, value, sum FROM meta").fetchall()
        damaged = [row[0] for row in rows if not checksum_matches(row)]
        if damaged:
            raise DamagedStoreError(f"settings {damaged} of {self.folder} fail their checksum", code="damaged-folder")
        return parse_settings([row[:2] for row in rows], self.folder)

    def add_part(self, kind: str, recipe: dict[str, Any]) -> int:
        """Freeze a proposal; its number."""
        with self.transaction():
            number = self.db.execute("SELECT coalesce(max(id), -1) + 1 FROM parts").fetchone()[0]
            self.db.execute("INSERT INTO parts VALUES (?, ?, ?, ?)", with_checksum((number, kind, json.dumps(recipe))))
        return number

    def parts(self) -> dict[int, tuple[str, dict[str, Any]]]:
        """Frozen proposals by number."""
        with translate_sqlite_errors(self.folder):
            rows = self.db.execute("SELECT id, kind, recipe, sum FROM parts ORDER BY id").fetchall()
        if any(not checksum_matches(row) for row in rows):
            raise DamagedStoreError(f"a frozen proposal of {self.folder} fails its checksum", code="damaged-folder")
        return parse_parts([row[:3] for row in rows], self.folder)

    def add_block(
        self, part: int, theta: Array, *, log_weights: Array, predicted: Array, coins: Array, mode: str
    ) -> int:
        """Commit draws, all or none; the first index. Under a budget none is admitted yet."""
        with self.transaction():
            first = self.db.execute("SELECT coalesce(max(idx), -1) + 1 FROM plan").fetchone()[0]
            block = self.db.execute("SELECT coalesce(max(id), -1) + 1 FROM blocks").fetchone()[0]
            admitted = len(theta) if mode == "n" else 0
            self.db.execute(
                "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?)",
                with_checksum((block, part, first, len(theta), mode, admitted)),
            )
            self.db.executemany(
                "INSERT INTO plan VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    plan_row(first + i, block, row, log_weight=log_weights[i], predicted=predicted[i], coin=coins[i])
                    for i, row in enumerate(theta)
                ),
            )
        return first

    def blocks(self) -> list[dict[str, Any]]:
        """Committed blocks in order."""
        with translate_sqlite_errors(self.folder):
            rows = self.db.execute(f"SELECT {', '.join(BLOCK)}, sum FROM blocks ORDER BY id").fetchall()
            parts = {row[0] for row in self.db.execute("SELECT id FROM parts")}
        if any(not checksum_matches(row) for row in rows):
            raise DamagedStoreError(f"a block of {self.folder} fails its checksum", code="damaged-folder")
        return parse_blocks([row[:-1] for row in rows], self.folder, parts=parts)

    def planned(self) -> int:
        """Draws in the file, whatever its blocks say."""
        with translate_sqlite_errors(self.folder):
            return int(self.db.execute("SELECT count(*) FROM plan").fetchone()[0])

    def admit_through(self, last: int, *, blocks: Container[int]) -> None:
        """Commit that every draw of these blocks up to index `last` will be completed, whatever it costs."""
        with translate_sqlite_errors(self.folder), self.db:
            for b in self.blocks():
                if b["id"] not in blocks:
                    continue
                admitted = max(b["admitted"], min(last + 1 - b["first"], b["n"]))
                if admitted > b["admitted"]:
                    values = (b["id"], b["part"], b["first"], b["n"], b["mode"], admitted)
                    self.db.execute("REPLACE INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?)", with_checksum(values))

    def plan_rows(self, *, pending: bool = False) -> Iterator[Row]:
        """Plan rows in order, with checksums; only those without a run if `pending`."""
        query = f"SELECT {', '.join('p.' + name for name in PLAN)}, p.sum FROM plan p"
        if pending:
            query += " LEFT JOIN runs r ON r.idx = p.idx WHERE r.idx IS NULL"
        with translate_sqlite_errors(self.folder):
            yield from self.db.execute(query + " ORDER BY p.idx")

    # --- runs ---

    def record(self, outcomes: Sequence[Outcome], *, policy: str | None) -> None:
        """Commit outcomes, synced to disk when this returns. A row is never overwritten by a different attempt."""
        now = time.time()
        with translate_sqlite_errors(self.folder), self.db:
            marks = ", ".join("?" * (len(RUNS) + 1))
            rows = (run_row(outcome, policy=policy, finished=now) for outcome in outcomes)
            self.db.executemany(f"INSERT OR IGNORE INTO runs VALUES ({marks})", rows)

    def run_rows(self, *, light: bool = False) -> Iterator[Row]:
        """Run rows in order, with checksums; `light` leaves outputs out (nothing can be checked then)."""
        names = ["NULL" if light and name in ("x", "error") else name for name in RUNS]
        with translate_sqlite_errors(self.folder):
            yield from self.db.execute(f"SELECT {', '.join(names)}, sum FROM runs ORDER BY idx")

    def forget(self, indices: Sequence[int]) -> None:
        """Take runs back to pending: damaged ones, or time-outs that are to be extended."""
        with translate_sqlite_errors(self.folder), self.db:
            self.db.executemany("DELETE FROM runs WHERE idx = ?", [(int(index),) for index in indices])

    def totals(self) -> dict[str, float]:
        """Sums for progress and status, computed by sqlite."""
        query = (
            "SELECT count(*), coalesce(sum(status = 'ok'), 0), coalesce(sum(wall), 0), coalesce(sum(cpu), 0),"
            " coalesce(sum(reported), 0), coalesce(max(memory), 0) FROM runs"
        )
        with translate_sqlite_errors(self.folder):
            values = self.db.execute(query).fetchone()
            elapsed = self.db.execute("SELECT coalesce(sum(elapsed), 0) FROM sessions").fetchone()[0]
        names = ("done", "ok", "wall", "cpu", "reported", "memory")
        return {**dict(zip(names, values, strict=True)), "elapsed": elapsed}

    # --- sessions ---

    def begin_session(self, note: str) -> int:
        """Note that a driver starts."""
        with translate_sqlite_errors(self.folder), self.db:
            cursor = self.db.execute(
                "INSERT INTO sessions (started, elapsed, host, pid, note) VALUES (?, 0, ?, ?, ?)",
                (time.time(), printable(socket.gethostname()), os.getpid(), note),
            )
        return int(cursor.lastrowid or 0)

    def note_session(self, session: int, elapsed: float) -> None:
        """Note how long a driver has run; committed with the next group."""
        with translate_sqlite_errors(self.folder), self.db:
            self.db.execute("UPDATE sessions SET elapsed = ? WHERE id = ?", (float(elapsed), session))
