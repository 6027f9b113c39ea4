"""Judge a posterior between rounds: how narrow it is, how far it moved, and how much of that is noise.

    volume   exp(-KL(posterior || prior)): the share of the prior that the posterior takes
    moved    the largest distance between two posteriors in one parameter, in posterior standard deviations, or the
             change of log volume per parameter, where that is more: a bent posterior that becomes thinner hardly moves
             in any one parameter

Both from draws alone, so for posteriors of every method and with several peaks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thrifty.penalties import Constant
from thrifty.proposals.kernel import KernelProposal, measure_local_covariance
from thrifty.types import Array, Prior

QUANTILES = np.linspace(0.005, 0.995, 199)  # distances between them do not depend on a few far draws


def measure_volume(prior: Prior, draws: Array) -> float:
    """Return the share of the prior's volume that posterior draws (n, p) take, at most 1.

    Half of the draws make a kernel density, the other half evaluate it, so that no draw lies on its own kernel.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> prior = th.Uniform([0.0, 0.0], [1.0, 1.0])
        >>> volumes = [measure_volume(prior, rng.uniform(0.0, side, (1_000, 2))) for side in (1.0, 0.1)]
        >>> bool(volumes[0] > 0.8), bool(0.008 < volumes[1] < 0.02)
        (True, True)
    """
    half = len(draws) // 2
    # neighbours' covariance, narrower: kernels as wide as the neighbourhood would blur a narrow posterior
    kernel = 0.25 * measure_local_covariance(draws[:half])
    density = KernelProposal(prior, draws[:half], np.zeros(half), kernel, Constant())
    ratio = density.log_kernel(draws[half:]) - np.asarray(prior.log_prob(draws[half:]))
    return float(min(np.exp(-np.mean(ratio)), 1.0))


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
    """Return the largest move over several observations, in place or in volume.

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
    shrunk = (abs(np.log(measure_volume(prior, a) / measure_volume(prior, b))) / prior.dim for a, b in pairs)
    return max(*(measure_move(a, b) for a, b in pairs), *map(float, shrunk))
