"""Outputs in a file instead of memory: an array of any size that inference reads piece by piece."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from thrifty.errors import StorageError
from thrifty.types import Array

FILL_BYTES = 2**24  # written at once


def make_file_array(folder: Path, shape: tuple[int, ...]) -> Array:
    """Make an array of NaN in a file without a name, in the campaign's folder or else the temporary folder.

    The file has no name from the beginning: nobody can change it or prepare it, and its room on the disk is free again
    as soon as the array is gone, also after a kill. Room is reserved at once, so that a full disk is an error
    here and not a signal later.

    Raises:
        StorageError: disk-problem, there is no room for it.
    """
    size = 8 * int(np.prod(shape, dtype=object))
    if size == 0:
        return np.full(shape, np.nan)
    with _open_unnamed(folder) as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            piece = np.full(min(size, FILL_BYTES) // 8, np.nan).tobytes()
            for at in range(0, size, len(piece)):
                os.pwrite(file.fileno(), piece[: size - at], at)
        except OSError as error:
            raise StorageError(
                f"cannot lay out {size / 2**30:.3g} GB of outputs beside {folder}: {error.strerror}",
                code="disk-problem",
                why="simulations(lazy=True) keeps outputs in a file of that size while the table is used",
                fix="make room on that disk, or set TMPDIR to one that has it and make the folder read-only",
            ) from None
        return np.memmap(file, dtype=np.float64, mode="r+", shape=shape)


def _open_unnamed(folder: Path):
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError:  # a folder that may only be read
        return tempfile.TemporaryFile()
