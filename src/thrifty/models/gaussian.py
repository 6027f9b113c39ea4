"""A Gaussian model with exponential cost, where every answer is known.

theta ~ N(0, I_p),   x | theta ~ N(theta, s² I_p),   c(theta) = exp(a·theta)

posterior         N( x/(1+s²), s²/(1+s²) I_p )
proposal, g = z^k N( -k a, I_p )                      (prior divided by c^k)
gain              exp(k |a|²),   ESS/n = exp(-k² |a|²)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from thrifty.errors import ConfigError, DataError
from thrifty.models.base import Model
from thrifty.priors import Normal
from thrifty.types import Array, Prior, as_rows, freeze


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class GaussianToy(Model):
    """Normal prior, normal noise, cost exp(a·theta).

    Attributes:
        p: Number of parameters.
        a: Slope of log cost; one number for all parameters, or one each. 1 gives a cost range of about
            50× over the central 95 % of the prior.
        noise_sd: Standard deviation s of x given theta; 1 makes the posterior slope ½.
        cost_noise: Standard deviation of log cost at one theta; the mean cost stays exp(a·theta).
        cost_from_x: Let that scatter be the noise of x (its first entry) instead of noise of its own: run time then
            tells something about x, as in real simulators.
        seconds_per_unit: CPU seconds burnt per unit of cost, for campaigns that measure time; 0 burns none.

    Example:
        >>> model = th.models.GaussianToy(a=2.0)
        >>> model.reference_posterior([2.0]).mean.tolist(), model.reference_proposal(0.5).mean.tolist()
        ([1.0], [-1.0])
    """

    LOW = -np.inf
    prior: Prior = field(init=False, default=None)  # type: ignore[assignment]
    theta_true: Array = None  # type: ignore[assignment]
    p: int = 1
    a: float | Sequence[float] = 1.0
    noise_sd: float = 1.0
    cost_noise: float = 0.0
    cost_from_x: bool = False
    seconds_per_unit: float = 0.0
    slope: Array = field(init=False, repr=False, default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.p < 1:
            raise ConfigError(f"p = {self.p}; at least one parameter is needed", code="bad-setting")
        for label, least in (("noise_sd", "> 0"), ("cost_noise", ">= 0"), ("seconds_per_unit", ">= 0")):
            value = getattr(self, label)
            if not np.isfinite(value) or value < 0 or (value == 0 and least == "> 0"):
                raise ConfigError(f"{label} must be a finite number {least}, got {value}", code="bad-setting")
        slope = np.asarray(self.a)
        if slope.dtype.kind not in "iuf" or slope.shape not in ((), (self.p,)) or not np.isfinite(slope).all():
            raise ConfigError(f"a must be one finite number or {self.p} of them, got {self.a}", code="bad-setting")
        names = ["theta"] if self.p == 1 else [f"theta_{i + 1}" for i in range(self.p)]
        object.__setattr__(self, "slope", freeze(np.broadcast_to(slope.astype(np.float64), (self.p,))))
        object.__setattr__(self, "prior", Normal(np.zeros(self.p), np.ones(self.p), names=tuple(names)))
        if self.theta_true is None:  # one prior sd into the expensive side: an asymmetric test
            object.__setattr__(self, "theta_true", np.ones(self.p))
        super().__post_init__()

    @property
    def summary_names(self) -> tuple[str, ...]:
        """x, or x_1 … x_p."""
        return ("x",) if self.p == 1 else tuple(f"x_{i + 1}" for i in range(self.p))

    def _run(self, theta: Array, rng: np.random.Generator) -> tuple[Array, float]:
        noise = rng.standard_normal(self.p)
        log_cost = self.slope @ theta
        if self.cost_noise:
            scatter = noise[0] if self.cost_from_x else rng.standard_normal()
            log_cost += self.cost_noise * scatter - 0.5 * self.cost_noise**2  # so that E exp(...) is exp(a·theta)
        cost = float(np.exp(log_cost))
        if self.seconds_per_unit:
            _burn(cost * self.seconds_per_unit)
        return theta + self.noise_sd * noise, cost

    def expected_cost(self, theta: npt.ArrayLike) -> Array:
        """exp(a·theta) (n,) plus the overhead, at each row of theta (n, p)."""
        return np.exp(as_rows(theta, dim=self.p) @ self.slope) + self.overhead

    def reference_posterior(self, x_o: npt.ArrayLike) -> Normal:
        """Return the exact posterior at x_o (p,)."""
        x = np.atleast_1d(np.asarray(x_o, dtype=np.float64))
        if x.shape != (self.p,) or not np.isfinite(x).all():
            raise DataError(f"x_o must be {self.p} finite numbers, got {x.tolist()}", code="bad-observation")
        variance = self.noise_sd**2
        return Normal(x / (1 + variance), np.full(self.p, np.sqrt(variance / (1 + variance))), names=self.names)

    def reference_proposal(self, k: float) -> Normal:
        """Return the exact cost-aware proposal under g = z^k, N(-k a, I): prior over c^k, normalised."""
        if self.overhead:
            raise ConfigError(
                f"with overhead {self.overhead:g} the cost is not exp(a·theta)",
                code="bad-setting",
                fix="set overhead to 0",
            )
        return Normal(-k * self.slope, np.ones(self.p), names=self.names)


def _burn(seconds: float) -> None:
    """Keep this thread busy for some CPU seconds."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
