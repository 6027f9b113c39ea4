"""The plain columns of a table of runs: what files and other tools give and take.

Column names of a flat table: parameters by their names, outputs by theirs (`x_1`, `x_2`, ... when they have none;
`y[1]`, `y[2]`, ... for several realisations), then `log_weight`, `cost`, `status`, `index`. Everything that is read is
checked again by `Simulations`; nothing is unpickled.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from thrifty.errors import DataError
from thrifty.tables.saved_proposal import describe_proposal
from thrifty.types import Array, levels_of

PathLike = str | os.PathLike[str]
FORMAT = 1
PER_RUN = ("theta", "x", "log_weights", "cost", "status", "index")  # arrays with one entry per run
OWN_COLUMNS = ("log_weight", "cost", "status", "index")  # of a flat table, after parameters and outputs


@dataclass(frozen=True, eq=False)
class Columns:
    """Arrays and names of a table of runs, not checked; `Simulations` is the same, checked, with weights."""

    theta: Array
    x: Array
    log_weights: Array | None = None
    cost: Array | None = None
    status: npt.NDArray[np.str_] | None = None
    index: npt.NDArray[np.int64] | None = None
    m: int = 1
    names: tuple[str, ...] = ()
    x_names: tuple[str, ...] = ()
    unit: str = "s"
    proposal: Any = None  # the weighting itself; as plain numbers where it is read from a file

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the parameters, numbered where they have none."""
        return self.names or tuple(f"theta_{i + 1}" for i in range(self.theta.shape[1]))

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the flattened outputs.

        Raises:
            DataError: bad-name, two columns of the flat table would have one name.
        """
        count = int(np.prod(self.x.shape[1:])) // self.m
        x = self.x_names or tuple(f"x_{i + 1}" for i in range(count))
        if self.m > 1:  # y[1], y[2], ...: a flat file that loses m still shows it
            x = tuple(f"{name}[{r + 1}]" for r in range(self.m) for name in x)
        names = (*self.parameter_names, *x)
        taken = [name for name in names if name in OWN_COLUMNS or names.count(name) > 1]
        if taken:
            raise DataError(
                f"column name {taken[0]!r} would be used twice", code="bad-name", fix="rename the parameter or output"
            )
        return x

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """Labels of the categories of each categorical parameter, from the prior behind the proposal; else empty."""
        prior = getattr(self.proposal, "prior", None)
        named = () if prior is None else zip(prior.names, levels_of(prior), strict=True)
        return {name: level for name, level in named if level}

    def flatten(self) -> dict[str, npt.NDArray[Any]]:
        """Return column name -> values (n,) of the flat table, in order."""
        x = self.output_names
        tables = zip((self.parameter_names, x), (self.theta, self.x.reshape(len(self.x), len(x))), strict=True)
        columns = {name: column for names, table in tables for name, column in zip(names, table.T, strict=True)}
        own = (self.log_weights, self.cost, self.status, self.index)
        return columns | {name: np.asarray(values) for name, values in zip(OWN_COLUMNS, own, strict=True)}

    def describe_proposal(self) -> dict[str, Any] | None:
        """Return the proposal as numbers, where it has them."""
        weights = np.zeros(len(self.theta)) if self.log_weights is None else self.log_weights
        return describe_proposal(self.proposal, self.theta, weights)

    def describe(self) -> dict[str, Any]:
        """Return names, shape, m, unit and the proposal as numbers: what flat columns lose."""
        return {
            "format": FORMAT,
            "theta": list(self.parameter_names),
            "names": list(self.names),
            "x_names": list(self.x_names),
            "x": list(self.output_names),
            "event": list(self.x.shape[1:]),
            "m": self.m,
            "unit": self.unit,
            "proposal": self.describe_proposal(),
            **({"labels": {name: list(labels) for name, labels in self.labels.items()}} if self.labels else {}),
        }


def as_path(path: Any) -> Path:
    """Read the name of a file."""
    try:
        return Path(path)
    except TypeError:
        raise DataError(f"path must be the name of a file, got {path!r}", code="bad-file") from None


def check_source(path: PathLike) -> Path:
    """Refuse to read what is there but is no file: a pipe or a device may never end."""
    source = as_path(path)
    try:
        is_other = source.exists() and not source.is_file()
    except OSError as error:
        raise DataError(f"cannot read {os.fspath(path)!r:.200}: {error.strerror}", code="bad-file") from None
    if is_other:
        raise DataError(f"cannot read {os.fspath(path)!r}: it is not a file", code="bad-file", fix="name a file")
    return source


def check_room(path: PathLike, size: int) -> None:
    """Refuse a table of so many bytes where there is less memory, before any of it is allocated."""
    free = psutil.virtual_memory().available
    if size > free:
        declared, left = f"{size / 2**30:,.3g} GB", f"{free / 2**30:,.3g} GB"
        raise DataError(
            f"{os.fspath(path)!r} declares {declared} of numbers, {left} of memory are free",
            code="bad-file",
            why="a damaged or hostile file may declare any size",
            fix="if it is really so large: read it where there is more memory, or in parts",
        )


def check_target(path: PathLike) -> Path:
    """Refuse to write into a folder that does not exist, or over one."""
    target = as_path(path)
    if target.is_dir():
        raise DataError(f"{os.fspath(path)!r} is a folder", code="bad-file", fix="give the name of a file in it")
    if not target.parent.is_dir():
        raise DataError(
            f"cannot write {os.fspath(path)!r}: there is no folder {os.fspath(target.parent)!r}",
            code="bad-file",
            fix="make it first, or check the spelling",
        )
    return target


def as_run_numbers(values: Array, label: str, *, code: str, fix: str) -> npt.NDArray[np.int64]:
    """Read a column `index` (n,), which must hold whole numbers."""
    if not (np.isfinite(values) & (values == np.round(values))).all():
        raise DataError(f"{label} does not hold whole numbers", code=code, fix=fix)
    return values.astype(np.int64)
