"""The public names of thrifty, each with the module that defines it: the only list of them.

Type checkers and editors read this file; `__init__.py` reads it when thrifty is imported, and loads a module when the
first of its names is used. A new public name is one entry here.
"""

from thrifty import (
    benchmark as benchmark,
    closed_form as closed_form,
    diagnostics as diagnostics,
    distances as distances,
    likelihoods as likelihoods,
    metrics as metrics,
    models as models,
    plots as plots,
)
from thrifty.campaign.campaign import Campaign as Campaign
from thrifty.campaign.failures import FailureMap as FailureMap
from thrifty.campaign.plan import Plan as Plan
from thrifty.campaign.quote import Quote as Quote
from thrifty.campaign.simulate import simulate as simulate
from thrifty.campaign.status import Status as Status
from thrifty.costs import (
    FittedCost as FittedCost,
    GaussianProcess as GaussianProcess,
    Polynomial as Polynomial,
    fit_cost as fit_cost,
    load_cost as load_cost,
)
from thrifty.costs.split_budget import split_budget as split_budget
from thrifty.diagnostics import diagnose as diagnose
from thrifty.errors import ThriftyError as ThriftyError, ThriftyWarning as ThriftyWarning
from thrifty.inference.abc import ABC as ABC
from thrifty.inference.answers.corrected import Corrected as Corrected
from thrifty.inference.answers.evidence import LogEvidence as LogEvidence
from thrifty.inference.ensemble import Ensemble as Ensemble
from thrifty.inference.neural.fmpe import FMPE as FMPE
from thrifty.inference.neural.nle import NLE as NLE
from thrifty.inference.neural.npe import NPE as NPE
from thrifty.inference.neural.nre import NRE as NRE
from thrifty.inference.neural.recipes import (
    MAF as MAF,
    NSF as NSF,
    AutoregressiveMixture as AutoregressiveMixture,
    Classifier as Classifier,
    FlowMatching as FlowMatching,
    ImageEmbedding as ImageEmbedding,
    MixtureDensity as MixtureDensity,
    MLPEmbedding as MLPEmbedding,
    SequenceEmbedding as SequenceEmbedding,
    SetEmbedding as SetEmbedding,
    SignalEmbedding as SignalEmbedding,
)
from thrifty.inference.neural.spike_and_slab import SpikeAndSlab as SpikeAndSlab
from thrifty.inference.neural.training_settings import Training as Training
from thrifty.inference.saving import load_posterior as load_posterior
from thrifty.inference.scoring_rule import ScoringRule as ScoringRule
from thrifty.inference.synthetic_likelihood import SyntheticLikelihood as SyntheticLikelihood
from thrifty.inference.weighted_posterior import WeightedPosterior as WeightedPosterior
from thrifty.penalties import (
    AtLeast as AtLeast,
    AtMost as AtMost,
    Constant as Constant,
    Custom as Custom,
    Power as Power,
    as_penalty as as_penalty,
)
from thrifty.prior_recovery import prior_recovery as prior_recovery
from thrifty.priors import (
    Categorical as Categorical,
    Independent as Independent,
    Integers as Integers,
    LogUniform as LogUniform,
    Normal as Normal,
    Uniform as Uniform,
    as_prior as as_prior,
    check_prior as check_prior,
    truncate as truncate,
)
from thrifty.proposals import CostAware as CostAware, Mixture as Mixture, Pool as Pool
from thrifty.proposals.draws import Draws as Draws
from thrifty.runner.command import Command as Command
from thrifty.runner.engines.dask import Dask as Dask
from thrifty.runner.engines.executors import RayExecutor as RayExecutor, SubmititExecutor as SubmititExecutor
from thrifty.runner.engines.futures import Futures as Futures
from thrifty.runner.engines.inline import Inline as Inline
from thrifty.runner.engines.processes import Processes as Processes
from thrifty.sequential.infer import infer as infer
from thrifty.sequential.rounds import Rounds as Rounds
from thrifty.sequential.smc_abc import SMCABC as SMCABC
from thrifty.study.compare import Comparison as Comparison, compare as compare
from thrifty.study.study import Study as Study
from thrifty.tables.reweight import reweight as reweight
from thrifty.tables.simulations import Simulations as Simulations, table_hash as table_hash
from thrifty.tradeoff import Tradeoff as Tradeoff, tradeoff as tradeoff
from thrifty.types import Output as Output
from thrifty.version import __version__ as __version__
from thrifty.weights import (
    Estimate as Estimate,
    ess as ess,
    estimate as estimate,
    normalise as normalise,
    pareto_k as pareto_k,
    resample as resample,
)
