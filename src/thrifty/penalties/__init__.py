"""Penalties: g, the positive non-decreasing function of cost that the proposal divides by.

The proposal is prior(theta) / g(cost(theta)), so g decides how much expensive parameters are avoided
(paper, section 3.3). Floor and cap live *inside* the penalty, g(clip(cost, low, high)), and so act in the
acceptance probability and in the weight alike: a wrong floor costs efficiency, never correctness.
"""

from thrifty.penalties.balance import Balance, check_shares, penalty_from_dict
from thrifty.penalties.functions import (
    AtLeast,
    AtMost,
    Constant,
    Custom,
    Power,
    as_penalty,
    check_penalty,
    penalty_to_dict,
)

__all__ = [
    "AtLeast",
    "AtMost",
    "Balance",
    "Constant",
    "Custom",
    "Power",
    "as_penalty",
    "check_penalty",
    "check_shares",
    "penalty_from_dict",
    "penalty_to_dict",
]
