"""The evidence of a model, p(x_o) = ∫ p(x_o | theta) p(theta) d theta, with its standard error.

    by integration   importance sampling of prior × likelihood, from a wide t around the posterior and the prior
    by averaging     sum_i w_i L_i / sum_i w_i over drawn parameters, w = prior/proposal

Standard errors are those of the integral: what a likelihood learned from n runs has wrong is not in them, and is often
larger. `th.Ensemble(method, share=0.5)` fits each member to a random half of the runs; the spread of the members is
then the error of learning from all of them (the delete-half jackknife, Shao and Wu 1989), without the bias that all
members share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thrifty.display import Card, Displayed
from thrifty.errors import InferenceError, warn
from thrifty.inference.posterior_draws import drop_nan
from thrifty.inference.sampling.mcmc import START_DRAWS, LogGradient, sample_posterior
from thrifty.inference.transforms import BoxTransform
from thrifty.proposals.reference import log_mean_exp
from thrifty.types import Array, Prior
from thrifty.weights import ess, normalise, pareto_k

LOCAL_SHARE = 0.8  # of the draws come from around the posterior, the rest from the prior: no weight above 5 likelihoods
LEARNING, BIAS = "the error of the learned likelihood", "the bias of the learned likelihood"
MAX_TAIL_SHAPE = 0.7  # Pareto k of the terms; beyond, their spread says nothing about their error


@dataclass(frozen=True, repr=False)
class LogEvidence(Displayed):
    """Log of p(x_o), natural logarithm.

    Attributes:
        value: The estimate.
        se: Its standard error, about the relative error of the evidence.
        ess: Effective draws behind it.
        over: What each statistic contributes: "density", "probability" (counts and other ties), "left out", or "ball"
            (the chance to come within epsilon). Evidences over different things cannot be compared.
        missing: What the value lacks to be log p(x_o); empty where nothing is.
        se_without: What the standard error leaves out; empty where nothing is.

    Example:
        >>> LogEvidence(-3.2184, 0.011, 8_000.0)
        -3.218 ± 0.011
    """

    value: float
    se: float
    ess: float
    over: tuple[str, ...] = ()
    missing: str = ""
    se_without: str = ""

    def _card(self) -> Card:
        facts = [("log p(x_o)", str(self)), ("effective draws", f"{self.ess:,.0f}")]
        facts += [("of", ", ".join(dict.fromkeys(self.over)))] if self.over else []
        return Card("log evidence", facts + ([("the error is without", self.se_without)] if self.se_without else []))

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.se:.2g}" + (f" (without {self.missing})" if self.missing else "")


def integrate_likelihood(
    log_likelihood: Callable[[Array], Array],
    prior: Prior,
    *,
    rng: np.random.Generator,
    gradient: LogGradient | None = None,
    quiet: bool = False,
) -> LogEvidence:
    """Integrate prior × likelihood by importance sampling from a wide t around the posterior.

    A fifth of the draws come from the prior, so that the weights are bounded by 5 times the likelihood.

    Args:
        log_likelihood: (k, p) -> (k,); -inf and NaN count as impossible.
        prior: The prior.
        rng: Source of all randomness.
        gradient: As in `sample_posterior`.
        quiet: No warning where the error cannot be trusted.

    Example:
        >>> found = integrate_likelihood(lambda t: -t[:, 0], th.Uniform([0.0], [1.0]), rng=np.random.default_rng(0))
        >>> bool(abs(found.value - np.log(1 - np.exp(-1))) < 5 * found.se < 0.03)
        True
    """
    from scipy import stats

    box = BoxTransform.of(prior)
    chains = sample_posterior(log_likelihood, prior, 1000, rng=rng, gradient=gradient, quiet=True)
    z = box.spread(box.to_unconstrained(chains.samples), rng)
    cover: Any = 1.5 * np.atleast_2d(np.cov(z.T)) + 1e-12 * np.eye(prior.dim)
    wide = stats.multivariate_t(z.mean(0), shape=cover, df=5)
    count = 4 * START_DRAWS
    local = np.atleast_2d(wide.rvs(count, random_state=rng)).reshape(count, prior.dim)
    draws = np.vstack([local, box.spread(box.to_unconstrained(prior.sample(count // 4, rng)), rng)])
    theta = box.to_bounded(draws)
    log_prior = drop_nan(prior.log_prob(theta) + box.log_jacobian(draws))
    mixture = np.logaddexp(np.log(LOCAL_SHARE) + wide.logpdf(draws), np.log(1 - LOCAL_SHARE) + log_prior)
    terms = log_prior + drop_nan(log_likelihood(theta)) - mixture
    if not quiet:
        _warn_if_heavy(terms)
    return LogEvidence(log_mean_exp(terms), _stratified_error(terms, count), ess(terms))


def _stratified_error(terms: Array, first: int) -> float:
    """Relative error of the mean of exp(terms), of which the first and the other rows were drawn apart."""
    values = np.exp(terms - terms.max())
    parts = (values[:first], values[first:])
    variance = sum(part.size * part.var(ddof=1) for part in parts) / values.size**2
    return float(np.sqrt(variance) / values.mean())


def _warn_if_heavy(terms: Array) -> None:
    if (k := pareto_k(terms)) > MAX_TAIL_SHAPE:
        warn(
            f"[few-effective-runs] the evidence rests on {ess(terms):.0f} effective draws (Pareto k {k:.2f}, wanted"
            f" below {MAX_TAIL_SHAPE}): its error is larger than the standard error says",
            stacklevel=4,
        )


def average_likelihood(log_likelihood: Array, log_weights: Array) -> LogEvidence:
    """Average likelihoods (n,) over drawn parameters with log weights (n,), prior/proposal up to one constant.

    Raises:
        InferenceError: far-observation, the likelihood is zero at every drawn parameter.

    Example:
        >>> found = average_likelihood(np.log([0.1, 0.3]), np.log([3.0, 1.0]))
        >>> round(float(np.exp(found.value)), 6)
        0.15
    """
    if log_likelihood.max() == -np.inf:
        raise InferenceError(
            f"the likelihood of the observation is zero at all {len(log_likelihood)} drawn parameters",
            code="far-observation",
            why="the evidence is below what these runs can show",
            fix="check x_o; draw more parameters; or accept more (a larger epsilon)",
        )
    top, weights = log_likelihood.max(), normalise(log_weights)
    values = np.exp(log_likelihood - top)
    mean = float(weights @ values)
    se = float(np.sqrt(np.square(weights * (values - mean)).sum()) / mean)
    return LogEvidence(float(top + np.log(mean)), se, ess(log_weights + log_likelihood))


def average_members(each: Sequence[LogEvidence], share: float = 1.0) -> LogEvidence:
    """Average the evidences of an ensemble's members; the error has their spread in it.

    Args:
        each: One of each member.
        share: Of the runs that each member was fitted to. Below 1 the spread is scaled to the error of all runs, by
            sqrt(share / (1 - share)); at 1 it is that of training alone.

    Example:
        >>> two = [LogEvidence(0.0, 0.01, 100.0), LogEvidence(0.2, 0.01, 100.0)]
        >>> print(average_members(two), "|", average_members(two, share=0.5))
        0.105 ± 0.1 | 0.105 ± 0.14
    """
    values, count, first = np.array([one.value for one in each]), len(each), each[0]
    shares = normalise(values)
    within = float(np.sqrt(np.sum(np.square(shares * [one.se for one in each]))))
    spread = float(np.std(shares * count, ddof=1)) if count > 1 else 0.0
    between = spread * np.sqrt(1 / count if share == 1 else share / (1 - share))
    return replace(
        first,
        value=log_mean_exp(values),
        se=float(np.hypot(within, between)),
        ess=sum(one.ess for one in each),
        se_without=BIAS if first.se_without == LEARNING and share < 1 and count > 1 else first.se_without,
    )
