"""Tables for pandas, parquet, ArviZ and BayesFlow. The weights always go with them; libraries load when needed."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from thrifty.errors import DataError, import_extra
from thrifty.tables.columns import (
    FORMAT,
    OWN_COLUMNS,
    Columns,
    PathLike,
    as_run_numbers,
    check_room,
    check_source,
    check_target,
)
from thrifty.types import Array
from thrifty.weights import normalise

_WEIGHTED = "the draws in prior count exp(log_weight) of sample_stats_prior; unweighted they are the proposal"

if TYPE_CHECKING:
    import arviz
    import pandas

_ATTRIBUTES = {"theta", "x", "event", "m", "names", "x_names", "unit"}


def to_pandas(columns: Columns) -> pandas.DataFrame:
    """Make a flat DataFrame; names, shape, m, unit and the proposal in `frame.attrs["thrifty"]`."""
    flat = columns.flatten()
    frame = import_extra("pandas", "arviz").DataFrame(flat | {"status": flat["status"].astype(str)})
    frame.attrs["thrifty"] = columns.describe()
    return frame


def from_pandas(frame: pandas.DataFrame) -> Columns:
    """Read the table written by `to_pandas`, bit for bit (parquet keeps `attrs` too)."""
    about = getattr(frame, "attrs", {}).get("thrifty")
    if not isinstance(about, Mapping) or about.get("format") != FORMAT or not set(about) >= _ATTRIBUTES:
        raise DataError(
            f"this {type(frame).__name__} was not written by to_pandas, or has lost its attrs",
            code="bad-array",
            fix="use from_arrays or from_csv",
        )
    theta = list(about["theta"])
    x = list(about["x"])  # by name: a frame may have been rearranged
    missing = [name for name in [*theta, *x, *OWN_COLUMNS] if name not in frame.columns]
    if missing:
        raise DataError(f"the frame lost its columns {', '.join(missing)}", code="bad-array")
    as_run_numbers(
        _read_numbers(frame, ["index"])[:, 0], "column 'index' of the frame", code="bad-array", fix="restore it"
    )
    return Columns(
        theta=_read_numbers(frame, theta),
        x=_read_numbers(frame, x).reshape(len(frame), *about["event"]),
        log_weights=_read_numbers(frame, ["log_weight"])[:, 0],
        cost=_read_numbers(frame, ["cost"])[:, 0],
        status=frame["status"].to_numpy(dtype=np.str_),
        index=frame["index"].to_numpy(dtype=np.int64),  # not through float64, which has 53 bits
        m=int(about["m"]),
        names=tuple(about["names"]),
        x_names=tuple(about["x_names"]),
        unit=str(about["unit"]),
        proposal=about.get("proposal"),
    )


def _read_numbers(frame: pandas.DataFrame, columns: list[str]) -> Array:
    try:
        return frame[columns].to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"columns {', '.join(columns)[:60]} do not hold numbers: {error}", code="bad-array") from None


def to_parquet(columns: Columns, path: PathLike) -> None:
    """Write a parquet file with all columns."""
    import_extra("pyarrow", "arviz")
    to_pandas(columns).to_parquet(check_target(path), index=False)


def from_parquet(path: PathLike) -> Columns:
    """Read what `to_parquet` wrote."""
    import_extra("pyarrow", "arviz")
    pandas = import_extra("pandas", "arviz")
    file_name = check_source(path)
    import pyarrow
    import pyarrow.parquet

    damage = (OSError, ValueError, LookupError, TypeError, AttributeError, MemoryError, RuntimeError)

    try:
        with pyarrow.parquet.ParquetFile(file_name) as file:
            check_room(path, 8 * file.metadata.num_rows * file.metadata.num_columns)
        frame = pandas.read_parquet(file_name)
    except DataError:
        raise
    except (*damage, pyarrow.ArrowException) as error:
        raise DataError(f"cannot read {os.fspath(path)!r} as parquet: {error}", code="bad-file") from None
    return from_pandas(frame)


def to_dict(pairs: Columns) -> dict[str, Array]:
    """Make arrays for BayesFlow: one entry per parameter (n, 1), `x`, and `sample_weight` (n,) with mean 1.

    BayesFlow multiplies the loss by `sample_weight`.
    """
    names = pairs.parameter_names
    clash = {"x", "sample_weight"} & set(names)
    if clash:
        raise DataError(
            f"parameter name {min(clash)!r} would be used twice", code="bad-name", fix="rename the parameter"
        )
    columns = {name: np.array(column[:, None]) for name, column in zip(names, pairs.theta.T, strict=True)}
    return columns | {"x": np.array(pairs.x), "sample_weight": _normalise(pairs) * len(pairs.theta)}


def make_inference_data(**groups: Any) -> arviz.InferenceData:
    """Make ArviZ data of groups, without the warnings of ArviZ about its own future."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return import_extra("arviz", "arviz").from_dict(**groups)


def draws_to_arviz(draws: Array, names: Sequence[str], x_o: Array, x_names: Sequence[str] = ()) -> arviz.InferenceData:
    """Make posterior draws (`posterior`) and the observation (`observed_data`) for ArviZ, as one chain.

    Args:
        draws: Equally weighted draws (n, p).
        names: Of the parameters.
        x_o: The observation.
        x_names: Of its numbers, the coordinate `statistic`; or empty.
    """
    x = np.asarray(x_o, dtype=np.float64)
    is_named = len(x_names) == x.size
    return make_inference_data(
        posterior={name: column[None] for name, column in zip(names, draws.T, strict=True)},
        observed_data={"x": x.ravel() if is_named else x},
        coords={"statistic": list(x_names)} if is_named else {},
        dims={"x": ["statistic"]} if is_named else {},
    )


def draws_to_pandas(draws: Array, names: Sequence[str]) -> pandas.DataFrame:
    """Make a DataFrame of draws (n, p), one column per parameter."""
    return import_extra("pandas", "pandas").DataFrame(np.array(draws), columns=list(names))


def to_arviz(pairs: Columns) -> arviz.InferenceData:
    """Make prior draws (`prior`), their outputs (`prior_predictive`) and log weights (`sample_stats_prior`) for ArviZ.

    One chain. Named outputs are the coordinate `statistic` of `x`. `log_weight` is normalised (its exponentials sum to
    one), so that `arviz.extract(idata, group="prior")` rows can be resampled by `exp(log_weight)`. The proposal is an
    attribute `thrifty_proposal`, as JSON. Draws of a cost-aware campaign are not draws of the prior until they are
    weighted: a plot of the group as it is shows the proposal, and the attribute `thrifty_weights` says so.
    """
    with np.errstate(divide="ignore"):
        stats = {"log_weight": np.log(_normalise(pairs))[None]}
    about, is_named = pairs.describe_proposal(), bool(pairs.x_names) and pairs.x.ndim == 2
    return make_inference_data(
        attrs={"thrifty_weights": _WEIGHTED}
        | ({} if about is None else {"thrifty_proposal": json.dumps(about)})
        | ({"thrifty_labels": json.dumps(pairs.labels)} if pairs.labels else {}),
        prior={name: column[None] for name, column in zip(pairs.parameter_names, pairs.theta.T, strict=True)},
        prior_predictive={"x": pairs.x[None]},
        sample_stats_prior=stats,
        coords={"statistic": list(pairs.x_names)} if is_named else {},
        dims={"x": ["statistic"]} if is_named else {},
    )


def _normalise(pairs: Columns) -> Array:
    assert pairs.log_weights is not None, "pairs of a table have weights"
    return normalise(pairs.log_weights)
