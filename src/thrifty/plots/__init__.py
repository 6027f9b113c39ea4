"""Draw figures that use the weights. Each function returns a matplotlib Figure; nothing is shown or kept open.

    pairs, marginals                          posterior draws
    cost_surface, cost_residuals, waterfall   costs
    tradeoff, proposal, weights               the plan
    calibration, predictive                   checks
    failures                                  which parameters fail

`figure.savefig("name.png")` writes one to disk.
"""

from thrifty.plots.calibration_plots import calibration, predictive
from thrifty.plots.cost_plots import cost_residuals, cost_surface, failures, waterfall
from thrifty.plots.plan_plots import proposal, tradeoff, weights
from thrifty.plots.posterior_plots import marginals, pairs

__all__ = [
    "calibration",
    "cost_residuals",
    "cost_surface",
    "failures",
    "marginals",
    "pairs",
    "predictive",
    "proposal",
    "tradeoff",
    "waterfall",
    "weights",
]
