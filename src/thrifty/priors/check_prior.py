"""Whether sampler, density, names and bounds describe one prior."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from thrifty.errors import PriorError
from thrifty.priors.independent import OWN
from thrifty.types import Array, Prior, find_discrete, levels_of

COMPARED_DRAWS = 512  # of each of two priors: a difference in 1 % of the mass is missed once in 170 comparisons
MAX_LOG_DENSITY_GAP = 1e-3  # of two priors that count as one: densities in single precision differ by 1e-6


def is_same_prior(a: Any, b: Any) -> bool:
    """Say whether two priors are one object, or of one kind with equal numbers."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, OWN):
        return False
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))


def has_same_density(a: Prior, b: Prior) -> bool:
    """Tell whether two priors have one density up to a constant, and one support, at draws of both.

    Weights are known up to a constant, so that such priors give one posterior.
    """
    if is_same_prior(a, b):
        return True
    draws = [prior.sample(COMPARED_DRAWS, np.random.default_rng(0)) for prior in (a, b)]
    theta = np.concatenate(draws)
    first, second = (np.asarray(prior.log_prob(theta), dtype=np.float64) for prior in (a, b))
    inside = first > -np.inf
    if (inside != (second > -np.inf)).any():
        return False
    peaks = first == np.inf  # of a density that is infinite at its edge
    if (peaks != (second == np.inf)).any():
        return False
    gaps = first[inside & ~peaks] - second[inside & ~peaks]
    return not len(gaps) or float(np.ptp(gaps)) <= MAX_LOG_DENSITY_GAP


def check_draws(prior: Prior, draws: Any) -> Array:
    """Check draws of a prior (n, p) for shape, finiteness and density at the first 200, and return them.

    Raises:
        PriorError: bad-prior, wrong shape, not finite, of zero density or outside the bounds.
    """
    theta = np.asarray(draws, dtype=np.float64)
    if theta.ndim != 2 or theta.shape[1] != prior.dim:
        n = len(theta) if theta.ndim else 0
        raise PriorError(
            f"prior.sample({n}) returned shape {theta.shape}, expected ({n}, {prior.dim})"
            f" for parameters {', '.join(prior.names)}",
            code="bad-prior",
        )
    if not np.isfinite(theta).all():
        raise PriorError(f"prior.sample({len(theta)}) returned values that are not finite", code="bad-prior")
    some = theta[:200]
    density = np.asarray(prior.log_prob(some), dtype=np.float64)
    if density.shape != (len(some),):
        raise PriorError(
            f"prior.log_prob of {len(some)} parameters returned shape {density.shape}, expected ({len(some)},)",
            code="bad-prior",
        )
    bad = ~(density > -np.inf)
    if bad.any():
        raise PriorError(
            f"{int(bad.sum())} of {len(some)} prior draws have zero density, first at theta={some[bad][0].tolist()}",
            code="bad-prior",
            why="sample() and log_prob() describe different priors",
        )
    low, high = prior.bounds
    outside = ((theta < low) | (theta > high)).any(1)
    if outside.any():
        raise PriorError(f"prior draw {theta[outside][0].tolist()} lies outside prior.bounds", code="bad-prior")
    return theta


def check_prior(prior: Prior, *, n: int = 20_000, seed: int = 0) -> None:
    """Draw n parameters and make sure that sampler, density, names and bounds describe one prior.

    Shape is tested over boxes round a few draws: the share of other draws in a box must be the integral of the density
    over it, within six standard errors of both. Of a discrete parameter a box holds one value.

    Raises:
        PriorError: bad-prior, wrong shape, sampler and density disagree, or a parameter never varies.

    Example:
        >>> th.check_prior(th.Normal([0, 1], [1, 1], names=["a", "b"]))
    """
    rng = np.random.default_rng(seed)
    theta = check_draws(prior, prior.sample(n, rng))
    for name, column in zip(prior.names, theta.T, strict=True):
        if np.ptp(column) == 0:
            raise PriorError(
                f"prior {name!r} has zero width: every draw is {column[0]:g}",
                code="bad-prior",
                fix="make it a fixed argument of the simulator",
            )
    chosen, others = theta[: n // 2], theta[n // 2 :]
    free = ~find_discrete(levels_of(prior))
    spread = np.subtract(*np.quantile(chosen, [0.75, 0.25], axis=0))
    spread = np.where(spread > 0, spread, np.ptp(chosen, axis=0))
    for centre in chosen[:8]:
        distance = np.abs((chosen - centre) / spread)[:, free].max(1, initial=0.0)
        half = np.where(free, np.quantile(distance, 0.2) * spread, 0.0)  # a fifth of the draws
        low, high = np.maximum(centre - half, prior.bounds[0]), np.minimum(centre + half, prior.bounds[1])
        drawn = ((others >= low) & (others <= high)).all(1).mean()
        points = low + (high - low) * rng.random((4000, prior.dim))
        density = np.exp(np.asarray(prior.log_prob(points)) + np.log((high - low)[free]).sum())
        error = np.hypot(np.sqrt(0.16 / len(others)), density.std() / np.sqrt(len(points)))
        if not abs(density.mean() - drawn) < 6 * error:
            raise PriorError(
                f"prior draws and density disagree: {drawn:.1%} of the draws lie within {half.round(3).tolist()} of"
                f" {centre.round(3).tolist()}, where the density integrates to {density.mean():.1%}",
                code="bad-prior",
                why="sample() and log_prob() describe different priors, or the density is not normalised",
            )
