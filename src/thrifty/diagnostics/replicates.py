"""Draw from a posterior at held-out runs: the data that calibration is measured on.

A run (theta_i, x_i) with weight w_i represents a draw of the joint prior p(theta) p(x | theta). Runs of a cost-aware
campaign that were not used for training therefore calibrate a posterior without any new simulation. Runs are chosen
with probability proportional to weight and keep weight / probability: the same expectation, and up to 1/ESS_fraction
times more effective runs for the same number of posterior calls.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from thrifty.diagnostics.arguments import (
    as_columns,
    check_count,
    check_draws,
    check_log_density,
    check_posterior,
    check_simulations,
    choose_independent_runs,
    evaluate_log_density,
    parameter_names,
)
from thrifty.errors import DataError, ThriftyWarning
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Posterior, freeze
from thrifty.weights import ess, normalise


@dataclass(frozen=True)
class Replicates:
    """Hold held-out parameters and posterior draws at their outputs.

    Attributes:
        theta: Parameters (n, p) that made x.
        x: Outputs (n, *event).
        draws: Posterior draws (n, l, p) at each x.
        log_weights: Log weights (n,) of the pairs (theta, x).
        density: Log posterior density of theta and of the draws, (n, 1 + l), or None.
        names: Parameter names.
        x_names: Names of the statistics, or empty.
    """

    theta: Array
    x: Array
    draws: Array
    log_weights: Array
    density: Array | None = None
    names: tuple[str, ...] = ()
    x_names: tuple[str, ...] = ()

    @property
    def ess(self) -> float:
        """The effective number of pairs."""
        return ess(self.log_weights)

    def __len__(self) -> int:
        return len(self.theta)


def replicate(
    posterior: Posterior,
    simulations: Simulations,
    *,
    pairs: int = 500,
    draws: int = 100,
    density: bool = True,
    seed: int = 0,
) -> Replicates:
    """Draw from the posterior at the outputs of held-out runs.

    Args:
        posterior: An object with `sample(n, x, seed=)`, and `log_prob(theta, x)` if `density` is true;
            `sample_batched(n, x, seed=)` -> (len(x), n, p) is used where it exists.
        simulations: Runs that did not train the posterior, with their weights; of m > 1 realisations one is used.
        pairs: How many of them to use; 500 find a shift of a quarter of a standard deviation.
        draws: Posterior draws at each; 100 resolve coverage to 1 %.
        density: Whether to evaluate log densities too (needed by `coverage`).
        seed: Seed of the choice and of the draws.
    """
    check_posterior(posterior)
    check_simulations(simulations)
    check_count(pairs, 1, "pairs")
    check_count(draws, 10, "draws")
    check_count(seed, 0, "seed")
    rng = np.random.default_rng(seed)
    theta, x, log_weights = choose_independent_runs(simulations, rng)
    if len(theta) < 20:
        raise DataError(
            f"{len(theta)} valid held-out runs; calibration needs at least 20",
            code="too-few-runs",
            fix="keep some runs out of training, e.g. simulations[-500:]",
        )
    chosen, log_weights = _choose_runs(log_weights, pairs, rng)
    theta, x = theta[chosen], x[chosen]
    dim = theta.shape[1]
    with warnings.catch_warnings():  # warnings about unusual outputs are expected here: their fit is what is measured
        warnings.simplefilter("ignore", ThriftyWarning)
        samples = _draw_at_each(posterior, x, draws, rng)
        check_draws(samples, x, draws, dim)
        values = _densities(posterior, x, theta, samples) if density else None
    tables = (freeze(theta), freeze(x), freeze(samples), freeze(log_weights))
    return Replicates(*tables, values, parameter_names(simulations.names, dim), simulations.x_names)


def as_replicates(
    source: Any, simulations: Simulations | None, *, pairs: int, draws: int, seed: int, density: bool = False
) -> Replicates:
    """Return `source` if it already holds replicates, else `replicate(source, simulations, ...)`."""
    if isinstance(source, Replicates):
        return source
    if simulations is None:
        raise DataError("held-out simulations are needed to calibrate a posterior", code="too-few-runs")
    return replicate(source, simulations, pairs=pairs, draws=draws, density=density, seed=seed)


def _choose_runs(log_weights: Array, pairs: int, rng: np.random.Generator) -> tuple[np.ndarray, Array]:
    """Choose rows with probability min(1, c w), sum = pairs; return them and log(weight / probability)."""
    n = len(log_weights)
    if n <= pairs:
        keep = np.flatnonzero(log_weights > -np.inf)
        return keep, log_weights[keep]
    weights = normalise(log_weights)
    share = np.minimum(pairs * weights, 1.0)
    while True:  # large weights are chosen for certain; the other rows share the remaining places
        certain = share >= 1.0
        free = weights[~certain].sum()
        if free <= 0:
            break
        scaled = np.where(certain, 1.0, (pairs - certain.sum()) * weights / free)
        if not (scaled[~certain] > 1.0).any():
            share = scaled
            break
        share = np.minimum(scaled, 1.0)
    order = rng.permutation(n)  # systematic sampling over a random order
    steps = np.cumsum(share[order])
    points = np.arange(rng.random(), steps[-1], 1.0)
    chosen = order[np.minimum(np.searchsorted(steps, points), n - 1)]
    chosen = np.unique(chosen)
    return chosen, log_weights[chosen] - np.log(share[chosen])


def _draw_at_each(posterior: Any, x: Array, draws: int, rng: np.random.Generator) -> Array:
    seeds = rng.integers(2**31, size=len(x)).tolist()
    if hasattr(posterior, "sample_batched"):
        return np.asarray(posterior.sample_batched(draws, x, seed=seeds[0]), dtype=np.float64)
    return np.stack([as_columns(posterior.sample(draws, x_i, seed=s), draws) for x_i, s in zip(x, seeds, strict=True)])


def _densities(posterior: Posterior, x: Array, theta: Array, samples: Array) -> Array:
    points = np.concatenate([theta[:, None, :], samples], axis=1)
    density = np.stack([evaluate_log_density(posterior, p, x_i) for p, x_i in zip(points, x, strict=True)])
    check_log_density(density, x)
    return freeze(density)
