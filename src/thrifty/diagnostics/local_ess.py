"""Measure how many runs of the pool support the posterior at the observation.

The weighted pool represents the prior; multiplied by posterior over prior it represents the posterior:

    u_i = w_i q(theta_i | x_o) / p(theta_i),       local ESS = (sum u)^2 / sum u^2

A cost-aware campaign spends little on expensive regions; when x_o points there, few effective runs are left and
the posterior is an extrapolation, whatever its calibration elsewhere. Pareto's k of u says whether that ESS itself
is reliable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.diagnostics.arguments import (
    check_log_density,
    check_posterior,
    check_simulations,
    draw_posterior,
    evaluate_log_density,
)
from thrifty.diagnostics.verdict import Trust
from thrifty.errors import DataError
from thrifty.inference.checks import read_observations
from thrifty.priors import as_prior
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Posterior, Prior, freeze
from thrifty.weights import ess, pareto_k

# effective runs in the 95 % region: below the first the posterior relies on neighbouring runs, below the second on none
CARE_REGION_RUNS, MIN_REGION_RUNS = 100.0, 3.0


@dataclass(frozen=True)
class LocalEss:
    """Support of the posterior at x_o.

    Attributes:
        ess: Effective number of runs for the posterior at x_o.
        region: Effective number of runs inside its 95 % highest-density region.
        pareto_k: Shape of the tail of u; above 0.7 `ess` is unreliable.
        n: Valid runs in the pool.
        log_weights: log u (n,).
        name: The check.
    """

    ess: float
    region: float
    pareto_k: float
    n: int
    log_weights: Array
    name: str = "local_ess"

    @property
    def verdict(self) -> Trust:
        """The verdict by the effective runs in the region; a heavy tail requires care."""
        if self.region < MIN_REGION_RUNS:
            return "do not trust"
        return "with care" if self.region < CARE_REGION_RUNS or self.pareto_k > 0.7 else "trust"

    @property
    def reason(self) -> str:
        """One sentence with the numbers."""
        what = f"{self.region:.0f} effective runs lie in the 95 % region of the posterior"
        if self.region < CARE_REGION_RUNS:
            return f"only {what}; add runs there or with k = 0"
        if self.pareto_k > 0.7:
            return f"{what}, but few of them dominate (Pareto k {self.pareto_k:.2f}); add runs there"
        return f"{what} (ESS for the whole posterior {self.ess:.0f})"


def local_ess(
    posterior: Posterior, simulations: Simulations, x_o: npt.ArrayLike, *, prior: Any = None, seed: int = 0
) -> LocalEss:
    """Compute the effective number of runs that support the posterior at x_o.

    Args:
        posterior: `sample` and `log_prob`; its density need not be normalised.
        simulations: The pool with its weights.
        x_o: The observation.
        prior: The prior; by default that of the posterior or of the proposal.
        seed: Seed of the draws that find the 95 % region.
    """
    check_posterior(posterior)
    check_simulations(simulations)
    pool = simulations.valid()
    if not len(pool):
        raise DataError("no valid run in the pool", code="too-few-runs")
    observed = read_observations(x_o, pool.pairs()[1].shape[1:])  # one, or several independent ones
    density = evaluate_log_density(posterior, pool.theta, x_o)
    check_log_density(density[None], observed[:1])
    log_prior = np.asarray(find_prior(posterior, simulations, prior).log_prob(pool.theta), dtype=np.float64)
    tilted = _posterior_log_weights(pool.log_weights, density, log_prior)
    draws = draw_posterior(posterior, 1000, x_o, seed, pool.dim)
    edge = np.quantile(np.asarray(posterior.log_prob(draws, x_o), dtype=np.float64), 0.05)
    inside = (density >= edge) & (pool.log_weights > -np.inf)
    supported = bool((tilted > -np.inf).any())
    return LocalEss(
        ess=ess(tilted) if supported else 0.0,
        region=ess(pool.log_weights[inside]) if inside.any() else 0.0,
        pareto_k=pareto_k(tilted) if supported else float("inf"),
        n=len(pool),
        log_weights=freeze(tilted),
    )


def find_prior(posterior: Any, simulations: Simulations, prior: Any = None) -> Prior:
    """Return the prior given, or that of the posterior, or of the proposal."""
    for found in (prior, getattr(posterior, "prior", None), getattr(simulations.proposal, "prior", None)):
        if found is not None:
            return as_prior(found)
    raise DataError(
        "the prior is not known here",
        code="wrong-prior",
        why="the pool is weighted by posterior over prior",
        fix="pass prior=",
    )


def _posterior_log_weights(log_weights: Array, density: Array, log_prior: Array) -> Array:
    with np.errstate(invalid="ignore"):
        tilted = log_weights + density - log_prior
    return np.where(np.isnan(tilted) | (log_prior == -np.inf), -np.inf, tilted)
