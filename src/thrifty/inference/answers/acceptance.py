"""The evidence of ABC: the chance of a run within epsilon of x_o, over the volume that lies within epsilon.

    p(x_o) ≈ P(d(x, x_o) <= epsilon) / volume        P = sum_i w_i hits_i / m  over  sum_i w_i,   w = prior/proposal

It is the mean density of x within epsilon, so it tends to the evidence as epsilon falls. The volume is that of an
ellipsoid for the Euclidean and the Mahalanobis distance; other distances have none, and the chance alone is returned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from thrifty.inference.answers.evidence import LogEvidence, average_likelihood
from thrifty.inference.vector_distances import Distance, Euclidean, Mahalanobis
from thrifty.types import Array

NO_VOLUME = "the volume within epsilon"


def measure_acceptance(distance: Array, epsilon: float, log_weights: Array) -> LogEvidence:
    """Return log P(distance <= epsilon) with its error, from distances (n·m,) of m pairs for each of n parameters.

    Example:
        >>> found = measure_acceptance(np.array([0.1, 0.9, 0.2, 0.8]), 0.5, np.log([3.0, 1.0, 1.0, 3.0]))
        >>> round(float(np.exp(found.value)), 6)  # (3 + 1) of 8
        0.5
    """
    hits = (distance <= epsilon).reshape(len(log_weights), -1).mean(1)
    with np.errstate(divide="ignore"):
        return average_likelihood(np.log(hits), log_weights)


def measure_log_volume(distance: Distance, epsilon: float) -> float | None:
    """Return the log volume of the points x within epsilon of any x_o; None where it is not known or zero.

    Example:
        >>> bool(abs(measure_log_volume(Euclidean([1.0, 2.0]), 3.0) - np.log(np.pi * 9 * 2)) < 1e-9)
        True
    """
    if epsilon <= 0:
        return None
    if isinstance(distance, Euclidean) and distance.scale is not None and (distance.scale > 0).all():
        log_scale, dim = float(np.log(distance.scale).sum()), len(distance.scale)
    elif isinstance(distance, Mahalanobis) and distance.whitener is not None and _is_square(distance.whitener):
        log_scale, dim = -float(np.linalg.slogdet(distance.whitener)[1]), len(distance.whitener)
    else:
        return None
    from scipy.special import gammaln

    return log_scale + dim * float(np.log(epsilon)) + 0.5 * dim * float(np.log(np.pi)) - float(gammaln(dim / 2 + 1))


def _is_square(matrix: Any) -> bool:
    return matrix.shape[0] == matrix.shape[1]


def convert_to_density(chance: LogEvidence, distance: Distance, epsilon: float) -> LogEvidence:
    """Divide a chance to come within epsilon by the volume there, where it has one."""
    volume = measure_log_volume(distance, epsilon)
    if volume is None:
        return replace(chance, over=("ball",), missing=NO_VOLUME)
    return replace(chance, value=chance.value - volume, over=("ball",), se_without="the width of epsilon")
