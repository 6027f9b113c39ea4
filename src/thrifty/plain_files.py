"""Plain files: npz and csv. Nothing is unpickled, and every number read is checked again by `Simulations`."""

from __future__ import annotations

import csv
import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.exchange import PathLike, check_folder, description
from thrifty.types import STATUSES, Array, Simulations, Weighting


def to_npz(simulations: Simulations, path: PathLike) -> None:
    """Write plain numpy arrays (compressed, no pickle)."""
    check_folder(path)
    about = json.dumps(description(simulations))
    arrays = {name: getattr(simulations, name) for name in ("theta", "x", "log_weights", "cost", "status", "index")}
    with Path(path).open("wb") as file:  # an open file keeps numpy from adding .npz to the name
        np.savez_compressed(file, about=np.array(about), **arrays)


def from_npz(path: PathLike, *, weights: npt.ArrayLike | None = None, proposal: Weighting | None = None) -> Simulations:
    """Read `theta` and `x` (and `log_weights`, `cost`, `status`, `index` where present) from an npz file.

    Args:
        path: Written by `to_npz`, or by anyone with those names; never unpickled.
        weights: Linear weights, where the file has none.
        proposal: A known proposal to compute them from, where the file has none.
    """
    data = _arrays(path)
    missing = [name for name in ("theta", "x") if name not in data]
    if missing:
        raise DataError(
            f"{os.fspath(path)!r} holds {', '.join(data) or 'nothing'}, but no {' and no '.join(missing)}", code="D13"
        )
    unknown = sorted(set(data) - {"theta", "x", "log_weights", "cost", "status", "index", "about"})
    if unknown:
        raise DataError(
            f"{os.fspath(path)!r} holds {', '.join(unknown)}, which would be dropped",
            code="D13",
            why="a weight by another name would be forgotten",
            fix="name it log_weights, or pass weights= and save the rest elsewhere",
        )
    about = _about(data)
    weighed = Simulations.from_arrays(
        theta=data["theta"], x=data["x"], log_weights=data.get("log_weights"), weights=weights, proposal=proposal,
        m=int(about.get("m", 1)),
    )  # fmt: skip
    return Simulations(
        theta=weighed.theta,
        x=weighed.x,
        log_weights=weighed.log_weights,
        cost=data.get("cost"),  # type: ignore[arg-type]
        status=data.get("status"),  # type: ignore[arg-type]
        index=data.get("index"),  # type: ignore[arg-type]
        m=weighed.m,
        names=tuple(about.get("names", ())),
        x_names=tuple(about.get("x_names", ())),
        unit=str(about.get("unit", "s")),
        proposal=proposal,
    )


def _arrays(path: PathLike) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:  # ours to close: numpy leaves a damaged zip open
            loaded = np.load(file, allow_pickle=False)
            if not isinstance(loaded, np.ndarray):
                with loaded as arrays:
                    return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error, NotImplementedError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(f"cannot read {os.fspath(path)!r} as plain arrays: {what}", code="D13") from None
    raise DataError(
        f"{os.fspath(path)!r} holds one array of shape {loaded.shape}, not a table of runs",
        code="D13",
        fix="np.savez(path, theta=..., x=...), or th.Simulations.from_arrays(theta=..., x=...)",
    )


def _about(data: Mapping[str, Any]) -> dict[str, Any]:
    try:
        about = json.loads(str(data["about"])) if "about" in data else {}
    except ValueError:
        about = {}
    return about if isinstance(about, dict) else {}


def from_csv(
    path: PathLike,
    *,
    theta: Sequence[str],
    x: Sequence[str] | None = None,
    weights: str | None = None,
    cost: str | None = None,
    proposal: Weighting | None = None,
) -> Simulations:
    """Read runs from a CSV file with a header line.

    Args:
        path: The file.
        theta: Columns that are parameters.
        x: Columns that are outputs; all other numeric columns when left out.
        weights: Column of linear weights; a column `log_weight` is used without being named.
        cost: Column of measured costs; `cost` is used without being named, like `status` and `index`.
        proposal: A known proposal to compute the weights from.

    Raises:
        DataError: D13, with line and column of what is not a number.
    """
    header, body = _read_csv(path)
    special = {name for name in (weights, cost or "cost", "log_weight", "status", "index") if name}
    x = [name for name in header if name not in theta and name not in special] if x is None else list(x)
    weighty = {"weight", "weights", "w", "log_weight", "log_weights", "sample_weight"} & set(x)
    twice = sorted((set(theta) & set(x)) | ({weights or ""} & {*theta, *x}))
    if weighty or twice:
        raise DataError(
            f"{os.fspath(path)!r}: {', '.join(sorted(weighty) or twice)} would be read as an output"
            + (" and as something else" if twice else ", not as a weight"),
            code="D13",
            fix='name the columns: x=[...], weights="weight"',
        )
    wanted = [*theta, *x, *(name for name in (weights, cost) if name)]
    unknown = [name for name in wanted if name not in header]
    if unknown or not theta or not x:
        raise DataError(
            f"{os.fspath(path)!r} has columns {', '.join(header)}; no {', '.join(unknown) or 'parameter or output'}",
            code="D13",
        )
    column = _columns(path, header, body)
    use_log = "log_weight" in header and weights is None and proposal is None
    timed = cost or ("cost" if "cost" in header else None)
    table = Simulations.from_arrays(
        theta=np.column_stack([column(name) for name in theta]),
        x=np.column_stack([column(name) for name in x]),
        log_weights=column("log_weight") if use_log else None,
        weights=column(weights) if weights else None,
        proposal=proposal,
        cost=column(timed) if timed else None,
        names=tuple(theta),
        x_names=tuple(x),
    )
    return _as_recorded(table, path, header, body, {*theta, *x})


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
                code="D13",
                why="runs that failed must not be taken for runs that went well",
                fix="translate it, or rename the column",
            )
    if "index" in header and "index" not in used:
        values = _columns(path, header, body)("index")
        if not (np.isfinite(values) & (values == np.round(values))).all():
            raise DataError(
                f"{os.fspath(path)!r} column 'index' does not hold whole numbers",
                code="D13",
                fix="rename it, or name it in x=",
            )
        recorded["index"] = values.astype(np.int64)
    return replace(table, **recorded) if recorded else table


def _read_csv(path: PathLike) -> tuple[list[str], list[list[str]]]:
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            lines = [line for line in csv.reader(file) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read {os.fspath(path)!r} as CSV: {error}", code="D13") from None
    if len(lines) < 2:
        raise DataError(f"{os.fspath(path)!r} has no rows below its header", code="D13")
    header = [name.strip() for name in lines[0]]
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(header):
            raise DataError(
                f"{os.fspath(path)!r} line {number} has {len(line)} values, the header {len(header)}", code="D13"
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
                    f"{os.fspath(path)!r} line {row + 2} column {name!r}: {text!r} is not a number", code="D13"
                ) from None
        return values

    return column
