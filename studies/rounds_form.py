"""What a problem of the rounds study is: prior, simulator, cost surface, observations and exact posterior draws.

A simulator is a deterministic function of (theta, u) with u uniform numbers of the run. Row i of `simulate_many(thetas,
seed, start)` reads its own words of one counter-based stream (Philox), so that the noise of run i is a function of
(seed, i) alone and a table of 50,000 runs is one vectorised call, without matrix products, whose last digits
depend on the number of rows. Costs have mean 1 under the prior, in closed form: 50,000 prior runs cost about 50,000.

Observations lie in the cheap, middle and expensive part: theta is the prior draw, of 1,001 with a fixed seed, whose
cost is the 10 %, 50 % or 90 % quantile, and x_o one run there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import hyp1f1, ndtri

import thrifty as th
from thrifty.types import Array

PLACES = {"cheap": 100, "middle": 500, "expensive": 900}  # rank of the cost among CANDIDATES prior draws
CANDIDATES = 1_001
TRUTH_SEED, OBSERVED_SEED = 18_001, 18_002  # of theta_true and of x_o; no study seeds its runs with them
REFERENCE_DRAWS = 2_000  # at each observation, equally weighted
WORDS_PER_BLOCK = 4  # 64-bit words that one step of Philox's counter gives


@dataclass(frozen=True)
class Problem:
    """A problem with a known posterior.

    Attributes:
        name: Of its function.
        prior: Where theta comes from.
        words: Uniform numbers that one run takes.
        respond: (theta (n, p), u (n, words)) -> outputs (n, d).
        log_likelihood: (theta (n, p), x (n, d) or (d,)) -> exact log density (n,), without constants in theta.
        cost: theta (n, p) -> cost (n,) of a run; the prior's mean is 1.
        draw_posterior: (x_o, n, rng) -> draws (n, p) of the exact posterior.
        narrow: Whether the posterior's volume is below 1e-3 of the prior's at every place.
        closed_form: Whether `draw_posterior` is exact up to rounding; else it is a sampler of the exact density.
        modes: Separate peaks of the posterior.
    """

    name: str
    prior: Any
    words: int
    respond: Callable[[Array, Array], Array]
    log_likelihood: Callable[[Array, Array], Array]
    cost: Callable[[Array], Array]
    draw_posterior: Callable[[Array, int, np.random.Generator], Array]
    narrow: bool
    closed_form: bool = True
    modes: int = 1
    unit: str = "prior runs"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.prior.names

    def simulate(self, theta: Array, rng: np.random.Generator) -> Array:
        """Run every row of theta (n, p) on fresh noise; outputs (n, d)."""
        return self.respond(theta, np.maximum(rng.random((len(theta), self.words)), 2.0**-54))

    def simulate_many(self, thetas: Any, seed: int, *, start: int = 0, workers: int = 1) -> th.Simulations:
        """Run thetas (n, p) or `th.Draws`; the noise of row i is a function of (seed, start + i)."""
        del workers  # one vectorised call
        drawn = thetas if isinstance(thetas, th.Draws) else None
        theta = np.asarray(thetas, dtype=np.float64) if drawn is None else drawn.theta
        return th.Simulations(
            theta=theta,
            x=self.respond(theta, make_uniforms(seed, start, len(theta), self.words)),
            log_weights=None if drawn is None else drawn.log_weights,  # type: ignore[arg-type]
            cost=self.cost(theta),
            index=start + np.arange(len(theta)),
            names=self.names,
            unit=self.unit,
            proposal=None if drawn is None else drawn.proposal,
        )

    def run(self, theta: Array, rng: np.random.Generator) -> th.Output:
        """Run once at theta (p,): what a campaign takes as a simulator."""
        row = np.asarray(theta, dtype=np.float64)[None]
        return th.Output(self.simulate(row, rng)[0], cost=float(self.cost(row)[0]))

    @cached_property
    def observations(self) -> dict[str, tuple[Array, Array]]:
        """(theta_true (p,), x_o (d,)) by place: cheap, middle, expensive."""
        candidates = self.prior.sample(CANDIDATES, np.random.default_rng(TRUTH_SEED))
        order = np.argsort(self.cost(candidates))
        truths = candidates[[order[rank] for rank in PLACES.values()]]
        x = self.simulate(truths, np.random.default_rng(OBSERVED_SEED))
        return {place: (truths[i], x[i]) for i, place in enumerate(PLACES)}

    def x_o(self, place: str) -> Array:
        """The observation (d,) at a place."""
        return self.observations[place][1]


def make_uniforms(seed: int, start: int, n: int, words: int) -> Array:
    """Make uniform numbers (n, words) in (0, 1); row i is a function of (seed, start + i).

    Example:
        >>> bool((make_uniforms(3, 0, 10, 5)[7:] == make_uniforms(3, 7, 3, 5)).all())
        True
    """
    blocks = -(-words // WORDS_PER_BLOCK)
    stream = np.random.Philox(key=np.random.SeedSequence(seed, spawn_key=(2,)).generate_state(2, np.uint64))
    stream.advance(start * blocks)
    return np.maximum(np.random.Generator(stream).random((n, WORDS_PER_BLOCK * blocks))[:, :words], 2.0**-54)


def combine(theta: Array, design: Array) -> Array:
    """Linear combinations (n, d) of theta (n, p), each row on its own."""
    return (theta[:, None, :] * design).sum(-1)


def normals(u: Array) -> Array:
    """Standard normal numbers from uniform ones."""
    return ndtri(u)


@dataclass(frozen=True)
class ExponentialCost:
    """Cost exp(slopes · theta - log_mean)."""

    slopes: Array
    log_mean: float

    @classmethod
    def over(cls, prior: Any, slopes: Any) -> ExponentialCost:
        """Make a cost with mean 1 under a normal, uniform or beta prior; the mean is in closed form."""
        slopes = np.asarray(slopes, dtype=np.float64)
        if isinstance(prior, th.Normal):
            return cls(slopes, float(slopes @ prior.mean + 0.5 * np.square(slopes * prior.sd).sum()))
        if isinstance(prior, th.Uniform):
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
    """Cost (theta_column / scale)^power over its mean under a Gamma(shape, scale) marginal."""

    column: int
    power: float
    mean: float

    @classmethod
    def over_gamma(cls, column: int, power: float, shape: float, scale: float) -> PowerCost:
        """Make a cost with mean 1: E theta^k = scale^k Γ(shape + k) / Γ(shape)."""
        from math import gamma

        return cls(column, power, scale**power * gamma(shape + power) / gamma(shape))

    def __call__(self, theta: Array) -> Array:
        """Cost (n,) of theta (n, p)."""
        return theta[:, self.column] ** self.power / self.mean


def linear_gaussian(name: str, design: Array, sd: Array, slopes: Array, *, narrow: bool) -> Problem:
    """Theta ~ N(0, I), x = design theta + sd noise: the posterior is normal."""
    d, p = design.shape
    prior = th.Normal(np.zeros(p), np.ones(p), names=tuple(f"t{i}" for i in range(1, p + 1)))
    covariance = np.linalg.inv(np.eye(p) + (design.T / sd**2) @ design)

    def respond(theta: Array, u: Array) -> Array:
        return combine(theta, design) + sd * normals(u)

    def log_likelihood(theta: Array, x: Array) -> Array:
        return -0.5 * np.square((x - combine(theta, design)) / sd).sum(1)

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        mean = covariance @ (design.T @ (x_o / sd**2))
        return mean + rng.standard_normal((n, p)) @ np.linalg.cholesky(covariance).T

    cost = ExponentialCost.over(prior, slopes)
    return Problem(name, prior, d, respond, log_likelihood, cost, draw, narrow=narrow)
