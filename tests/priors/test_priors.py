"""Priors: densities against scipy, samplers against densities, adapters, and every mistake in the catalogue."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.errors import PriorError


def torch_prior():
    torch = pytest.importorskip("torch")
    uniform = torch.distributions.Uniform(torch.tensor([0.0, -1.0]), torch.tensor([1.0, 3.0]))
    return torch.distributions.Independent(uniform, 1)


def sbi_prior():
    torch = pytest.importorskip("torch")
    utils = pytest.importorskip("sbi.utils")
    return utils.BoxUniform(torch.tensor([0.0, -1.0]), torch.tensor([1.0, 3.0]))


PRIORS = {
    "uniform": (lambda: th.Uniform([0, -1], [1, 3]), lambda t: -np.log(4.0) * np.ones(len(t))),
    "normal": (lambda: th.Normal([0, 1], [1, 2]), lambda t: stats.norm([0, 1], [1, 2]).logpdf(t).sum(1)),
    "loguniform": (lambda: th.LogUniform(1e-3, 10), lambda t: stats.loguniform(1e-3, 10).logpdf(t[:, 0])),
    "dict": (
        lambda: th.as_prior({"a": stats.gamma(2), "b": stats.norm(1, 2)}),
        lambda t: stats.gamma(2).logpdf(t[:, 0]) + stats.norm(1, 2).logpdf(t[:, 1]),
    ),
    "scipy": (lambda: th.as_prior(stats.beta(2, 3)), lambda t: stats.beta(2, 3).logpdf(t[:, 0])),
    "joint": (
        lambda: th.as_prior(stats.multivariate_normal([1, 2], [[2, 0.5], [0.5, 1]])),
        lambda t: stats.multivariate_normal([1, 2], [[2, 0.5], [0.5, 1]]).logpdf(t),
    ),
    "torch": (lambda: th.as_prior(torch_prior(), names=["a", "b"]), lambda t: -np.log(4.0) * np.ones(len(t))),
    "sbi": (lambda: th.as_prior(sbi_prior()), lambda t: -np.log(4.0) * np.ones(len(t))),
}


@pytest.mark.filterwarnings("ignore")  # torch and sbi warn about their own affairs when imported
@pytest.mark.parametrize("name", PRIORS)
def test_contract(name: str, rng):
    make, log_density = PRIORS[name]
    prior = make()
    theta = prior.sample(2000, rng)
    assert theta.shape == (2000, prior.dim) and theta.dtype == np.float64
    assert len(prior.names) == prior.dim
    assert prior.log_prob(theta) == pytest.approx(log_density(theta), rel=1e-5)
    low, high = prior.bounds
    assert (theta >= low).all() and (theta <= high).all()
    if np.isfinite(low).all():
        assert (prior.log_prob(low[None] - 1.0) == -np.inf).all()
    again = prior.sample(2000, np.random.default_rng(5))
    assert np.array_equal(again, prior.sample(2000, np.random.default_rng(5)))
    th.check_prior(prior)
    assert th.as_prior(prior) is prior


@pytest.mark.filterwarnings("ignore")
def test_torch_stream_is_left_alone():
    torch = pytest.importorskip("torch")
    prior = th.as_prior(torch_prior())
    torch.manual_seed(1)
    expected = torch.rand(1).item()
    torch.manual_seed(1)
    prior.sample(10, np.random.default_rng(0))
    assert torch.rand(1).item() == expected


@pytest.mark.parametrize("name", ["uniform", "normal", "loguniform", "dict"])
def test_sampler_follows_the_density(name: str, rng):
    """Probability integral transform of each marginal, at five standard errors of its mean and variance."""
    prior = PRIORS[name][0]()
    marginals = {
        "uniform": [stats.uniform(0, 1), stats.uniform(-1, 4)],
        "normal": [stats.norm(0, 1), stats.norm(1, 2)],
        "loguniform": [stats.loguniform(1e-3, 10)],
        "dict": [stats.gamma(2), stats.norm(1, 2)],
    }[name]
    theta = prior.sample(20_000, rng)
    for column, marginal in zip(theta.T, marginals, strict=True):
        assert stats.kstest(column, marginal.cdf).pvalue > 1e-4


class Broken:
    names, dim, bounds = ("a",), 1, (np.array([-np.inf]), np.array([np.inf]))

    def __init__(self, sample=None, log_prob=None):
        self._sample, self._log_prob = sample, log_prob

    def sample(self, n, rng):
        return self._sample(n, rng) if self._sample else rng.normal(size=(n, 1))

    def log_prob(self, theta):
        return self._log_prob(theta) if self._log_prob else stats.norm.logpdf(theta[:, 0])


BROKEN = {
    "bad-prior shape": (
        Broken(sample=lambda n, r: r.normal(size=n)),
        "returned shape \\(20000,\\), expected \\(20000, 1\\)",
    ),
    "bad-prior not finite": (Broken(sample=lambda n, r: np.full((n, 1), np.nan)), "not finite"),
    "bad-prior density shape": (Broken(log_prob=lambda t: t), "log_prob of 200"),
    "bad-prior zero density": (Broken(log_prob=lambda t: np.where(t[:, 0] > 0, 0.0, -np.inf)), "zero density"),
    "bad-prior another density": (Broken(log_prob=lambda t: stats.norm(0, 4).logpdf(t[:, 0])), "disagree"),
    "bad-prior shifted density": (Broken(log_prob=lambda t: stats.norm(0.5, 1).logpdf(t[:, 0])), "disagree"),
    "bad-prior heavier density": (Broken(log_prob=lambda t: stats.norm(0, 1.3).logpdf(t[:, 0])), "disagree"),
    "bad-prior not normalised": (Broken(log_prob=lambda t: 3 + stats.norm.logpdf(t[:, 0])), "disagree"),
    "bad-prior constant": (Broken(sample=lambda n, r: np.full((n, 1), 2.0)), "zero width"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_check_prior_finds(case: str):
    prior, message = BROKEN[case]
    with pytest.raises(PriorError, match=message) as caught:
        th.check_prior(prior)
    assert caught.value.code == case.split(maxsplit=1)[0]


class TwoModes(Broken):
    def sample(self, n, rng):
        return rng.choice([-8.0, 8.0], size=(n, 1)) + rng.normal(size=(n, 1))

    def log_prob(self, theta):
        return np.logaddexp(stats.norm(-8, 1).logpdf(theta[:, 0]), stats.norm(8, 1).logpdf(theta[:, 0])) - np.log(2)


class NoBounds:
    names, dim = ("a",), 1

    def sample(self, n, rng):
        return rng.normal(size=(n, 1))

    def log_prob(self, theta):
        return stats.norm.logpdf(np.asarray(theta)[:, 0])


def test_right_priors_of_odd_shape_pass():
    for seed in range(10):
        th.check_prior(TwoModes(), seed=seed)
        th.check_prior(th.Normal(np.zeros(12), np.ones(12)), seed=seed)
        th.check_prior(th.Uniform([0, 0], [1, 1e6]), seed=seed)
    prior = th.as_prior(NoBounds())
    th.check_prior(prior)
    assert prior.bounds[0].tolist() == [-np.inf]


BAD = {
    "bad-prior reversed": (
        lambda: th.Uniform([0.1, 1.0], [1, 0.1], names=["a", "beta"]),
        "'beta': low 1 is not below high 0.1",
    ),
    "bad-prior nan bound": (
        lambda: th.Uniform(np.nan, 1, names=["rate"]),
        "'rate': low must be a finite number, got nan",
    ),
    "bad-prior inf bound": (lambda: th.Uniform(0, np.inf), "high must be a finite number, got inf"),
    "bad-prior sd": (lambda: th.Normal(0, 0, names=["rate"]), "sd must be a finite number > 0, got 0"),
    "bad-prior nan sd": (lambda: th.Normal(0, np.nan), "sd must be a finite number, got nan"),
    "bad-prior log of zero": (lambda: th.LogUniform(0, 1), "log-uniform low must be > 0"),
    "bad-prior lengths": (lambda: th.Uniform([0, 0], [1, 1, 1]), "one length"),
    "bad-prior text": (lambda: th.Uniform("a", 1), "cannot read"),
    "bad-prior scipy": (lambda: th.as_prior({"a": stats.norm(0, -1)}), "scipy rejects"),
    "bad-prior nothing": (lambda: th.as_prior(3), "no sample method"),
    "bad-prior class": (lambda: th.as_prior(th.Uniform), "is a class"),
    "bad-prior not frozen": (lambda: th.as_prior(stats.norm), "not frozen"),
    "bad-prior vector": (lambda: th.as_prior(stats.norm([0, 1], [1, 2])), "holds 2 parameters"),
    "bad-prior dirichlet": (lambda: th.as_prior(stats.dirichlet([1, 2, 3])), "rows of parameters"),
    "bad-prior multinomial": (lambda: th.as_prior(stats.multinomial(3, [0.5, 0.5])), "density"),
    "bad-prior overflow": (lambda: th.Uniform(-1e308, 1e308), "overflows"),
    "bad-prior marginal": (lambda: th.as_prior({"a": 3}), "'a': 3 has no sample method"),
    "bad-prior empty": (lambda: th.as_prior({}), "expected a dict"),
    "bad-name twice": (lambda: th.Uniform([0, 0], [1, 1], names=["beta", "beta"]), "'beta' is used twice"),
    "bad-name unsafe": (lambda: th.Uniform(0, 1, names=["a;b"]), "'a;b'"),
    "bad-name count": (lambda: th.Uniform([0, 0], [1, 1], names=["a"]), "1 names for 2"),
    "bad-prior discrete": (lambda: th.as_prior({"n": stats.poisson(3, 0.5)}), "must take whole numbers"),
    "bad-prior integers": (lambda: th.Integers(0.5, 3), "must be whole numbers, got 0.5 and 3"),
    "bad-prior probabilities": (lambda: th.Categorical([0.5, 0.4]), "with sum 1"),
    "bad-prior labels": (lambda: th.Categorical([0.5, 0.5], ["a", "a"]), "as many different labels"),
    "bad-prior two in one": (lambda: th.Independent({"a": th.Integers([0, 0], [1, 1])}), "holds 2 parameters"),
    "bad-prior zero width": (lambda: th.Uniform(2, 2, names=["alpha"]), "'alpha' has zero width"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_priors(case: str):
    make, message = BAD[case]
    with pytest.raises(PriorError, match=message) as caught:
        make()
    assert caught.value.code == case.split(maxsplit=1)[0]


def test_priors_are_printed_by_parameter():
    prior = th.Independent(
        {"model": th.Categorical([0.5, 0.5], labels=["a", "b"]), "n": th.Integers(1, 4), "s": stats.norm(0, 2)}
    )
    assert repr(prior) == "Independent(model: Categorical a 0.5, b 0.5, n: Integers 1 to 4, s: norm(0, 2))"
    assert repr(th.Uniform([0.05, 1], [1, 2], names=["k", "order"])) == "Uniform(k: 0.05 to 1, order: 1 to 2)"
    assert (
        repr(th.Normal(0, 1)) == "Normal(theta: 0 ± 1)" and repr(th.LogUniform(1, 10)) == "LogUniform(theta: 1 to 10)"
    )
