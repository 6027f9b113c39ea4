"""Every method of the ABC family through one door, under every proposal: same posterior, whatever it was drawn from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.stats import chi2, gamma, norm

import thrifty as th

POWERS = (0.0, 0.5, 1.0, 2.0, "mixture")
A, X_O, EPSILON, M = 0.7, 1.2, 0.4, 12  # slope of log cost, observation, tolerance, runs per theta
METHODS = {
    "abc": lambda prior: th.ABC(prior, epsilon=EPSILON, distance=th.distances.Euclidean([1.0])),
    "abc-linear": lambda prior: th.ABC(prior, epsilon=1.5, distance=th.distances.Euclidean([1.0]), adjust="linear"),
    "abc-local": lambda prior: th.ABC(prior, epsilon=1.5, distance=th.distances.Euclidean([1.0]), adjust="local"),
    "synthetic": lambda prior: th.SyntheticLikelihood(
        prior, likelihood=th.likelihoods.Gaussian(unbiased=True), how="pointwise"
    ),
}
COST = {"gaussian": lambda t: np.exp(A * t[:, 0]), "gamma": lambda t: t[:, 0]}


def proposal(prior, cost, power):
    return th.Mixture(prior, cost) if power == "mixture" else th.CostAware(prior, cost, th.Power(power))


def gaussian_table(power, n, rng, m=1):
    """theta ~ N(0, 1), x | theta ~ N(theta, 1), cost exp(0.7 theta): everything known."""
    prior = th.Normal(0, 1)
    draws = proposal(prior, COST["gaussian"], power).sample(n, rng)
    x = draws.theta[:, None] + rng.normal(size=(n, m, 1))
    return prior, th.Simulations(theta=draws.theta, x=x if m > 1 else x[:, 0], log_weights=draws.log_weights, m=m)


def moments(log_density, low, high):
    grid = np.linspace(low, high, 20_001)
    value = log_density(grid)
    p = np.exp(value - value.max())
    p /= p.sum()
    mean = p @ grid
    return mean, np.sqrt(p @ (grid - mean) ** 2)


def abc_truth():
    """The exact ABC posterior at this tolerance: prior × P(|x - x_o| <= epsilon | theta)."""

    def log_density(t):
        hit = norm.cdf(X_O + EPSILON - t) - norm.cdf(X_O - EPSILON - t)
        return norm.logpdf(t) + np.log(hit)

    return moments(log_density, -4, 5)


def posterior_of(name, prior, sims):
    fitted = METHODS[name](prior).fit(sims, seed=0)
    return fitted.accepted([X_O]) if hasattr(fitted, "accepted") else fitted.weighted([X_O])


def truth_of(name):
    return abc_truth() if name == "abc" else (X_O / 2, np.sqrt(0.5))


EXACT = np.zeros((2, 2))  # error of a truth in closed form
THREE = 2 * norm.sf(3)  # the chance of one number beyond three standard errors


def errors(post):
    """Mean and sd (2,) of the draws and their covariance (2, 2), from the influence of every draw."""
    centred = post.theta[:, 0] - post.mean[0]
    influence = np.column_stack([centred, (centred**2 - post.sd[0] ** 2) / (2 * post.sd[0])]) * post.weights[:, None]
    return np.array([post.mean[0], post.sd[0]]), influence.T @ influence


def joint_p(posts, truth, truth_covariance=EXACT):
    """Chance of deviations this large, jointly over posteriors and both statistics.

    Ten numbers within three standard errors each would fail one time in forty by luck; their chi-square, at the level
    that three standard errors have for one number, fails one time in 370 and sees what all deviate in.
    An estimated truth is the same for all posteriors, so its error is shared.
    """
    parts = [errors(post) for post in posts]
    difference = np.concatenate([value for value, _ in parts]) - np.tile(truth, len(parts))
    covariance = block_diag(*[c for _, c in parts]) + np.kron(np.ones((len(parts), len(parts))), truth_covariance)
    return chi2.sf(difference @ np.linalg.solve(covariance, difference), len(difference))


def family(name, rng, powers=POWERS, factor=1.0):
    """Posteriors under all proposals; `factor` spoils the weights."""
    n, m = (20_000, M) if name == "synthetic" else (30_000, 1)  # noisy likelihoods: more draws
    for power in powers:
        prior, sims = gaussian_table(power, n, rng, m)
        yield posterior_of(name, prior, sims.reweighted(factor * sims.log_weights))


@pytest.mark.parametrize("name", METHODS)
def test_weighted_posterior_is_right_under_every_proposal(name, rng):
    posts = list(family(name, rng))
    assert min(post.ess for post in posts) > 200
    assert joint_p(posts, truth_of(name)) > THREE


@pytest.mark.parametrize("mutant", ["forgotten", "squared", "inverted"])
@pytest.mark.parametrize("name", METHODS)
def test_wrong_weights_are_caught(name, mutant, rng):
    factor = {"forgotten": 0.0, "squared": 2.0, "inverted": -1.0}[mutant]
    assert joint_p(list(family(name, rng, powers=(1.0,), factor=factor)), truth_of(name)) < 1e-6


def gamma_posteriors(rng, powers, epsilon=12.0, factor=1.0):
    """The paper's model with its mean as statistic: Gamma(m theta, m) exactly, so the ABC posterior is known."""
    m, x_o = 20, 430.0
    prior = th.Uniform([100.0], [1000.0])
    method = th.ABC(prior, epsilon=epsilon, distance=th.distances.Euclidean([1.0]))
    posts = []
    for power in powers:
        draws = proposal(prior, COST["gamma"], power).sample(40_000, rng)
        x = rng.gamma(m * draws.theta) / m
        sims = th.Simulations(theta=draws.theta, x=x, log_weights=factor * draws.log_weights)
        posts.append(method.fit(sims).accepted([x_o]))

    def log_density(t):
        ends = [gamma.cdf(x_o + e, m * t, scale=1 / m) for e in (epsilon, -epsilon)]
        return np.log(np.maximum(ends[0] - ends[1], 1e-300))

    return posts, moments(log_density, 100, 1000)


