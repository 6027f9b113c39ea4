"""Distances between vectors of statistics, on one scale for every proposal.

    Euclidean     d(x, x_o)^2 = sum_j ((x_j - x_o,j) / s_j)^2
    Mahalanobis   d(x, x_o)^2 = (x - x_o)' C^-1 (x - x_o)

s_j is the *prior-weighted* median absolute deviation of statistic j and C the prior-weighted covariance of the
statistics. Taken from the bare proposal draws instead, the same epsilon means 11.2 in the paper's Gamma example
when drawn from the prior and 5.6 under the cube of the cost; with the weights it means 11.2 under every penalty.

A distance is settings (`Euclidean()`) until `fit(x, log_weights)` freezes its scale. Users can pass any callable
(x (n, *event), x_o (*event)) -> (n,).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from thrifty.display import DisplayedSettings
from thrifty.errors import ConfigError, DataError, warn
from thrifty.types import Array, freeze
from thrifty.weights import covariance, normalise, quantile, weighted_median

CHUNK_BYTES = 4 << 20  # differences fit the cache of a core: 3x faster than one pass over a large table


def chunks(n: int, row_bytes: int) -> Iterator[slice]:
    """Return slices over n rows, each of about `CHUNK_BYTES`."""
    step = max(1, CHUNK_BYTES // max(row_bytes, 1))
    return (slice(i, min(i + step, n)) for i in range(0, n, step))


def robust_spread(x: Array, log_weights: Array) -> Array:
    """Compute the prior-weighted median absolute deviation (d,) of each statistic of a table (n, d).

    Where more than half of the prior mass has one value (counts that are mostly zero) the deviation is zero, and the
    weighted standard deviation is used instead; a statistic that never varies gets 0.

    Example:
        >>> robust_spread(np.array([[0.0], [1.0], [2.0], [3.0], [4.0]]), np.zeros(5)).tolist()
        [1.0]
    """
    weights = None if np.ptp(log_weights) == 0 else normalise(log_weights)
    spread = np.empty(x.shape[1])
    for j in range(x.shape[1]):
        column = x[:, j]
        spread[j] = weighted_median(np.abs(column - weighted_median(column, weights)), weights)
        if spread[j] == 0:
            spread[j] = np.sqrt(np.cov(column, aweights=weights, ddof=0)) if np.ptp(column) > 0 else 0.0
    return spread


def measure_width(x: Array, log_weights: Array) -> Array:
    """Measure the width (d,) of the central 90 % of each statistic, in units of a Gaussian's standard deviation.

    Unlike the median deviation it sees a second regime that holds a twentieth of the mass; unlike the standard
    deviation it ignores a few extreme values. Where 90 % have one value, the standard deviation is used instead.

    Example:
        >>> measure_width(np.array([[0.0]] * 60 + [[100.0]] * 40), np.zeros(100)).round(1)  # median deviation 0
        array([30.4])
    """
    low, high = quantile(x, [0.05, 0.95], log_weights)
    spread = (high - low) / 3.29
    deviation = np.sqrt(np.maximum(np.diag(covariance(x, log_weights)), 0.0)) * (np.ptp(x, axis=0) > 0)
    return np.where(spread > 0, spread, deviation)


@runtime_checkable
class Distance(Protocol):
    """What every distance offers; `datasets` says whether it compares whole data sets (n, m, d)."""

    @property
    def datasets(self) -> bool:
        """True when one row of x is a data set, not a vector of statistics."""
        ...

    def fit(self, x: Array, log_weights: Array) -> Distance:
        """Return the same distance with its scale frozen from prior-weighted simulations."""
        ...

    def __call__(self, x: Array, x_o: Array) -> Array:
        """Distance (n,) of each row from the observation."""
        ...


def _warn_constant(spread: Array, x: Array) -> None:
    if len(x) < 2:
        raise DataError(
            f"{len(x)} valid run has no spread to measure distances by",
            code="too-few-runs",
            fix="use more runs (a larger n or budget), or pass a scale: th.distances.Euclidean(scale)",
        )
    for j in np.flatnonzero(spread == 0):
        warn(
            f"[constant-output] x_{j + 1} is constant ({x[0, j]:g}) in all runs; it is left out of the distance",
            stacklevel=5,
        )
    if not (spread > 0).any():
        raise DataError(
            f"all {len(spread)} statistics are constant in all {len(x)} runs",
            code="constant-output",
            why="no distance can separate two parameters",
            fix="check that the simulator reads its parameters",
        )


@dataclass(frozen=True, repr=False)
class PlainDistance(DisplayedSettings):
    """A distance made of numbers only, so that it can be saved."""

    datasets = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers that rebuild the distance."""
        values = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        plain = {label: v.tolist() if isinstance(v, np.ndarray) else v for label, v in values.items()}
        return {"name": type(self).__name__.lower(), **plain}


