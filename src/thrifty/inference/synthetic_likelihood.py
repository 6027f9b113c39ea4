"""Bayesian synthetic likelihood on a cost-aware design.

    l(theta) = log density of x_o under a model (Gaussian, shrunk, semi-parametric) of the m runs at theta

The likelihood at each parameter stands on its own, so any proposal with full support will do: weights are needed
only by the pointwise posterior, where they are prior/proposal × likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thrifty.errors import ConfigError, DataError
from thrifty.inference.likelihood_posterior import How, LikelihoodPosterior, check_how, realisations
from thrifty.inference.synthetic import Gaussian, SemiParametric
from thrifty.priors import as_prior
from thrifty.types import Array, Prior, Simulations


@dataclass(frozen=True)
class EachObservation:
    """Sum of a synthetic log-likelihood over independent observations (r, d)."""

    one: Gaussian | SemiParametric

    def __call__(self, x: Array, x_o: Array) -> Array:
        """Log-likelihood (n,) of all observations."""
        return np.sum([self.one(x, observation) for observation in x_o], axis=0)

    def recipe(self) -> dict[str, Any]:
        """Plain values that rebuild it."""
        return self.one.recipe()


@dataclass(frozen=True)
class SyntheticLikelihood:
    """Settings of synthetic-likelihood inference.

    Args:
        prior: The prior.
        m: Runs per parameter; read from the table when left out.
        likelihood: `th.likelihoods.Gaussian()` (with shrinkage or unbiased), or `.SemiParametric()`.
        how: "surrogate" (quadratic and Gaussian process, sampled by emcee), "regression" (quadratic alone), or
            "pointwise" (importance weights on the drawn parameters).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.uniform(-3, 3, (300, 1))
        >>> x = theta[:, None] + rng.normal(size=(300, 40, 1))
        >>> sims = th.Simulations.from_arrays(theta=theta, x=x, m=40)
        >>> post = SyntheticLikelihood(th.Uniform(-3, 3)).fit(sims)
        >>> bool(abs(post.sample(1000, [0.5], seed=0).mean() - 0.5) < 0.15)
        True
    """

    prior: Prior
    m: int | None = None
    likelihood: Gaussian | SemiParametric = field(default_factory=Gaussian)
    how: How = "surrogate"

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", as_prior(self.prior))
        check_how(self.how)
        if self.m is not None and (self.m != int(self.m) or self.m < 2):
            raise ConfigError(f"m must be a whole number >= 2, got {self.m}", code="bad-setting")
        if not isinstance(self.likelihood, Gaussian | SemiParametric):
            raise ConfigError(
                f"likelihood must be th.likelihoods.Gaussian(...) or .SemiParametric(...), got {self.likelihood!r}",
                code="bad-setting",
            )

    def fit(self, simulations: Simulations, *, seed: int = 0) -> LikelihoodPosterior:
        """Bind the settings to a table with m runs per parameter; `seed` is for uniformity, nothing is random here."""
        valid, x = realisations(simulations, self.m)
        if valid.dim != self.prior.dim:
            raise DataError(
                f"simulations have {valid.dim} parameters, the prior has {self.prior.dim}", code="wrong-prior"
            )
        self.likelihood(x[:1], x[0, 0])  # refuses too few runs per parameter before any x_o
        return LikelihoodPosterior(
            prior=self.prior,
            theta=valid.theta,
            x=x,
            log_weights=valid.log_weights,
            likelihood=EachObservation(self.likelihood),
            how=self.how,
            event=valid.x.shape[2:],
            kind="synthetic-likelihood",
            names=valid.names or self.prior.names,
        )
