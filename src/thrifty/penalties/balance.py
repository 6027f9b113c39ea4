"""The penalty that a mixture of penalties amounts to; and all penalties from plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from thrifty.errors import PenaltyError
from thrifty.penalties.functions import AtLeast, AtMost, Constant, Power, Saved
from thrifty.types import Array, Penalty


@dataclass(frozen=True, repr=False)
class Balance(Saved):
    """The penalty of a mixture: 1 / sum_j share_j / (B_j g_j(c)), non-decreasing since every g_j is.

    A pool drawn in shares alpha_j from prior/(B_j g_j) is drawn from prior/g with this g, so the weight
    g(c) is the balance heuristic, and it needs no record of which component a draw came from.

    Args:
        penalties: g_j, each with its floor inside.
        shares: alpha_j, summing to one.
        log_normalisers: log B_j = log E_prior[1/g_j(c)].
    """

    kind: ClassVar[str] = "balance"
    penalties: tuple[Penalty, ...]
    shares: tuple[float, ...]
    log_normalisers: tuple[float, ...]

    def __post_init__(self) -> None:
        check_shares(self.shares, len(self.penalties))

    def log(self, cost: Array) -> Array:
        """Return log g(cost)."""
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
        """Return the same penalty with a floor on every component that has none."""
        return replace(self, penalties=tuple(p.floored(low) for p in self.penalties))

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


_KINDS: dict[str, type[Any]] = {own.kind: own for own in (Power, Constant, AtLeast, AtMost, Balance)}


def penalty_from_dict(data: dict[str, Any]) -> Penalty:
    """Rebuild the penalty that `penalty_to_dict` wrote."""
    own = _KINDS.get(str(data.get("kind")))
    if own is None:
        raise PenaltyError(f"unknown kind of penalty {data.get('kind')!r}", code="bad-file")
    return own(**{f.name: _from_plain(data[f.name]) for f in fields(own)})


def _from_plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_from_plain(v) for v in value)
    return penalty_from_dict(value) if isinstance(value, dict) else value
