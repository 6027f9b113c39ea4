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
    from thrifty import diagnostics, distances, likelihoods, metrics, models, plots
    from thrifty.campaign.campaign import Campaign
    from thrifty.campaign.command import Command
    from thrifty.campaign.dask import Dask
    from thrifty.campaign.inline import Inline
    from thrifty.campaign.simulate import simulate
    from thrifty.campaign.workers import Processes
    from thrifty.costs import FittedCost, GaussianProcess, Polynomial, fit_cost, load_cost
    from thrifty.diagnostics import diagnose
    from thrifty.inference.abc import ABC
    from thrifty.inference.ensemble import Ensemble
    from thrifty.inference.nle import NLE
    from thrifty.inference.npe import NPE
    from thrifty.inference.nre import NRE
    from thrifty.inference.realisations import split_budget
    from thrifty.inference.recipes import (
        MAF,
        NSF,
        Classifier,
        MixtureDensity,
        MLPEmbedding,
        SetEmbedding,
        SignalEmbedding,
    )
    from thrifty.inference.scoring_rule import ScoringRule
    from thrifty.inference.settings import Training
    from thrifty.inference.smc_abc import SMCABC
    from thrifty.inference.synthetic_likelihood import SyntheticLikelihood
    from thrifty.inference.weighted_posterior import WeightedPosterior
    from thrifty.posteriors import load_posterior
    from thrifty.reweighting import reweight
    from thrifty.study import Study, infer

# name -> module that defines it; "" marks a module that is itself the public name
_LAZY: dict[str, str] = {
    "ABC": "thrifty.inference.abc",
    "Campaign": "thrifty.campaign.campaign",
    "Classifier": "thrifty.inference.recipes",
    "Command": "thrifty.campaign.command",
    "Dask": "thrifty.campaign.dask",
    "Ensemble": "thrifty.inference.ensemble",
    "FittedCost": "thrifty.costs",
    "GaussianProcess": "thrifty.costs",
    "Inline": "thrifty.campaign.inline",
    "MAF": "thrifty.inference.recipes",
    "MLPEmbedding": "thrifty.inference.recipes",
    "MixtureDensity": "thrifty.inference.recipes",
    "NLE": "thrifty.inference.nle",
    "NPE": "thrifty.inference.npe",
    "NRE": "thrifty.inference.nre",
    "NSF": "thrifty.inference.recipes",
    "Polynomial": "thrifty.costs",
    "Processes": "thrifty.campaign.workers",
    "SMCABC": "thrifty.inference.smc_abc",
    "ScoringRule": "thrifty.inference.scoring_rule",
    "SetEmbedding": "thrifty.inference.recipes",
    "SignalEmbedding": "thrifty.inference.recipes",
    "Study": "thrifty.study",
    "SyntheticLikelihood": "thrifty.inference.synthetic_likelihood",
    "Training": "thrifty.inference.settings",
    "WeightedPosterior": "thrifty.inference.weighted_posterior",
    "diagnose": "thrifty.diagnostics",
    "diagnostics": "",
    "distances": "",
    "fit_cost": "thrifty.costs",
    "infer": "thrifty.study",
    "likelihoods": "",
    "load_cost": "thrifty.costs",
    "load_posterior": "thrifty.posteriors",
    "metrics": "",
    "models": "",
    "plots": "",
    "reweight": "thrifty.reweighting",
    "simulate": "thrifty.campaign.simulate",
    "split_budget": "thrifty.inference.realisations",
}

__all__ = [
    "ABC",
    "AtLeast",
    "AtMost",
    "Campaign",
    "Classifier",
    "Command",
    "Constant",
    "CostAware",
    "Custom",
    "Dask",
    "Draws",
    "Ensemble",
    "Estimate",
    "FittedCost",
    "GaussianProcess",
    "Independent",
    "Inline",
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
    "Processes",
    "SMCABC",
    "ScoringRule",
    "SetEmbedding",
    "SignalEmbedding",
    "Simulations",
    "Study",
    "SyntheticLikelihood",
    "ThriftyError",
    "ThriftyWarning",
    "Tradeoff",
    "Training",
    "Uniform",
    "WeightedPosterior",
    "__version__",
    "as_penalty",
    "as_prior",
    "check_prior",
    "closed_form",
    "diagnose",
    "diagnostics",
    "distances",
    "ess",
    "estimate",
    "fit_cost",
    "infer",
    "likelihoods",
    "load_cost",
    "load_posterior",
    "metrics",
    "models",
    "normalise",
    "pareto_k",
    "plots",
    "prior_recovery",
    "resample",
    "reweight",
    "simulate",
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
