"""How near every run of a sequential method is to the observation, on a scale that follows the posterior.

`th.ABC` divides statistics by their prior-weighted median deviation. That is the wrong scale for an observation from
another regime: of outbreaks of which more than half die out at once, a final size of 878 is hundreds of deviations off
and nothing else counts. So generation 0 is judged by the width of the central 90 % of prior mass, which sees both
regimes, and later ones by that of the runs nearest to the observation *on this first scale*: what the statistics do
where the posterior is (adaptive distances, Prangle 2017). The nearest are chosen on the first scale, since a scale read
from runs that it chose itself runs away. Distances of all earlier runs are computed again, so that the pool is always
judged by one distance. A scale or a tolerance given by hand, distances between data sets and callables stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError, InferenceError
from thrifty.inference.checks import read_observation
from thrifty.inference.vector_distances import Distance, Euclidean, UserDistance, as_distance, width
from thrifty.tables.simulations import Simulations
from thrifty.types import Array


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
        self.follows = own and not fixed

    def open(self, runs: Simulations, log_weights: Array) -> None:
        """Judge the runs of generation 0."""
        self._check(runs)
        x = self._rows(runs)
        self.x_o = (
            np.asarray(self.x_o, dtype=float) if self._settings.datasets else read_observation(self.x_o, x.shape[1:])
        )
        self.distance = self._settings.fit(x[runs.ok], log_weights[runs.ok])
        if self.follows:
            self._first = self.distance = Euclidean(width(x[runs.ok], log_weights[runs.ok]))
        self.distances = np.empty(0)
        self._judge(runs)

    def follow(self, runs: Simulations, nearest: int) -> None:
        """Judge all runs, on the scale of the `nearest` ones."""
        if self._first is not None and self._first.scale is not None:
            x = self._rows(runs)[runs.ok]
            order = np.argsort(self._first(x, self.x_o), kind="stable")[:nearest]
            spread = width(x[order], np.zeros(len(order)))
            # a statistic that stands still in these runs keeps its first scale: runs that differ there are far
            self.distance = Euclidean(np.where(spread > 0, spread, self._first.scale))
            self.distances = np.empty(0)
        self._judge(runs)

    def offset(self, runs: Simulations) -> Array | None:
        """Statistics minus the observed ones (n, d), 0 for failed runs; None where the distance has no statistics."""
        if self._settings.datasets or isinstance(self._settings, UserDistance):
            return None
        return np.where(runs.ok[:, None], self._rows(runs) - self.x_o, 0.0)

    def _judge(self, runs: Simulations) -> None:
        """Distances of runs that have none yet; infinite for failed ones."""
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


def tolerance(distances: Array, log_weights: Array, *, particles: int, least: float = 0.0) -> tuple[float, float]:
    """The smallest epsilon, not below `least`, whose accepted draws count as `particles`; and their number.

    Example:
        >>> tolerance(np.array([3.0, 1.0, 2.0, np.inf]), np.zeros(4), particles=2)
        (2.0, 2.0)
    """
    order = np.argsort(distances, kind="stable")
    order = order[np.isfinite(distances[order])]
    weights = np.exp(log_weights[order] - log_weights[order].max())
    total, squares = np.cumsum(weights), np.cumsum(weights**2)
    # weights may be so uneven that the first squares are zero: such draws count as one
    effective = np.divide(total**2, squares, out=np.ones_like(total), where=squares > 0)
    enough = np.flatnonzero(effective >= particles)
    # before the pool is that large, the nearer half steers
    last = int(enough[0]) if len(enough) else max((len(order) - 1) // 2, 0)
    epsilon = max(float(distances[order[last]]), least)
    last = int(np.searchsorted(distances[order], epsilon, side="right")) - 1
    return epsilon, float(effective[last])