@dataclass(frozen=True, repr=False)
class _Scaled(PlainDistance):
    """A distance on statistics divided by their prior-weighted median absolute deviation."""

    scale: Array | None = None

    def __post_init__(self) -> None:
        if self.scale is not None:
            scale = np.atleast_1d(np.asarray(self.scale, dtype=np.float64))
            if scale.ndim != 1 or not (np.isfinite(scale) & (scale >= 0)).all() or not (scale > 0).any():
                raise ConfigError(
                    f"scale must be finite numbers >= 0, one at least > 0; got {scale}", code="bad-setting"
                )
            object.__setattr__(self, "scale", freeze(scale))

    def fit(self, x: Array, log_weights: Array) -> Self:
        """Freeze the scale; a scale given by hand is kept."""
        if self.scale is not None:
            _check_width(len(self.scale), x.shape[1], "scale")
            return self
        spread = robust_spread(x, log_weights)
        _warn_constant(spread, x)
        return type(self)(spread)

    @property
    def _factor(self) -> Array:
        """One over the scale (d,), 0 for statistics that are left out."""
        if self.scale is None:
            name = type(self).__name__
            raise ConfigError(f"{name} has no scale yet", code="bad-setting", fix="call fit(x, log_weights) first")
        return np.divide(1.0, self.scale, out=np.zeros_like(self.scale), where=self.scale > 0)


@dataclass(frozen=True, repr=False)
class Euclidean(_Scaled):
    """Euclidean distance on statistics divided by their prior-weighted median absolute deviation.

    Args:
        scale: Spread of each statistic (d,); read from the simulations when left out. 0 leaves a statistic out.

    Example:
        >>> distance = Euclidean().fit(np.array([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]]), np.zeros(3))
        >>> distance.scale.tolist(), distance(np.array([[1.0, 10.0]]), np.array([0.0, 0.0])).round(3).tolist()
        ([1.0, 10.0], [1.414])
    """

    def __call__(self, x: Array, x_o: Array) -> Array:
        """Distance (n,) of statistics (n, d) from x_o (d,)."""
        factor = self._factor
        return _measure_lengths(x, x_o, lambda difference: difference * factor)


@dataclass(frozen=True, repr=False)
class Manhattan(_Scaled):
    """Sum of absolute differences of statistics divided by their prior-weighted median absolute deviation.

    Robust: one statistic that the model cannot make counts as far as it is off, not its square, so that the others
    decide together, as a median does. A little less efficient than `Euclidean` where the model is right.

    Args:
        scale: Spread of each statistic (d,); read from the simulations when left out. 0 leaves a statistic out.

    Example:
        >>> Manhattan([1.0, 10.0])(np.array([[1.0, 10.0]]), np.array([0.0, 0.0])).tolist()
        [2.0]
    """

    def __call__(self, x: Array, x_o: Array) -> Array:
        """Distance (n,) of statistics (n, d) from x_o (d,)."""
        factor = self._factor
        parts = chunks(len(x), 8 * x.shape[1])
        return np.concatenate([np.zeros(0), *(np.abs(x[part] - x_o) @ factor for part in parts)])


