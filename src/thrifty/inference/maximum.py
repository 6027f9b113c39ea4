"""The highest point of a vectorised log density: draws round the best points, narrowed each time. No gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thrifty.inference.transforms import BoxTransform
from thrifty.types import Array

_ROUNDS, _DRAWS, _ELITE = 40, 400, 40  # each round narrows to about a third: float32 networks resolve no more


def maximise(
    log_density: Callable[[Array], Array], start: Array, box: BoxTransform, *, rng: np.random.Generator
) -> Array:
    """The maximum (p,) over theta inside the box, from start points (k, p) such as posterior draws.

    Example:
        >>> box = BoxTransform(np.zeros(2), np.ones(2))
        >>> start, rng = np.full((50, 2), 0.5), np.random.default_rng(0)
        >>> peak = maximise(lambda t: -((t - 0.3) ** 2).sum(1), start, box, rng=rng)
        >>> peak.round(2).tolist()
        [0.3, 0.3]
    """
    z = box.to_unconstrained(start)
    value = log_density(box.to_bounded(z))
    p = z.shape[1]
    spread = np.atleast_2d(np.cov(z.T)) + 0.01 * np.eye(p)
    best, highest = z[int(np.argmax(value))], float(value.max())
    for _ in range(_ROUNDS):
        root = np.linalg.cholesky(spread + 1e-14 * np.eye(p))
        z = best + rng.standard_normal((_DRAWS, p)) @ root.T
        value = log_density(box.to_bounded(z))
        elite = z[np.argsort(-value)[:_ELITE]] - best  # about the old centre: grows along a slope, shrinks at a top
        spread = elite.T @ elite / len(elite)
        if value.max() > highest:
            best, highest = z[int(np.argmax(value))], float(value.max())
    return box.to_bounded(best[None])[0]
