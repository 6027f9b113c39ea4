"""Penalties from plain numbers."""

from __future__ import annotations

from typing import Any

from thrifty.errors import PenaltyError
from thrifty.penalties.balance import Balance
from thrifty.penalties.functions import AtLeast, AtMost, Constant, Power
from thrifty.types import Penalty


def penalty_from_dict(data: dict[str, Any]) -> Penalty:
    """Rebuild the penalty that `penalty_to_dict` wrote."""
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
