"""Problems with known posteriors, to compare estimators on: 1 to 10 parameters, peaks, counts, useless outputs.

Each has a prior, a vectorised simulator, and the exact log posterior density of parameters that made an output. The
last three are `FRESH`: no setting of an estimator was chosen on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import logsumexp

import thrifty as th

Array = np.ndarray


@dataclass(frozen=True)
class Problem:
    """A prior, a simulator (n, p) -> (n, d), and the exact log posterior (n,) of pairs (theta, x), where known."""

    name: str
    prior: Any
    simulate: Callable[[Array, np.random.Generator], Array]
    exact: Callable[[Array, Array], Array] | None

    def runs(self, n: int, rng: np.random.Generator) -> th.Simulations:
        """Make runs from the prior."""
        theta = self.prior.sample(n, rng)
        return th.Simulations.from_arrays(theta=theta, x=self.simulate(theta, rng))


def linear_gaussian(name: str, design: Array, sd: Array) -> Problem:
    """Theta ~ N(0, I), x = design theta + sd noise: the posterior is normal."""
    d, p = design.shape
    precision = np.eye(p) + (design.T / sd**2) @ design
    covariance = np.linalg.inv(precision)

    def simulate(theta: Array, rng: np.random.Generator) -> Array:
        return theta @ design.T + sd * rng.standard_normal((len(theta), d))

    def exact(theta: Array, x: Array) -> Array:
        mean = (x / sd**2) @ design @ covariance
        return stats.multivariate_normal(np.zeros(p), covariance).logpdf(theta - mean).reshape(-1)

    return Problem(name, th.Normal(np.zeros(p), np.ones(p)), simulate, exact)


def gaussian_1() -> Problem:
    """One parameter, seen twice with different noise."""
    return linear_gaussian("gaussian, 1", np.ones((2, 1)), np.array([0.3, 0.6]))


def gaussian_10() -> Problem:
    """Ten parameters, mixed by a fixed matrix; the posterior is a third as wide as the prior."""
    design = np.eye(10) + 0.3 * np.random.default_rng(10).standard_normal((10, 10))
    return linear_gaussian("gaussian, 10", design, np.full(10, 0.3))


def useless() -> Problem:
    """Two parameters, four outputs that know them and twenty that do not."""
    design = np.zeros((24, 2))
    design[:4] = [[1.0, 0.5], [0.5, 1.0], [1.0, -1.0], [0.3, 0.3]]
    return linear_gaussian("useless outputs, 2", design, np.concatenate([np.full(4, 0.4), np.ones(20)]))


def two_moons() -> Problem:
    """Two parameters, two crescents (Greenberg et al. 2019)."""

    def simulate(theta: Array, rng: np.random.Generator) -> Array:
        a, r = rng.uniform(-np.pi / 2, np.pi / 2, len(theta)), rng.normal(0.1, 0.01, len(theta))
        moon = np.column_stack([r * np.cos(a) + 0.25, r * np.sin(a)])
        return moon + _moon_shift(theta)

    def log_likelihood(theta: Array, x: Array) -> Array:
        moon = x - _moon_shift(theta) - np.array([0.25, 0.0])
        r = np.hypot(moon[:, 0], moon[:, 1])
        with np.errstate(divide="ignore"):
            inside = np.where(moon[:, 0] > 0, 0.0, -np.inf)
            return inside + stats.norm.logpdf(r, 0.1, 0.01) - np.log(np.pi * r)

    def exact(theta: Array, x: Array) -> Array:
        return np.array([_on_grid(log_likelihood, t, one) for t, one in zip(theta, x, strict=True)])

    return Problem("two moons, 2", th.Uniform([-1.0, -1.0], [1.0, 1.0]), simulate, exact)


def _moon_shift(theta: Array) -> Array:
    total, gap = theta.sum(1), theta[:, 1] - theta[:, 0]
    return np.column_stack([-np.abs(total), gap]) / np.sqrt(2)


def _on_grid(log_likelihood: Callable[[Array, Array], Array], theta: Array, x: Array, k: int = 600) -> float:
    axis = np.linspace(-1, 1, 2 * k + 1)[1::2]
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    value = log_likelihood(grid, np.broadcast_to(x, grid.shape))
    level = logsumexp(value) + 2 * np.log(2 / k)
    return float(log_likelihood(theta[None], x[None])[0] - level)


def slcp() -> Problem:
    """Five parameters, four points of a normal: simple likelihood, posterior with four peaks (Papamakarios 2019)."""

    def simulate(theta: Array, rng: np.random.Generator) -> Array:
        s1, s2, rho = theta[:, 2] ** 2, theta[:, 3] ** 2, np.tanh(theta[:, 4])
        a, b = rng.standard_normal((2, len(theta), 4))
        first = theta[:, :1] + s1[:, None] * a
        second = theta[:, 1:2] + s2[:, None] * (rho[:, None] * a + np.sqrt(1 - rho**2)[:, None] * b)
        return np.stack([first, second], -1).reshape(len(theta), 8)

    return Problem("SLCP, 5", th.Uniform(np.full(5, -3.0), np.full(5, 3.0)), simulate, None)


def counts() -> Problem:
    """Three parameters and six counts: two rates (Poisson, mostly zeros for one of them) and a share (binomial)."""
    prior = th.Independent(
        {"low": stats.gamma(1.5, scale=0.4), "high": stats.gamma(3.0, scale=4.0), "share": stats.beta(2, 2)}
    )

    def simulate(theta: Array, rng: np.random.Generator) -> Array:
        low, high = rng.poisson(theta[:, :1], (len(theta), 3)), rng.poisson(theta[:, 1:2], (len(theta), 2))
        return np.hstack([low, high, rng.binomial(20, theta[:, 2:])]).astype(float)

    def exact(theta: Array, x: Array) -> Array:
        low = stats.gamma.logpdf(theta[:, 0], 1.5 + x[:, :3].sum(1), scale=1 / (1 / 0.4 + 3))
        high = stats.gamma.logpdf(theta[:, 1], 3.0 + x[:, 3:5].sum(1), scale=1 / (1 / 4.0 + 2))
        return low + high + stats.beta.logpdf(theta[:, 2], 2 + x[:, 5], 2 + 20 - x[:, 5])

    return Problem("counts, 3", prior, simulate, exact)


def mixture() -> Problem:
    """Two parameters seen through a narrow or a wide normal, half and half."""

    def simulate(theta: Array, rng: np.random.Generator) -> Array:
        sd = np.where(rng.random(len(theta)) < 0.5, 1.0, 0.1)
        return theta + sd[:, None] * rng.standard_normal(theta.shape)

    def exact(theta: Array, x: Array) -> Array:
        low, high = -10.0, 10.0
        parts, mass = [], []
        for sd in (1.0, 0.1):
            parts.append(stats.norm.logpdf(x, theta, sd).sum(1))
            mass.append(np.log(stats.norm.cdf(high, x, sd) - stats.norm.cdf(low, x, sd)).sum(1))
        return logsumexp(parts, 0) - logsumexp(mass, 0)

    return Problem("gaussian mixture, 2", th.Uniform([-10.0, -10.0], [10.0, 10.0]), simulate, exact)


def temporal_sir() -> Problem:
    """Two parameters, twelve outputs, eleven of them counts."""
    model = th.models.TemporalSIR()

    def simulate(theta: Array, rng: np.random.Generator) -> Array:
        return model.simulate_many(theta, int(rng.integers(2**31))).x

    return Problem("temporal SIR, 2", model.prior, simulate, None)


def squares() -> Problem:
    """Four parameters, of each the square with noise: a posterior with sixteen peaks."""

    def simulate(theta: Array, rng: np.random.Generator) -> Array:
        return theta**2 + 0.2 * rng.standard_normal(theta.shape)

    prior = th.Uniform(np.full(4, -2.0), np.full(4, 2.0))
    return Problem("squares, 4", prior, simulate, _by_columns(lambda t, x: stats.norm.logpdf(x, t**2, 0.2), -2.0, 2.0))


def heavy_tails() -> Problem:
    """Six parameters, each measured once with noise of Student's t (2 degrees of freedom)."""

    def simulate(theta: Array, rng: np.random.Generator) -> Array:
        return theta + 0.5 * rng.standard_t(2, theta.shape)

    prior = th.Uniform(np.full(6, -3.0), np.full(6, 3.0))
    exact = _by_columns(lambda t, x: stats.t.logpdf((x - t) / 0.5, 2), -3.0, 3.0)
    return Problem("heavy tails, 6", prior, simulate, exact)


