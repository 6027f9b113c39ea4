"""Corrected posteriors against exact ones: moments, evidence, when it does not help, files; mutants fail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.inference.answers.smoothing import smooth_weights
from thrifty.weights import pareto_k

SLOPE = np.array([[1.0, 0.5], [-0.3, 2.0], [0.8, 0.1]])  # x = SLOPE theta + noise
NOISE = np.array([0.5, 1.0, 0.7])
PRIOR = th.Normal([0.5, -1.0], [1.0, 0.6], names=["a", "b"])
X_O = np.array([1.2, -2.4, 0.6])
PRECISION = SLOPE.T @ np.diag(NOISE**-2) @ SLOPE + np.diag(PRIOR.sd**-2)
COVER = np.linalg.inv(PRECISION)
MEAN = COVER @ (SLOPE.T @ (X_O / NOISE**2) + PRIOR.mean / PRIOR.sd**2)
EVIDENCE = float(
    stats.multivariate_normal(SLOPE @ PRIOR.mean, SLOPE @ np.diag(PRIOR.sd**2) @ SLOPE.T + np.diag(NOISE**2)).logpdf(
        X_O
    )
)


def log_likelihood(theta, x_o):
    return stats.norm.logpdf(x_o, theta @ SLOPE.T, NOISE).sum(1)


class Drawn:
    """A Gaussian off by `shift` standard deviations and `wide` times as wide, as a badly trained network might be."""

    prior, names = PRIOR, PRIOR.names

    def __init__(self, shift=(0.8, -0.6), wide=1.5):
        self.q = stats.multivariate_normal(MEAN + np.array(shift) * np.sqrt(np.diag(COVER)), wide**2 * COVER)

    def sample(self, n, x_o, *, seed):
        return self.q.rvs(n, random_state=np.random.default_rng(seed)).reshape(n, 2)

    def log_prob(self, theta, x_o):
        return self.q.logpdf(theta)


def z_scores(found):
    post = found.weighted
    return np.concatenate([(post.mean - MEAN) / post.mean_se, (post.sd - np.sqrt(np.diag(COVER))) / post.sd_se])


def test_moments_and_evidence_are_exact(seed):
    found = th.Corrected(Drawn(), log_likelihood).correct(X_O, 20_000, seed % 1000)
    assert np.abs(z_scores(found)).max() < 5
    assert abs(found.evidence.value - EVIDENCE) < 5 * found.evidence.se < 0.1
    assert found.verdict == "corrected" and found.k < 0.7 and 2_000 < found.ess < 18_000


@pytest.mark.parametrize("mutant", ["no prior", "no likelihood", "no posterior"])
def test_a_factor_forgotten_is_caught(mutant, seed):
    drawn, likelihood, prior = Drawn(), log_likelihood, PRIOR
    if mutant == "no prior":
        prior = th.Normal([0.5, -1.0], [1e3, 1e3])
    if mutant == "no likelihood":
        likelihood = lambda theta, x_o: np.zeros(len(theta))  # noqa: E731
    if mutant == "no posterior":
        drawn.log_prob = lambda theta, x_o: np.zeros(len(theta))
    found = th.Corrected(drawn, likelihood, prior).correct(X_O, 20_000, seed % 1000)
    assert np.abs(z_scores(found)).max() > 8
    assert abs(found.evidence.value - EVIDENCE) > 5 * found.evidence.se


def test_draws_follow_the_weights(seed):
    posterior = th.Corrected(Drawn(), log_likelihood)
    drawn = posterior.draw(3_000, X_O, seed % 1000)
    se = np.sqrt(np.diag(COVER) / drawn.ess)
    assert (np.abs(drawn.samples.mean(0) - MEAN) < 5 * se).all()
    assert (np.abs(Drawn().sample(3_000, X_O, seed=1).mean(0) - MEAN) > 5 * se).all()  # the mutant: not reweighted
    assert 0.1 < drawn.local_ess < 0.9 and np.array_equal(drawn.samples, posterior.sample(3_000, X_O, seed % 1000))


def test_density_is_that_of_prior_times_likelihood():
    posterior = th.Corrected(Drawn(), log_likelihood)
    theta = PRIOR.sample(20, np.random.default_rng(0))
    error = posterior.log_evidence(X_O).se
    exact = stats.multivariate_normal(MEAN, COVER).logpdf(theta)
    assert np.abs(posterior.log_prob(theta, X_O) - exact).max() < 5 * error


def test_a_narrow_posterior_is_said_not_to_be_corrected():
    """Half as wide as the exact one: the weights have no variance, and k says so."""
    posterior = th.Corrected(Drawn((2.0, 0.0), 0.5), log_likelihood)
    found = posterior.correct(X_O)
    assert found.verdict == "not corrected" and found.k > 0.7
    with pytest.warns(th.ThriftyWarning, match="the correction does not help.*Pareto k"):
        posterior.sample(100, X_O)


def test_evidence_and_density_of_a_poor_correction_are_warned_of():
    """They lack what the draws miss: here 0.5 nat and more, many of their standard errors."""
    poor, good = th.Corrected(Drawn((2.0, 0.0), 0.3), log_likelihood), th.Corrected(Drawn(), log_likelihood)
    for ask in (lambda: poor.log_evidence(X_O), lambda: poor.log_prob([[0.0, 0.0]], X_O)):
        with pytest.warns(th.ThriftyWarning, match="the correction does not help"):
            ask()
    with pytest.warns(th.ThriftyWarning, match="the correction does not help"):
        found = th.compare({"good": good, "poor": poor}, X_O)
    assert found.evidences[1].value < EVIDENCE - 5 * found.evidences[1].se
    assert "(± without what the draws of a poor correction miss)" in str(found)
    assert "miss" not in good.log_evidence(X_O).se_without  # warnings are errors here: it says nothing


class Named:
    """A likelihood with names for its columns; None leaves them out."""

    def __init__(self, names=(), x_names=()):
        self.names, self.x_names = names, x_names

    def log_likelihood(self, theta, x_o):
        return log_likelihood(theta, x_o)


def test_names_of_both_parts_must_agree():
    drawn = Drawn()
    drawn.x_names = ("p", "q", "r")
    for likelihood, says in (
        (Named(("b", "a")), "the Named has the parameters b, a; expected a, b, in this order"),
        (Named(("a", "b"), ("q", "p", "r")), "has the statistics q, p, r; expected p, q, r"),
    ):
        with pytest.raises(th.ThriftyError, match=says) as caught:
            th.Corrected(drawn, likelihood)
        assert caught.value.code == "conflicting-settings"
    with pytest.raises(th.ThriftyError, match="the Drawn has the parameters a, b; expected b, a"):
        th.Corrected(drawn, log_likelihood, th.Normal([0.0, 0.0], [1.0, 1.0], names=["b", "a"]))
    for likelihood in (Named(), Named(("a", "b"), ("p", "q", "r")), Named(("theta_1", "theta_2")), log_likelihood):
        assert th.Corrected(drawn, likelihood).correct(X_O).verdict == "corrected"


def test_an_exact_posterior_is_said_to_be_unchanged():
    found = th.Corrected(Drawn((0.0, 0.0), 1.0), log_likelihood).correct(X_O)
    assert found.verdict == "unchanged" and found.evidence.value == pytest.approx(EVIDENCE, abs=1e-9)
    assert str(found).startswith("unchanged: 4,000 draws count as 4,000")


def test_smoothing_reduces_the_error_of_heavy_weights(seed):
    """The mean of weights with k = 0.6: smoothed estimates vary less, and stay near the truth."""
    rng, plain, smooth = np.random.default_rng(seed), [], []
    truth = 1 / (1 - 0.6)  # the mean of a generalised Pareto distribution with scale 1
    for _ in range(200):
        values = np.log(stats.genpareto(0.6).rvs(1_000, random_state=rng))
        plain.append(np.exp(values).mean())
        smooth.append(np.exp(smooth_weights(values)[0]).mean())
    assert np.std(smooth) < 0.7 * np.std(plain)
    assert abs(np.mean(smooth) - truth) < 0.1 * truth
    values = np.log(stats.genpareto(0.6).rvs(1_000, random_state=rng))
    smoothed, k = smooth_weights(values)
    assert k == pareto_k(values) and np.array_equal(np.argsort(values), np.argsort(smoothed))
    tail = np.sort(values)[-int(3 * np.sqrt(1_000)) :]
    assert np.array_equal(smoothed[values < tail[0]], values[values < tail[0]])  # the rest is as it was


def test_bounded_weights_are_left_alone():
    values = np.zeros(500)
    assert np.array_equal(smooth_weights(values)[0], values)


def table(n, rng):
    draws = th.CostAware(PRIOR, lambda t: np.exp(t[:, 0] - t[:, 1]), th.Power(0.5)).sample(n, rng)
    x = draws.theta @ SLOPE.T + NOISE * rng.standard_normal((n, 3))
    return th.Simulations(theta=draws.theta, x=x, log_weights=draws.log_weights, names=PRIOR.names)


@pytest.fixture(scope="module")
def fits():
    sims = table(1_000, np.random.default_rng(5))
    small = {"network": th.MixtureDensity(2, hidden=(16,)), "training": th.Training(max_epochs=30)}
    return {
        "npe": th.NPE(PRIOR, **small).fit(sims, seed=0),
        "nle": th.NLE(PRIOR, **small).fit(sims, seed=0),
        "nre": th.NRE(PRIOR, training=th.Training(max_epochs=10)).fit(sims, seed=0),
        "ensemble": th.Ensemble(th.NLE(PRIOR, **small), members=2).fit(sims, seed=0),
        "sl": th.SyntheticLikelihood(PRIOR, how="regression").fit(repeated_table()),
    }


def repeated_table():
    rng = np.random.default_rng(6)
    theta = PRIOR.sample(300, rng)
    x = (theta @ SLOPE.T)[:, None] + NOISE * rng.standard_normal((300, 20, 3))
    return th.Simulations(theta=theta, x=x, m=20, names=PRIOR.names)


def test_a_network_corrected_by_the_exact_likelihood_is_exact(fits):
    found = th.Corrected(fits["npe"], log_likelihood).correct(X_O, 8_000)
    assert np.abs(z_scores(found)).max() < 5 and abs(found.evidence.value - EVIDENCE) < 5 * found.evidence.se


@pytest.mark.parametrize("name", ["nle", "nre", "ensemble", "sl"])
def test_every_likelihood_corrects_and_is_saved(name, fits, tmp_path):
    """The corrected posterior is that of the likelihood: NPE's draws with NLE's weights, against NLE's own draws."""
    posterior = th.Corrected(fits["npe"], fits[name])
    found = posterior.correct(X_O)
    assert found.verdict != "not corrected"
    if name != "ensemble":  # its own draws are those of the mean of posteriors, not of the mean likelihood
        own = fits[name].sample(4_000, X_O, seed=1)
        se = np.hypot(found.weighted.mean_se, own.std(0) / np.sqrt(2_000))
        assert (np.abs(found.weighted.mean - own.mean(0)) < 5 * se).all()
    assert bool(found.evidence.missing) == (name == "nre")
    posterior.save(tmp_path / "p")
    again = th.load_posterior(tmp_path / "p")
    np.testing.assert_array_equal(again.sample(50, X_O, seed=1), posterior.sample(50, X_O, seed=1))
    np.testing.assert_array_equal(again.log_prob([[0.0, 0.0]], X_O), posterior.log_prob([[0.0, 0.0]], X_O))
    assert again.names == ("a", "b") and again.notes == posterior.notes


