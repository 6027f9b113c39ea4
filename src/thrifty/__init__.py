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
    from thrifty.costs import FittedCost, GaussianProcess, Polynomial, fit_cost, load_cost
    from thrifty.inference.ensemble import Ensemble
    from thrifty.inference.nle import NLE
    from thrifty.inference.npe import NPE
    from thrifty.inference.nre import NRE
    from thrifty.inference.recipes import (
        MAF,
        NSF,
        Classifier,
        MixtureDensity,
        MLPEmbedding,
        SetEmbedding,
        SignalEmbedding,
    )
    from thrifty.inference.settings import Training
    from thrifty.posteriors import load_posterior

# name -> module that defines it; "" marks a module that is itself the public name
_LAZY: dict[str, str] = {
    "FittedCost": "thrifty.costs",
    "GaussianProcess": "thrifty.costs",
    "Polynomial": "thrifty.costs",
    "fit_cost": "thrifty.costs",
    "load_cost": "thrifty.costs",
    "models": "",
    "NPE": "thrifty.inference.npe",
    "NLE": "thrifty.inference.nle",
    "NRE": "thrifty.inference.nre",
    "Ensemble": "thrifty.inference.ensemble",
    "NSF": "thrifty.inference.recipes",
    "MAF": "thrifty.inference.recipes",
    "MixtureDensity": "thrifty.inference.recipes",
    "Classifier": "thrifty.inference.recipes",
    "MLPEmbedding": "thrifty.inference.recipes",
    "SignalEmbedding": "thrifty.inference.recipes",
    "SetEmbedding": "thrifty.inference.recipes",
    "Training": "thrifty.inference.settings",
    "load_posterior": "thrifty.posteriors",
}

__all__ = [
    "AtLeast",
    "AtMost",
    "Classifier",
    "Constant",
    "CostAware",
    "Custom",
    "Draws",
    "Ensemble",
    "Estimate",
    "FittedCost",
    "GaussianProcess",
    "Independent",
    "LogUniform",
    "MAF",
    "MLPEmbedding",
    "Mixture",
    "MixtureDensity",
    "NLE",
    "NPE",
    "NRE",
    "NSF",
    "Normal",
    "Output",
    "Polynomial",
    "Pool",
    "Power",
    "SetEmbedding",
    "SignalEmbedding",
    "Simulations",
    "ThriftyError",
    "ThriftyWarning",
    "Tradeoff",
    "Training",
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
    "load_posterior",
    "models",
    "normalise",
    "pareto_k",
    "prior_recovery",
    "resample",
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
