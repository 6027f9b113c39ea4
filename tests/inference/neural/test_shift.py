"""The head start of narrow posteriors: place and width by additive splines."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from thrifty.inference.neural.modules.head_start import fit_shift


def table(rng: np.random.Generator, n: int = 4000, noise: float = 1e-3):
    """Theta = a curved function of c_0 plus c_1²/5, width growing tenfold with c_0."""
    c = rng.uniform(-1, 1, (n, 2))
    width = noise * np.exp(1.15 * c[:, 0])
    place = np.tanh(2 * c[:, 0]) + c[:, 1] ** 2 / 5
    return (place + width * rng.standard_normal(n))[:, None], c, place, width


def judged(n: int) -> np.ndarray:
    return np.arange(n) % 10 == 0


def test_place_and_width_are_found(rng: np.random.Generator) -> None:
    y, c, _, _ = table(rng)
    _, shift = fit_shift(y, c, np.ones(len(y)), judged(len(y)))
    assert shift is not None
    fresh_y, fresh_c, place, width = table(rng, n=2000)
    m, log_s = (v.double().numpy()[:, 0] for v in shift(torch.from_numpy(fresh_c).float()))
    residual = (fresh_y[:, 0] - m) / np.exp(log_s)
    assert np.sqrt(np.mean(((m - place) / width) ** 2)) < 0.5  # noise of at most 71 coefficients on 3,600 runs is 0.14
    assert abs(np.mean(residual**2) - 1) < 0.2
    for side in (fresh_c[:, 0] < -0.5, fresh_c[:, 0] > 0.5):  # one common width misses these by factors of 2
        assert 0.75 < np.mean(residual[side] ** 2) < 1.35


def test_weights_decide_what_is_fitted(rng: np.random.Generator) -> None:
    """Two laws in one table: weights choose; without weights neither is found."""
    c = rng.uniform(-1, 1, (4000, 1))
    second = np.arange(4000) % 2 == 1
    y = np.where(second, -c[:, 0], c[:, 0])[:, None] + 1e-3 * rng.standard_normal((4000, 1))
    validates = np.arange(4000) % 10 < 2
    _, shift = fit_shift(y, c, np.where(second, 1e-9, 1.0), validates)
    assert shift is not None
    place, _ = shift(torch.tensor([[0.5]]))
    assert float(place) == pytest.approx(0.5, abs=2e-3)
    assert fit_shift(y, c, np.ones(4000), validates)[1] is None  # the mutant: weights forgotten


def test_no_help_where_little_is_explained(rng: np.random.Generator) -> None:
    y, c, _, _ = table(rng, noise=0.3)
    assert fit_shift(y, c, np.ones(len(y)), judged(len(y)))[1] is None


def test_a_parameter_that_is_not_explained_is_left_alone(rng: np.random.Generator) -> None:
    y, c, _, _ = table(rng)
    both = np.hstack([y, rng.standard_normal((len(y), 1))])
    narrow, shift = fit_shift(both, c, np.ones(len(y)), judged(len(y)))
    assert shift is not None and narrow.tolist() == [True, False]
    place, log_width = shift(torch.from_numpy(c).float())
    assert (place[:, 1] == 0).all() and (log_width[:, 1] == 0).all()


def test_constant_beyond_the_last_knot(rng: np.random.Generator) -> None:
    y, c, _, _ = table(rng)
    _, shift = fit_shift(y, c, np.ones(len(y)), judged(len(y)))
    assert shift is not None
    place, log_width = shift(torch.tensor([[1.1, 0.0], [50.0, 0.0]]))
    assert place[0] == place[1] and log_width[0] == log_width[1]


def test_few_runs_for_the_unknowns_get_none(rng: np.random.Generator) -> None:
    """Two conditions of four pieces have 14 unknowns: 140 runs are enough, 120 are not."""
    for n, found in ((160, True), (130, False)):
        y, c, _, _ = table(rng, n=n)
        y = c[:, :1] + 1e-3 * rng.standard_normal((n, 1))
        assert (fit_shift(y, c, np.ones(n), judged(n))[1] is not None) == found


def test_a_heavy_tailed_prior_is_not_narrow(rng: np.random.Generator) -> None:
    """Of Cauchy parameters a few far runs are all of the variance; the posterior is as wide as the bulk."""
    theta = rng.standard_cauchy((2000, 1))
    x = theta + rng.standard_normal((2000, 1))
    narrow, shift = fit_shift(theta, np.arcsinh(x), np.ones(2000), judged(2000))
    assert shift is None and not narrow.any()


def test_runs_that_were_not_fitted_are_met_as_well(rng: np.random.Generator) -> None:
    """Ten conditions: the residuals of fresh runs have the width that was promised."""
    n = 1500
    theta = rng.uniform(-1, 1, (n + 2000, 1))
    c = theta + 0.05 * rng.standard_normal((n + 2000, 10))
    _, shift = fit_shift(theta[:n], c[:n], np.ones(n), judged(n))
    assert shift is not None
    place, log_width = shift(torch.from_numpy(c[n:]).float())
    residual = (theta[n:] - place.numpy()) / np.exp(log_width.numpy())
    assert np.mean(residual**2) == pytest.approx(1, abs=0.15 + 5 * np.sqrt(2 / 2000))  # 70 unknowns on 1,350 runs: 5 %


def test_a_few_runs_that_hold_all_the_weight_tell_nothing(rng: np.random.Generator) -> None:
    """One held-out run with most of the weight once ended in a division by zero."""
    y, c = rng.uniform(size=(4000, 1)), rng.standard_normal((4000, 1))
    weights, validates = np.ones(4000), judged(4000)
    weights[np.flatnonzero(validates)[0]] = 1e6
    assert fit_shift(y, c, weights / weights.mean(), validates)[1] is None


def test_one_value_that_half_of_the_weight_shares_is_not_narrow(rng: np.random.Generator) -> None:
    y = np.where(rng.random((4000, 1)) < 0.7, 0.5, rng.uniform(size=(4000, 1)))
    assert fit_shift(y, rng.standard_normal((4000, 1)), np.ones(4000), judged(4000))[1] is None
