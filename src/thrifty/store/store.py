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
    check_in_place,
    check_schema,
    connect,
    translate_os_errors,
    translate_sqlite_errors,
)
from thrifty.store.validate import BLOCK_COLUMNS, Block, Part, parse_blocks, parse_parts, parse_settings
from thrifty.types import Array
from thrifty.version import __version__

FIGURES = "sums"  # key of sums over all runs, kept for `status`: no setting, and in no backup
_PENDING = "FROM plan p WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.idx = p.idx)"
NARROW = ("idx", "status", "shape", "wall", "cpu", "reported", "time_limit", "policy")  # of a run, without its output


class Store:
    """The SQLite file of a campaign. Open it with `Store.create` or `Store.open`."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, *, readonly: bool) -> None:
        self.folder, self.db, self.readonly = folder, connection, readonly
        self._in_transaction = False
        self._opened = None if readonly else os.stat(folder / NAME)

    @classmethod
    def create(cls, folder: Path, settings: dict[str, Any]) -> Store:
        """Make the folder and its store; the caller checks that none exists."""
        refuse_lost_store(folder)
        try:
            with translate_os_errors(folder, exists=False):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            is_file = isinstance(error, FileExistsError | NotADirectoryError)
            raise StorageError(
                f"cannot create the folder {folder}: {error.strerror}",
                code="disk-problem",
                fix="a file has this name: choose another folder" if is_file else "choose another folder",
            ) from None
        with translate_sqlite_errors(folder), translate_os_errors(folder):
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

    def hold_snapshot(self) -> None:
        """Let every query see the state of one moment, while somebody else may write."""
        with translate_sqlite_errors(self.folder):
            self.db.execute("BEGIN")

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
        rows = self.query("SELECT key, value, sum FROM meta WHERE key <> ?", FIGURES)
        damaged = [row[0] for row in rows if not checksum_matches(row)]
        if damaged:
            raise DamagedStoreError(f"settings {damaged} of {self.folder} fail their checksum", code="damaged-folder")
        return parse_settings([row[:2] for row in rows], self.folder)

    def figures(self) -> dict[str, Any] | None:
        """Return the sums that a driver kept; None if there are none, or if they are damaged."""
        with contextlib.suppress(ValueError, TypeError, RecursionError, DamagedStoreError):
            rows = self.query("SELECT key, value, sum FROM meta WHERE key = ?", FIGURES)
            found = json.loads(rows[0][1]) if rows and checksum_matches(rows[0]) else None
            return found if isinstance(found, dict) else None
        return None

    def put_figures(self, values: dict[str, Any]) -> None:
        """Keep sums over all runs; they can be computed again, so no backup is written."""
        with translate_sqlite_errors(self.folder), self.db:
            self._put(FIGURES, values)

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

    def plan_rows_at(self, indices: Sequence[int]) -> list[Row]:
        """Return the plan rows of these indices, in order of the index, with their checksums."""
        listed = ", ".join(str(int(index)) for index in indices)
        return self.query(f"SELECT {', '.join(PLAN)}, sum FROM plan WHERE idx IN ({listed}) ORDER BY idx")

    def pending_rows(self, size: int = MAX_GROUP_ROWS) -> Iterator[list[Row]]:
        """Yield groups of plan rows without a run, in order, with their checksums."""
        yield from self._groups(f"SELECT {', '.join(PLAN)}, sum {_PENDING} ORDER BY idx", size)

    def count_pending(self) -> int:
        """Count the draws without a run."""
        return int(self.query(f"SELECT count(*) {_PENDING}")[0][0])

    def last_index(self) -> int:
        """Return the highest planned index, -1 where there is none."""
        return int(self.query("SELECT coalesce(max(idx), -1) FROM plan")[0][0])

    def narrow_rows(self, *, after: float | None = None, size: int = MAX_GROUP_ROWS) -> Iterator[list[Row]]:
        """Yield groups of plan rows with their checksums, each followed by idx, status, ... of its run, without x.

        With `after`, a time stamp, only rows whose run was recorded after it.
        """
        plan, runs = (
            ", ".join(f"{table}.{name}" for name in names) for table, names in (("p", (*PLAN, "sum")), ("r", NARROW))
        )
        tables = "plan p LEFT JOIN runs r ON r.idx = p.idx"
        if after is not None:
            tables = f"runs r CROSS JOIN plan p ON p.idx = r.idx WHERE NOT r.finished <= {float(after)!r}"
        yield from self._groups(f"SELECT {plan}, {runs} FROM {tables} ORDER BY p.idx", size)

    # --- runs ---

    def record(
        self, outcomes: Sequence[Outcome], *, policy: TimeLimit | None, session: int = 0, elapsed: float = 0.0
    ) -> None:
        """Commit outcomes and how long the driver has run, synced to disk when this returns.

        A row is never overwritten by a different attempt.
        """
        check_in_place(self.folder, self._opened, self.folder / NAME)
        now, rule = time.time(), None if policy is None else json.dumps(asdict(policy))
        with translate_sqlite_errors(self.folder), self.db:
            marks = ", ".join("?" * (len(RUNS) + 1))
            rows = (run_row(outcome, policy=rule, finished=now) for outcome in outcomes)
            self.db.executemany(f"INSERT OR IGNORE INTO runs VALUES ({marks})", rows)
            self.db.execute("UPDATE sessions SET elapsed = ? WHERE id = ?", (float(elapsed), session))

    def run_rows(self, size: int = MAX_GROUP_ROWS) -> Iterator[list[Row]]:
        """Yield groups of run rows in order, with their checksums."""
        yield from self._groups(f"SELECT {', '.join(RUNS)}, sum FROM runs ORDER BY idx", size)

    def forget(self, indices: Sequence[int]) -> None:
        """Make runs pending again: damaged ones, time-outs whose limit is now longer, or failures of corrected code."""
        with self.transaction():
            self.db.execute("DELETE FROM meta WHERE key = ?", (FIGURES,))
            self.db.executemany("DELETE FROM runs WHERE idx = ?", [(int(index),) for index in indices])

    def spent(self, of: str) -> float:
        """Sum "cpu" or "wall" seconds or "reported" cost over all runs, or "elapsed" seconds over all drivers."""
        table, column = ("sessions", of) if of == "elapsed" else ("runs", of)
        assert column in ("elapsed", "cpu", "wall", "reported")
        return float(self.query(f"SELECT coalesce(sum({column}), 0) FROM {table}")[0][0]) + self.discarded().get(
            of, 0.0
        )

    def discarded(self) -> dict[str, float]:
        """Return the cost of attempts whose results were not kept, by kind: time-outs that were tried again."""
        return dict(self.settings().get("discarded", {}))

    def add_discarded(self, cost: dict[str, float]) -> None:
        """Add the cost of attempts whose results are not kept; an unknown cost adds nothing."""
        before = self.discarded()
        self.put("discarded", {kind: before.get(kind, 0.0) + (c if c >= 0 else 0.0) for kind, c in cost.items()})

    def count_runs(self) -> int:
        """Count the runs that have finished."""
        return int(self.query("SELECT count(*) FROM runs")[0][0])

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
