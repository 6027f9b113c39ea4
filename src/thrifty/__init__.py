"""thrifty: cost-aware simulation-based inference.

Draws carry weights; simulations carry draws; inference is ordinary weighted SBI. The usual way in is
`import thrifty as th`; names that need heavy libraries are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from thrifty import closed_form
from thrifty.errors import ThriftyError, ThriftyWarning
from thrifty.penalties import AtLeast, AtMost, Constant, Custom, Power, as_penalty
from thrifty.priors import Independent, LogUniform, Normal, Uniform, as_prior, check_prior
from thrifty.proposals import CostAware, Mixture, Pool
from thrifty.recovery import prior_recovery
from thrifty.tradeoff import Tradeoff, tradeoff
from thrifty.types import Draws, Output, Simulations
from thrifty.version import __version__
from thrifty.weights import Estimate, ess, estimate, normalise, pareto_k, resample

if TYPE_CHECKING:
    from thrifty import distances, likelihoods, models
    from thrifty.costs import FittedCost, GaussianProcess, Polynomial, fit_cost, load_cost
    from thrifty.inference.abc import ABC
    from thrifty.inference.realisations import group, repeat, split_budget
    from thrifty.inference.scoring_rule import ScoringRule
    from thrifty.inference.smc_abc import SMCABC
    from thrifty.inference.synthetic_likelihood import SyntheticLikelihood
    from thrifty.inference.weighted_posterior import WeightedPosterior

# name -> module that defines it; "" marks a module that is itself the public name
_LAZY: dict[str, str] = {
    "ABC": "thrifty.inference.abc",
    "FittedCost": "thrifty.costs",
    "GaussianProcess": "thrifty.costs",
    "Polynomial": "thrifty.costs",
    "SMCABC": "thrifty.inference.smc_abc",
    "ScoringRule": "thrifty.inference.scoring_rule",
    "SyntheticLikelihood": "thrifty.inference.synthetic_likelihood",
    "WeightedPosterior": "thrifty.inference.weighted_posterior",
    "distances": "",
    "fit_cost": "thrifty.costs",
    "group": "thrifty.inference.realisations",
    "likelihoods": "",
    "load_cost": "thrifty.costs",
    "models": "",
    "repeat": "thrifty.inference.realisations",
    "split_budget": "thrifty.inference.realisations",
}

__all__ = [
    "ABC",
    "AtLeast",
    "AtMost",
    "Constant",
    "CostAware",
    "Custom",
    "Draws",
    "Estimate",
    "FittedCost",
    "GaussianProcess",
    "Independent",
    "LogUniform",
    "Mixture",
    "Normal",
    "Output",
    "Polynomial",
    "Pool",
    "Power",
    "SMCABC",
    "ScoringRule",
    "Simulations",
    "SyntheticLikelihood",
    "ThriftyError",
    "ThriftyWarning",
    "Tradeoff",
    "Uniform",
    "WeightedPosterior",
    "__version__",
    "as_penalty",
    "as_prior",
    "check_prior",
    "closed_form",
    "distances",
    "ess",
    "estimate",
    "fit_cost",
    "group",
    "likelihoods",
    "load_cost",
    "models",
    "normalise",
    "pareto_k",
    "prior_recovery",
    "repeat",
    "resample",
    "split_budget",
    "tradeoff",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'thrifty' has no attribute {name!r}")
    module = import_module(_LAZY[name] or f"thrifty.{name}")
    value = getattr(module, name) if _LAZY[name] else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
