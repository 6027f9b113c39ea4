"""Penalties of one cost: powers, any function, and bounds on the value of another penalty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from thrifty.display import DisplayedSettings
from thrifty.errors import PenaltyError
from thrifty.types import Array, Penalty

if TYPE_CHECKING:  # pragma: no cover
    from typing import Self


class Saved(DisplayedSettings):
    """A penalty made of numbers and of other penalties, which can be written down."""

    kind: ClassVar[str]

    def __call__(self, cost: npt.ArrayLike) -> Array:
        """g(cost)."""
        return np.exp(self.log(np.asarray(cost, dtype=np.float64)))

    def log(self, cost: Array) -> Array:
        """Return log g(cost)."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Write plain numbers, where the penalties inside have them."""
        return {"kind": self.kind} | {f.name: _to_plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]


def _to_plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_plain(v) for v in value]
    if isinstance(value, Penalty):
        return penalty_to_dict(value)
    return None if value is None else float(value)


class _Clipped:
    """Floor and cap of a penalty, g(clip(z, low, high)); the classes below hold them as their last fields."""

    low: float | None
    high: float | None

    def __post_init__(self) -> None:
        """Check floor and cap, and keep them as plain floats."""
        low, high = self.low, self.high
        for label, value in (("low", low), ("high", high)):
            number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
            if value is not None and not (number and np.isfinite(value) and value > 0):
                raise PenaltyError(f"penalty {label} must be a positive cost, got {value!r}", code="bad-penalty")
            object.__setattr__(self, label, None if value is None else float(value))
        if low is not None and high is not None and low > high:
            raise PenaltyError(f"penalty low {low:g} is above high {high:g}", code="bad-penalty", fix="swap them")

    def _clip(self, cost: npt.ArrayLike) -> Array:
        cost = np.asarray(cost, dtype=np.float64)
        return cost if self.low is None and self.high is None else np.clip(cost, self.low, self.high)

    def floored(self, low: float) -> Self:
        """Return the same penalty with a floor, unless it has one."""
        if self.low is not None:
            return self
        return replace(self, low=low if self.high is None else min(low, self.high))  # type: ignore[type-var]


@dataclass(frozen=True, repr=False)
class Power(_Clipped, Saved):
    """g(z) = z^k on clip(z, low, high): the paper's family; k = 1/2 is optimal for a fixed budget.

    Args:
        k: Exponent, at least 0; 0 is plain sampling.
        low: Cost below which the penalty is flat; found from the prior when left out.
        high: Cost above which the penalty is flat; no cap when left out.

    Example:
        >>> Power(0.5)([1.0, 4.0, 9.0]).tolist()
        [1.0, 2.0, 3.0]
        >>> Power(2, low=2, high=3)([1.0, 2.5, 9.0]).round(12).tolist()
        [4.0, 6.25, 9.0]
    """

    kind: ClassVar[str] = "power"
    k: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.k, (str, bool)) or not isinstance(self.k, (int, float, np.integer, np.floating)):
            raise PenaltyError(f"penalty exponent must be a number >= 0, got {self.k!r}", code="bad-penalty")
        if not (np.isfinite(self.k) and self.k >= 0):
            hint = " (that would prefer expensive runs)" if self.k < 0 else ""
            raise PenaltyError(f"penalty exponent must be a number >= 0, got {self.k:g}{hint}", code="bad-penalty")
        super().__post_init__()

    def __call__(self, cost: npt.ArrayLike) -> Array:
        """g(cost)."""
        return self._clip(cost) ** self.k

    def log(self, cost: Array) -> Array:
        """Return log g(cost)."""
        return self.k * np.log(self._clip(cost))

    def __str__(self) -> str:
        return {0: "1", 1: "c", 0.5: "√c"}.get(self.k, f"c^{self.k:g}")


@dataclass(frozen=True, repr=False)
class Constant(_Clipped, Saved):
    """g(z) = 1: plain sampling from the prior.

    Example:
        >>> Constant()([1.0, 100.0]).tolist()
        [1.0, 1.0]
    """

    kind: ClassVar[str] = "constant"
    low: float | None = None
    high: float | None = None

    def __call__(self, cost: npt.ArrayLike) -> Array:
        """One for every cost."""
        return np.ones(np.shape(cost))

    def log(self, cost: Array) -> Array:
        """Zero for every cost."""
        return np.zeros(np.shape(cost))

    def __str__(self) -> str:
        return "1"


