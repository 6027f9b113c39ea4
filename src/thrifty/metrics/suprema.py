"""How far a weighted distribution function may stray from the truth, by chance.

With normalised weights w, F_w(t) - F(t) is close to A(t) - F(t) A(1), where A is Brownian motion run by
the clock V(t) = sum of w_i^2 over points below t. Equal weights give V = F/n and the Brownian bridge,
hence Kolmogorov's law; weights that grow with t stray more in the upper tail than 1/ESS alone says
(over-confident by up to a factor of two in the standard deviation). The supremum is simulated on a
grid, and continued below its smallest resolved probability by Student's tail.

Two corrections keep the size right when few points carry the weight. Each point's own part is left out of the curve
that it is compared with, so w / (1 - w) stands for w (the jackknife); and V is itself an estimate, from as many points
as the squared weights count: (sum w^2)^2 / sum w^4 degrees of freedom. Beyond both, a sample whose heaviest points
have not been seen yet looks better than it is; `too_uneven` says when no p-value can be right.
"""

from __future__ import annotations

import numpy as np

from thrifty.types import Array
from thrifty.weights import pareto_k

_GRID, _PATHS = 128, 2000
_RESOLVED = 40  # paths above the level from which Student's tail takes over: 2 % of them
# log-normal weights with ESS/n = r: at the 5 % level 4 to 9 % of true nulls are rejected where ESS r^2 is 6 or more,
# up to 15 % below (400 seeds each, ESS 40 to 400, r from 0.02 to 0.95)
_SEEN = 6.0
HEAVY = 0.7  # Pareto's k from which an effective sample size is itself not to be believed


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


def squared(weights: Array) -> Array:
    """What each point adds to the clock: (w / (1 - w))^2."""
    return (weights / np.maximum(1 - weights, 0.05)) ** 2


def freedom(squares: Array) -> float:
    """Degrees of freedom of a sum of squares (Satterthwaite): (sum s)^2 / sum s^2.

    Example:
        >>> freedom(np.full(40, 0.1))
        40.0
    """
    return float(np.round(squares.sum() ** 2 / (squares**2).sum(), 9))


def studentised(suprema: Array, dof: float, rng: np.random.Generator) -> Array:
    """Suprema over the root of a mean square with `dof` degrees of freedom, for a clock that was estimated."""
    return suprema / np.sqrt(2 * rng.standard_gamma(dof / 2, len(suprema)) / dof)


def too_uneven(weights: Array) -> str:
    """Why no p-value can be given for these normalised weights, or "" when one can.

    Example:
        >>> too_uneven(np.full(100, 0.01))
        ''
        >>> too_uneven(np.append(np.full(99, 0.001), 0.901))
        '100 weighted points count as 1.2, too few to tell how far they stray'
    """
    n, size = len(weights), float(1 / np.sum(weights**2))
    if size * (size / n) ** 2 < _SEEN:
        return f"{n} weighted points count as {size:.2g}, too few to tell how far they stray"
    tail_shape = pareto_k(np.log(weights))
    if tail_shape > HEAVY:
        return f"the weights have too heavy a tail (Pareto k {tail_shape:.2f} > {HEAVY})"
    return ""


def tail(statistic: float, suprema: Array, largest_variance: float, dof: float = np.inf) -> float:
    """P(supremum > statistic) from simulated suprema, continued by the tail of Student's law (the Gaussian for inf)."""
    exceeding = int(np.sum(suprema >= statistic))
    if exceeding >= _RESOLVED:
        return exceeding / len(suprema)
    anchor = float(np.sort(suprema)[-_RESOLVED])
    scale = max(largest_variance, 1e-300)
    if np.isfinite(dof):
        decay = dof / 2 * np.log((1 + statistic**2 / (dof * scale)) / (1 + anchor**2 / (dof * scale)))
    else:
        decay = (statistic**2 - anchor**2) / (2 * scale)
    return float(_RESOLVED / len(suprema) * np.exp(-max(float(decay), 0.0)))


def grid(n: int) -> np.ndarray:
    """Positions of at most 128 of n sorted points, the last included."""
    return np.unique(np.linspace(0, n - 1, min(n, _GRID)).round().astype(np.int64))
