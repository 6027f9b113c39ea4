"""Cost-aware proposals: exact draws from prior(theta)/g(cost(theta)), with the weights that undo them.

Sampling is rejection from the prior with acceptance g_min/g(c), exact because the floor lives inside g
(paper, Proposition 1; and theory for why a learned cost needs it). A wrong cost never biases anything: the
same frozen cost draws and weights. A mixture is one proposal with one penalty (`penalties.Balance`), so it
takes the same path. A pool of draws from several known proposals is weighted jointly by `Pool`.
"""

from thrifty.proposals.cost_aware import CostAware
from thrifty.proposals.mixture import Mixture
from thrifty.proposals.pool import Pool, weighting_from_dict
from thrifty.proposals.reference import REFERENCE_DRAWS, REFERENCE_SEED, Normaliser, draw_reference_costs, evaluate_cost

__all__ = [
    "REFERENCE_DRAWS",
    "REFERENCE_SEED",
    "CostAware",
    "Mixture",
    "Normaliser",
    "Pool",
    "evaluate_cost",
    "draw_reference_costs",
    "weighting_from_dict",
]
