"""A budget split between parameters and runs per parameter."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import ConfigError


def test_split_budget_is_the_best_of_its_neighbours():
    """The closed forms against brute force."""
    for v, overhead in ((20.0, 0.0), (20.0, 30.0), (5.0, 2.0)):
        grid = np.arange(1, 400)
        best = grid[np.argmax(np.exp(-v / grid) / (overhead + grid * 1.0))]
        assert abs(th.split_budget(1e6, 1.0, variance=v, overhead=overhead).m - best) <= 1
        hits = grid[np.argmax(1 / ((1 + v / grid) * (overhead + grid * 1.0)))]
        assert abs(th.split_budget(1e6, 1.0, variance=v, overhead=overhead, kind="hits").m - hits) <= 1
    with pytest.raises(ConfigError, match="does not pay for one parameter"):
        th.split_budget(5.0, 1.0, variance=20.0)
    with pytest.raises(ConfigError, match="run_cost must be"):
        th.split_budget(5.0, 0.0, variance=20.0)
