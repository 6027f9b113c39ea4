"""Jumps between separate peaks of a density, for walkers that cannot cross the valley between them.

    z' = m_b + L_b L_a^{-1} (z - m_a),      accepted with  min(1, p(z') |L_b| / (p(z) |L_a|))

Peak a is the one that z belongs to, b another one, chosen evenly; m and L are mean and Cholesky root of the walkers on
a peak. The way back is the same map with a and b exchanged, so that the jump keeps the density exactly, whatever the
peaks are: wrong ones cost acceptance only. Between peaks of one shape, the share of accepted jumps is the ratio of
their masses, in any number of dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thrifty.types import Array

PEAK_STEPS = (10, 40, 160)  # of the warm-up, after which separate peaks are looked for
PEAK_MEMORY = 0.5  # correlation of the walkers' places with their start: on one peak ten steps of NUTS leave less
MAX_PEAKS = 6  # more would cut a thin ridge into pieces, between which walkers hop without learning their shares
MIN_PEAK_SHARE = 0.01  # of the walkers; a smaller peak has no covariance worth the name


@dataclass(frozen=True)
class Peaks:
    """Means (k, p), Cholesky roots (k, p, p) and logs of the shares (k,) of the walkers on each of k peaks."""

    means: Array
    roots: Array
    log_shares: Array

    @property
    def log_volumes(self) -> Array:
        """Log determinants (k,) of the roots."""
        return np.log(np.diagonal(self.roots, axis1=1, axis2=2)).sum(1)

    def label(self, z: Array) -> npt.NDArray[np.intp]:
        """Return the peak (n,) of each point z (n, p): the normal that is highest there."""
        away = [np.linalg.solve(root, (z - mean).T) for mean, root in zip(self.means, self.roots, strict=True)]
        heights = -0.5 * np.square(away).sum(1) + (self.log_shares - self.log_volumes)[:, None]
        return np.argmax(heights, axis=0)

    def jump(self, z: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Map points z (n, p) to other peaks; return the places and the logs of the volume ratio, -inf if not allowed.

        A place that does not belong to the peak that was aimed at has no way back: it is not allowed.

        Example:
            >>> peaks = Peaks(np.array([[0.0], [10.0]]), np.array([[[1.0]], [[2.0]]]), np.log([0.5, 0.5]))
            >>> after, log_volume = peaks.jump(np.array([[0.5], [11.0]]), np.random.default_rng(0))
            >>> after.tolist(), np.exp(log_volume).round(3).tolist()
            ([[11.0], [0.5]], [2.0, 0.5])
        """
        begin = self.label(z)
        end = (begin + rng.integers(1, len(self.means), len(z))) % len(self.means)
        unit = np.linalg.solve(self.roots[begin], (z - self.means[begin])[:, :, None])
        after = self.means[end] + (self.roots[end] @ unit)[:, :, 0]
        gain = self.log_volumes[end] - self.log_volumes[begin]
        return after, np.where(self.label(after) == end, gain, -np.inf)


def find_peaks(z: Array, rng: np.random.Generator) -> Peaks | None:
    """Find separate peaks among points z (n, p): as many normals as the BIC wants; None for one peak.

    Example:
        >>> z = np.random.default_rng(0).standard_normal((600, 5))
        >>> find_peaks(z, np.random.default_rng(1)) is None
        True
        >>> z[:150] += 8
        >>> sorted(np.exp(find_peaks(z, np.random.default_rng(1)).log_shares).round(2).tolist())
        [0.25, 0.75]
    """
    from sklearn.mixture import GaussianMixture

    middle, scale = z.mean(0), z.std(0)
    if not (scale > 0).all():
        return None
    unit, best, lowest = (z - middle) / scale, np.zeros(len(z), dtype=np.intp), np.inf
    for count in range(1, MAX_PEAKS + 1):
        state = np.random.RandomState(int(rng.integers(2**32)))
        mixture = GaussianMixture(count, n_init=2, random_state=state).fit(unit)
        if (bic := float(mixture.bic(unit))) >= lowest:
            break
        lowest, best = bic, mixture.predict(unit)
    groups = [z[best == k] for k in range(best.max() + 1)]
    groups = [group for group in groups if len(group) > max(2 * z.shape[1], MIN_PEAK_SHARE * len(z))]
    return _describe(groups, scale) if len(groups) > 1 else None


def _describe(groups: list[Array], scale: Array) -> Peaks:
    """Describe groups of points, each (n, p); `scale` (p,) is the spread of all of them."""
    spreads = [np.atleast_2d(np.cov(group.T)) + 1e-9 * np.diag(scale**2) for group in groups]
    counts = np.array([len(group) for group in groups])
    return Peaks(
        means=np.stack([group.mean(0) for group in groups]),
        roots=np.asarray([np.linalg.cholesky(spread) for spread in spreads], dtype=np.float64),
        log_shares=np.log(counts / counts.sum()),
    )
