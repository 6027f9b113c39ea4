"""KS: scipy's figures without weights, right size with weights that depend on the value."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.errors import ThriftyWarning


def test_without_weights_it_is_scipys(rng):
    x, y = rng.normal(size=(300, 2)), rng.normal(0.1, 1, (200, 2))
    ours = th.metrics.ks(x, y)
    for column in range(2):
        theirs = stats.ks_2samp(x[:, column], y[:, column], method="asymp")
        assert ours.statistic[column] == pytest.approx(theirs.statistic, abs=1e-12)
        assert ours.p_value[column] == pytest.approx(theirs.pvalue, rel=1e-9)


def test_whole_weights_are_copies(rng):
    x, y, copies = rng.integers(0, 30, 100), rng.integers(0, 30, 80), rng.integers(0, 4, 100)
    expected = stats.ks_2samp(np.repeat(x, copies), y).statistic
    assert th.metrics.ks(x, y, copies).statistic[0] == pytest.approx(expected, abs=1e-12)


def test_unpacks_like_a_pair():
    statistic, p_value = th.metrics.ks([0.0, 1.0], [0.0, 1.0])
    assert statistic.tolist() == [0.0] and p_value.tolist() == [1.0]


def tilted(rng, tilt, n=600, m=2000):
    """N(-tilt, 1) draws weighted back to N(0, 1), and fresh N(0, 1) draws."""
    x = rng.normal(-tilt, 1, n)
    return x, rng.normal(0, 1, m), np.exp(tilt * x)


def rejections(rng, tilt, repeats, power=1.0, n=600):
    """Shares of p-values below 5 % and of those that were not given."""
    p = []
    for _ in range(repeats):
        x, y, weights = tilted(rng, tilt, n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ThriftyWarning)
            p.append(th.metrics.ks(x, y, weights**power).p_value[0])
    return np.mean(np.array(p) < 0.05), np.mean(np.isnan(p))


@pytest.mark.parametrize("tilt", [0.5, 1.0])
def test_size_is_right_though_weights_grow_with_the_value(rng, tilt):
    share, unknown = rejections(rng, tilt, 60)
    assert share < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 60)
    assert unknown < 0.1


@pytest.mark.parametrize("power", [0.0, 2.0])
def test_forgotten_or_squared_weights_are_rejected(rng, power):
    assert rejections(rng, 0.5, 20, power) == (1.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("ess", [40, 100, 400])
@pytest.mark.parametrize("tilt", [0.0, 0.5, 1.0, 1.5, 2.0])
def test_size_over_many_seeds(rng, ess, tilt):
    """Log-normal weights exp(tilt x) from n = ess exp(tilt^2) points; ESS/n down to 0.02."""
    share, unknown = rejections(rng, tilt, 1000, n=round(ess * np.exp(tilt**2)))
    print(f"ESS {ess} tilt {tilt}: rejected {share:.3f}, no p-value {unknown:.3f}")
    assert share <= 0.10
    assert unknown <= 0.4 or tilt > 1.0  # ordinary weights get their p-value


def test_no_p_value_where_none_can_be_right(rng):
    x, y, weights = tilted(rng, 2.5, 300)
    with pytest.warns(ThriftyWarning, match=r"no p-value \(NaN\): x: 300 weighted points count as"):
        result = th.metrics.ks(x, y, weights)
    assert np.isnan(result.p_value[0]) and 0 < result.statistic[0] < 1
    pareto = rng.pareto(1.05, 20_000) + 1
    with pytest.warns(ThriftyWarning, match="no p-value"):
        th.metrics.ks(rng.normal(size=20_000), y, pareto)


def test_small_p_values_follow_the_gaussian_tail(rng):
    """Nearly equal weights must give nearly Kolmogorov's p-value, far below what simulation resolves."""
    x, y = rng.normal(0.3, 1, 2000), rng.normal(0, 1, 2000)
    plain = th.metrics.ks(x, y)
    weighted = th.metrics.ks(x, y, 1 + 1e-6 * rng.random(2000))
    assert plain.p_value[0] < 1e-8
    assert np.log(weighted.p_value[0]) == pytest.approx(np.log(plain.p_value[0]), rel=0.1)
