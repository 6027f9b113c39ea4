"""Cost models: what they learn, that they estimate an expectation, survive outliers, freeze and reload."""

from __future__ import annotations

import json

import numpy as np
import pytest

import thrifty as th
from thrifty.costs import cost_from_dict
from thrifty.errors import CostError, DataError

BOX = th.Uniform([0.0, 0.0], [1.0, 1.0])


def truth(theta):
    return np.exp(3 * theta[:, 0] - 2 * theta[:, 1] ** 2 + np.sin(4 * theta[:, 1]))


def pilot(rng, n=200, noise=0.2):
    theta = BOX.sample(n, rng)
    return theta, truth(theta) * rng.lognormal(-(noise**2) / 2, noise, n)  # mean one: E[y] = truth


def log_error(cost, rng):
    theta = BOX.sample(4000, rng)
    return float(np.sqrt(np.mean((np.log(cost(theta)) - np.log(truth(theta))) ** 2)))


def cost_ratio(a, b, theta):
    return float(a(theta).mean() / b(theta).mean())


@pytest.mark.parametrize("model", ["auto", th.GaussianProcess(), th.Polynomial(3)], ids=str)
def test_learns_a_smooth_cost(model, rng):
    cost = th.fit_cost(*pilot(rng), model=model)
    assert log_error(cost, rng) < 0.12
    assert cost.score > 0.9
    assert 0.8 < cost.coverage < 0.98
    assert abs(cost.bias) < 0.1


def test_auto_beats_or_ties_its_candidates_held_out(rng):
    theta, y = pilot(rng)
    auto = th.fit_cost(theta, y)
    linear = th.fit_cost(theta, y, model=th.Polynomial(1))
    assert auto.score >= linear.score
    assert linear.score < 0.97  # the surface is not linear: the comparison is not vacuous


def test_few_pilots_are_enough_for_a_rough_model(rng):
    cost = th.fit_cost(*pilot(rng, n=15))
    assert log_error(cost, rng) < 0.7


def test_many_pilots_use_inducing_points(rng):
    small, large = th.fit_cost(*pilot(rng, 150)), th.fit_cost(*pilot(rng, 3000), model=th.GaussianProcess())
    assert len(large.log_fit.centres) == 200
    assert log_error(large, rng) < log_error(small, rng)


def test_estimates_the_expectation_not_the_median(rng):
    """Noise of one e-fold: the mean is 65 % above the median; the plain exp of a log fit misses that."""
    theta, y = pilot(rng, n=400, noise=1.0)
    cost = th.fit_cost(theta, y)
    fresh = BOX.sample(20_000, rng)
    ratio = truth(fresh).mean() / cost(fresh).mean()
    without = truth(fresh).mean() / np.exp(th.GaussianProcess().fit(theta, np.log(y), np.arange(400))(fresh)).mean()
    assert abs(ratio - 1) < 0.2
    assert without > 1.35


def test_expectation_where_the_noise_depends_on_theta(rng):
    """An outbreak that dies out is cheap: mean over median varies with theta, and the correction follows."""
    theta = BOX.sample(600, rng)
    alive = rng.random(600) < 0.2 + 0.7 * theta[:, 0]
    y = np.where(alive, 100.0, 1.0) * rng.lognormal(0, 0.05, 600)
    with pytest.warns(th.ThriftyWarning, match="explains"):  # two levels 100 apart: most of it is chance
        cost = th.fit_cost(theta, y)
    for level in (0.2, 0.8):
        expected = 1 + 99 * (0.2 + 0.7 * level)
        found = cost(np.column_stack([np.full(200, level), np.linspace(0, 1, 200)])).mean()
        assert found == pytest.approx(expected, rel=0.3)


def test_expected_cost_of_outbreaks():
    """Temporal SIR, whose cost is one event or a thousand: totals right, and near the ceiling of what can be won."""
    pytest.importorskip("numba")
    model = th.models.TemporalSIR()
    rng = np.random.default_rng(3)
    theta = model.prior.sample(200, rng)
    cost = th.fit_cost(theta, model.simulate_many(theta, seed=1).cost)
    grid = model.prior.sample(300, rng)
    expected = model.simulate_many(np.repeat(grid, 100, axis=0), seed=2).cost.reshape(300, 100).mean(1)
    assert cost(grid).mean() == pytest.approx(expected.mean(), rel=0.35)
    root = np.sqrt(cost(grid))
    product = expected.mean() / ((expected / root).mean() * root.mean())
    assert product > 0.85 * expected.mean() / np.sqrt(expected).mean() ** 2


