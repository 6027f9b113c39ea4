"""Methods that know the prior through the weights refuse another one, and give its posterior after `th.reweight`."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import DataError

PRIOR = th.Uniform([0.0, 0.0], [1.0, 1.0], names=["a", "b"])
INFORMATIVE = th.Normal([0.2, 0.2], [0.1, 0.1], names=["a", "b"])  # 4.5 % of it lies outside of PRIOR
CUT = th.truncate(INFORMATIVE, [0.0, 0.0], [1.0, 1.0])
X_O = [0.5, 0.5]


def make_runs(n=4000, seed=0, m=1):
    rng = np.random.default_rng(seed)
    q = th.CostAware(PRIOR, lambda theta: np.exp(3 * theta[:, 0]), th.Power(0.5))
    theta = q.sample(n, rng).theta
    x = theta[:, None] + 0.1 * rng.normal(size=(n, m, 2))
    table = th.Simulations.from_arrays(theta=theta, x=x if m > 1 else x[:, 0], proposal=q, names=PRIOR.names, m=m)
    return table


def list_methods(prior):
    small = {"network": th.MixtureDensity(2), "training": th.Training(max_epochs=2, progress=False)}
    yield th.ABC(prior)
    yield th.NPE(prior, **small)
    yield th.NPE(prior, correction="after", **small)
    yield th.Ensemble(th.NPE(prior, **small), members=2)
    yield th.FMPE(prior, training=th.Training(max_epochs=2, progress=False))


@pytest.mark.parametrize(
    "prior",
    [
        INFORMATIVE,
        th.Uniform([0.0, 0.0], [2.0, 2.0], names=["a", "b"]),
        th.Uniform([0.0, 0.0], [0.5, 1.0], names=["a", "b"]),
        th.LogUniform([1e-3, 1e-3], [1.0, 1.0], names=["a", "b"]),
    ],
    ids=["normal", "wider", "narrower", "other shape"],
)
def test_another_prior_is_refused(prior):
    runs = make_runs(400)
    for method in list_methods(prior):
        with pytest.raises(DataError, match=r"th\.reweight\(simulations, prior\)") as caught:
            method.fit(runs)
        assert caught.value.code == "wrong-prior"


def test_pointwise_likelihoods_refuse_it_and_surrogates_need_no_weights():
    runs = make_runs(300, m=20)
    with pytest.raises(DataError) as caught:
        th.SyntheticLikelihood(INFORMATIVE, how="pointwise").fit(runs)
    assert caught.value.code == "wrong-prior"
    with pytest.raises(DataError) as caught:
        th.ScoringRule(INFORMATIVE, how="pointwise").fit(runs)
    assert caught.value.code == "wrong-prior"
    cut = th.truncate(INFORMATIVE, 0, 1)
    assert th.SyntheticLikelihood(cut, how="regression").fit(runs) is not None


def test_the_same_prior_by_another_name_passes():
    scipy_stats = pytest.importorskip("scipy.stats")
    again = th.Independent({"a": scipy_stats.uniform(0, 1), "b": scipy_stats.uniform(0, 1)})
    for prior in (PRIOR, th.Uniform([0.0, 0.0], [1.0, 1.0]), again):
        th.ABC(prior).fit(make_runs(400))


def test_without_weights_any_prior_is_used():
    small = {"network": th.MixtureDensity(2), "training": th.Training(max_epochs=2, progress=False)}
    narrow = th.Uniform([0.0, 0.0], [1.0, 1.0], names=["a", "b"])
    runs = make_runs(200)
    half = runs[(runs.theta < 0.999).all(1)]
    th.NLE(th.truncate(INFORMATIVE, 0, 1), **small).fit(half)
    th.NPE(th.truncate(INFORMATIVE, 0, 1), correction="atomic", **small).fit(half)
    th.ABC(narrow).fit(make_runs(400))


def test_a_table_without_a_known_proposal_is_left():
    runs = make_runs(400)
    unknown = th.Simulations.from_arrays(theta=runs.theta, x=runs.x, log_weights=runs.log_weights, names=runs.names)
    th.ABC(INFORMATIVE).fit(unknown)


def test_the_way_out_gives_the_posterior_under_the_new_prior():
    runs = make_runs(20_000)
    with pytest.raises(DataError, match=r"th\.truncate\(prior, \[0, 0\], \[1, 1\]\)"):
        th.ABC(INFORMATIVE).fit(runs)
    with pytest.raises(DataError, match=r"th\.truncate\(new_prior, \[0, 0\], \[1, 1\]\)"):
        th.reweight(runs, INFORMATIVE)
    prior = th.truncate(INFORMATIVE, [0, 0], [1, 1])
    again = th.reweight(runs, prior)
    found = th.ABC(prior, quantile=0.005, adjust="local").fit(again).accepted(X_O)
    # normal prior 0.2 ± 0.1 and noise 0.1: the mean is 0.35, the sd 0.0707; without new weights it is 0.5
    assert np.all(np.abs(found.mean - 0.35) < 5 * found.mean_se + 0.005)
    assert np.all(np.abs(found.sd - 0.0707) < 5 * found.sd_se + 0.005)


def test_reweighted_runs_know_their_prior_also_from_a_file(tmp_path):
    prior = th.truncate(INFORMATIVE, 0, 1)
    timed = PRIOR.sample(60, np.random.default_rng(1))
    cost = th.fit_cost(timed, np.exp(2 * timed[:, 0]) * np.random.default_rng(2).lognormal(0, 0.05, 60))
    q = th.CostAware(PRIOR, cost, th.Power(0.5))
    drawn = q.sample(400, np.random.default_rng(0))
    runs = th.Simulations.from_arrays(theta=drawn.theta, x=drawn.theta, proposal=q, names=PRIOR.names)
    again = th.reweight(runs, prior)
    again.to_npz(tmp_path / "runs.npz")
    read = th.Simulations.from_npz(tmp_path / "runs.npz")
    for table in (again, read):
        np.testing.assert_allclose(table.proposal.log_weight(runs.theta), again.log_weights, atol=1e-9)
        with pytest.raises(DataError, match="wrong-prior"):
            th.ABC(PRIOR).fit(table)
        th.ABC(prior).fit(table)
    narrower = th.Uniform([0.1, 0.1], [0.6, 0.6], names=["a", "b"])
    twice, once = th.reweight(read, narrower), th.reweight(runs, narrower)
    inside = np.isfinite(once.log_weights)
    assert np.ptp(twice.log_weights[inside] - once.log_weights[inside]) < 1e-9  # the prior in between cancels


def test_a_density_that_is_infinite_at_its_edge_is_the_same_prior():
    from scipy import stats

    given = [th.as_prior({"p": stats.beta(0.1, 0.1)}) for _ in range(2)]
    rng = np.random.default_rng(0)
    theta = given[0].sample(400, rng)
    runs = th.Simulations.from_arrays(
        theta=theta, x=theta + 0.1 * rng.normal(size=theta.shape), proposal=th.Pool([(400, given[0])], given[0])
    )
    th.ABC(given[1]).fit(runs)
    with pytest.raises(DataError, match="prior"):
        th.ABC({"p": stats.beta(0.2, 0.1)}).fit(runs)


def test_a_prior_that_is_given_as_the_old_one_keeps_the_check():
    runs = make_runs(400)
    moved = th.reweight(runs, CUT, old_prior=PRIOR)
    with pytest.raises(DataError, match="prior"):
        th.ABC(PRIOR).fit(moved)
    th.ABC(CUT).fit(moved)
