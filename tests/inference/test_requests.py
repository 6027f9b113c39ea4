"""Bad requests of methods and posteriors: one message, nothing trained or drawn."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th

PRIOR = th.Normal(0.0, 1.0)
QUICK = th.Training(max_epochs=1)


@pytest.fixture(scope="module")
def table() -> th.Simulations:
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((100, 1))
    return th.Simulations.from_arrays(theta=theta, x=theta + rng.standard_normal((100, 1)))


@pytest.mark.parametrize("method", [th.NPE, th.NLE, th.NRE])
def test_fit_wants_a_table_and_a_seed(method, table):
    with pytest.raises(th.ThriftyError, match="needs a table of simulations, got tuple"):
        method(PRIOR, training=QUICK).fit((table.theta, table.x))
    for seed in (None, -1, 1.5, np.random.default_rng(0)):
        with pytest.raises(th.ThriftyError, match=r"seed = .*whole number"):
            method(PRIOR, training=QUICK).fit(table, seed=seed)


@pytest.mark.parametrize("kind", ["npe", "ensemble", "nle"])
def test_draws_want_whole_numbers(kind, table):
    small = th.MixtureDensity(1, (8,))
    npe = th.NPE(PRIOR, network=small, training=QUICK)
    methods = {"npe": npe, "ensemble": th.Ensemble(npe, members=2), "nle": th.NLE(PRIOR, network=small, training=QUICK)}
    posterior = methods[kind].fit(table, seed=0)
    for n in (-5, 10.0, "3", True):
        with pytest.raises(th.ThriftyError, match="draws, expected a whole number"):
            posterior.sample(n, [0.0], seed=0)
    for seed in (None, -1, np.random.default_rng(0)):
        with pytest.raises(th.ThriftyError, match=r"seed = .*whole number"):
            posterior.sample(3, [0.0], seed=seed)
    if kind != "nle":
        assert posterior.sample(0, [0.0], seed=0).shape == (0, 1)


@pytest.mark.parametrize(
    "wrong", [{"patience": "a"}, {"max_epochs": 2.5}, {"batch": 32.5}, {"clip": "1"}, {"patience": 0}]
)
def test_training_settings(wrong):
    with pytest.raises(th.ThriftyError, match="Training cannot use") as caught:
        th.Training(**wrong)
    assert caught.value.code == "bad-setting"


@pytest.mark.parametrize("members", [0, 2.5, "3"])
def test_members(members):
    with pytest.raises(th.ThriftyError, match="members"):
        th.Ensemble(th.NPE(PRIOR), members=members)
