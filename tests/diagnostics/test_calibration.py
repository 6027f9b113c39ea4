"""SBC, coverage, TARP, data use and local C2ST: right posteriors pass, five kinds of wrong ones do not."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty import diagnostics
from thrifty.diagnostics.calibration import calibrate
from thrifty.diagnostics.replicates import choose_runs
from thrifty.errors import DataError

CHECKS = ("sbc", "coverage", "tarp", "data_use", "local_c2st")
# which checks must see which fault; SBC and coverage are blind to an ignored x by construction
SEEN_BY = {
    "shifted": ("sbc", "tarp", "local_c2st"),
    "over-confident": ("sbc", "tarp", "local_c2st"),
    "unweighted": ("sbc", "tarp", "local_c2st"),
    "the prior": ("tarp", "data_use"),  # at an x_o near the prior's mean it is hardly wrong: local_c2st sees less
    "half blind": ("data_use",),
}


def p_values(world, posterior, seed, *, pairs=500, n=2000):
    """One campaign, one observation, all five checks on the same replicates."""
    rng = np.random.default_rng(seed)
    replicates = diagnostics.replicate(posterior, world.pool(n, rng), pairs=pairs, draws=100, seed=seed % 2**31)
    local = diagnostics.local_c2st(posterior, replicates, world.observation(rng), seed=1)
    averaged = (diagnostics.sbc, diagnostics.coverage, diagnostics.tarp, diagnostics.data_use)
    return [check.p_value for check in (*(check(replicates, seed=2) for check in averaged), local)]


@pytest.mark.parametrize("fault", SEEN_BY)
def test_wrong_posteriors_are_rejected(world, seed, fault):
    found = np.array([p_values(world, world.faults[fault], seed + i) for i in range(2)])
    which = [CHECKS.index(name) for name in SEEN_BY[fault]]
    assert (found[:, which] < 0.01).all()
    if "sbc" in SEEN_BY[fault]:  # highest-density regions hardly see a posterior that is moved by part of its width
        assert np.mean(found[:, 1] < 0.1) >= 0.5


def test_an_ignored_x_is_found_among_many_statistics(world, seed):
    """One of 60 statistics tells of theta_2, and the posterior has not looked at it."""
    rng = np.random.default_rng(seed)
    runs = world.pool(2000, rng)
    x = np.hstack([runs.x, rng.normal(size=(2000, 58)) @ np.diag(np.geomspace(1e-3, 1e3, 58))])
    wide = th.Simulations(theta=runs.theta, x=x, log_weights=runs.log_weights)

    class Narrow:
        def __init__(self, inner):
            self.inner = inner

        def sample(self, n, x_o, *, seed):
            return self.inner.sample(n, np.ravel(x_o)[:2], seed=seed)

    right, blind = (diagnostics.tarp(Narrow(world.faults[f]), wide) for f in ("right", "the prior"))
    assert right.p_value > 1e-3 and blind.p_value < 0.01
    assert diagnostics.data_use(Narrow(world.faults["right"]), wide).verdict == "trust"


def test_data_use_says_what_was_not_used(world, rng):
    result = diagnostics.data_use(world.faults["half blind"], world.pool(2000, rng))
    assert result.verdict == "do not trust"
    assert "posterior of theta_2 is not where x says" in result.reason and "x_2" in result.reason
    assert result.shares[0, 1] == pytest.approx(1 / (1 + world.NOISE**2), abs=0.12)  # R^2 of theta_2 by x_2


def test_right_posteriors_are_accepted(world, seed):
    found = np.array([p_values(world, world.faults["right"], seed + i, pairs=250, n=1500) for i in range(8)])
    assert (np.sum(found < 0.05, axis=0) <= 3).all()  # of 8; chance of more: 4e-4 per check
    assert (found > 1e-4).all()


def test_forgetting_the_weights_of_the_held_out_runs_rejects_a_right_posterior(world, seed):
    """The mutants: the same runs without their weights, or with their squares."""
    runs = world.pool(3000, np.random.default_rng(seed), k=0.25)  # squares keep an ESS of 1,100
    bare = runs.reweighted(np.zeros(len(runs)))
    squared = runs.reweighted(2 * runs.log_weights)
    right, *wrong = (diagnostics.sbc(world.faults["right"], table, pairs=1500) for table in (runs, bare, squared))
    assert right.p_value > 1e-3
    assert max(check.p_value for check in wrong) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["right", *SEEN_BY])
def test_size_and_power_over_200_seeds(world, seed, fault):
    found = np.array([p_values(world, world.faults[fault], seed + 1000 * i) for i in range(200)])
    share = dict(zip(CHECKS, np.mean(found < 0.05, axis=0).tolist(), strict=True))
    print(fault, share)
    if fault == "right":
        assert max(share.values()) <= 0.10  # twice the nominal level
    else:
        assert min(share[name] for name in SEEN_BY[fault]) >= 0.95
        assert share["coverage"] >= 0.8 or "sbc" not in SEEN_BY[fault]
        assert share["local_c2st"] >= 0.6


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k"), [(60, 0.5), (150, 0.5), (400, 0.5), (60, 0.0)])
def test_size_with_few_effective_runs(world, seed, n, k):
    """All runs with all their weights: ESS from 22 up. The size must hold there too."""
    found = []
    for i in range(200):
        runs = world.pool(n, np.random.default_rng(seed + 1000 * i), k=k)
        replicates = diagnostics.replicate(world.Exact(), runs, pairs=500, draws=50, seed=i)
        checks = (diagnostics.sbc, diagnostics.coverage, diagnostics.tarp, diagnostics.data_use)
        found.append([check(replicates, seed=i).p_value for check in checks])
    share = np.mean(np.array(found) < 0.05, axis=0)
    print(n, k, dict(zip(CHECKS, share.tolist(), strict=False)))
    assert share.max() <= 0.10


def test_held_out_runs_agree_with_fresh_prior_runs(world, rng):
    """Weighted ranks of campaign runs and plain ranks of fresh prior runs have one distribution, right or wrong."""
    for name in ("right", "unweighted"):
        posterior = world.faults[name]
        held_out = diagnostics.sbc(posterior, world.pool(3000, rng), pairs=1000, seed=1)
        fresh = diagnostics.sbc(posterior, world.pool(1000, rng, k=0.0), pairs=1000, seed=2)
        weights = th.normalise(held_out.log_weights)
        result = th.metrics.ks(held_out.ranks, fresh.ranks, weights)
        assert (result.p_value > 1e-3).all()
        assert (held_out.verdict == "trust") == (fresh.verdict == "trust") == (name == "right")
    bare = th.metrics.ks(held_out.ranks, diagnostics.sbc(world.faults["right"], world.pool(1000, rng, k=0.0)).ranks)
    assert bare.p_value[0] < 1e-6  # the comparison sees a difference where there is one


def test_coverage_at_levels(world, rng):
    """Half as wide in two dimensions: a 95 % region holds what a wider one would, 1 - exp(-r^2/2) with r^2/4."""
    result = diagnostics.coverage(world.Exact(width=0.5), world.pool(3000, rng), pairs=1000)
    share, se = result.at([0.5, 0.8, 0.95])
    expected = 1 - (1 - np.array([0.5, 0.8, 0.95])) ** 0.25
    assert (np.abs(share - expected) < 5 * np.maximum(se, 1e-3) + 0.01).all()  # 100 draws resolve 1 %


def test_size_with_weights_that_go_with_the_rank(seed):
    """Heavy weights at high ranks: the band must widen there, or half of all right posteriors are rejected."""
    hits = 0
    for i in range(60):
        rng = np.random.default_rng(seed + i)
        # density 1.8 - 1.6 u, by its inverse distribution function; the weights restore the uniform law
        ranks = (1.8 - np.sqrt(1.8**2 - 3.2 * rng.random(600))) / 1.6
        result = calibrate("sbc", ranks[:, None], -np.log(1.8 - 1.6 * ranks), ("u",))
        hits += result.p_value < 0.05
    assert hits <= 11  # of 60; more has chance 1e-4 at the nominal 5 %


def test_bands_hold_uniform_ranks_at_their_level(seed):
    inside = 0
    for i in range(60):
        rng = np.random.default_rng(seed + i)
        result = calibrate("sbc", rng.random((300, 2)), 0.5 * rng.normal(size=300), ("a", "b"), level=0.9)
        inside += bool(((result.ecdf >= result.low) & (result.ecdf <= result.high)).all())
    assert 44 <= inside <= 60  # of 60 at 90 %, Bonferroni making it a little more


def test_choosing_runs_by_weight_keeps_expectations(rng):
    values = rng.normal(size=4000)
    log_weights = 1.2 * values  # E under the weights is 1.2
    estimates = []
    for _ in range(40):
        chosen, adjusted = choose_runs(log_weights, 400, rng)
        weights = th.normalise(adjusted)
        estimates.append(weights @ values[chosen])
        assert abs(len(chosen) - 400) <= 1
    whole = th.normalise(log_weights) @ values
    assert abs(np.mean(estimates) - whole) < 5 * np.std(estimates) / np.sqrt(40)
    assert th.ess(adjusted) > 2 * 0.1 * 4000 * np.exp(-1.44)  # far more than 400 runs chosen evenly


def test_batched_sampling_is_used_where_it_exists(world, rng):
    class Batched(world.Exact):
        def sample(self, n, x_o, *, seed):
            raise AssertionError("one by one")

        def sample_batched(self, n, x, *, seed):
            return np.stack([world.Exact.sample(self, n, x_i, seed=seed + i) for i, x_i in enumerate(x)])

    assert diagnostics.sbc(Batched(), world.pool(400, rng)).ess > 50


class Wide:
    """Draws of three parameters where there are two."""

    def sample(self, n, x_o, *, seed):
        return np.zeros((n, 3))

    def log_prob(self, theta, x_o):
        return np.zeros(len(theta))


class HalfNan:
    """Every second draw, or every second density, is not a number."""

    def __init__(self, *, draws):
        self.draws = draws

    def sample(self, n, x_o, *, seed):
        draws = np.random.default_rng(seed).normal(size=(n, 2))
        draws[::2] = np.nan if self.draws else draws[::2]
        return draws

    def log_prob(self, theta, x_o):
        return np.where(np.arange(len(theta)) % 2, np.nan, 0.0)


class SbiStyle:
    """sbi's call: sample((n,), x=...), no seed."""

    def sample(self, sample_shape, x=None):
        return np.zeros((sample_shape[0], 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w, r: diagnostics.sbc(w.Exact(), w.pool(10, r)), "10 valid held-out runs"),
        (lambda w, r: diagnostics.sbc(w.Exact(), w.pool(50, r), draws=3), "draws must be a whole number >= 10"),
        (lambda w, r: diagnostics.sbc(w.Exact()), "held-out simulations are needed"),
        (lambda w, r: diagnostics.sbc(Wide(), w.pool(50, r)), r"draws have shape \(100, 3\), expected \(100, 2\)"),
        (
            lambda w, r: diagnostics.coverage(diagnostics.replicate(w.Exact(), w.pool(50, r), density=False)),
            "coverage needs log densities",
        ),
        (lambda w, r: diagnostics.sbc(HalfNan(draws=True), w.pool(50, r)), "2500 of 5000 posterior draws are NaN"),
        (lambda w, r: diagnostics.coverage(HalfNan(draws=False), w.pool(50, r)), "log_prob are NaN"),
        (
            lambda w, r: diagnostics.local_c2st(
                HalfNan(draws=True), diagnostics.replicate(w.Exact(), w.pool(50, r)), [0.0, 0.0]
            ),
            "500 of 1000 posterior draws are NaN",
        ),
        (lambda w, r: diagnostics.local_c2st(w.Exact(), w.pool(50, r), [0.0]), "observed data has 1 values"),
        (lambda w, r: diagnostics.local_c2st(w.Exact(), w.pool(50, r), [0.0, np.nan]), "NaN in statistic 2 of 2"),
        (lambda w, r: diagnostics.local_ess(w.Exact(), w.pool(50, r), [0.0]), "observed data has 1 values"),
        (lambda w, r: diagnostics.local_ess(w.Exact(), w.pool(50, r), "x"), "not an array of numbers"),
        (lambda w, r: diagnostics.local_ess(HalfNan(draws=False), w.pool(50, r), [0.0, 0.0]), "log_prob are NaN"),
        (lambda w, r: diagnostics.sbc(w.Exact(), w.pool(50, r), level=95), "level must lie between 0 and 1, got 95"),
        (lambda w, r: diagnostics.tarp(w.Exact(), w.pool(50, r), level="95"), "level must lie between 0 and 1"),
        (lambda w, r: diagnostics.sbc(w.pool(50, r), w.Exact()), "got a table of simulations"),
        (lambda w, r: diagnostics.sbc(w.Exact(), np.zeros((50, 2))), "simulations must be th.Simulations, got ndarray"),
        (
            lambda w, r: diagnostics.local_ess(w.Exact(), [0.0, 0.0], w.pool(50, r)),
            "simulations must be th.Simulations",
        ),
        (
            lambda w, r: diagnostics.local_c2st(w.Exact(), [0.0, 0.0], w.pool(50, r)),
            "simulations must be th.Simulations",
        ),
        (
            lambda w, r: diagnostics.predictive(w.Exact(), [0.0, 0.0], w.pool(50, r)),
            "simulations must be th.Simulations",
        ),
        (lambda w, r: diagnostics.misspecification([0.0, 0.0], w.pool(50, r)), "simulations must be th.Simulations"),
        (lambda w, r: diagnostics.cost_check(w.pool(50, r), lambda t: t[:, 0]), "simulations must be th.Simulations"),
        (lambda w, r: diagnostics.sbc(object(), w.pool(50, r)), "object is not a posterior"),
        (lambda w, r: diagnostics.sbc(SbiStyle(), w.pool(50, r)), r"cannot be called as sample\(n, x_o, seed=\)"),
        (lambda w, r: th.diagnose(SbiStyle(), w.pool(50, r), [0.0, 0.0]), "manual_seed"),
        (lambda w, r: th.diagnose(w.pool(50, r), w.Exact(), [0.0, 0.0]), "the posterior was expected first"),
    ],
)
def test_bad_input(world, rng, call, message):
    with pytest.raises(DataError, match=message):
        call(world, rng)


def test_small_p_values_are_those_of_simulation(rng):
    """60,000 sets of 300 uniform ranks: a Gaussian tail, the mutant, gives a sixth of the probability of 1 in 5,000."""
    from thrifty.diagnostics.calibration import _exponential_tail, _null_suprema
    from thrifty.metrics.ks import tail_probability

    n = 300
    levels = np.linspace(5 / n, 1 - 5 / n, 99)
    null = _null_suprema(np.full(n, 1 / n), levels)
    sd = np.sqrt(levels * (1 - levels) / n)
    found = []
    for _ in range(600):
        ranks = np.sort(rng.random((100, n)), axis=1)
        curves = np.array([np.searchsorted(row, levels, side="right") for row in ranks]) / n
        found.append(np.abs((curves - levels) / sd).max(1))
    for probability in (2e-3, 5e-4, 2e-4):
        statistic = float(np.quantile(np.concatenate(found), 1 - probability))
        assert 0.6 < _exponential_tail(statistic, null) / probability < 2.5
    assert tail_probability(statistic, null, 1.0) < 0.4 * probability
