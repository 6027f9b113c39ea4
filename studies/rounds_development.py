"""Development problems of the rounds study: settings may be chosen on these eight, and on nothing else.

Narrow means that the posterior's volume is below 1e-3 of the prior's at all three places.

    lotka_volterra   4 log-rates, 20 outputs: narrow
    slcp             5 parameters, 8 outputs, four modes: 6e-4 to 1e-2 of the prior, so narrow at one place only
    gaussian_8       8 parameters, 8 outputs: narrow, and linear, so that runs far from x_o teach as much as near ones
    exchange         2 parameters, 2 outputs, two thin parabolas: 7e-4 to 2e-3 of the prior, so narrow at one place only
    hooks            2 parameters, 2 outputs, two thin hooks: narrow at one place only
    arc              2 parameters, 2 outputs, a thin part of a ring: narrow
    gaussian_2       2 parameters, 2 outputs: wide
    counts           3 parameters, 6 counts: wide
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from rounds_form import ExponentialCost, PowerCost, Problem, linear_gaussian, normals
from rounds_truth import draw_tempered
from scipy import stats

import thrifty as th
from thrifty.types import Array

STEPS, HORIZON, RECORDS = 400, 20.0, 10  # of the predator-prey equations: steps, time, times that are seen
START = (np.log(30.0), 0.0)  # log populations at time 0
NOISE = 0.3  # of a log population: the posterior is some 1e-5 of the prior
BEND_REACH, BEND, BEND_WIDTH = 0.08, 5.0, 0.008  # of the parabolas: sd along, curvature, sd across
ARC_WIDTH, ARC_ANGLE = 0.006, 0.1  # of the arc: sd of the radius, sd of the angle in radians
HOOK_AXES, HOOK_WIDTH = np.array([0.08, 0.2]), 0.06  # of the hooks: of the ellipse, and sd across it, relative
CANDIDATES = 40  # per posterior draw, of which one is resampled


def lotka_volterra() -> Problem:
    """Predators and prey with log-normal noise: alpha, beta, gamma, delta as logarithms, 20 log populations."""
    prior = th.Normal([-0.125, -3.0, -0.125, -3.0], [0.5] * 4, names=("alpha", "beta", "gamma", "delta"))  # type: ignore[arg-type]

    def respond(theta: Array, u: Array) -> Array:
        return _populations(theta) + NOISE * normals(u)

    def log_likelihood(theta: Array, x: Array) -> Array:
        return -0.5 * np.square((x - _populations(theta)) / NOISE).sum(1)

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        return draw_tempered(lambda t: log_likelihood(t, x_o), prior.log_prob, prior.sample(n, rng), rng)

    cost = ExponentialCost.over(prior, [1.5, 0.0, 1.5, 0.0])
    return Problem("lotka_volterra", prior, 20, respond, log_likelihood, cost, draw, narrow=True, closed_form=False)


def _populations(theta: Array) -> Array:
    """Log populations (n, 20) at ten times, by Runge-Kutta steps of the logarithms."""
    alpha, beta, gamma, delta = np.exp(theta.T)
    u, v = np.full(len(theta), START[0]), np.full(len(theta), START[1])
    h, seen = HORIZON / STEPS, []

    def slope(u: Array, v: Array) -> tuple[Array, Array]:  # capped where a wild draw's step overshoots
        return alpha - beta * np.exp(np.minimum(v, 12.0)), delta * np.exp(np.minimum(u, 12.0)) - gamma

    for step in range(1, STEPS + 1):
        a1, b1 = slope(u, v)
        a2, b2 = slope(u + 0.5 * h * a1, v + 0.5 * h * b1)
        a3, b3 = slope(u + 0.5 * h * a2, v + 0.5 * h * b2)
        a4, b4 = slope(u + h * a3, v + h * b3)
        u, v = u + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4), v + h / 6 * (b1 + 2 * b2 + 2 * b3 + b4)
        if step % (STEPS // RECORDS) == 0:
            seen += [u, v]
    return np.column_stack(seen)


def slcp() -> Problem:
    """Four points of a normal with five parameters (Papamakarios et al. 2019); the signs of two do not matter."""
    prior = th.Uniform(np.full(5, -3.0), np.full(5, 3.0), names=("m1", "m2", "s1", "s2", "r"))  # type: ignore[arg-type]

    def respond(theta: Array, u: Array) -> Array:
        s1, s2, rho = theta[:, 2:3] ** 2, theta[:, 3:4] ** 2, np.tanh(theta[:, 4:5])
        a, b = normals(u[:, :4]), normals(u[:, 4:])
        first = theta[:, :1] + s1 * a
        second = theta[:, 1:2] + s2 * (rho * a + np.sqrt(1 - rho**2) * b)
        return np.stack([first, second], -1).reshape(len(theta), 8)

    def log_likelihood(theta: Array, x: Array) -> Array:
        x = np.broadcast_to(x, (len(theta), 8)).reshape(-1, 4, 2)
        s1, s2, rho = theta[:, 2:3] ** 2, theta[:, 3:4] ** 2, np.tanh(theta[:, 4:5])
        a = (x[:, :, 0] - theta[:, :1]) / s1
        b = ((x[:, :, 1] - theta[:, 1:2]) / s2 - rho * a) / np.sqrt(1 - rho**2)
        scale = np.log(s1 * s2 * np.sqrt(1 - rho**2))[:, 0]
        return -0.5 * (a**2 + b**2).sum(1) - 4 * scale

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        """On the quarter where both signs are positive; the signs are then drawn, since all four quarters are alike."""
        half = th.Uniform([-3.0, -3.0, 0.0, 0.0, -3.0], [3.0] * 5)  # type: ignore[arg-type]
        found = draw_tempered(lambda t: log_likelihood(t, x_o), half.log_prob, half.sample(n, rng), rng)
        found[:, 2:4] *= rng.choice([-1.0, 1.0], (n, 2))
        return found

    cost = ExponentialCost.over(prior, [0.45, 0.45, 0.0, 0.0, 0.0])
    return Problem("slcp", prior, 8, respond, log_likelihood, cost, draw, narrow=False, closed_form=False, modes=4)


def exchange() -> Problem:
    """Sum and product of two parameters, seen through noise along a thin parabola; the two may change places."""

    def bend(u: Array) -> Array:
        along = BEND_REACH * normals(u[:, 0])
        return np.column_stack([along, BEND * along**2 + BEND_WIDTH * normals(u[:, 1])])

    def log_density(noise: Array) -> Array:
        along, across = noise.T
        return -0.5 * (np.square(along / BEND_REACH) + np.square((across - BEND * along**2) / BEND_WIDTH))

    return _exchangeable("exchange", bend, log_density)


def hooks() -> Problem:
    """Sum and product of two parameters, seen through noise along three quarters of a thin ellipse."""

    def bend(u: Array) -> Array:
        angle, size = 1.5 * np.pi * u[:, 0], 1 + HOOK_WIDTH * normals(u[:, 1])
        return np.column_stack([HOOK_AXES[0] * size * np.cos(angle), HOOK_AXES[1] * size * np.sin(angle)])

    def log_density(noise: Array) -> Array:
        at = noise / HOOK_AXES
        size, angle = np.hypot(*at.T), np.mod(np.arctan2(at[:, 1], at[:, 0]), 2 * np.pi)
        density = -0.5 * np.square((size - 1) / HOOK_WIDTH) - np.log(size)
        return np.where(angle < 1.5 * np.pi, density, -np.inf)

    return _exchangeable("hooks", bend, log_density)


def _exchangeable(name: str, bend: Callable[[Array], Array], log_density: Callable[[Array], Array]) -> Problem:
    """Sum and product of two parameters with additive noise: two peaks, one for each order of the two."""
    prior = th.Uniform([-3.0, -3.0], [3.0, 3.0], names=("a", "b"))  # type: ignore[arg-type]

    def shift(theta: Array) -> Array:
        return np.column_stack([theta.sum(1), theta.prod(1)])

    def respond(theta: Array, u: Array) -> Array:
        return shift(theta) + bend(u)

    def log_likelihood(theta: Array, x: Array) -> Array:
        return log_density(x - shift(theta))

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        """x_o less the noise is (sum, product), in whose density 1 / |a - b| stands; resampled from many."""
        total, product = (x_o - bend(rng.random((CANDIDATES * n, 2)))).T
        square = total**2 - 4 * product
        total, gap = total[square > 0], np.sqrt(square[square > 0]) * rng.choice([-1.0, 1.0], int((square > 0).sum()))
        theta = np.column_stack([total + gap, total - gap]) / 2
        weights = np.isfinite(prior.log_prob(theta)) / np.abs(gap)
        return theta[rng.choice(len(theta), n, replace=False, p=weights / weights.sum())]

    cost = ExponentialCost.over(prior, [0.6, 0.6])
    return Problem(name, prior, 2, respond, log_likelihood, cost, draw, narrow=False, modes=2)


def arc() -> Problem:
    """The radius of a point, seen closely, and its angle, seen roughly."""
    prior = th.Uniform([-3.0, -3.0], [3.0, 3.0], names=("a", "b"))  # type: ignore[arg-type]

    def respond(theta: Array, u: Array) -> Array:
        seen = np.column_stack([np.hypot(*theta.T), np.arctan2(theta[:, 1], theta[:, 0])])
        return seen + np.array([ARC_WIDTH, ARC_ANGLE]) * normals(u)

    def log_likelihood(theta: Array, x: Array) -> Array:
        x = np.broadcast_to(x, (len(theta), 2))
        radius, angle = np.hypot(*theta.T), np.arctan2(theta[:, 1], theta[:, 0])
        return -0.5 * (np.square((x[:, 0] - radius) / ARC_WIDTH) + np.square((x[:, 1] - angle) / ARC_ANGLE))

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        """Radius and angle are normal around x_o, but for the factor radius of their area and the ends of both."""
        radius, angle = (x_o + np.array([ARC_WIDTH, ARC_ANGLE]) * rng.standard_normal((CANDIDATES * n, 2))).T
        theta = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        weights = np.isfinite(prior.log_prob(theta)) * (np.abs(angle) < np.pi) * np.maximum(radius, 0.0)
        return theta[rng.choice(len(theta), n, replace=False, p=weights / weights.sum())]

    cost = ExponentialCost.over(prior, [0.6, -0.3])
    return Problem("arc", prior, 2, respond, log_likelihood, cost, draw, narrow=True)


def gaussian_2() -> Problem:
    """Two parameters, mixed; the posterior is about 0.4 of the prior in each."""
    design = np.array([[1.0, 0.4], [-0.3, 1.0]])
    return linear_gaussian("gaussian_2", design, np.array([0.5, 0.4]), np.array([1.0, 0.5]), narrow=False)


def gaussian_8() -> Problem:
    """Eight parameters, each seen with a part of the next; the posterior is 0.2 to 0.4 of the prior in each."""
    design = np.eye(8) + 0.5 * np.eye(8, k=1)
    return linear_gaussian("gaussian_8", design, np.linspace(0.2, 0.4, 8), np.linspace(0.6, 0.0, 8), narrow=True)


def counts() -> Problem:
    """Two rates, seen as three and two Poisson counts, and a share, seen as one binomial count."""
    prior = th.Independent(
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
