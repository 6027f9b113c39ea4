"""Rows of the store as bytes, each with a checksum over all its columns.

A checksum is the first eight bytes of BLAKE2b over the columns, each written with its type and length, as a signed
integer. No value can change without changing the checksum; nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import math
import struct
from typing import Any

import numpy as np

from thrifty.runner.task import Outcome
from thrifty.runner.time_limits import read_policy
from thrifty.types import STATUSES, Array

PLAN = ("idx", "block", "theta", "log_weight", "predicted", "coin")
RUNS = (
    "idx", "status", "shape", "x", "wall", "cpu", "memory", "reported",
    "host", "attempt", "error", "time_limit", "policy", "finished",
)  # fmt: skip
Row = tuple[Any, ...]


def checksum(values: Row) -> int:
    """Compute the checksum of a row: eight bytes over all columns, as a signed integer.

    Example:
        >>> checksum((1, "ok", 0.5)) == checksum((1, "ok", 0.5)), checksum((1, "ok")) == checksum((1, "o", "k"))
        (True, False)
    """
    digest = hashlib.blake2b(digest_size=8)
    for value in values:
        if isinstance(value, bytes):  # not joined to its length first: an output may have megabytes
            digest.update(b"b%d:" % len(value))
            digest.update(value)
        else:
            digest.update(encode_value(value))
    return int.from_bytes(digest.digest(), "little", signed=True)


def encode_value(value: Any) -> bytes:
    """Write one value with its type and length, so that no two rows have the same bytes."""
    if value is None:
        return b"n"
    if isinstance(value, bytes):
        return b"b%d:%b" % (len(value), value)
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass")
        return b"s%d:%b" % (len(text), text)
    if isinstance(value, int):
        return b"i%d;" % value
    return b"d" + struct.pack("<d", float(value))


def with_checksum(values: Row) -> Row:
    """Return the row with its checksum at the end."""
    return (*values, checksum(values))


def checksum_matches(row: Row) -> bool:
    """Return whether a row is unchanged since it was written."""
    return isinstance(row[-1], int) and checksum(row[:-1]) == row[-1]


def printable(text: str) -> str:
    r"""Text that can be stored: half a character, as in names of files of other encodings, is written as an escape.

    Example:
        >>> printable("no file \udcff")
        'no file \\udcff'
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def null_if_nan(value: float) -> float | None:
    """Return None for NaN, which SQLite stores as NULL."""
    return None if value != value else float(value)  # noqa: PLR0124 - NaN is the only value unlike itself


def plan_row(index: int, block: int, theta: Array, *, log_weight: float, predicted: float, coin: float) -> Row:
    """Return the row of a planned run."""
    data = np.ascontiguousarray(theta, dtype="<f8").tobytes()
    return with_checksum((index, block, data, null_if_nan(log_weight), null_if_nan(predicted), coin))


def run_row(outcome: Outcome, *, policy: str | None, finished: float) -> Row:
    """Return the row of a finished run; the output as little-endian doubles with its shape as text."""
    x, shape = None, None
    if outcome.x is not None:
        x = np.ascontiguousarray(outcome.x, dtype="<f8").tobytes()
        shape = ",".join(str(size) for size in outcome.x.shape)
    return with_checksum(
        (
            outcome.index, outcome.status, shape, x, float(outcome.wall), float(outcome.cpu), int(outcome.memory),
            null_if_nan(outcome.reported), printable(outcome.host), outcome.attempt, printable(outcome.error) or None,
            None if outcome.limit is None else float(outcome.limit), policy, finished,
        )
    )  # fmt: skip


def _finite(*values: Any) -> bool:
    return all(isinstance(value, int | float) and math.isfinite(value) for value in values)


def read_theta(row: Row, dim: int) -> Array | None:
    """Return the parameters of a plan row, or None if the row is damaged or malformed."""
    if not checksum_matches(row) or not isinstance(row[2], bytes) or len(row[2]) != 8 * dim:
        return None
    if not isinstance(row[1], int) or not _finite(*(0.0 if value is None else value for value in row[3:6])):
        return None
    theta = np.frombuffer(row[2], dtype="<f8")
    return theta if np.isfinite(theta).all() else None


def _output(data: Any, shape: str | None) -> Array | None:
    sizes = shape.split(",") if shape else []
    if not isinstance(data, bytes) or not all(size.isdecimal() and len(size) < 12 for size in sizes):
        return None
    sizes = tuple(int(size) for size in sizes)
    if 8 * math.prod(sizes) != len(data):
        return None
    return np.frombuffer(data, dtype="<f8").reshape(sizes)


def read_outcome(row: Row) -> Outcome | None:
    """Return the outcome of a run row, or None if the row is damaged or malformed.

    Sizes are checked before memory is allocated.
    """
    if not checksum_matches(row) or row[1] not in STATUSES:
        return None
    index, status, shape, data, wall, cpu, memory, reported, host, attempt, error, limit, policy = row[:13]
    valid = (
        _finite(wall, cpu, memory, attempt)
        and min(wall, cpu, memory, attempt) >= 0
        and all(value is None or isinstance(value, int | float) for value in (reported, limit))
        and all(value is None or isinstance(value, str) for value in (shape, host, error, policy))
        and (policy is None or read_policy(policy) is not None)
    )
    x = None if data is None or not valid else _output(data, shape)
    if not valid or (data is not None and x is None):
        return None
    reported = float("nan") if reported is None else reported
    return Outcome(index, status, x, wall, cpu, memory, reported, host, attempt, error or "", limit)
