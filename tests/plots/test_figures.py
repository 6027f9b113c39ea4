"""Every figure: drawn, labelled, weights honoured, nothing left open."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

import thrifty as th
from thrifty import plots
from thrifty.errors import DataError
from thrifty.plots.style import estimate_density

PRIOR = th.Uniform([0.1, 0.1], [1, 1], names=["beta", "gamma"])


def cost(theta):
    return 0.1 + theta[:, 0] ** 2


@pytest.fixture
def draws(rng):
    return np.clip(rng.normal([0.5, 0.4], 0.1, (500, 2)), 0.1, 1)


@pytest.fixture
def runs(rng):
    q = th.CostAware(PRIOR, cost, th.Power(0.5))
    drawn = q.sample(400, rng)
    seconds = cost(drawn.theta) * rng.lognormal(0, 0.2, 400)
    x = drawn.theta + 0.1 * rng.normal(size=(400, 2))
    return th.Simulations(
        theta=drawn.theta, x=x, log_weights=drawn.log_weights, cost=seconds, names=PRIOR.names, proposal=q
    )


class Exact:
    def sample(self, n, x_o, *, seed):
        return np.asarray(x_o) + 0.1 * np.random.default_rng(seed).normal(size=(n, 2))

    def log_prob(self, theta, x_o):
        return -50 * ((theta - np.asarray(x_o)) ** 2).sum(1)


def rendered(figure, tmp_path):
    assert isinstance(figure, Figure)
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 3000
    return figure


def texts(figure):
    legends = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return " ".join(
        [t for ax in figure.axes for t in (ax.get_xlabel(), ax.get_ylabel(), ax.get_title(loc="left"))] + legends
    )


def test_pairs(draws, tmp_path):
    figure = rendered(plots.pairs(draws, log_weights=draws[:, 0], prior=PRIOR, truth=[0.5, 0.4]), tmp_path)
    assert "beta" in texts(figure) and "gamma" in texts(figure) and "prior" in texts(figure)
    key, paper = figure.legends[0].get_window_extent(), figure.bbox
    assert paper.x0 <= key.x0 and key.x1 <= paper.x1  # the key is not cut off


def test_pairs_of_one_parameter(draws, tmp_path):
    rendered(plots.pairs(draws[:, 0]), tmp_path)


def test_marginals(draws, tmp_path):
    methods = {"NPE": draws, "ABC": draws + 0.05}
    figure = rendered(
        plots.marginals(methods, log_weights={"ABC": draws[:, 0]}, prior=PRIOR, truth=[0.5, 0.4]), tmp_path
    )
    assert "NPE" in texts(figure) and "ABC" in texts(figure)


def test_weights_move_the_curves(rng):
    """The drawn marginal of weighted draws peaks where the target does."""
    draws = rng.normal(-1, 1, (4000, 1))
    peaks = []
    for log_weights in (None, {"a": draws[:, 0]}):
        line = plots.marginals({"a": draws}, log_weights=log_weights).axes[0].lines[0]
        peaks.append(line.get_xdata()[np.argmax(line.get_ydata())])
    assert abs(peaks[0] + 1) < 0.25 and abs(peaks[1]) < 0.35


def test_density_integrates_to_one_inside_bounds(rng):
    values, weights = rng.random(3000), rng.random(3000)
    grid = np.linspace(0, 1, 800)
    curve = estimate_density(values, weights / weights.sum(), grid, (0.0, 1.0))
    assert np.trapezoid(curve, grid) == pytest.approx(1.0, abs=2e-3)


def test_no_density_is_drawn_beyond_the_bounds(rng):
    """Draws that pile up at a bound, on axes that a truth beyond it widens: nothing where the prior has none."""
    grid = np.linspace(-1.0, 2.0, 3001)
    values = rng.beta(0.7, 2.0, 3000)
    curve = estimate_density(values, np.full(3000, 1 / 3000), grid, (0.0, 1.0))
    outside = (grid < 0) | (grid > 1)
    assert (curve[outside] == 0).all() and curve[grid == 0.0] > 0.5
    assert abs(np.trapezoid(curve[~outside], grid[~outside]) - 1) < 0.01
    prior = th.Uniform([0.0, 0.0], [1.0, 1.0])
    draws = np.column_stack([values, 1 - values])
    pairs = th.plots.pairs(draws, prior=prior, truth=[-0.5, 1.5])
    marginals = th.plots.marginals({"a": draws}, prior=prior, truth=[-0.5, 1.5])
    seen = 0
    for ax in [*(ax for ax in pairs.axes if ax.get_lines()), *marginals.axes]:
        for line in ax.get_lines():
            x, y = (np.asarray(data, dtype=float) for data in line.get_data())
            if len(x) < 100:  # the truth itself
                continue
            seen += 1
            assert (y[(x < 0) | (x > 1)] == 0).all() and ((x < 0) | (x > 1)).any() and y.max() > 0
    assert seen == 8, "posterior and prior of two parameters in two figures"


def test_cost_figures(rng, runs, tmp_path):
    pilot = PRIOR.sample(30, rng)
    figure = rendered(plots.cost_surface(cost, PRIOR, pilot=pilot, seconds=cost(pilot)), tmp_path)
    assert "beta" in texts(figure) and "cost per run [s]" in texts(figure)
    rendered(plots.cost_surface(lambda t: t[:, 0], th.Uniform(1, 2)), tmp_path)
    rendered(plots.cost_residuals(th.diagnostics.cost_check(cost, runs)), tmp_path)
    rendered(plots.waterfall({"plain": 900, "saved": -380, "pilot": 40}), tmp_path)


def test_plan_figures(runs, tmp_path):
    figure = rendered(plots.tradeoff(th.tradeoff(PRIOR, cost, n=2**12)), tmp_path)
    assert "effective runs per unit of cost" in texts(figure)
    rendered(plots.proposal(runs.proposal, n=2000), tmp_path)
    rendered(plots.weights(th.diagnostics.weight_health(runs)), tmp_path)
    rendered(plots.weights(th.diagnostics.weight_health(np.zeros(50))), tmp_path)


def test_check_figures(runs, tmp_path):
    result = th.diagnostics.sbc(Exact(), runs, pairs=100, draws=30)
    figure = rendered(plots.calibration(result), tmp_path)
    drawn = figure.axes[0].lines[1].get_ydata()
    np.testing.assert_allclose(drawn, result.ecdf[0] - result.levels)
    check = th.diagnostics.predictive(Exact(), runs, [0.5, 0.5], prior=PRIOR)
    rendered(plots.predictive(check), tmp_path)


def test_nothing_stays_open(draws):
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    plots.pairs(draws)
    assert pyplot.get_fignums() == before


def test_bad_input(draws):
    with pytest.raises(DataError, match="3 names for 2 parameters"):
        plots.pairs(draws, names=["a", "b", "c"])
    with pytest.raises(DataError, match="at least one result"):
        plots.calibration()
    with pytest.raises(DataError, match="at least one step"):
        plots.waterfall({})
    with pytest.raises(DataError, match="2 pilot runs, 3 costs"):
        plots.cost_surface(cost, PRIOR, pilot=[[0.5, 0.5], [0.6, 0.6]], seconds=[1, 2, 3])


def test_conditional_pairs(tmp_path):
    figure = rendered(plots.conditional_pairs(Exact(), [0.5, 0.4], at=[0.5, 0.3]), tmp_path)
    assert "theta_1" in texts(figure) and "theta_2" in texts(figure)
    rendered(plots.conditional_pairs(Exact(), [0.5, 0.4]), tmp_path)
    with pytest.raises(DataError, match="2 finite numbers"):
        plots.conditional_pairs(Exact(), [0.5, 0.4], at=[0.5])


def test_a_conditional_is_taken_where_the_others_are_held():
    """A correlated Gaussian: the peak of the first parameter moves with the second."""

    class Tied:
        def log_prob(self, theta, x_o):
            return -0.5 * (theta[:, 0] - 0.8 * theta[:, 1]) ** 2

    grid = np.linspace(-3, 3, 601)
    for held in (-1.0, 2.0):
        density = plots.conditional_plots.evaluate_conditional(Tied(), [0.0], np.array([9.0, held]), {0: grid})
        assert grid[np.argmax(density)] == pytest.approx(0.8 * held, abs=0.01)


def test_sensitivity(tmp_path):
    class Found:
        names, values, directions = ("a", "b"), np.array([40.0, 1.0]), np.array([[0.6, 0.8], [0.8, -0.6]])

    figure = rendered(plots.sensitivity(Found()), tmp_path)
    assert "sensitivity" in texts(figure) and "direction" in texts(figure)


def test_categories_are_bars_with_labels(rng):
    """A bar for each value with its posterior probability; the axis shows the labels, not the codes."""
    prior = th.Independent({"model": th.Categorical([0.5, 0.5], ["gamma", "lognormal"]), "rate": th.Uniform(0.0, 1.0)})
    draws = th.CostAware(prior, lambda t: 1 + 9 * t[:, 0]).sample(2_000, rng)
    posterior = th.WeightedPosterior(
        draws.theta, draws.log_weights, [0.0], *prior.bounds, prior.names, levels=prior.levels
    )
    figure = th.plots.pairs(posterior)
    figure.canvas.draw()
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert heights == pytest.approx(list(posterior.probabilities["model"].values()))
    texts = [[label.get_text() for label in ax.get_xticklabels()] for ax in figure.axes]
    assert ["gamma", "lognormal"] in texts
    for other in (th.plots.proposal(draws.proposal), th.plots.cost_surface(draws.proposal.cost, prior)):
        other.canvas.draw()
        assert [label.get_text() for label in other.axes[0].get_xticklabels()] == ["gamma", "lognormal"]


def test_nothing_is_drawn_between_whole_numbers(rng):
    """Regions of a discrete parameter are strips, and cells of two, that end before the next value."""
    prior = th.Independent(
        {"rate": th.Uniform(0.0, 4.0), "k": th.Integers(1, 5), "model": th.Categorical([0.5, 0.5], ["a", "b"])}
    )
    theta = prior.sample(3_000, rng)
    theta = theta[np.abs(theta[:, 0] - theta[:, 1] / 2) < 0.5]
    figure = th.plots.pairs(theta, prior=prior)
    by_place = {(ax.get_xlabel(), ax.get_ylabel()): ax for ax in figure.axes}
    strips, cells = by_place["", "k"], by_place["k", ""]
    for ax, columns in ((strips, (1,)), (cells, (0, 1))):
        boxes = [path.vertices for found in ax.collections for path in found.get_paths()]
        assert boxes
        for column in columns:
            ends = np.array([[box[:, column].min(), box[:, column].max()] for box in boxes])
            np.testing.assert_allclose(ends.mean(1), np.round(ends.mean(1)), atol=1e-9)
            np.testing.assert_allclose(np.diff(ends), 0.8)
    dark = strips.collections[1].get_paths()  # the 50 % region holds half of the draws
    inside = np.zeros(len(theta), dtype=bool)
    for path in dark:
        (left, low), (right, high) = path.vertices.min(0), path.vertices.max(0)
        inside |= (theta[:, 0] >= left) & (theta[:, 0] <= right) & (theta[:, 1] > low) & (theta[:, 1] < high)
    assert abs(inside.mean() - 0.5) < 0.08


@pytest.mark.parametrize("sets", [2, 3])
def test_boxes_of_several_posteriors_lie_side_by_side(sets, rng):
    prior = th.Independent(
        {"rate": th.Uniform(0.0, 4.0), "k": th.Integers(1, 5), "model": th.Categorical([0.5, 0.5], ["a", "b"])}
    )
    others = {f"other {i}": prior.sample(2_000, rng) for i in range(1, sets)}
    figure = th.plots.pairs(prior.sample(3_000, rng), prior=prior, others=others)
    by_place = {(ax.get_xlabel(), ax.get_ylabel()): ax for ax in figure.axes}
    for ax, column in ((by_place["", "k"], 1), (by_place["rate", "model"], 1), (by_place["k", ""], 0)):
        drawn = [[path.vertices[:, column] for path in found.get_paths()] for found in ax.collections]
        drawn = [drawn[2 * i] + drawn[2 * i + 1] for i in range(sets)]  # the two regions of each posterior
        ends = [np.unique(np.round([[box.min(), box.max()] for box in boxes], 9), axis=0) for boxes in drawn]
        for i, own in enumerate(ends):
            values = np.round(own.mean(1))
            np.testing.assert_allclose(np.diff(own), 0.8 / sets)
            np.testing.assert_allclose(own[:, 0], values - 0.4 + i * 0.8 / sets, atol=1e-6)


def test_the_prior_of_abc_is_drawn(rng):
    prior = th.Uniform([0.0, 0.0], [4.0, 1.0], names=["rate", "size"])
    theta = prior.sample(2_000, rng)
    sims = th.Simulations.from_arrays(theta=theta, x=theta + 0.1 * rng.normal(size=theta.shape), names=prior.names)
    whole = th.ABC(prior).fit(sims)
    for posterior in (whole, whole.accepted([1.0, 0.5]), whole.marginal("size")):
        labels = [line.get_label() for ax in posterior.plot([1.0, 0.5]).axes for line in ax.lines]
        assert "prior" in labels
    without = th.ABC().fit(sims).plot([1.0, 0.5])
    assert "prior" not in [line.get_label() for ax in without.axes for line in ax.lines]
    held = whole.condition(rate=1.0).plot([1.0, 0.5])
    assert "prior" not in [line.get_label() for ax in held.axes for line in ax.lines], "it would be conditional too"


def test_whole_numbers_are_in_the_middle_of_their_bins(rng):
    theta = np.column_stack([rng.integers(1, 7, 500), rng.random(500)])
    figure = th.Simulations.from_arrays(theta=theta, x=theta, names=("k", "rate")).plot()
    edges = np.unique(figure.axes[0].patches[0].get_xy()[:, 0])
    np.testing.assert_allclose(edges, np.arange(0.5, 7))


def test_no_line_runs_through_the_label_of_a_penalty():
    table = th.tradeoff(th.Uniform([0.0], [1.0]), lambda theta: np.exp(2.5 * theta[:, 0]))
    labels = th.plots.tradeoff(table).axes[0].texts
    assert len(labels) == len(list(table))
    assert all(label.get_bbox_patch().get_facecolor() == (1.0, 1.0, 1.0, 1.0) for label in labels)
