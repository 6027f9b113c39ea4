"""Which argument of a simulator gets what: every signature that a person may write, and those that are refused."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import SimulatorError
from thrifty.runner.signatures import read_signature
from thrifty.runner.simulator import adapt

TWO, ONE, NONE = ("beta", "gamma"), ("mu",), ()


class Model:
    """A simulator as an object, with a method."""

    def __call__(self, theta, rng):
        return theta, rng

    def run(self, beta, gamma, seed):
        return beta, gamma, seed


def three(beta, gamma, rng):
    return beta, gamma, rng


def positional_only(theta, /, noise=0.1, *, rng):
    return theta, noise, rng


V, R, S = "theta", "rng", "seed"  # the vector, a Generator, a whole number
CASES = [
    (lambda theta: 0, TWO, (V,), {}),
    (lambda theta, rng: 0, TWO, (V, R), {}),
    (lambda theta, seed: 0, NONE, (V, S), {}),
    (lambda theta, generator: 0, TWO, (V, R), {}),
    (lambda theta, random_seed: 0, TWO, (V, S), {}),
    (lambda theta, noise=0.1, rng=None: 0, TWO, (V,), {"rng": R}),
    (lambda theta, noise=0.1, *, seed: 0, TWO, (V,), {"seed": S}),
    (lambda theta, rng=None, seed=None: 0, TWO, (V, R), {}),
    (lambda theta, rng, seed: 0, TWO, (V, R, S), {}),
    (lambda rng, theta: 0, TWO, (R, V), {}),
    (lambda theta, *rest: 0, TWO, (V,), {}),
    (lambda *everything: 0, TWO, (V,), {}),
    (lambda *everything, rng: 0, TWO, (V,), {"rng": R}),
    (lambda theta, beta=0.3: 0, TWO, (V,), {}),
    (lambda beta, gamma: 0, TWO, (0, 1), {}),
    (lambda gamma, beta, rng: 0, TWO, (1, 0, R), {}),
    (lambda beta, gamma=0.5, noise=1.0, rng=None: 0, TWO, (0, 1), {"rng": R}),
    (lambda beta, noise=1.0, gamma=0.5: 0, TWO, (0,), {"gamma": 1}),
    (lambda *, beta, gamma, rng: 0, TWO, (), {"beta": 0, "gamma": 1, "rng": R}),
    (lambda rng, **parameters: 0, TWO, (R,), {"beta": 0, "gamma": 1}),
    (lambda **parameters: 0, TWO, (), {"beta": 0, "gamma": 1}),
    (lambda mu, rng: 0, ONE, (V, R), {}),
    (lambda *, mu: 0, ONE, (), {"mu": 0}),
    (functools.partial(three, gamma=1.0), ("beta",), (V,), {"rng": R}),
    (functools.partial(three, 1.0), ("gamma", "delta")[:1], (V, R), {}),
    (positional_only, TWO, (V,), {"rng": R}),
    (Model(), TWO, (V, R), {}),
    (Model().run, TWO, (0, 1, S), {}),
    (th.Command(["echo", "{beta}"]), TWO, (V, S), {}),
    (np.sin, TWO, (V,), {}),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_each_argument_gets_what_it_is_named_for(number):
    simulator, names, positional, keywords = CASES[number]
    found = read_signature(simulator, names)
    assert (found.positional, dict(found.keywords)) == (positional, keywords)


REFUSED = [
    (lambda beta, gamma: 0, NONE, r"names=\['beta', 'gamma'\]"),  # never a Generator as gamma
    (lambda beta, gamma: 0, ("a", "b"), r"names=\['beta', 'gamma'\]"),
    (lambda beta, gamma, rng: 0, NONE, "the parameters have no names"),
    (lambda theta, gamma: 0, TWO, "nothing is known for the argument 'gamma'"),
    (lambda beta, gama, rng: 0, TWO, "'gama' is neither a parameter nor rng nor seed"),
    (lambda beta, rng: 0, TWO, "no argument takes the parameter gamma"),
    (lambda beta, *, days: 0, TWO, "'days' is neither"),
    (lambda: 0, TWO, "no argument takes the parameters"),
    (lambda rng: 0, TWO, "no argument takes the parameters"),
    (functools.partial(three, gamma=1.0), TWO, "functools.partial fixes it"),
    (3.0, TWO, "not something to call"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_cannot_be_assigned_is_refused(number):
    simulator, names, words = REFUSED[number]
    with pytest.raises(SimulatorError, match=words) as caught:
        read_signature(simulator, names)
    assert caught.value.code == "bad-simulator" and caught.value.fix


def test_values_arrive_and_equal_seeds_give_equal_noise():
    def by_name(gamma, beta, noise=2.0, rng=None):
        return [beta, gamma, noise, rng.normal()]

    def by_vector(theta, rng):
        return [theta[0], theta[1], 2.0, rng.normal()]

    theta = np.array([0.25, 0.5])
    calls = [adapt(simulator, TWO)(theta, np.random.SeedSequence(3), 7) for simulator in (by_name, by_vector)]
    assert calls[0] == calls[1] and calls[0][:3] == [0.25, 0.5, 2.0] and type(calls[0][0]) is float


def test_every_way_in_uses_the_names_of_the_prior(tmp_path):
    prior = th.Uniform([0, 10], [1, 11], names=["beta", "gamma"])

    def simulate(gamma, beta, rng):
        return {"low": beta, "high": gamma, "noise": rng.normal()}

    draws = th.Draws(prior.sample(4, np.random.default_rng(0)), names=prior.names)
    for engine in (th.Inline(), th.Processes(1)):
        sims = th.simulate(simulate, draws, engine=engine, progress="quiet")
        np.testing.assert_array_equal(sims.x[:, :2], draws.theta)
    c = th.Campaign(tmp_path / "c", simulate, prior)
    c.pilot(20, engine=th.Inline(), progress="quiet")
    sims = c.simulations()
    np.testing.assert_array_equal(sims.x[:, :2], sims.theta)
    with pytest.raises(SimulatorError, match="bad-simulator"):
        th.Campaign(tmp_path / "d", lambda a, b: 0, prior)
    assert not (tmp_path / "d").exists()