def test_a_function_must_be_passed_again(fits, tmp_path):
    posterior = th.Corrected(fits["npe"], log_likelihood)
    posterior.save(tmp_path / "p")
    with pytest.raises(th.ThriftyError, match="likelihood of your own") as caught:
        th.load_posterior(tmp_path / "p")
    assert caught.value.code == "code-not-saved"
    again = th.load_posterior(tmp_path / "p", likelihood=log_likelihood)
    np.testing.assert_array_equal(again.sample(50, X_O), posterior.sample(50, X_O))
    with pytest.raises(th.ThriftyError, match="cannot be saved") as caught:
        th.Corrected(Drawn(), log_likelihood).save(tmp_path / "q")
    assert caught.value.code == "code-not-saved"


def test_corrected_posteriors_can_be_compared(fits):
    wrong = th.Corrected(Drawn(), lambda theta, x_o: log_likelihood(theta, np.asarray(x_o) + 1.0))
    found = th.compare({"right": th.Corrected(Drawn(), log_likelihood), "wrong": wrong}, X_O)
    assert found.probability[0] > 0.5


def test_what_cannot_be_corrected_is_refused(fits, rng):
    abc = th.ABC(PRIOR).fit(table(2_000, rng))
    for make, says, code in (
        (lambda: th.Corrected(abc, log_likelihood), "kernel density", "bad-posterior"),
        (lambda: th.Corrected(abc.accepted(X_O), log_likelihood, PRIOR), "kernel density", "bad-posterior"),
        (lambda: th.Corrected(object(), log_likelihood), "no sample", "bad-posterior"),
        (lambda: th.Corrected(fits["npe"], fits["npe"]), "has no likelihood", "bad-setting"),
        (lambda: th.Corrected(fits["npe"], lambda t, x: 0.0).sample(5, X_O), "returned shape", "bad-setting"),
        (lambda: th.Corrected(fits["npe"], lambda t, x: t[:, 0] * np.nan).sample(5, X_O), "zero", "far-observation"),
    ):
        with pytest.raises(th.ThriftyError, match=says) as caught:
            make()
        assert caught.value.code == code
