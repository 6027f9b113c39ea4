"""Small posteriors in closed form: rates, shares and waiting times with conjugate priors."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import gammaincinv

from thrifty.benchmark.known_costs import ExponentialCost, PowerCost
from thrifty.benchmark.problem import Problem
from thrifty.priors import Independent
from thrifty.types import Array


def counts() -> Problem:
    """Two rates, seen as three and two Poisson counts, and a share, seen as one binomial count."""
    prior = Independent(
        {"low": stats.gamma(1.5, scale=0.4), "high": stats.gamma(3.0, scale=4.0), "share": stats.beta(2, 2)}
    )

    def respond(theta: Array, u: Array) -> Array:
        low, high = stats.poisson.ppf(u[:, :3], theta[:, :1]), stats.poisson.ppf(u[:, 3:5], theta[:, 1:2])
        return np.hstack([low, high, stats.binom.ppf(u[:, 5:], 20, theta[:, 2:])])

    def log_likelihood(theta: Array, x: Array) -> Array:
        x = np.broadcast_to(x, (len(theta), 6))
        low = x[:, :3].sum(1) * np.log(theta[:, 0]) - 3 * theta[:, 0]
        high = x[:, 3:5].sum(1) * np.log(theta[:, 1]) - 2 * theta[:, 1]
        return low + high + x[:, 5] * np.log(theta[:, 2]) + (20 - x[:, 5]) * np.log1p(-theta[:, 2])

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        low = rng.gamma(1.5 + x_o[:3].sum(), 1 / (1 / 0.4 + 3), n)
        high = rng.gamma(3.0 + x_o[3:5].sum(), 1 / (1 / 4.0 + 2), n)
        return np.column_stack([low, high, rng.beta(2 + x_o[5], 22 - x_o[5], n)])

    cost = PowerCost.over_gamma(1, 1.5, 3.0, 4.0)
    return Problem("counts", prior, 6, respond, log_likelihood, cost, draw, narrow=False)


def waiting() -> Problem:
    """The rate behind three waiting times, each of two exponential steps; outputs are their logarithms."""
    prior = Independent({"rate": stats.gamma(2.0, scale=1.0)})

    def respond(theta: Array, u: Array) -> Array:
        return np.log(gammaincinv(2.0, u) / theta)

    def log_likelihood(theta: Array, x: Array) -> Array:
        x = np.broadcast_to(x, (len(theta), 3))
        return 6 * np.log(theta[:, 0]) - theta[:, 0] * np.exp(x).sum(1)

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        return rng.gamma(8.0, 1 / (1 + np.exp(x_o).sum()), (n, 1))

    cost = PowerCost.over_gamma(0, 1.2, 2.0, 1.0)
    return Problem("waiting", prior, 3, respond, log_likelihood, cost, draw, narrow=False)


def shares() -> Problem:
    """Two shares, seen in 8 and twice 15 trials."""
    prior = Independent({"a": stats.beta(2, 2), "b": stats.beta(2, 3)})
    trials, which = np.array([8, 15, 15]), np.array([0, 1, 1])

    def respond(theta: Array, u: Array) -> Array:
        return stats.binom.ppf(u, trials, theta[:, which])

    def log_likelihood(theta: Array, x: Array) -> Array:
        share = theta[:, which]
        return (x * np.log(share) + (trials - x) * np.log1p(-share)).sum(1)

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        second = x_o[1:].sum()
        return np.column_stack([rng.beta(2 + x_o[0], 10 - x_o[0], n), rng.beta(2 + second, 33 - second, n)])

    cost = ExponentialCost.over(prior, [5.0, 0.0])
    return Problem("shares", prior, 3, respond, log_likelihood, cost, draw, narrow=False)
