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
    from thrifty import models
    from thrifty.campaign.campaign import Campaign
    from thrifty.campaign.command import Command
    from thrifty.campaign.dask import Dask
    from thrifty.campaign.inline import Inline
    from thrifty.campaign.simulate import simulate
    from thrifty.campaign.workers import Processes
    from thrifty.costs import FittedCost, GaussianProcess, Polynomial, fit_cost, load_cost

# name -> module that defines it; "" marks a module that is itself the public name
_LAZY: dict[str, str] = {
    "Campaign": "thrifty.campaign.campaign",
    "Command": "thrifty.campaign.command",
    "Dask": "thrifty.campaign.dask",
    "FittedCost": "thrifty.costs",
    "GaussianProcess": "thrifty.costs",
    "Inline": "thrifty.campaign.inline",
    "Polynomial": "thrifty.costs",
    "Processes": "thrifty.campaign.workers",
    "fit_cost": "thrifty.costs",
    "load_cost": "thrifty.costs",
    "models": "",
    "simulate": "thrifty.campaign.simulate",
}

__all__ = [
    "AtLeast",
    "AtMost",
    "Campaign",
    "Command",
    "Constant",
    "CostAware",
    "Custom",
    "Dask",
    "Draws",
    "Estimate",
    "FittedCost",
    "GaussianProcess",
    "Independent",
    "Inline",
    "LogUniform",
    "Mixture",
    "Normal",
    "Polynomial",
    "Pool",
    "Power",
    "Output",
    "Processes",
    "Simulations",
    "ThriftyError",
    "ThriftyWarning",
    "Tradeoff",
    "Uniform",
    "__version__",
    "as_penalty",
    "as_prior",
    "check_prior",
    "closed_form",
    "ess",
    "estimate",
    "fit_cost",
    "load_cost",
    "models",
    "normalise",
    "pareto_k",
    "prior_recovery",
    "resample",
    "tradeoff",
    "simulate",
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
