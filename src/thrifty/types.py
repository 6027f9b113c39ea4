"""What users bring: anything with these methods will do.

Reading arrays: tables of numbers, log weights and names, checked once and frozen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError, WeightError

if TYPE_CHECKING:  # pragma: no cover
    from thrifty.tables.draws import Draws


Array = npt.NDArray[np.float64]


def rows(values: npt.ArrayLike, name: str = "theta", dim: int | None = None) -> Array:
    """Read values as a float table (n, p); a vector is one column, or one row of `dim` > 1.

    Example:
        >>> rows([1, 2, 3]).shape, rows([1, 2, 3], dim=3).shape
        ((3, 1), (1, 3))
    """
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} is not a table of numbers: {error}", code="bad-array", fix="pass an array (n, p)"
        ) from None
    if table.ndim == 0:
        table = table.reshape(1, 1)
    if table.ndim == 1:
        one_row = dim is not None and dim > 1 and table.shape[0] == dim
        table = table[None, :] if one_row else table[:, None]
    if table.ndim != 2 or (dim is not None and table.shape[1] != dim):
        expected = "(n, p)" if dim is None else f"(n, {dim})"
        raise DataError(
            f"{name} has shape {np.shape(values)}, expected {expected}",
            code="bad-array",
            fix="one row per run, one column per parameter",
        )
    return table


def frozen(array: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """A read-only copy: tables never change under their owner."""
    copy = np.array(array, dtype=dtype)
    copy.setflags(write=False)
    return copy


def checked_log_weights(log_weights: npt.ArrayLike | None, n: int) -> Array:
    """Log weights (n,), frozen: zeros when left out, never NaN or +inf, not all -inf."""
    if log_weights is None:
        return frozen(np.zeros(n))
    try:
        values = np.asarray(log_weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise WeightError(f"log_weights are not numbers: {log_weights!r:.60}", code="bad-weights") from None
    if values.shape != (n,):
        raise WeightError(
            f"log_weights has shape {values.shape}, expected ({n},)",
            code="bad-weights",
            fix="one log weight per row of theta",
        )
    bad = np.isnan(values) | (values == np.inf)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise WeightError(
            f"log_weights: {int(bad.sum())} of {n} values are NaN or +inf (first at row {row}: {values[row]})",
            code="bad-weights",
            why="one such weight decides the whole posterior",
            fix="use the log_weights that came with the draws; -inf means weight zero",
        )
    if n and not np.isfinite(values).any():
        raise WeightError("log_weights are all -inf: every weight is zero", code="bad-weights")
    return frozen(values)


def log_of_weights(weights: npt.ArrayLike) -> Array:
    """Logarithms of linear weights, which must not be negative or NaN."""
    try:
        values = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise WeightError(f"weights are not numbers: {weights!r:.60}", code="bad-weights") from None
    if values.ndim != 1:
        raise WeightError(f"weights have shape {values.shape}, expected one per row of theta", code="bad-weights")
    bad = ~(values >= 0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        kind = "NaN" if np.isnan(values[row]) else "negative"
        raise WeightError(
            f"weights: {int(bad.sum())} of {values.size} values are negative or NaN"
            f" (first {kind} at row {row}: {values[row]:g})",
            code="bad-weights",
        )
    with np.errstate(divide="ignore"):
        return np.log(values)


def checked_names(names: Sequence[str], count: int, label: str) -> tuple[str, ...]:
    """Names as a tuple: none twice, and as many as columns or none at all."""
    if isinstance(names, str):
        names = (names,)
    names = tuple(str(name) for name in names)
    if len(set(names)) != len(names):
        raise DataError(f"{label} are used twice: {', '.join(names)}", code="bad-name")
    if names and len(names) != count:
        raise DataError(f"{len(names)} {label} for {count} columns: {', '.join(names)}", code="bad-name")
    return names


@runtime_checkable
class Prior(Protocol):
    """A distribution over parameters: sampled and evaluated row by row."""

    @property
    def names(self) -> tuple[str, ...]:
        """One name per parameter."""
        ...

    @property
    def dim(self) -> int:
        """Number of parameters, p."""
        ...

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper end of the support, each (p,), infinite where there is none."""
        ...

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw (n, p) parameters."""
        ...

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Normalised log density (n,) of theta (n, p); -inf outside the support."""
        ...


class Cost(Protocol):
    """Expected cost of a run: any callable (n, p) -> (n,), positive and finite."""

    def __call__(self, theta: Array, /) -> Array:
        """Cost of each row."""
        ...


@runtime_checkable
class Penalty(Protocol):
    """g: a positive non-decreasing function of cost, floor and cap inside."""

    def log(self, cost: Array) -> Array:
        """Log g(cost), elementwise."""
        ...

    def floored(self, low: float) -> Penalty:
        """The same penalty with a floor on cost, unless it has one."""
        ...

    @property
    def low(self) -> float | None:
        """Cost below which the penalty is flat."""
        ...


@runtime_checkable
class Weighting(Protocol):
    """Anything that knows the log weight of a parameter, up to one constant."""

    def log_weight(self, theta: npt.ArrayLike) -> Array:
        """Log of prior over proposal density at each row, up to a constant."""
        ...


class Proposal(Weighting, Protocol):
    """A weighting that can also be sampled."""

    @property
    def prior(self) -> Prior:
        """The distribution that the weights restore."""
        ...

    def sample(self, n: int, rng: np.random.Generator | int) -> Draws:
        """Draw n weighted parameters."""
        ...


class Simulator(Protocol):
    """`simulate(theta, rng) -> numbers`; `rng` may be left out or be `seed`."""

    def __call__(self, theta: Array, /, *args: Any) -> Any:
        """One run."""
        ...


class Posterior(Protocol):
    """What every method's `fit` returns."""

    def sample(self, n: int, x_o: npt.ArrayLike, *, seed: int) -> Array:
        """Draw (n, p) from the posterior at x_o."""
        ...

    def log_prob(self, theta: npt.ArrayLike, x_o: npt.ArrayLike) -> Array:
        """Log posterior density (n,)."""
        ...
