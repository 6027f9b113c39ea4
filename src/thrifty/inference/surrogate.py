"""A smooth surrogate of a noisy log-likelihood known at the drawn parameters.

    l_i = l(theta_i) + noise,     l ≈ quadratic(z) [+ Gaussian process(z)]

over z, the parameters without bounds. A log-likelihood falls without limit away from its peak, so the quadratic is
fitted by weighted regression with weights exp(-(peak - l)/T): T starts at the width that posteriors have (2 per
parameter) and grows until enough runs carry weight. The weights use *fitted* values, not the noisy ones, which
would favour runs with upward noise. The process then learns the residuals near the peak, with their noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from thrifty.errors import InferenceError
from thrifty.inference.transforms import BoxTransform
from thrifty.types import Array

REFITS = 4  # of the weights; they settle in two or three
RUNS_PER_COEFFICIENT = 5.0  # effective runs per coefficient of the quadratic
SINGULAR_SHARE = 1e-12  # of the largest curvature: one below is rounding error
MAX_GP_POINTS = 300  # a process on more points takes seconds and gains nothing over the quadratic


@dataclass(frozen=True)
class Quadratic:
    """A fitted quadratic l(z) = peak value, gradient and curvature about a centre.

    Attributes:
        centre, scale: z is standardised as (z - centre) / scale, each (p,).
        coefficients: Of 1, u, and the products u_i u_j (i <= j).
        weights: Regression weights of the runs (n,), at most 1.
    """

    centre: Array
    scale: Array
    coefficients: Array
    weights: Array

    def __call__(self, z: Array) -> Array:
        """Values (k,) at z (k, p)."""
        return products((z - self.centre) / self.scale) @ self.coefficients

    @property
    def hessian(self) -> Array:
        """Second derivatives (p, p) in standardised units."""
        return hessian_of(self.coefficients, len(self.centre))

    @property
    def peak(self) -> Array:
        """The maximiser (p,) in z; where there is none, the centre."""
        p = len(self.centre)
        values = np.linalg.eigvalsh(self.hessian)
        if values.max() >= -SINGULAR_SHARE * max(float(np.abs(values).max()), 1e-300):  # flat in some direction
            return self.centre
        step = np.linalg.solve(self.hessian, -self.coefficients[1 : 1 + p])
        return self.centre + self.scale * step


def products(u: Array) -> Array:
    """Make columns 1, u_i and u_i u_j for i <= j, of u (n, p).

    Example:
        >>> products(np.array([[2.0, 3.0]])).tolist()
        [[1.0, 2.0, 3.0, 4.0, 6.0, 9.0]]
    """
    i, j = np.triu_indices(u.shape[1])
    return np.column_stack([np.ones(len(u)), u, u[:, i] * u[:, j]])


def hessian_of(coefficients: Array, p: int) -> Array:
    """Return the second derivatives (p, p) of products(u) @ coefficients."""
    upper = np.zeros((p, p))
    upper[np.triu_indices(p)] = coefficients[1 + p :]
    return upper + upper.T


def fit_quadratic(z: Array, values: Array, *, width: float, effective: float = 0.0) -> Quadratic:
    """Fit the quadratic about the peak of values (n,) at z (n, p).

    Args:
        z: Parameters without bounds (n, p).
        values: Log-likelihoods (n,); -inf is left out.
        width: Smallest T, in units of the values; 0 lets the number of effective runs alone decide.
        effective: Runs that the fit must count as, if more than five per coefficient.

    Raises:
        InferenceError: too-few-runs, fewer finite values than the quadratic needs.
    """
    finite = np.isfinite(values)
    p = z.shape[1]
    count = 1 + p + p * (p + 1) // 2
    need = max(RUNS_PER_COEFFICIENT * count, effective)
    if finite.sum() < need:
        raise InferenceError(
            f"{int(finite.sum())} parameters with a positive likelihood; a surrogate over {p} parameters needs"
            f" {need:.0f}",
            code="too-few-runs",
            fix='draw more parameters, or use how="pointwise"',
        )
    values = np.where(finite, values, -np.inf)
    weights, reach = _weigh_near_peak(values, width, need)
    result = _fit_regression(z, values, weights)
    for _ in range(REFITS):
        fitted = result(z)
        # far out, a parabola can come near its peak value again: where it contradicts the run, use the run
        weights, reach = _weigh_near_peak(np.where(fitted - values > 10 * reach, values, fitted), width, need)
        result = _fit_regression(z, values, weights)
    return _make_concave(result)


def _weigh_near_peak(values: Array, width: float, need: float) -> tuple[Array, float]:
    """Return weights exp(-(max - v)/T) with the smallest T >= width that makes them count as `need` runs, and T."""
    gap = values.max() - values
    finite = gap[np.isfinite(gap)]
    low = max(width, 1e-12 * max(float(np.median(finite)), 1e-300))
    high = max(10 * float(finite.max()), 2 * low)

    def effective(t: float) -> float:
        weights = np.exp(-finite / t)
        return float(weights.sum() ** 2 / np.square(weights).sum())

    if effective(low) < need:
        for _ in range(60):
            middle = np.sqrt(low * high)
            low, high = (low, middle) if effective(middle) >= need else (middle, high)
        low = high
    return np.exp(-gap / low), low


def _fit_regression(z: Array, values: Array, weights: Array) -> Quadratic:
    share = weights / weights.sum()
    centre = share @ z
    scale = np.sqrt(np.maximum(share @ (z - centre) ** 2, 1e-300))
    used = weights > 1e-12
    root = np.sqrt(weights[used])
    design = products((z[used] - centre) / scale)
    coefficients = np.linalg.lstsq(root[:, None] * design, root * values[used], rcond=1e-10)[0]
    return Quadratic(centre, scale, np.asarray(coefficients, dtype=np.float64), weights)


def _make_concave(fit: Quadratic) -> Quadratic:
    """Make directions that bend up flat: there the prior decides, not an extrapolated parabola."""
    p = len(fit.centre)
    values, vectors = np.linalg.eigh(fit.hessian)
    if values.max() < 0:
        return fit
    hessian = (vectors * np.minimum(values, 0.0)) @ vectors.T
    coefficients = fit.coefficients.copy()
    i, j = np.triu_indices(p)
    coefficients[1 + p :] = np.where(i == j, hessian[i, j] / 2, hessian[i, j])
    return Quadratic(fit.centre, fit.scale, coefficients, fit.weights)


def fit_surrogate(theta: Array, values: Array, box: BoxTransform, *, process: bool) -> Callable[[Array], Array]:
    """Fit a smooth function theta (k, p) -> log-likelihood (k,) to noisy values (n,) at theta (n, p).

    Args:
        theta: Drawn parameters (n, p).
        values: Noisy log-likelihoods (n,).
        box: Bounds of the parameters.
        process: Add a Gaussian process on the residuals near the peak.

    Example:
        >>> theta = np.linspace(-3, 3, 200)[:, None]
        >>> line = BoxTransform(np.array([-np.inf]), np.array([np.inf]))
        >>> fit = fit_surrogate(theta, -0.5 * (theta[:, 0] - 1) ** 2, line, process=False)
        >>> np.allclose(fit(np.array([[1.0], [3.0]])), [0.0, -2.0])
        True
    """
    z = box.to_unconstrained(theta)
    quadratic = fit_quadratic(z, values, width=2.0 * z.shape[1])
    correction = _fit_process(z, values, quadratic) if process else None

    def predict(points: Array) -> Array:
        at = box.to_unconstrained(points)
        return quadratic(at) if correction is None else quadratic(at) + correction(at)

    return predict


def _fit_process(z: Array, values: Array, quadratic: Quadratic) -> Callable[[Array], Array]:
    """Fit a Gaussian process to the residuals of the runs with most weight; return its mean."""
    from thrifty.costs.gaussian_process import fit_process  # scipy: not at import

    order = np.argsort(-quadratic.weights, kind="stable")[:MAX_GP_POINTS]
    order = order[quadratic.weights[order] > 1e-3]
    u = (z[order] - quadratic.centre) / quadratic.scale
    residual = values[order] - quadratic(z[order])
    spread = max(float(residual.std()), 1e-9)
    model = fit_process(u, residual / spread, lengths=(0.2, 30.0), noise=(0.5, (1e-6, 1e2)), restarts=1)

    def correction(at: Array) -> Array:
        scaled = (at - quadratic.centre) / quadratic.scale
        blocks = (scaled[i : i + 5_000] for i in range(0, len(scaled), 5_000))
        mean = np.concatenate([np.asarray(model.predict(block), dtype=np.float64).ravel() for block in blocks])
        return spread * mean

    return correction
