"""A weighted Gaussian kernel density over parameters without bounds, with Silverman's rule at the effective size."""

from __future__ import annotations

import numpy as np

from thrifty.display import count_things
from thrifty.errors import InferenceError
from thrifty.inference.transforms import BoxTransform
from thrifty.inference.vector_distances import chunks
from thrifty.types import Array
from thrifty.weights import covariance, normalise

MIN_OWN_POINTS = (
    20.0  # effective, with one discrete value: the covariance of fewer is too small, and with it the kernel
)


def estimate_log_density(theta: Array, points: Array, log_weights: Array, box: BoxTransform, effective: float) -> Array:
    """Return the log kernel density (k,) of weighted points (n, p) at theta (k, p); -inf outside the bounds.

    The kernel is Gaussian over the parameters without bounds, with the points' covariance times
    h^2, h = (4 / (effective (p + 2)))^(1 / (p + 4)). Where parameters are discrete, the share of each of their values
    times the density of the others among the points with these values; where those are too few to have a covariance,
    it is that of all points.

    Example:
        >>> points, box = np.linspace(-1, 1, 2_001)[:, None], BoxTransform([-np.inf], [np.inf])
        >>> estimate_log_density(np.zeros((1, 1)), points, np.zeros(2_001), box, 2_001.0).round(2).tolist()  # log 1/2
        [-0.69]
    """
    if box.levels:
        return _estimate_by_value(theta, points, log_weights, box, effective)
    return _estimate_inside(theta, points, log_weights, box, effective)


def _estimate_inside(
    theta: Array, points: Array, log_weights: Array, box: BoxTransform, effective: float, *, cover: Array | None = None
) -> Array:
    """Return the log density (k,) over numbers without gaps; `cover` is used where the points span no covariance."""
    out, inside = np.full(len(theta), -np.inf), box.inside(theta)
    if inside.any():
        z, places = box.to_unconstrained(theta[inside]), box.to_unconstrained(points)
        few = effective < MIN_OWN_POINTS or not _spans(places, log_weights)
        own = _measure_covariance(places, log_weights) if cover is None or not few else cover
        out[inside] = _evaluate(z, places, log_weights, effective, own) + box.log_jacobian_at(theta[inside])
    return out


def _estimate_by_value(theta: Array, points: Array, log_weights: Array, box: BoxTransform, effective: float) -> Array:
    """Return the same (k,) for each value of the discrete parameters by itself; -inf where no point has it."""
    cells, shares = box.discrete, normalise(log_weights)
    inner = BoxTransform(box.low[~cells], box.high[~cells])
    out = np.full(len(theta), -np.inf)
    everywhere = inner.to_unconstrained(points[:, ~cells])
    cover = None if cells.all() else _measure_covariance(everywhere, log_weights)
    for value in np.unique(theta[:, cells], axis=0):
        asked, known = ((table[:, cells] == value).all(1) for table in (theta, points))
        share = float(shares[known].sum())
        if share == 0:
            continue
        out[asked] = np.log(share)
        if not cells.all():
            rest = (theta[asked][:, ~cells], points[known][:, ~cells], log_weights[known], inner)
            out[asked] += _estimate_inside(*rest, max(share * effective, 1.0), cover=cover)
    return out


def _spans(points: Array, log_weights: Array) -> bool:
    """Tell whether weighted points (n, p) have a covariance of full rank."""
    p = points.shape[1]
    return len(np.unique(points, axis=0)) > p and np.linalg.matrix_rank(covariance(points, log_weights)) == p


def _measure_covariance(points: Array, log_weights: Array) -> Array:
    if not _spans(points, log_weights):
        raise InferenceError(
            f"{count_things(len(points), 'draw')}: too few for the density of"
            f" {count_things(points.shape[1], 'parameter')}",
            code="too-few-runs",
            why="a kernel density needs a spread in every direction",
            fix="accept more draws (larger epsilon) or add simulations",
        )
    return covariance(points, log_weights)


def _evaluate(z: Array, points: Array, log_weights: Array, effective: float, cover: Array) -> Array:
    from scipy.special import logsumexp

    p = points.shape[1]
    width = (4 / (effective * (p + 2))) ** (1 / (p + 4))
    root = np.linalg.inv(np.linalg.cholesky(cover)) / width
    a, b = z @ root.T, points @ root.T
    log_norm = np.linalg.slogdet(root)[1] - 0.5 * p * np.log(2 * np.pi)
    weights, out = np.log(np.maximum(normalise(log_weights), 1e-300)), np.empty(len(z))
    for part in chunks(len(z), 8 * len(points)):
        square = np.square(a[part]).sum(1)[:, None] + np.square(b).sum(1) - 2 * a[part] @ b.T
        out[part] = logsumexp(weights - 0.5 * np.maximum(square, 0), axis=1)
    return out + log_norm
