"""Model comparison against known probabilities; what is not comparable is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import thrifty as th
from thrifty.inference.answers.evidence import LogEvidence
from thrifty.study.compare import Comparison
from thrifty.weights import normalise

X_O = 0.8
EPSILON = 0.3
SHARED = th.distances.Euclidean([1.0])


def chance(density, low, high, near=None):
    """Density of x_o, or the chance to come within epsilon, averaged over a uniform parameter."""
    if near is None:
        return integrate.quad(lambda t: density(t).pdf(X_O), low, high)[0] / (high - low)
    return integrate.quad(lambda t: density(t).cdf(X_O + near) - density(t).cdf(X_O - near), low, high)[0] / (
        high - low
    )


def gamma_of(k):
    return stats.gamma(k)


def lognormal_of(mu):
    return stats.lognorm(0.5, scale=np.exp(mu))


def exact_probability(near=None):
    """P(gamma | x_o) with equal prior probabilities."""
    z = [chance(gamma_of, 1, 6, near), chance(lognormal_of, -1, 2.5, near)]
    return z[0] / sum(z)


def tables(n, rng):
    """Gamma with shape U(1, 6) against log-normal with location U(-1, 2.5), both drawn under a penalty."""
    found = {}
    for name, prior, draw in (
        ("gamma", th.Uniform([1.0], [6.0]), rng.gamma),
        ("lognormal", th.Uniform([-1.0], [2.5]), lambda t: np.exp(t + 0.5 * rng.standard_normal(t.shape))),
    ):
        draws = th.CostAware(prior, lambda t: np.exp(0.8 * t[:, 0]), th.Power(1.0)).sample(n, rng)
        sims = th.Simulations(theta=draws.theta, x=draw(draws.theta), log_weights=draws.log_weights, x_names=("x",))
        found[name] = prior, sims
    return found


def studies(method, found, x_o=X_O):
    """A study of each model."""
    return {
        name: th.Study(method(prior).fit(sims, seed=0), sims, np.array([x_o]), method="m")
        for name, (prior, sims) in found.items()
    }


def test_probabilities_and_errors_of_known_evidences():
    z, se = np.array([-3.0, -2.0, -2.5]), np.array([0.1, 0.2, 0.05])
    each = tuple(LogEvidence(v, e, 100.0) for v, e in zip(z, se, strict=True))
    found = Comparison(("a", "b", "c"), each, np.array([0.5, 0.25, 0.25]))
    share = np.array([0.5, 0.25, 0.25]) * np.exp(z)
    assert found.probability == pytest.approx(share / share.sum())
    draws = np.exp(z + 1e-4 * se * np.random.default_rng(0).standard_normal((20_000, 3))) * [0.5, 0.25, 0.25]
    spread = (draws / draws.sum(1, keepdims=True)).std(0) / 1e-4
    assert found.probability_se == pytest.approx(spread, rel=0.03)  # 20,000 draws: an error of 0.5 %
    assert found.bayes_factor.max() == 1 and str(found).splitlines()[1].startswith("b")
    assert found.to_dict()["a"]["probability"] == pytest.approx(found.probability[0])


def test_abc_finds_the_exact_probability(rng):
    method = {"epsilon": EPSILON, "distance": SHARED}
    found = th.compare(studies(lambda prior: th.ABC(prior, **method), tables(30_000, rng)))
    assert abs(found.probability[0] - exact_probability(EPSILON)) < 5 * found.probability_se[0] < 0.1


def test_abc_with_its_default_tolerance(rng):
    """Within 200 effective runs of both models the chance is near the density: 0.03 is left for the width."""
    found = th.compare(studies(th.ABC, tables(30_000, rng)))
    assert abs(found.probability[0] - exact_probability()) < 5 * found.probability_se[0] + 0.03
    for one in found.evidences:
        assert not one.missing


def test_mutants_of_abc_are_caught(rng):
    """Weights forgotten; and each model with its own tolerance, which accepts the same share of both."""
    found = tables(30_000, rng)
    method = {"epsilon": EPSILON, "distance": SHARED}
    plain = {name: (prior, sims.reweighted(np.zeros(len(sims)))) for name, (prior, sims) in found.items()}
    forgotten = th.compare(studies(lambda prior: th.ABC(prior, **method), plain))
    assert abs(forgotten.probability[0] - exact_probability(EPSILON)) > 5 * forgotten.probability_se[0]
    right = th.compare(studies(lambda prior: th.ABC(prior, **method), found))
    own = [th.ABC(prior, quantile=0.1, distance=SHARED).fit(sims).accepted([X_O]) for prior, sims in found.values()]
    shares = [
        normalise(sims.log_weights)[post.index].sum() for (_, sims), post in zip(found.values(), own, strict=True)
    ]
    assert abs(shares[0] / sum(shares) - exact_probability(EPSILON)) > 5 * right.probability_se[0]


def test_prior_probabilities_count(rng):
    method = {"epsilon": EPSILON, "distance": SHARED}
    fits = studies(lambda prior: th.ABC(prior, **method), tables(5_000, rng))
    even, odd = th.compare(fits), th.compare(fits, prior={"gamma": 9, "lognormal": 1})
    ratio = odd.probability[0] / odd.probability[1] / (even.probability[0] / even.probability[1])
    assert ratio == pytest.approx(9)


def test_synthetic_likelihoods_of_two_noises(rng):
    """N(theta, 1) against N(theta, 2): evidences N(x_o; 0, 2) and N(x_o; 0, 5)."""
    prior, fits = th.Normal(0, 1), {}
    for name, sd in (("calm", 1.0), ("noisy", 2.0)):
        theta = prior.sample(2_000, rng)
        x = theta[:, None] + sd * rng.normal(size=(2_000, 30, 1))
        sims = th.Simulations(theta=theta, x=x, m=30)
        likelihood = th.likelihoods.Gaussian(unbiased=True)
        fits[name] = th.SyntheticLikelihood(prior, likelihood=likelihood, how="pointwise").fit(sims)
    z = [stats.norm.pdf(2.5, 0, np.sqrt(1 + sd**2)) for sd in (1.0, 2.0)]
    found = th.compare(fits, [2.5])
    assert abs(found.probability[0] - z[0] / sum(z)) < 5 * found.probability_se[0] < 0.2


@pytest.mark.slow
def test_neural_likelihoods_find_the_exact_probability(rng):
    fits = studies(lambda prior: th.Ensemble(th.NLE(prior), members=6, share=0.5), tables(3_000, rng))
    found = th.compare(fits, seed=1)
    error = 3 * 0.12 * np.sqrt(2) * 0.25  # three times the 0.12 nat of benchmarks/answers.py, at P = 1/2
    assert abs(found.probability[0] - exact_probability()) < error


def refuse(models, says, code, **settings):
    with pytest.raises(th.ThriftyError, match=says) as caught:
        th.compare(models, **settings)
    assert caught.value.code == code


def test_what_is_not_comparable_is_refused(rng):
    found = tables(2_000, rng)
    fits = studies(th.ABC, found)
    refuse({"gamma": fits["gamma"]}, "two at least", "bad-setting")
    refuse(list(fits.values()), "models must have names, got list", "bad-setting")
    refuse(fits | {"gamma": studies(th.ABC, found, 2.0)["gamma"]}, "different observations", "bad-observation")
    refuse({name: s.posterior for name, s in fits.items()}, "observed data is missing", "bad-observation")
    refuse(fits, "for the models gamma, lognormal", "bad-setting", prior={"gamma": 1.0})
    refuse(fits, "expected a number for each model by its name", "bad-setting", prior=[0.5, 0.5])
    refuse(fits, "expected a number for each model", "bad-setting", prior={"gamma": "half", "lognormal": 1})
    refuse(fits | {"gamma": th.ABC(found["gamma"][0])}, "has not been fitted", "bad-setting", x_o=[X_O])
    narrow = studies(lambda prior: th.ABC(prior, quantile=0.02), found)
    refuse(fits | {"gamma": narrow["gamma"]}, "different tolerances", "conflicting-settings")
    count = studies(lambda prior: th.ABC(prior, n_accept=50), found)
    refuse(count, "accepts as many runs of every model", "conflicting-settings")
    fixed = studies(lambda prior: th.ABC(prior, epsilon=0.2), found)
    refuse(fixed, "means something else", "conflicting-settings")
    robust = studies(lambda prior: th.ABC(prior, distance=th.distances.Mahalanobis()), found)
    refuse(fits | {"gamma": robust["gamma"]}, "Euclidean, Mahalanobis", "conflicting-settings")


def test_other_statistics_are_refused(rng):
    found = tables(2_000, rng)
    prior, sims = found["gamma"]
    other = th.Simulations(theta=sims.theta, x=sims.x, log_weights=sims.log_weights, x_names=("y",))
    wide = th.Simulations(theta=sims.theta, x=np.hstack([sims.x, sims.x]), log_weights=sims.log_weights)
    for table, says in ((other, "statistics y"), (wide, "have shape")):
        fits = studies(th.ABC, {"gamma": (prior, table), "lognormal": found["lognormal"]})
        refuse(fits, says, "conflicting-settings", x_o=[X_O])


def test_statistics_in_another_order_are_refused(rng):
    """Of studies, of posteriors, of one beside the other, and with a model without names in between."""
    prior, x_o = th.Normal(0, 1), {"level": 0.2, "spread": 5.1}

    def fit(*names):
        theta = rng.normal(size=(2_000, 1))
        both = {"level": theta[:, 0] + rng.normal(size=2_000), "spread": 5 + rng.normal(size=2_000)}
        x = np.column_stack([both[name] for name in names or ("level", "spread")])
        sims = th.Simulations.from_arrays(theta=theta, x=x, x_names=names)
        return th.Study(th.ABC(prior).fit(sims), sims, x[0], method="abc")

    one, other, plain = fit("level", "spread"), fit("spread", "level"), fit()
    for models in (
        {"a": one.posterior, "b": other.posterior},
        {"a": one, "b": other.posterior},
        {"a": one.posterior, "b": other},
        {"a": one, "plain": plain, "b": other},
        {"a": one.posterior, "plain": plain.posterior, "b": other.posterior},
    ):
        refuse(models, "'a' has the statistics level, spread, 'b' spread, level", "conflicting-settings", x_o=x_o)
    same = th.compare({"plain": plain, "a": one.posterior, "b": fit("level", "spread").posterior}, x_o)
    assert (np.abs(same.probability - 1 / 3) < 5 * same.probability_se).all()


def test_methods_without_an_evidence_are_refused(rng):
    found = tables(2_000, rng)
    fits = studies(th.ABC, found)
    weighted = fits["gamma"].posterior.accepted([X_O])
    refuse({"a": weighted, "b": weighted}, "has no evidence", "bad-setting", x_o=[X_O])


def test_densities_beside_probabilities_are_refused():
    class Known:
        def __init__(self, over, missing=""):
            self.over, self.missing = over, missing

        def log_evidence(self, x_o, seed):
            return LogEvidence(-1.0, 0.1, 100.0, self.over, self.missing)

    counts, plain = Known(("probability",)), Known(("density",))
    refuse({"a": counts, "b": plain}, "x_1 is a probability in 'a'", "conflicting-settings", x_o=[1.0])
    ratio = Known((), "an unknown function of x_o")
    refuse({"a": ratio, "b": plain}, "lacks an unknown function", "conflicting-settings", x_o=[1.0])
    assert th.compare({"a": plain, "b": plain}, [1.0]).probability.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("kind", ["abc", "ensemble", "synthetic", "loaded"])
def test_failed_runs_of_posteriors_are_said(kind, rng, tmp_path):
    prior, theta = th.Uniform(0, 1), rng.uniform(size=(600, 1))
    m, bad = (20 if kind == "synthetic" else 1), theta[:, 0] > 0.6
    x = theta[:, None] + 0.1 * rng.normal(size=(600, m, 1))
    whole = th.Simulations(theta=theta, x=x if m > 1 else x[:, 0], m=m)
    x = np.where(bad[:, None, None], np.nan, x)
    part = th.Simulations(theta=theta, x=x if m > 1 else x[:, 0], m=m, status=np.where(bad, "error", "ok"))
    method = th.SyntheticLikelihood(prior, how="regression") if kind == "synthetic" else th.ABC(prior)
    method = th.Ensemble(method, members=2) if kind == "ensemble" else method
    with pytest.warns(th.ThriftyWarning, match="conditional on finishing"):
        fits = {"fails": method.fit(part), "whole": method.fit(whole)}
    if kind == "loaded":
        fits["fails"].save(tmp_path / "p")
        fits["fails"] = th.load_posterior(tmp_path / "p")
    with pytest.warns(th.ThriftyWarning) as caught:
        th.compare(fits, [0.3])
    said = [str(one.message) for one in caught if "too-many-failures" in str(one.message)]
    assert len(said) == 1 and f"{bad.mean():.1%} of prior mass of 'fails' failed" in said[0]


def test_too_large_an_error_is_said():
    class Poor:
        def log_evidence(self, x_o, seed):
            return LogEvidence(-1.0, 1.0, 3.0)

    with pytest.warns(th.ThriftyWarning, match="only known to ± 0.35"):
        th.compare({"a": Poor(), "b": Poor()}, [1.0])


def test_the_figure_has_every_model(tmp_path):
    each = (LogEvidence(-1.0, 0.1, 9.0), LogEvidence(-2.0, 0.1, 9.0))
    figure = Comparison(("sir", "seir"), each).plot()
    figure.savefig(tmp_path / "models.png")
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["seir", "sir"]
    with pytest.raises(th.ThriftyError, match="between 0 and 1"):
        th.plots.model_probabilities({"a": 2.0})


def test_a_seed_is_checked_for_every_method():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(2_000, 1))
    sims = th.Simulations.from_arrays(theta=theta, x=theta + rng.normal(size=theta.shape))
    fits = {name: th.ABC(th.Normal(0, 1)).fit(sims) for name in ("one", "two")}
    with pytest.raises(th.errors.ConfigError, match="seed"):
        th.compare(fits, [0.2], seed=-1)
