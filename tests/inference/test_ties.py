"""Counts and zero-inflated statistics in synthetic likelihoods and in the regression adjustment of ABC."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.inference import synthetic_likelihood
from thrifty.inference.transforms import is_tied, least_spreads

PRIOR = th.Uniform(0.05, 4.0)
GRID = np.linspace(0.05, 4.0, 800)


def runs(n: int, m: int, rng: np.random.Generator) -> th.Simulations:
    """A Poisson count and a zero-inflated normal: for small rates all m runs are zeros."""
    theta = PRIOR.sample(n, rng)
    inflated = np.where(rng.random((n, m)) < 0.1, rng.normal(theta, 0.5, (n, m)), 0.0)
    return th.Simulations.from_arrays(theta=theta, x=np.stack([rng.poisson(theta, (n, m)), inflated], -1), m=m)


def exact_moments(count: float) -> tuple[float, float]:
    """Of the posterior at (count, 0): the zero says nothing."""
    mass = stats.poisson.pmf(count, GRID)
    mean = np.average(GRID, weights=mass)
    return float(mean), float(np.sqrt(np.average((GRID - mean) ** 2, weights=mass)))


@pytest.mark.parametrize("how", ["surrogate", "pointwise"])
@pytest.mark.parametrize("likelihood", [th.likelihoods.Gaussian(), th.likelihoods.SemiParametric()])
@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_equal_runs_are_no_density_without_end(how, likelihood, seed, rng, monkeypatch):
    """Neither model is right for counts: within a sd of the exact mean, and not a point."""
    sims, (mean, sd) = runs(300, 20, rng), exact_moments(0.0)
    method = th.SyntheticLikelihood(PRIOR, likelihood=likelihood, how=how)
    posterior = method.fit(sims)
    draws = posterior.sample(1000, [0.0, 0.0], seed=seed)
    assert abs(draws.mean() - mean) < sd and draws.std() > 0.3 * sd
    assert posterior.log_likelihood([0.0, 0.0]).max() < 10
    monkeypatch.setattr(synthetic_likelihood, "least_spreads", lambda x: np.zeros(x.shape[2]))  # the mutant
    assert method.fit(sims).log_likelihood([0.0, 0.0]).max() > 100


def test_continuous_statistics_have_no_least_spread(rng):
    x = rng.standard_normal((50, 10, 2))
    assert least_spreads(x).tolist() == [0.0, 0.0]
    assert not is_tied(x.ravel()) and is_tied(np.round(x.ravel(), 1))


def test_regression_adjustment_of_counts(seed, rng):
    """It has no density over x: the adjusted mean is the exact one, within five standard errors and its own bias."""
    theta = PRIOR.sample(6000, rng)
    sims = th.Simulations.from_arrays(theta=theta, x=rng.poisson(theta, (6000, 3)).astype(float))
    posterior = th.ABC(PRIOR, n_accept=600, adjust="linear").fit(sims)
    mass = np.prod(stats.poisson.pmf([[0.0], [1.0], [1.0]], GRID), axis=0)
    mean = np.average(GRID, weights=mass)
    sd = np.sqrt(np.average((GRID - mean) ** 2, weights=mass))
    draws = posterior.sample(2000, [0.0, 1.0, 1.0], seed=seed)
    assert abs(draws.mean() - mean) < (0.3 + 5 / np.sqrt(600)) * sd and 0.6 < draws.std() / sd < 1.6
