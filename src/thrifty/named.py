"""Read named numbers: dictionaries, pandas and xarray objects, named tuples.

    {"peak": 120.0, "curve": [3.0, 5.0]}        names peak, curve_1, curve_2
    pandas.Series, a row of a pandas.DataFrame  names of the index, of the columns
    xarray.Dataset, xarray.DataArray            names of variables, with the coordinates of their entries: cases_10

Names travel with the numbers, so that their order never matters: `align` puts numbers into the order of others by name.
Neither pandas nor xarray is imported.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError

Array = npt.NDArray[np.float64]
MAX_LISTED_NAMES = 8  # in a message


def has_names(value: Any) -> bool:
    """Tell whether a value brings names for its numbers.

    Example:
        >>> has_names({"peak": 1.0}), has_names([1.0, 2.0])
        (True, False)
    """
    return bool(_list_names(value))


def split_names(value: Any) -> tuple[Any, tuple[str, ...]]:
    """Return the numbers of a value, and their names; plain numbers are returned as they are, without names.

    Raises:
        TypeError: An entry holds something that is not a number.

    Example:
        >>> numbers, names = split_names({"peak": 120, "curve": [3, 5]})
        >>> numbers.tolist(), names
        ([120.0, 3.0, 5.0], ('peak', 'curve_1', 'curve_2'))
    """
    names = _list_names(value)
    if not names:
        return value, ()
    if isinstance(value, Mapping):
        parts = [_read_entry(key, entry).ravel() for key, entry in value.items()]
        return np.concatenate(parts), names
    return _read_entry("the values", value), names


def align(numbers: Array, names: Sequence[str], wanted: Sequence[str]) -> Array:
    """Put numbers (*, *event) with one name for each number of an event into the order of the wanted names.

    Raises:
        ValueError: A name is missing or unknown; the message names it.

    Example:
        >>> align(np.array([1.0, 2.0]), ("size", "peak"), ("peak", "size")).tolist()
        [2.0, 1.0]
    """
    if tuple(names) == tuple(wanted):
        return numbers
    missing, unknown = [n for n in wanted if n not in set(names)], [n for n in names if n not in set(wanted)]
    if missing or unknown or len(names) != len(wanted):
        parts = [f"{list_names(missing)} missing"] if missing else []
        parts += [f"{list_names(unknown)} unknown"] if unknown else []
        raise ValueError(f"{', '.join(parts) or 'a name is there twice'}; expected {list_names(wanted)}")
    place = {name: i for i, name in enumerate(names)}
    order = [place[name] for name in wanted]
    return numbers.reshape(-1, len(names))[:, order].reshape(numbers.shape)


def list_names(names: Sequence[str]) -> str:
    """Write names for a message, the first eight of them."""
    more = len(names) - MAX_LISTED_NAMES
    return ", ".join(names[:MAX_LISTED_NAMES]) + (f" and {more} more" if more > 0 else "")


def read_parameters(theta: Any, names: Sequence[str]) -> Any:
    """Return parameters as a table (n, p) in the order of `names` where theta has names; else theta as it is.

    Args:
        theta: A dictionary name -> number or (n,), a DataFrame or Series, or an array (n, p).
        names: Names of the parameters.

    Raises:
        DataError: bad-name, a parameter is missing or unknown; bad-array, columns of different lengths.

    Example:
        >>> read_parameters({"gamma": [0.1, 0.2], "beta": 0.5}, ("beta", "gamma")).tolist()
        [[0.5, 0.1], [0.5, 0.2]]
    """
    table, own = read_table(theta, "theta")
    if not own:
        return theta
    try:
        return align(table, own, names)
    except ValueError as error:
        raise DataError(
            f"theta has the parameters {list_names(own)}: {error}", code="bad-name", fix="name each parameter once"
        ) from None


def read_table(values: Any, label: str) -> tuple[Any, tuple[str, ...]]:
    """Return a table (n, d) and the names of its columns; without names the values as they are.

    Args:
        values: Name -> column (n,) or number, which counts for all rows; a DataFrame, or a Series for one row.
        label: What it is, for messages.
    """
    if isinstance(values, np.ndarray | list):
        return values, ()
    try:
        if _is_frame(values):
            is_named = values.columns.dtype.kind not in "iuf"
            return _read_entry(label, values), tuple(map(str, values.columns)) if is_named else ()
        if isinstance(values, Mapping) and values:
            return _join_columns(values, label)
        if not has_names(values):
            return values, ()
        numbers, names = split_names(values)
        return numbers.reshape(1, -1), names
    except TypeError as error:
        raise DataError(f"{label} is not a table of numbers: {error}", code="bad-array") from None


def _join_columns(values: Mapping[Any, Any], label: str) -> tuple[Array, tuple[str, ...]]:
    """Join columns (n,) to a table; an entry (n, k) gives k columns, a number counts for all rows."""
    columns, names = [np.atleast_1d(_read_entry(key, entry)) for key, entry in values.items()], []
    n = max(len(column) for column in columns)
    if any(len(column) not in (1, n) for column in columns):
        lengths = ", ".join(f"{key} {len(column)}" for key, column in zip(values, columns, strict=True))
        raise DataError(f"columns of {label} have different lengths: {lengths}", code="bad-array")
    for key, column in zip(values, columns, strict=True):
        names += _list_labels(str(key), column[0])
    return np.hstack([np.broadcast_to(c.reshape(len(c), -1), (n, c[0].size)) for c in columns]), tuple(names)


def order_observation(x_o: Any, event: tuple[int, ...], names: Sequence[str]) -> Any:
    """Return an observation with names, or several, as numbers in the order of `names`; other values as they are.

    Several are a list of named ones, a DataFrame with one row each, or a dictionary name -> (r,).

    Raises:
        DataError: bad-observation, a name is missing or unknown, or the simulations have no names.
    """
    several = isinstance(x_o, list | tuple) and bool(x_o) and not hasattr(x_o, "_fields")
    if several and all(isinstance(one, Mapping) or has_names(one) for one in x_o):
        return np.stack([order_observation(one, event, names) for one in x_o])
    try:
        numbers, own = split_names(x_o)
        if not own or (not names and not isinstance(x_o, Mapping)):
            return x_o
        if not names:
            raise ValueError("the simulations have no names; pass numbers in the order that the simulator returns")
        if set(own) != set(names) and len(event) == 1:  # a column for each name: several observations
            table, columns = read_table(x_o, "x_o")
            if set(columns) == set(names):
                return align(np.asarray(table, dtype=np.float64), columns, names)
        return align(numbers, own, names).reshape(event)
    except (TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"observed data: {error}",
            code="bad-observation",
            fix="name the observation as the simulator names its output",
        ) from None


def hash_observation(x_o: Any) -> bytes:
    """Return bytes that are equal for equal observations, named or not; named ones in any order."""
    numbers, names = split_names(x_o)
    if not names:
        return np.asarray(x_o, dtype=np.float64).tobytes()
    order = sorted(names)
    return repr(order).encode() + align(np.asarray(numbers, dtype=np.float64), names, order).tobytes()


def _list_names(value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping):  # an xarray.Dataset is one
        return tuple(label for key, entry in value.items() for label in _list_labels(str(key), entry))
    if fields := getattr(value, "_fields", ()):  # a named tuple
        return tuple(fields)
    if _is_frame(value):
        rows = range(len(value))
        return tuple(f"{c}_{r + 1}" if len(rows) > 1 else str(c) for r in rows for c in value.columns)
    if _is_series(value):
        return tuple(map(str, value.index)) if value.index.dtype.kind not in "iuf" else ()
    if _is_data_array(value):
        return tuple(_list_labels("" if value.name is None else str(value.name), value))
    return ()


def _list_labels(name: str, entry: Any) -> list[str]:
    """List the names of the numbers of one entry: its own name for one number, else with coordinates or numbers."""
    if isinstance(entry, Mapping):
        raise TypeError(f"{name!r} holds a {type(entry).__name__}; numbers and arrays of numbers can be named")
    shape = np.shape(entry)
    if int(np.prod(shape)) == 1 and name:
        return [name]
    labels = [[str(i + 1) for i in range(size)] for size in shape]
    if _is_data_array(entry):
        known = [entry.coords[d].values if d in entry.coords else None for d in entry.dims]
        known = [k if k is not None and k.dtype.kind in "iuUTO" else None for k in known]  # times may differ by run
        if not name and all(values is None for values in known):
            return []
        labels = [own if k is None else list(map(str, k)) for own, k in zip(labels, known, strict=True)]
        if not name and all(k is None or k.dtype.kind in "iu" for k in known):  # day_10, where nothing else says it
            name = "_".join(map(str, entry.dims))
    texts = [""]
    for axis in labels:
        texts = [f"{text}_{label}" if text else label for text in texts for label in axis]
    return [f"{name}_{text}" if name and text else name or text for text in texts]


def _read_entry(name: Any, entry: Any) -> Array:
    if hasattr(entry, "detach"):  # a torch tensor
        entry = entry.detach().cpu().numpy()
    values = np.asarray(entry)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"{str(name)!r} holds values of type {type(entry).__name__}, not numbers")
    return values.astype(np.float64)


def _is_frame(value: Any) -> bool:
    return hasattr(value, "columns") and hasattr(value, "to_numpy") and getattr(value, "ndim", 0) == 2


def _is_series(value: Any) -> bool:
    return hasattr(value, "to_numpy") and hasattr(getattr(value, "index", None), "dtype") and value.ndim == 1


def _is_data_array(value: Any) -> bool:
    return hasattr(value, "dims") and hasattr(value, "coords") and hasattr(value, "values") and hasattr(value, "name")


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a misspelt one stands for, None where none is near; two letters swapped are one error.

    Example:
        >>> find_nearest("nep", ["npe", "nle", "nre"]), find_nearest("NPEE", ["NLE", "NPE"]), find_nearest("x", ["abc"])
        ('npe', 'NPE', None)
        >>> find_nearest("buget", ["budget", "n"]), find_nearest("loguniforn", ["uniform", "loguniform"])
        ('budget', 'loguniform')
    """
    names, given = list(known), name.lower()
    if not names:
        return None
    near = min(names, key=lambda one: _count_edits(given, one.lower()))
    if _count_edits(given, near.lower()) <= max(1, len(given) // 4) and len(given) > 1:
        return near
    lowered = {one.lower(): one for one in names}
    close = difflib.get_close_matches(given, lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def _count_edits(a: str, b: str) -> int:
    """Count letters added, left out, replaced, and neighbours swapped, between two words."""
    rows = [list(range(len(b) + 1))]
    for i, left in enumerate(a, start=1):
        row = [i]
        for j, right in enumerate(b, start=1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (left != right))
            if i > 1 and j > 1 and left == b[j - 2] and a[i - 2] == right:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]