def test_outliers_do_not_bend_the_surface(rng):
    theta, y = pilot(rng)
    spoiled = y.copy()
    spoiled[rng.choice(200, 6, replace=False)] *= 100  # the machine slept
    clean, robust = th.fit_cost(theta, y), th.fit_cost(theta, spoiled)
    fresh = BOX.sample(3000, rng)
    assert (np.log(robust(fresh)) - np.log(clean(fresh))).std() < 0.3
    # they count in the expectation, up to a cap: 3 % of runs at 100 times the cost would make it four times as high
    assert 1.3 < cost_ratio(robust, clean, fresh) < 4.0


def test_one_wild_timing_does_not_spoil_the_quote(rng):
    theta = rng.uniform(size=(100, 1))
    y = np.exp(3 * theta[:, 0]) * rng.lognormal(0, 0.1, 100)
    y[rng.integers(100)] *= 1000
    cost = th.fit_cost(theta, y)
    fresh = rng.uniform(size=(2000, 1))
    assert cost(fresh).mean() == pytest.approx(np.exp(3 * fresh).mean(), rel=0.5)


def test_number_of_inducing_points_may_equal_a_fold(rng):
    theta, y = pilot(rng, 450)
    assert th.fit_cost(theta, y, model=th.GaussianProcess(inducing=405)).score > 0.8


def test_noise_free_predictions_do_not_depend_on_the_batch(rng):
    theta = BOX.sample(300, rng)
    cost = th.fit_cost(theta, np.exp(3 * np.sin(8 * theta[:, 0]) + theta[:, 1]), model=th.GaussianProcess())
    fresh = BOX.sample(700, rng)
    one_by_one = np.concatenate([cost(row[None]) for row in fresh[:50]])
    assert np.log(cost(fresh)[:50]) == pytest.approx(np.log(one_by_one), abs=1e-4)


def test_repeated_timings_at_one_theta(rng):
    theta = np.repeat(BOX.sample(40, rng), 8, axis=0)
    y = truth(theta) * rng.lognormal(-0.125, 0.5, len(theta))
    cost = th.fit_cost(theta, y)
    assert log_error(cost, rng) < 0.3
    # repeats are held out together: a model that memorises points may not score
    shuffled = np.repeat(rng.lognormal(0, 1, 40), 8) * rng.lognormal(0, 0.01, 320)
    with pytest.warns(th.ThriftyWarning, match="explains"):
        assert th.fit_cost(theta, shuffled).score < 0.3


def test_predictions_stay_within_reach(rng):
    cost = th.fit_cost(*pilot(rng), model=th.Polynomial(3))
    far = cost(np.array([[50.0, -50.0], [-100.0, 3.0]]))
    assert np.isfinite(far).all() and (far > 0).all()
    assert far.max() <= cost.high and far.min() >= cost.low


def test_inputs_over_decades_enter_as_logarithms(rng):
    prior = th.LogUniform([1e-4], [1e4])
    theta = prior.sample(100, rng)
    cost = th.fit_cost(theta, theta[:, 0] ** 0.5)
    fresh = prior.sample(1000, rng)
    inner = (fresh[:, 0] > 1e-3) & (fresh[:, 0] < 1e3)
    assert cost(fresh)[inner] == pytest.approx(fresh[inner, 0] ** 0.5, rel=0.1)


@pytest.mark.parametrize("model", [th.GaussianProcess(), th.Polynomial(2)], ids=str)
def test_saved_and_loaded_exactly(model, rng, tmp_path):
    cost = th.fit_cost(*pilot(rng), model=model, unit="events")
    cost.save(tmp_path / "cost.json")
    again = th.load_cost(tmp_path / "cost.json")
    theta = BOX.sample(500, rng)
    assert np.array_equal(cost(theta), again(theta))
    assert again.unit == "events" and again.score == cost.score
    data = json.loads((tmp_path / "cost.json").read_text())
    assert set(map(type, data.values())) <= {dict, float, int, str}


