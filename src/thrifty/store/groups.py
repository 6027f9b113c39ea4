"""Rows of the store in groups, as columns: one pass of numpy where a loop over rows would take most of the time.

A group is tested with the same checksums as single rows (`rows.checksum`): only the work around each hash is shared.
Rows that are not plain (a failed run, an output of another shape, damage) are left to the functions for single rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.runner.time_limits import TimeLimit, read_policy
from thrifty.store.rows import PLAN, RUNS, Row, encode_value
from thrifty.store.validate import Block
from thrifty.types import Array

Column = Sequence[Any]
Mask = npt.NDArray[np.bool_]
GROUP_BYTES = 2**22  # of outputs in one group: large outputs come in small groups, so that memory stays flat
MAX_GROUP_ROWS = 4096  # more rows make numpy no faster


def group_rows(output_bytes: int) -> int:
    """Return how many rows to read at once where an output has so many bytes."""
    return int(np.clip(GROUP_BYTES // max(output_bytes, 1), 1, MAX_GROUP_ROWS))


def compute_checksums(columns: Sequence[Column]) -> npt.NDArray[np.int64]:
    """Compute `checksum` of each row of a group that is given as columns (n,).

    What all rows share is written into a template once; only values that differ are filled in row by row.

    Example:
        >>> from thrifty.store.rows import checksum
        >>> compute_checksums([(1, 2), ("ok", "ok"), (0.5, None)])[1] == checksum((2, "ok", None))
        np.True_
    """
    n, template, varying = len(columns[0]), b"", []
    for column in columns:
        pattern, values = _encode_column(column)
        template += pattern
        if values is not None:
            varying.append(values)
    texts = [template % row for row in zip(*varying, strict=True)] if varying else [template % ()] * n
    digests = b"".join([hashlib.blake2b(text, digest_size=8).digest() for text in texts])
    return np.frombuffer(digests, dtype="<i8")


def _encode_column(column: Column) -> tuple[bytes, Column | None]:
    """Return what a column adds to the template, and the values to fill in, if they differ."""
    kinds = set(map(type, column))
    if kinds == {float}:  # never shared: 0.0 and -0.0 are equal and have different bytes
        data = np.array(column, dtype="<f8").tobytes()
        return b"d%b", [data[i : i + 8] for i in range(0, len(data), 8)]
    if len(kinds) == 1 and column.count(column[0]) == len(column):
        return encode_value(column[0]).replace(b"%", b"%%"), None
    if kinds == {int}:
        return b"i%d;", column
    if kinds == {bytes} and len(sizes := set(map(len, column))) == 1:
        return b"b%d:%%b" % sizes.pop(), column
    return b"%b", [encode_value(value) for value in column]


def match_checksums(columns: Sequence[Column]) -> Mask:
    """Return which rows of a group, whose last column is `sum`, are unchanged since they were written (n,)."""
    found = columns[-1]
    if set(map(type, found)) != {int}:
        right = compute_checksums(columns[:-1]).tolist()
        return np.array([type(a) is int and a == b for a, b in zip(found, right, strict=True)])
    return compute_checksums(columns[:-1]) == np.array(found, dtype=np.int64)


def _are(column: Column, *kinds: type) -> bool:
    return set(map(type, column)) <= set(kinds)


def _as_floats(column: Column) -> Array:
    """Return numbers as floats (n,), NaN for None; a column that holds anything else is all NaN."""
    if not _are(column, float, int, type(None)):
        return np.full(len(column), np.nan)
    return np.array(column, dtype=np.float64)


@dataclass(frozen=True)
class PlanGroup:
    """Plan rows that are plain: index, block, parameters, predicted cost.

    Attributes:
        plain: Which rows of the group these are (n,); the others need a look of their own.
        index, block, theta, predicted: Columns of all rows; meaningless where a row is not plain.
    """

    plain: Mask
    index: npt.NDArray[np.int64]
    block: npt.NDArray[np.int64]
    theta: Array
    predicted: Array


def read_plan_group(rows: Sequence[Row], dim: int) -> PlanGroup | None:
    """Parse plan rows with their checksums; None where no row can be read this way."""
    columns = tuple(zip(*rows, strict=True))
    index, block, theta, weight, predicted, coin = columns[: len(PLAN)]
    same_size = _are(theta, bytes) and set(map(len, theta)) == {8 * dim}
    if not (same_size and _are(index, int) and _are(block, int)):
        return None
    values = np.frombuffer(b"".join(theta), dtype="<f8").reshape(-1, dim)
    plain = match_checksums(columns) & np.isfinite(values).all(1)
    for column in (weight, predicted, coin):
        if not _are(column, float, type(None)):
            return None
        numbers = np.array(column, dtype=np.float64)  # NULL is how NaN is stored
        plain &= ~np.isinf(numbers)
    return PlanGroup(plain, np.array(index), np.array(block), values, np.array(predicted, dtype=np.float64))


def find_blocks(numbers: npt.NDArray[np.int64], blocks: Sequence[Block]) -> tuple[npt.NDArray[np.int64], Mask]:
    """Return the position of each row's block in `blocks`, and whether it is there (n,)."""
    ids = np.array([block.id for block in blocks], dtype=np.int64)
    if not len(ids):
        return np.zeros(len(numbers), dtype=np.int64), np.zeros(len(numbers), dtype=bool)
    at = np.minimum(np.searchsorted(ids, numbers), len(ids) - 1)
    return at, ids[at] == numbers


