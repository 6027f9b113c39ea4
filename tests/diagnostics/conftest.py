"""An exact Gaussian world: right, shifted, over-confident and unweighted posteriors, and weighted pools."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import thrifty as th

A, K, NOISE = 2.0, 0.5, 1.5  # cost exp(2 theta_1), penalty sqrt, sd of x given theta: ESS/n = exp(-1)


@dataclass(frozen=True)
class Exact:
    """Posterior of theta ~ N(0, I), x ~ N(theta, NOISE^2 I), with one fault or none."""

    shift: float = 0.0  # in posterior sd, on all parameters
    width: float = 1.0
    prior_mean: float = 0.0  # of theta_1: -A K is what forgetting the weights gives
    dim: int = 2
    seen: int = 2  # how many of the statistics it looks at; 0 is the prior itself

    def moments(self, x):
        prior = np.zeros(self.dim)
        prior[0] = self.prior_mean
        sd = NOISE / np.sqrt(1 + NOISE**2)
        mean = (np.asarray(x, dtype=float).ravel() + NOISE**2 * prior) / (1 + NOISE**2)
        blind = np.arange(self.dim) >= self.seen
        mean, sd = np.where(blind, prior, mean), np.where(blind, 1.0, sd)
        return mean + self.shift * sd, self.width * sd

    def sample(self, n, x_o, *, seed):
        mean, sd = self.moments(x_o)
        return mean + sd * np.random.default_rng(seed).normal(size=(n, self.dim))

    def log_prob(self, theta, x_o):
        mean, sd = self.moments(x_o)
        return -0.5 * (((np.asarray(theta) - mean) / sd) ** 2).sum(1) - np.log(sd).sum()

    @property
    def prior(self):
        return th.Normal(np.zeros(self.dim), np.ones(self.dim))


def pool(n, rng, *, k=K, dim=2):
    """Runs of a campaign under g = c^k: theta_1 ~ N(-A k, 1), log weights A k theta_1."""
    theta = rng.normal(size=(n, dim))
    theta[:, 0] -= A * k
    cost = np.exp(A * theta[:, 0]) * rng.lognormal(-0.02, 0.2, n)
    return th.Simulations.from_arrays(
        theta=theta, x=theta + NOISE * rng.normal(size=(n, dim)), log_weights=A * k * theta[:, 0], cost=cost
    )


def observation(rng, dim=2):
    return rng.normal(size=dim) + NOISE * rng.normal(size=dim)


FAULTS = {
    "right": Exact(),
    "shifted": Exact(shift=0.7),
    "over-confident": Exact(width=0.6),
    "unweighted": Exact(prior_mean=-A * K),
    "the prior": Exact(seen=0),
    "half blind": Exact(seen=1),
}


@pytest.fixture
def world():
    return SimpleNamespace(Exact=Exact, pool=pool, observation=observation, faults=FAULTS, A=A, K=K, NOISE=NOISE)
