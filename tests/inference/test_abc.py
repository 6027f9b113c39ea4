"""Rejection ABC on weighted tables: what is accepted, what it weighs, what it says when it cannot."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import ConfigError, DataError, InferenceError, ThriftyError


def table(n, rng, *, k=0.0, m=1, noise=1.0):
    """theta ~ N(0, 1) under cost exp(theta), x = theta + noise: the proposal is N(-k, 1)."""
    theta = rng.normal(-k, 1, (n, 1))
    x = theta[:, None] + noise * rng.normal(size=(n, m, 1))
    return th.Simulations.from_arrays(theta=theta, x=x if m > 1 else x[:, 0], log_weights=k * theta[:, 0], m=m)


def test_quantile_is_a_share_of_prior_mass(rng):
    sims = table(20_000, rng, k=1.0)
    post = th.ABC(quantile=0.03).fit(sims)
    d, w = post.distances([0.5]), np.exp(sims.log_weights)
    epsilon = post.accepted([0.5]).epsilon
    inside = d <= epsilon
    assert w[inside].sum() / w.sum() >= 0.03
    assert w[d < epsilon].sum() / w.sum() < 0.03
    # the share of runs is another number: the mutant that counts runs
    assert abs(inside.mean() - 0.03) > 0.003


def test_n_accept_counts_runs_and_epsilon_is_inclusive(rng):
    sims = table(2_000, rng)
    assert len(th.ABC(n_accept=50).fit(sims).accepted([0.0])) == 50
    post = th.ABC(n_accept=50).fit(sims).accepted([0.0])
    assert len(th.ABC(epsilon=post.epsilon).fit(sims).accepted([0.0])) == 50


def test_accepted_weights_are_those_of_the_table(rng):
    sims = table(3_000, rng, k=0.5)
    post = th.ABC(quantile=0.1).fit(sims).accepted([1.0])
    assert np.array_equal(post.log_weights, sims.log_weights[post.index])
    assert np.array_equal(post.theta, sims.theta[post.index])


def test_zero_accepted_names_the_nearest_and_an_epsilon_that_accepts_100(rng):
    sims = table(1_000, rng)
    post = th.ABC(epsilon=1e-9, distance=th.distances.Euclidean([1.0])).fit(sims)
    with pytest.raises(InferenceError) as caught:
        post.accepted([0.5])
    error = caught.value
    nearest = np.abs(sims.x[:, 0] - 0.5).min()
    assert error.code == "too-few-runs"
    assert f"{nearest:.4g}" in error.what and "1,000 simulations" in error.what
    suggested = float(error.fix.split("epsilon = ")[1].split()[0])
    assert len(th.ABC(epsilon=suggested, distance=th.distances.Euclidean([1.0])).fit(sims).accepted([0.5])) >= 100
    assert len(th.ABC(epsilon=0.99 * suggested, distance=th.distances.Euclidean([1.0])).fit(sims).accepted([0.5])) < 105


def test_several_realisations_are_several_chances(rng):
    """m runs per theta weigh w · hits/m: the same posterior as m single-run rows of weight w/m."""
    sims = table(2_000, rng, k=0.5, m=5)
    theta, x, log_weights = sims.pairs()
    flat = th.Simulations.from_arrays(theta=theta, x=x, log_weights=log_weights)
    distance = th.distances.Euclidean([1.0])
    grouped = th.ABC(epsilon=0.2, distance=distance).fit(sims).accepted([0.7])
    single = th.ABC(epsilon=0.2, distance=distance).fit(flat).accepted([0.7])
    assert np.allclose(grouped.mean, single.mean) and np.allclose(grouped.sd, single.sd, rtol=1e-3)
    assert len(np.unique(grouped.index)) == len(grouped)
    assert grouped.ess < single.ess  # hits of one theta are not independent draws


def test_adjusted_pairs_of_one_run_count_once(rng):
    sims = table(1_000, rng, m=8, noise=0.3)
    post = th.ABC(quantile=0.2, adjust="linear").fit(sims).accepted([0.2])
    assert len(post) > post.ess
    assert post.ess <= len(np.unique(post.index))


@pytest.mark.parametrize("adjust", ["linear", "local"])
def test_adjustment_recovers_the_exact_posterior_at_a_loose_tolerance(adjust, rng):
    """Linear and Gaussian: adjustment is exact at any epsilon; without it the spread is far too wide."""
    sims = table(30_000, rng, k=0.5, noise=0.5)
    plain = th.ABC(th.Normal(0, 1), quantile=0.4).fit(sims).accepted([1.0])
    post = th.ABC(th.Normal(0, 1), quantile=0.4, adjust=adjust).fit(sims).accepted([1.0])
    truth, sd = 1 / 1.25, np.sqrt(0.25 / 1.25)
    assert post.ess > 200
    assert abs(post.mean[0] - truth) < 5 * post.mean_se[0]
    assert abs(post.sd[0] - sd) < 5 * post.sd_se[0]
    assert abs(plain.sd[0] - sd) > 5 * plain.sd_se[0]


def test_adjustment_without_weights_is_the_mutant_that_fails(rng):
    """A curved relation: the slope depends on where the draws are, so forgetting w moves the posterior."""
    theta = rng.normal(-1.0, 1, (40_000, 1))  # k = 1 under cost exp(theta)
    sims = th.Simulations.from_arrays(theta=theta, x=theta + rng.normal(size=theta.shape), log_weights=theta[:, 0])
    right = th.ABC(quantile=0.2, adjust="local").fit(sims).accepted([1.5])
    wrong = th.ABC(quantile=0.2, adjust="local").fit(sims.reweighted(np.zeros(len(sims)))).accepted([1.5])
    assert abs(right.mean[0] - 0.75) < 5 * right.mean_se[0]
    assert abs(wrong.mean[0] - 0.75) > 5 * wrong.mean_se[0]


def test_adjusted_parameters_stay_inside_the_bounds(rng):
    prior = th.Uniform([0.0, 0.0], [1.0, 10.0])
    theta = prior.sample(5_000, rng)
    sims = th.Simulations.from_arrays(theta=theta, x=theta + rng.normal(size=theta.shape) * [0.3, 3.0])
    post = th.ABC(prior, quantile=0.2, adjust="local").fit(sims).accepted([0.02, 9.9])
    assert (post.theta >= prior.low).all() and (post.theta <= prior.high).all()
    assert post.theta.min() < 0.1  # moved towards the edge, not cut off


def test_one_fit_serves_any_observation_and_leaves_the_table_alone(rng):
    sims = table(20_000, rng)
    post = th.ABC(quantile=0.02).fit(sims)
    means = [post.accepted([x]).mean[0] for x in (-1.0, 0.0, 2.0)]
    for mean, x in zip(means, (-1.0, 0.0, 2.0), strict=True):
        accepted = post.accepted([x])
        assert abs(mean - x / 2) < 5 * accepted.mean_se[0]
    assert post.x.base is sims.x or np.shares_memory(post.x, sims.x)


def test_failed_runs_are_never_accepted_and_their_mass_is_told(rng):
    sims = table(2_000, rng)
    x = sims.x.copy()
    x[:100] = np.nan
    broken = th.Simulations.from_arrays(theta=sims.theta, x=x)
    with pytest.warns(th.ThriftyWarning, match="5.0% of prior mass failed"):
        post = th.ABC(n_accept=500).fit(broken)
    assert np.isfinite(post.accepted([0.0]).theta).all() and len(post.x) == 1_900


def test_the_seed_of_draws_may_be_left_out(rng):
    post = th.ABC(n_accept=200).fit(table(1_000, rng))
    for one in (post, post.accepted([0.0])):
        assert np.array_equal(one.sample(10, [0.0]), one.sample(10, [0.0], seed=0))
        assert not np.array_equal(one.sample(10, [0.0]), one.sample(10, [0.0], seed=1))


def test_observation_outside_all_simulations_warns(rng):
    with pytest.warns(th.ThriftyWarning, match=r"outside all 500 simulations in 1 of 1 statistics"):
        th.ABC(n_accept=50).fit(table(500, rng)).accepted([40.0])
    with pytest.warns(th.ThriftyWarning, match=r"only \d+ effective runs"):
        th.ABC(n_accept=5).fit(table(500, rng)).accepted([0.0])


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda s: th.ABC(epsilon=0.1, quantile=0.1), ConfigError, "epsilon and quantile were given; choose one"),
        (lambda s: th.ABC(epsilon=-1.0), ConfigError, "epsilon must be a finite number >= 0, got -1"),
        (lambda s: th.ABC(epsilon=float("nan")), ConfigError, "epsilon must be a finite number"),
        (lambda s: th.ABC(quantile=0.0), ConfigError, "quantile must lie in"),
        (lambda s: th.ABC(quantile=1.5), ConfigError, "quantile must lie in"),
        (lambda s: th.ABC(n_accept=0), ConfigError, "n_accept must be a whole number >= 1"),
        (lambda s: th.ABC(n_accept=10_000).fit(s).accepted([0.0]), ConfigError, "n_accept = 10000 of 500"),
        (lambda s: th.ABC(adjust="ridge"), ConfigError, "adjust must be one of none, linear, local"),  # type: ignore
        (lambda s: th.ABC(adjust="local", distance=th.distances.Energy()), ConfigError, "compares raw data sets"),
        (lambda s: th.ABC(th.Uniform([0, 0], [1, 1])).fit(s), DataError, "1 parameters, the prior has 2"),
        (lambda s: th.ABC().fit(s).accepted([0.0, 1.0]), DataError, r"2 observations of shape \(1,\), expected one"),
        (lambda s: th.ABC().fit(s).accepted([np.nan]), DataError, "observed data has NaN in statistic 1 of 1"),
        (lambda s: th.ABC(n_accept=2, adjust="linear").fit(s).accepted([0.0]), InferenceError, "effective accepted"),
        (lambda s: th.ABC(n_accept=50).fit(s).accepted([0.0]).sample(10, [1.0], seed=0), DataError, "belong to x_o"),
    ],
)
def test_bad_input_gets_one_clear_message(make, kind, message, rng):
    with pytest.raises(kind, match=message) as caught:
        make(table(500, rng))
    assert isinstance(caught.value, ThriftyError) and caught.value.code


def test_all_invalid_is_refused(rng):
    sims = th.Simulations.from_arrays(theta=rng.normal(size=(5, 1)), x=np.full((5, 1), np.nan))
    with pytest.raises(DataError, match="none of 5 simulations is valid"):
        th.ABC().fit(sims)


def test_data_set_distances_compare_all_realisations(rng):
    """Raw data: the energy posterior of a Gaussian mean from 40 draws is close to the one from its mean."""
    prior = th.Uniform([-3.0], [3.0])
    theta = prior.sample(4_000, rng)
    x = theta[:, None] + rng.normal(size=(4_000, 40, 1))
    sims = th.Simulations.from_arrays(theta=theta, x=x, m=40)
    x_o = 0.8 + rng.normal(size=(40, 1))
    for distance in (th.distances.Energy(), th.distances.MMD(), th.distances.Wasserstein()):
        post = th.ABC(prior, quantile=0.02, distance=distance).fit(sims).accepted(x_o)
        assert abs(post.mean[0] - x_o.mean()) < 5 * (post.mean_se[0] + 0.05)
        assert post.sd[0] < 0.5
    with pytest.raises(DataError, match="observed data set"):
        th.ABC(distance=th.distances.Energy()).fit(sims).accepted(np.zeros((40, 2)))


def test_density_integrates_to_one_and_respects_bounds(rng):
    prior = th.Uniform([0.0], [2.0])
    theta = prior.sample(5_000, rng)
    sims = th.Simulations.from_arrays(theta=theta, x=theta + 0.3 * rng.normal(size=theta.shape))
    post = th.ABC(prior, quantile=0.1).fit(sims)
    grid = np.linspace(1e-4, 2 - 1e-4, 4_001)[:, None]
    density = np.exp(post.log_prob(grid, [0.3]))
    assert np.trapezoid(density, grid[:, 0]) == pytest.approx(1, abs=0.01)
    assert np.isneginf(post.log_prob([[2.5]], [0.3])[0])


def test_resampling_keeps_the_weighted_mean(rng):
    post = th.ABC(quantile=0.1).fit(table(20_000, rng, k=1.0)).accepted([1.0])
    draws = post.sample(50_000, seed=1)
    assert abs(draws.mean() - post.mean[0]) < 1e-3  # systematic: no Monte Carlo error to speak of
    assert np.array_equal(draws, post.sample(50_000, seed=1))


@pytest.mark.parametrize(
    "distance", [None, th.distances.Mahalanobis(), th.distances.Energy(), th.distances.MMD(0.7)], ids=str
)
def test_save_and_load_exactly(distance, tmp_path, rng):
    prior = th.Normal(0, 1)
    sims = table(500, rng, k=0.5, m=4)
    x_o = np.zeros((4, 1)) if distance is not None and distance.datasets else [0.3]
    post = th.ABC(prior, quantile=0.2, distance=distance).fit(sims)
    post.save(tmp_path / "abc.npz")
    again = th.load_posterior(tmp_path / "abc.npz")
    assert np.array_equal(post.sample(100, x_o, seed=3), again.sample(100, x_o, seed=3))
    accepted = post.accepted(x_o)
    accepted.save(tmp_path / "draws.npz")
    loaded = th.load_posterior(tmp_path / "draws.npz")
    assert np.array_equal(accepted.theta, loaded.theta) and loaded.epsilon == accepted.epsilon  # type: ignore


def test_own_distances_are_refused_on_saving_and_damage_on_loading(tmp_path, rng):
    post = th.ABC(quantile=0.2, distance=lambda x, y: np.abs(x - y)[:, 0]).fit(table(500, rng))
    with pytest.raises(ConfigError, match="distance '<lambda>' of your own cannot be saved"):
        post.save(tmp_path / "own.npz")
    assert not (tmp_path / "own.npz").exists()
    th.ABC(quantile=0.2).fit(table(500, rng)).save(tmp_path / "abc.npz")
    data = bytearray((tmp_path / "abc.npz").read_bytes())
    (tmp_path / "cut.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(ThriftyError):
        th.load_posterior(tmp_path / "cut.npz")


def test_million_rows_cost_less_than_twice_the_table(rng):
    """12 statistics x 200,000 rows here (a million in benchmarks/abc.py): memory, and time against one plain pass."""
    n = 200_000
    x = rng.standard_normal((n, 12))
    sims = th.Simulations.from_arrays(theta=rng.random((n, 2)), x=x, log_weights=rng.random(n))
    tracemalloc.start()
    start = tracemalloc.get_traced_memory()[0]
    post = th.ABC(quantile=0.001).fit(sims)
    post.accepted(np.zeros(12))
    peak = tracemalloc.get_traced_memory()[1] - start
    tracemalloc.stop()
    assert peak < x.nbytes  # table and peak together: below twice the table
    begin = time.process_time()
    post.accepted(np.zeros(12))
    ours = time.process_time() - begin
    begin = time.process_time()
    np.sort(np.sqrt((((x - 0.0) / post.distance.scale) ** 2).sum(1)))  # type: ignore[attr-defined]
    plain = time.process_time() - begin
    assert ours < 3 * plain