def test_float32_prediction_is_near_the_exact_one(rng):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    theta, y = pilot(rng)
    fit = th.GaussianProcess().fit(theta, np.log(y), np.arange(200))
    kernel = ConstantKernel(fit.variance) * RBF(fit.lengths) + WhiteKernel(fit.noise)
    target = np.log(y)
    exact = GaussianProcessRegressor(kernel, optimizer=None).fit(fit.scaling(theta), target - target.mean())
    fresh = BOX.sample(2000, rng)
    assert np.abs(exact.predict(fit.scaling(fresh)) + target.mean() - fit(fresh)).max() < 2e-3


THETA = np.linspace(0, 1, 20)[:, None]
GOOD = np.linspace(1, 2, 20)
BAD = {
    "bad-cost zero": (lambda: th.fit_cost(THETA, np.where(GOOD > 1.9, 0.0, GOOD)), "2 of 20 values are not"),
    "bad-cost negative": (lambda: th.fit_cost(THETA, GOOD - 1.5), "smallest -0.5"),
    "bad-cost nan": (lambda: th.fit_cost(THETA, np.full(20, np.nan)), "none finite"),
    "bad-cost length": (lambda: th.fit_cost(THETA, GOOD[:5]), "costs have shape \\(5,\\) for 20 rows"),
    "bad-cost text": (lambda: th.fit_cost(THETA, ["a"] * 20), "not numbers"),
    "bad-array theta": (lambda: th.fit_cost(np.full((20, 1), np.nan), GOOD), "theta is not finite at row 0"),
    "bad-cost shape": (lambda: th.CostAware(th.Uniform(0, 1), lambda t: t), "returned shape"),
    "bad-cost sign": (lambda: th.CostAware(th.Uniform(-1, 1), lambda t: t[:, 0]), "it must be positive"),
    "bad-cost nan of a function": (
        lambda: th.CostAware(th.Uniform(-1, 1), lambda t: np.where(t[:, 0] > 0, 1, np.nan)),
        "= nan at theta",
    ),
    "bad-cost not callable": (lambda: th.CostAware(th.Uniform(0, 1), 3.0), "must be callable"),
    "bad-cost alone": (lambda: th.fit_cost(THETA), "got ndarray alone"),
    "bad-cost table": (
        lambda: th.fit_cost(th.Simulations.from_arrays(theta=THETA, x=THETA)),  # type: ignore[arg-type]
        r"got Simulations alone\n  fix: th.fit_cost\(sims.theta, sims.cost\)",
    ),
    "too-few-pilots few": (lambda: th.fit_cost(THETA[:4], GOOD[:4]), "4 timed parameters"),
    "too-few-pilots repeated": (lambda: th.fit_cost(np.zeros((20, 1)), GOOD), "1 timed parameters"),
    "code-not-saved function": (lambda: th.CostAware(th.Uniform(1, 2), lambda t: t[:, 0]).to_dict(), "cannot be saved"),
    "newer-version format": (lambda: cost_from_dict({"kind": "fitted_cost", "format": 99}), "format 99"),
    "bad-file damaged": (lambda: cost_from_dict({"kind": "fitted_cost", "format": 1}), "not a saved cost"),
    "bad-file missing": (lambda: th.load_cost("/nowhere/cost.json"), "cannot read"),
    "bad-setting name": (lambda: th.fit_cost(THETA, GOOD, model="forest"), "'forest'"),
    "bad-setting model": (lambda: th.fit_cost(THETA, GOOD, model=3), "got 3"),
    "bad-setting degree": (lambda: th.Polynomial(-1), "degree"),
    "bad-setting inducing": (lambda: th.GaussianProcess(inducing=1), "inducing"),
    "bad-setting range": (lambda: th.closed_form.gain(2, 1, 1), "not below"),
    "bad-cost sign in closed form": (lambda: th.closed_form.gain(-1, 1, 1), "must be positive"),
    "bad-setting offset": (lambda: th.closed_form.gain(1, 2, 1, power=2, offset=1), "power 1 only"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_costs(case: str):
    make, message = BAD[case]
    with pytest.raises(CostError, match=message) as caught:
        make()
    assert caught.value.code == case.split(maxsplit=1)[0]


def test_wrong_number_of_parameters(rng):
    cost = th.fit_cost(*pilot(rng))
    with pytest.raises(DataError, match="expected \\(n, 2\\)"):
        cost(np.zeros((3, 3)))


def test_a_cost_that_explains_nothing_warns(rng):
    with pytest.warns(th.ThriftyWarning, match="explains .* of the variation"):
        th.fit_cost(BOX.sample(60, rng), rng.lognormal(0, 1, 60))
