"""The regions of a pair plot hold the share of the draws that the legend states, whatever the draws look like."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.path import Path

import thrifty as th
from thrifty.plots import posterior_plots, regions


def measure_shares(figure, draws, weights):
    """Share of the weight inside the 90 % and the 50 % region of the one panel below the diagonal."""
    (panel,) = [ax for ax in figure.axes if ax.collections and ax.get_xlabel() == "a" and ax.get_ylabel() == "b"]
    (regions,) = panel.collections[:1]
    shares = []
    for path in regions.get_paths():
        inside = sum(Path(polygon).contains_points(draws).astype(int) for polygon in path.to_polygons()) % 2
        shares.append(float(weights @ inside))
    # `contourf` draws the band between both levels, then what lies inside the second
    return shares[0] + shares[1], shares[1]


def make_draws(kind, n=4000):
    rng = np.random.default_rng(KINDS.index(kind))
    draws, log_weights, prior = rng.normal(size=(n, 2)), np.zeros(n), None
    if kind == "outliers":
        draws[: n // 100] *= 8
    elif kind == "far outliers":
        draws[: n // 100] += rng.normal(size=(n // 100, 2)) * 100
    elif kind == "weights":
        draws = rng.normal(size=(n, 2)) * 2
        log_weights = -0.5 * (draws**2).sum(1) * (1 - 1 / 4)  # to a standard normal
    elif kind == "bounds":
        draws, prior = np.abs(draws), th.Uniform([0, 0], [20, 20], names=["a", "b"])
        draws[: n // 100] *= 5
    elif kind.startswith("two peaks"):
        draws = 0.3 * draws + np.where(rng.random(n) < 0.7, -3.0, 3.0)[:, None]
        if kind.endswith("outliers"):
            draws[: n // 100] += rng.normal(size=(n // 100, 2)) * 100
    elif kind == "narrow line":
        draws[:, 1] = draws[:, 0] + 0.05 * draws[:, 1]
    return draws, log_weights, prior


KINDS = ["plain", "outliers", "far outliers", "weights", "bounds", "two peaks", "two peaks and outliers", "narrow line"]


def measure_kind(kind):
    draws, log_weights, prior = make_draws(kind)
    figure = th.plots.pairs(draws, log_weights=log_weights, prior=prior, names=["a", "b"])
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    return (*measure_shares(figure, draws, weights), 1 / np.sum(weights**2))


@pytest.mark.parametrize("kind", KINDS)
def test_regions_hold_the_stated_share_of_the_draws(kind):
    outer, inner, size = measure_kind(kind)
    assert abs(outer - 0.9) < 5 * np.sqrt(0.09 / size) + 0.01  # 0.01: polygons between the cells of the grid
    assert abs(inner - 0.5) < 5 * np.sqrt(0.25 / size) + 0.01


def normal_area(share):
    """Area of the region of a standard normal distribution in two dimensions that holds a share."""
    return -2 * np.pi * np.log(1 - share)


AREAS = {  # of the smallest region that holds half
    "plain": normal_area(0.5),
    "outliers": normal_area(0.5),
    "far outliers": normal_area(0.5),
    "weights": normal_area(0.5),
    # peaks of 0.7 and 0.3 are cut at one height c = 0.25: (0.7 - c) + (0.3 - c) = 0.5
    "two peaks": 2 * np.pi * 0.3**2 * (np.log(0.7 / 0.25) + np.log(0.3 / 0.25)),
}
AREAS["two peaks and outliers"] = AREAS["two peaks"]


@pytest.mark.parametrize("kind", AREAS)
def test_regions_are_hardly_larger_than_they_must_be(kind):
    """A wide blur with a right level would hold half of the draws in a larger area."""
    draws, log_weights, _ = make_draws(kind)
    figure = th.plots.pairs(draws, log_weights=log_weights, names=["a", "b"])
    (panel,) = [ax for ax in figure.axes if ax.collections and ax.get_ylabel() == "b"]
    area = abs(sum(_signed_area(polygon) for polygon in panel.collections[0].get_paths()[1].to_polygons()))
    assert 0.8 * AREAS[kind] < area < 1.3 * AREAS[kind]


def _signed_area(polygon):
    x, y = polygon.T
    return 0.5 * float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))


def use_sd_of_all(values, weights):
    """Mutant: the scale that a few far draws widen."""
    return float(np.sqrt(weights @ (values - weights @ values) ** 2))


def test_the_level_undoes_the_blur(monkeypatch):
    monkeypatch.setattr(regions, "SMOOTHING", 5.0)
    test_regions_hold_the_stated_share_of_the_draws("plain")
    smooth, drawn = posterior_plots.smooth_draws, []

    def keep(*arguments):
        drawn.append(smooth(*arguments))
        return drawn[-1]

    def read_level_from_mass(density, weights, shares):
        flat = np.sort(drawn[-1].values.ravel())[::-1]
        steps = np.cumsum(flat) / flat.sum()
        return sorted(float(flat[np.searchsorted(steps, share)]) for share in shares)

    monkeypatch.setattr(posterior_plots, "smooth_draws", keep)
    monkeypatch.setattr(posterior_plots, "find_region_levels", read_level_from_mass)
    with pytest.raises(AssertionError):
        test_regions_hold_the_stated_share_of_the_draws("plain")


def test_a_scale_that_far_draws_widen_is_found(monkeypatch):
    monkeypatch.setattr(regions, "measure_scale", use_sd_of_all)
    with pytest.raises(AssertionError):
        test_regions_are_hardly_larger_than_they_must_be("two peaks and outliers")


def test_forgotten_weights_are_found(monkeypatch):
    def forget(density, weights, shares):
        return regions.find_region_levels(density, np.full(len(weights), 1 / len(weights)), shares)

    monkeypatch.setattr(posterior_plots, "find_region_levels", forget)
    with pytest.raises((AssertionError, ValueError)):  # or nothing is drawn
        test_regions_hold_the_stated_share_of_the_draws("weights")


@pytest.mark.parametrize("value", [0.0, 0.1, 1.0])
def test_draws_that_are_all_equal_are_drawn(value, rng):
    from thrifty.plots import pairs

    assert pairs(np.full((50, 2), value), names=("a", "b")).axes
    assert pairs(np.column_stack([np.full(200, value), rng.normal(size=200)]), names=("a", "b")).axes
