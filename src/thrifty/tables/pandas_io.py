"""Tables in and out: pandas, parquet, ArviZ, BayesFlow. The weights always travel along.

Column names of a flat table: parameters by their names, outputs by theirs (`x_1`, `x_2`, ... when they have none;
`y[1]`, `y[2]`, ... for several realisations), then `log_weight`, `cost`, `status`, `index`. Everything that is read is
checked again by `Simulations`; nothing is unpickled. Libraries are imported when asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError, MissingExtraError
from thrifty.tables.simulations import Simulations
from thrifty.types import Array
from thrifty.weights import normalise

if TYPE_CHECKING:
    import arviz
    import pandas

PathLike = str | os.PathLike[str]
_OWN = ("log_weight", "cost", "status", "index")
_FORMAT = 1
_ABOUT = {"theta", "x", "event", "m", "names", "x_names", "unit"}


def need(module: str, extra: str) -> Any:
    """Import an optional library, or say how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module} is not installed ({error})",
            code="missing-extra",
            fix=f'pip install "thrifty[{extra}]"',
        ) from None


def as_path(path: Any) -> Path:
    """Read the name of a file."""
    try:
        return Path(path)
    except TypeError:
        raise DataError(f"path must be the name of a file, got {path!r}", code="bad-file") from None


def some_valid(simulations: Simulations) -> Simulations:
    """The valid runs, of which there must be one."""
    runs = simulations.valid()
    if not len(runs):
        raise DataError(
            f"none of {len(simulations)} runs is valid",
            code="too-few-runs",
            fix="look at simulations.status: how did they fail?",
        )
    return runs


def check_folder(path: PathLike) -> None:
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