@dataclass(frozen=True)
class RunGroup:
    """Run rows with an output of the expected shape.

    Attributes:
        plain: Which rows of the group these are (n,); the others need a look of their own.
        index, wall, cpu, reported, limit: Columns of all rows; meaningless where a row is not plain.
        x: Outputs of the plain rows, one after the other, as bytes.
        policy: Rule for time-outs of each row, as text.
        rules: Text of a rule -> the rule.
    """

    plain: Mask
    index: npt.NDArray[np.int64]
    wall: Array
    cpu: Array
    reported: Array
    limit: Array
    x: bytes
    policy: Sequence[str | None]
    rules: dict[str | None, TimeLimit | None]


def read_run_group(rows: Sequence[Row], shape: tuple[int, ...]) -> RunGroup | None:
    """Parse run rows with their checksums; None where no row can be read this way."""
    columns = dict(zip((*RUNS, "sum"), zip(*rows, strict=True), strict=True))
    policies: Sequence[Any] = columns["policy"]
    readable = (
        _are(columns["idx"], int)
        and all(_are(columns[name], str, type(None)) for name in ("host", "error", "policy"))
        and all(_are(columns[name], float, type(None)) for name in ("reported", "time_limit"))
    )
    rules = {text: None if text is None else read_policy(text) for text in dict.fromkeys(policies if readable else [])}
    if not readable or any(rule is None for text, rule in rules.items() if text is not None):
        return None
    words, size = ",".join(map(str, shape)), 8 * math.prod(shape)
    plain = match_checksums(tuple(columns.values()))
    plain &= np.array([status == "ok" for status in columns["status"]])
    plain &= np.array([found == words for found in columns["shape"]])
    plain &= np.array([type(data) is bytes and len(data) == size for data in columns["x"]])
    for name in ("wall", "cpu", "memory", "attempt"):
        plain &= _is_measure(_as_floats(columns[name]))
    return RunGroup(
        plain=plain,
        index=np.array(columns["idx"]),
        wall=_as_floats(columns["wall"]),
        cpu=_as_floats(columns["cpu"]),
        reported=_as_floats(columns["reported"]),
        limit=_as_floats(columns["time_limit"]),
        x=b"".join([x for x, wanted in zip(columns["x"], plain.tolist(), strict=True) if wanted]),
        policy=policies,
        rules=rules,
    )


def _is_measure(values: Array) -> Mask:
    return np.isfinite(values) & (values >= 0)
