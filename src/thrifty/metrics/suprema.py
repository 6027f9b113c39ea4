"""How far a weighted distribution function may stray from the truth, by chance.

With normalised weights w, F_w(t) - F(t) is close to A(t) - F(t) A(1), where A is Brownian motion run by
the clock V(t) = sum of w_i^2 over points below t. Equal weights give V = F/n and the Brownian bridge,
hence Kolmogorov's law; weights that grow with t stray more in the upper tail than 1/ESS alone says
(over-confident by up to a factor of two in the standard deviation). The supremum is simulated on a
grid, and continued below its smallest resolved probability by the Gaussian tail exp(-d^2 / 2 max var).
"""

from __future__ import annotations

import numpy as np

from thrifty.types import Array

_GRID, _PATHS = 128, 2000
_RESOLVED = 40  # paths above the level from which the Gaussian tail takes over: 2 % of them


def paths(clock: Array, level: Array, rng: np.random.Generator, n: int = _PATHS) -> Array:
    """Simulated fluctuations (n, t) of a weighted distribution function at increasing points.

    Args:
        clock: V at the points and, last, at infinity (t + 1,).
        level: F at the points (t,).
        rng: Source of the Brownian paths.
        n: Number of paths.
    """
    steps = np.sqrt(np.maximum(np.diff(clock, prepend=0.0), 0.0))
    motion = np.cumsum(rng.standard_normal((n, len(steps))) * steps, axis=1)
    return motion[:, :-1] - level * motion[:, -1:]


def tail(statistic: float, suprema: Array, largest_variance: float) -> float:
    """P(supremum > statistic) from simulated suprema, continued by the Gaussian tail."""
    exceeding = int(np.sum(suprema >= statistic))
    if exceeding >= _RESOLVED:
        return exceeding / len(suprema)
    anchor = float(np.sort(suprema)[-_RESOLVED])
    decay = (statistic**2 - anchor**2) / (2 * max(largest_variance, 1e-300))
    return float(_RESOLVED / len(suprema) * np.exp(-max(decay, 0.0)))


def grid(n: int) -> np.ndarray:
    """Positions of at most 128 of n sorted points, the last included."""
    return np.unique(np.linspace(0, n - 1, min(n, _GRID)).round().astype(np.int64))
