"""Test problems of the rounds study: no setting is chosen on these; they are run once the settings are frozen.

Narrow means that the posterior's volume is below 1e-3 of the prior's at all three places.

    epidemic_ode         3 parameters, 15 outputs: narrow
    gaussian_10          10 parameters, 12 outputs: narrow
    poisson_regression   6 parameters, 12 counts: narrow
    two_moons            2 parameters, 2 outputs, two crescents: narrow
    squares              3 parameters, 6 outputs, four modes of unlike mass: narrow
    waiting              1 parameter, 3 waiting times: wide
    shares               2 parameters, 3 counts: wide
    useless              2 parameters, 4 outputs that know them and 20 that do not: wide
"""

from __future__ import annotations

import numpy as np
from rounds_form import ExponentialCost, PowerCost, Problem, combine, linear_gaussian, normals
from rounds_truth import draw_on_grid, draw_tempered
from scipy import stats
from scipy.special import gammaincinv

import thrifty as th
from thrifty.types import Array

STEPS, HORIZON, RECORDS = 120, 60.0, 15  # of the epidemic: steps, days, days that are seen
RADIUS, THICKNESS, BOX = 0.1, 0.01, 3.0  # of a crescent, and half the width of its prior
SQUARE_NOISE = 0.1  # of the two squares and of the sum


def epidemic_ode() -> Problem:
    """An epidemic in a large population: logs of both rates and of the first share infected, 15 log prevalences."""
    names = ("beta", "gamma", "first")
    prior = th.Normal([np.log(0.5), np.log(0.2), np.log(1e-3)], [0.35, 0.35, 1.0], names=names)  # type: ignore[arg-type]

    def respond(theta: Array, u: Array) -> Array:
        return _prevalence(theta) + 0.1 * normals(u)

    def log_likelihood(theta: Array, x: Array) -> Array:
        return -0.5 * np.square((x - _prevalence(theta)) / 0.1).sum(1)

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        return draw_tempered(lambda t: log_likelihood(t, x_o), prior.log_prob, prior.sample(n, rng), rng)

    cost = ExponentialCost.over(prior, [2.0, 0.0, 0.8])
    return Problem("epidemic_ode", prior, RECORDS, respond, log_likelihood, cost, draw, narrow=True, closed_form=False)


def _prevalence(theta: Array) -> Array:
    """Log share infected (n, 15) at equal times: Runge-Kutta steps of (susceptible, log infected)."""
    beta, gamma = np.exp(theta[:, 0]), np.exp(theta[:, 1])
    i = np.minimum(theta[:, 2], np.log(0.5))
    s = 1.0 - np.exp(i)
    h, seen = HORIZON / STEPS, []

    def slope(s: Array, i: Array) -> tuple[Array, Array]:
        return -beta * s * np.exp(i), beta * s - gamma

    for step in range(1, STEPS + 1):
        a1, b1 = slope(s, i)
        a2, b2 = slope(s + 0.5 * h * a1, i + 0.5 * h * b1)
        a3, b3 = slope(s + 0.5 * h * a2, i + 0.5 * h * b2)
        a4, b4 = slope(s + h * a3, i + h * b3)
        s, i = s + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4), i + h / 6 * (b1 + 2 * b2 + 2 * b3 + b4)
        if step % (STEPS // RECORDS) == 0:
            seen.append(i)
    return np.column_stack(seen)


def gaussian_10() -> Problem:
    """Ten parameters, twelve outputs of fixed mixed directions; the posterior is about 0.2 of the prior in each."""
    rng = np.random.default_rng(10)
    design = np.vstack([np.eye(10), np.zeros((2, 10))]) + 0.25 * rng.standard_normal((12, 10))
    return linear_gaussian("gaussian_10", design, np.full(12, 0.2), np.full(10, 0.35), narrow=True)


def poisson_regression() -> Problem:
    """Twelve Poisson counts whose log rates are linear in six parameters."""
    names = ("level", *(f"b{i}" for i in range(1, 6)))
    prior = th.Normal([3.0, 0, 0, 0, 0, 0], [0.5] * 6, names=names)  # type: ignore[arg-type]
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


def two_moons() -> Problem:
    """Two crescents (Greenberg et al. 2019), in a prior three times as wide as there: narrow."""
    prior = th.Uniform([-BOX, -BOX], [BOX, BOX], names=("a", "b"))  # type: ignore[arg-type]

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
    prior = th.Normal([0.5, 0.3, 0.0], [1.0, 1.0, 1.0], names=("a", "b", "c"))  # type: ignore[arg-type]
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


def waiting() -> Problem:
    """The rate behind three waiting times, each of two exponential steps; outputs are their logarithms."""
    prior = th.Independent({"rate": stats.gamma(2.0, scale=1.0)})

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
    prior = th.Independent({"a": stats.beta(2, 2), "b": stats.beta(2, 3)})
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


def useless() -> Problem:
    """Two parameters, four outputs that know them and twenty that do not."""
    design = np.zeros((24, 2))
    design[:4] = [[1.0, 0.5], [0.5, 1.0], [1.0, -1.0], [0.3, 0.3]]
    sd = np.concatenate([np.full(4, 0.4), np.ones(20)])
    return linear_gaussian("useless", design, sd, np.array([0.3, 1.0]), narrow=False)
