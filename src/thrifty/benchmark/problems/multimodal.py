"""Posteriors with several modes: four of five parameters, two crescents, four squares of unlike mass."""

from __future__ import annotations

import numpy as np

from thrifty.benchmark.exact_draws import draw_on_grid, draw_tempered
from thrifty.benchmark.known_costs import ExponentialCost
from thrifty.benchmark.problem import Problem, normals
from thrifty.priors import Normal, Uniform
from thrifty.types import Array

RADIUS, THICKNESS, BOX = 0.1, 0.01, 3.0  # of a crescent, and half the width of its prior
SQUARE_NOISE = 0.1  # of the two squares and of the sum


def slcp() -> Problem:
    """Four points of a normal with five parameters (Papamakarios et al. 2019); the signs of two do not matter."""
    prior = Uniform(np.full(5, -3.0), np.full(5, 3.0), names=("m1", "m2", "s1", "s2", "r"))  # type: ignore[arg-type]

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
        half = Uniform([-3.0, -3.0, 0.0, 0.0, -3.0], [3.0] * 5)  # type: ignore[arg-type]
        found = draw_tempered(lambda t: log_likelihood(t, x_o), half.log_prob, half.sample(n, rng), rng)
        found[:, 2:4] *= rng.choice([-1.0, 1.0], (n, 2))
        return found

    cost = ExponentialCost.over(prior, [0.45, 0.45, 0.0, 0.0, 0.0])
    return Problem("slcp", prior, 8, respond, log_likelihood, cost, draw, narrow=False, closed_form=False, modes=4)


def two_moons() -> Problem:
    """Two crescents (Greenberg et al. 2019), in a prior three times as wide as there: narrow."""
    prior = Uniform([-BOX, -BOX], [BOX, BOX], names=("a", "b"))  # type: ignore[arg-type]

    def moon(u: Array) -> Array:
        angle, radius = np.pi * (u[:, 0] - 0.5), RADIUS + THICKNESS * normals(u[:, 1])
        return np.column_stack([radius * np.cos(angle) + 0.25, radius * np.sin(angle)])

    def respond(theta: Array, u: Array) -> Array:
        return moon(u) + _moon_shift(theta)

    def log_likelihood(theta: Array, x: Array) -> Array:
        at = x - _moon_shift(theta) - np.array([0.25, 0.0])
        radius = np.hypot(at[:, 0], at[:, 1])
        density = -0.5 * np.square((radius - RADIUS) / THICKNESS) - np.log(radius)
        return np.where(at[:, 0] > 0, density, -np.inf)

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        """x_o less a moon is the shift; both signs of the sum are as likely; what leaves the prior is drawn again."""
        kept = np.empty((0, 2))
        while len(kept) < n:
            shift = np.sqrt(2) * (x_o - moon(rng.random((4 * n, 2))))
            shift = shift[shift[:, 0] <= 0]
            total = shift[:, 0] * rng.choice([-1.0, 1.0], len(shift))
            theta = np.column_stack([total - shift[:, 1], total + shift[:, 1]]) / 2
            kept = np.vstack([kept, theta[np.isfinite(prior.log_prob(theta))]])
        return kept[:n]

    cost = ExponentialCost.over(prior, [0.7, 0.3])
    return Problem("two_moons", prior, 2, respond, log_likelihood, cost, draw, narrow=True, modes=2)


def _moon_shift(theta: Array) -> Array:
    return np.column_stack([-np.abs(theta.sum(1)), theta[:, 1] - theta[:, 0]]) / np.sqrt(2)


def squares() -> Problem:
    """Squares of two parameters, and a third seen with half of the first: four modes, whose masses differ."""
    prior = Normal([0.5, 0.3, 0.0], [1.0, 1.0, 1.0], names=("a", "b", "c"))  # type: ignore[arg-type]
    sd = SQUARE_NOISE

    def centre(theta: Array) -> Array:
        a, b, c = theta.T
        return np.column_stack([a**2, a**2, b**2, b**2, c + 0.5 * a, c + 0.5 * a])

    def respond(theta: Array, u: Array) -> Array:
        return centre(theta) + sd * normals(u)

    def log_likelihood(theta: Array, x: Array) -> Array:
        return -0.5 * np.square((x - centre(theta)) / sd).sum(1)

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        """`a` on a grid with c integrated out, c given a in closed form, b on a grid of its own."""
        grid, seen = np.linspace(-6.0, 6.0, 24_001), x_o.reshape(3, 2).mean(1)
        sd_seen = sd / np.sqrt(2)

        def log_a(a: Array) -> Array:
            square, total = (seen[0] - a**2) / sd_seen, (seen[2] - 0.5 * a) / np.hypot(sd_seen, 1.0)
            return -0.5 * (square**2 + total**2 + (a - 0.5) ** 2)

        def log_b(b: Array) -> Array:
            return -0.5 * (((seen[1] - b**2) / sd_seen) ** 2 + (b - 0.3) ** 2)

        a, b = draw_on_grid(log_a, grid, n, rng), draw_on_grid(log_b, grid, n, rng)
        variance = 1 / (1 + 1 / sd_seen**2)
        c = variance * (seen[2] - 0.5 * a) / sd_seen**2 + np.sqrt(variance) * rng.standard_normal(n)
        return np.column_stack([a, b, c])

    cost = ExponentialCost.over(prior, [0.7, 0.0, 0.7])
    return Problem("squares", prior, 6, respond, log_likelihood, cost, draw, narrow=True, modes=4)
