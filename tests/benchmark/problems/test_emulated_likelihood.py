"""A likelihood fitted to runs, where the exact one is known."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.benchmark.problems.emulated_likelihood import EmulatedLikelihood, draw_emulated

DESIGN = np.array([[1.0, 0.5], [-0.3, 1.0], [0.5, 0.5]])


def run(theta, rng):
    """Normal outputs whose spread grows with the first parameter."""
    return theta @ DESIGN.T + 0.05 * np.exp(theta[:, :1]) * rng.standard_normal((len(theta), 3))


def test_fitted_density_is_the_exact_one(rng):
    theta = rng.random((20_000, 2))
    fitted = EmulatedLikelihood.fit(theta, run(theta, rng))
    grid, y = rng.random((50, 2)), np.array([0.6, 0.3, 0.5])
    sd = 0.05 * np.exp(grid[:, :1])
    exact = -0.5 * np.square((y - grid @ DESIGN.T) / sd).sum(1) - 3 * np.log(sd[:, 0])
    found = fitted.log_likelihood(grid, y)
    near = exact > exact.max() - 8
    gap = (found - exact)[near] - (found - exact)[near].mean()
    assert np.abs(gap).max() < 0.4
    flat = -0.5 * np.square((y - grid @ DESIGN.T) / 0.08).sum(1)
    other = (found - flat)[near] - (found - flat)[near].mean()
    assert np.abs(other).max() > 0.4, "a constant spread is seen (mutant)"


def test_draws_have_the_fitted_density(rng):
    """With slopes that depend on theta: noise comes back, E p(y | theta') / p(y | theta) = 1, and rows stand alone."""
    theta = rng.random((6_000, 2))
    y = run(theta, rng)
    y[:, 2] += 3 * theta[:, 0] * (y[:, 1] - theta @ DESIGN[1])
    fitted = EmulatedLikelihood.fit(theta, y, degrees=(4, 2, 2))
    noise = rng.standard_normal((4_000, 3))
    here, there = (np.tile(t, (4_000, 1)) for t in ([0.4, 0.6], [0.42, 0.6]))
    drawn = fitted.draw(here, noise)
    assert np.allclose(fitted.standardise(here, drawn), noise)
    assert np.array_equal(fitted.draw(here[7:9], noise[7:9]), drawn[7:9])
    ratio = np.exp(fitted.log_likelihood(there, drawn) - fitted.log_likelihood(here, drawn))
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(len(ratio))
    plain = EmulatedLikelihood.fit(theta, y)
    residuals = [np.abs(np.corrcoef(law.standardise(theta, y)[:, 2] * theta[:, 0], y[:, 1] - theta @ DESIGN[1])[0, 1])
                 for law in (fitted, plain)]  # fmt: skip
    assert residuals[0] < 5 / np.sqrt(len(theta)) < residuals[1], (
        "slopes that are the same everywhere are seen (mutant)"
    )


@pytest.mark.slow
def test_draws_are_those_of_the_exact_posterior(rng):
    truth = np.array([0.4, 0.6])
    y_o = run(truth[None], rng)[0]
    draws = draw_emulated(run, th.Uniform([0.0, 0.0], [1.0, 1.0]), y_o, 1_000, rng)
    axis = np.linspace(0, 1, 201)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    sd = 0.05 * np.exp(grid[:, :1])
    value = -0.5 * np.square((y_o - grid @ DESIGN.T) / sd).sum(1) - 3 * np.log(sd[:, 0])
    weights = np.exp(value - value.max()) / np.exp(value - value.max()).sum()
    mean = weights @ grid
    spread = np.sqrt(weights @ np.square(grid - mean))
    assert (np.abs(draws.mean(0) - mean) < 0.15 * spread).all()  # 5 standard errors of 1,000 draws
    assert (np.abs(np.log(draws.std(0) / spread)) < 0.15).all()
