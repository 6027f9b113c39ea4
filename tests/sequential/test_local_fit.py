"""Whether a region is worth it: known posteriors, and the mass in the region that must not be forgotten."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.proposals.truncated import TruncatedPrior
from thrifty.sequential.local_fit import MIN_RUNS, measure_gain, score_inside

SD = 0.3  # of x given theta
PRIOR = th.Uniform(-4.0, 4.0)


@dataclass(frozen=True)
class Normal:
    """N(x + shift, sd) at every x, cut at the ends of a region where they are given."""

    sd: float
    shift: float = 0.0
    ends: tuple[float, float] = (-np.inf, np.inf)

    def _at(self, x):
        a, b = ((end - x[:, 0] - self.shift) / self.sd for end in self.ends)
        return stats.truncnorm(a, b, loc=x[:, 0] + self.shift, scale=self.sd)

    def log_density(self, theta, x):
        return self._at(x).logpdf(theta[:, 0])

    def sample_batched(self, n, x, seed=0):
        return self._at(x).rvs((n, len(x)), random_state=seed).T[:, :, None]


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(18_004)
    region = TruncatedPrior.around(PRIOR, 0.5 + 0.3 * rng.standard_normal((1_000, 1)), left_out=0.01)
    theta = np.concatenate([PRIOR.sample(3_000, rng), region.sample(3_000, rng).theta])
    x = theta + SD * rng.standard_normal(theta.shape)
    pool = th.Pool(((3_000, PRIOR), (3_000, region)), PRIOR)
    runs = th.Simulations.from_arrays(theta=theta, x=x, log_weights=pool.log_weight(theta))
    grid = np.linspace(-4.0, 4.0, 80_001)
    inside = grid[region.contains(grid[:, None])]
    return region, runs, (float(inside[0]), float(inside[-1]))


def gain(case, near, far):
    return measure_gain(near, far, case[0], case[1], share=0.2, seed=0)


def test_the_better_posterior_is_told(case):
    right, wide, off = Normal(SD), Normal(2 * SD), Normal(SD, shift=SD)
    assert gain(case, right, wide) > 0.1 and gain(case, right, off) > 0.1
    assert gain(case, wide, right) < 0 and gain(case, off, right) < 0
    assert gain(case, right, right) == 0  # no region is taken for nothing


def test_what_a_border_cuts_off_is_not_counted_as_a_gain(case):
    """Cut and uncut, both are the exact posterior inside; the mutant that forgets the mass inside prefers the cut."""
    region, runs, ends = case
    cut, whole = Normal(SD, ends=ends), Normal(SD)
    assert -0.1 < gain(case, cut, whole) < 0.02
    kept = runs[region.contains(runs.theta)]
    raw = cut.log_density(kept.theta, kept.x) - whole.log_density(kept.theta, kept.x)
    assert raw.mean() > 5 * raw.std() / np.sqrt(len(raw))


def test_the_density_inside_is_normalised_over_the_region(case):
    region, runs, ends = case
    few = runs[region.contains(runs.theta)][:200]
    exact = Normal(SD, ends=ends).log_density(few.theta, few.x)
    ours = score_inside(Normal(SD), region, few, seed=1)
    error = np.sqrt(1 / (60 * np.exp(Normal(SD).log_density(few.theta, few.x) - exact)))  # of a mass from 60 draws
    assert np.all(np.abs(ours - exact) < 5 * error)


def test_too_few_held_out_runs_say_nothing(case):
    region, runs, _ = case
    assert np.isnan(measure_gain(Normal(SD), Normal(1.0), region, runs[:MIN_RUNS], share=0.2, seed=0))
