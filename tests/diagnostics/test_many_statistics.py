"""One telling statistic behind many that are noise and go together: what ignores it is found, what uses it is not."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty import diagnostics
from thrifty.diagnostics.features import cross_fit_predictions


class Linear:
    """theta ~ N(0, 1), the first statistic theta + sd N(0, 1): the exact posterior, or the prior."""

    def __init__(self, sd, *, looks):
        self.gain = 1 / (1 + sd**2) if looks else 0.0
        self.spread = np.sqrt(sd**2 / (1 + sd**2)) if looks else 1.0

    def sample_batched(self, n, x, *, seed):
        noise = np.random.default_rng(seed).normal(size=(len(x), n, 1))
        return self.gain * np.asarray(x)[:, None, :1] + self.spread * noise

    def sample(self, n, x_o, *, seed):
        return self.sample_batched(n, np.asarray(x_o)[None], seed=seed)[0]


def crowd(rng, pairs, sd, n=300):
    """Runs with one telling statistic and `pairs` correlated pairs of noise."""
    theta = rng.normal(size=(n, 1))
    common = np.repeat(rng.normal(size=(n, pairs)), 2, axis=1)
    x = np.hstack([theta + sd * rng.normal(size=(n, 1)), common + rng.normal(size=(n, 2 * pairs))])
    return th.Simulations.from_arrays(theta=theta, x=x)


@pytest.mark.parametrize("pairs", [25, 100])
def test_the_prior_is_not_trusted(rng, pairs):
    for i in range(3):
        result = diagnostics.data_use(Linear(0.1, looks=False), crowd(rng, pairs, 0.1), seed=i)
        assert result.verdict == "do not trust" and "x_1;" in result.reason


def test_the_classifier_sees_it_where_it_is_wrong(rng):
    runs, blind = crowd(rng, 25, 0.1, 500), Linear(0.1, looks=False)
    x_o = runs.x[0].copy()
    x_o[0] = 1.5
    found = [diagnostics.local_c2st(blind, runs, x_o, seed=i).p_value for i in range(3)]
    assert max(found) < 0.05


def test_the_right_posterior_is_accepted(seed):
    """Also where x says nothing (sd 100): there ranks are theta, and halves foretelling each other reject too often."""
    for sd in (0.1, 100.0):
        found = []
        for i in range(20):
            runs = crowd(np.random.default_rng(seed + i), 50, sd)
            found.append(diagnostics.data_use(Linear(sd, looks=True), runs, seed=i).p_value)
        assert np.sum(np.array(found) < 0.05) <= 5  # of 20; more has chance 3e-4


def test_no_run_is_foretold_by_itself_or_by_later_ones(rng):
    """Pure noise, more statistics than runs: least squares fits it exactly, what is cross_fit_predictions must not."""
    x, noise = rng.normal(size=(200, 400)), rng.normal(size=(200, 1))
    told = cross_fit_predictions(x, noise, np.zeros(200), rng)
    assert np.sum(told == 0) == 50  # the first block
    assert abs(np.corrcoef(told[:, 0], noise[:, 0])[0, 1]) < 5 / np.sqrt(200)


@pytest.mark.slow
@pytest.mark.parametrize(("pairs", "sd"), [(25, 0.1), (100, 0.1), (100, 100.0)])
def test_size_with_many_statistics(seed, pairs, sd):
    """600 seeds for the regressions, 200 for the dearer classifier: 5 % is then known to 0.9 and 1.5 %."""
    right, found, local = Linear(sd, looks=True), [], []
    for i in range(600):
        runs = crowd(np.random.default_rng(seed + 1000 * i), pairs, sd)
        replicates = diagnostics.replicate(right, runs, pairs=300, density=False, seed=i)
        found.append([check(replicates, seed=i).p_value for check in (diagnostics.data_use, diagnostics.tarp)])
        if i < 200:
            local.append(diagnostics.local_c2st(right, replicates, runs.x[0], seed=i).p_value)
    share = np.append(np.mean(np.array(found) < 0.05, axis=0), np.mean(np.array(local) < 0.05))
    print("data_use, tarp, local_c2st with", 2 * pairs + 1, "statistics", sd, share)
    assert share.max() <= 0.10
