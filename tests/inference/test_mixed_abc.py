"""ABC and SMC-ABC over a category, a whole number and a number, against the exact posterior of `mixed_model`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.errors import ConfigError

sys.path.insert(0, str(Path(__file__).parent))
from mixed_model import PRIOR, exact_figures, exact_shift, exact_states, make_table, simulate

X_O = np.array([0.9, 3.1])
FAR = np.array([-1.0, 4.6])  # most probably narrow, four


def figures_of(post: th.WeightedPosterior) -> tuple[np.ndarray, np.ndarray]:
    """The figures of `summarise` from weighted draws, with their standard errors."""
    values = np.column_stack([post.theta[:, :2], post.theta[:, 1] == 2, post.theta[:, 2]])
    mean = post.weights @ values
    return mean, post.standard_error(values - mean)


def test_abc_finds_the_probability_of_each_model(seed):
    """At a tolerance of 0.2 sd the bias is below a standard error; without weights P(wide) is off by 20 of them."""
    table = make_table(100_000, seed)
    post = th.ABC(PRIOR, quantile=0.01).fit(table).accepted(X_O)
    mean, se = figures_of(post)
    assert (np.abs(mean - exact_figures(X_O)) < 5 * se).all()
    assert post.probabilities["model"]["wide"] == pytest.approx(mean[0])
    assert "narrow 3" in str(post) and "wide 6" in str(post)
    forgotten = th.Simulations.from_arrays(theta=table.theta, x=table.x)
    wrong, se = figures_of(th.ABC(PRIOR, quantile=0.01).fit(forgotten).accepted(X_O))
    assert abs(wrong[0] - exact_figures(X_O)[0]) > 5 * se[0]


def test_density_is_a_probability_times_a_density(seed):
    post = th.ABC(PRIOR, quantile=0.01).fit(make_table(100_000, seed)).accepted(X_O)
    states, (mean, sd) = exact_states(X_O), exact_shift(X_O)
    exact = np.log(states[:, 1]) + stats.norm.logpdf(0.0, mean, sd)
    found = post.log_prob([[0, 2, 0.0], [1, 2, 0.0], [1, 2.5, 0.0]])
    assert np.abs(found[:2] - exact).max() < 0.3
    assert found[2] == -np.inf


def test_files_keep_the_labels(seed, tmp_path):
    fitted = th.ABC(PRIOR, quantile=0.1).fit(make_table(2_000, seed))
    for post in (fitted, fitted.accepted(X_O)):
        post.save(tmp_path / "post.npz")
        again = th.load_posterior(tmp_path / "post.npz")
        assert again.parameter_levels == post.parameter_levels == (("narrow", "wide"), (), None)
        assert np.array_equal(again.sample(50, X_O, seed=1), post.sample(50, X_O, seed=1))


def test_a_category_is_held_by_its_label(seed):
    """Given the model, the count has the exact distribution, up to the tolerance and the sampler's error."""
    post = th.ABC(PRIOR, quantile=0.02).fit(make_table(50_000, seed)).accepted(X_O)
    held = post.condition(model="wide")
    exact = exact_states(X_O)[1] / exact_states(X_O)[1].sum()
    draws = held.sample(2_000, X_O, seed=0)
    known = post.theta[:, 0] == 1
    shares = np.array([(draws[:, 0] == k).mean() for k in range(1, 5)])
    size = min(2_000.0, th.ess(post.log_weights[known]))
    assert (np.abs(shares - exact) < 5 * np.sqrt(exact * (1 - exact) / size) + 0.02).all()
    with pytest.raises(ConfigError, match="one of narrow, wide"):
        post.condition(model="other")
    with pytest.raises(ConfigError, match="a whole number"):
        post.condition(count=2.5)
    with pytest.raises(ConfigError, match="gradients"):
        post.sensitivity(X_O)


@pytest.mark.parametrize("adjust", ["linear", "local", "auto"])
def test_adjustment_of_categories_is_refused(adjust):
    with pytest.raises(ConfigError, match="categories have none"):
        th.ABC(PRIOR, adjust=adjust)
    assert th.ABC(PRIOR).adjust == "none"


def test_smooth_functions_of_categories_are_refused():
    with pytest.raises(ConfigError, match="pointwise"):
        th.SyntheticLikelihood(PRIOR)
    with pytest.raises(ConfigError, match=r"weight=1\.0"):
        th.ScoringRule(PRIOR)
    th.SyntheticLikelihood(PRIOR, how="pointwise")
    th.ScoringRule(PRIOR, weight=1.0)


@pytest.mark.slow
def test_smc_abc_moves_categories_and_numbers(seed):
    """It has the ABC posterior of its last tolerance, as 400,000 plain runs show it. The weights of the pool restore
    the prior; without them its runs gather where x_o is."""

    def simulator(theta, rng):
        return simulate(theta[None], rng)[0]

    method = th.SMCABC(PRIOR, particles=200, distance=th.distances.Euclidean([1.0, 1.0]))
    study = method.run(simulator, FAR, n=2_000, seed=seed)
    mean, se = figures_of(study.posterior)
    rng = np.random.default_rng(seed)
    theta = PRIOR.sample(400_000, rng)
    near = theta[np.sqrt(np.square(simulate(theta, rng) - FAR).sum(1)) <= study.posterior.epsilon]
    plain, plain_se = figures_of(th.WeightedPosterior(near, np.zeros(len(near)), FAR))
    assert (np.abs(mean - plain) < 5 * np.hypot(se, plain_se)).all()
    table = study.simulations
    values = np.column_stack([table.theta[:, 0] == 1, table.theta[:, 1] == 4]).astype(float)
    for weights, good in ((table.log_weights, True), (np.zeros(len(table)), False)):  # squared: `test_discrete`
        found = th.estimate(values, weights)
        assert (np.abs(found.mean - [0.6, 0.25]) < 5 * found.se).all() == good


def test_probabilities_of_whole_numbers():
    post = th.WeightedPosterior([[2.0], [2.0], [5.0]], np.log([1.0, 2.0, 1.0]), [0.0], names=("k",), levels=((),))
    assert post.probabilities == {"k": {2: 0.75, 3: 0.0, 4: 0.0, 5: 0.25}}
    assert "2 75" not in repr(post), "a table of many whole numbers is for a figure"


def test_a_rare_value_has_a_kernel_as_wide_as_the_others():
    """Three draws lie closer together than their distribution: their own covariance would make a narrow kernel."""
    rng = np.random.default_rng(7)
    theta = np.column_stack([np.append(rng.normal(size=400), [0.0, 0.01, 0.02]), np.append(np.zeros(400), np.ones(3))])
    post = th.WeightedPosterior(theta, np.zeros(403), [0.0], levels=(None, ()))
    grid = np.linspace(-8, 8, 2_001)
    density = np.exp(post.log_prob(np.column_stack([grid, np.ones(2_001)])))
    assert density.sum() * 16 / 2_000 == pytest.approx(3 / 403, rel=1e-3)
    assert np.sqrt(density @ (grid - 0.01) ** 2 / density.sum()) > theta[:400, 0].std() / 2
