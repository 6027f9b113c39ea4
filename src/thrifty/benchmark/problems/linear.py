"""Linear models with normal noise: the posterior is normal."""

from __future__ import annotations

import numpy as np

from thrifty.benchmark.known_costs import ExponentialCost
from thrifty.benchmark.problem import Problem, combine, normals
from thrifty.priors import Normal
from thrifty.types import Array


def linear_gaussian(name: str, design: Array, sd: Array, slopes: Array, *, narrow: bool) -> Problem:
    """Theta ~ N(0, I), x = design theta + sd noise: the posterior is normal."""
    d, p = design.shape
    prior = Normal(np.zeros(p), np.ones(p), names=tuple(f"t{i}" for i in range(1, p + 1)))
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


def gaussian_2() -> Problem:
    """Two parameters, mixed; the posterior is about 0.4 of the prior in each."""
    design = np.array([[1.0, 0.4], [-0.3, 1.0]])
    return linear_gaussian("gaussian_2", design, np.array([0.5, 0.4]), np.array([1.0, 0.5]), narrow=False)


def gaussian_8() -> Problem:
    """Eight parameters, each seen with a part of the next; the posterior is 0.2 to 0.4 of the prior in each."""
    design = np.eye(8) + 0.5 * np.eye(8, k=1)
    return linear_gaussian("gaussian_8", design, np.linspace(0.2, 0.4, 8), np.linspace(0.6, 0.0, 8), narrow=True)


def gaussian_10() -> Problem:
    """Ten parameters, twelve outputs of fixed mixed directions; the posterior is about 0.2 of the prior in each."""
    rng = np.random.default_rng(10)
    design = np.vstack([np.eye(10), np.zeros((2, 10))]) + 0.25 * rng.standard_normal((12, 10))
    return linear_gaussian("gaussian_10", design, np.full(12, 0.2), np.full(10, 0.35), narrow=True)


def useless() -> Problem:
    """Two parameters, four outputs that know them and twenty that do not."""
    design = np.zeros((24, 2))
    design[:4] = [[1.0, 0.5], [0.5, 1.0], [1.0, -1.0], [0.3, 0.3]]
    sd = np.concatenate([np.full(4, 0.4), np.ones(20)])
    return linear_gaussian("useless", design, sd, np.array([0.3, 1.0]), narrow=False)


def gaussian_corner() -> Problem:
    """Four parameters whose cost spans a factor 1,000: at the expensive place fifty times that of the cheap one."""
    design = np.array([[1.0, 0.2, 0.0, 0.0], [0.0, 1.0, 0.2, 0.0], [0.0, 0.0, 1.0, 0.2], [0.2, 0.0, 0.0, 1.0]])
    return linear_gaussian("gaussian_corner", design, np.full(4, 0.3), np.full(4, 0.74), narrow=False)
