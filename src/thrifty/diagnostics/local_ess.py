"""Measure what cost-awareness took away at the observation: support relative to plain sampling of the same size.

A cost-aware campaign spends little on expensive regions. How much that matters at x_o is known from the weights alone,
normalised to mean one over the pool: n runs of the pool serve an estimate at theta as n / w(theta) draws of the prior
would, so at the posterior as

    n * relative,     relative = 1 / E[w(theta)],   theta ~ q(. | x_o)

draws of the prior. Plain draws have relative = 1, whatever the number of parameters: no run needs to lie inside the
posterior, since networks and regressions learn from all of them. Calibration says whether that was enough.

The weighted pool also represents the posterior: u_i = w_i q(theta_i | x_o) / p(theta_i), which `predictive` uses. Its
ESS falls quickly with the number of parameters, so it is no reason for or against trust.
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
    parameter_names,
)
from thrifty.diagnostics.verdict import DisplayedCheck, Trust
from thrifty.errors import DataError, ThriftyError
from thrifty.inference.checks import read_observations
from thrifty.named import order_observation
from thrifty.priors import as_prior
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Posterior, Prior, freeze
from thrifty.weights import ess, pareto_k

# draws of the prior that the runs are worth at x_o: the same limits as for the whole table (`weight_health`)
CARE_WORTH, MIN_WORTH = 100.0, 20.0
MAX_LOSS_RELATIVE = 0.5  # above half of what plain sampling gives, the penalty took nothing that matters
_MARGIN_SDS = 1.0  # sd of the runs: light-tailed priors reach so far beyond the last run once in 10^4 observations
_MAX_WEIGHT_ERROR = 0.02  # of a log weight: ranks move by less than 1 %
_REGION_DRAWS = 1000  # posterior draws that find the 95 % region and the mean weight
_MAX_CROSS_PARAMETERS = 6  # up to here log weights are fitted with products of parameters


@dataclass(frozen=True, repr=False)
class LocalEss(DisplayedCheck):
    """Support of the posterior at x_o.

    Attributes:
        ess: Effective number of runs that represent the posterior at x_o (`predictive` uses them).
        region: Effective number of runs inside its 95 % highest-density region.
        pareto_k: Shape of the tail of u; above 0.7 `ess` is unreliable.
        n: Valid runs in the pool.
        log_weights: log u (n,).
        relative: Effective runs at x_o over those of as many draws of the prior; 1 for plain draws.
        outside: Parameters in which nearly all of the posterior lies far beyond all runs.
        name: The check.
    """

    ess: float
    region: float
    pareto_k: float
    n: int
    log_weights: Array
    relative: float = 1.0
    outside: tuple[str, ...] = ()
    name: str = "local_ess"

    @property
    def worth(self) -> float:
        """How many draws of the prior would support the posterior as well as these runs do."""
        return self.n * self.relative

    @property
    def verdict(self) -> Trust:
        """The verdict by what the penalty took away, or by parameters that no run has tried."""
        if self.outside:
            return "do not trust"
        if self.relative > MAX_LOSS_RELATIVE or self.worth >= CARE_WORTH:
            return "trust"
        return "do not trust" if self.worth < MIN_WORTH else "with care"

    @property
    def reason(self) -> str:
        """One sentence with the numbers."""
        if self.outside:
            return (
                f"nearly all of the posterior lies far beyond all runs in {', '.join(self.outside[:5])}: add runs there"
            )
        what = f"at x_o {self.n:,} runs are worth {self.worth:,.0f} draws of the prior"
        return what if self.verdict == "trust" else f"{what}: the penalty avoids this region; add runs with k = 0"


def local_ess(
    posterior: Posterior, simulations: Simulations, x_o: npt.ArrayLike, *, prior: Any = None, seed: int = 0
) -> LocalEss:
    """Compute how many draws of the prior the runs are worth for the posterior at x_o.

    Args:
        posterior: `sample` and `log_prob`; its density need not be normalised.
        simulations: The pool with its weights; with its proposal the weights at posterior draws are exact, otherwise
            they are fitted by a quadratic of theta.
        x_o: The observation.
        prior: The prior; by default that of the posterior or of the proposal.
        seed: Seed of the draws that find the 95 % region.
    """
    check_posterior(posterior)
    check_simulations(simulations)
    pool = simulations.valid()
    if not len(pool):
        raise DataError("no valid run in the pool", code="too-few-runs")
    x_o = order_observation(x_o, pool.pairs()[1].shape[1:], pool.x_names)
    observed = read_observations(x_o, pool.pairs()[1].shape[1:])  # one, or several independent ones
    density = evaluate_log_density(posterior, pool.theta, x_o)
    check_log_density(density[None], observed[:1])
    log_prior = np.asarray(find_prior(posterior, simulations, prior).log_prob(pool.theta), dtype=np.float64)
    tilted = _posterior_log_weights(pool.log_weights, density, log_prior)
    draws = draw_posterior(posterior, _REGION_DRAWS, x_o, seed, pool.dim)
    edge = np.quantile(np.asarray(posterior.log_prob(draws, x_o), dtype=np.float64), 0.05)
    inside = (density >= edge) & (pool.log_weights > -np.inf)
    supported = bool((tilted > -np.inf).any())
    beyond = _find_beyond(pool.theta, draws)
    names = parameter_names(simulations.names, pool.dim)
    return LocalEss(
        ess=ess(tilted) if supported else 0.0,
        region=ess(pool.log_weights[inside]) if inside.any() else 0.0,
        pareto_k=pareto_k(tilted) if supported else float("inf"),
        n=len(pool),
        log_weights=freeze(tilted),
        relative=measure_relative_support(pool, draws),
        outside=tuple(name for name, out in zip(names, beyond, strict=True) if out),
    )


def _find_beyond(theta: Array, draws: Array) -> npt.NDArray[np.bool_]:
    """Find the parameters (p,) in which nearly all draws (k, p) lie far beyond all runs (n, p).

    A parameter of the prior itself lies just beyond the last of n runs two times in n + 1, for each of p parameters: so
    did, with informative data, 10 % of exact posteriors of ten parameters and 300 runs.
    """
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    margin = _MARGIN_SDS * theta.std(0)
    return np.asarray((high < theta.min(0) - margin) | (low > theta.max(0) + margin))


def measure_relative_support(pool: Simulations, draws: Array) -> float:
    """Compute 1 / mean weight at posterior draws (k, p), with weights of mean one over the pool.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.normal(-1.0, 1.0, (4000, 1))  # a proposal below the prior N(0, 1): log weight theta + 1/2
        >>> runs = th.Simulations.from_arrays(theta=theta, x=theta, log_weights=theta[:, 0])
        >>> near = [measure_relative_support(runs, np.full((9, 1), at)) for at in (-1.0, 2.0)]
        >>> bool(abs(near[0] - np.exp(0.5)) < 0.1), bool(abs(near[1] - np.exp(-2.5)) < 0.02)
        (True, True)
    """
    runs = pool[pool.log_weights > -np.inf]
    own = runs.log_weights
    if not len(runs) or float(np.ptp(own)) < 1e-9:
        return 1.0
    exact = _weights_of_proposal(runs, draws)
    own, at = (own, _fit_log_weights(runs.theta, own, draws)) if exact is None else exact
    top = max(float(own.max()), float(at.max()))
    return float(np.exp(own - top).mean() / max(float(np.exp(at - top).mean()), 1e-300))


def find_log_weights(runs: Simulations, points: Array) -> Array | None:
    """Return log weights (k,) at points (k, p), in the unit of the runs' own; None where they are not known there.

    They are known where the proposal gives back the weights of the runs, or where a quadratic of theta does.

    Example:
        >>> theta = np.random.default_rng(0).normal(size=(100, 1))
        >>> runs = th.Simulations.from_arrays(theta=theta, x=theta, log_weights=3 + theta[:, 0])
        >>> find_log_weights(runs, np.array([[0.5]])).round(9).tolist()
        [3.5]
        >>> find_log_weights(runs.reweighted(np.round(theta[:, 0])), np.array([[0.5]])) is None
        True
    """
    exact = _weights_of_proposal(runs, points)
    if exact is None:
        fitted = _fit_log_weights(runs.theta, runs.log_weights, np.vstack([runs.theta, points]))
        exact = fitted[: len(runs)], fitted[len(runs) :]
    off = runs.log_weights - exact[0]
    return exact[1] + float(off.mean()) if float(np.ptp(off)) < _MAX_WEIGHT_ERROR else None


def _weights_of_proposal(runs: Simulations, draws: Array) -> tuple[Array, Array] | None:
    """Evaluate log weights at the runs and at the draws by the proposal; None where it is not known there."""
    log_weight = getattr(runs.proposal, "log_weight", None)
    if log_weight is None:
        return None
    try:
        own, at = (np.asarray(log_weight(theta), dtype=np.float64) for theta in (runs.theta, draws))
    except (ThriftyError, ValueError):  # a cost that is not known at some draws
        return None
    return (own, at) if np.isfinite(own).all() and np.isfinite(at).all() else None


def _fit_log_weights(theta: Array, log_weights: Array, draws: Array) -> Array:
    """Fit log weights (n,) by a quadratic of theta (n, p); return them at the draws (k,), hardly beyond the runs'."""
    centre, spread = theta.mean(0), theta.std(0)
    spread = np.where(spread > 0, spread, 1.0)
    design, at = (_quadratic((points - centre) / spread) for points in (theta, draws))
    slopes = np.linalg.lstsq(design, log_weights, rcond=1e-8)[0]
    low, high = float(log_weights.min()), float(log_weights.max())
    return np.clip(at @ slopes, low, high + (high - low) / 2)


def _quadratic(z: Array) -> Array:
    rows, columns = np.triu_indices(z.shape[1])
    if z.shape[1] > _MAX_CROSS_PARAMETERS:  # squares alone
        rows = columns = np.arange(z.shape[1])
    return np.column_stack([np.ones(len(z)), z, z[:, rows] * z[:, columns]])


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
