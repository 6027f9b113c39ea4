"""Posterior predictive check: do parameters from the posterior produce data like x_o?

The pool of runs, weighted by u_i = w_i q(theta_i | x_o) / p(theta_i), already holds outputs at posterior parameters,
so the check needs no new simulation where the local ESS is large enough. Fresh runs at posterior draws may be given.
The p-value is known to be conservative: x_o has been used to fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.diagnostics.arguments import check_posterior, check_simulations, choose_independent_runs, statistic_names
from thrifty.diagnostics.local_ess import LocalEss, local_ess
from thrifty.diagnostics.verdict import CARE_P_VALUE, DisplayedCheck, Trust, format_p_value
from thrifty.inference.checks import read_observation
from thrifty.named import order_observation
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Posterior, freeze
from thrifty.weights import covariance, ess, mean, normalise, quantile

MIN_EFFECTIVE_OUTPUTS = 30.0  # with fewer the tails cannot be judged
FAR_RATIO = 1.2  # times the 99 % distance: for normal outputs one in two thousand


@dataclass(frozen=True, repr=False)
class Predictive(DisplayedCheck):
    """The position of x_o among outputs at posterior parameters.

    Attributes:
        x: Outputs (n, d), flattened.
        log_weights: Of the outputs, as draws of the posterior predictive (n,).
        x_o: The observation (d,).
        p_values: Two-sided tail of each statistic (d,).
        distance_p: Share of outputs at least as far from their centre as x_o, by Mahalanobis distance.
        distance: Distance of x_o over the 99 % quantile of that of the outputs.
        ess: Effective number of outputs.
        names: Of the statistics.
        name: The check.
    """

    x: Array
    log_weights: Array
    x_o: Array
    p_values: Array
    distance_p: float
    distance: float
    ess: float
    names: tuple[str, ...]
    name: str = "predictive"

    @property
    def p_value(self) -> float:
        """The p-value of the distance and of the worst statistic together, by Bonferroni."""
        return float(min(1.0, 2 * min(self.distance_p, len(self.p_values) * self.p_values.min())))

    @property
    def is_judged(self) -> bool:
        """Whether enough outputs lie near the posterior; p-values of fewer say nothing and are not shown."""
        return self.ess >= MIN_EFFECTIVE_OUTPUTS

    @property
    def outside(self) -> tuple[str, ...]:
        """Statistics in which x_o lies beyond all outputs, those without weight included."""
        beyond = (self.x_o < self.x.min(0)) | (self.x_o > self.x.max(0))
        return tuple(name for name, is_beyond in zip(self.names, beyond, strict=True) if is_beyond)

    @property
    def verdict(self) -> Trust:
        """The verdict: a posterior that cannot produce x_o is wrong at x_o, or the model is."""
        return self.judge(1)

    def judge(self, tests: int) -> Trust:
        """Return the verdict when this is one of several tests of the same question."""
        if not self.is_judged:
            return "with care"
        if tests * self.p_value >= CARE_P_VALUE:
            return "trust"
        return "do not trust" if self.distance > FAR_RATIO else "with care"

    @property
    def reason(self) -> str:
        """One sentence with the numbers."""
        if not self.is_judged:
            return f"{self.describe_too_few()}; run its draws and pass them as fresh="
        if self.verdict == "trust":
            return f"x_o looks like data of the posterior ({format_p_value(self.p_value)})"
        worst = int(np.argmin(self.p_values))
        return f"x_o is unlike data of the posterior, most in {self.names[worst]} ({format_p_value(self.p_value)})"

    def describe_too_few(self) -> str:
        """Say why it is not judged, and where x_o lies outside of all outputs."""
        few = f"only {self.ess:.0f} effective outputs near the posterior, {MIN_EFFECTIVE_OUTPUTS:.0f} are needed"
        return f"x_o lies outside all outputs in {', '.join(self.outside[:5])}; {few}" if self.outside else few


def predictive(
    posterior: Posterior,
    simulations: Simulations,
    x_o: npt.ArrayLike,
    *,
    prior: Any = None,
    fresh: Simulations | None = None,
    support: LocalEss | None = None,
    seed: int = 0,
) -> Predictive:
    """Compare x_o with outputs at posterior parameters, from the pool or from fresh runs.

    Args:
        posterior: The posterior.
        simulations: The pool with its weights.
        x_o: The observation.
        prior: As in `local_ess`.
        fresh: Runs at posterior draws, e.g. `th.simulate(simulator, th.Draws(theta=posterior.sample(...)))`.
        support: What `local_ess` gave for the same arguments, where it is known already.
        seed: Seed of the draws that find the region.
    """
    check_posterior(posterior)
    check_simulations(simulations)
    check_simulations(simulations if fresh is None else fresh, "fresh")
    pool = (simulations if fresh is None else fresh).valid()
    x_o = order_observation(x_o, pool.pairs()[1].shape[1:], pool.x_names)
    observed = read_observation(x_o, pool.pairs()[1].shape[1:]).ravel()
    if fresh is None:
        support = support or local_ess(posterior, simulations, x_o, prior=prior, seed=seed)
        tilted = support.log_weights
        if not (tilted > -np.inf).any():
            x = pool.pairs()[1][:: pool.m]
            return _without_support(x.reshape(len(x), -1), observed, pool.x_names)
        pool = pool.reweighted(tilted)
    _, x, log_weights = choose_independent_runs(pool, np.random.default_rng(seed))
    return _check(x.reshape(len(x), -1), log_weights, observed, pool.x_names)


def _check(x: Array, log_weights: Array, observed: Array, names: tuple[str, ...]) -> Predictive:
    weights, size = normalise(log_weights), ess(log_weights)
    at_least, at_most = (tail_p_value(weights @ tail, size) for tail in (x >= observed, x <= observed))
    distance, own = _mahalanobis_distances(x, log_weights, observed)
    return Predictive(
        x=freeze(x),
        log_weights=freeze(log_weights),
        x_o=freeze(observed),
        p_values=np.minimum(1.0, 2 * np.minimum(at_least, at_most)),
        distance_p=float(tail_p_value(weights @ (distance >= own), size)),
        distance=own / max(float(quantile(distance, 0.99, log_weights)[0]), 1e-300),
        ess=size,
        names=statistic_names(names, x.shape[1]),
    )


def _without_support(x: Array, observed: Array, names: tuple[str, ...]) -> Predictive:
    """Report that no run supports the posterior."""
    names = statistic_names(names, len(observed))
    none = freeze(np.full(len(x), -np.inf))
    return Predictive(freeze(x), none, freeze(observed), np.ones(len(observed)), 1.0, 0.0, 0.0, names)


def tail_p_value(share: Any, size: float) -> Any:
    """Turn a tail share into a p-value: x_o itself counts as one of size + 1."""
    return (share * size + 1) / (size + 1)


def _mahalanobis_distances(x: Array, log_weights: Array, observed: Array) -> tuple[Array, float]:
    """Compute distances of the outputs (n,) and of x_o from the weighted mean; few runs shrink the correlations."""
    centre, matrix = mean(x, log_weights), covariance(x, log_weights)
    spread = np.sqrt(np.diag(matrix))
    spread = np.where(spread > 0, spread, 1.0)
    correlation = matrix / np.outer(spread, spread)
    share = min(1.0, x.shape[1] / ess(log_weights))  # noise of a correlation matrix grows with d/n
    correlation = (1 - share) * correlation + share * np.eye(len(spread))
    root = np.linalg.cholesky(correlation + 1e-9 * np.eye(len(spread)))
    table = np.linalg.solve(root, np.vstack([x, observed]).T / spread[:, None] - (centre / spread)[:, None])
    distance = np.sqrt((table**2).sum(0))
    return distance[:-1], float(distance[-1])
