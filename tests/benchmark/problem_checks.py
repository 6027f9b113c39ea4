"""Checks that a problem's simulator, likelihood and exact draws belong together, each with a mutant that must fail."""

from __future__ import annotations

import numpy as np

import thrifty as th


def check_noise(made, rng):
    """The noise of a run is a function of seed and index."""
    theta = made.prior.sample(12, rng)
    whole = made.simulate_many(theta, 5)
    assert np.isfinite(whole.x).all()
    again = made.simulate_many(theta[7:], 5, start=7)
    assert np.array_equal(again.x, whole.x[7:]) and np.array_equal(again.cost, whole.cost[7:])
    assert not np.array_equal(made.simulate_many(theta[7:], 5).x, whole.x[7:]), "another index, other noise"
    assert not np.array_equal(made.simulate_many(theta, 6).x, whole.x), "another seed, other noise"
    draws = th.Draws(theta=theta, names=made.names)
    assert np.array_equal(made.simulate_many(draws, 5).x, whole.x) and np.array_equal(whole.index, np.arange(12))


def check_likelihood(made, reference, rng):
    """E p(x | theta') / p(x | theta) = 1 over runs at theta, for a theta' nearby, 0.4 posterior deviations away."""
    truth, _ = made.observations["middle"]
    root = np.linalg.cholesky(np.atleast_2d(np.cov(reference.T))) if made.modes == 1 else 0.1 * np.eye(len(truth))
    direction = rng.standard_normal(len(truth))
    other = truth + 0.4 * root @ (direction / np.linalg.norm(direction))
    n = 4_000
    noise = rng.random((n, made.words))

    def ratio(answer):
        a, b = (made.log_likelihood(np.tile(t, (n, 1)), answer) for t in (other, truth))
        return np.exp(a - b)

    found = ratio(made.respond(np.tile(truth, (n, 1)), noise))
    assert abs(found.mean() - 1) < 5 * found.std() / np.sqrt(n)
    wrong = ratio(made.respond(np.tile(truth + 2 * (other - truth), (n, 1)), noise))
    assert abs(wrong.mean() - 1) > 5 * wrong.std() / np.sqrt(n), "runs at another theta are seen (mutant)"


def check_reference(made, place, draws):
    """Stein: E [g d log p / d theta_j + dg / d theta_j] = 0 for g that vanishes at the ends of the prior."""
    assert draws.shape == (2_000, made.prior.dim) and np.isfinite(made.prior.log_prob(draws)).all()
    assert np.abs(_stein(made, place, draws)).max() < 5
    wide = draws.mean(0) + 1.4 * (draws - draws.mean(0))
    wide = wide[np.isfinite(made.prior.log_prob(wide))]
    assert np.abs(_stein(made, place, wide)).max() > 5, "draws 1.4 times too wide are seen (mutant)"


def _stein(made, place, draws):
    """Means over draws in their standard errors, two for each parameter: g, and g times the centred parameter."""
    x_o, out = made.x_o(place), []

    def log_density(theta):
        return made.log_likelihood(theta, x_o) + made.prior.log_prob(theta)

    for j, (low, high) in enumerate(zip(*made.prior.bounds, strict=True)):
        value = draws[:, j]
        g, slope = np.ones(len(value)), np.zeros(len(value))
        if np.isfinite(low):
            g, slope = (value - low) * g, g + (value - low) * slope
        if np.isfinite(high):
            g, slope = (high - value) * g, -g + (high - value) * slope
        edge = np.minimum(value - low, high - value)
        step = np.minimum(1e-4 * value.std(), 0.5 * edge)[:, None] * np.eye(draws.shape[1])[j]
        score = (log_density(draws + step) - log_density(draws - step)) / (2 * step[:, j])
        centre, spread = np.median(value), value.std()
        for h, h_slope in ((g, slope), (g * (value - centre) / spread, (slope * (value - centre) + g) / spread)):
            terms = h * score + h_slope
            out.append(terms.mean() / (terms.std() / np.sqrt(len(terms))))
    return np.array(out)
