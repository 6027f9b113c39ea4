"""From the store to a table: completely, with every checksum tested, or quickly, without outputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from thrifty.errors import DamagedStoreError
from thrifty.runner.task import MAX_OUTPUT_BYTES
from thrifty.runner.time_limits import read_policy
from thrifty.store.groups import find_blocks, group_rows, read_plan_group, read_run_group
from thrifty.store.outputs_file import make_file_array
from thrifty.store.rows import PLAN, RUNS, Row, read_outcome, read_theta
from thrifty.store.store import Store
from thrifty.store.sums import common_shape
from thrifty.store.table import Shape, Table
from thrifty.store.validate import MAX_MISSING_DRAWS, Block, damaged_rows_error, malformed_store_error, reject_malformed
from thrifty.types import STATUSES

_AFTER_PLAN = len(PLAN) + 1  # position of the run's columns in a narrow row
_POLICY = RUNS.index("policy")


def read_table(store: Store, *, dim: int, shape: Shape | None, lazy: bool = False) -> Table:
    """Read and check all rows that count, with their outputs; damaged rows are an error that names them."""
    table, damaged = scan(store, dim=dim, shape=shape, lazy=lazy)
    _refuse_damaged(store, {*damaged["plan"], *damaged["runs"]})
    return table


def scan(store: Store, *, dim: int, shape: Shape | None, lazy: bool = False) -> tuple[Table, dict[str, list[int]]]:
    """Read and check all rows that count, and list the indices of damaged rows by table.

    Rows are read in groups and written into arrays made beforehand: lists of a million rows would leave memory that
    the process cannot give back. With `lazy` the outputs lie in a file (see `make_file_array`).
    """
    blocks = store.blocks()
    n, planned = store.planned(), sum(block.n for block in blocks)
    admitted = min(sum(block.admitted for block in blocks), n)  # sizes from files are not trusted
    shape = known_shape(store, shape)
    _check_size(store, admitted, shape)
    x = make_file_array(store.folder, (admitted, *shape)) if lazy else None
    table = Table.empty(admitted, dim=dim, shape=shape, x=x)
    damaged: dict[str, list[int]] = {"plan": [], "runs": []}
    at = 0
    for rows in store.plan_rows():
        at = _enter_draws(table, at, rows, blocks, damaged["plan"])
    if n != planned:  # a row that vanished is damage too
        damaged["plan"] += _unmatched(store, blocks)
    table = table if at == admitted else table.select(slice(at))
    table.assign(blocks)
    for rows in store.run_rows(group_rows(8 * math.prod(shape))):
        _enter_runs(table, rows, damaged["runs"])
    return table, damaged


def _enter_draws(table: Table, at: int, rows: Sequence[Row], blocks: Sequence[Block], damaged: list[int]) -> int:
    """Fill in the draws that count, from row `at` of the table; return the next free row."""
    group = read_plan_group(rows, table.theta.shape[1])
    if group is None or not group.plain.all() or not (known := find_blocks(group.block, blocks))[1].all():
        return _enter_draws_singly(table, at, rows, {block.id: block for block in blocks}, damaged)
    first, admitted = (np.array([getattr(block, name) for block in blocks])[known[0]] for name in ("first", "admitted"))
    counted = group.index - first < admitted
    end = at + int(counted.sum())
    if end > len(table):  # more rows than the blocks have
        return _enter_draws_singly(table, at, rows, {block.id: block for block in blocks}, damaged)
    for column, values in (
        (table.index, group.index),
        (table.theta, group.theta),
        (table.block, group.block),
        (table.predicted, group.predicted),
    ):
        column[at:end] = values[counted]
    return end


def _enter_draws_singly(
    table: Table, at: int, rows: Sequence[Row], blocks: dict[int, Block], damaged: list[int]
) -> int:
    """Fill in draws row by row, where some are damaged or not plain."""
    for row in rows:
        values, block = read_theta(row, table.theta.shape[1]), blocks.get(row[1])
        if values is None or block is None:
            damaged.append(int(row[0]))
        elif row[0] - block.first < block.admitted:
            if at == len(table):  # more rows than the blocks have
                damaged.append(int(row[0]))
                continue
            table.index[at], table.theta[at], table.block[at] = row[0], values, block.id
            table.predicted[at] = np.nan if row[4] is None else row[4]
            at += 1
    return at


def _enter_runs(table: Table, rows: Sequence[Row], damaged: list[int]) -> None:
    """Fill in runs: plain ones as a group, the others one by one."""
    assert table.shape is not None, "outputs are read with a known shape"
    group = read_run_group(rows, table.shape)
    plain = np.zeros(len(rows), dtype=bool) if group is None else group.plain
    if group is not None and plain.any():
        table.enter_group(group)
    for i in np.flatnonzero(~plain).tolist():
        row = rows[i]
        outcome = read_outcome(row)
        if outcome is None:
            damaged.append(int(row[0]))
        elif (at := table.find(outcome.index)) is not None:
            table.enter(at, outcome, None if row[_POLICY] is None else read_policy(row[_POLICY]))


def read_columns(store: Store, *, dim: int, shape: Shape | None, check: bool) -> Table:
    """Read all planned rows, admitted or not, without outputs, in groups.

    With `check` the checksum of every draw is tested: these parameters will be simulated or fitted. Runs cannot be
    checked without their outputs; `read_table` checks them. Without a `shape`, outputs wait for `judge_shapes`.
    """
    blocks = check_planned(store)
    table, at = Table.empty(store.planned(), dim=dim, shape=shape, outputs=False), 0
    for group in store.narrow_rows():
        _enter_columns(store, table, slice(at, at + len(group)), group, check=check)
        at += len(group)
    unmatched = table.assign(blocks)
    _refuse_damaged(store, set(table.index[unmatched].tolist()))
    return table


def stream_columns(store: Store, *, dim: int, shape: Shape, after: float | None = None) -> Iterator[Table]:
    """Yield what `read_columns` reads as small tables, one after the other: memory stays flat.

    With `after`, a time stamp, only rows whose run was recorded after it.
    """
    blocks = check_planned(store)
    for group in store.narrow_rows(after=after):
        table = Table.empty(len(group), dim=dim, shape=shape, outputs=False)
        _enter_columns(store, table, slice(0, len(group)), group, check=False)
        unmatched = table.assign(blocks)
        _refuse_damaged(store, set(table.index[unmatched].tolist()))
        yield table


def check_planned(store: Store) -> list[Block]:
    """Return the blocks; refuse a plan that has more or fewer draws than they say."""
    blocks = store.blocks()
    if store.planned() != sum(block.n for block in blocks):
        _refuse_damaged(store, set(_unmatched(store, blocks)))
    return blocks


def _enter_columns(store: Store, table: Table, rows: slice, group: Sequence[Row], *, check: bool) -> None:
    with reject_malformed(store.folder, "a row"):
        damaged = _enter_plan(table, rows, group, check=check)
        if not damaged:
            _enter_narrow(table, rows, group)
    _refuse_damaged(store, damaged)


def _enter_plan(table: Table, rows: slice, group: Sequence[Row], *, check: bool) -> set[int]:
    """Fill in the plan's columns; return the indices that fail their checksum."""
    dim = table.theta.shape[1]
    if check:
        found = read_plan_group([row[:_AFTER_PLAN] for row in group], dim)
        if found is None or not found.plain.all():
            damaged = {int(row[0]) for row in group if read_theta(row[:_AFTER_PLAN], dim) is None}
            if damaged:
                return damaged
    index, block, theta, _, predicted = list(zip(*group, strict=True))[:5]
    table.index[rows], table.block[rows] = index, block
    table.theta[rows] = np.frombuffer(b"".join(theta), dtype="<f8").reshape(-1, dim)
    table.predicted[rows] = np.array(predicted, dtype=np.float64)
    if not np.isfinite(table.theta[rows]).all():
        raise ValueError("parameters that are not finite")
    return set()


