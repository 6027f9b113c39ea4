"""A posterior of one parameter that is known up to its normaliser, integrated on a grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.models.base import as_generator
from thrifty.types import Array, as_rows

_GRID_POINTS = 20_001  # over ± 10 sd: a cell is 1/1000 sd, the trapezoid rule's error below 1e-12
_MAX_LOG_DEPTH = 50.0  # log units below the mode that are kept: exp(-50) of the mass is left out


@dataclass(frozen=True, eq=False)
class GridPosterior:
    """The density proportional to exp(log_density) on [low, high], for one unimodal parameter.

    `sample`, `log_prob`, `names`, `dim` and `bounds` are those of a prior, so it can be used as one.

    Example:
        >>> posterior = GridPosterior(lambda t: -0.5 * t**2, -1.0, 40.0)
        >>> posterior.log_prob([[0.0]]).round(4).tolist(), round(posterior.mean, 4)
        ([-0.7462], 0.2876)
    """

    log_density: Callable[[Array], Array] = field(repr=False)
    low: float
    high: float
    names: tuple[str, ...] = ("theta",)
    grid: Array = field(init=False, repr=False, default=None)  # type: ignore[assignment]
    density: Array = field(init=False, repr=False, default=None)  # type: ignore[assignment]
    log_normaliser: float = field(init=False, repr=False, default=0.0)

    def __post_init__(self) -> None:
        grid = _grid_around_mode(self.log_density, self.low, self.high)
        values = self.log_density(grid)
        peak = values.max()
        log_normaliser = float(peak + np.log(np.trapezoid(np.exp(values - peak), grid)))
        object.__setattr__(self, "grid", grid)
        object.__setattr__(self, "density", np.exp(values - log_normaliser))
        object.__setattr__(self, "log_normaliser", log_normaliser)

    @property
    def dim(self) -> int:
        """One parameter."""
        return 1

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The prior's box."""
        return np.array([self.low]), np.array([self.high])

    @property
    def mean(self) -> float:
        """Posterior mean."""
        return float(np.trapezoid(self.grid * self.density, self.grid))

    @property
    def sd(self) -> float:
        """Posterior standard deviation."""
        return float(np.sqrt(np.trapezoid((self.grid - self.mean) ** 2 * self.density, self.grid)))

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Normalised log density (n,) of theta (n, 1): the formula itself, no interpolation."""
        point = as_rows(theta, dim=1)[:, 0]
        inside = (point >= self.low) & (point <= self.high)
        safe = np.where(inside, point, self.grid[0])
        return np.where(inside, self.log_density(safe) - self.log_normaliser, -np.inf)

    def cdf(self, theta: npt.ArrayLike) -> Array:
        """P(parameter <= theta) (n,)."""
        return np.interp(as_rows(theta, dim=1)[:, 0], self.grid, self._cumulative(), left=0.0, right=1.0)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw (n, 1) by inverting the distribution function."""
        return np.interp(as_generator(rng).random(n), self._cumulative(), self.grid)[:, None]

    def _cumulative(self) -> Array:
        area = 0.5 * (self.density[1:] + self.density[:-1]) * np.diff(self.grid)
        total = np.concatenate([[0.0], np.cumsum(area)])
        return total / total[-1]


def _grid_around_mode(log_density: Callable[[Array], Array], low: float, high: float) -> Array:
    """Shrink [low, high] to where the density counts; each round narrows by up to 500×."""
    for _ in range(4):
        grid = np.linspace(low, high, 2001)
        with np.errstate(divide="ignore", invalid="ignore"):  # data that no parameter can make are an error below
            values = log_density(grid)
        if np.isnan(values).any() or not np.isfinite(values.max()):
            raise DataError(
                "no parameter of the prior could have made these data",
                code="far-observation",
                fix="look for zeros, signs and units in x_o; model.observed(seed) is an example",
            )
        kept = np.flatnonzero(values > values.max() - _MAX_LOG_DEPTH)
        low, high = float(grid[max(kept[0] - 1, 0)]), float(grid[min(kept[-1] + 1, len(grid) - 1)])
    return np.linspace(low, high, _GRID_POINTS)
