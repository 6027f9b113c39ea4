"""theta ~ N(0, 1), x = theta + noise, cost exp(a theta): proposal N(-a k, 1) under z^k, posterior N(x/2, 1/2)."""

from __future__ import annotations

import numpy as np

import thrifty as th

PRIOR = th.Normal(0.0, 1.0)
POSTERIOR_SD = np.sqrt(0.5)


class Known:
    """The exact weights of draws from N(-a k, 1)."""

    def __init__(self, slope: float) -> None:
        self.slope = slope

    def log_weight(self, theta):
        return self.slope * np.asarray(theta)[:, 0]


def simulations(n: int, rng: np.random.Generator, *, k: float = 1.0, a: float = 1.0, m: int = 1) -> th.Simulations:
    theta = rng.standard_normal((n, 1)) - a * k
    x = theta[:, None] + rng.standard_normal((n, m, 1))
    return th.Simulations.from_arrays(theta=theta, x=x if m > 1 else x[:, 0], proposal=Known(a * k), m=m)
