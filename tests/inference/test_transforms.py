"""The box transform is exact both ways, and its Jacobian is the derivative."""

from __future__ import annotations

import numpy as np
import pytest

from thrifty.inference.transforms import BoxTransform

BOXES = {
    "box": ([-1.0, 1e-9], [3.0, 1e-8]),
    "half": ([0.0, -np.inf], [np.inf, 5.0]),
    "free": ([-np.inf, -np.inf], [np.inf, np.inf]),
    "mixed": ([0.0, -np.inf], [1.0, np.inf]),
}


@pytest.mark.parametrize("ends", BOXES.values(), ids=BOXES)
def test_round_trip_and_jacobian(ends, rng):
    box = BoxTransform(np.array(ends[0]), np.array(ends[1]))
    z = 3 * rng.standard_normal((200, 2))
    theta = box.to_bounded(z)
    assert box.inside(theta).all()
    np.testing.assert_allclose(box.to_unconstrained(theta), z, rtol=1e-6, atol=1e-6)
    step = 1e-5
    slopes = [
        (box.to_bounded(z + step * np.eye(2)[i]) - box.to_bounded(z - step * np.eye(2)[i]))[:, i] / (2 * step)
        for i in range(2)
    ]
    np.testing.assert_allclose(box.log_jacobian(z), np.log(np.abs(slopes)).sum(0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(box.log_jacobian_at(theta), -box.log_jacobian(z), rtol=1e-6, atol=1e-6)


def test_edges_and_far_points_stay_inside():
    box = BoxTransform(np.array([0.0]), np.array([1.0]))
    z = box.to_unconstrained([[0.0], [1.0]])
    assert np.isfinite(z).all()
    assert box.inside(box.to_bounded([[-1e6], [1e6]])).all()
    assert np.isfinite(box.log_jacobian([[-1e6], [1e6]])).all()


def test_normal_scores_are_weighted_ranks(rng):
    """With weights exp(theta) draws of N(-1, 1) stand for N(0, 1): the score of a value is the value."""
    from thrifty.inference.neural.standardise import Scores

    column = rng.standard_normal(20_000) - 1
    scores = Scores.of(column[:, None], column)
    at = np.linspace(-2, 1, 7)[:, None]
    se = np.sqrt(20_000 * np.exp(-1)) ** -1 / 0.1  # of a quantile: sd of the ranks over the density
    np.testing.assert_allclose(scores.forward(at), at, atol=5 * se)
    assert np.abs(Scores.of(column[:, None], 0 * column).forward(at) - at).max() > 0.8  # the mutant without weights


def test_ties_share_the_middle_of_their_step():
    from thrifty.inference.neural.standardise import Scores

    scores = Scores.of(np.array([[0.0]] * 50 + [[1.0]] * 50), np.zeros(100))
    np.testing.assert_allclose(scores.forward(np.array([[0.0], [1.0], [0.5]]))[:, 0], [-0.6745, 0.6745, 0], atol=1e-4)