def test_gamma_posterior_is_right_under_every_proposal(rng):
    posts, truth = gamma_posteriors(rng, POWERS)
    assert min(post.ess for post in posts) > 200
    assert joint_p(posts, truth) > THREE


@pytest.mark.parametrize("factor", [0.0, 2.0, -1.0], ids=["forgotten", "squared", "inverted"])
def test_gamma_posterior_with_wrong_weights_is_caught(factor, rng):
    posts, truth = gamma_posteriors(rng, (2.0,), epsilon=100.0, factor=factor)  # wide: the weights vary over it
    assert joint_p(posts, truth) < 1e-6


def test_z_scores_over_all_proposals_have_the_right_size(rng):
    """Sixty independent z-scores: too large means bias, too small means inflated errors."""
    z = []
    for _ in range(6):
        for power in POWERS:
            prior, sims = gaussian_table(power, 10_000, rng)
            post = posterior_of("abc", prior, sims)
            mean, sd = abc_truth()
            z += [(post.mean[0] - mean) / post.mean_se[0], (post.sd[0] - sd) / post.sd_se[0]]
    rms = np.sqrt(np.mean(np.square(z)))
    assert 0.7 < rms < 1.35  # chi-square with 60 degrees of freedom: 3.5 standard errors each way
    assert abs(np.mean(z)) < 3.5 / np.sqrt(len(z))


SCORES = [th.ScoringRule, lambda p: th.ScoringRule(p, score="kernel", weight=3.0, how="regression")]


