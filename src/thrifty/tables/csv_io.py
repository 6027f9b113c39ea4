"""CSV files made elsewhere. What only looks like an output (a weight, a row number) is asked about, never guessed."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from thrifty.errors import DataError, WeightError
from thrifty.tables.pandas_io import PathLike, as_path
from thrifty.tables.simulations import Simulations
from thrifty.types import STATUSES, Array, Weighting

_REALISATION = re.compile(r"\[(\d+)\]$")  # as `to_pandas` writes it: y[1], y[2]
# letters of the names that weights go by; a guess, so it only ever refuses
_WEIGHTY = {"w", "weight", "logw", "lw", "logweight", "sampleweight", "importanceweight", "logimportanceweight", "iw"}
_WEIGHTY |= {name + "s" for name in _WEIGHTY}


def from_csv(
    path: PathLike,
    *,
    theta: Sequence[str] | str,
    x: Sequence[str] | str | None = None,
    weights: str | None = None,
    cost: str | None = None,
    proposal: Weighting | None = None,
    m: int = 1,
) -> Simulations:
    """Read runs from a CSV file with a header line.

    Args:
        path: The file.
        theta: Columns that are parameters.
        x: Columns that are outputs; all other numeric columns when left out.
        weights: Column of linear weights; a column `log_weight` is used without being named.
        cost: Column of measured costs; `cost` is used without being named, like `status` and `index`.
        proposal: A known proposal to compute the weights from.
        m: Realisations of each theta; the columns x are then those of the first, of the second, and so on.

    Raises:
        DataError: bad-file, with line and column of what is not a number, or a weight that would be forgotten.
        WeightError: conflicting-settings, weights both in the file and given.
    """
    header, body = _read_csv(path)
    theta = [theta] if isinstance(theta, str) else list(theta)
    if isinstance(x, str):
        x = [x]
    special = {name for name in (weights, cost or "cost", "log_weight", "status", "index") if name}
    named = x is not None
    x = [name for name in header if name not in theta and name not in special] if x is None else list(x)
    if not named:
        _check_outputs(path, header, x, m)
    _check_weights(path, header, [*theta, *(x if named else [])], given=weights or ("proposal=" if proposal else None))
    twice = sorted((set(theta) & set(x)) | ({weights or ""} & {*theta, *x}))
    if twice:
        raise DataError(
            f"{os.fspath(path)!r}: {', '.join(twice)} would be read as an output and as something else",
            code="bad-file",
            fix='name the columns: x=[...], weights="weight"',
        )
    wanted = [*theta, *x, *(name for name in (weights, cost) if name)]
    unknown = [name for name in wanted if name not in header]
    if unknown or not theta or not x:
        raise DataError(
            f"{os.fspath(path)!r} has columns {', '.join(header)}; no {', '.join(unknown) or 'parameter or output'}",
            code="bad-file",
        )
    column = _columns(path, header, body)
    use_log = "log_weight" in header and "log_weight" not in {*theta, *x}
    timed = cost or ("cost" if "cost" in header else None)
    table = Simulations.from_arrays(
        theta=np.column_stack([column(name) for name in theta]),
        x=_realisations(path, np.column_stack([column(name) for name in x]), m),
        log_weights=column("log_weight") if use_log else None,
        weights=column(weights) if weights else None,
        proposal=proposal,
        cost=column(timed) if timed else None,
        m=m,
        names=tuple(theta),
        x_names=_common(x, m),
    )
    return _as_recorded(table, path, header, body, {*theta, *x})


def _check_outputs(path: PathLike, header: list[str], x: list[str], m: int) -> None:
    """Refuse to take for outputs what only looks like them, when nobody named the outputs."""
    if "" in x:
        raise DataError(
            f"{os.fspath(path)!r} has a column without a name (number {header.index('') + 1})",
            code="bad-file",
            why="pandas writes its row numbers so, and they would be read as an output",
            fix="write it with frame.to_csv(path, index=False), or name the outputs: x=[...]",
        )
    counts = [int(found[1]) for found in map(_REALISATION.search, x) if found]
    if m == 1 and len(counts) == len(x) and max(counts, default=1) > 1:
        raise DataError(
            f"{os.fspath(path)!r} holds {max(counts)} realisations of each theta ({x[0]} to {x[-1]})",
            code="bad-file",
            why="a CSV file does not say so, and they would be read as outputs of one run",
            fix=f"pass m={max(counts)}",
        )


def _check_weights(path: PathLike, header: list[str], named: list[str], *, given: str | None) -> None:
    """Refuse weights that would be read as an output, be forgotten, or be applied twice."""
    weighty = [name for name in header if re.sub("[^a-z]", "", name.lower()) in _WEIGHTY and name not in named]
    if given and "log_weight" in weighty and given != "log_weight":
        raise WeightError(
            f"weights given twice: {os.fspath(path)!r} has a column log_weight, and {given} was passed",
            code="conflicting-settings",
            why="they would be applied twice, or one of them be forgotten",
            fix="leave one out",
        )
    other = [name for name in weighty if name != "log_weight"]
    if other and not given:
        raise DataError(
            f"{os.fspath(path)!r}: {', '.join(other)} would be read as an output or be forgotten, not as a weight",
            code="bad-file",
            why="without its weights a table stands for another prior",
            fix=f"pass weights={other[0]!r} if it is linear, rename it log_weight if a logarithm, or name it in x=",
        )


def _realisations(path: PathLike, x: Array, m: int) -> Array:
    if not isinstance(m, int | np.integer) or isinstance(m, bool) or m < 1 or x.shape[1] % m:
        raise DataError(
            f"{os.fspath(path)!r} has {x.shape[1]} output columns, which are not {m!r} realisations", code="bad-file"
        )
    return x if m == 1 else x.reshape(len(x), int(m), -1)


def _common(x: list[str], m: int) -> tuple[str, ...]:
    """Names of the statistics; with several realisations those of the first, without its number."""
    first = x if m == 1 else [_REALISATION.sub("", name) for name in x[: len(x) // m]]
    plain = m > 1 and first == [f"x_{i + 1}" for i in range(len(first))]  # what columns without names are called
    return () if plain else tuple(first)


def _as_recorded(
    table: Simulations, path: PathLike, header: list[str], body: list[list[str]], used: set[str]
) -> Simulations:
    """The table with the `status` and `index` of the file, unless those columns were named for something else."""
    recorded: dict[str, Any] = {}
    if "status" in header and "status" not in used:
        recorded["status"] = np.array([line[header.index("status")].strip() for line in body], dtype=np.str_)
        other = sorted(set(recorded["status"].tolist()) - set(STATUSES))
        if other:
            raise DataError(
                f"{os.fspath(path)!r} column 'status' holds {other[0]!r}; known are {', '.join(STATUSES)}",
                code="bad-file",
                why="runs that failed must not be taken for runs that went well",
                fix="translate it, or rename the column",
            )
    if "index" in header and "index" not in used:
        values = _columns(path, header, body)("index")
        if not (np.isfinite(values) & (values == np.round(values))).all():
            raise DataError(
                f"{os.fspath(path)!r} column 'index' does not hold whole numbers",
                code="bad-file",
                fix="rename it, or name it in x=",
            )
        recorded["index"] = values.astype(np.int64)
    return replace(table, **recorded) if recorded else table


def _read_csv(path: PathLike) -> tuple[list[str], list[list[str]]]:
    file_name = as_path(path)
    try:
        with file_name.open(newline="", encoding="utf-8-sig") as file:
            lines = [line for line in csv.reader(file) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read {os.fspath(path)!r} as CSV: {error}", code="bad-file") from None
    if len(lines) < 2:
        raise DataError(f"{os.fspath(path)!r} has no rows below its header", code="bad-file")
    header = [name.strip() for name in lines[0]]
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(header):
            raise DataError(
                f"{os.fspath(path)!r} line {number} has {len(line)} values, the header {len(header)}", code="bad-file"
            )
    return header, lines[1:]


def _columns(path: PathLike, header: list[str], body: list[list[str]]) -> Callable[[str], Array]:
    def column(name: str) -> Array:
        place = header.index(name)
        values = np.empty(len(body))
        for row, line in enumerate(body):
            text = line[place].strip()
            try:
                values[row] = float(text) if text else np.nan  # an empty cell is a failed output
            except ValueError:
                raise DataError(
                    f"{os.fspath(path)!r} line {row + 2} column {name!r}: {text!r} is not a number", code="bad-file"
                ) from None
        return values

    return column