@dataclass(frozen=True, repr=False)
class Mahalanobis(PlainDistance):
    """Mahalanobis distance with the prior-weighted covariance of the statistics.

    Args:
        whitener: Matrix L (d, r) with C^-1 = L L'; read from the simulations when left out. Directions in which
            the statistics do not vary are left out, so that collinear statistics count once.

    Example:
        >>> distance = Mahalanobis().fit(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]]), np.zeros(4))
        >>> distance(np.array([[1.0, 0.0]]), np.array([0.0, 0.0])).round(3).tolist()
        [1.0]
    """

    whitener: Array | None = None

    def __post_init__(self) -> None:
        if self.whitener is not None:
            object.__setattr__(self, "whitener", freeze(np.atleast_2d(self.whitener)))

    def fit(self, x: Array, log_weights: Array) -> Mahalanobis:
        """Freeze the whitening matrix, from the eigenvectors of the weighted correlation."""
        if self.whitener is not None:
            _check_width(len(self.whitener), x.shape[1], "whitener")
            return self
        weights = normalise(log_weights)
        covariance = np.zeros((x.shape[1], x.shape[1]))
        centre = weights @ x
        for part in chunks(len(x), 8 * x.shape[1]):
            difference = x[part] - centre
            covariance += (difference * weights[part, None]).T @ difference
        sd = np.sqrt(np.diag(covariance))
        _warn_constant(sd, x)
        inverse = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0)
        values, vectors = np.linalg.eigh(covariance * np.outer(inverse, inverse))
        keep = values > 1e-10 * values[-1]  # below: rounding, not variation
        return Mahalanobis(inverse[:, None] * vectors[:, keep] / np.sqrt(values[keep]))

    def __call__(self, x: Array, x_o: Array) -> Array:
        """Distance (n,) of statistics (n, d) from x_o (d,)."""
        whitener = self.whitener
        if whitener is None:
            raise ConfigError(
                "Mahalanobis has no covariance yet", code="bad-setting", fix="call fit(x, log_weights) first"
            )
        return _measure_lengths(x, x_o, lambda difference: difference @ whitener)


@dataclass(frozen=True)
class UserDistance:
    """A user's callable (x (n, *event), x_o (*event)) -> (n,), its answer checked."""

    function: Callable[[Array, Array], npt.ArrayLike]
    datasets: bool = False

    def fit(self, x: Array, log_weights: Array) -> UserDistance:
        """Return the distance itself: its scale is the user's own."""
        return self

    def __call__(self, x: Array, x_o: Array) -> Array:
        """Compute the user's distances (n,), which must be numbers >= 0."""
        values = np.asarray(self.function(x, x_o), dtype=np.float64)
        if values.shape != (len(x),):
            raise ConfigError(
                f"distance returned shape {values.shape} for {len(x)} simulations, expected ({len(x)},)",
                code="bad-setting",
                fix="write it over all rows at once: distance(x (n, *event), x_o (*event)) -> (n,)",
            )
        bad = ~(values >= 0)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise ConfigError(f"distance is {values[row]} at row {row}; it must be a number >= 0", code="bad-setting")
        return values

    def to_dict(self) -> dict[str, Any]:
        """Refuse: a callable cannot be saved as plain numbers."""
        name = getattr(self.function, "__name__", "callable")
        raise ConfigError(
            f"a posterior with the distance {name!r} of your own cannot be saved",
            code="code-not-saved",
            why="saved posteriors hold plain numbers and never code",
            fix="save post.accepted(x_o), or use a distance of th.distances",
        )


def as_distance(distance: Distance | Callable[[Array, Array], npt.ArrayLike] | None) -> Distance:
    """Read a distance: None is `Euclidean()`, a callable is wrapped.

    Example:
        >>> as_distance(None)
        Euclidean()
    """
    if distance is None:
        return Euclidean()
    if isinstance(distance, type):
        raise ConfigError(f"{distance.__name__} is a class", code="bad-setting", fix=f"call it: {distance.__name__}()")
    if isinstance(distance, Distance):
        return distance
    if callable(distance):
        return UserDistance(cast("Callable[[Array, Array], npt.ArrayLike]", distance))
    raise ConfigError(
        f"distance must be a distance object or a callable, got {distance!r}",
        code="bad-setting",
        fix="e.g. th.distances.Euclidean(), th.distances.Energy(), or a function (x, x_o) -> (n,)",
    )


def _measure_lengths(x: Array, x_o: Array, scaled: Callable[[Array], Array]) -> Array:
    """Compute the length (n,) of scaled(x - x_o), over cache-sized blocks of rows."""
    out = np.empty(len(x))
    for part in chunks(len(x), 8 * x.shape[1]):
        difference = scaled(x[part] - x_o)
        np.sqrt(np.einsum("ij,ij->i", difference, difference), out=out[part])
    return out


def _check_width(given: int, width: int, label: str) -> None:
    if given != width:
        raise ConfigError(f"{label} has {given} entries for {width} statistics", code="bad-setting")
