"""Posteriors that are asked too early, or as in other packages, say how they are asked here."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import ConfigError, DataError

PRIOR = th.Uniform([0.0, 0.0], [1.0, 1.0], names=["a", "b"])
X_O = {"u": 0.5, "v": 0.4}


def simulator(a, b, rng):
    return {"u": a + 0.1 * rng.normal(), "v": b + 0.1 * rng.normal()}


@pytest.fixture(scope="module")
def runs():
    return th.simulate(simulator, PRIOR, 300, engine=th.Inline())


@pytest.mark.parametrize("name", ["sample", "log_prob", "plot"])
@pytest.mark.parametrize(
    "method",
    [th.ABC(PRIOR), th.NPE(PRIOR), th.NLE(PRIOR), th.NRE(PRIOR), th.FMPE(PRIOR), th.Ensemble(th.NPE(PRIOR)),
     th.SyntheticLikelihood(PRIOR), th.ScoringRule(PRIOR)],
    ids=lambda method: type(method).__name__,
)  # fmt: skip
def test_before_fit(method, name):
    with pytest.raises(AttributeError, match=rf"fit it first.*posterior\.{name}"):
        getattr(method, name)
    assert not hasattr(method, name)
    with pytest.raises(AttributeError, match="no attribute 'smaple'"):
        method.smaple  # noqa: B018


def test_a_campaign_is_no_table(tmp_path):
    campaign = th.Campaign(tmp_path / "c", simulator, PRIOR, seed=0)
    for method in (th.ABC(PRIOR), th.NPE(PRIOR), th.NLE(PRIOR), th.SyntheticLikelihood(PRIOR), th.ScoringRule(PRIOR)):
        with pytest.raises(DataError, match=r"campaign\.simulations\(\)"):
            method.fit(campaign)


def test_sample_as_elsewhere(runs):
    posterior = th.ABC(PRIOR).fit(runs)
    for ask in (
        lambda: posterior.sample((1000,), x=X_O),
        lambda: posterior.sample((1000,), X_O),
        lambda: posterior.sample(X_O, 3),
        lambda: posterior.sample(3, x=X_O),
        posterior.sample,
    ):
        with pytest.raises(ConfigError, match=r"posterior\.sample\(1000, x_o, seed=0\)"):
            ask()
    assert posterior.sample(np.int64(3), X_O).shape == posterior.sample(n=3, x_o=X_O).shape == (3, 2)


def test_a_mean_without_an_observation(runs):
    posterior = th.ABC(PRIOR).fit(runs)
    with pytest.raises(AttributeError, match=r"posterior\.sample\(1000, x_o\)\.mean\(axis=0\)"):
        posterior.mean(X_O)
    assert not hasattr(posterior, "mean")
    assert posterior.accepted(X_O).mean.shape == (2,), "weighted draws belong to one observation"


def test_runs_at_draws_of_a_prior(runs):
    assert len(runs) == 300 and runs.names == ("a", "b")
    again = th.simulate(simulator, PRIOR, n=300, engine=th.Inline())
    np.testing.assert_array_equal(again.theta, runs.theta)
    assert th.simulate(simulator, PRIOR, 300, seed=1, engine=th.Inline()).theta[0, 0] != runs.theta[0, 0]
    with pytest.raises(DataError, match=r"th\.simulate\(simulator, prior, 1000\)"):
        th.simulate(simulator, PRIOR, engine=th.Inline())
    with pytest.raises(ConfigError, match="n = 30"):
        th.simulate(simulator, PRIOR.sample(5, 0), 30, engine=th.Inline())
    with pytest.raises(DataError, match="wrong-prior"):
        th.ABC(th.Uniform([0, 0], [2, 2], names=["a", "b"])).fit(runs)


def test_text_is_no_number(runs):
    posterior = th.ABC(PRIOR).fit(runs)
    for x_o in (["0.5", "0.4"], np.array(["0.5", "0.4"]), [0.5, "0.4"], "0.5"):
        with pytest.raises(DataError, match="text"):
            posterior.sample(3, x_o)


def test_what_is_not_finite_is_named(runs):
    posterior = th.ABC(PRIOR).fit(runs)
    with pytest.raises(DataError, match=r"NaN in v\b"):
        posterior.sample(3, [0.5, np.nan])
    plain = th.ABC(PRIOR).fit(th.Simulations.from_arrays(theta=runs.theta, x=runs.x))
    with pytest.raises(DataError, match="NaN in statistic 2 of 2"):
        plain.sample(3, [0.5, np.nan])


def test_no_internal_name_where_there_is_no_evidence():
    table = th.simulate(simulator, PRIOR, 120, engine=th.Inline())
    small = {"network": th.MixtureDensity(2), "training": th.Training(max_epochs=2, progress=False)}
    with pytest.raises(ConfigError, match=r"a posterior of th\.NPE has no evidence"):
        th.NPE(PRIOR, **small).fit(table).log_evidence(X_O)


def test_a_count_with_a_fraction_is_named():
    def count(theta, rng):
        return {"peak": float(rng.poisson(20 + 30 * theta[0])), "level": theta[1] + 0.1 * rng.normal()}

    table = th.simulate(count, th.Draws(PRIOR.sample(200, 0)), engine=th.Inline())
    small = {"network": th.MixtureDensity(2), "training": th.Training(max_epochs=2, progress=False)}
    posterior = th.NLE(PRIOR, **small).fit(table)
    with pytest.warns(th.ThriftyWarning, match="peak: the observed value lies between"):
        posterior.sample(5, {"peak": 30.5, "level": 0.5})
    posterior.sample(5, {"peak": 30.0, "level": 0.5})  # warnings are errors here
