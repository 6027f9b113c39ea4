"""One clear message for every sample or weight that cannot be used, whatever the metric."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import DataError, WeightError

METRICS = [
    th.metrics.mmd2,
    th.metrics.c2st,
    th.metrics.ks,
    th.metrics.sliced_wasserstein,
    th.metrics.energy_distance,
]
GOOD = np.arange(40.0).reshape(20, 2)
CASES = [
    ({"x": [[1.0, np.nan]] * 20, "y": GOOD}, DataError, r"x: 20 of 20 rows are not finite \(first row 0"),
    ({"x": GOOD, "y": GOOD[:, :1]}, DataError, "x has 2 columns, y has 1"),
    ({"x": np.zeros((0, 2)), "y": GOOD}, DataError, "x has no rows"),
    ({"x": "text", "y": GOOD}, DataError, "x is not a table of numbers"),
    ({"x": GOOD, "y": GOOD, "x_weights": np.ones(3)}, WeightError, r"shape \(3,\), but x has 20 rows"),
    ({"x": GOOD, "y": GOOD, "y_weights": -np.ones(20)}, WeightError, "20 of 20 values are negative or not finite"),
    ({"x": GOOD, "y": GOOD, "y_weights": np.full(20, np.nan)}, WeightError, "negative or not finite"),
    ({"x": GOOD, "y": GOOD, "x_weights": np.zeros(20)}, WeightError, "x_weights are all zero"),
    ({"x": GOOD, "y": GOOD, "x_weights": ["a"] * 20}, WeightError, "x_weights are not numbers"),
]


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.__name__)
@pytest.mark.parametrize(("given", "kind", "message"), CASES)
def test_message(metric, given, kind, message):
    with pytest.raises(kind, match=message):
        metric(**given)


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.__name__)
def test_scale_of_weights_and_points_of_weight_zero_do_not_matter(metric, rng):
    x, y, u = rng.normal(size=(60, 2)), rng.normal(size=(60, 2)), rng.random(60)
    u[:10] = 0
    thousandfold = metric(x, y, 1000 * u)
    without = metric(x[10:], y, u[10:])
    np.testing.assert_allclose(np.ravel(thousandfold), np.ravel(without), rtol=1e-9)
