"""Priors: what thrifty ships, and `as_prior`, which understands everybody else's.

A prior is anything with `sample(n, rng) -> (n, p)`, `log_prob(theta) -> (n,)`, `names`, `dim` and
`bounds` (see `thrifty.types.Prior`). Uniform, Normal and LogUniform are vectorised over parameters;
Integers and Categorical take whole numbers and categories; Independent joins any of them and scipy's frozen
distributions, by name; `as_prior` wraps scipy, torch and sbi objects without
importing torch.
"""

from thrifty.priors.adapters import as_prior
from thrifty.priors.check_prior import check_draws, check_prior, has_same_density, is_same_prior
from thrifty.priors.discrete import Categorical, Integers
from thrifty.priors.families import LogUniform, Normal, Uniform
from thrifty.priors.independent import Independent
from thrifty.priors.truncate import truncate

__all__ = [
    "Categorical",
    "Independent",
    "Integers",
    "LogUniform",
    "Normal",
    "Uniform",
    "as_prior",
    "check_draws",
    "check_prior",
    "has_same_density",
    "is_same_prior",
    "truncate",
]
