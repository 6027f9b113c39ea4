"""Admission under a budget or a deadline, without bias.

A run may start only because of what happened before it, never because of its own cost: the number started is
then a stopping time, and by Wald's identity the weighted sums stay unbiased (Glynn and Heidelberger 1990). So:
admit in plan order, stop admitting, finish what was started. Keeping only what finished in time is off by nine
standard deviations at a cost range of 1000; skipping draws that "no longer fit" by nineteen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thrifty.types import Array

RESERVE_QUANTILE = 0.99  # of predicted durations: one run in a hundred may still be cut at a hard deadline


@dataclass(frozen=True)
class Gate:
    """Decide from the past alone whether more runs may be admitted; it never sees the next run.

    Args:
        budget: Cost that may be spent. Runs that were admitted are always finished.
        until: Time on the engine's clock after which nothing is admitted. Runs that were admitted are finished.
        deadline: Hard limit on the engine's clock: running work ends there and stays pending.
        reserve: Nothing starts so many seconds before `deadline`, since it would probably not end in time.

    Example:
        >>> gate = Gate(budget=10.0)
        >>> gate.may_admit(spent=9.0, now=0.0), gate.may_admit(spent=10.5, now=0.0)
        (True, False)
    """

    budget: float = np.inf
    until: float = np.inf
    deadline: float = np.inf
    reserve: float = 0.0

    def may_admit(self, *, spent: float, now: float) -> bool:
        """Whether more runs may be admitted; `spent` holds finished runs and predictions for those under way."""
        return spent < self.budget and now < self.until and self.may_start(now=now)

    def remaining(self, *, spent: float) -> float:
        """Return the budget not yet spent or under way; infinite where cost is not limited."""
        return max(self.budget - spent, 0.0)

    def may_start(self, *, now: float) -> bool:
        """Whether runs that were admitted may start: the same time for every run, whatever it would take."""
        return now < self.deadline - self.reserve

    def must_end(self, *, now: float) -> bool:
        """Whether running work must end now."""
        return now >= self.deadline


def reserve_before_deadline(predicted: Array, pace: float) -> float:
    """Return the seconds to leave before a hard deadline: a high quantile of all predicted durations of the plan."""
    return float(np.quantile(predicted, RESERVE_QUANTILE) * pace) if len(predicted) else 0.0
