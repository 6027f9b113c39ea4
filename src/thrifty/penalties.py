"""Penalties: g, the positive non-decreasing function of cost that the proposal divides by.

The proposal is prior(theta) / g(cost(theta)), so g decides how much expensive parameters are avoided
(paper, section 3.3). Floor and cap live *inside* the penalty, g(clip(cost, low, high)), and so act in the
acceptance probability and in the weight alike: a wrong floor costs efficiency, never correctness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import PenaltyError
from thrifty.types import Array, Penalty


def _set_range(penalty: Any) -> None:
    """Check floor and cap, and keep them as plain floats."""
    low, high = penalty.low, penalty.high
    for label, value in (("low", low), ("high", high)):
        number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        if value is not None and not (number and np.isfinite(value) and value > 0):
            raise PenaltyError(f"penalty {label} must be a positive cost, got {value!r}", code="bad-penalty")
        object.__setattr__(penalty, label, None if value is None else float(value))
    if low is not None and high is not None and low > high:
        raise PenaltyError(f"penalty low {low:g} is above high {high:g}", code="bad-penalty", fix="swap them")


def _clipped(cost: npt.ArrayLike, low: float | None, high: float | None) -> Array:
    cost = np.asarray(cost, dtype=np.float64)
    return cost if low is None and high is None else np.clip(cost, low, high)


def _below(low: float, high: float | None) -> float:
    return low if high is None else min(low, high)


@dataclass(frozen=True)
class Power:
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

    k: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.k, (str, bool)) or not isinstance(self.k, (int, float, np.integer, np.floating)):
            raise PenaltyError(f"penalty exponent must be a number >= 0, got {self.k!r}", code="bad-penalty")
        if not (np.isfinite(self.k) and self.k >= 0):
            hint = " (that would prefer expensive runs)" if self.k < 0 else ""
            raise PenaltyError(f"penalty exponent must be a number >= 0, got {self.k:g}{hint}", code="bad-penalty")
        _set_range(self)

    def __call__(self, cost: npt.ArrayLike) -> Array:
        """g(cost)."""
        return _clipped(cost, self.low, self.high) ** self.k

    def log(self, cost: Array) -> Array:
        """Log g(cost)."""
        return self.k * np.log(_clipped(cost, self.low, self.high))

    def floored(self, low: float) -> Power:
        """With a floor, unless it has one."""
        return self if self.low is not None else replace(self, low=_below(low, self.high))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {"kind": "power", "k": float(self.k), "low": self.low, "high": self.high}

    def __str__(self) -> str:
        return {0: "1", 1: "c", 0.5: "√c"}.get(self.k, f"c^{self.k:g}")


@dataclass(frozen=True)
class Constant:
    """g(z) = 1: plain sampling from the prior.

    Example:
        >>> Constant()([1.0, 100.0]).tolist()
        [1.0, 1.0]
    """

    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        _set_range(self)

    def __call__(self, cost: npt.ArrayLike) -> Array:
        """One for every cost."""
        return np.ones(np.shape(cost))

    def log(self, cost: Array) -> Array:
        """Zero for every cost."""
        return np.zeros(np.shape(cost))

    def floored(self, low: float) -> Constant:
        """With a floor, unless it has one."""
        return self if self.low is not None else replace(self, low=_below(low, self.high))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {"kind": "constant", "low": self.low, "high": self.high}

    def __str__(self) -> str:
        return "1"


@dataclass(frozen=True)
class Custom:
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
        _set_range(self)

    def __call__(self, cost: npt.ArrayLike) -> Array:
        """g(cost)."""
        return np.asarray(self.function(_clipped(cost, self.low, self.high)), dtype=np.float64)

    def log(self, cost: Array) -> Array:
        """Log g(cost)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # a proposal refuses what is not positive, with a word
            return np.log(self(cost))

    def floored(self, low: float) -> Custom:
        """With a floor, unless it has one."""
        return self if self.low is not None else replace(self, low=_below(low, self.high))

    def __str__(self) -> str:
        return getattr(self.function, "__name__", "g")


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


@dataclass(frozen=True)
class AtLeast:
    """g(z) = max(value, h(z)): the paper's form that keeps the acceptance away from zero.

    Example:
        >>> AtLeast(Power(1), 1.0)([0.2, 5.0]).round(12).tolist()
        [1.0, 5.0]
    """

    penalty: Penalty
    value: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", as_penalty(self.penalty))
        _check_level(self.value)

    def __call__(self, cost: npt.ArrayLike) -> Array:
        """g(cost)."""
        return np.exp(self.log(np.asarray(cost, dtype=np.float64)))

    def log(self, cost: Array) -> Array:
        """Log g(cost)."""
        inner = self.penalty.log(cost)
        missing = np.isnan(inner)  # the logarithm of a negative h, which the level replaces; a NaN of h stays
        if missing.any() and isinstance(self.penalty, Custom):
            inner = np.where(missing & (self.penalty(cost) <= 0), -np.inf, inner)
        return np.maximum(inner, np.log(self.value))

    @property
    def low(self) -> float | None:
        """Floor of the wrapped penalty."""
        return self.penalty.low

    def floored(self, low: float) -> AtLeast:
        """With a floor on the wrapped penalty, unless it has one."""
        return replace(self, penalty=self.penalty.floored(low))

    def __str__(self) -> str:
        return f"max({self.value:g}, {self.penalty})"


