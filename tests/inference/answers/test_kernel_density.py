"""The kernel density of draws of whole numbers beside others: it adds up to 1, also where a value has one draw."""

from __future__ import annotations

import numpy as np
import pytest

import thrifty as th
from thrifty.inference.answers.kernel_density import estimate_log_density
from thrifty.inference.transforms import BoxTransform
from thrifty.types import levels_of

PRIOR = th.Independent({"k": th.Integers(0, 3), "a": th.Normal(0.0, 1.0)})
BOX = BoxTransform(*PRIOR.bounds, levels_of(PRIOR))


def test_the_density_adds_up_to_one_where_a_value_has_one_draw(rng):
    points = np.column_stack([np.repeat([0.0, 1.0, 2.0], [60, 39, 1]), rng.normal(size=100)])
    grid = np.linspace(-12, 12, 4_001)
    shares = []
    for value in range(4):
        theta = np.column_stack([np.full(len(grid), float(value)), grid])
        density = np.exp(estimate_log_density(theta, points, np.zeros(100), BOX, 100.0))
        shares.append(float(density.sum() * (grid[1] - grid[0])))
    assert shares == pytest.approx([0.6, 0.39, 0.01, 0.0], abs=1e-6)


def test_draws_that_span_nothing_are_refused():
    points = np.column_stack([np.arange(4.0), np.ones(4)])
    with pytest.raises(th.errors.InferenceError, match="4 draws: too few for the density of 1 parameter"):
        estimate_log_density(points, points, np.zeros(4), BOX, 4.0)
