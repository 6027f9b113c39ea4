"""Differential equations seen with noise: predators and prey, and an epidemic in a large population."""

from __future__ import annotations

import numpy as np

from thrifty.benchmark.exact_draws import draw_tempered
from thrifty.benchmark.known_costs import ExponentialCost
from thrifty.benchmark.problem import Problem, normals
from thrifty.priors import Normal
from thrifty.types import Array

LV_STEPS, LV_HORIZON, LV_RECORDS = 400, 20.0, 10  # predators and prey: steps, time, times that are seen
LV_START = (np.log(30.0), 0.0)  # log populations at time 0
LV_NOISE = 0.3  # of a log population: the posterior is some 1e-5 of the prior
SIR_STEPS, SIR_HORIZON, SIR_RECORDS = 120, 60.0, 15  # of the epidemic: steps, days, days that are seen
SIR_NOISE = 0.1  # of a log prevalence


def lotka_volterra() -> Problem:
    """Predators and prey with log-normal noise: alpha, beta, gamma, delta as logarithms, 20 log populations."""
    prior = Normal([-0.125, -3.0, -0.125, -3.0], [0.5] * 4, names=("alpha", "beta", "gamma", "delta"))  # type: ignore[arg-type]

    def respond(theta: Array, u: Array) -> Array:
        return _populations(theta) + LV_NOISE * normals(u)

    def log_likelihood(theta: Array, x: Array) -> Array:
        return -0.5 * np.square((x - _populations(theta)) / LV_NOISE).sum(1)

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        return draw_tempered(lambda t: log_likelihood(t, x_o), prior.log_prob, prior.sample(n, rng), rng)

    cost = ExponentialCost.over(prior, [1.5, 0.0, 1.5, 0.0])
    return Problem("lotka_volterra", prior, 20, respond, log_likelihood, cost, draw, narrow=True, closed_form=False)


def _populations(theta: Array) -> Array:
    """Log populations (n, 20) at ten times, by Runge-Kutta steps of the logarithms."""
    alpha, beta, gamma, delta = np.exp(theta.T)
    u, v = np.full(len(theta), LV_START[0]), np.full(len(theta), LV_START[1])
    h, seen = LV_HORIZON / LV_STEPS, []

    def slope(u: Array, v: Array) -> tuple[Array, Array]:  # capped where a wild draw's step overshoots
        return alpha - beta * np.exp(np.minimum(v, 12.0)), delta * np.exp(np.minimum(u, 12.0)) - gamma

    for step in range(1, LV_STEPS + 1):
        a1, b1 = slope(u, v)
        a2, b2 = slope(u + 0.5 * h * a1, v + 0.5 * h * b1)
        a3, b3 = slope(u + 0.5 * h * a2, v + 0.5 * h * b2)
        a4, b4 = slope(u + h * a3, v + h * b3)
        u, v = u + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4), v + h / 6 * (b1 + 2 * b2 + 2 * b3 + b4)
        if step % (LV_STEPS // LV_RECORDS) == 0:
            seen += [u, v]
    return np.column_stack(seen)


def epidemic_ode() -> Problem:
    """An epidemic in a large population: logs of both rates and of the first share infected, 15 log prevalences."""
    names = ("beta", "gamma", "first")
    prior = Normal([np.log(0.5), np.log(0.2), np.log(1e-3)], [0.35, 0.35, 1.0], names=names)  # type: ignore[arg-type]

    def respond(theta: Array, u: Array) -> Array:
        return _prevalence(theta) + SIR_NOISE * normals(u)

    def log_likelihood(theta: Array, x: Array) -> Array:
        return -0.5 * np.square((x - _prevalence(theta)) / SIR_NOISE).sum(1)

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        return draw_tempered(lambda t: log_likelihood(t, x_o), prior.log_prob, prior.sample(n, rng), rng)

    cost = ExponentialCost.over(prior, [2.0, 0.0, 0.8])
    return Problem(
        "epidemic_ode", prior, SIR_RECORDS, respond, log_likelihood, cost, draw, narrow=True, closed_form=False
    )


def _prevalence(theta: Array) -> Array:
    """Log share infected (n, 15) at equal times: Runge-Kutta steps of (susceptible, log infected)."""
    beta, gamma = np.exp(theta[:, 0]), np.exp(theta[:, 1])
    i = np.minimum(theta[:, 2], np.log(0.5))
    s = 1.0 - np.exp(i)
    h, seen = SIR_HORIZON / SIR_STEPS, []

    def slope(s: Array, i: Array) -> tuple[Array, Array]:
        return -beta * s * np.exp(i), beta * s - gamma

    for step in range(1, SIR_STEPS + 1):
        a1, b1 = slope(s, i)
        a2, b2 = slope(s + 0.5 * h * a1, i + 0.5 * h * b1)
        a3, b3 = slope(s + 0.5 * h * a2, i + 0.5 * h * b2)
        a4, b4 = slope(s + h * a3, i + h * b3)
        s, i = s + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4), i + h / 6 * (b1 + 2 * b2 + 2 * b3 + b4)
        if step % (SIR_STEPS // SIR_RECORDS) == 0:
            seen.append(i)
    return np.column_stack(seen)
