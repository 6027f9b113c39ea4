"""Reading an observation: csv or text, json, npy; plain numbers, nothing executed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from thrifty.errors import DataError, ThriftyError
from thrifty.types import Array

LARGEST = 256 * 2**20


def read_observed(path: Path) -> Array:
    """The numbers of a file.

    Raises:
        DataError: bad-observation, there is no such file, or something in it is not a number.
    """
    from thrifty.runner.command import read_csv, read_npy

    try:
        if path.stat().st_size > LARGEST:
            raise DataError(f"{path} is larger than 256 MB: not one observation", code="bad-observation")
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read the observed data {path}: {error.strerror}", code="bad-observation") from None
    try:
        if path.suffix == ".npy":
            return np.asarray(read_npy(data, path.name).x, dtype=np.float64)
        if path.suffix == ".json":
            return _from_json(json.loads(data))
        return np.asarray(read_csv(data, path.name).x, dtype=np.float64)
    except (ThriftyError, ValueError, TypeError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        what = getattr(error, "what", str(error))
        raise DataError(
            f"observed data: {what}",
            code="bad-observation",
            fix="numbers separated by commas, blanks or lines; or .json, .npy",
        ) from None


def _from_json(value: Any) -> Array:
    value = value.get("x", value) if isinstance(value, dict) else value
    return np.asarray(value, dtype=np.float64)
