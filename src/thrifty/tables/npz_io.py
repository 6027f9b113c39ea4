"""Plain npz files. Nothing is unpickled, and every number read is checked again by `Simulations`."""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO, Any, BinaryIO
from zipfile import BadZipFile

import numpy as np

from thrifty.errors import DataError
from thrifty.tables.columns import PER_RUN, Columns, PathLike, check_room, check_source, check_target
from thrifty.tables.saved_proposal import MAX_RECIPE_CHARACTERS

MAX_INFLATION = 1032  # deflate makes at most so many bytes of one
MAX_HEADER_BYTES = 10_000  # of an array in numpy's format


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
    file_name = check_source(path)
    try:
        with file_name.open("rb") as file:  # ours to close: numpy leaves a damaged zip open
            _check_sizes(path, file)
            loaded = np.load(file, allow_pickle=False)
            if not isinstance(loaded, np.ndarray):
                with loaded as arrays:
                    return {name: arrays[name] for name in arrays.files}
    except DataError:
        raise
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error, RuntimeError, MemoryError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(f"cannot read {os.fspath(path)!r} as plain arrays: {what}", code="bad-file") from None
    raise DataError(
        f"{os.fspath(path)!r} holds one array of shape {loaded.shape}, not a table of runs",
        code="bad-file",
        fix="np.savez(path, theta=..., x=...), or th.Simulations.from_arrays(theta=..., x=...)",
    )


def _check_sizes(path: PathLike, file: BinaryIO) -> None:
    """Refuse arrays whose declared sizes do not fit their bytes, or that memory cannot hold, before any is made."""
    file.seek(0)
    total, whole = 0, os.fstat(file.fileno()).st_size
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as members:
            for info in members.infolist():
                packed = min(info.compress_size, whole)
                if info.file_size > MAX_INFLATION * packed + MAX_HEADER_BYTES:
                    raise ValueError(f"{info.filename} declares {info.file_size:,} bytes packed into {packed:,}")
                total += info.file_size
                if info.filename.endswith(".npy"):
                    with members.open(info) as member:
                        _check_header(info.filename, member, info.file_size)
    else:
        file.seek(0)
        _check_header("the array", file, whole)
        total = whole
    file.seek(0)
    check_room(path, total)


def _check_header(name: str, stream: IO[bytes], size: int) -> None:
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    start = stream.read(8)
    version = (start[6], start[7]) if len(start) == 8 else (0, 0)
    if start[:6] != b"\x93NUMPY" or version not in read:
        return  # no array that numpy would make here
    body = io.BytesIO(stream.read(MAX_HEADER_BYTES))
    shape, _, dtype = read[version](body, max_header_size=MAX_HEADER_BYTES)
    if math.prod(shape) * dtype.itemsize != size - 8 - body.tell() and not dtype.hasobject:
        raise ValueError(f"{name} declares shape {shape} of {dtype}, which does not fit its {size:,} bytes")


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
