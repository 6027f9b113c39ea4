"""Weight arithmetic against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import thrifty as th
from thrifty import weights
from thrifty.errors import DataError, WeightError

log_weight_lists = st.lists(st.floats(-300, 300), min_size=1, max_size=40)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(log_weight_lists, st.floats(-1e3, 1e3))
def test_nothing_depends_on_a_constant(log_weights, shift):
    lw = np.array(log_weights)
    assert th.normalise(lw + shift) == pytest.approx(th.normalise(lw), rel=1e-6, abs=1e-12)
    assert th.ess(lw + shift) == pytest.approx(th.ess(lw), rel=1e-6)
    assert 1 - 1e-12 <= th.ess(lw) <= len(lw) * (1 + 1e-12)


def test_twelve_decades_to_the_eighth_do_not_overflow():
    lw = th.Power(8).log(np.array([1e-6, 1.0, 1e6]))
    assert th.normalise(lw).tolist() == pytest.approx([0, 0, 1])
    assert th.ess(lw) == pytest.approx(1)


def test_estimate_matches_the_sandwich_formula(rng):
    f, lw = rng.normal(size=500), rng.normal(size=500)
    w = np.exp(lw)
    mean = (w * f).sum() / w.sum()
    result = th.estimate(f, lw)
    assert float(result.mean) == pytest.approx(mean)
    assert float(result.se) == pytest.approx(np.sqrt((w**2 * (f - mean) ** 2).sum()) / w.sum())
    low, high = result.se_bounds
    assert low <= result.se <= high


def test_estimate_covers_the_truth_and_forgotten_weights_do_not(rng):
    """E_prior[theta^2] = 7/3 on U(1, 2) from draws tilted by g = c^3."""
    q = th.CostAware(th.Uniform(1, 2), lambda t: t[:, 0], th.Power(3))
    z, z_mutant = [], []
    for _ in range(200):
        draws = q.sample(500, rng)
        right = th.estimate(draws.theta[:, 0] ** 2, draws.log_weights)
        wrong = th.estimate(draws.theta[:, 0] ** 2, np.zeros(500))
        z.append((right.mean - 7 / 3) / right.se)
        z_mutant.append((wrong.mean - 7 / 3) / wrong.se)
    z = np.array(z)
    assert abs(z.mean()) < 5 / np.sqrt(200)
    assert abs(z.std() - 1) < 5 / np.sqrt(2 * 200)
    assert np.mean(z_mutant) < -5


def test_mean_covariance_quantile_ecdf_with_equal_weights(rng):
    x = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3))
    equal = np.zeros(300)
    assert weights.mean(x, equal) == pytest.approx(x.mean(0))
    assert weights.covariance(x, equal) == pytest.approx(np.cov(x.T))
    assert weights.quantile(x, [0.1, 0.5, 0.9], equal) == pytest.approx(
        np.quantile(x, [0.1, 0.5, 0.9], axis=0, method="hazen")
    )
    assert weights.ecdf(x[:, 0], x[:, 0], equal).max() == pytest.approx(1)


def test_integer_weights_are_repetition(rng):
    x, counts = rng.normal(size=(40, 2)), rng.integers(0, 5, 40)
    counts[0] = 3
    with np.errstate(divide="ignore"):
        lw = np.log(counts)
    repeated = np.repeat(x, counts, axis=0)
    assert weights.mean(x, lw) == pytest.approx(repeated.mean(0))
    at = np.linspace(-2, 2, 9)
    assert weights.ecdf(x[:, 0], at, lw) == pytest.approx([(repeated[:, 0] <= t).mean() for t in at])


def test_systematic_resampling_counts(rng):
    lw = rng.normal(size=50)
    chosen = weights.resample_indices(lw, 1000, rng=rng)
    counts = np.bincount(chosen, minlength=50)
    expected = 1000 * th.normalise(lw)
    assert (counts >= np.floor(expected)).all() and (counts <= np.ceil(expected)).all()
    again = th.resample(np.arange(50), lw, 10, rng=3)
    assert again.tolist() == th.resample(np.arange(50), lw, 10, rng=3).tolist()


@pytest.mark.parametrize("k", [0.2, 0.5, 0.9])
def test_pareto_k_finds_the_tail(k: float, rng):
    estimates = [th.pareto_k(k * rng.standard_exponential(20_000)) for _ in range(30)]
    assert np.mean(estimates) == pytest.approx(k, abs=0.08)


def test_pareto_k_of_bounded_and_equal_weights(rng):
    assert th.pareto_k(np.log(rng.uniform(1, 2, 5000))) < 0.1
    assert th.pareto_k(np.zeros(100)) == -np.inf
    assert th.pareto_k(np.r_[np.zeros(950), np.full(50, np.log(10.0))]) == -np.inf  # a capped penalty
    assert np.isnan(th.pareto_k(np.zeros(10)))


BAD = {
    "empty": ([], "non-empty"),
    "nan": ([0.0, np.nan], "1 of 2 values are NaN"),
    "inf": ([0.0, np.inf, 1.0], "row 1"),
    "all zero": ([-np.inf, -np.inf], "all weights are zero"),
    "table": ([[0.0], [1.0]], "vector"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_weights(case: str):
    values, message = BAD[case]
    for function in (th.normalise, th.ess, th.pareto_k):
        with pytest.raises(WeightError, match=message) as caught:
            function(values)
        assert caught.value.code == "bad-weights"


def test_lengths_must_agree():
    with pytest.raises(WeightError, match="2 weights for values of shape"):
        th.estimate([1.0, 2.0, 3.0], [0.0, 0.0])
    with pytest.raises(WeightError, match="2 weights for 3 rows"):
        th.resample([1.0, 2.0, 3.0], [0.0, 0.0], rng=0)
    with pytest.raises(DataError, match="levels"):
        weights.quantile([1.0], [1.5], [0.0])
