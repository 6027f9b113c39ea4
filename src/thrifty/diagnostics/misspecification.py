"""Test for misspecification: does x_o look like data of the model, or does the posterior extrapolate?

x_o is compared with the weighted prior predictive distribution: its distance to its nearest simulations against the
distances between simulations, in the outputs and, where the posterior has them, in the features that its network
sees. Runs of a cost-aware campaign count with their weights, so that x_o is not called unusual only because it lies
where runs are expensive and few.

x_o enters on the same terms as every simulation: it is one of the points that the scales and the neighbours are taken
from. Without weights the p-value is then exact for data that the model made, whatever the number of outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.diagnostics.arguments import check_simulations, choose_independent_runs, statistic_names
from thrifty.diagnostics.features import encode_by_network
from thrifty.diagnostics.predictive import tail_p_value
from thrifty.diagnostics.replicates import choose_runs
from thrifty.diagnostics.verdict import CARE_P_VALUE, DisplayedCheck, Trust, format_p_value
from thrifty.errors import DataError
from thrifty.inference.checks import read_observation
from thrifty.named import order_observation
from thrifty.tables.simulations import Simulations
from thrifty.types import Array
from thrifty.weights import covariance, ess, mean, normalise, quantile

_NEIGHBOURS = 5  # distance to the fifth: one accidental neighbour does not hide that all others are far away
_MAX_RUNS = 2000  # runs compared: a p-value down to 5e-4, a tenth of what raises a flag
_ROWS_PER_BLOCK = 500  # rows of the table of distances held at once: 8 MB
FAR_SPACINGS = 3.0  # times the range from the median to the 99 % distance: nothing similar was ever simulated


@dataclass(frozen=True, repr=False)
class Misspecification(DisplayedCheck):
    """The position of x_o among the simulations.

    Attributes:
        distance: Of x_o to its fifth nearest simulation, in whitened units, where it is least usual.
        spacing: The 99 % weighted quantile of that distance among simulations.
        p_value: Weighted share of simulations at least as far from their own neighbours; over outputs and features.
        outside: Statistics in which x_o lies beyond all simulations.
        ess: Effective number of simulations compared.
        typical: The weighted median of that distance among simulations.
        space: Where x_o is least usual: "outputs", or "features" of the network.
        name: The check.
    """

    distance: float
    spacing: float
    p_value: float
    outside: tuple[str, ...]
    ess: float
    typical: float = 0.0
    space: str = "outputs"
    name: str = "misspecification"

    @property
    def is_far(self) -> bool:
        """Whether x_o is far from everything simulated; never where nearly all outputs repeat."""
        width = self.spacing - self.typical
        return self.spacing > 0 and self.distance - self.typical > FAR_SPACINGS * max(width, 1e-3 * self.spacing)

    @property
    def verdict(self) -> Trust:
        """The verdict: far outside all simulations the posterior is an extrapolation.

        Discrete outputs that nearly all repeat give no distance to compare with: then at most "with care".
        """
        return self.judge(1)

    def judge(self, tests: int) -> Trust:
        """Return the verdict when this is one of several tests of the same question."""
        if tests * self.p_value >= CARE_P_VALUE:
            return "trust"
        return "do not trust" if self.is_far else "with care"

    @property
    def reason(self) -> str:
        """One sentence with the numbers."""
        p_value = format_p_value(self.p_value)
        if self.p_value >= CARE_P_VALUE:
            return f"x_o lies among the simulations ({p_value})"
        where = f"; outside all in {', '.join(self.outside[:5])}" if self.outside else ""
        if self.spacing <= 0:
            return f"x_o has few equals, unlike nearly all simulations ({p_value}){where}: a rare value"
        seen = "" if self.space == "outputs" else ", as the network sees them"
        if not self.is_far:
            return f"x_o is unusual: few simulations are as far from the others{seen} ({p_value}){where}"
        return (
            f"x_o is far from all simulations{seen} ({p_value}){where}:"
            " the posterior extrapolates, and the model may be wrong; if single statistics are,"
            " th.NPE(prior, noise=th.SpikeAndSlab()) lets the others decide"
        )


def misspecification(simulations: Simulations, x_o: npt.ArrayLike, *, posterior: Any = None) -> Misspecification:
    """Compare x_o with the weighted simulated distribution.

    Args:
        simulations: The runs with their weights.
        x_o: The observation.
        posterior: Where given and neural, x_o is compared in the features of its network too.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> runs = th.Simulations.from_arrays(theta=np.zeros((500, 1)), x=rng.normal(size=(500, 2)))
        >>> [misspecification(runs, x_o).verdict for x_o in ([0.5, 0.5], [9.0, 0.0])]
        ['trust', 'do not trust']
    """
    check_simulations(simulations)
    _, x, log_weights = choose_independent_runs(simulations, np.random.default_rng(0))
    if len(x) < 20:
        raise DataError(f"{len(x)} valid runs; at least 20 are needed to compare with", code="too-few-runs")
    x_o = order_observation(x_o, x.shape[1:], simulations.x_names)
    observed = read_observation(x_o, x.shape[1:])
    flat = x.reshape(len(x), -1)
    outside = (observed.ravel() < flat.min(0)) | (observed.ravel() > flat.max(0))
    names = statistic_names(simulations.x_names, flat.shape[1])
    chosen, log_weights = choose_runs(log_weights, _MAX_RUNS, np.random.default_rng(0))
    together = np.concatenate([x[chosen], observed[None]])
    tables = {"outputs": together.reshape(len(together), -1), "features": encode_by_network(posterior, together)}
    found = {space: _compare(table, log_weights) for space, table in tables.items() if table is not None}
    space = min(found, key=lambda label: found[label][0])
    p_value, distance, typical, spacing = found[space]
    return Misspecification(
        distance=distance,
        spacing=spacing,
        p_value=min(1.0, len(found) * p_value),
        outside=tuple(name for name, out in zip(names, outside, strict=True) if out),
        ess=ess(log_weights),
        typical=typical,
        space=space,
    )


def _compare(table: Array, log_weights: Array) -> tuple[float, float, float, float]:
    """Compare the last row with the others (n, d): p-value, its distance, and their median and 99 % distance."""
    size = ess(log_weights)
    own = np.log(np.sum(np.exp(log_weights - log_weights.max()))) + log_weights.max() - np.log(size)
    distances = _neighbour_distances(_whiten(table, np.append(log_weights, own)))
    typical, spacing = quantile(distances[:-1], [0.5, 0.99], log_weights)
    far = np.asarray(distances[:-1] >= distances[-1], dtype=np.float64)
    p_value = float(tail_p_value(normalise(log_weights) @ far, size))
    return p_value, float(distances[-1]), float(typical), float(spacing)


def _neighbour_distances(points: Array) -> Array:
    """Compute the distance (n,) of each point (n, d) to its fifth nearest neighbour; equal rows are at distance 0."""
    square = np.square(points).sum(1)
    noise = 1e-12 * max(float(square.max()), 1.0)  # of rounding, in differences of squares
    found = np.empty(len(points))
    for start in range(0, len(points), _ROWS_PER_BLOCK):
        rows = slice(start, start + _ROWS_PER_BLOCK)
        gaps = square[rows, None] + square - 2 * points[rows] @ points.T
        found[rows] = np.partition(gaps, _NEIGHBOURS, axis=1)[:, _NEIGHBOURS]  # each is its own nearest neighbour
    return np.sqrt(np.where(found > noise, found, 0.0))


def _whiten(x: Array, log_weights: Array) -> Array:
    """Transform points (n, d) to weighted mean 0 and unit covariance, in the directions that vary."""
    centre, matrix = mean(x, log_weights), np.atleast_2d(covariance(x, log_weights))
    spread = np.sqrt(np.diag(matrix))
    spread = np.where(spread > 0, spread, np.maximum(np.abs(centre), 1.0))
    values, vectors = np.linalg.eigh(matrix / np.outer(spread, spread))
    scale = np.sqrt(np.maximum(values, 1e-3))  # directions with a thousandth of the variance are noise
    return (x - centre) / spread @ (vectors / scale)
