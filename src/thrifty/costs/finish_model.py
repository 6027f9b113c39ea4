"""P(finish | theta): the probability that a run gives numbers; and the cost of a run that does.

Logistic regression on a quadratic in standardised parameters,
    P(finish | theta) = 1 / (1 + exp(-b . phi(theta))),   phi = (1, t_j, t_j t_k),
with a ridge of one pseudo-observation per coefficient, fitted by Newton steps. Categories enter as zeros and ones.

A run at theta costs c(theta), a *valid* run c(theta)/P(finish | theta): as many runs as it takes until one finishes.
A proposal that divides by g(c/P) instead of g(c) draws less where runs fail. Its weights are g(c/P) for all draws,
failed ones included: exact, whatever P is, as long as the same frozen P draws and weighs. P is floored, so that
weights are bounded, and that what is believed to fail is still tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.costs.scaling import split_categories
from thrifty.errors import CostError
from thrifty.types import Array, Cost, as_rows, levels_of

FLOOR = 0.05  # a run may stand for at most twenty: beyond that one lucky run decides
RIDGE = 1.0


@dataclass(frozen=True)
class FinishModel:
    """P(finish | theta), frozen.

    Attributes:
        centre, scale, coefficients: Of the standardised parameters and of the quadratic.
        categories: Number of categories of each parameter (p,), 0 for numbers; None where all are numbers.

    Example:
        >>> theta = np.linspace(0, 1, 400)[:, None]
        >>> model = FinishModel.fit(theta, finished=theta[:, 0] < 0.7)
        >>> bool(model([[0.1]])[0] > 0.95), bool(model([[0.95]])[0] < 0.1)
        (True, True)
    """

    centre: Array
    scale: Array
    coefficients: Array
    categories: Array | None = None

    @classmethod
    def fit(cls, theta: npt.ArrayLike, finished: npt.ArrayLike, prior: Any = None) -> FinishModel:
        """Fit to parameters (n, p) and whether each run finished (n,); the prior says which are categories."""
        theta, finished = as_rows(theta), np.asarray(finished, dtype=bool)
        counts = np.zeros(0) if prior is None else np.array([len(level or ()) for level in levels_of(prior)])
        categories = counts.astype(np.float64) if counts.any() else None
        theta = split_categories(theta, categories)
        centre, scale = theta.mean(0), np.maximum(theta.std(0), 1e-300)
        features = _features((theta - centre) / scale)
        coefficients = np.zeros(features.shape[1])
        ridge = RIDGE * np.eye(len(coefficients))
        ridge[0, 0] = 1e-3  # the overall rate is not drawn to one half
        for _ in range(50):
            p = _sigmoid(features @ coefficients)
            gradient = features.T @ (finished - p) - ridge @ coefficients
            step = np.linalg.solve((features.T * (p * (1 - p))) @ features + ridge, gradient)
            coefficients += np.clip(step, -2, 2)  # far steps diverge when the classes separate
            if np.abs(step).max() < 1e-8:
                break
        return cls(centre, scale, coefficients, categories)

    @property
    def dim(self) -> int:
        """Number of parameters, p."""
        return len(self.centre if self.categories is None else self.categories)

    def __call__(self, theta: npt.ArrayLike) -> Array:
        """P(finish | theta), (n,)."""
        inputs = split_categories(as_rows(theta, dim=self.dim), self.categories)
        return _sigmoid(_features((inputs - self.centre) / self.scale) @ self.coefficients)

    def floored(self, theta: npt.ArrayLike) -> Array:
        """P(finish | theta), (n,), but at least `FLOOR`."""
        return np.maximum(self(theta), FLOOR)

    def to_dict(self) -> dict[str, Any]:
        """Write plain numbers."""
        categories = {} if self.categories is None else {"categories": self.categories.tolist()}
        arrays = {label: getattr(self, label).tolist() for label in ("centre", "scale", "coefficients")}
        return {"kind": "finish", **arrays, **categories}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FinishModel:
        """Rebuild what `to_dict` wrote.

        Raises:
            CostError: bad-file, damaged numbers.
        """
        try:
            labels = ("centre", "scale", "coefficients", *(["categories"] if "categories" in data else []))
            model = cls(**{label: np.asarray(data[label], dtype=np.float64) for label in labels})
            if not np.isfinite(model(np.zeros((1, model.dim)))).all():
                raise ValueError("a number is not finite")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CostError(f"not a saved model of P(finish | theta): {error!r:.100}", code="bad-file") from None
        return model


@dataclass(frozen=True)
class ValidCost:
    """The cost of a valid run, c(theta) / P(finish | theta); call it with theta (n, p).

    Example:
        >>> theta = np.linspace(0, 1, 400)[:, None]
        >>> finish = FinishModel.fit(theta, finished=theta[:, 0] < 0.7)
        >>> cost = ValidCost(lambda t: np.ones(len(t)), finish)
        >>> cost(np.array([[0.1], [0.99]])).round(1).tolist()  # at most 1/FLOOR times the cost of a run
        [1.0, 20.0]
    """

    cost: Cost
    finish: FinishModel

    def __call__(self, theta: npt.ArrayLike) -> Array:
        """Expected cost until a run at each row finishes (n,)."""
        theta = as_rows(theta, dim=self.finish.dim)
        return np.asarray(self.cost(theta), dtype=np.float64) / self.finish.floored(theta)


def _features(t: Array) -> Array:
    pairs = [t[:, i] * t[:, j] for i in range(t.shape[1]) for j in range(i, t.shape[1])]
    return np.column_stack([np.ones(len(t)), t, *pairs])


def _sigmoid(z: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.5 * z))
