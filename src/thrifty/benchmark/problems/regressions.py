"""Regressions with counts as outputs: log rates or log odds are linear in the parameters."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import expit

from thrifty.benchmark.exact_draws import draw_tempered
from thrifty.benchmark.known_costs import ExponentialCost
from thrifty.benchmark.problem import Problem, combine
from thrifty.priors import Normal
from thrifty.types import Array


def poisson_regression() -> Problem:
    """Twelve Poisson counts whose log rates are linear in six parameters."""
    names = ("level", *(f"b{i}" for i in range(1, 6)))
    prior = Normal([3.0, 0, 0, 0, 0, 0], [0.5] * 6, names=names)  # type: ignore[arg-type]
    design = np.hstack([np.ones((12, 1)), np.random.default_rng(6).choice([-1.0, -0.5, 0.5, 1.0], (12, 5))])

    def respond(theta: Array, u: Array) -> Array:
        return stats.poisson.ppf(u, np.exp(combine(theta, design)))

    def log_likelihood(theta: Array, x: Array) -> Array:
        log_rate = combine(theta, design)
        return (x * log_rate - np.exp(log_rate)).sum(1)

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        return draw_tempered(lambda t: log_likelihood(t, x_o), prior.log_prob, prior.sample(n, rng), rng)

    cost = ExponentialCost.over(prior, [1.5, 1.0, 1.0, 0.0, 0.0, 0.0])
    return Problem("poisson_regression", prior, 12, respond, log_likelihood, cost, draw, narrow=True, closed_form=False)


def bernoulli_glm() -> Problem:
    """A neuron's 100 answers, spike or none, to a fixed noise stimulus, through ten weights; seen are its sums.

    Outputs are the sufficient statistics, the sum of the design's rows at spikes. The cost hardly varies (a factor 3),
    and along one weight only.
    """
    names = ("level", *(f"w{i}" for i in range(1, 10)))
    prior = Normal([0.0] * 10, [1.0] + [0.7] * 9, names=names)  # type: ignore[arg-type]
    noise = np.random.default_rng(100).standard_normal(108)
    design = np.column_stack([np.ones(100), *(noise[lag : lag + 100] for lag in range(9))])

    def respond(theta: Array, u: Array) -> Array:
        spikes = u < expit(combine(theta, design))
        return np.column_stack([(spikes * column).sum(1) for column in design.T])

    def log_likelihood(theta: Array, x: Array) -> Array:
        return (x * theta).sum(1) - np.logaddexp(0.0, combine(theta, design)).sum(1)

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        return draw_tempered(lambda t: log_likelihood(t, x_o), prior.log_prob, prior.sample(n, rng), rng)

    cost = ExponentialCost.over(prior, [0.24, *np.zeros(9)])
    return Problem("bernoulli_glm", prior, 100, respond, log_likelihood, cost, draw, narrow=True, closed_form=False)