@pytest.mark.parametrize(
    "method",
    [
        lambda p: th.ABC(p, quantile=0.1),
        lambda p: th.ABC(p, quantile=0.3, adjust="local"),
        th.SyntheticLikelihood,
        lambda p: th.SyntheticLikelihood(p, how="regression", likelihood=th.likelihoods.SemiParametric()),
        lambda p: th.SyntheticLikelihood(p, how="pointwise", likelihood=th.likelihoods.Gaussian(shrinkage="auto")),
        *SCORES,
    ],
    ids=["abc", "abc-local", "sl", "sl-semi", "sl-shrunk", "energy", "kernel"],
)
def test_one_face_for_all(method, tmp_path, rng):
    prior, sims = gaussian_table(0.5, 600, rng, m=M)
    post = method(prior).fit(sims, seed=0)
    x_o = [X_O]
    draws = post.sample(500, x_o, seed=1)
    assert draws.shape == (500, 1) and np.isfinite(draws).all()
    assert np.array_equal(draws, post.sample(500, x_o, seed=1))
    grid = np.linspace(-4, 5, 901)[:, None]
    density = np.exp(post.log_prob(grid, x_o))
    assert np.trapezoid(density, grid[:, 0]) == pytest.approx(1, abs=0.05)
    assert abs(np.trapezoid(density * grid[:, 0], grid[:, 0]) - draws.mean()) < 0.3
    post.save(tmp_path / "post.npz")
    again = th.load_posterior(tmp_path / "post.npz")
    assert np.array_equal(again.sample(500, x_o, seed=1), draws)
    assert np.array_equal(again.log_prob(grid[:5], x_o), post.log_prob(grid[:5], x_o))
    if method not in SCORES:  # a score is not a density of x
        assert again.log_evidence(x_o) == post.log_evidence(x_o)


@pytest.mark.parametrize("population", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_homogeneous_sir_agrees_with_a_large_prior_sampled_reference(population, rng, seed):
    """No closed form: a large table of prior runs at the same epsilon stands in, with its own error."""
    model = th.models.HomogeneousSIR(population=population, theta_true=2.0)
    x_o, scale = np.array([0.8 * population]), np.array([population * 1.0])
    near, wide = (th.ABC(model.prior, epsilon=e, distance=th.distances.Euclidean(scale)) for e in (0.03, 0.19))
    large = model.simulate_many(model.prior.sample(20_000, rng), seed)
    posts = []
    for i, power in enumerate(POWERS):
        draws = proposal(model.prior, COST["gamma"], power).sample(8_000, rng)  # contacts go with beta
        sims = model.simulate_many(draws, seed + 2 + i)
        posts.append(near.fit(sims.reweighted(draws.log_weights)).accepted(x_o))
        if power == 2.0:  # the mutant: over a wide tolerance, where weights vary, they are forgotten
            forgotten = wide.fit(sims.reweighted(np.zeros(len(sims)))).accepted(x_o)
            assert joint_p([forgotten], *errors(wide.fit(large).accepted(x_o))) < 1e-6
    assert min(post.ess for post in posts) > 100
    assert joint_p(posts, *errors(near.fit(large).accepted(x_o))) > THREE


def test_balance_weights_give_more_effective_posterior_draws_than_the_papers(rng):
    """The Gamma figure in small: same runs, both weights, cheap to expensive observations."""
    prior = th.Uniform([100.0], [1000.0])
    mixture = th.Mixture(prior, COST["gamma"], powers=(0, 1, 2, 3), scheme="paper")
    draws = mixture.sample(20_000, rng)
    x = rng.gamma(500 * draws.theta) / 500
    paper = th.Simulations(theta=draws.theta, x=x, log_weights=draws.log_weights)
    balance = paper.reweighted(mixture.balanced.log_weight(draws.theta))
    for truth in (250.0, 500.0, 750.0):
        ess = [th.ABC(prior, epsilon=0.05).fit(t).accepted([truth]).ess for t in (balance, paper)]
        assert ess[0] >= ess[1]
