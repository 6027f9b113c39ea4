"""Gaussian process of log cost: squared-exponential kernel, one length scale per parameter, white noise.

Hyperparameters come from scikit-learn. Prediction is only the mean, k(x, Z) @ alpha, in float32 chunks, and
needs nothing but numpy: a million predictions in half a second. Above `inducing` rows the hyperparameters
are fitted on a subset and alpha solves the subset-of-regressors equations over all rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, solve_triangular

from thrifty.costs.scaling import Scaling
from thrifty.display import DisplayedSettings
from thrifty.errors import CostError
from thrifty.types import Array, freeze

MAX_EXACT_ROWS = 400  # rows up to which every one is a centre: above, the cubic cost of the likelihood is felt
_ROWS_AT_ONCE = 512  # rows per kernel block: 512 x 200 float32 stays in the second-level cache


@dataclass(frozen=True, repr=False)
class GaussianProcess(DisplayedSettings):
    """Log cost as a Gaussian process.

    Args:
        inducing: Rows used for hyperparameters, and kernel centres, when there are more pilots than 400.

    Example:
        >>> theta = np.linspace(0, 3, 40)[:, None]
        >>> cost = th.fit_cost(theta, 1 + theta[:, 0] ** 2, model=th.GaussianProcess())
        >>> bool(abs(cost(np.array([[2.0]]))[0] - 5.0) < 0.2)
        True
    """

    inducing: int = 200

    def __post_init__(self) -> None:
        if not isinstance(self.inducing, int | np.integer) or self.inducing < 10:
            raise CostError(f"inducing must be a whole number >= 10, got {self.inducing!r}", code="bad-setting")

    def fit(
        self, theta: Array, log_cost: Array, groups: npt.NDArray[np.intp], scaling: Scaling | None = None
    ) -> GaussianProcessFit:
        """Maximise the marginal likelihood, then solve for the mean."""
        scaling = Scaling.of(theta) if scaling is None else scaling
        inputs = scaling(theta)
        n = len(inputs)
        some = slice(None)
        if n > MAX_EXACT_ROWS:
            some = np.sort(np.random.default_rng(0).permutation(n)[: self.inducing])
        lengths, variance, noise = _fit_hyperparameters(inputs[some], log_cost[some])
        inputs = inputs / lengths
        centres = inputs if n <= MAX_EXACT_ROWS else inputs[some]
        return _make_solver(scaling, centres, inputs, (lengths, variance, noise))(log_cost)


def _fit_hyperparameters(inputs: Array, log_cost: Array) -> tuple[Array, float, float]:
    """Length scales (p,), variance and noise variance of log cost."""
    spread = float(log_cost.std()) or 1.0
    scaled = (log_cost - log_cost.mean()) / spread
    fitted = fit_process(inputs, scaled, lengths=(0.05, 1e3), noise=(0.05, (1e-6, 10.0))).kernel_
    lengths = np.broadcast_to(np.asarray(fitted.k1.k2.length_scale, dtype=np.float64), (inputs.shape[1],))
    return lengths.copy(), float(fitted.k1.k1.constant_value) * spread**2, float(fitted.k2.noise_level) * spread**2


def fit_process(
    inputs: Array,
    target: Array,
    *,
    lengths: tuple[float, float],
    noise: tuple[float, tuple[float, float]],
    restarts: int = 0,
) -> Any:
    """Fit scikit-learn's process to a target (n,) of unit spread: bounds of the lengths, start and bounds of noise."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    start: Any = np.ones(inputs.shape[1])  # one length per parameter
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(start, lengths) + WhiteKernel(*noise)
    with warnings.catch_warnings():  # a parameter that does not matter sits at its bound: that is the answer
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianProcessRegressor(kernel, random_state=0, n_restarts_optimizer=restarts).fit(inputs, target)


def _kernel(a: Array, b: Array) -> Array:
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1)[None, :] - 2 * a @ b.T
    return np.exp(-0.5 * np.maximum(squares, 0))


