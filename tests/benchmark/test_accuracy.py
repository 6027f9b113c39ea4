"""Measures of accuracy: exact draws score as the same, planted faults are seen."""

from __future__ import annotations

import numpy as np

from thrifty.benchmark import accuracy


def exact(rng, n=1_000):
    """Three correlated parameters in unlike units."""
    root = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 30.0, 40.0]])
    return rng.standard_normal((n, 3)) @ root.T + [0.0, 5.0, -200.0]


def two_modes(rng, n=1_000, share=0.3):
    """Modes of unlike mass, ten of their standard deviations apart, beside a parameter with one."""
    side = np.where(rng.random(n) < share, -1.0, 1.0)
    return np.column_stack([side + 0.2 * rng.standard_normal(n), rng.standard_normal(n)])


def test_exact_draws_score_as_the_same(rng):
    """c2st 1/2, MMD² 0 (unbiased: it may be below) and widths 1, each within five standard errors."""
    draws, reference = exact(rng), exact(rng)
    found = accuracy.measure(draws, reference)
    assert abs(found.c2st - 0.5) < 5 * np.sqrt(1 / 1_000 + 1 / 1_000) / 4
    error = np.std([accuracy.scaled_mmd2(exact(rng), reference) for _ in range(6)], ddof=1)
    assert abs(found.mmd2) < 5 * error
    assert abs(np.log(found.worst)) < 5 * np.sqrt(1 / 2_000 + 1 / 2_000)
    assert abs(np.log(found.width)) <= abs(np.log(found.worst)) + 1e-12
    assert found.row().keys() == {"c2st", "mmd2", "width", "worst"}


def test_a_shift_by_half_a_deviation_is_seen(rng):
    reference = exact(rng)
    found = accuracy.measure(exact(rng) + 0.5 * reference.std(0), reference)
    assert found.c2st > 0.5 + 5 * 0.011 and found.mmd2 > 0.02
    assert abs(np.log(found.worst)) < 0.15, "the widths are right"


def test_draws_too_wide_are_seen(rng):
    reference = exact(rng)
    found = accuracy.measure(reference.mean(0) + 1.5 * (exact(rng) - reference.mean(0)), reference)
    assert found.c2st > 0.5 + 5 * 0.011 and found.mmd2 > 0.005
    assert abs(np.log(found.width / 1.5)) < 5 * np.sqrt(1 / 2_000 + 1 / 2_000)


def test_one_parameter_too_narrow_is_the_worst(rng):
    draws, reference = exact(rng, 300), exact(rng, 300)
    found = accuracy.measure(draws * [1.0, 1.0, 0.5], reference)
    assert abs(np.log(found.worst / 0.5)) < 5 * np.sqrt(1 / 600 + 1 / 600) and found.worst < found.width < 1


def test_units_of_the_parameters_do_not_matter(rng):
    draws, reference, scale = exact(rng), exact(rng), np.array([1e-6, 1.0, 1e6])
    assert np.isclose(accuracy.scaled_mmd2(draws, reference), accuracy.scaled_mmd2(draws * scale, reference * scale))


def test_a_lost_mode_is_seen(rng):
    """The width of several modes is the sum of theirs; the standard deviation tells their distance."""
    reference = two_modes(rng)
    same = accuracy.measure(two_modes(rng), reference, modes=2)
    assert abs(same.c2st - 0.5) < 5 * 0.011 and abs(np.log(same.worst)) < 0.15
    lost = accuracy.measure(two_modes(rng, share=0.0), reference, modes=2)
    assert lost.c2st > 0.5 + 5 * 0.011 and lost.mmd2 > 0.02 and lost.worst < 0.75


def test_modes_too_wide_are_seen_where_the_deviation_hides_them(rng):
    reference, draws = two_modes(rng), two_modes(rng)
    draws[:, 0] = np.sign(draws[:, 0]) + 2.0 * (draws[:, 0] - np.sign(draws[:, 0]))
    several = np.log(accuracy.find_widths(draws, 2) / accuracy.find_widths(reference, 2))[0]
    one = np.log(accuracy.find_widths(draws, 1) / accuracy.find_widths(reference, 1))[0]
    assert abs(several - np.log(2)) < 0.2 and abs(one) < 0.2
    assert accuracy.measure(draws, reference, modes=2).c2st > 0.5 + 5 * 0.011


def test_copies_of_few_draws_keep_a_width(rng):
    draws = np.repeat(exact(rng, 20), 50, axis=0)
    assert np.isfinite(np.log(accuracy.find_widths(draws, 2))).all()
