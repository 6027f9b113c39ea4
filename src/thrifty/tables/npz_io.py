"""Plain npz files. Nothing is unpickled, and every number read is checked again by `Simulations`."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from typing import Any
from zipfile import BadZipFile

import numpy as np

from thrifty.errors import DataError
from thrifty.tables.columns import PER_RUN, Columns, PathLike, as_path, check_target
from thrifty.tables.saved_proposal import MAX_RECIPE_CHARACTERS


def to_npz(columns: Columns, path: PathLike) -> None:
    """Write plain numpy arrays (compressed, no pickle)."""
    target = check_target(path)
    about = np.array(json.dumps(columns.describe()))
    with target.open("wb") as file:  # an open file keeps numpy from adding .npz to the name
        np.savez_compressed(file, about=about, **{name: getattr(columns, name) for name in PER_RUN})


def from_npz(path: PathLike) -> Columns:
    """Read `theta` and `x` (and `log_weights`, `cost`, `status`, `index` where present) from an npz file."""
    data = _read_arrays(path)
    missing = [name for name in ("theta", "x") if name not in data]
    if missing:
        raise DataError(
            f"{os.fspath(path)!r} holds {', '.join(data) or 'nothing'}, but no {' and no '.join(missing)}",
            code="bad-file",
        )
    unknown = sorted(set(data) - {*PER_RUN, "about"})
    if unknown:
        raise DataError(
            f"{os.fspath(path)!r} holds {', '.join(unknown)}, which would be dropped",
            code="bad-file",
            why="a weight by another name would be forgotten",
            fix="name it log_weights, or pass weights= and save the rest elsewhere",
        )
    about = _read_description(data)
    return Columns(
        **{name: data[name] for name in PER_RUN if name in data},
        m=int(about.get("m", 1)),
        names=tuple(about.get("names", ())),
        x_names=tuple(about.get("x_names", ())),
        unit=str(about.get("unit", "s")),
        proposal=about.get("proposal"),
    )


def _read_arrays(path: PathLike) -> dict[str, Any]:
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


def _read_description(data: Mapping[str, Any]) -> dict[str, Any]:
    try:
        text = str(data["about"]) if "about" in data else "{}"
        if len(text) > MAX_RECIPE_CHARACTERS:
            raise DataError(f"a description of {len(text):,} characters is not one that thrifty wrote", code="bad-file")
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        about = {}
    return about if isinstance(about, dict) else {}
