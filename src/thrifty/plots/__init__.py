"""Draw figures that use the weights. Each function returns a matplotlib Figure; nothing is shown or kept open.

    pairs, marginals                          posterior draws
    conditional_pairs, sensitivity            densities of posteriors
    model_probabilities                       which model
    cost_surface, cost_residuals, waterfall   costs
    tradeoff, proposal, weights               the plan
    calibration, predictive                   checks
    simulations, failures                     runs: what they returned, which parameters fail

`figure.savefig("name.png")` writes one to disk.
"""

from thrifty.plots.calibration_plots import calibration, predictive
from thrifty.plots.conditional_plots import conditional_pairs, sensitivity
from thrifty.plots.cost_plots import cost_residuals, cost_surface, failures, waterfall
from thrifty.plots.model_plots import model_probabilities
from thrifty.plots.plan_plots import proposal, tradeoff, weights
from thrifty.plots.posterior_plots import marginals, pairs
from thrifty.plots.run_plots import simulations

__all__ = [
    "calibration",
    "conditional_pairs",
    "cost_residuals",
    "cost_surface",
    "failures",
    "marginals",
    "model_probabilities",
    "pairs",
    "predictive",
    "proposal",
    "sensitivity",
    "simulations",
    "tradeoff",
    "waterfall",
    "weights",
]
