"""Polynomial ridge regression of log cost: the fallback for few pilots, and a fair baseline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

from thrifty.costs.scaling import Scaling
from thrifty.display import DisplayedSettings
from thrifty.errors import CostError
from thrifty.types import Array, freeze

_RIDGES = np.logspace(-6, 2, 17)  # of standardised features; chosen by leave-one-out error
_MAX_TUNING_ROWS = 1000  # rows used for that choice


def list_monomials(dim: int, degree: int) -> list[tuple[int, ...]]:
    """Columns multiplied in each monomial of degree 0 to `degree`: (), (0,), (1,), (0, 0), ..."""
    return [c for d in range(degree + 1) for c in combinations_with_replacement(range(dim), d)]


def make_design(inputs: Array, degree: int) -> Array:
    """Matrix of monomials (n, terms); the first column is one."""
    terms = list_monomials(inputs.shape[1], degree)
    columns = np.ascontiguousarray(inputs.T)
    out = np.ones((len(terms), len(inputs)))
    place = {term: i for i, term in enumerate(terms)}
    for term in terms[1:]:  # each is one column times a monomial that is there already
        np.multiply(out[place[term[:-1]]], columns[term[-1]], out=out[place[term]])
    return out.T


@dataclass(frozen=True, repr=False)
class Polynomial(DisplayedSettings):
    """Log cost as a polynomial in theta; degree 1 is the paper's linear model, on the log scale.

    Example:
        >>> theta = np.linspace(1, 3, 30)[:, None]
        >>> cost = th.fit_cost(theta, np.exp(theta[:, 0]), model=th.Polynomial(1))
        >>> cost(np.array([[2.0]])).round(2).tolist()
        [7.39]
    """

    degree: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.degree, int | np.integer) or not 0 <= self.degree <= 6:
            raise CostError(f"degree must be a whole number from 0 to 6, got {self.degree!r}", code="bad-setting")
        object.__setattr__(self, "degree", int(self.degree))

    def terms(self, dim: int) -> int:
        """Return number of coefficients for `dim` parameters."""
        return len(list_monomials(dim, self.degree))

    def fit(
        self, theta: Array, log_cost: Array, groups: npt.NDArray[np.intp], scaling: Scaling | None = None
    ) -> PolynomialFit:
        """Ridge regression, its strength chosen by leave-one-group-out error.

        Args:
            theta: Parameters (n, p).
            log_cost: Log of the measured costs (n,).
            groups: Equal numbers mark repeated timings at one theta, left out together (n,).
            scaling: How theta becomes inputs; measured here when left out.
        """
        scaling = Scaling.of(theta) if scaling is None else scaling
        standard, _ = _standardise(make_design(scaling(theta), self.degree))
        centred = log_cost - log_cost.mean()
        if len(centred) > _MAX_TUNING_ROWS:  # the strength of a ridge needs no more rows than that
            some = np.random.default_rng(0).permutation(len(centred))[:_MAX_TUNING_ROWS]
            standard, centred, groups = standard[some], centred[some], groups[some]
        ridge = min(_RIDGES, key=lambda r: _left_out_error(standard, centred, r, groups))
        return _make_solver(scaling, self.degree, float(ridge), theta)(log_cost)


def _standardise(features: Array) -> tuple[Array, tuple[Array, Array]]:
    """Features without the constant, centred and scaled; and how."""
    centre, spread = features[:, 1:].mean(0), features[:, 1:].std(0)
    spread = np.where(spread > 0, spread, 1.0)
    return (features[:, 1:] - centre) / spread, (centre, spread)


def _make_solver(scaling: Scaling, degree: int, ridge: float, theta: Array) -> Callable[[Array], PolynomialFit]:
    """Regression on fixed rows and settings, as a function of the target."""
    standard, (centre, spread) = _standardise(make_design(scaling(theta), degree))

    def solve(target: Array) -> PolynomialFit:
        level = target.mean()
        slopes = _solve_ridge(standard, target - level, ridge) / spread
        return PolynomialFit(scaling, degree, freeze(np.concatenate([[level - centre @ slopes], slopes])), ridge)

    return solve


def _solve_ridge(features: Array, target: Array, ridge: float) -> Array:
    # not scikit-learn's Ridge: its Cholesky solution differs in the last bits, which would change all draws, and its
    # checks take 60 times as long (3.4 ms against 0.05 ms for 60 rows), 40 times in each fit
    gram = features.T @ features + ridge * len(features) * 1e-3 * np.eye(features.shape[1])
    return np.asarray(np.linalg.solve(gram, features.T @ target), dtype=np.float64)


def _left_out_error(features: Array, target: Array, ridge: float, groups: npt.NDArray[np.intp]) -> float:
    """Compute the mean squared left-out residual; all timings of a theta are left out together, by blocks."""
    gram = features.T @ features + ridge * len(features) * 1e-3 * np.eye(features.shape[1])
    hat = features @ np.linalg.solve(gram, features.T) + 1 / len(features)  # the mean is fitted too
    residual = target - hat @ target
    if len(np.unique(groups)) == len(groups):
        return float(np.mean((residual / np.maximum(1 - np.diag(hat), 1e-6)) ** 2))
    out = np.empty_like(residual)
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        block = np.eye(len(members)) - hat[np.ix_(members, members)]
        out[members] = np.linalg.lstsq(block, residual[members], rcond=1e-8)[0]
    return float(np.mean(out**2))


@dataclass(frozen=True, repr=False)
class PolynomialFit:
    """Coefficients of a fitted polynomial of log cost."""

    scaling: Scaling
    degree: int
    coefficients: Array
    ridge: float
    kind: str = field(default="polynomial", init=False, repr=False)

    def __call__(self, theta: Array) -> Array:
        """Predicted log cost (n,)."""
        return make_design(self.scaling(theta), self.degree) @ self.coefficients

    def refitter(self, theta: Array, noise: float = 0.0) -> Callable[[Array], PolynomialFit]:
        """Fix the settings and other rows; return the fit as a function of the target. Noise does not matter to it."""
        return _make_solver(self.scaling, self.degree, self.ridge, theta)

    def __str__(self) -> str:
        return f"polynomial of degree {self.degree}"

    __repr__ = __str__
