"""An observation by name gives the posterior of the same numbers in order, for every method, also after saving."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import DataError

PRIOR = th.Uniform([0.0, 0.0], [4.0, 4.0], names=["a", "b"])
NAMES = ("first", "second", "third")


def table(rng, *, m=1, event=(3,)):
    theta = PRIOR.sample(600, rng)
    mean = np.column_stack([theta, theta.sum(1)])
    x = mean[:, None] + rng.normal(size=(600, m, 3))
    x = x[:, 0] if m == 1 else x
    return th.Simulations.from_arrays(
        theta=theta, x=x.reshape(*x.shape[:-1], *event), m=m, names=PRIOR.names, x_names=NAMES
    )


X_O = np.array([1.0, 2.0, 3.5])
BY_NAME = {"third": 3.5, "first": 1.0, "second": 2.0}
METHODS = {
    "abc": (lambda: th.ABC(PRIOR, quantile=0.2), 1),
    "synthetic": (lambda: th.SyntheticLikelihood(PRIOR), 20),
    "score": (lambda: th.ScoringRule(PRIOR), 20),
    "nle": (lambda: th.NLE(PRIOR, network=th.MixtureDensity(1), training=th.Training(max_epochs=2)), 1),
    "npe": (lambda: th.NPE(PRIOR, network=th.MixtureDensity(1), training=th.Training(max_epochs=2)), 1),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_by_name_and_by_position_agree(method, tmp_path):
    if method.startswith("n"):
        pytest.importorskip("torch")
    make, m = METHODS[method]
    post = make().fit(table(np.random.default_rng(5), m=m), seed=1)
    post.save(tmp_path / "post.npz")
    theta = {"b": 2.2, "a": 1.5}
    for one in (post, th.load_posterior(tmp_path / "post.npz")):
        assert one.x_names == NAMES
        np.testing.assert_array_equal(one.sample(50, BY_NAME, seed=2), one.sample(50, X_O, seed=2))
        np.testing.assert_array_equal(one.log_prob(theta, BY_NAME), one.log_prob([[1.5, 2.2]], X_O))
        with pytest.raises(DataError, match="third missing, thrid unknown"):
            one.sample(5, {"first": 1.0, "second": 2.0, "thrid": 3.0}, seed=0)
    wrong = one.sample(50, X_O[::-1], seed=2)  # a mutant that ignores names would give this
    assert not np.array_equal(wrong, post.sample(50, BY_NAME, seed=2))


def test_abc_takes_an_observation_of_the_shape_of_the_output(tmp_path):
    sims = table(np.random.default_rng(6), event=(1, 3))
    post = th.ABC(PRIOR, quantile=0.2).fit(sims)
    post.save(tmp_path / "post.npz")
    flat = post.sample(20, X_O, seed=0)
    for one in (post, th.load_posterior(tmp_path / "post.npz")):
        np.testing.assert_array_equal(one.sample(20, X_O.reshape(1, 3), seed=0), flat)
    with pytest.raises(DataError, match=r"shape \(3, 1\), simulations have shape \(1, 3\)"):
        post.sample(20, X_O.reshape(3, 1), seed=0)


@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_answers_and_checks_take_names():
    sims = table(np.random.default_rng(7))
    post = th.ABC(PRIOR, quantile=0.2).fit(sims)
    accepted = post.accepted(BY_NAME)
    np.testing.assert_array_equal(accepted.sample(9, BY_NAME, seed=0), accepted.sample(9, seed=0))
    with pytest.raises(DataError, match="these draws belong to"):
        accepted.sample(9, BY_NAME | {"first": 9.0}, seed=0)
    assert th.diagnostics.predictive(post, sims, BY_NAME, prior=PRIOR, seed=0).names == NAMES
    with pytest.warns(th.ThriftyWarning, match=r"\(second; up to"):
        post.sample(5, BY_NAME | {"second": 40.0}, seed=0)


def test_sequential_methods_take_names():
    def simulate(a, b, rng):
        mean = np.array([a, b, a + b]) + 0.3 * rng.normal(size=3)
        return dict(zip(NAMES, mean, strict=True))

    campaign_free = {"n": 400, "seed": 3, "workers": 1}
    named = th.SMCABC(PRIOR).run(simulate, BY_NAME, engine=th.Inline(), **campaign_free)
    plain = th.SMCABC(PRIOR).run(simulate, X_O, engine=th.Inline(), **campaign_free)
    assert named.simulations.x_names == NAMES
    np.testing.assert_array_equal(named.x_o, plain.x_o)
    np.testing.assert_array_equal(named.samples, plain.samples)


@pytest.mark.parametrize("method", [th.ABC, th.NPE, th.NLE, th.SyntheticLikelihood])
def test_a_table_with_swapped_parameters_is_refused_by_every_method(method):
    """Names decide: the columns of such a table would be read as the other parameter."""
    rng = np.random.default_rng(0)
    theta = rng.uniform([0, 0], [1, 9], size=(200, 2))
    sims = th.Simulations.from_arrays(theta=theta, x=theta + rng.normal(size=(200, 2)), names=("gamma", "beta"))
    prior = th.Uniform([0, 0], [9, 9], names=["beta", "gamma"])
    with pytest.raises(DataError, match="simulations have parameters gamma, beta; the prior has beta, gamma") as caught:
        method(prior).fit(sims)
    assert caught.value.code == "wrong-prior"


def test_a_prior_without_names_takes_those_of_the_table():
    rng = np.random.default_rng(0)
    theta = rng.uniform(size=(400, 2))
    sims = th.Simulations.from_arrays(theta=theta, x=theta + rng.normal(size=(400, 2)), names=("gamma", "beta"))
    assert th.ABC(th.Uniform([0, 0], [1, 1])).fit(sims).names == ("gamma", "beta")
