"""Plain npz files. Nothing is unpickled, and every number read is checked again by `Simulations`."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.tables.pandas_io import PathLike, as_path, check_folder, description
from thrifty.tables.simulations import Simulations
from thrifty.types import Weighting


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
            f"{os.fspath(path)!r} holds {', '.join(data) or 'nothing'}, but no {' and no '.join(missing)}",
            code="bad-file",
        )
    unknown = sorted(set(data) - {"theta", "x", "log_weights", "cost", "status", "index", "about"})
    if unknown:
        raise DataError(
            f"{os.fspath(path)!r} holds {', '.join(unknown)}, which would be dropped",
            code="bad-file",
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
    file_name = as_path(path)
    try:
        with file_name.open("rb") as file:  # ours to close: numpy leaves a damaged zip open
            loaded = np.load(file, allow_pickle=False)
            if not isinstance(loaded, np.ndarray):
                with loaded as arrays:
                    return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error, NotImplementedError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(f"cannot read {os.fspath(path)!r} as plain arrays: {what}", code="bad-file") from None
    raise DataError(
        f"{os.fspath(path)!r} holds one array of shape {loaded.shape}, not a table of runs",
        code="bad-file",
        fix="np.savez(path, theta=..., x=...), or th.Simulations.from_arrays(theta=..., x=...)",
    )


def _about(data: Mapping[str, Any]) -> dict[str, Any]:
    try:
        about = json.loads(str(data["about"])) if "about" in data else {}
    except ValueError:
        about = {}
    return about if isinstance(about, dict) else {}
