"""The lazy share, what is read back from a store, and the identity that makes lazy limits unbiased."""

from __future__ import annotations

import numpy as np
import pytest

from thrifty.errors import ConfigError
from thrifty.runner.time_limits import TimeLimit, lazy_log_factor, make_time_limit, read_policy


def test_half_a_limit_is_an_error():
    assert make_time_limit(None, None) is None
    for seconds, policy in ((60.0, None), (None, "lazy"), (60.0, "drop"), (0.0, "stop"), (True, "stop")):
        with pytest.raises(ConfigError):
            make_time_limit(seconds, policy)


def test_only_a_lazy_limit_spares_its_share():
    lazy, stop = (TimeLimit(2.0, policy) for policy in ("lazy", "stop"))
    spared = [lazy.seconds_for(seed=3, index=i) is None for i in range(4000)]
    assert abs(np.mean(spared) - lazy.share) < 5 * np.sqrt(lazy.share * (1 - lazy.share) / 4000)
    assert spared == [lazy.seconds_for(seed=3, index=i) is None for i in range(4000)], "fixed by seed and index"
    assert all(stop.seconds_for(seed=3, index=i) == 2.0 for i in range(100))


@pytest.mark.parametrize(
    "text", ["", "[]", "null", '{"seconds": -1, "on_timeout": "lazy"}', '{"seconds": 1}', "[" * 9999]
)
def test_a_policy_that_is_none_of_ours_is_none(text):
    assert read_policy(text) is None


def test_lazy_weights_are_unbiased_and_equal_weights_are_not(rng):
    """E[f] over runs whose time depends on the outcome, with T known only when the run ends."""
    n, limit, share = 40_000, 1.0, 0.25
    f = rng.exponential(size=n)
    wall = f * np.exp(0.3 * rng.normal(size=n))  # long runs have large f: dropping them is off
    cut = np.where(rng.random(n) < share, np.inf, limit)
    status = np.where(wall > cut, "timeout", "ok")
    factor = lazy_log_factor(status, wall, cut=cut, limit=np.full(n, limit), share=share)
    terms = np.exp(factor) * np.where(status == "ok", f, 0.0)
    assert abs(terms.mean() - 1.0) < 5 * terms.std() / np.sqrt(n)
    mutant = np.where(status == "ok", f, 0.0)
    assert abs(mutant.mean() - 1.0) > 5 * mutant.std() / np.sqrt(n), "the mutant without 1/a must fail"
