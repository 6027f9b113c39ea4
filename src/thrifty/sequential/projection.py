"""Statistics projected on what they say about the parameters, near the observation (semi-automatic ABC).

Among the runs nearest to x_o, regress the parameters z (without bounds) on the statistics and keep the fitted part:

    z = a + B (s - s_o) + residual with covariance C,        T(s) = C^-1/2 B (s - s_o)

T has one entry per parameter, 0 at the observation, in units of the residual: about one posterior standard deviation
(Fearnhead and Prangle 2012). A tolerance on T shrinks with the number of parameters, not of statistics: of a thousand
runs in twelve statistics the nearest tenth is everywhere, in two it is near. Runs outside the neighbourhood are not
projected and never accepted: a linear T means nothing there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from thrifty.inference.abc import ABC
from thrifty.inference.adjustment import Adjust, epanechnikov, one_size
from thrifty.inference.transforms import BoxTransform
from thrifty.inference.vector_distances import Euclidean
from thrifty.inference.weighted_posterior import WeightedPosterior
from thrifty.sequential.nearness import tolerance
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Prior
from thrifty.weights import ess

PER_STATISTIC = 2  # effective near runs for each coefficient of a regression
# Neighbourhood, as a share of the runs: of a hundred thousand the nearest 800 in twelve statistics differ in noise
# alone, and a regression on noise projects on noise.
SHARE = 0.2
RUNS_PER_DRAW = 40  # of a large neighbourhood one run in forty is kept: few draws then cost more than a wider tolerance


@dataclass(frozen=True)
class Projection:
    """The neighbourhood of the observation, its statistics projected.

    Attributes:
        rows: Runs of the pool that are near (k,).
        values: T at them (k, p).
    """

    rows: npt.NDArray[np.intp]
    values: Array

    def posterior(
        self, table: Simulations, x_o: Array, *, prior: Prior, particles: int, adjust: Adjust
    ) -> WeightedPosterior:
        """The weighted draws with the smallest |T| that count as `particles`, or as more where there are many runs."""
        near = Simulations.from_arrays(
            theta=table.theta[self.rows], x=self.values, log_weights=table.log_weights[self.rows], names=table.names
        )
        one = Euclidean(np.ones(self.values.shape[1]))
        origin = np.zeros(self.values.shape[1])
        many = min(len(self.rows) / RUNS_PER_DRAW, ess(near.log_weights) / 4)
        epsilon, _ = tolerance(one(self.values, origin), near.log_weights, particles=max(particles, int(many)))
        found = ABC(prior, epsilon=epsilon, distance=one, adjust=adjust).fit(near).accepted(origin)
        return replace(found, x_o=x_o, index=self.rows[found.index])


def projected(
    theta: Array, offset: Array, distances: Array, *, log_weights: Array, prior: Prior, particles: int
) -> Projection | None:
    """The projection of a pool: theta (n, p), s - s_o (n, d) and distances (n,), infinite for failed runs.

    The neighbourhood is the nearest fifth of all runs, at least 4 · particles of them, and more (up to twice as many)
    until they count as the particles. None where it holds too few runs for the regression.
    """
    order = np.argsort(distances, kind="stable")
    order = order[np.isfinite(distances[order])]
    least = max(4 * particles, int(SHARE * len(order)))
    count = min(least, len(order))
    while count < min(2 * least, len(order)) and ess(log_weights[order[:count]]) < particles:
        count += max(least // 16, 1)
    near = order[: min(count, len(order))]
    radius = float(distances[near[-1]]) if len(near) else 0.0
    weights = np.exp(epanechnikov(distances[near], radius * (1 + 1e-9)))
    if radius == 0 or weights.sum() ** 2 < PER_STATISTIC * (offset.shape[1] + 2) * (weights @ weights):
        return None
    low, high = prior.bounds
    fitted, residual = _regression(BoxTransform(low, high).to_unconstrained(theta[near]), offset[near], weights)
    covariance = (residual * weights[:, None]).T @ residual / weights.sum()
    if np.linalg.matrix_rank(covariance) < len(covariance):
        return None
    return Projection(near, fitted @ np.linalg.cholesky(np.linalg.inv(covariance)))


def _regression(z: Array, offset: Array, weights: Array) -> tuple[Array, Array]:
    """(B (s - s_o), residual) of the weighted regression of z on the offset."""
    scaled = one_size(offset, weights)
    design, root = np.column_stack([np.ones(len(z)), scaled]), np.sqrt(weights)[:, None]
    slopes = np.linalg.lstsq(root * design, root * z, rcond=1e-10)[0]  # collinear statistics: shortest solution
    return scaled @ slopes[1:], z - design @ slopes
