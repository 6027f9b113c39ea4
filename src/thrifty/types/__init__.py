"""What users bring (protocols) and what travels between the parts (two frozen tables).

    prior ─► proposal.sample ─► Draws(theta, log_weights)
                                  │ simulate
                                  ▼
                              Simulations(theta, x, cost, log_weights, status, index) ─► method.fit

Only `log_weights` crosses from the cost side to the inference side.
"""

from thrifty.types.arrays import Array, frozen, rows
from thrifty.types.draws import Draws, Output
from thrifty.types.protocols import Cost, Penalty, Posterior, Prior, Proposal, Simulator, Weighting
from thrifty.types.simulations import STATUSES, Simulations, Status

Seed = int | None

__all__ = [
    "Array",
    "Cost",
    "Draws",
    "Output",
    "Penalty",
    "Posterior",
    "Prior",
    "Proposal",
    "STATUSES",
    "Seed",
    "Simulations",
    "Simulator",
    "Status",
    "Weighting",
    "frozen",
    "rows",
]
