"""Tests of accuracy with random points (TARP, Lemos et al. 2023), with weights.

For a random reference point r_i the share of posterior draws nearer to r_i than theta_i is uniform if the posterior
is correct, whatever its shape. The test needs draws only and covers all parameters at once. Points that are independent
of x accept a posterior that ignores x, so one set of points is the regression of theta on x.
"""

from __future__ import annotations

import numpy as np

from thrifty.diagnostics.calibration import Calibration, calibrate
from thrifty.diagnostics.features import Components
from thrifty.diagnostics.replicates import Replicates, as_replicates
from thrifty.diagnostics.sbc import compute_ranks
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Posterior
from thrifty.weights import covariance, normalise

_MAX_DIRECTIONS = 5  # sets of far points: each costs a share of the significance level
_MAX_COMPONENTS, _RIDGE = 20, 0.02  # of x in the regression, and its shrinkage: any reference point is valid
_FAR_SDS = 10.0  # at this distance a distance is nearly a projection


def tarp(
    posterior: Posterior | Replicates,
    simulations: Simulations | None = None,
    *,
    pairs: int = 500,
    draws: int = 100,
    level: float = 0.95,
    seed: int = 0,
) -> Calibration:
    """Measure the weighted coverage of balls around random points; arguments as in `sbc`."""
    replicates = as_replicates(posterior, simulations, pairs=pairs, draws=draws, seed=seed)
    rng = np.random.default_rng(seed)
    theta = replicates.theta
    spread = np.sqrt(np.diag(covariance(theta, replicates.log_weights)))
    spread = np.where(spread > 0, spread, 1.0)
    sets = [_points_from_x(replicates, rng), *_random_points(theta, spread, rng)]
    ranks = [_ranks(replicates, reference, spread, rng) for reference in sets]
    afar = (f"from afar, direction {i + 1}" for i in range(len(sets) - 2))
    names = ("from where x points", "from all around", *afar)
    return calibrate("tarp", np.hstack(ranks), replicates.log_weights, names, level)


def _random_points(theta: Array, spread: Array, rng: np.random.Generator) -> list[Array]:
    """Draw sets of reference points (n, p): all around, and far away along orthogonal random directions.

    Points all around detect wrong widths but hardly a shift; far points detect a shift.
    """
    around = rng.uniform(theta.min(0), theta.max(0), theta.shape)
    basis = np.linalg.qr(rng.standard_normal((theta.shape[1],) * 2))[0][:_MAX_DIRECTIONS]
    centre = theta.mean(0)
    return [around, *(centre + spread * (_FAR_SDS * line + rng.standard_normal(theta.shape)) for line in basis)]


def _points_from_x(replicates: Replicates, rng: np.random.Generator) -> Array:
    """Predict theta (n, p) by regression on x, each half from the other: a point must not depend on its own theta."""
    parts = Components.of(replicates.x, replicates.log_weights, _MAX_COMPONENTS)(replicates.x)
    design = np.column_stack([np.ones(len(parts)), parts])
    weights, points = normalise(replicates.log_weights), np.empty_like(replicates.theta)
    half = rng.permutation(len(parts)) % 2 == 0
    for fitted in (half, ~half):
        share = weights[fitted] / max(float(weights[fitted].sum()), 1e-300)
        moment = (design[fitted] * share[:, None]).T @ design[fitted] + _RIDGE * np.eye(design.shape[1])
        points[~fitted] = design[~fitted] @ np.linalg.solve(
            moment, (design[fitted] * share[:, None]).T @ replicates.theta[fitted]
        )
    return points


def _ranks(replicates: Replicates, reference: Array, spread: Array, rng: np.random.Generator) -> Array:
    truth, draws = (
        np.linalg.norm((points - reference[:, None, :]) / spread, axis=2)[:, :, None]
        for points in (replicates.theta[:, None, :], replicates.draws)
    )
    return compute_ranks(truth, draws, rng)