def column_names(simulations: Simulations) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the parameters and of the flattened outputs."""
    theta = simulations.names or tuple(f"theta_{i + 1}" for i in range(simulations.dim))
    count = int(np.prod(simulations.x.shape[1:])) // simulations.m
    x = simulations.x_names or tuple(f"x_{i + 1}" for i in range(count))
    if simulations.m > 1:  # y[1], y[2], ...: a flat file that loses m still shows it
        x = tuple(f"{name}[{r + 1}]" for r in range(simulations.m) for name in x)
    taken = [name for name in (*theta, *x) if name in _OWN or (*theta, *x).count(name) > 1]
    if taken:
        raise DataError(
            f"column name {taken[0]!r} would be used twice", code="bad-name", fix="rename the parameter or output"
        )
    return theta, x


def to_pandas(simulations: Simulations) -> pandas.DataFrame:
    """A flat DataFrame; names, shape, m and unit in `frame.attrs["thrifty"]`."""
    pandas = need("pandas", "arviz")
    theta, x = column_names(simulations)
    flat = simulations.x.reshape(len(simulations), len(x))
    columns = dict(zip(theta, simulations.theta.T, strict=True)) | dict(zip(x, flat.T, strict=True))
    columns |= {"log_weight": simulations.log_weights, "cost": simulations.cost}
    frame = pandas.DataFrame(columns | {"status": simulations.status.astype(str), "index": simulations.index})
    frame.attrs["thrifty"] = description(simulations)
    return frame


def description(simulations: Simulations) -> dict[str, Any]:
    """Names, shape, m and unit: what flat columns lose."""
    return {
        "format": _FORMAT,
        "theta": list(column_names(simulations)[0]),
        "names": list(simulations.names),
        "x_names": list(simulations.x_names),
        "x": list(column_names(simulations)[1]),
        "event": list(simulations.x.shape[1:]),
        "m": simulations.m,
        "unit": simulations.unit,
    }


def from_pandas(frame: pandas.DataFrame) -> Simulations:
    """The table written by `to_pandas`, bit for bit (parquet keeps `attrs` too)."""
    about = getattr(frame, "attrs", {}).get("thrifty")
    if not isinstance(about, Mapping) or about.get("format") != _FORMAT or not set(about) >= _ABOUT:
        raise DataError(
            f"this {type(frame).__name__} was not written by to_pandas, or has lost its attrs",
            code="bad-array",
            fix="use from_arrays or from_csv",
        )
    theta = list(about["theta"])
    x = list(about["x"])  # by name: a frame may have been rearranged
    missing = [name for name in [*theta, *x, *_OWN] if name not in frame.columns]
    if missing:
        raise DataError(f"the frame lost its columns {', '.join(missing)}", code="bad-array")
    index = _numbers(frame, ["index"])[:, 0]
    if not (np.isfinite(index) & (index == np.round(index))).all():
        raise DataError("column 'index' of the frame does not hold whole numbers", code="bad-array", fix="restore it")
    return Simulations(
        theta=_numbers(frame, theta),
        x=_numbers(frame, x).reshape(len(frame), *about["event"]),
        log_weights=_numbers(frame, ["log_weight"])[:, 0],
        cost=_numbers(frame, ["cost"])[:, 0],
        status=frame["status"].to_numpy(dtype=np.str_),
        index=frame["index"].to_numpy(dtype=np.int64),
        m=int(about["m"]),
        names=tuple(about["names"]),
        x_names=tuple(about["x_names"]),
        unit=str(about["unit"]),
    )


def _numbers(frame: pandas.DataFrame, columns: list[str]) -> Array:
    try:
        return frame[columns].to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"columns {', '.join(columns)[:60]} do not hold numbers: {error}", code="bad-array") from None


def to_parquet(simulations: Simulations, path: PathLike) -> None:
    """Write a parquet file, weights and all."""
    need("pyarrow", "arviz")
    check_folder(path)
    to_pandas(simulations).to_parquet(path, index=False)


def from_parquet(path: PathLike) -> Simulations:
    """Read what `to_parquet` wrote."""
    need("pyarrow", "arviz")
    pandas = need("pandas", "arviz")
    file_name = as_path(path)
    try:
        frame = pandas.read_parquet(file_name)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {os.fspath(path)!r} as parquet: {error}", code="bad-file") from None
    return from_pandas(frame)


def to_dict(simulations: Simulations) -> dict[str, Array]:
    """Arrays for BayesFlow: one entry per parameter (n, 1), `x`, and `sample_weight` (n,) with mean 1.

    Failed runs are left out; with m > 1 each pair is a row. BayesFlow multiplies the loss by `sample_weight`.
    """
    theta, x, log_weights = some_valid(simulations).pairs()
    names = simulations.names or tuple(f"theta_{i + 1}" for i in range(simulations.dim))
    clash = {"x", "sample_weight"} & set(names)
    if clash:
        raise DataError(
            f"parameter name {min(clash)!r} would be used twice", code="bad-name", fix="rename the parameter"
        )
    columns = {name: np.array(column[:, None]) for name, column in zip(names, theta.T, strict=True)}
    return columns | {"x": np.array(x), "sample_weight": normalise(log_weights) * len(theta)}


def to_arviz(simulations: Simulations) -> arviz.InferenceData:
    """Prior draws (`prior`), their outputs (`prior_predictive`) and log weights (`sample_stats_prior`) for ArviZ.

    One chain; failed runs are left out. `log_weight` is normalised (its exponentials sum to one), so that
    `arviz.extract(idata, group="prior")` rows can be resampled by `exp(log_weight)`.
    """
    arviz = need("arviz", "arviz")
    theta, x, log_weights = some_valid(simulations).pairs()
    names = simulations.names or tuple(f"theta_{i + 1}" for i in range(simulations.dim))
    with np.errstate(divide="ignore"):
        stats = {"log_weight": np.log(normalise(log_weights))[None]}
    return arviz.from_dict(
        prior={name: column[None] for name, column in zip(names, theta.T, strict=True)},
        prior_predictive={"x": x[None]},
        sample_stats_prior=stats,
    )


def posterior_to_arviz(draws: npt.ArrayLike, names: Sequence[str], log_weights: npt.ArrayLike | None = None) -> Any:
    """Posterior draws (n, p) as ArviZ data; weighted ones are resampled, as ArviZ's summaries know no weights.

    The weights are then used up and do not travel along: beside resampled draws they would be applied twice.
    """
    arviz = need("arviz", "arviz")
    table = np.asarray(draws, dtype=np.float64)
    if log_weights is not None:
        from thrifty.weights import resample_indices

        table = table[resample_indices(log_weights, rng=0)]
    posterior = {name: column[None] for name, column in zip(names, table.T, strict=True)}
    return arviz.from_dict(posterior=posterior)
