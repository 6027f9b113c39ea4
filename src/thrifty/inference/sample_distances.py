"""Distances between whole data sets, for raw data without summary statistics.

With F the m simulated draws at one parameter and G the m_o observed ones (both empirical):

    Energy        d^2 = 2 E|X - Y| - E|X - X'| - E|Y - Y'|
    MMD           d^2 = E k(X, X') - 2 E k(X, Y) + E k(Y, Y'),  k Gaussian
    Wasserstein   d   = integral of |F^-1(u) - G^-1(u)| du      (one variable)

All are V-statistics, so never negative; d = 0 exactly when the two samples agree. The variables are divided by a
prior-weighted robust spread, the same for every proposal, like the distances on statistics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from thrifty.errors import ConfigError, DataError
from thrifty.inference.vector_distances import (
    Distance,
    Euclidean,
    Mahalanobis,
    Manhattan,
    PlainDistance,
    chunks,
    robust_spread,
)
from thrifty.types import Array, freeze


def as_datasets(x: Array, name: str = "x") -> Array:
    """Read raw data as (n, m, d): a row of numbers (n, m) is a data set of one variable."""
    x = x[:, :, None] if x.ndim == 2 else x
    if x.ndim < 3:
        raise DataError(f"{name} has shape {x.shape}, expected data sets (n, m) or (n, m, d)", code="bad-array")
    return x.reshape(*x.shape[:2], -1)


def measure_scale(x: Array, log_weights: Array) -> Array:
    """Measure the prior-weighted spread (d,) of variables (n, d); infinite for a constant one, which counts for 0."""
    spread = robust_spread(x, log_weights)
    if not (spread > 0).any():
        raise DataError(f"all {len(spread)} variables are constant in all {len(x)} runs", code="constant-output")
    return np.where(spread > 0, spread, np.inf)


class _SampleDistance(PlainDistance):
    """What the distances between data sets share: the scale of the variables, a field of each."""

    scale: Array | None
    datasets = True

    def fit(self, x: Array, log_weights: Array) -> Self:
        """Freeze the scale of the variables; a scale passed by hand is kept."""
        if self.scale is not None:
            return self
        first = as_datasets(x)[:, 0, :]  # one draw per parameter has the same prior-predictive spread as all m
        return replace(self, scale=freeze(measure_scale(first, log_weights)))

    def _read(self, x: Array, x_o: Array) -> tuple[Array, Array, Array]:
        """Return the data sets (n, m, d), the scaled observed one (m_o, d) and the scale (d,)."""
        if self.scale is None:
            raise ConfigError(
                f"{type(self).__name__} has no scale yet", code="bad-setting", fix="call fit(x, log_weights)"
            )
        x, observed = as_datasets(x), as_datasets(x_o[None], "x_o")[0]
        if x.shape[2] != observed.shape[1] or x.shape[2] != len(self.scale):
            raise DataError(
                f"observed data have {observed.shape[1]} variables, simulations have {x.shape[2]}",
                code="bad-observation",
            )
        return x, observed / self.scale, self.scale


def _lengths(a: Array, b: Array) -> Array:
    """Return Euclidean lengths |a_i - b_j| of (..., m, d) and (..., k, d)."""
    return np.sqrt(squares(a, b))


def squares(a: Array, b: Array) -> Array:
    """Return squared lengths |a_i - b_j|^2 of (..., m, d) and (..., k, d)."""
    if a.shape[-1] == 1:
        return np.square(a - np.swapaxes(b, -1, -2))
    cross = a @ np.swapaxes(b, -1, -2)
    total = np.square(a).sum(-1)[..., :, None] + np.square(b).sum(-1)[..., None, :] - 2 * cross
    return np.maximum(total, 0.0)


def _mean_gap(sorted_values: Array) -> Array:
    """Compute E|X - X'| over all m^2 pairs of each sorted row (n, m), in m log m instead of m^2."""
    m = sorted_values.shape[-1]
    return 2 * sorted_values @ (2 * np.arange(1, m + 1) - m - 1) / m**2


@dataclass(frozen=True, repr=False)
class Energy(_SampleDistance):
    """Energy distance (Székely and Rizzo 2013) between simulated and observed draws.

    Example:
        >>> x = np.array([[0.0, 1.0, 2.0], [5.0, 6.0, 7.0]])
        >>> Energy(scale=np.ones(1))(x, np.array([0.0, 1.0, 2.0])).round(3).tolist()
        [0.0, 2.867]
    """

    scale: Array | None = None

    def __call__(self, x: Array, x_o: Array) -> Array:
        """Distance (n,) of data sets (n, m, d) from x_o (m_o, d)."""
        x, observed, scale = self._read(x, x_o)
        one = self._one_variable if x.shape[2] == 1 else self._pairs
        pairs = 8 * x.shape[1] * max(x.shape[1], len(observed))
        out = np.empty(len(x))
        for part in chunks(len(x), 8 * (x.shape[1] + len(observed)) if x.shape[2] == 1 else pairs):
            out[part] = one(x[part] / scale, observed)
        return np.sqrt(np.maximum(out, 0.0))

    @staticmethod
    def _one_variable(x: Array, observed: Array) -> Array:
        x, y = np.sort(x[:, :, 0], axis=1), np.sort(observed[:, 0])
        m, k = x.shape[1], len(y)
        both = np.sort(np.concatenate([x, np.broadcast_to(y, (len(x), k))], axis=1), axis=1)
        # E over the union of m + k points is made of the three pair means: solve it for the cross term
        own, other, union = _mean_gap(x), _mean_gap(y[None])[0], _mean_gap(both)
        cross = (union * (m + k) ** 2 - own * m**2 - other * k**2) / (2 * m * k)
        return 2 * cross - own - other

    @staticmethod
    def _pairs(x: Array, observed: Array) -> Array:
        cross, own = _lengths(x, observed).mean((1, 2)), _lengths(x, x).mean((1, 2))
        return 2 * cross - own - _lengths(observed, observed).mean()


