"""Bayesian synthetic likelihood on a cost-aware design: a model of the m runs at theta gives the density of x_o.

    Gaussian         log N(s_o; mean, S)                            (Wood 2010; Price et al. 2018)
    unbiased         Ghurye and Olkin's unbiased estimator of that density
    shrinkage        S -> D^½ ((1 - a) R + a I) D^½                 (Warton 2008), a by hand or by
                     Schäfer and Strimmer's (2005) closed form, for m not much larger than the statistics' number
    SemiParametric   kernel density marginals joined by a Gaussian copula   (An, Nott and Drovandi 2020)

Statistics with ties (counts, zero-inflated numbers) have a least spread: m equal runs would otherwise be a density
without end at their value.

The likelihood at each parameter is an estimate of its own, so any proposal with full support will do: weights are
needed only by the pointwise posterior, where they are prior/proposal × likelihood.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from thrifty.display import DisplayedSettings
from thrifty.errors import ConfigError, DataError
from thrifty.inference.archive import Arrays, Recipe, Supplied
from thrifty.inference.before_fit import BeforeFit
from thrifty.inference.checks import check_weights_prior
from thrifty.inference.likelihood_posterior import How, LikelihoodPosterior, check_how, make_posterior
from thrifty.inference.transforms import least_spreads
from thrifty.inference.vector_distances import chunks
from thrifty.priors import as_prior
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Prior

_LOG_2PI = float(np.log(2 * np.pi))
Shrinkage = float | Literal["auto"]


def _check_shrinkage(value: Shrinkage) -> None:
    if value != "auto" and not (isinstance(value, int | float) and 0 <= value <= 1):
        raise ConfigError(f'shrinkage must lie in [0, 1] or be "auto", got {value!r}', code="bad-setting")


@dataclass(frozen=True)
class _Synthetic(ABC):
    """What the likelihoods share: called as (x (n, m, d), x_o (d,)) -> log-likelihood (n,), all parameters at once."""

    kind = "synthetic-likelihood"
    name = ""

    def __call__(self, x: Array, x_o: Array) -> Array:
        """Log-likelihood (n,) of x_o (d,), or of independent observations (r, d), under the runs x (n, m, d)."""
        if x_o.ndim == 2:
            return np.sum([self(x, observation) for observation in x_o], axis=0)
        m, d = x.shape[1:]
        label, least = self._runs_needed(d)
        if m < least:
            raise DataError(
                f"{m} runs per theta for {d} statistics; the {label} synthetic likelihood needs at least {least}",
                code="too-few-runs",
                fix=f'simulate with m = {least} or more, use fewer statistics, or shrinkage="auto"',
            )
        out, least = np.empty(len(x)), least_spreads(x)
        for part in chunks(len(x), 8 * m * d):
            out[part] = self._evaluate(x[part], x_o, least)
        return out

    @abstractmethod
    def _runs_needed(self, d: int) -> tuple[str, int]:
        """Return what the likelihood is called, and how many runs per parameter it needs for d statistics."""

    @abstractmethod
    def _evaluate(self, x: Array, x_o: Array, least: Array) -> Array:
        """Return the log-likelihood (n,) of x_o (d,) under the runs x (n, m, d), with least spreads (d,)."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that rebuild the likelihood."""
        return {"name": self.name, **asdict(self)}


@dataclass(frozen=True)
class Gaussian(_Synthetic):
    """Gaussian synthetic likelihood.

    Args:
        shrinkage: Share a of the identity in the correlation matrix; "auto" estimates it for each parameter.
        unbiased: Use Ghurye and Olkin's unbiased density estimate (m > d + 3 runs, no shrinkage).

    Example:
        >>> x = np.random.default_rng(0).normal(size=(1, 4_000, 2))
        >>> bool(abs(Gaussian()(x, np.zeros(2))[0] + np.log(2 * np.pi)) < 0.1)
        True
    """

    name = "gaussian"
    shrinkage: Shrinkage = 0.0
    unbiased: bool = False

    def __post_init__(self) -> None:
        _check_shrinkage(self.shrinkage)
        if self.unbiased and self.shrinkage != 0:
            raise ConfigError(
                "the unbiased estimate admits no shrinkage", code="conflicting-settings", fix="choose one of the two"
            )

    def _runs_needed(self, d: int) -> tuple[str, int]:
        if self.unbiased:
            return "unbiased Gaussian", d + 4
        return "Gaussian", d + 2 if self.shrinkage == 0 else 3

    def _evaluate(self, x: Array, x_o: Array, least: Array) -> Array:
        m, d = x.shape[1:]
        mean = x.mean(1)
        centred = x - mean[:, None]
        covariance = np.swapaxes(centred, 1, 2) @ centred / (m - 1) + np.diag(least**2)
        if self.shrinkage != 0:
            covariance = shrink(centred, covariance, self.shrinkage)
        log_det, square = _log_det_and_square(covariance, x_o - mean)
        if not self.unbiased:
            return -0.5 * (d * _LOG_2PI + log_det + square)
        return _ghurye_olkin(log_det + d * np.log(m - 1), square / (m - 1), m, d)


