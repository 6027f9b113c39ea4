"""Distances for `th.ABC` and `th.SMCABC`, by their public names.

Example:
    >>> th.ABC(th.Uniform(0, 1), quantile=0.01, distance=th.distances.Mahalanobis()).adjust
    'none'
"""

from thrifty.inference.sample_distances import MMD, Energy, Wasserstein
from thrifty.inference.vector_distances import Distance, Euclidean, Mahalanobis, Manhattan

__all__ = ["MMD", "Distance", "Energy", "Euclidean", "Mahalanobis", "Manhattan", "Wasserstein"]
