"""What one generation of a sequential method did."""

from __future__ import annotations

from dataclasses import dataclass

from thrifty.kernel_proposal import KernelProposal
from thrifty.proposals import CostAware
from thrifty.types import Prior


@dataclass(frozen=True)
class Generation:
    """What one generation did.

    Attributes:
        n: Runs.
        cost: Their total cost.
        predicted: What the cost model of the time expected; 0 where there was none.
        epsilon: Tolerance of the pool after it, on the scale of the distance then.
        ess: Effective draws of the pool within that tolerance.
        acceptance: Share of this generation's runs within it.
        proposal: Where the draws came from.
    """

    n: int
    cost: float
    predicted: float
    epsilon: float
    ess: float
    acceptance: float
    proposal: Prior | CostAware | KernelProposal