def _by_columns(log_likelihood: Callable[[Array, Array], Array], low: float, high: float) -> Any:
    """Return the exact log posterior where column j of x depends on parameter j alone, uniform on [low, high]."""
    k = 4_000
    grid = np.linspace(low, high, 2 * k + 1)[1::2]

    def exact(theta: Array, x: Array) -> Array:
        level = logsumexp(log_likelihood(grid[:, None, None], x), axis=0) + np.log((high - low) / k)
        return (log_likelihood(theta, x) - level).sum(1)

    return exact


def zero_inflated() -> Problem:
    """Two parameters and six counts that are zero with probability 1 - share, else Poisson."""
    prior = th.Uniform([0.5, 0.1], [8.0, 0.9], names=["rate", "share"])

    def simulate(theta: Array, rng: np.random.Generator) -> Array:
        shape = (len(theta), 6)
        return np.where(rng.random(shape) < theta[:, 1:], rng.poisson(theta[:, :1], shape), 0).astype(float)

    def log_likelihood(theta: Array, x: Array) -> Array:
        rate, share = theta[..., :1], theta[..., 1:]
        return np.log(share * stats.poisson.pmf(x, rate) + (1 - share) * (x == 0)).sum(-1)

    def exact(theta: Array, x: Array) -> Array:
        axes = [np.linspace(a, b, 301)[1::2] for a, b in zip(*prior.bounds, strict=True)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
        cell = np.log(np.prod([axis[1] - axis[0] for axis in axes]))
        level = np.array([logsumexp(log_likelihood(grid, one)) for one in x]) + cell
        return log_likelihood(theta, x) - level

    return Problem("zero-inflated counts, 2", prior, simulate, exact)


FRESH = {f.__name__: f for f in (squares, heavy_tails, zero_inflated)}
DEVELOPED = (gaussian_1, two_moons, mixture, useless, counts, slcp, gaussian_10, temporal_sir)
PROBLEMS = {f.__name__: f for f in DEVELOPED} | FRESH
