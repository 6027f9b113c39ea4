"""The map between bounded parameters and the whole line, one parameter at a time.

    both ends finite   theta = low + (high - low) / (1 + exp(-z))
    low end only       theta = low + exp(z)
    high end only      theta = high - exp(z)
    no end             theta = z
    whole numbers      theta = the nearest to z, which is anywhere between low - 1/2 and high + 1/2

The ends come from `prior.bounds`, so a density learned or sampled over z cannot leak out of the box.
Over z the probability of a whole number is spread evenly over its unit cell, so that a sampler of densities moves it
too, exactly. Numpy only.

Outputs are looked at too: those that come in steps or pile up at values (counts, rounded, clipped or zero-inflated
numbers). A value that many runs share has a probability, not a density, and an estimated density rises there without
end: neural likelihoods give such values cells (`neural.cells`), synthetic ones a least spread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thrifty.types import Array, Levels, Prior, as_rows, find_discrete, freeze, levels_of, set_fields

MIN_TIED_SHARE = 0.01  # of runs that share their value with another: single precision alone ties 0.2 % of 20,000

# A parameter on the very edge would be sent to infinity; this share of the width keeps |z| below 28.
MIN_EDGE_SHARE = 1e-12
MIN_EDGE_DISTANCE = 1e-300  # the same where there is no width


@dataclass(frozen=True)
class BoxTransform:
    """The map between theta (n, p) inside the bounds and z (n, p) without bounds.

    Args:
        low: Lower ends (p,), -inf where there is none.
        high: Upper ends (p,), inf where there is none.
        levels: What values each parameter takes; empty where all are numbers.

    Example:
        >>> box = BoxTransform(np.array([0.0, -np.inf]), np.array([1.0, np.inf]))
        >>> box.to_unconstrained([[0.5, 3.0]]).tolist()
        [[0.0, 3.0]]
        >>> box.log_jacobian([[0.0, 3.0]]).round(4).tolist()  # log 1/4
        [-1.3863]
    """

    low: Array
    high: Array
    levels: Levels = ()

    def __post_init__(self) -> None:
        set_fields(self, low=freeze(np.atleast_1d(self.low)), high=freeze(np.atleast_1d(self.high)))
        set_fields(self, levels=self.levels if find_discrete(self.levels).any() else ())

    @classmethod
    def of(cls, prior: Prior) -> BoxTransform:
        """The transform of a prior's bounds."""
        low, high = prior.bounds
        return cls(low, high, levels_of(prior))

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.low)

    @property
    def kinds(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which parameters have both ends, only the low one, only the high one; each (p,)."""
        low, high = np.isfinite(self.low), np.isfinite(self.high)
        if self.levels:
            low, high = low & ~self.discrete, high & ~self.discrete
        return low & high, low & ~high, ~low & high

    @property
    def discrete(self) -> npt.NDArray[np.bool_]:
        """Which parameters (p,) take whole numbers only."""
        return find_discrete(self.levels) if self.levels else np.zeros(self.dim, dtype=np.bool_)

    def spread(self, z: Array, rng: np.random.Generator) -> Array:
        """Move the whole numbers of z (n, p) anywhere into their cells; other columns stay, and nothing is drawn."""
        if not self.levels:
            return z
        out, cells = z.copy(), self.discrete
        out[:, cells] += rng.uniform(-0.5, 0.5, (len(z), int(cells.sum())))
        return out

    def to_unconstrained(self, theta: npt.ArrayLike) -> Array:
        """Map theta (n, p) inside the bounds to z (n, p); points on an edge are moved in by 1e-12 of the width."""
        z = as_rows(theta, dim=self.dim).copy()
        both, above, below = self.kinds
        share = np.clip(
            (z[:, both] - self.low[both]) / (self.high[both] - self.low[both]), MIN_EDGE_SHARE, 1 - MIN_EDGE_SHARE
        )
        z[:, both] = np.log(share) - np.log1p(-share)
        z[:, above] = np.log(np.maximum(z[:, above] - self.low[above], MIN_EDGE_DISTANCE))
        z[:, below] = np.log(np.maximum(self.high[below] - z[:, below], MIN_EDGE_DISTANCE))
        return z

    def to_bounded(self, z: npt.ArrayLike) -> Array:
        """Map z (n, p) to theta (n, p), never outside the bounds."""
        theta = as_rows(z, "z", self.dim).copy()
        both, above, below = self.kinds
        share = 1 / (1 + np.exp(-np.clip(theta[:, both], -700, 700)))
        theta[:, both] = self.low[both] + (self.high[both] - self.low[both]) * share
        theta[:, above] = self.low[above] + np.exp(np.minimum(theta[:, above], 700))
        theta[:, below] = self.high[below] - np.exp(np.minimum(theta[:, below], 700))
        if self.levels:
            theta[:, self.discrete] = np.round(theta[:, self.discrete])
        return np.clip(theta, self.low, self.high)

    def log_jacobian(self, z: npt.ArrayLike) -> Array:
        """Log |d theta / d z| (n,) at z (n, p): add it to a density over theta to get the one over z."""
        z = as_rows(z, "z", self.dim)
        both, above, below = self.kinds
        size = np.abs(z[:, both])
        logistic = np.log(self.high[both] - self.low[both]) - size - 2 * np.log1p(np.exp(-size))
        total = logistic.sum(1) + z[:, above].sum(1) + z[:, below].sum(1)
        if self.levels:
            cells = self.discrete
            beyond = (z[:, cells] < self.low[cells] - 0.5) | (z[:, cells] > self.high[cells] + 0.5)
            total[beyond.any(1)] = -np.inf
        return total

    def slopes(self, z: npt.ArrayLike) -> Array:
        """D theta / d z (n, p) of each parameter at z (n, p).

        Example:
            >>> BoxTransform(np.array([0.0, -np.inf]), np.array([1.0, 5.0])).slopes([[0.0, 0.0]]).tolist()
            [[0.25, -1.0]]
        """
        z = as_rows(z, "z", self.dim)
        out = np.ones_like(z)
        both, above, below = self.kinds
        tail = np.exp(-np.abs(z[:, both]))
        out[:, both] = (self.high[both] - self.low[both]) * tail / (1 + tail) ** 2
        out[:, above], out[:, below] = np.exp(np.minimum(z[:, above], 700)), -np.exp(np.minimum(z[:, below], 700))
        return out

    def log_jacobian_at(self, theta: npt.ArrayLike) -> Array:
        """Log |d z / d theta| (n,) at theta (n, p): add it to a density over z to get the one over theta."""
        return -self.log_jacobian(self.to_unconstrained(theta))

    def inside(self, theta: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Tell which rows (n,) lie within the bounds."""
        theta = as_rows(theta, dim=self.dim)
        whole = theta[:, self.discrete]
        return np.asarray(((theta >= self.low) & (theta <= self.high)).all(1) & (whole == np.round(whole)).all(1))


def is_tied(column: Array) -> bool:
    """Tell whether a share of the values (n,) that chance does not explain equals another one.

    Example:
        >>> is_tied(np.array([0.0, 0.0, 1.3, 2.1])), is_tied(np.linspace(0, 1, 50))
        (True, False)
    """
    _, counts = np.unique(column, return_counts=True)
    return bool(counts[counts > 1].sum() >= MIN_TIED_SHARE * len(column)) and bool((counts > 1).any())


def find_step(values: Array) -> float:
    """Find the step of a lattice that holds all of the increasing values; 0 where there is none.

    Example:
        >>> find_step(np.array([0.0, 3.0, 5.0])), round(find_step(np.array([0.1, 0.3, 0.7])), 9)
        (1.0, 0.2)
        >>> find_step(np.log([1.0, 2.0, 3.0]))
        0.0
    """
    gaps = np.diff(values)
    if not len(gaps):
        return 0.0
    if (values == np.round(values)).all() and np.abs(values).max() < 2**53:
        return float(np.gcd.reduce(gaps.astype(np.int64)))
    ratios = gaps / gaps.min()
    rounding = np.spacing(np.abs(values).max()) / gaps.min()
    return float(gaps.min()) if (np.abs(ratios - np.round(ratios)) < 1e-6 * ratios + 4 * rounding).all() else 0.0


def least_spreads(x: Array) -> Array:
    """Find a least standard deviation (d,) for each statistic of runs x (n, m, d) at n parameters; 0 without ties.

    On a lattice that of a uniform cell, step / sqrt(12). Where m runs are equal otherwise, what they can have missed:
    a value with a chance of 1/m, as far away as values elsewhere are, so the median spread over sqrt(m).

    Example:
        >>> least_spreads(np.array([[[0.0], [1.0]], [[0.0], [0.0]]])).round(3).tolist()
        [0.289]
    """
    m = x.shape[1]
    out = np.zeros(x.shape[2])
    for j, column in enumerate(np.moveaxis(x, 2, 0)):
        if is_tied(column.ravel()):
            step, sd = find_step(np.unique(column)), column.std(1)
            missed = float(np.median(sd[sd > 0])) / np.sqrt(m) if (sd > 0).any() else 0.0
            out[j] = step / np.sqrt(12) if step > 0 else missed
    return out
