"""The run folder: one SQLite file, written by one driver, readable by anybody with plain sqlite3.

    meta    key, value                       settings as JSON: format, seed, prior, simulator, output shape
    parts   id, kind, recipe                 proposals, frozen as JSON numbers; "prior" is the prior itself
    blocks  id, part, first, n, mode, admitted   draws idx = first .. first+n-1; `admitted` of them will be completed
    plan    idx, block, theta, log_weight, predicted, coin       draws, committed before they run
    runs    idx, status, shape, x, wall, cpu, memory, reported, host, attempt, error, time_limit, policy, finished
    sessions id, started, elapsed, host, pid, note               who drove when

theta and x are little-endian doubles, x in the shape given as text "2,3". Every row ends with a checksum (rows.py).
There is no running state: pending = planned - finished. Outcomes are committed in groups, each synced to disk, before
they count as done.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Any

from thrifty.errors import CampaignError, DamagedStoreError, StorageError
from thrifty.runner.task import Outcome
from thrifty.runner.time_limits import TimeLimit
from thrifty.store.backup import refuse_lost_store, write_backup
from thrifty.store.groups import MAX_GROUP_ROWS
from thrifty.store.rows import PLAN, RUNS, Row, checksum_matches, plan_row, printable, run_row, with_checksum
from thrifty.store.schema import (
    APPLICATION_ID,
    FORMAT,
    NAME,
    SCHEMA,
    check_schema,
    connect,
    translate_sqlite_errors,
)
from thrifty.store.table import Table
from thrifty.store.validate import BLOCK_COLUMNS, Block, Part, parse_blocks, parse_parts, parse_settings
from thrifty.types import Array
from thrifty.version import __version__

GROUP_SECONDS = 0.5  # results that a crash of the machine can lose; a sync takes milliseconds
GROUP_RUNS = 256
NARROW = ("idx", "status", "shape", "wall", "cpu", "reported", "time_limit", "policy")  # of a run, without its output


class Store:
    """The SQLite file of a campaign. Open it with `Store.create` or `Store.open`."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, *, readonly: bool) -> None:
        self.folder, self.db, self.readonly = folder, connection, readonly
        self._in_transaction = False

    @classmethod
    def create(cls, folder: Path, settings: dict[str, Any]) -> Store:
        """Make the folder and its store; the caller checks that none exists."""
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
            write_backup(store.db, store.folder)
        return store

    @classmethod
    def open(cls, folder: Path, *, readonly: bool = False) -> Store:
        """Open an existing store, after checking its tables and its version."""
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
                check_schema(store.db, folder)
            except BaseException:
                store.close()
                raise
        return store

    @staticmethod
    def exists(folder: Path) -> bool:
        """Return whether the folder holds a store whose creation was completed."""
        path = folder / NAME
        if path.is_symlink():
            raise CampaignError(f"refusing {folder}: {NAME} is a link that leads elsewhere", code="untrusted-folder")
        if not path.is_file() or path.stat().st_size == 0:
            return False
        with translate_sqlite_errors(folder), contextlib.closing(connect(folder, readonly=True)) as db:
            return db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0

    def close(self) -> None:
        """Close the file; the last one to close it merges the write-ahead log."""
        self.db.close()

    # --- settings and plan ---

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything that is written inside at once: a kill leaves all of it or nothing."""
        if self._in_transaction:
            yield
            return
        with translate_sqlite_errors(self.folder), self.db:
            self._in_transaction = True
            try:
                yield
            finally:
                self._in_transaction = False
        write_backup(self.db, self.folder)

    def query(self, sql: str, *values: Any) -> list[Row]:
        """Return all rows of a query."""
        with translate_sqlite_errors(self.folder):
            return self.db.execute(sql, values).fetchall()

    def _put(self, key: str, value: Any) -> None:
        self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", with_checksum((key, json.dumps(value))))

    def put(self, key: str, value: Any) -> None:
        """Store one setting."""
        with self.transaction():
            self._put(key, value)

    def settings(self) -> dict[str, Any]:
        """Return all settings by name, checked."""
        rows = self.query("SELECT key, value, sum FROM meta")
        damaged = [row[0] for row in rows if not checksum_matches(row)]
        if damaged:
            raise DamagedStoreError(f"settings {damaged} of {self.folder} fail their checksum", code="damaged-folder")
        return parse_settings([row[:2] for row in rows], self.folder)

    def add_part(self, kind: str, recipe: dict[str, Any]) -> int:
        """Store a proposal that never changes again; return its number."""
        with self.transaction():
            number = self.db.execute("SELECT coalesce(max(id), -1) + 1 FROM parts").fetchone()[0]
            self.db.execute("INSERT INTO parts VALUES (?, ?, ?, ?)", with_checksum((number, kind, json.dumps(recipe))))
        return number

    def parts(self) -> dict[int, Part]:
        """Return frozen proposals by number."""
        rows = self.query("SELECT id, kind, recipe, sum FROM parts ORDER BY id")
        if any(not checksum_matches(row) for row in rows):
            raise DamagedStoreError(f"a frozen proposal of {self.folder} fails its checksum", code="damaged-folder")
        return parse_parts([row[:3] for row in rows], self.folder)

    def add_block(
        self, part: int, theta: Array, *, log_weights: Array, predicted: Array, coins: Array, mode: str
    ) -> Block:
        """Commit draws, all or none. Only those of mode "n" are admitted already."""
        with self.transaction():
            first = self.db.execute("SELECT coalesce(max(idx), -1) + 1 FROM plan").fetchone()[0]
            number = self.db.execute("SELECT coalesce(max(id), -1) + 1 FROM blocks").fetchone()[0]
            block = Block(number, part, first, len(theta), mode, admitted=len(theta) if mode == "n" else 0)
            self._put_block(block)
            self.db.executemany(
                "INSERT INTO plan VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    plan_row(first + i, number, row, log_weight=log_weights[i], predicted=predicted[i], coin=coins[i])
                    for i, row in enumerate(theta)
                ),
            )
        return block

    def _put_block(self, block: Block) -> None:
        self.db.execute("REPLACE INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?)", with_checksum(astuple(block)))

    def blocks(self) -> list[Block]:
        """Return committed blocks in order."""
        rows = self.query(f"SELECT {', '.join(BLOCK_COLUMNS)}, sum FROM blocks ORDER BY id")
        parts = {row[0] for row in self.query("SELECT id FROM parts")}
        if any(not checksum_matches(row) for row in rows):
            raise DamagedStoreError(f"a block of {self.folder} fails its checksum", code="damaged-folder")
        return parse_blocks([row[:-1] for row in rows], self.folder, parts=parts)

    def planned(self) -> int:
        """Count the draws in the file, whatever its blocks say."""
        return int(self.query("SELECT count(*) FROM plan")[0][0])

    def admit_through(self, last: int, *, blocks: Container[int]) -> None:
        """Commit that every draw of these blocks up to index `last` will be completed, whatever it costs."""
        with translate_sqlite_errors(self.folder), self.db:
            for block in self.blocks():
                admitted = min(last + 1 - block.first, block.n)
                if block.id in blocks and admitted > block.admitted:
                    self._put_block(replace(block, admitted=admitted))

    def plan_rows(self, size: int = MAX_GROUP_ROWS) -> Iterator[list[Row]]:
        """Yield groups of plan rows in order, with their checksums."""
        yield from self._groups(f"SELECT {', '.join(PLAN)}, sum FROM plan ORDER BY idx", size)

    def _groups(self, sql: str, size: int) -> Iterator[list[Row]]:
        with translate_sqlite_errors(self.folder):
            rows = self.db.execute(sql)
            while group := rows.fetchmany(size):
                yield group

    def narrow_rows(self, size: int = MAX_GROUP_ROWS) -> Iterator[list[Row]]:
        """Yield groups of plan rows with their checksums, each followed by idx, status, ... of its run, without x."""
        plan, runs = (
            ", ".join(f"{table}.{name}" for name in names) for table, names in (("p", (*PLAN, "sum")), ("r", NARROW))
        )
        yield from self._groups(
            f"SELECT {plan}, {runs} FROM plan p LEFT JOIN runs r ON r.idx = p.idx ORDER BY p.idx", size
        )

    # --- runs ---

    def record(self, outcomes: Sequence[Outcome], *, policy: TimeLimit | None) -> None:
        """Commit outcomes, synced to disk when this returns. A row is never overwritten by a different attempt."""
        now, rule = time.time(), None if policy is None else json.dumps(asdict(policy))
        with translate_sqlite_errors(self.folder), self.db:
            marks = ", ".join("?" * (len(RUNS) + 1))
            rows = (run_row(outcome, policy=rule, finished=now) for outcome in outcomes)
            self.db.executemany(f"INSERT OR IGNORE INTO runs VALUES ({marks})", rows)

    def run_rows(self, size: int = MAX_GROUP_ROWS) -> Iterator[list[Row]]:
        """Yield groups of run rows in order, with their checksums."""
        yield from self._groups(f"SELECT {', '.join(RUNS)}, sum FROM runs ORDER BY idx", size)

    def common_shape(self) -> str | None:
        """Return the shape that most outputs have, as text; None before the first output."""
        found = self.query(
            "SELECT shape FROM runs WHERE status = 'ok' AND shape IS NOT NULL"
            " GROUP BY shape ORDER BY count(*) DESC, min(idx) LIMIT 1"
        )
        return str(found[0][0]) if found else None

    def outputs_vary(self, shape: str) -> bool:
        """Return whether two outputs of this shape differ; stops at the first that does."""
        wanted = "FROM runs WHERE status = 'ok' AND shape = ?"
        sql = f"SELECT EXISTS (SELECT 1 {wanted} AND x <> (SELECT x {wanted} LIMIT 1))"
        return bool(self.query(sql, shape, shape)[0][0])

    def forget(self, indices: Sequence[int]) -> None:
        """Make runs pending again: damaged ones, or time-outs whose limit is now longer."""
        with translate_sqlite_errors(self.folder), self.db:
            self.db.executemany("DELETE FROM runs WHERE idx = ?", [(int(index),) for index in indices])

    def spent(self, of: str) -> float:
        """Sum "cpu" or "wall" seconds or "reported" cost over all runs, or "elapsed" seconds over all drivers."""
        table, column = ("sessions", of) if of == "elapsed" else ("runs", of)
        assert column in ("elapsed", "cpu", "wall", "reported")
        return float(self.query(f"SELECT coalesce(sum({column}), 0) FROM {table}")[0][0])

    def has_runs(self) -> bool:
        """Return whether any run has finished."""
        return bool(self.query("SELECT EXISTS (SELECT 1 FROM runs)")[0][0])

    # --- sessions ---

    def begin_session(self, note: str) -> int:
        """Record that a driver starts; return its number."""
        with translate_sqlite_errors(self.folder), self.db:
            cursor = self.db.execute(
                "INSERT INTO sessions (started, elapsed, host, pid, note) VALUES (?, 0, ?, ?, ?)",
                (time.time(), printable(socket.gethostname()), os.getpid(), note),
            )
        return int(cursor.lastrowid or 0)

    def note_session(self, session: int, elapsed: float) -> None:
        """Record how long a driver has run."""
        with translate_sqlite_errors(self.folder), self.db:
            self.db.execute("UPDATE sessions SET elapsed = ? WHERE id = ?", (float(elapsed), session))


class Recorder:
    """Commits outcomes in groups and enters them in the table of this call; `recorded` counts only committed runs."""

    def __init__(
        self, store: Store, table: Table, *, policy: TimeLimit | None, session: int, blocks: frozenset[int]
    ) -> None:
        self.store, self.table, self.policy, self.session, self.blocks = store, table, policy, session, blocks
        self.recorded = 0
        self._buffer: list[Outcome] = []
        self._begun = self._committed = time.monotonic()

    def record(self, outcomes: Sequence[Outcome]) -> None:
        """Buffer outcomes; they count as done after the next commit."""
        self._buffer += outcomes

    def flush(self, *, force: bool = False) -> int:
        """Commit if the group is large or old enough; return the number of committed runs."""
        now = time.monotonic()
        due = len(self._buffer) >= GROUP_RUNS or now - self._committed >= GROUP_SECONDS
        if self._buffer and (force or due):
            group, self._buffer = self._buffer, []
            self.store.record(group, policy=self.policy)
            self.store.note_session(self.session, now - self._begun)
            self.table.enter_all(group, self.policy)
            self.recorded += len(group)
            self._committed = time.monotonic()
        return self.recorded

    def admit_through(self, last: int) -> None:
        """Commit an admission under a budget, before any of the admitted runs starts."""
        self.store.admit_through(last, blocks=self.blocks)
        self.table.admit_through(last, blocks=self.blocks)
