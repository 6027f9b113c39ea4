"""Cost surfaces whose mean under the prior is known in closed form, and is 1."""

from __future__ import annotations

from dataclasses import dataclass
from math import gamma
from typing import Any

import numpy as np
from scipy.special import hyp1f1

from thrifty.priors import Normal, Uniform
from thrifty.types import Array


@dataclass(frozen=True)
class ExponentialCost:
    """Cost exp(slopes · theta - log_mean)."""

    slopes: Array
    log_mean: float

    @classmethod
    def over(cls, prior: Any, slopes: Any) -> ExponentialCost:
        """Make a cost with mean 1 under a normal, uniform or beta prior; the mean is in closed form.

        Example:
            >>> cost = ExponentialCost.over(th.Uniform([0.0], [2.0]), [1.0])
            >>> grid = np.linspace(0, 2, 2001)[:, None]
            >>> round(float(np.trapezoid(cost(grid), grid[:, 0]) / 2), 5)
            1.0
        """
        slopes = np.asarray(slopes, dtype=np.float64)
        if isinstance(prior, Normal):
            return cls(slopes, float(slopes @ prior.mean + 0.5 * np.square(slopes * prior.sd).sum()))
        if isinstance(prior, Uniform):
            half = np.where(slopes == 0, 1e-9, slopes) * (prior.high - prior.low) / 2
            centre = slopes @ (prior.high + prior.low) / 2
            return cls(slopes, float(centre + np.log(np.sinh(half) / half).sum()))
        shapes = [prior.marginals[name].args for name in prior.names]
        return cls(slopes, float(sum(np.log(hyp1f1(a, a + b, s)) for (a, b), s in zip(shapes, slopes, strict=True))))

    def __call__(self, theta: Array) -> Array:
        """Cost (n,) of theta (n, p)."""
        return np.exp((theta * self.slopes).sum(1) - self.log_mean)


@dataclass(frozen=True)
class PowerCost:
    """Cost theta_column^power over its mean under a Gamma(shape, scale) marginal."""

    column: int
    power: float
    mean: float

    @classmethod
    def over_gamma(cls, column: int, power: float, shape: float, scale: float) -> PowerCost:
        """Make a cost with mean 1: E theta^k = scale^k Γ(shape + k) / Γ(shape)."""
        return cls(column, power, scale**power * gamma(shape + power) / gamma(shape))

    def __call__(self, theta: Array) -> Array:
        """Cost (n,) of theta (n, p)."""
        return theta[:, self.column] ** self.power / self.mean
