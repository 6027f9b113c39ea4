"""Arrays, what a simulator returns, and what users bring: any object with the methods of a protocol will do.

The module stands below every other one except `errors` and `named`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.named import read_parameters

Array = npt.NDArray[np.float64]
Levels = tuple[tuple[str, ...] | None, ...]
"""What values each parameter takes: None for any number, () for whole numbers, labels for the codes of categories."""
Status = Literal["ok", "invalid", "bad-cost", "error", "crashed", "timeout", "pending"]
STATUSES: tuple[Status, ...] = ("ok", "invalid", "bad-cost", "error", "crashed", "timeout", "pending")
CHARGED_STATUSES: tuple[Status, ...] = ("ok", "invalid", "bad-cost")  # without a possible cost, charged as predicted


def as_rows(values: Any, name: str = "theta", dim: int | None = None, names: Sequence[str] = ()) -> Array:
    """Read values as a float table (n, p); a vector is one column, or one row of `dim` > 1.

    With `names` of the columns, a dictionary, DataFrame or Series is read by name, in any order.

    Example:
        >>> as_rows([1, 2, 3]).shape, as_rows([1, 2, 3], dim=3).shape
        ((3, 1), (1, 3))
        >>> as_rows({"gamma": 0.1, "beta": 0.5}, names=("beta", "gamma")).tolist()
        [[0.5, 0.1]]
    """
    if names and not isinstance(values, np.ndarray):
        values = read_parameters(values, names)
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


def freeze(array: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """Copy into a read-only array, so that a table never changes under its owner.

    An array that nobody can write to is kept as it is: read-only with memory of its own, or a read-only memory map.
    """
    if isinstance(array, np.memmap) or (isinstance(array, np.ndarray) and array.base is None):
        same = array.dtype == dtype or (dtype is np.str_ and array.dtype.kind == "U")
        if same and not array.flags.writeable:
            return array
    copy = np.array(array, dtype=dtype)
    copy.setflags(write=False)
    return copy


def set_fields(instance: object, **values: object) -> None:
    """Set fields of a frozen dataclass, from its own `__post_init__`."""
    for label, value in values.items():
        object.__setattr__(instance, label, value)


def as_names(names: Sequence[str], count: int, label: str) -> tuple[str, ...]:
    """Read names as a tuple: none twice, and as many as columns or none at all."""
    if isinstance(names, str):
        names = (names,)
    names = tuple(str(name) for name in names)
    if len(set(names)) != len(names):
        raise DataError(f"{label} are used twice: {', '.join(names)}", code="bad-name")
    if names and len(names) != count:
        raise DataError(f"{len(names)} {label} for {count} columns: {', '.join(names)}", code="bad-name")
    return names


@dataclass(frozen=True)
class Output:
    """What a simulator may return instead of numbers: its output and the cost that it counted itself.

    Attributes:
        x: Numbers, or an array of them.
        cost: Cost of this run in the simulator's own unit (events, euros, bytes), a finite number of at least 0; None
            leaves it to the clock. A run that reports any other number fails, with status "bad-cost".

    Example:
        >>> Output([1.0, 2.0], cost=17).cost
        17
    """

    x: Any
    cost: float | None = None


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


def levels_of(prior: Any) -> Levels:
    """Read what values the parameters (p,) of a prior take; a prior that does not say so is continuous.

    Example:
        >>> levels_of(th.Categorical([0.5, 0.5], ["gamma", "lognormal"])), levels_of(th.Uniform(0, 1))
        ((('gamma', 'lognormal'),), (None,))
    """
    return tuple(getattr(prior, "levels", None) or (None,) * prior.dim)


def find_discrete(levels: Levels) -> npt.NDArray[np.bool_]:
    """Tell which parameters (p,) take whole numbers only."""
    return np.array([level is not None for level in levels], dtype=np.bool_)


Cost = Callable[[Array], Array]
"""Expected cost of a run: any callable (n, p) -> (n,), positive and finite."""

Simulator = Callable[..., Any]
"""`simulate(theta, rng) -> numbers`; `rng` may be left out or be `seed`."""


@runtime_checkable
class Penalty(Protocol):
    """g: a positive non-decreasing function of cost, floor and cap inside."""

    def log(self, cost: Array) -> Array:
        """Return log g(cost), elementwise."""
        ...

    def floored(self, low: float) -> Penalty:
        """Return the same penalty with a floor on cost, unless it has one."""
        ...

    @property
    def low(self) -> float | None:
        """Cost below which the penalty is flat."""
        ...


@runtime_checkable
class Weighting(Protocol):
    """Anything that knows the log weight of a parameter, up to one constant."""

    def log_weight(self, theta: npt.ArrayLike) -> Array:
        """Return log of prior over proposal density at each row, up to a constant."""
        ...


class Proposal(Weighting, Protocol):
    """A weighting that can also be sampled."""

    def sample(self, n: int, rng: np.random.Generator | int) -> Any:
        """Draw n weighted parameters, as `th.Draws`."""
        ...


class Posterior(Protocol):
    """What every method's `fit` returns."""

    def sample(self, n: int, x_o: npt.ArrayLike, *, seed: int) -> Array:
        """Draw (n, p) from the posterior at x_o."""
        ...

    def log_prob(self, theta: npt.ArrayLike, x_o: npt.ArrayLike) -> Array:
        """Return log posterior density (n,)."""
        ...
