"""Judge a posterior between rounds: how narrow it is, how far it moved, and how much of that is noise.

    volume   exp(-KL(posterior || prior)): the share of the prior that the posterior takes; the entropy of the draws is
             that of Kozachenko and Leonenko, from the distance of each draw to its 4th neighbour
    moved    the largest distance between two posteriors in one parameter, in posterior standard deviations, or the
             change of log volume per parameter, where that is more: a bent posterior that becomes thinner hardly moves
             in any one parameter

Both from draws alone, so for posteriors of every method and with several peaks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial import KDTree
from scipy.special import digamma, gammaln

from thrifty.types import Array, Prior, find_discrete, levels_of

QUANTILES = np.linspace(0.005, 0.995, 199)  # distances between them do not depend on a few far draws
NEIGHBOUR = 4  # of the entropy: in 1 to 10 parameters the volume of 1,000 normal draws is right to 15 %


def measure_volume(prior: Prior, draws: Array) -> float:
    """Return the share of the prior's volume that posterior draws (n, p) take, at most 1.

    NaN where a parameter takes whole numbers or categories: draws on a lattice have no distance to a neighbour.
    Distances are taken where the draws have unit covariance, so that no scale or correlation matters.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> prior = th.Uniform([0.0, 0.0], [1.0, 1.0])
        >>> volumes = [measure_volume(prior, rng.uniform(0.0, side, (1_000, 2))) for side in (1.0, 0.1)]
        >>> bool(volumes[0] > 0.9), bool(0.009 < volumes[1] < 0.012)
        (True, True)
    """
    if find_discrete(levels_of(prior)).any():
        return float("nan")
    n, p = draws.shape
    centred = draws - draws.mean(0)
    covariance = np.atleast_2d(np.cov(centred.T)) + np.diag(1e-12 * np.maximum(centred.var(0), 1e-300))
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, centred.T).T
    distance = np.maximum(KDTree(white).query(white, NEIGHBOUR + 1)[0][:, -1], 1e-300)
    log_unit_ball = 0.5 * p * np.log(np.pi) - gammaln(0.5 * p + 1)
    entropy = digamma(n) - digamma(NEIGHBOUR) + log_unit_ball + p * np.log(distance).mean()
    log_volume = entropy + np.log(np.diag(root)).sum() + np.mean(np.asarray(prior.log_prob(draws)))
    return float(min(np.exp(log_volume), 1.0))


def measure_move(before: Array, after: Array) -> float:
    """Return the largest Wasserstein distance over parameters between draws (n, p), in standard deviations of `after`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> a = rng.normal(size=(2_000, 2))
        >>> round(measure_move(a, a + [0.0, 0.5]), 2)
        0.5
    """
    gaps = np.abs(np.quantile(before, QUANTILES, axis=0) - np.quantile(after, QUANTILES, axis=0)).mean(0)
    return float((gaps / np.maximum(after.std(0), 1e-300)).max())


def measure_moves(prior: Prior, before: Sequence[Array], after: Sequence[Array]) -> float:
    """Return the largest move over several observations, in place or, of numbers without gaps, in volume.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> def ring(width):  # thin or thick, its marginals are nearly the same
        ...     angle, radius = rng.uniform(0, 2 * np.pi, 1_000), 1 + width * rng.standard_normal(1_000)
        ...     return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
        >>> prior, thick, thin = th.Uniform([-3.0, -3.0], [3.0, 3.0]), ring(0.2), ring(0.05)
        >>> bool(measure_move(thick, thin) < 0.2 < measure_moves(prior, [thick], [thin]))
        True
    """
    pairs = list(zip(before, after, strict=True))
    shrunk = [abs(np.log(measure_volume(prior, a) / measure_volume(prior, b))) / prior.dim for a, b in pairs]
    return float(np.nanmax([measure_move(a, b) for a, b in pairs] + shrunk))
