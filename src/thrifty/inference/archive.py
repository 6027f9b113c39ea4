"""Files of plain arrays and one JSON recipe; reading them executes nothing and trusts no size.

The file is a zip of `.npy` members, stored without compression (so no member can be larger than the file), as
`numpy.savez` writes it. Each member is parsed here: its dtype must be on a short list, and its shape must match its
number of bytes. Every posterior writes itself as such a file and rebuilds itself from the recipe and the arrays;
`saving.load_posterior` reads the file and chooses the class.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError, StorageError
from thrifty.priors import as_prior
from thrifty.priors.prior_dict import prior_from_dict, prior_to_dict
from thrifty.types import Levels, Prior
from thrifty.version import __version__

FORMAT = 1
_RECIPE = "recipe"
_DTYPES = ("<f4", "<f8", "<i8", "|u1", "|b1")
Recipe = dict[str, Any]
Arrays = dict[str, npt.NDArray[Any]]


class Supplied(NamedTuple):
    """What the user passes to `th.load_posterior` because a file cannot hold it: objects made of code."""

    prior: Any = None
    network: Any = None
    embedding: Any = None
    likelihood: Any = None

    def choose_prior(self, recipe: Mapping[str, Any]) -> Prior:
        """Return the user's prior, or else the one in the recipe."""
        return as_prior(self.prior) if self.prior is not None else prior_from_dict(recipe["prior"])


def describe_prior(prior: Prior | None) -> Recipe:
    """Return an entry of a recipe with the prior as numbers; none where there is none, or it is made of code."""
    written = {} if prior is None else prior_to_dict(prior)
    return {"prior": written} if written.get("kind", "given") != "given" else {}


def read_prior(recipe: Mapping[str, Any], supplied: Supplied) -> Prior | None:
    """Return the user's prior, or the one that `describe_prior` wrote, or None."""
    return supplied.choose_prior(recipe) if supplied.prior is not None or "prior" in recipe else None


def describe_levels(levels: Levels) -> Recipe:
    """Return an entry of a recipe that says what values parameters take; none where all are numbers."""
    return {"levels": [None if level is None else list(level) for level in levels]} if levels else {}


def read_levels(recipe: Mapping[str, Any], dim: int) -> Levels:
    """Read the entry that `describe_levels` wrote."""
    levels = recipe.get("levels") or ()
    if len(levels) not in (0, dim):
        raise DataError(f"kinds of {len(levels)} parameters in a file of {dim}", code="bad-file")
    return tuple(None if level is None else tuple(map(str, level)) for level in levels)


def write(path: str | Path, recipe: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a file atomically: a reader sees the old file or the new one, never a part.

    Raises:
        StorageError: disk-problem.
    """
    path = Path(path)
    text = json.dumps({"format": FORMAT, "version": __version__, **recipe}, allow_nan=True).encode()
    members = {_RECIPE: np.frombuffer(text, dtype=np.uint8), **arrays}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as out:
        for name, values in members.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, np.ascontiguousarray(values).reshape(np.shape(values)), allow_pickle=False)
            out.writestr(zipfile.ZipInfo(name + ".npy"), data.getvalue())  # no clock: same content, same bytes
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as handle:
            handle.write(buffer.getvalue())
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageError(
            f"cannot write {path}: {error.strerror}", code="disk-problem", fix="choose another place"
        ) from error


def write_members(path: str | Path, parts: Sequence[tuple[Recipe, Arrays]], *, prior: Recipe, ensemble: bool) -> None:
    """Write one or several posteriors under one prior to one file."""
    write(path, *join_members(parts, kind="posterior", ensemble=ensemble, prior=prior))


def join_members(parts: Sequence[tuple[Recipe, Arrays]], **values: Any) -> tuple[Recipe, Arrays]:
    """Join the parts of several posteriors to one recipe with these values and one set of arrays, "0/…", "1/…"."""
    recipe = values | {"members": [own for own, _ in parts]}
    return recipe, {f"{i}/{name}": array for i, (_, own) in enumerate(parts) for name, array in own.items()}


def read(path: Path, *kinds: str) -> tuple[Recipe, Arrays]:
    """Read the recipe and the arrays of a file of one of these kinds.

    Raises:
        DataError: bad-file not such a file or damaged, newer-version written by a newer thrifty.
    """
    if not path.is_file():
        raise DataError(f"no file {path}", code="bad-file")
    try:
        arrays = _read_members(path)
        recipe = json.loads(arrays.pop(_RECIPE).tobytes().decode())
    except DataError:
        raise
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError, RecursionError, NotImplementedError) as error:
        raise _damaged(path, str(error) or type(error).__name__) from None
    if not isinstance(recipe, dict) or not isinstance(recipe.get("format"), int):
        raise _damaged(path, "no format number")
    if recipe["format"] > FORMAT:
        raise DataError(
            f"{path} has format {recipe['format']}, this thrifty reads up to {FORMAT}",
            code="newer-version",
            fix="upgrade thrifty",
        )
    if recipe.get("kind") not in kinds:
        raise DataError(
            f"{path} holds {str(recipe.get('kind'))[:40]!r}, expected {' or '.join(map(repr, kinds))}", code="bad-file"
        )
    return recipe, arrays


def select(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> Arrays:
    """Return the arrays whose names begin with the prefix, under the rest of their names.

    Example:
        >>> select({"a/x": np.zeros(1), "b/x": np.ones(1)}, "b/")
        {'x': array([1.])}
    """
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}


def _damaged(path: Path, reason: str) -> DataError:
    clean = "".join(ch for ch in reason if ch.isprintable())[:200]
    return DataError(f"{path} is not a file thrifty wrote, or is damaged: {clean}", code="bad-file")


def _read_members(path: Path) -> Arrays:
    arrays: Arrays = {}
    whole = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > whole or not info.filename.endswith(".npy"):
                raise _damaged(path, f"member {info.filename!r} is compressed, too large or not an array")
            arrays[info.filename.removesuffix(".npy")] = _read_array(path, info.filename, archive.read(info))
    return arrays


def _read_array(path: Path, name: str, data: bytes) -> npt.NDArray[Any]:
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise _damaged(path, f"array {name!r} has an unknown version")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream, max_header_size=2_000)
    rest = len(data) - stream.tell()
    if dtype.str not in _DTYPES or fortran or math.prod(shape) * dtype.itemsize != rest or len(shape) > 16:
        raise _damaged(path, f"array {name!r} of {dtype.str} and shape {shape} does not fit its {rest} bytes")
    return np.frombuffer(data, dtype=dtype, offset=stream.tell()).reshape(shape).copy()
