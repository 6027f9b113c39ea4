"""CSV files. What only looks like an output (a weight, a row number) is refused with a question, never guessed."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError, WeightError
from thrifty.tables.columns import Columns, PathLike, as_run_numbers, check_source, check_target
from thrifty.types import STATUSES, Array
from thrifty.weights import to_log_weights

Names = Sequence[str] | str
_REALISATION = re.compile(r"\[(\d+)\]$")  # as a flat table names it: y[1], y[2]
# letters of the names that weights usually have; a guess, so it only ever refuses
_WEIGHT_NAMES = {"w", "weight", "logw", "lw", "logweight", "sampleweight", "importanceweight", "logimportanceweight"}
_WEIGHT_NAMES |= {"iw"}
_WEIGHT_NAMES |= {name + "s" for name in _WEIGHT_NAMES}


def to_csv(columns: Columns, path: PathLike) -> None:
    """Write plain text with a header; every number has digits enough to be read back exactly."""
    flat = columns.flatten()
    texts = [
        [("" if value != value else repr(value)) if isinstance(value, float) else value for value in column.tolist()]  # noqa: PLR0124 - NaN
        for column in flat.values()
    ]
    with check_target(path).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([list(flat), *zip(*texts, strict=True)])


def from_csv(
    path: PathLike, *, theta: Names, x: Names | None, weights: str | None, cost: str | None, weighed: bool, m: int
) -> Columns:
    """Read runs from a CSV file with a header line; `weighed` says that a known proposal gives the weights."""
    file = _CsvFile.read(path)
    header = file.header
    theta = [theta] if isinstance(theta, str) else list(theta)
    named = x is not None
    if x is None:
        special = {weights, cost or "cost", "log_weight", "status", "index", *theta}
        x = [name for name in header if name not in special]
        _check_outputs(file, x, m)
    x = [x] if isinstance(x, str) else list(x)
    _check_weights(file, [*theta, *(x if named else [])], given=weights or ("proposal=" if weighed else None))
    _check_names(file, theta, x, weights, cost)
    free = set(header) - {*theta, *x}  # columns of a fixed meaning, unless they were named for another
    log_weights = file.column("log_weight") if "log_weight" in free else None
    timed = cost or ("cost" if "cost" in header else None)
    return Columns(
        theta=np.column_stack([file.column(name) for name in theta]),
        x=_split_realisations(file, np.column_stack([file.column(name) for name in x]), m),
        log_weights=to_log_weights(file.column(weights)) if weights else log_weights,
        cost=file.column(timed) if timed else None,
        status=file.status() if "status" in free else None,
        index=file.index() if "index" in free else None,
        m=m,
        names=tuple(theta),
        x_names=_common_names(x, m),
    )


@dataclass(frozen=True)
class _CsvFile:
    name: str  # as it is shown
    header: list[str]
    body: list[list[str]]

    @classmethod
    def read(cls, path: PathLike) -> _CsvFile:
        file_name, name = check_source(path), repr(os.fspath(path))
        try:
            with file_name.open(newline="", encoding="utf-8-sig") as file:
                lines = [line for line in csv.reader(file) if line]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"cannot read {name} as CSV: {error}", code="bad-file") from None
        if len(lines) < 2:
            raise DataError(f"{name} has no rows below its header", code="bad-file")
        header = [cell.strip() for cell in lines[0]]
        for number, line in enumerate(lines[1:], start=2):
            if len(line) != len(header):
                raise DataError(
                    f"{name} line {number} has {len(line)} values, the header {len(header)}", code="bad-file"
                )
        return cls(name, header, lines[1:])

    def column(self, label: str) -> Array:
        place = self.header.index(label)
        values = np.empty(len(self.body))
        for row, line in enumerate(self.body):
            text = line[place].strip()
            try:
                values[row] = float(text) if text else np.nan  # an empty cell is a failed output
            except ValueError:
                raise DataError(
                    f"{self.name} line {row + 2} column {label!r}: {text!r} is not a number", code="bad-file"
                ) from None
        return values

    def status(self) -> npt.NDArray[np.str_]:
        place = self.header.index("status")
        status = np.array([line[place].strip() for line in self.body], dtype=np.str_)
        other = sorted(set(status.tolist()) - set(STATUSES))
        if other:
            raise DataError(
                f"{self.name} column 'status' holds {other[0]!r}; known are {', '.join(STATUSES)}",
                code="bad-file",
                why="runs that failed must not be taken for runs that went well",
                fix="translate it, or rename the column",
            )
        return status

    def index(self) -> npt.NDArray[np.int64]:
        return as_run_numbers(
            self.column("index"), f"{self.name} column 'index'", code="bad-file", fix="rename it, or name it in x="
        )


def _check_outputs(file: _CsvFile, x: list[str], m: int) -> None:
    """Refuse to take for outputs what only looks like them, when nobody named the outputs."""
    if "" in x:
        raise DataError(
            f"{file.name} has a column without a name (number {file.header.index('') + 1})",
            code="bad-file",
            why="pandas writes its row numbers so, and they would be read as an output",
            fix="write it with frame.to_csv(path, index=False), or name the outputs: x=[...]",
        )
    counts = [int(found[1]) for found in map(_REALISATION.search, x) if found]
    if m == 1 and len(counts) == len(x) and max(counts, default=1) > 1:
        raise DataError(
            f"{file.name} holds {max(counts)} realisations of each theta ({x[0]} to {x[-1]})",
            code="bad-file",
            why="a CSV file does not say so, and they would be read as outputs of one run",
            fix=f"pass m={max(counts)}",
        )


def _check_weights(file: _CsvFile, named: list[str], *, given: str | None) -> None:
    """Refuse weights that would be read as an output, be forgotten, or be applied twice."""
    found = [name for name in file.header if re.sub("[^a-z]", "", name.lower()) in _WEIGHT_NAMES and name not in named]
    if given and "log_weight" in found:
        raise WeightError(
            f"weights given twice: {file.name} has a column log_weight, and {given} was passed",
            code="conflicting-settings",
            why="they would be applied twice, or one of them be forgotten",
            fix="leave one out",
        )
    other = [name for name in found if name != "log_weight"]
    if other and not given:
        raise DataError(
            f"{file.name}: {', '.join(other)} would be read as an output or be forgotten, not as a weight",
            code="bad-file",
            why="without its weights a table stands for another prior",
            fix=f"pass weights={other[0]!r} if it is linear, rename it log_weight if a logarithm, or name it in x=",
        )


def _check_names(file: _CsvFile, theta: list[str], x: list[str], weights: str | None, cost: str | None) -> None:
    """Refuse columns that are not there, or that are named for two things."""
    twice = sorted((set(theta) & set(x)) | ({weights or ""} & {*theta, *x}))
    if twice:
        raise DataError(
            f"{file.name}: {', '.join(twice)} would be read as an output and as something else",
            code="bad-file",
            fix='name the columns: x=[...], weights="weight"',
        )
    unknown = [name for name in (*theta, *x, weights, cost) if name and name not in file.header]
    if unknown or not theta or not x:
        raise DataError(
            f"{file.name} has columns {', '.join(file.header)}; no {', '.join(unknown) or 'parameter or output'}",
            code="bad-file",
        )


def _split_realisations(file: _CsvFile, x: Array, m: int) -> Array:
    if not isinstance(m, int | np.integer) or isinstance(m, bool) or m < 1 or x.shape[1] % m:
        raise DataError(
            f"{file.name} has {x.shape[1]} output columns, which are not {m!r} realisations", code="bad-file"
        )
    return x if m == 1 else x.reshape(len(x), int(m), -1)


def _common_names(x: list[str], m: int) -> tuple[str, ...]:
    """Return the names of the statistics; with several realisations those of the first, without its number."""
    first = x if m == 1 else [_REALISATION.sub("", name) for name in x[: len(x) // m]]
    unnamed = m > 1 and first == [f"x_{i + 1}" for i in range(len(first))]  # what columns without names are called
    return () if unnamed else tuple(first)
