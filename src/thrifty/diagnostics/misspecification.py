"""Test for misspecification: can the model produce x_o at all?

x_o is compared with the weighted prior predictive distribution: its distance to its nearest simulations against
the distances between simulations. Runs of a cost-aware campaign count with their weights, so that x_o is not called
unusual only because it lies where runs are expensive and few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thrifty.diagnostics.arguments import check_simulations, choose_independent_runs, statistic_names
from thrifty.diagnostics.predictive import tail_p_value
from thrifty.diagnostics.verdict import CARE_P_VALUE, Trust, format_p_value
from thrifty.errors import DataError
from thrifty.inference.checks import read_observation
from thrifty.tables.simulations import Simulations
from thrifty.types import Array
from thrifty.weights import covariance, ess, mean, normalise

_NEIGHBOURS = 5  # distance to the fifth: one accidental neighbour does not hide that all others are far away
_MAX_RUNS = 5000  # runs compared: a p-value down to 2e-4
FAR_SPACINGS = 3.0  # times the 99 % distance between simulations: nothing similar was ever simulated


@dataclass(frozen=True)
class Misspecification:
    """The position of x_o among the simulations.

    Attributes:
        distance: Of x_o to its fifth nearest simulation, in whitened units.
        spacing: The 99 % weighted quantile of that distance among simulations.
        p_value: Weighted share of simulations at least as far from their own neighbours.
        outside: Statistics in which x_o lies beyond all simulations.
        ess: Effective number of simulations compared.
        name: The check.
    """

    distance: float
    spacing: float
    p_value: float
    outside: tuple[str, ...]
    ess: float
    name: str = "misspecification"

    @property
    def verdict(self) -> Trust:
        """The verdict: far outside all simulations the posterior is an extrapolation.

        Discrete outputs that nearly all repeat give no distance to compare with: then at most "with care".
        """
        if self.p_value < CARE_P_VALUE and self.spacing > 0 and self.distance > FAR_SPACINGS * self.spacing:
            return "do not trust"
        return "with care" if self.p_value < CARE_P_VALUE else "trust"

    @property
    def reason(self) -> str:
        """One sentence with the numbers."""
        if self.verdict == "trust":
            return f"x_o lies among the simulations ({format_p_value(self.p_value)})"
        where = f"; outside all in {', '.join(self.outside[:5])}" if self.outside else ""
        if self.spacing <= 0:
            p_value = format_p_value(self.p_value)
            return f"x_o has few equals, unlike nearly all simulations ({p_value}){where}: a rare value"
        return (
            f"x_o is {self.distance / max(self.spacing, 1e-300):.1f}× as far from the simulations as 99 % of them"
            f" ({format_p_value(self.p_value)}){where}: the model may be wrong"
        )


def misspecification(simulations: Simulations, x_o: npt.ArrayLike) -> Misspecification:
    """Compare x_o with the weighted simulated distribution.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> runs = th.Simulations.from_arrays(theta=np.zeros((500, 1)), x=rng.normal(size=(500, 2)))
        >>> [th.diagnostics.misspecification(runs, x_o).verdict for x_o in ([0.5, 0.5], [9.0, 0.0])]
        ['trust', 'do not trust']
    """
    from scipy.spatial import KDTree

    check_simulations(simulations)
    _, x, log_weights = choose_independent_runs(simulations, np.random.default_rng(0))
    if len(x) < 20:
        raise DataError(f"{len(x)} valid runs; at least 20 are needed to compare with", code="too-few-runs")
    observed = read_observation(x_o, x.shape[1:]).ravel()
    x = x.reshape(len(x), -1)
    outside = (observed < x.min(0)) | (observed > x.max(0))
    names = statistic_names(simulations.x_names, x.shape[1])
    if len(x) > _MAX_RUNS:
        kept = np.random.default_rng(0).permutation(len(x))[:_MAX_RUNS]
        x, log_weights = x[kept], log_weights[kept]
    white, own = _whiten(x, log_weights, observed)
    tree = KDTree(white)
    distances = tree.query(white, k=_NEIGHBOURS + 1)[0][:, -1]  # each is its own nearest neighbour
    distance = float(tree.query(own, k=_NEIGHBOURS)[0][-1])
    weights, size = normalise(log_weights), ess(log_weights)
    order = np.argsort(distances)
    spacing = distances[order][min(np.searchsorted(np.cumsum(weights[order]), 0.99), len(x) - 1)]
    return Misspecification(
        distance=distance,
        spacing=float(spacing),
        p_value=float(tail_p_value(weights @ (distances >= distance), size)),
        outside=tuple(name for name, out in zip(names, outside, strict=True) if out),
        ess=size,
    )


def _whiten(x: Array, log_weights: Array, observed: Array) -> tuple[Array, Array]:
    """Transform outputs and x_o to weighted mean 0 and unit covariance, in the directions that vary."""
    centre, matrix = mean(x, log_weights), covariance(x, log_weights)
    spread = np.sqrt(np.diag(matrix))
    spread = np.where(spread > 0, spread, np.maximum(np.abs(centre), 1.0))
    values, vectors = np.linalg.eigh(matrix / np.outer(spread, spread))
    scale = np.sqrt(np.maximum(values, 1e-3))  # directions with a thousandth of the variance are noise
    root = vectors / scale
    return (x - centre) / spread @ root, (observed - centre) / spread @ root