def _log_det_and_square(covariance: Array, offset: Array) -> tuple[Array, Array]:
    """Return log |C| (n,) and offset' C^-1 offset (n,) of covariances C (n, d, d), computed from correlations."""
    sd = np.sqrt(np.einsum("nii->ni", covariance))
    sd = np.where(sd > 0, sd, 1e-150)  # a statistic that never varies at this theta: impossible unless equal
    correlation = covariance / (sd[:, :, None] * sd[:, None, :])
    correlation = correlation + 1e-10 * np.eye(covariance.shape[1])
    sign, log_det = np.linalg.slogdet(correlation)
    scaled = offset / sd
    with np.errstate(over="ignore"):
        square = np.einsum("ni,ni->n", scaled, np.linalg.solve(correlation, scaled[:, :, None])[:, :, 0])
    bad = (sign <= 0) | ~np.isfinite(square)
    return np.where(bad, np.inf, log_det + 2 * np.log(sd).sum(1)), np.where(bad, np.inf, square)


def _ghurye_olkin(log_det: Array, square: Array, m: int, d: int) -> Array:
    """Return the log of the unbiased estimate (-inf where zero) from log |M| and u' M^-1 u, M the scatter matrix."""
    from scipy.special import gammaln

    def log_c(v: int) -> float:
        steps = (v - np.arange(d)) / 2
        return float(-0.5 * d * v * np.log(2) - 0.25 * d * (d - 1) * np.log(np.pi) - gammaln(steps).sum())

    shape = 1 - 1 / m
    rest = 1 - square / shape
    with np.errstate(divide="ignore", invalid="ignore"):
        value = (
            -0.5 * d * _LOG_2PI
            + log_c(m - 2)
            - log_c(m - 1)
            - 0.5 * d * np.log(shape)
            - 0.5 * (m - d - 2) * log_det
            + 0.5 * (m - d - 3) * (log_det + np.log(rest))
        )
    return np.where(rest > 0, value, -np.inf)


def shrink(centred: Array, covariance: Array, amount: Shrinkage) -> Array:
    """Move the correlations of covariances (n, d, d) towards zero by `amount`; keep the variances.

    "auto" is Schäfer and Strimmer's a = sum_{i≠j} Var(r_ij) / sum_{i≠j} r_ij^2, cut to [0, 1], for each matrix.
    """
    m, d = centred.shape[1:]
    sd = np.sqrt(np.einsum("nii->ni", covariance))
    sd = np.where(sd > 0, sd, 1.0)
    correlation = covariance / (sd[:, :, None] * sd[:, None, :])
    off = ~np.eye(d, dtype=bool)
    if amount == "auto":
        z = centred / sd[:, None]
        second = np.einsum("nki,nkj->nij", z**2, z**2) / m
        variance = m / (m - 1) ** 3 * m * (second - (correlation * (m - 1) / m) ** 2)
        total = np.square(correlation)[:, off].sum(1)
        share = np.divide(variance[:, off].sum(1), total, out=np.ones(len(total)), where=total > 0)
        share = np.clip(share, 0.0, 1.0)[:, None, None]
    else:
        share = np.full((len(covariance), 1, 1), amount)
    return np.where(off, (1 - share) * covariance, covariance)


