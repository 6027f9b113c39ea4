"""Conditionals and marginals against the exact ones of a Gaussian in a box, and of every method alike."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.inference.answers.dimensions import Divisible

MEAN = np.array([0.4, -1.0, 2.0])
COVER = np.array([[1.0, 0.6, -0.3], [0.6, 0.8, 0.1], [-0.3, 0.1, 0.5]])
X_O = np.array([0.9, 0.1, 0.5])


class Exact(Divisible):
    """A correlated Gaussian posterior; `sign` spoils its correlations."""

    names, prior = ("a", "b", "c"), th.Normal(np.zeros(3), np.full(3, 3.0), names=["a", "b", "c"])

    def __init__(self, sign=1.0):
        self.q = stats.multivariate_normal(MEAN, np.where(np.eye(3) > 0, COVER, sign * COVER))

    def sample(self, n, x_o, *, seed):
        return self.q.rvs(n, random_state=np.random.default_rng(seed))

    def log_prob(self, theta, x_o):
        return self.q.logpdf(theta).reshape(-1)


def exact_conditional(value):
    """Mean and covariance of (b, c) given a."""
    gain = COVER[1:, 0] / COVER[0, 0]
    return MEAN[1:] + gain * (value - MEAN[0]), COVER[1:, 1:] - np.outer(gain, COVER[0, 1:])


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["right", "mutant"])
def test_conditional_of_a_gaussian(sign, seed):
    mean, cover = exact_conditional(1.9)
    given = Exact(sign).condition(a=1.9)
    drawn = given.draw(4_000, X_O, seed % 1000)
    size = np.minimum(drawn.ess, 4_000)
    error = np.abs(drawn.samples.mean(0) - mean) / np.sqrt(np.diag(cover) / size)
    spread = np.abs(drawn.samples.var(0) / np.diag(cover) - 1) / np.sqrt(2 / size)
    assert (max(error.max(), spread.max()) < 5) == (sign == 1.0)
    assert given.names == ("b", "c")


def test_density_of_a_conditional_is_normalised():
    mean, cover = exact_conditional(1.9)
    theta = stats.multivariate_normal(mean, cover).rvs(30, random_state=0)
    found = Exact().condition(a=1.9).log_prob(theta, X_O)
    assert np.abs(found - stats.multivariate_normal(mean, cover).logpdf(theta)).max() < 0.05  # 20,000 draws: 0.01


def test_conditions_can_follow_each_other():
    once, twice = Exact().condition(a=1.9, c=2.2), Exact().condition(a=1.9).condition(c=2.2)
    theta = np.array([[-0.5], [0.0]])
    assert np.abs(once.log_prob(theta, X_O) - twice.log_prob(theta, X_O)).max() < 0.05
    assert twice.names == ("b",) and once.sample(20, X_O).shape == (20, 1)


class Boxed(Exact):
    """The same Gaussian cut to a box, three of whose sides pass near its peak."""

    prior = th.Uniform([0.2, -1.2, 1.0], [4.0, 3.0, 2.2], names=["a", "b", "c"])

    def sample(self, n, x_o, *, seed):
        draws = self.q.rvs(200 * n, random_state=np.random.default_rng(seed))
        return draws[np.isfinite(self.prior.log_prob(draws))][:n]

    def log_prob(self, theta, x_o):
        return np.where(np.isfinite(self.prior.log_prob(theta)), self.q.logpdf(theta).reshape(-1), -np.inf)


def test_conditional_inside_a_box(seed):
    """One parameter left: a truncated normal."""
    gain = np.linalg.solve(COVER[np.ix_([0, 2], [0, 2])], COVER[[0, 2], 1])
    mean = MEAN[1] + gain @ (np.array([1.5, 1.4]) - MEAN[[0, 2]])
    sd = np.sqrt(COVER[1, 1] - gain @ COVER[[0, 2], 1])
    exact = stats.truncnorm((-1.2 - mean) / sd, (3.0 - mean) / sd, mean, sd)
    given = Boxed().condition(a=1.5, c=1.4)
    drawn = given.draw(4_000, X_O, seed % 1000)
    draws, size = drawn.samples[:, 0], min(drawn.ess[0], 4_000)
    assert abs(draws.mean() - exact.mean()) < 5 * exact.std() / np.sqrt(size) and draws.min() >= -1.2
    assert abs(draws.mean() - mean) > 5 * exact.std() / np.sqrt(size)  # the mutant: the box forgotten
    grid = np.linspace(-1.19, 2.9, 40)[:, None]
    assert np.abs(given.log_prob(grid, X_O) - exact.logpdf(grid[:, 0])).max() < 0.05


def test_marginal_keeps_columns_in_order():
    post = Exact().marginal("c", "a")
    np.testing.assert_array_equal(post.sample(50, X_O, seed=3), Exact().sample(50, X_O, seed=3)[:, [2, 0]])
    exact = stats.multivariate_normal(MEAN[[2, 0]], COVER[np.ix_([2, 0], [2, 0])])
    theta = exact.rvs(100, random_state=0)
    inner = exact.logpdf(theta) > exact.logpdf(MEAN[[2, 0]]) - 2
    found = post.log_prob(theta, X_O)
    assert np.abs(found - exact.logpdf(theta))[inner].max() < 0.3  # a kernel density of 4,000 draws
    assert np.abs(found - exact.logpdf(theta[:, ::-1]))[inner].max() > 1  # the mutant: columns in another order
    assert post.condition(c=2.0).names == ("a",)


@pytest.mark.parametrize(
    ("ask", "says", "code"),
    [
        (lambda p: p.condition(d=1.0), "'d': the parameters are a, b, c", "bad-name"),
        (lambda p: p.condition(), "no name", "bad-name"),
        (lambda p: p.condition(a=0.0, b=0.0, c=0.0), "all parameters are held", "bad-setting"),
        (lambda p: p.marginal("a", "a"), "each once", "bad-name"),
        (lambda p: p.condition(a=np.nan), "expected a number", "bad-setting"),
        (lambda p: p.condition(a=[1.0, 2.0]), "expected a number", "bad-setting"),
        (lambda p: p.condition(a=None), "a = None, expected a number", "bad-setting"),
        (lambda p: p.condition(0.3), r"0.3 has no name(?s:.*)posterior.condition\(a=", "bad-name"),
        (lambda p: p.marginal(("a", "b")), r'by their names(?s:.*)posterior.marginal\("a", "b"\)', "bad-name"),
        (lambda p: p.marginal(0), "0: parameters are asked for by their names", "bad-name"),
    ],
)
def test_wrong_requests(ask, says, code):
    with pytest.raises(th.ThriftyError, match=says) as caught:
        ask(Exact())
    assert caught.value.code == code


def test_a_posterior_without_a_density_of_x_refuses_its_evidence():
    for posterior in (Exact(), Exact().condition(a=1.0), Exact().marginal("a")):
        with pytest.raises(th.ThriftyError, match=r"has no evidence(?s:.*)th.Corrected") as caught:
            posterior.log_evidence(X_O)
        assert caught.value.code == "bad-setting"


BOX = th.Uniform([0.0, -1.0], [2.0, 1.0], names=["a", "b"])
SMALL = {"network": th.MixtureDensity(2, hidden=(16,)), "training": th.Training(max_epochs=8)}
METHODS = {
    "npe": lambda: th.NPE(BOX, **SMALL),
    "nle": lambda: th.NLE(BOX, **SMALL),
    "nre": lambda: th.NRE(BOX, training=th.Training(max_epochs=8)),
    "ensemble": lambda: th.Ensemble(th.NPE(BOX, **SMALL), members=2),
    "abc": lambda: th.ABC(BOX),
    "abc-ensemble": lambda: th.Ensemble(th.ABC(BOX), members=2, share=0.5),
    "synthetic": lambda: th.SyntheticLikelihood(BOX, how="regression"),
    "pointwise": lambda: th.SyntheticLikelihood(BOX, how="pointwise", likelihood=th.likelihoods.Gaussian(0.2)),
    "scores": lambda: th.ScoringRule(BOX),
}


def runs(m, rng):
    draws = th.CostAware(BOX, lambda t: np.exp(t[:, 0]), th.Power(0.5)).sample(400, rng)
    x = np.column_stack([draws.theta, draws.theta.sum(1)])[:, None] + 0.5 * rng.standard_normal((400, m, 3))
    x[3] = np.nan  # a failed run
    table = {"theta": draws.theta, "log_weights": draws.log_weights, "names": BOX.names, "x_names": ("u", "v", "w")}
    return th.Simulations(x=x if m > 1 else x[:, 0], m=m, **table)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_conditionals_and_marginals(name, rng, tmp_path):
    m = 12 if name in ("synthetic", "pointwise", "scores") else 1
    post = METHODS[name]().fit(runs(m, rng), seed=0)
    if hasattr(post, "draw"):
        shown = str(post.draw(50, X_O, seed=0))
        assert "\n  a " in shown and "\n  b " in shown and "theta_1" not in shown
    assert "\n  b " in str(post.condition(a=1.0).draw(50, X_O, seed=0))
    for part, kept in ((post.condition(a=1.0), "b"), (post.marginal("b"), "b")):
        draws = part.sample(200, X_O, seed=1)
        assert draws.shape == (200, 1) and part.names == (kept,)
        assert (np.abs(draws) <= 1).all()
        grid = np.linspace(-1, 1, 401)[1::2, None]
        density = np.exp(part.log_prob(grid, X_O))
        assert density.sum() * 0.01 == pytest.approx(1, abs=0.05)
        part.save(tmp_path / "p")
        again = th.load_posterior(tmp_path / "p")
        np.testing.assert_array_equal(again.sample(200, X_O, seed=1), draws)
        assert again.names == part.names


def test_accepted_draws_too(rng):
    post = th.ABC(BOX).fit(runs(1, rng)).accepted(X_O)
    assert post.condition(a=1.0).sample(50, X_O).shape == (50, 1)
    assert post.marginal("b").sample(50, X_O).shape == (50, 1)


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["right", "mutant"])
def test_sensitivity_of_a_gaussian_is_its_precision(sign, seed):
    """E[g g'] of a Gaussian is its inverse covariance, here in units of the prior's sd, 3."""
    n = 4_000
    found = Exact(sign).sensitivity(X_O, n, seed % 1000)
    values, vectors = np.linalg.eigh(9 * np.linalg.inv(COVER))
    error = np.abs(found.values / values[::-1] - 1)  # a mean of n squares of normal numbers, and of the prior's spread
    within = error.max() < 5 * (np.sqrt(2 / n) + 1 / np.sqrt(2 * 4_000) * 2)
    along = np.abs(np.sum(found.directions * vectors.T[::-1], axis=1)).min() > 0.98
    assert (within and along) == (sign == 1.0)
    assert str(found).count("\n") == 2


def test_sensitivity_of_a_network(rng):
    """x tells a + b and nothing else: the first direction is their sum."""
    prior = th.Normal([0.0, 0.0], [1.0, 1.0], names=["a", "b"])
    theta = prior.sample(1_000, rng)
    sims = th.Simulations(theta=theta, x=theta.sum(1, keepdims=True) + 0.3 * rng.standard_normal((1_000, 1)))
    found = th.NLE(prior, **SMALL).fit(sims, seed=0).sensitivity([0.5])
    assert abs(found.directions[0] @ [1, 1]) / np.sqrt(2) > 0.95 and found.values[0] > 5 * found.values[1]


NEAR = th.Uniform([0.0, 0.0], [1.0, 1.0], names=["a", "b"])


@pytest.mark.parametrize("name", ["npe", "abc", "marginal"])
def test_a_value_at_a_bound(name, rng):
    """b given a is N(0.5, 0.1²) whatever a is; a bound lies infinitely far out for what learned without bounds."""
    theta = NEAR.sample(2_000, rng)
    runs = th.Simulations.from_arrays(theta=theta, x=theta + 0.1 * rng.normal(size=theta.shape), names=NEAR.names)
    method = th.NPE(NEAR, network=th.MixtureDensity(2, hidden=(32,))) if name == "npe" else th.ABC(NEAR)
    post = method.fit(runs, seed=0)
    post = post.marginal("b", "a") if name == "marginal" else post
    inner = post.condition(a=0.05).sample(1_000, [0.03, 0.5], seed=0)
    assert abs(inner.mean() - 0.5) < 0.05
    for a in (0.0, 1e-6):
        draws = post.condition(a=a).sample(1_000, [0.03, 0.5], seed=0)
        assert abs(draws.mean() - 0.5) < 0.08 and 0.06 < draws.std() < 0.17  # was 0.003 ± 0.002 of a network


def test_a_value_far_beyond_the_runs_is_said(rng):
    theta = np.column_stack([rng.uniform(0.5, 1, 500), rng.uniform(0, 1, 500)])
    runs = th.Simulations.from_arrays(theta=theta, x=theta + 0.1 * rng.normal(size=theta.shape), names=NEAR.names)
    with pytest.warns(th.ThriftyWarning, match=r"\[too-few-runs\] a = 0.1 is held at 0.[45]"):
        th.ABC(NEAR).fit(runs).condition(a=0.1).sample(20, [0.7, 0.5])


def test_values_inside_and_without_bounds_stay():
    assert Exact().condition(a=1e6)._move_inside(X_O).tolist() == [1e6]
    assert Boxed().condition(a=0.3)._move_inside(X_O).tolist() == [0.3]


def test_a_value_outside_the_bounds_is_refused(rng):
    prior = th.Uniform([0.0, 0.0], [1.0, 1.0], names=["a", "b"])
    theta = prior.sample(500, rng)
    posterior = th.ABC(prior).fit(th.Simulations.from_arrays(theta=theta, x=theta, names=prior.names))
    with pytest.raises(th.errors.ConfigError, match="outside its bounds"):
        posterior.condition(a=1.5)
