"""The penalty that a mixture of penalties amounts to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import PenaltyError
from thrifty.penalties.functions import penalty_to_dict
from thrifty.types import Array, Penalty


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

    def to_dict(self) -> dict[str, Any]:
        """Write plain numbers."""
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
