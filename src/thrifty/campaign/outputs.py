"""Reading what a program wrote: JSON, CSV or NPY, never anything that could run code."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from thrifty.errors import SimulatorError
from thrifty.types import Output

Format = Literal["json", "csv", "npy"]


def read_json(data: bytes, source: str) -> Output:
    """Numbers, a list of numbers, or {"x": [...], "cost": ...}; the last line counts if the whole is not JSON."""
    text = data.decode("utf-8", "replace").strip()
    if not text:
        raise SimulatorError(f"{source} is empty", code="bad-output")
    for attempt in (text, text.splitlines()[-1]):
        try:
            value: Any = json.loads(attempt)
        except ValueError:
            continue
        if isinstance(value, dict):
            if "x" not in value:
                raise SimulatorError(f'{source}: an object without "x": {sorted(value)}', code="bad-output")
            return Output(value["x"], cost=value.get("cost"))
        return Output(value)
    line = text.splitlines()[0][:80]
    raise SimulatorError(
        f"{source} line 1 is not JSON: {line!r}",
        code="bad-output",
        fix="print logs to stderr, or use file= for the output",
    )


def read_csv(data: bytes, source: str) -> Output:
    """Numbers separated by commas, blanks or lines; a first line of words is a header."""
    rows = [line.replace(",", " ").split() for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
    if rows and not any(_is_number(cell) for cell in rows[0]):
        rows = rows[1:]
    if not rows:
        raise SimulatorError(f"{source} holds no numbers", code="bad-output")
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            if not _is_number(cell):
                raise SimulatorError(
                    f"{source} line {i + 1} column {j + 1} {cell[:30]!r} is not a number", code="bad-output"
                )
    if len({len(row) for row in rows}) > 1:
        raise SimulatorError(f"{source}: lines of {sorted({len(row) for row in rows})} values", code="bad-output")
    table = np.array(rows, dtype=np.float64)
    return Output(table.ravel() if 1 in table.shape else table)


def read_npy(data: bytes, source: str) -> Output:
    """An array of numbers in numpy's format, without pickles."""
    try:
        return Output(np.load(io.BytesIO(data), allow_pickle=False))
    except (ValueError, EOFError, OSError) as error:
        raise SimulatorError(f"{source} is not an array of numbers: {error}", code="bad-output") from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


PARSERS: dict[str, Callable[[bytes, str], Output]] = {"json": read_json, "csv": read_csv, "npy": read_npy}
