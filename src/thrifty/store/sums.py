"""Counts and sums over the runs of a store, made by SQLite itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from thrifty.runner.causes import Cause, describe_failure, group_causes
from thrifty.runner.time_limits import read_policy
from thrifty.store.store import Store
from thrifty.store.validate import Block, BlockState
from thrifty.types import CHARGED_STATUSES

_FAILED = "FROM runs WHERE (status <> 'ok' OR shape IS NOT ?)"


def sum_runs(store: Store, through: float | None = None) -> dict[str, float | None]:
    """Count and sum up the runs recorded until a time stamp, all of them when it is left out."""
    sums = "count(*), total(status = 'ok'), total(wall), total(cpu), total(reported), count(policy), max(finished)"
    until = "" if through is None else f"WHERE finished <= {float(through)!r}"
    names = ("count", "ok", "wall", "cpu", "reported", "limited", "through")
    return dict(zip(names, store.query(f"SELECT {sums} FROM runs {until}")[0], strict=True))


def count_statuses(store: Store, shape: str) -> Counter[str]:
    """Count runs by status; an output of another shape than this is an error of its run."""
    rows = store.query(
        "SELECT CASE WHEN status = 'ok' AND shape IS NOT ? THEN 'error' ELSE status END, count(*) FROM runs GROUP BY 1",
        shape,
    )
    return Counter({str(status): int(count) for status, count in rows})


def common_shape(store: Store) -> str | None:
    """Return the shape that most outputs have, as text; None before the first output."""
    found = store.query(
        "SELECT shape FROM runs WHERE status = 'ok' AND shape IS NOT NULL"
        " GROUP BY shape ORDER BY count(*) DESC, min(idx) LIMIT 1"
    )
    return str(found[0][0]) if found else None


def outputs_vary(store: Store, shape: str) -> bool:
    """Return whether two outputs of this shape differ; stops at the first that does."""
    wanted = "FROM runs WHERE status = 'ok' AND shape = ?"
    sql = f"SELECT EXISTS (SELECT 1 {wanted} AND x <> (SELECT x {wanted} LIMIT 1))"
    return bool(store.query(sql, shape, shape)[0][0])


def find_timeouts(store: Store, seconds: float) -> list[int]:
    """Return the indices of runs that timed out under a shorter limit than this.

    Those of a lazy limit stay: the runs that it let finish already stand for them.
    """
    sql = "SELECT idx, policy FROM runs WHERE status = 'timeout' AND time_limit < ?"
    rules = ((index, read_policy(policy or "")) for index, policy in store.query(sql, seconds))
    return [index for index, rule in rules if rule is None or rule.on_timeout != "lazy"]


def sum_planned(store: Store, blocks: Iterable[Block], column: str) -> tuple[int, float]:
    """Count the draws of these blocks that will be completed, and sum their cost, measured or else predicted."""
    assert column in ("cpu", "wall", "reported")
    sql = (
        f"SELECT count(*), total(CASE WHEN r.idx IS NULL THEN p.predicted ELSE r.{column} END)"
        " FROM plan p LEFT JOIN runs r ON r.idx = p.idx WHERE p.idx >= ? AND p.idx < ?"
    )
    found = [store.query(sql, block.first, block.first + block.admitted)[0] for block in blocks]
    return sum(int(row[0]) for row in found), sum(float(row[1]) for row in found)


def find_failed(store: Store, shape: str) -> list[int]:
    """Return the indices of failed runs, time-outs excepted; an output of another shape is a failure."""
    return [int(row[0]) for row in store.query(f"SELECT idx {_FAILED} AND status <> 'timeout' ORDER BY idx", shape)]


def find_causes(store: Store, shape: str | None) -> list[Cause]:
    """Return why runs failed, the most common cause first, time-outs included."""
    rows = store.query(f"SELECT idx, status, shape, error {_FAILED} ORDER BY idx", shape)
    return group_causes(
        (int(index), describe_failure(str(status), found, shape, str(error or "")))
        for index, status, found, error in rows
    )


def read_messages(store: Store, shape: str | None) -> dict[int, str]:
    """Return the whole message of each failed run, by its index."""
    rows = store.query(f"SELECT idx, status, shape, error {_FAILED} ORDER BY idx", shape)
    return {int(i): str(error or "") or describe_failure(str(s), found, shape, "") for i, s, found, error in rows}


def first_failure(store: Store) -> str:
    """Return the message of the first failed run, "" if there is none."""
    found = store.query("SELECT error FROM runs WHERE status <> 'ok' AND error IS NOT NULL ORDER BY idx LIMIT 1")
    return str(found[0][0]) if found else ""


def sum_costs(store: Store, indices: Sequence[int]) -> dict[str, float]:
    """Sum the costs of some runs, by kind."""
    marks = ", ".join(str(int(index)) for index in indices)
    found = store.query(f"SELECT total(cpu), total(wall), total(reported) FROM runs WHERE idx IN ({marks})")[0]
    return dict(zip(("cpu", "wall", "reported"), map(float, found), strict=True))


def read_states(store: Store) -> dict[int, BlockState]:
    """Read how far the runs of each block are, by its number."""
    sql = (
        "SELECT count(*), min(p.idx), max(p.predicted), count(p.predicted)"
        " FROM plan p LEFT JOIN runs r ON r.idx = p.idx WHERE r.idx IS NULL AND p.idx >= ? AND p.idx < ?"
    )
    found = {}
    for block in store.blocks():
        pending, first, limit, known = store.query(sql, block.first, block.first + block.admitted)[0]
        limit = float(limit) if pending and known == pending else math.nan
        found[block.id] = BlockState(
            block.part, block.mode, block.first, block.admitted, int(pending), int(first or 0), limit
        )
    return found


def has_limits(store: Store) -> bool:
    """Return whether any run was made under a time limit."""
    return bool(store.query("SELECT EXISTS (SELECT 1 FROM runs WHERE policy IS NOT NULL)")[0][0])


def has_unpriced(store: Store) -> bool:
    """Return whether a run gave a result and reported no possible cost: it is charged as predicted."""
    charged = ", ".join(f"'{status}'" for status in CHARGED_STATUSES)
    possible = "reported IS NOT NULL AND reported >= 0 AND reported < 9e999"
    return bool(
        store.query(f"SELECT EXISTS (SELECT 1 FROM runs WHERE status IN ({charged}) AND NOT ({possible}))")[0][0]
    )