def _make_solver(
    scaling: Scaling, centres: Array, inputs: Array, settings: tuple[Array, float, float]
) -> Callable[[Array], GaussianProcessFit]:
    """Alpha as a function of the target: exact with all rows as centres, by subset of regressors otherwise."""
    lengths, variance, noise = settings
    if centres is inputs:
        gram = variance * _kernel(inputs, inputs) + (noise + 1e-10 * variance) * np.eye(len(inputs))
        factor = np.linalg.cholesky(gram)

        def alpha_of(centred: Array) -> Array:
            return variance * cho_solve((factor, True), centred)
    else:
        # whitened by the centres' Cholesky factor, the normal equations are well conditioned
        outer = np.linalg.cholesky(_kernel(centres, centres) + 1e-6 * np.eye(len(centres)))
        white = solve_triangular(outer, _kernel(centres, inputs), lower=True)
        gram = white @ white.T + max(noise / variance, 1e-6) * np.eye(len(centres))
        factor = np.linalg.cholesky(gram)

        def alpha_of(centred: Array) -> Array:
            return solve_triangular(outer.T, cho_solve((factor, True), white @ centred), lower=False)

    def solve(target: Array) -> GaussianProcessFit:
        level = float(target.mean())
        alpha = freeze(alpha_of(target - level))
        return GaussianProcessFit(scaling, freeze(lengths), freeze(centres), alpha, level, variance, noise)

    return solve


@dataclass(frozen=True, repr=False)
class GaussianProcessFit:
    """Mean of a fitted process: level + k(x, centres) @ alpha, with inputs divided by length scales."""

    scaling: Scaling
    lengths: Array
    centres: Array
    alpha: Array
    level: float
    variance: float
    noise: float
    kind: str = field(default="gaussian_process", init=False, repr=False)

    def __call__(self, theta: Array) -> Array:
        """Predicted log cost (n,), in float32 chunks where that is good to 1e-3, in float64 where it is not."""
        # one product gives -|x - z|^2/2: inputs carry (x, -|x|^2/2, 1), centres (z, 1, -|z|^2/2)
        z = self.centres
        centres = np.concatenate([z, np.ones((len(z), 1)), -0.5 * (z**2).sum(1, keepdims=True)], axis=1)
        # a noise-free fit has huge coefficients that cancel: single precision would lose the digits
        precision = np.float32 if np.linalg.norm(self.alpha) < 1e4 else np.float64
        right = np.ascontiguousarray(centres.T, dtype=precision)
        alpha = self.alpha.astype(precision)
        out = np.empty(len(theta))
        rows_at_once = min(_ROWS_AT_ONCE, len(theta))
        left = np.ones((rows_at_once, right.shape[0]), dtype=precision)
        buffer = np.empty((rows_at_once, len(z)), dtype=precision)  # a fresh block per chunk would fault its pages
        for start in range(0, len(theta), _ROWS_AT_ONCE):
            inputs = self.scaling(theta[start : start + _ROWS_AT_ONCE]) / self.lengths
            part = left[: len(inputs)]
            part[:, :-2] = inputs
            part[:, -2] = -0.5 * (inputs**2).sum(1)
            block = np.matmul(part, right, out=buffer[: len(inputs)])
            np.exp(block, out=block)
            out[start : start + _ROWS_AT_ONCE] = block @ alpha
        return out + self.level

    def refitter(self, theta: Array, noise: float = 0.0) -> Callable[[Array], GaussianProcessFit]:
        """Fix hyperparameters and other rows, with at least this noise; return the fit as a function of the target."""
        inputs = self.scaling(theta) / self.lengths
        centres = inputs if len(inputs) <= MAX_EXACT_ROWS else self.centres
        return _make_solver(self.scaling, centres, inputs, (self.lengths, self.variance, max(self.noise, noise)))

    def __str__(self) -> str:
        return f"Gaussian process on {len(self.centres)} points"

    __repr__ = __str__