@dataclass(frozen=True, repr=False)
class Custom(_Clipped, DisplayedSettings):
    """Any function of cost; a proposal checks that it is positive and non-decreasing over its costs.

    Example:
        >>> Custom(np.log1p)([0.0001, 1.0]).round(4).tolist()
        [0.0001, 0.6931]
    """

    function: Callable[[Array], Any]
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise PenaltyError(f"penalty must be callable, got {self.function!r}", code="bad-penalty")
        super().__post_init__()

    def __call__(self, cost: npt.ArrayLike) -> Array:
        """g(cost)."""
        return np.asarray(self.function(self._clip(cost)), dtype=np.float64)

    def log(self, cost: Array) -> Array:
        """Return log g(cost)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # a proposal refuses what is not positive
            return np.log(self(cost))

    def __str__(self) -> str:
        return getattr(self.function, "__name__", "g")


@dataclass(frozen=True, repr=False)
class _Levelled(Saved):
    """A penalty and a level that bounds its value."""

    penalty: Penalty
    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", as_penalty(self.penalty))
        if not (np.isfinite(self.value) and self.value > 0):
            raise PenaltyError(f"the level must be a positive number, got {self.value}", code="bad-penalty")

    @property
    def low(self) -> float | None:
        """Floor of the wrapped penalty."""
        return self.penalty.low

    def floored(self, low: float) -> Self:
        """Return the same penalty with a floor on the wrapped one, unless it has one."""
        return replace(self, penalty=self.penalty.floored(low))


@dataclass(frozen=True, repr=False)
class AtLeast(_Levelled):
    """g(z) = max(value, h(z)): the paper's form that keeps the acceptance away from zero.

    Example:
        >>> AtLeast(Power(1), 1.0)([0.2, 5.0]).round(12).tolist()
        [1.0, 5.0]
    """

    kind: ClassVar[str] = "at_least"
    value: float = 1.0

    def log(self, cost: Array) -> Array:
        """Return log g(cost)."""
        inner = self.penalty.log(cost)
        missing = np.isnan(inner)  # the logarithm of a negative h, which the level replaces; a NaN of h stays
        if missing.any() and isinstance(self.penalty, Custom):
            inner = np.where(missing & (self.penalty(cost) <= 0), -np.inf, inner)
        return np.maximum(inner, np.log(self.value))

    def __str__(self) -> str:
        return f"max({self.value:g}, {self.penalty})"


@dataclass(frozen=True, repr=False)
class AtMost(_Levelled):
    """g(z) = min(h(z), value): the paper's form that bounds the weights.

    Example:
        >>> AtMost(Power(1), 3.0)([0.5, 5.0]).round(12).tolist()
        [0.5, 3.0]
    """

    kind: ClassVar[str] = "at_most"

    def log(self, cost: Array) -> Array:
        """Return log g(cost)."""
        return np.minimum(self.penalty.log(cost), np.log(self.value))

    def __str__(self) -> str:
        return f"min({self.penalty}, {self.value:g})"


def as_penalty(obj: Any) -> Penalty:
    """Read a penalty: one of thrifty's, a number k for z^k, or any function of cost.

    Example:
        >>> as_penalty(2)
        Power(2.0)
    """
    if isinstance(obj, type):
        raise PenaltyError(
            f"{obj.__name__} is a class, not a penalty", code="bad-penalty", fix=f"call it: th.{obj.__name__}(...)"
        )
    if isinstance(obj, Penalty):
        return obj
    if isinstance(obj, (int, float, np.integer, np.floating)) and not isinstance(obj, bool):
        return Power(float(obj))
    if callable(obj):
        return Custom(obj)
    raise PenaltyError(
        f"penalty must be a number k >= 0, th.Power(k) or a function of cost, got {obj!r}", code="bad-penalty"
    )


def check_penalty(penalty: Penalty, costs: Array) -> None:
    """Refuse a penalty that is not positive, finite and non-decreasing over the given costs (n,)."""
    costs = np.unique(costs)
    with np.errstate(all="ignore"):
        values = np.asarray(penalty.log(costs), dtype=np.float64)
    if values.shape != costs.shape:
        raise PenaltyError(
            f"penalty returned shape {values.shape} for {len(costs)} costs",
            code="bad-penalty",
            fix="make it elementwise",
        )
    bad = ~np.isfinite(values)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise PenaltyError(
            f"penalty is {np.exp(values[i]):g} at cost {costs[i]:.3g}; it must be positive and finite",
            code="bad-penalty",
            fix="add a constant, or wrap it: th.AtLeast(penalty, 1.0)",
        )
    falls = np.diff(values) < -1e-12
    if falls.any():
        i = int(np.flatnonzero(falls)[0])
        raise PenaltyError(
            f"penalty falls from {np.exp(values[i]):.4g} to {np.exp(values[i + 1]):.4g} as cost rises"
            f" (at cost {costs[i]:.3g}); it must not decrease",
            code="bad-penalty",
            why="a falling penalty prefers expensive runs",
        )


def penalty_to_dict(penalty: Penalty) -> dict[str, Any]:
    """Write a penalty as plain numbers.

    Raises:
        PenaltyError: A user's function cannot be written as numbers.
    """
    if hasattr(penalty, "to_dict"):
        return penalty.to_dict()  # type: ignore[attr-defined]
    raise PenaltyError(
        f"penalty {penalty} is a function and cannot be saved as plain numbers",
        code="code-not-saved",
        fix="use th.Power, th.AtLeast or th.AtMost, or keep the log_weights that came with the draws",
    )
