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

Exchange, hooks and arc are made here, for this study; the others, and all of the test half, are problems of
`thrifty.benchmark`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

import thrifty as th
from thrifty import benchmark
from thrifty.benchmark import Problem, normals
from thrifty.benchmark.catalogue import REFERENCE_DRAWS, REFERENCE_SEED, draw_exact
from thrifty.benchmark.known_costs import ExponentialCost
from thrifty.types import Array

DEVELOPMENT = ("lotka_volterra", "slcp", "gaussian_8", "exchange", "hooks", "arc", "gaussian_2", "counts")
BEND_REACH, BEND, BEND_WIDTH = 0.08, 5.0, 0.008  # of the parabolas: sd along, curvature, sd across
ARC_WIDTH, ARC_ANGLE = 0.006, 0.1  # of the arc: sd of the radius, sd of the angle in radians
HOOK_AXES, HOOK_WIDTH = np.array([0.08, 0.2]), 0.06  # of the hooks: of the ellipse, and sd across it, relative
CANDIDATES = 40  # per posterior draw, of which one is resampled


@cache
def find_problem(name: str) -> Problem:
    """Make a problem of either half."""
    return OWN[name]() if name in OWN else benchmark.find_problem(name)


@cache
def read_reference(name: str, place: str) -> Array:
    """Return equally weighted draws (REFERENCE_DRAWS, p) of the exact posterior at a place."""
    if name in OWN:
        return draw_exact(find_problem(name), place, REFERENCE_SEED, REFERENCE_DRAWS)
    return benchmark.read_reference(name, place)


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


OWN = {"exchange": exchange, "hooks": hooks, "arc": arc}
