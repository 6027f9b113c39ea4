"""Cost models: learned on the log scale from a few timed runs, then frozen."""

from thrifty.costs.finish_model import FinishModel, ValidCost
from thrifty.costs.fit import FittedCost, cost_from_dict, fit_cost, load_cost
from thrifty.costs.gaussian_process import GaussianProcess
from thrifty.costs.polynomial import Polynomial

__all__ = [
    "FinishModel",
    "FittedCost",
    "GaussianProcess",
    "Polynomial",
    "ValidCost",
    "cost_from_dict",
    "fit_cost",
    "load_cost",
]
