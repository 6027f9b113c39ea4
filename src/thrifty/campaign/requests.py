"""Requests to `plan` as text, and the figures that were found for each: the same request again computes nothing.

An equal request continues the same part. A cost that is given counts by its numbers: a fitted one by its coefficients,
a function by its values at fixed prior draws, so that no fit is needed to see that it is the same function.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from thrifty.costs import FittedCost
from thrifty.errors import CostError
from thrifty.penalties import penalty_from_dict, penalty_to_dict
from thrifty.proposals import CostAware, evaluate_cost
from thrifty.tradeoff import Row, Tradeoff
from thrifty.types import Array, Cost, Prior

TABULATED_DRAWS = 400  # values of a cost function that are fitted: as many as a large pilot, in a second


@dataclass(frozen=True)
class Proposed:
    """From what a request would draw.

    Attributes:
        requests: The request as text, in each form by which it can be found again, see `request_key`.
        part: Number of the frozen proposal of an earlier plan with the same request, or None.
        cost: The cost model.
        proposal: None for plain draws from the prior.
        table: The trade-off between penalties.
        cost_per_run: Expected cost of one run, in the unit of the cost model.
        ess_fraction: Effective draws per draw.
        p_value: Of the test that weighted draws restore the prior; None before it was made.
    """

    requests: tuple[str, ...]
    part: int | None
    cost: FittedCost
    proposal: CostAware | None
    table: Tradeoff
    cost_per_run: float
    ess_fraction: float
    p_value: float | None = None

    def figures(self) -> dict[str, Any]:
        """Write what an equal request would have to compute again as plain numbers."""
        rows = [{**asdict(row), "penalty": penalty_to_dict(row.penalty)} for row in self.table]
        scalars = {key: getattr(self.table, key) for key in ("ceiling", "prior_cost", "cost_range", "unit")}
        scalars |= {"finish_share": self.table.finish_share} if self.table.avoids_failures else {}
        return {
            "table": {**scalars, "rows": rows},
            "cost": self.cost.to_dict() if self.proposal is None else None,  # else the part has it
            "cost_per_run": self.cost_per_run,
            "ess_fraction": self.ess_fraction,
            "p_value": self.p_value,
        }


def read_tradeoff(numbers: dict[str, Any]) -> Tradeoff:
    """Rebuild the trade-off that `Proposed.figures` wrote."""
    rows = tuple(Row(**{**row, "penalty": penalty_from_dict(row["penalty"])}) for row in numbers["rows"])
    return Tradeoff(**{**numbers, "rows": rows})


def request_key(
    penalty: Any, mixture: Any, cost: dict[str, str] | None = None, avoid_failures: bool | None = None
) -> str:
    """Write a request as text; `cost` says which cost was given, see `hash_cost` and `Tabulated`.

    Whether failures are avoided is a part of the request where it was said; else the first plan decides.

    Example:
        >>> request_key(0.5, [0, 1]) == request_key(0.5, (0, 1))
        True
    """
    powers = tuple(mixture) if isinstance(mixture, list) else mixture
    failures = {} if avoid_failures is None else {"avoid_failures": str(bool(avoid_failures))}
    return json.dumps({"penalty": str(penalty), "mixture": str(powers), **(cost or {}), **failures})


def hash_cost(cost: FittedCost) -> dict[str, str]:
    """Name a fitted cost by its numbers."""
    return {"cost": _hash(json.dumps(cost.to_dict(), sort_keys=True).encode())}


@dataclass(frozen=True)
class Tabulated:
    """A cost function at fixed prior draws: parameters (n, p) and costs (n,)."""

    theta: Array
    cost: Array

    @classmethod
    def of(cls, cost: Cost, prior: Prior) -> Tabulated:
        """Evaluate a cost function."""
        if not callable(cost):
            raise CostError(
                f"cost = {cost!r} is neither a fitted cost nor a function",
                code="bad-cost",
                fix="cost=th.fit_cost(theta, cost)",
            )
        theta = np.asarray(prior.sample(TABULATED_DRAWS, np.random.default_rng(0)), dtype=np.float64)
        return cls(theta, evaluate_cost(cost, theta))

    def hash(self) -> dict[str, str]:
        """Name the function by its values."""
        return {"values": _hash(self.cost.tobytes())}


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