@dataclass(frozen=True)
class AtMost:
    """g(z) = min(h(z), value): the paper's form that bounds the weights.

    Example:
        >>> AtMost(Power(1), 3.0)([0.5, 5.0]).round(12).tolist()
        [0.5, 3.0]
    """

    penalty: Penalty
    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", as_penalty(self.penalty))
        _check_level(self.value)

    def __call__(self, cost: npt.ArrayLike) -> Array:
        """g(cost)."""
        return np.exp(self.log(np.asarray(cost, dtype=np.float64)))

    def log(self, cost: Array) -> Array:
        """Log g(cost)."""
        return np.minimum(self.penalty.log(cost), np.log(self.value))

    @property
    def low(self) -> float | None:
        """Floor of the wrapped penalty."""
        return self.penalty.low

    def floored(self, low: float) -> AtMost:
        """With a floor on the wrapped penalty, unless it has one."""
        return replace(self, penalty=self.penalty.floored(low))

    def __str__(self) -> str:
        return f"min({self.penalty}, {self.value:g})"


def _check_level(value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise PenaltyError(f"the level must be a positive number, got {value}", code="bad-penalty")


@dataclass(frozen=True)
class Balance:
    """The penalty of a mixture: 1 / sum_j share_j / (B_j g_j(c)), non-decreasing since every g_j is.

    A pool drawn in shares alpha_j from prior/(B_j g_j) is drawn from prior/g with this g, so the weight
    g(c) is the balance heuristic, and it needs no record of which component a draw came from.

    Args:
        penalties: g_j, each with its floor inside.
        shares: alpha_j, summing to one.
        log_normalisers: log B_j = log E_prior[1/g_j(c)].
    """

    penalties: tuple[Penalty, ...]
    shares: tuple[float, ...]
    log_normalisers: tuple[float, ...]

    def __post_init__(self) -> None:
        check_shares(self.shares, len(self.penalties))

    def __call__(self, cost: npt.ArrayLike) -> Array:
        """g(cost)."""
        return np.exp(self.log(np.asarray(cost, dtype=np.float64)))

    def log(self, cost: Array) -> Array:
        """Log g(cost)."""
        terms = [
            np.log(share) - log_b - penalty.log(cost)
            for penalty, share, log_b in zip(self.penalties, self.shares, self.log_normalisers, strict=True)
            if share > 0
        ]
        top = np.max(terms, axis=0)
        return -top - np.log(sum(np.exp(term - top) for term in terms))

    @property
    def low(self) -> float | None:
        """The smallest floor: below it every component is flat."""
        floors = [penalty.low for penalty in self.penalties]
        return None if any(floor is None for floor in floors) else min(f for f in floors if f is not None)

    def floored(self, low: float) -> Balance:
        """With a floor on every component that has none."""
        return replace(self, penalties=tuple(p.floored(low) for p in self.penalties))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {
            "kind": "balance",
            "penalties": [penalty_to_dict(p) for p in self.penalties],
            "shares": list(self.shares),
            "log_normalisers": list(self.log_normalisers),
        }

    def __str__(self) -> str:
        return "mixture of " + ", ".join(str(p) for p in self.penalties)


def check_shares(shares: Sequence[float], count: int) -> None:
    """Refuse shares that are not a distribution over `count` components."""
    values = np.asarray(shares, dtype=np.float64)
    if values.shape != (count,):
        raise PenaltyError(f"{values.size} mixture shares for {count} components", code="bad-penalty")
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise PenaltyError(f"mixture shares must be numbers >= 0, got {list(shares)}", code="bad-penalty")
    if abs(values.sum() - 1) > 1e-9:
        raise PenaltyError(
            f"mixture shares sum to {values.sum():.6g}", code="bad-penalty", fix="divide them by their sum"
        )


def as_penalty(obj: Any) -> Penalty:
    """Read a penalty: one of thrifty's, a number k for z^k, or any function of cost.

    Example:
        >>> as_penalty(2)
        Power(k=2.0, low=None, high=None)
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


def penalty_to_dict(penalty: Penalty) -> dict[str, Any]:
    """Plain numbers of a penalty that has them.

    Raises:
        PenaltyError: A user's function cannot be written as numbers.
    """
    if isinstance(penalty, (AtLeast, AtMost)):
        kind = "at_least" if isinstance(penalty, AtLeast) else "at_most"
        return {"kind": kind, "value": penalty.value, "penalty": penalty_to_dict(penalty.penalty)}
    if isinstance(penalty, (Power, Constant, Balance)):
        return penalty.to_dict()
    raise PenaltyError(
        f"penalty {penalty} is a function and cannot be saved as plain numbers",
        code="code-not-saved",
        fix="use th.Power, th.AtLeast or th.AtMost, or keep the log_weights that came with the draws",
    )


def penalty_from_dict(data: dict[str, Any]) -> Penalty:
    """The penalty written by `penalty_to_dict`."""
    match data.get("kind"):
        case "power":
            return Power(data["k"], data["low"], data["high"])
        case "constant":
            return Constant(data["low"], data["high"])
        case "at_least":
            return AtLeast(penalty_from_dict(data["penalty"]), data["value"])
        case "at_most":
            return AtMost(penalty_from_dict(data["penalty"]), data["value"])
        case "balance":
            return Balance(
                tuple(penalty_from_dict(p) for p in data["penalties"]),
                tuple(data["shares"]),
                tuple(data["log_normalisers"]),
            )
        case other:
            raise PenaltyError(f"unknown kind of penalty {other!r}", code="bad-file")
