"""Conditionals over whole numbers against exact posteriors, decided by the data and undecided, few values and many."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.inference.answers import pilot as module
from thrifty.inference.answers.dimensions import Divisible
from thrifty.inference.answers.pilot import Pilot
from thrifty.inference.transforms import BoxTransform

X_O = [0.0]
SHARES = {
    "undecided": np.array([0.1, 0.2, 0.3, 0.2, 0.05, 0.15]),
    "likely": np.array([0.003, 0.03, 0.934, 0.03, 0.002, 0.001]),
    "decided": np.array([1e-9, 1e-6, 1 - 3e-6, 1e-6, 5e-7, 5e-7]),
}


class Exact(Divisible):
    """P(k) known; a ~ N(k, 1); b ~ N(k + a, 0.5²)."""

    names = ("k", "a", "b")
    prior = th.Independent({"k": th.Integers(0, 5), "a": th.Normal(0, 1), "b": th.Normal(0, 1)})

    def __init__(self, shares):
        self.shares = shares / shares.sum()

    def sample(self, n, x_o, *, seed=0):
        rng = np.random.default_rng(seed)
        k = rng.choice(6, n, p=self.shares)
        a = k + rng.standard_normal(n)
        return np.column_stack([k, a, k + a + 0.5 * rng.standard_normal(n)])

    def log_prob(self, theta, x_o):
        k, a, b = np.asarray(theta, dtype=float).T
        return np.log(self.shares)[k.astype(int)] + stats.norm.logpdf(a, k) + stats.norm.logpdf(b, k + a, 0.5)

    def exact(self, a):
        """P(k | a)."""
        total = self.shares * stats.norm.pdf(a, np.arange(6))
        return total / total.sum()


def check_counts(draws, size, exact):
    """Compare shares of draws of k with exact ones: 5 standard errors, and one draw that may come by chance."""
    found = np.bincount(draws.astype(int), minlength=len(exact)) / len(draws)
    return bool((np.abs(found - exact) < 5 * np.sqrt(exact * (1 - exact) / size) + 2 / size).all())


@pytest.mark.parametrize("decided", SHARES)
def test_a_whole_number_alone(decided, seed):
    whole = Exact(SHARES[decided])
    given = whole.condition(a=1.7, b=3.1)
    exact = whole.exact(1.7) * stats.norm.pdf(3.1, np.arange(6) + 1.7, 0.5)
    exact /= exact.sum()
    found = np.exp(given.log_prob(np.arange(6.0)[:, None], X_O))
    np.testing.assert_allclose(found, exact, rtol=1e-9)
    assert abs(found.sum() - 1) < 1e-9
    drawn = given.draw(2_000, X_O, seed % 1000)
    assert check_counts(drawn.samples[:, 0], min(drawn.ess[0], 2_000), exact)
    assert not check_counts(drawn.samples[:, 0], 2_000, np.roll(exact, 1))  # the mutant: codes off by one


@pytest.mark.parametrize("decided", ["undecided", "decided"])
def test_a_whole_number_beside_a_number(decided, seed):
    whole = Exact(SHARES[decided])
    given, exact = whole.condition(a=2.4), whole.exact(2.4)
    drawn = given.draw(2_000, X_O, seed % 1000)
    k, b = drawn.samples.T
    assert check_counts(k, min(drawn.ess[0], 2_000), exact)
    assert abs((b - k - 2.4).mean()) < 5 * 0.5 / np.sqrt(min(drawn.ess[1], 2_000))
    theta = np.column_stack([np.arange(6.0), np.arange(6.0) + 2.4])
    density = exact * stats.norm.pdf(0, 0, 0.5)
    assert np.abs(given.log_prob(theta, X_O) - np.log(density)).max() < 0.05  # 20,000 draws: 0.01


@pytest.mark.parametrize("decided", ["undecided", "likely", "decided"])
def test_many_values_are_sampled(decided, seed, monkeypatch):
    """Where values are too many to be listed, they are cells of the line."""
    monkeypatch.setattr(module, "MAX_LISTED_STATES", 3)
    whole = Exact(SHARES[decided])
    given = whole.condition(a=1.7, b=3.7)
    exact = whole.exact(1.7) * stats.norm.pdf(3.7, np.arange(6) + 1.7, 0.5)
    exact /= exact.sum()
    assert np.exp(given.log_prob(np.arange(6.0)[:, None], X_O)).sum() == pytest.approx(1, abs=0.05)
    drawn = given.draw(2_000, X_O, seed % 1000)
    assert check_counts(drawn.samples[:, 0], min(drawn.ess[0], 2_000), exact)


def test_the_pilot_is_what_it_draws_from(rng):
    """Probabilities of cells sum to one, the ends with what lies beyond them; far cells have finite logarithms."""
    box = BoxTransform(np.array([0.0]), np.array([7.0]), levels=((),))
    for draws in (np.full((50, 1), 3.0), np.zeros((50, 1)), rng.integers(0, 8, (50, 1)).astype(float)):
        pilot = Pilot.of(draws, box)
        exact = np.exp(pilot.log_prob(np.arange(8.0)[:, None]))
        assert abs(exact.sum() - 1) < 1e-12
        assert check_counts(pilot.sample(4_000, rng)[:, 0], 4_000, exact)
    far = Pilot.of(np.full((50, 1), 3.0), BoxTransform(np.array([0.0]), np.array([np.inf]), levels=((),)))
    assert np.isfinite(far.log_prob(np.array([[0.0], [1e3], [1e6]]))).all()