def _enter_narrow(table: Table, rows: slice, group: Sequence[Row]) -> None:
    """Fill in the columns of runs, where a row has a run."""
    index, status, shape, wall, cpu, reported, limit, policy = zip(*(row[_AFTER_PLAN:] for row in group), strict=True)
    words = "" if table.shape is None else ",".join(str(size) for size in table.shape)
    done = np.array([i is not None for i in index])
    if not {s for s, run in zip(status, done, strict=True) if run} <= set(STATUSES):
        raise ValueError("an unknown status")
    table.status[rows] = np.where(done, np.array(status, dtype=np.str_), "pending")
    others = [i for i, (how, text) in enumerate(zip(status, shape, strict=True)) if how == "ok" and text != words]
    for row in others:
        table.judge_shape(rows.start + row, None if shape[row] is None else _from_text(shape[row]))
    for column, values in ((table.wall, wall), (table.cpu, cpu), (table.reported, reported)):
        column[rows] = np.array(values, dtype=np.float64)
    known = np.array([table.wall[rows][done], table.cpu[rows][done]])
    if not (np.isfinite(known) & (known >= 0)).all():
        raise ValueError("a duration that is not a number above 0")
    limits = np.array(limit, dtype=np.float64)
    table.time_limit[rows] = np.where(np.isnan(limits), np.inf, limits)
    numbers = {text: table.policy_number(None if text is None else read_policy(text)) for text in set(policy)}
    if any(number < 0 for text, number in numbers.items() if text is not None):
        raise ValueError("an unknown rule for time-outs")
    table.policy[rows] = [numbers[text] for text in policy]


def _refuse_damaged(store: Store, indices: set[int]) -> None:
    if indices:
        raise damaged_rows_error(store.folder, indices)


def _unmatched(store: Store, blocks: Sequence[Block]) -> list[int]:
    """List indices that blocks name and the plan does not have, and the reverse."""
    found, named = store.planned(), sum(block.n for block in blocks)
    if named - found > MAX_MISSING_DRAWS:
        raise malformed_store_error(
            store.folder, f"its blocks name {MAX_MISSING_DRAWS:,} draws more than the {found:,} it has"
        )
    planned = {i for block in blocks for i in block.indices}
    return sorted(planned ^ {int(row[0]) for row in store.query("SELECT idx FROM plan")})


def _check_size(store: Store, n: int, shape: Shape) -> None:
    """Refuse a shape of outputs that is larger than any output in the file, before memory is allocated for it."""
    size = 8 * math.prod(shape)
    if n * size <= MAX_OUTPUT_BYTES:
        return
    largest = store.query("SELECT max(length(x)) FROM runs")[0][0]
    if largest is not None and size > largest:
        raise malformed_store_error(store.folder, f"outputs are said to have shape {shape}, but none is so large")


def known_shape(store: Store, frozen: Shape | None) -> Shape:
    """Return the shape of outputs: as frozen after the pilot, else the shape of most outputs, (1,) before the first."""
    if frozen is None:
        text = common_shape(store)
        with reject_malformed(store.folder, "the shape of outputs"):
            frozen = (1,) if text is None else _from_text(text)
    if 8 * int(np.prod(frozen, dtype=object)) > MAX_OUTPUT_BYTES or any(size < 0 for size in frozen):
        raise DamagedStoreError(
            f"{store.folder}: outputs of shape {frozen} are larger than any limit", code="untrusted-folder"
        )
    return frozen


def _from_text(text: str) -> Shape:
    return tuple(int(size) for size in text.split(",") if size)
