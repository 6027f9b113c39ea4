"""Measure how near every run of a sequential method is to the observation, and choose the nearest ones.

Scale. `th.ABC` divides statistics by their prior-weighted median deviation. That is the wrong scale for an observation
from another regime: of outbreaks of which more than half die out at once, a final size of 878 is hundreds of deviations
away and nothing else counts. So generation 0 is measured by the width of the central 90 % of prior mass, which covers
both regimes, and later ones by that of the runs nearest to the observation *on this first scale*: what the statistics
do where the posterior is (adaptive distances, Prangle 2017). The nearest are chosen on the first scale, since a scale
computed from runs that it chose itself diverges. Distances of all earlier runs are computed again, so that one distance
holds for the whole pool. A scale or a tolerance given by hand, distances between data sets and callables stay.

Projection. Among the runs nearest to x_o, regress the parameters z (without bounds) on the statistics and keep the
fitted part (semi-automatic ABC, Fearnhead and Prangle 2012):

    z = a + B (s - s_o) + residual with covariance C,        T(s) = C^-1/2 B (s - s_o)

T has one entry per parameter, 0 at the observation, in units of the residual: about one posterior standard deviation.
A tolerance on T shrinks with the number of parameters, not of statistics: of a thousand runs in twelve statistics the
nearest tenth is everywhere, in two it is near. Runs outside the neighbourhood are not projected and never accepted: a
linear T means nothing there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError, InferenceError
from thrifty.inference.abc import ABC
from thrifty.inference.adjustment import Adjust, epanechnikov, regress
from thrifty.inference.checks import read_observation
from thrifty.inference.transforms import BoxTransform
from thrifty.inference.vector_distances import Distance, Euclidean, UserDistance, as_distance, measure_width
from thrifty.inference.weighted_posterior import WeightedPosterior
from thrifty.named import order_observation
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Prior
from thrifty.weights import ess

RUNS_PER_COEFFICIENT = 2  # effective near runs for each coefficient of a regression
# Neighbourhood, as a share of the runs: of a hundred thousand the nearest 800 in twelve statistics differ in noise
# alone, and a regression on noise projects on noise.
NEIGHBOURHOOD_SHARE = 0.2
RUNS_PER_DRAW = 40  # of a large neighbourhood one run in forty is kept: too few draws cost more than a wider tolerance


class Nearness:
    """Distances (n,) of a growing table of runs.

    Args:
        distance: As in `th.ABC`.
        x_o: The observation.
        fixed: Whether the scale of generation 0 is kept, because a tolerance was given in it.
    """

    def __init__(
        self, distance: Distance | Callable[[Array, Array], npt.ArrayLike] | None, x_o: npt.ArrayLike, *, fixed: bool
    ) -> None:
        self._settings = as_distance(distance)
        self.x_o: Any = x_o
        self.distance: Distance = self._settings
        self.distances: Array = np.empty(0)
        self._first: Euclidean | None = None
        own = isinstance(self._settings, Euclidean) and self._settings.scale is None
        self.is_adaptive = own and not fixed

    def measure_first(self, runs: Simulations, log_weights: Array) -> None:
        """Measure the runs of generation 0 and fix the first scale."""
        self._check(runs)
        x = self._rows(runs)
        self.x_o = (
            np.asarray(order_observation(self.x_o, x.shape[2:], runs.x_names), dtype=float)
            if self._settings.datasets
            else read_observation(self.x_o, runs.pairs()[1].shape[1:], runs.x_names).ravel()
        )
        self.distance = self._settings.fit(x[runs.ok], log_weights[runs.ok])
        if self.is_adaptive:
            self._first = self.distance = Euclidean(measure_width(x[runs.ok], log_weights[runs.ok]))
        self.distances = np.empty(0)
        self._measure_new(runs)

    def measure_all(self, runs: Simulations, nearest: int) -> None:
        """Measure all runs on the scale of the `nearest` ones."""
        if self._first is not None and self._first.scale is not None:
            x = self._rows(runs)[runs.ok]
            order = np.argsort(self._first(x, self.x_o), kind="stable")[:nearest]
            spread = measure_width(x[order], np.zeros(len(order)))
            # a statistic that is constant in these runs keeps its first scale: runs that differ there are far
            self.distance = Euclidean(np.where(spread > 0, spread, self._first.scale))
            self.distances = np.empty(0)
        self._measure_new(runs)

    def offset(self, runs: Simulations) -> Array | None:
        """Return statistics minus observed ones (n, d), 0 for failed runs; None for a distance without statistics."""
        if self._settings.datasets or isinstance(self._settings, UserDistance):
            return None
        return np.where(runs.ok[:, None], self._rows(runs) - self.x_o, 0.0)

    def _measure_new(self, runs: Simulations) -> None:
        """Compute distances of runs that have none yet; infinite for failed ones."""
        start = len(self.distances)
        new, ok = np.full(len(runs) - start, np.inf), runs.ok[start:]
        new[ok] = self.distance(self._rows(runs)[start:][ok], self.x_o)
        self.distances = np.concatenate([self.distances, new])

    def _rows(self, runs: Simulations) -> Array:
        return runs.x if self._settings.datasets else runs.x.reshape(len(runs), -1)

    def _check(self, runs: Simulations) -> None:
        if not runs.ok.any():
            raise InferenceError(f"none of the {len(runs)} runs of generation 0 is valid", code="simulator-failed")
        if runs.m > 1 and not self._settings.datasets:
            raise DataError(
                f"SMC-ABC compares one run per parameter with the observation; these have m = {runs.m}",
                code="bad-setting",
                fix="m=1 (more parameters are worth more than more runs), or a distance between data sets",
            )


def find_tolerance(distances: Array, log_weights: Array, *, particles: int, least: float = 0.0) -> tuple[float, float]:
    """Find the smallest epsilon, not below `least`, whose accepted draws count as `particles`; and their number.

    Example:
        >>> find_tolerance(np.array([3.0, 1.0, 2.0, np.inf]), np.zeros(4), particles=2)
        (2.0, 2.0)
    """
    order = np.argsort(distances, kind="stable")
    order = order[np.isfinite(distances[order])]
    weights = np.exp(log_weights[order] - log_weights[order].max())
    total, squares = np.cumsum(weights), np.cumsum(weights**2)
    # weights may be so uneven that the first squares are zero: such draws count as one
    effective = np.divide(total**2, squares, out=np.ones_like(total), where=squares > 0)
    enough = np.flatnonzero(effective >= particles)
    # before the pool is that large, the nearer half is used
    last = int(enough[0]) if len(enough) else max((len(order) - 1) // 2, 0)
    epsilon = max(float(distances[order[last]]), least)
    last = int(np.searchsorted(distances[order], epsilon, side="right")) - 1
    return epsilon, float(effective[last])


def accept_projected(
    table: Simulations, near: Nearness, *, prior: Prior, particles: int, adjust: Adjust
) -> WeightedPosterior | None:
    """Accept the weighted draws with the smallest |T| that count as `particles`, or as more of many runs.

    None where a distance or a tolerance was given, or too few runs are near for a projection.
    """
    offset = near.offset(table) if near.is_adaptive else None
    found = None if offset is None else project(table, offset, near.distances, prior=prior, particles=particles)
    if found is None:
        return None
    rows, values = found
    runs = Simulations.from_arrays(
        theta=table.theta[rows], x=values, log_weights=table.log_weights[rows], names=table.names
    )
    one, origin = Euclidean(np.ones(values.shape[1])), np.zeros(values.shape[1])
    many = min(len(rows) / RUNS_PER_DRAW, ess(runs.log_weights) / 4)
    epsilon, _ = find_tolerance(one(values, origin), runs.log_weights, particles=max(particles, int(many)))
    accepted = ABC(prior, epsilon=epsilon, distance=one, adjust=adjust).fit(runs).accepted(origin)
    return replace(accepted, x_o=near.x_o, index=rows[accepted.index], x_names=table.x_names)


def project(
    table: Simulations, offset: Array, distances: Array, *, prior: Prior, particles: int
) -> tuple[npt.NDArray[np.intp], Array] | None:
    """Project the statistics of the runs near the observation; return their rows (k,) and T at them (k, p).

    From the table of a pool, its s - s_o (n, d) and its distances (n,), infinite for failed runs.

    The neighbourhood is the nearest fifth of all runs, at least 4 · particles of them, and more (up to twice as many)
    until they count as the particles. None where it holds too few runs for the regression.
    """
    order = np.argsort(distances, kind="stable")
    order = order[np.isfinite(distances[order])]
    least = max(4 * particles, int(NEIGHBOURHOOD_SHARE * len(order)))
    count = min(least, len(order))
    while count < min(2 * least, len(order)) and ess(table.log_weights[order[:count]]) < particles:
        count += max(least // 16, 1)
    near = order[: min(count, len(order))]
    radius = float(distances[near[-1]]) if len(near) else 0.0
    weights = np.exp(epanechnikov(distances[near], radius * (1 + 1e-9)))
    if radius == 0 or weights.sum() ** 2 < RUNS_PER_COEFFICIENT * (offset.shape[1] + 2) * (weights @ weights):
        return None
    z = BoxTransform.of(prior).to_unconstrained(table.theta[near])
    fitted, residual = regress(z, offset[near], weights)
    covariance = (residual * weights[:, None]).T @ residual / weights.sum()
    if np.linalg.matrix_rank(covariance) < len(covariance):
        return None
    return near, fitted @ np.linalg.cholesky(np.linalg.inv(covariance))