@dataclass(frozen=True, repr=False)
class MMD(_SampleDistance):
    """Maximum mean discrepancy with a Gaussian kernel between simulated and observed draws.

    Args:
        lengthscale: Of the kernel, in scaled units; by default the median distance between observed draws.

    Example:
        >>> x = np.array([[0.0, 1.0, 2.0], [5.0, 6.0, 7.0]])
        >>> MMD(scale=np.ones(1))(x, np.array([0.0, 1.0, 2.0])).round(3).tolist()
        [0.0, 1.124]
    """

    lengthscale: float | None = None
    scale: Array | None = None

    def __post_init__(self) -> None:
        if self.lengthscale is not None and not 0 < self.lengthscale < np.inf:
            raise ConfigError(f"lengthscale must be > 0, got {self.lengthscale}", code="bad-setting")

    def __call__(self, x: Array, x_o: Array) -> Array:
        """Distance (n,) of data sets (n, m, d) from x_o (m_o, d)."""
        x, observed, scale = self._read(x, x_o)
        width = self.lengthscale or median_lengthscale(observed)

        def kernel(a: Array, b: Array) -> Array:
            return np.exp(-squares(a, b) / (2 * width**2)).mean((-1, -2))

        out = np.empty(len(x))
        for part in chunks(len(x), 8 * x.shape[1] * max(x.shape[1], len(observed))):
            block = x[part] / scale
            out[part] = kernel(block, block) - 2 * kernel(block, observed)
        return np.sqrt(np.maximum(out + kernel(observed, observed), 0.0))


@dataclass(frozen=True, repr=False)
class Wasserstein(_SampleDistance):
    """Wasserstein-1 distance between simulated and observed draws of one variable.

    Example:
        >>> x = np.array([[0.0, 1.0, 2.0], [5.0, 6.0, 7.0]])
        >>> Wasserstein(scale=np.ones(1))(x, np.array([0.0, 1.0, 2.0])).tolist()
        [0.0, 5.0]
    """

    scale: Array | None = None

    def fit(self, x: Array, log_weights: Array) -> Self:
        """Freeze the scale of the variable."""
        self._check(as_datasets(x).shape[2])
        return super().fit(x, log_weights)

    def __call__(self, x: Array, x_o: Array) -> Array:
        """Distance (n,) of data sets (n, m) from x_o (m_o,), of any two sizes."""
        x, observed, scale = self._read(x, x_o)
        self._check(x.shape[2])
        m, k = x.shape[1], len(observed)
        levels = np.union1d(np.arange(m + 1) / m, np.arange(k + 1) / k)
        middles, gaps = (levels[1:] + levels[:-1]) / 2, np.diff(levels)
        y = np.sort(observed[:, 0])[np.minimum((middles * k).astype(int), k - 1)]
        rank = np.minimum((middles * m).astype(int), m - 1)
        out = np.empty(len(x))
        for part in chunks(len(x), 8 * (m + len(levels))):
            out[part] = np.abs(np.sort(x[part, :, 0] / scale, axis=1)[:, rank] - y) @ gaps
        return out

    @staticmethod
    def _check(variables: int) -> None:
        if variables != 1:
            raise DataError(
                f"Wasserstein compares one variable, the data have {variables}",
                code="bad-setting",
                fix="use th.distances.Energy() or th.distances.MMD()",
            )


def median_lengthscale(observed: Array) -> float:
    """Return the median distance between observed draws (m_o, d): the usual choice (Garreau et al. 2017)."""
    upper = np.triu_indices(len(observed), 1)
    lengths = _lengths(observed, observed)[upper]
    middle = float(np.median(lengths)) if len(lengths) else 0.0
    return middle if middle > 0 else 1.0  # one observed draw, or ties: the prior spread is the unit


_KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Euclidean, Manhattan, Mahalanobis, Energy, MMD, Wasserstein)
}


def distance_from_dict(values: dict[str, Any]) -> Distance:
    """Rebuild any of thrifty's distances from the numbers that its `to_dict` returned.

    Example:
        >>> distance_from_dict(MMD(2.0).to_dict())
        MMD(lengthscale=2.0)
    """
    kind = _KINDS.get(values["name"])
    if kind is None:
        raise DataError(f"unknown distance {str(values['name'])[:40]!r}", code="bad-file")
    settings = {label: value for label, value in values.items() if label != "name"}
    arrays = {k: np.asarray(v, dtype=np.float64) for k, v in settings.items() if isinstance(v, list)}
    return kind(**settings | arrays)