@dataclass(frozen=True)
class SemiParametric(_Synthetic):
    """Kernel density marginals joined by a Gaussian copula of rank correlations.

    Args:
        shrinkage: Share of the identity in the copula's correlation; 0.0 by default.

    Example:
        >>> x = np.random.default_rng(0).exponential(size=(1, 4_000, 1))
        >>> bool(abs(SemiParametric()(x, np.array([1.0]))[0] + 1.0) < 0.1)
        True
    """

    name = "semi-parametric"
    shrinkage: float = 0.0

    def __post_init__(self) -> None:
        if self.shrinkage == "auto":
            raise ConfigError("the copula's shrinkage must be a number", code="bad-setting", fix="e.g. shrinkage=0.2")
        _check_shrinkage(self.shrinkage)

    def _runs_needed(self, d: int) -> tuple[str, int]:
        return "semi-parametric", d + 2 if self.shrinkage == 0 else 3

    def _evaluate(self, x: Array, x_o: Array, least: Array) -> Array:
        from scipy.special import log_ndtr, logsumexp, ndtri, ndtri_exp

        m, d = x.shape[1:]
        sd = x.std(1, ddof=1)
        spread = np.subtract(*np.quantile(x, [0.75, 0.25], axis=1)) / 1.349
        width = 0.9 * np.where(spread > 0, np.minimum(sd, spread), sd) * m**-0.2  # Silverman's robust rule
        width = np.hypot(width, least)
        width = np.where(width > 0, width, 1e-150)
        u = (x_o - x) / width[:, None]
        with np.errstate(over="ignore"):
            marginal = logsumexp(-0.5 * u**2, axis=1) - np.log(m * width) - 0.5 * _LOG_2PI
        lower = logsumexp(log_ndtr(u), axis=1) - np.log(m)
        upper = logsumexp(log_ndtr(-u), axis=1) - np.log(m)
        score = np.where(lower < upper, ndtri_exp(np.minimum(lower, 0)), -ndtri_exp(np.minimum(upper, 0)))
        score = np.clip(score, -37.0, 37.0)  # where double precision ends; the marginals are near zero by then
        normal = ndtri((np.argsort(np.argsort(x, axis=1), axis=1) + 1) / (m + 1))
        correlation = np.swapaxes(normal, 1, 2) @ normal / np.square(ndtri(np.arange(1, m + 1) / (m + 1))).sum()
        correlation = np.where(np.eye(d, dtype=bool), 1.0, (1 - self.shrinkage) * correlation)
        log_det, square = _log_det_and_square(correlation, score)
        return -0.5 * (log_det + square - np.square(score).sum(1)) + marginal.sum(1)


@dataclass(frozen=True, repr=False)
class SyntheticLikelihood(BeforeFit, DisplayedSettings):
    """Settings of synthetic-likelihood inference.

    Args:
        prior: The prior.
        m: Runs per parameter; read from the table when left out.
        likelihood: `th.likelihoods.Gaussian()` (with shrinkage or unbiased), or `.SemiParametric()`.
        how: "surrogate" (quadratic and Gaussian process, sampled by emcee), "regression" (quadratic alone), or
            "pointwise" (importance weights on the drawn parameters).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.uniform(-3, 3, (300, 1))
        >>> x = theta[:, None] + rng.normal(size=(300, 40, 1))
        >>> sims = th.Simulations.from_arrays(theta=theta, x=x, m=40)
        >>> post = SyntheticLikelihood(th.Uniform(-3, 3)).fit(sims)
        >>> bool(abs(post.sample(1000, [0.5], seed=0).mean() - 0.5) < 0.15)
        True
    """

    prior: Prior
    m: int | None = None
    likelihood: Gaussian | SemiParametric = field(default_factory=Gaussian)
    how: How = "surrogate"

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", as_prior(self.prior))
        check_how(self.how, self.prior)
        if self.m is not None and (self.m != int(self.m) or self.m < 2):
            raise ConfigError(f"m must be a whole number >= 2, got {self.m}", code="bad-setting")
        if not isinstance(self.likelihood, Gaussian | SemiParametric):
            raise ConfigError(
                f"likelihood must be th.likelihoods.Gaussian(...) or .SemiParametric(...), got {self.likelihood!r}",
                code="bad-setting",
            )

    def fit(self, simulations: Simulations, *, seed: int = 0) -> LikelihoodPosterior:
        """Bind the settings to a table with m runs per parameter; `seed` has no effect."""

        def make_likelihood(valid: Simulations, x: Array) -> Gaussian | SemiParametric:
            self.likelihood(x[:1], x[0, 0])  # refuses too few runs per parameter before any x_o
            return self.likelihood

        if self.how == "pointwise":  # the drawn parameters stand for the prior; a surrogate has its density
            check_weights_prior(simulations, self.prior, "SyntheticLikelihood")
        return make_posterior(simulations, self.prior, self.m, self.how, make_likelihood)


def load_synthetic_likelihood(recipe: Recipe, arrays: Arrays, supplied: Supplied) -> LikelihoodPosterior:
    """Rebuild a posterior of `SyntheticLikelihood` from the parts that it was saved as."""
    settings = dict(recipe["likelihood"])
    likelihood = {"gaussian": Gaussian, "semi-parametric": SemiParametric}[settings.pop("name")](**settings)
    return LikelihoodPosterior.from_parts(recipe, arrays, supplied.choose_prior(recipe), lambda theta, x: likelihood)
