"""Edges that a hostile reading found: first timings, unseeded runs, swapped columns, rates of zero."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import thrifty as th

pytest.importorskip("numba")

FIRST = """
import numpy as np, thrifty as th
m = th.models.TemporalSIR()
cost = m.simulate_many(np.tile(m.theta_true, (30, 1)), 1, measured=True).cost
print(cost[0] / np.median(cost))
"""


def test_the_first_timing_does_not_carry_the_compiler():
    source = str(Path(th.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, env=env, check=True)
    assert float(done.stdout) < 200  # loading the compiled loop alone is 25,000 times a run


@pytest.mark.parametrize("seed", [None, True, -1, 1.5, [1, 2]])
def test_unseeded_runs_are_refused(seed):
    model = th.models.TemporalSIR()
    with pytest.raises(th.ThriftyError, match="whole number"):
        model.simulate_many([[0.5, 0.5]], seed)
    with pytest.raises(th.ThriftyError, match="whole number"):
        model.observed(seed)


def test_swapped_columns_are_refused():
    with pytest.raises(th.ThriftyError, match="another order"):
        th.models.TemporalSIR(prior=th.Uniform([0.1, 0.1], [1, 1], names=("gamma", "beta")))
    with pytest.raises(th.ThriftyError, match="draws of gamma, beta"):
        th.models.TemporalSIR().simulate_many(th.Draws([[0.9, 0.15]], names=("gamma", "beta")), 1)


@pytest.mark.parametrize(
    ("model", "theta"),
    [
        (lambda: th.models.TemporalSIR(prior=th.Uniform([0, 0], [1, 1])), [0.5, 0.0]),
        (lambda: th.models.BernoulliSIR(prior=th.Uniform([0] * 3, [1] * 3)), [0.5, 0.0, 0.5]),
        (lambda: th.models.Gamma(prior=th.Uniform(0, 1000)), [0.0]),
    ],
)
def test_rates_of_zero_are_refused(model, theta):
    with pytest.raises(th.ThriftyError, match="above 0"):
        model().simulate(theta, np.random.default_rng(0))


@pytest.mark.parametrize("x_o", [[-5.0, 1.0], [500.0, 0.0]])
def test_data_that_no_parameter_makes_are_told(x_o):
    with pytest.raises(th.ThriftyError, match="could have made these data"):
        th.models.Gamma().statistics_posterior(x_o)


def test_unseeded_posteriors_are_refused_and_seeds_accepted():
    model = th.models.Gamma()
    posterior = model.statistics_posterior(model.observed(1))
    with pytest.raises(th.ThriftyError, match="repeatable"):
        posterior.sample(3, None)
    np.testing.assert_array_equal(posterior.sample(3, 5), posterior.sample(3, np.random.default_rng(5)))
    radio = th.models.Radio()
    np.testing.assert_array_equal(
        radio.signals(radio.theta_true, 5), radio.signals(radio.theta_true, np.random.default_rng(5))
    )


def test_whole_numbers_of_numpy_are_whole_numbers():
    assert th.models.TemporalSIR(population=np.int64(100)).population == 100
    with pytest.raises(th.ThriftyError, match="whole number"):
        th.models.TemporalSIR(population=np.float64(100))
    with pytest.raises(th.ThriftyError, match="finite number"):
        th.models.GaussianToy(a="1")
