"""Posteriors from a log-likelihood (or a scaled score) estimated at each drawn parameter.

    pointwise   W_i ∝ w_i exp(l_i), w = prior/proposal: importance sampling on the drawn parameters themselves
    surrogate   prior(theta) exp(l(theta)), with l a smooth fit to the l_i, sampled by emcee

The pointwise way adds no approximation but needs drawn parameters where the posterior is (`ess` counts them); the
surrogate fills the gaps and smooths the noise. Weights enter the first way only: each l_i is an estimate of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, count_things
from thrifty.errors import ConfigError, DataError, InferenceError, warn
from thrifty.inference import archive
from thrifty.inference.answers.dimensions import Divisible
from thrifty.inference.answers.evidence import LEARNING, LogEvidence, average_likelihood, integrate_likelihood
from thrifty.inference.archive import Arrays, Recipe
from thrifty.inference.checks import read_observations, select_valid
from thrifty.inference.posterior_draws import drop_nan, temper_many
from thrifty.inference.sampling.mcmc import Chains, sample_posterior
from thrifty.inference.surrogate import fit_surrogate
from thrifty.inference.transforms import BoxTransform
from thrifty.inference.weighted_posterior import WeightedPosterior
from thrifty.plots.plotted_posterior import PlottedPosterior
from thrifty.priors.prior_dict import prior_to_dict
from thrifty.proposals.reference import add_inside
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Prior, as_names, as_rows, find_discrete, freeze, levels_of
from thrifty.weights import covariance

How = Literal["pointwise", "surrogate", "regression"]
HOWS: tuple[How, ...] = ("pointwise", "surrogate", "regression")
MIN_POINTWISE_ESS = 30  # effective draws; with fewer, the pointwise answer cannot be trusted
MAX_LOG_WEIGHT_GAP = 60  # parameters with less than e^-60 of the largest weight are left out
EVIDENCE_DRAWS = 20_000
KEPT_SURROGATES = 100  # as many observations as are calibrated at once; each takes at most 0.7 MB
MIN_WALKERS, START_PER_WALKER = 100, 4  # for each of many observations, as for NLE


class LogLikelihood(Protocol):
    """A log-likelihood estimate from runs: (x (n, m, d), x_o (r, d)) -> (n,)."""

    @property
    def kind(self) -> str:
        """Name of its posterior in saved files."""
        ...

    def __call__(self, x: Array, x_o: Array) -> Array:
        """Log-likelihood of all r observations at each of n parameters."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that rebuild it."""
        ...


def check_how(how: str, prior: Prior) -> None:
    """Refuse an unknown way to make a posterior of a likelihood, or one that the prior does not allow."""
    if how not in HOWS:
        raise ConfigError(f"how must be one of {', '.join(HOWS)}; got {how!r}", code="bad-setting")
    if how != "pointwise" and find_discrete(levels_of(prior)).any():
        raise ConfigError(
            f"how={how!r} fits a smooth function of the parameters; whole numbers and categories have none",
            code="conflicting-settings",
            fix='how="pointwise", which weights the drawn parameters; or th.NLE, which samples them',
        )


def make_posterior(
    simulations: Simulations,
    prior: Prior,
    m: int | None,
    how: How,
    make_likelihood: Callable[[Simulations, Array], LogLikelihood],
) -> LikelihoodPosterior:
    """Bind a likelihood, made from the valid runs and their outputs (n, m, d), to a table with m runs per parameter.

    Where m is passed, the first axis of x may be the realisations.
    """
    valid = select_valid(simulations, prior)
    x = valid.x
    if simulations.m == 1 and not (m is not None and x.ndim >= 3 and x.shape[1] == m):
        raise DataError(
            f"the simulations have one run per parameter (x has shape {x.shape});"
            f" this method needs {'several' if m is None else m}",
            code="too-few-runs",
            fix="th.simulate(simulator, draws, m=50)",
        )
    if m is not None and x.shape[1] != m:
        raise DataError(f"m = {m}, but the simulations have {x.shape[1]} runs per parameter", code="too-few-runs")
    runs = x.reshape(*x.shape[:2], -1)
    likelihood, names = make_likelihood(valid, runs), valid.names or prior.names
    x_names = valid.x_names if len(valid.x_names) == runs.shape[2] else ()
    about = (x.shape[2:], names, x_names, simulations.failed_mass)
    return LikelihoodPosterior(prior, valid.theta, runs, valid.log_weights, likelihood, how, *about)


@dataclass(frozen=True, repr=False)
class LikelihoodPosterior(PlottedPosterior, Divisible):
    """A posterior for any x_o from runs x (n, m, d) at drawn parameters.

    Attributes:
        prior: The prior.
        theta: Drawn parameters (n, p).
        x: Runs (n, m, d).
        log_weights: log prior/proposal (n,).
        likelihood: How runs become a log-likelihood.
        how: "pointwise", "surrogate" (quadratic and Gaussian process) or "regression" (quadratic alone).
        event: Shape of one observation.
        x_names: Names of its numbers, or empty.
        failed_mass: Share of prior mass whose runs failed: the posterior is conditional on finishing.
    """

    prior: Prior
    theta: Array
    x: Array
    log_weights: Array
    likelihood: LogLikelihood
    how: How
    event: tuple[int, ...]
    names: tuple[str, ...] = ()
    x_names: tuple[str, ...] = ()
    failed_mass: float = 0.0
    _fitted: dict[bytes, Callable[[Array], Array]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", self.x if not self.x.flags.writeable else freeze(self.x))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_fitted": {}}  # functions cannot be copied to another process

    def _card(self) -> Card:
        n, m, d = self.x.shape
        return Card(
            f"{self.likelihood.kind} posterior of {', '.join(self.names) or count_things(self.prior.dim, 'parameter')}",
            [
                ("rests on", f"{count_things(n, 'parameter')} with {count_things(m, 'run')} each"),
                ("observation", f"any of {count_things(d, 'number')}, or several of them"),
                ("how", self.how),
            ],
        )

    def log_likelihood(self, x_o: npt.ArrayLike) -> Array:
        """Estimate at each drawn parameter (n,), for one observation or several independent ones."""
        return self.likelihood(self.x, self._observations(x_o))

    def weighted(self, x_o: npt.ArrayLike) -> WeightedPosterior:
        """Return the pointwise posterior: drawn parameters with weights prior/proposal × likelihood."""
        observations = self._observations(x_o)
        low, high = self.prior.bounds
        total = self.log_weights + self.likelihood(self.x, observations)
        if total.max() == -np.inf:
            raise InferenceError(
                f"the likelihood of the observation is zero at all {len(total)} drawn parameters",
                code="far-observation",
                why="no parameter has any weight",
                fix="check x_o; draw more parameters; or use a likelihood with heavier tails (not unbiased=True)",
            )
        keep = total > total.max() - MAX_LOG_WEIGHT_GAP
        index = np.flatnonzero(keep)
        drawn, named = (self.theta[keep], total[keep]), (self.x_names, levels_of(self.prior), self.prior)
        return WeightedPosterior(*drawn, observations, low, high, self.names, None, index, *named)

    def surrogate(self, x_o: npt.ArrayLike) -> Callable[[Array], Array]:
        """Fit the smooth log-likelihood theta (k, p) -> (k,); those of the last observations are kept."""
        observations = self._observations(x_o)
        key = observations.tobytes()
        if key not in self._fitted:
            values, box = self.likelihood(self.x, observations), BoxTransform.of(self.prior)
            found = fit_surrogate(self.theta, values, box, process=self.how != "regression")
            if len(self._fitted) >= KEPT_SURROGATES:
                self._fitted.clear()
            self._fitted[key] = found
        return self._fitted[key]

    def chains(self, n: int, x_o: npt.ArrayLike, *, seed: int) -> Chains:
        """Draw from the surrogate posterior, with ESS and R-hat."""
        return sample_posterior(self.surrogate(x_o), self.prior, n, rng=np.random.default_rng(seed))

    def sample(self, n: int, x_o: npt.ArrayLike, *, seed: int = 0) -> Array:
        """Draw (n, p)."""
        if self.how != "pointwise":
            return self.chains(n, x_o, seed=seed).samples
        post = self.weighted(x_o)
        if post.ess < MIN_POINTWISE_ESS:
            warn(
                f"[few-effective-runs] the drawn parameters count as {post.ess:.0f} posterior draws;"
                ' how="surrogate" fills the gaps, more parameters near the posterior would too',
                stacklevel=3,
            )
        return post.sample(n, seed=seed)

    def sample_batched(self, n: int, x: npt.ArrayLike, seed: int = 0) -> Array:
        """Draw (m, n, p): n at each of m single observations x (m, *event).

        Made for calibration, as that of NLE: one short tempered run at each, without the checks of `chains`.
        """
        rows = np.asarray(x, dtype=np.float64).reshape(-1, *self.event)
        seeds = np.random.SeedSequence(seed).generate_state(len(rows)).tolist()
        draw = self.sample if self.how == "pointwise" else self._draw_tempered
        parts = [draw(n, one, seed=its) for one, its in zip(rows, seeds, strict=True)]
        return np.stack(parts) if parts else np.empty((0, n, self.prior.dim))

    def _draw_tempered(self, n: int, x_o: Array, *, seed: int) -> Array:
        likelihood, box, rng = self.surrogate(x_o), BoxTransform.of(self.prior), np.random.default_rng(seed)

        def log_prior(z: Array) -> Array:
            return drop_nan(self.prior.log_prob(box.to_bounded(z[0])) + box.log_jacobian(z[0]))[None]

        def log_likelihood(z: Array) -> Array:
            return drop_nan(likelihood(box.to_bounded(z[0])))[None]

        count = max(n + n % 2, MIN_WALKERS)
        start = box.to_unconstrained(self.prior.sample(START_PER_WALKER * count, rng))
        return box.to_bounded(temper_many(log_likelihood, log_prior, start[None], count, rng=rng)[0, :n])

    def log_prob(self, theta: npt.ArrayLike, x_o: npt.ArrayLike, *, normalise: bool = True) -> Array:
        """Log posterior density (k,): a kernel density (pointwise), or prior × surrogate.

        The latter is normalised by importance sampling, which takes most of the time, unless `normalise` is False.
        """
        if self.how == "pointwise":
            return self.weighted(x_o).log_prob(theta)
        likelihood = self.surrogate(x_o)
        theta = as_rows(theta, dim=self.prior.dim, names=self.prior.names)
        density = add_inside(self.prior, theta, likelihood)
        return density - self._log_evidence(likelihood) if normalise else density

    def log_evidence(self, x_o: npt.ArrayLike, seed: int = 0) -> LogEvidence:
        """Log of p(x_o) with its standard error: an average over the drawn parameters, or the surrogate's integral.

        The pointwise average is right as far as each likelihood is (`th.likelihoods.Gaussian(unbiased=True)`); the
        error of a surrogate is not in the standard error.

        Raises:
            ConfigError: bad-setting, a scoring rule is no density of x.
        """
        over, missing = self.evidence_measure
        if missing:
            raise ConfigError(
                "a scoring rule has no evidence: exp(-score) is not a density of x",
                code="bad-setting",
                fix="th.SyntheticLikelihood, th.NLE or th.ABC for model comparison",
            )
        if self.how == "pointwise":
            return replace(average_likelihood(self.log_likelihood(x_o), self.log_weights), over=over)
        found = integrate_likelihood(self.surrogate(x_o), self.prior, rng=np.random.default_rng(seed))
        return replace(found, over=over, se_without=LEARNING)

    def bind_density(self, x_o: npt.ArrayLike) -> Callable[[Array], Array]:
        """Return theta (k, p) -> log density (k,) up to a constant; the surrogate is fitted once."""
        if self.how == "pointwise":
            return self.weighted(x_o).log_prob
        likelihood = self.surrogate(x_o)
        return lambda theta: add_inside(self.prior, theta, likelihood)

    @property
    def evidence_measure(self) -> tuple[tuple[str, ...], str]:
        """What each statistic contributes to the likelihood, and what the likelihood lacks; see `LogEvidence`."""
        if self.likelihood.kind != "synthetic-likelihood":
            return (), "a constant: a score is not a density of x"
        return ("density",) * self.x.shape[2], ""

    def _log_evidence(self, likelihood: Callable[[Array], Array]) -> float:
        """Log integral of prior × likelihood: importance sampling from a Student t around emcee draws, over z."""
        rng = np.random.default_rng(20_250_505)  # a constant of the posterior: the same in every call
        box = BoxTransform.of(self.prior)
        z = box.to_unconstrained(sample_posterior(likelihood, self.prior, 1_000, rng=rng, quiet=True).samples)
        p, freedom = z.shape[1], 5.0
        centre = z.mean(0)
        root = np.linalg.cholesky(1.5 * covariance(z, np.zeros(len(z))) + 1e-12 * np.eye(p))
        u = rng.standard_normal((EVIDENCE_DRAWS, p)) / np.sqrt(rng.chisquare(freedom, (EVIDENCE_DRAWS, 1)) / freedom)
        points = centre + u @ root.T
        from scipy.special import gammaln, logsumexp

        log_t = (
            gammaln((freedom + p) / 2)
            - gammaln(freedom / 2)
            - 0.5 * p * np.log(freedom * np.pi)
            - np.log(np.diag(root)).sum()
            - 0.5 * (freedom + p) * np.log1p(np.square(u).sum(1) / freedom)
        )
        target = add_inside(self.prior, box.to_bounded(points), likelihood) + box.log_jacobian(points)
        return float(logsumexp(target - log_t) - np.log(len(points)))

    def _observations(self, x_o: npt.ArrayLike) -> Array:
        return read_observations(x_o, self.event, self.x_names).reshape(-1, self.x.shape[2])

    def save(self, path: str | Path) -> None:
        """Write plain arrays and a JSON recipe; `th.load_posterior` reads them back exactly."""
        archive.write(path, *self.to_parts())

    def to_parts(self) -> tuple[Recipe, Arrays]:
        """Return the JSON recipe and the plain arrays that rebuild the posterior."""
        recipe = {
            "kind": self.likelihood.kind,
            "names": list(self.names),
            "how": self.how,
            "event": list(self.event),
            "x_names": list(self.x_names),
            "failed_mass": self.failed_mass,
            "likelihood": self.likelihood.to_dict(),
            "prior": prior_to_dict(self.prior),
        }
        return recipe, {"theta": self.theta, "x": self.x, "log_weights": self.log_weights}

    @classmethod
    def from_parts(
        cls, recipe: Recipe, arrays: Arrays, prior: Prior, make_likelihood: Callable[[Array, Array], LogLikelihood]
    ) -> LikelihoodPosterior:
        """Rebuild the posterior from what `to_parts` returned; the likelihood is made from theta and the runs x."""
        theta, x, log_weights = (freeze(arrays[label]) for label in ("theta", "x", "log_weights"))
        if theta.ndim != 2 or x.ndim != 3 or not len(theta) == len(x) == len(log_weights):
            raise DataError(f"tables of {theta.shape}, {x.shape}, {log_weights.shape} disagree", code="bad-file")
        event, names = tuple(int(e) for e in recipe["event"]), tuple(recipe["names"])
        x_names = as_names(recipe.get("x_names", ()), x.shape[2], "names of statistics")
        about = (event, names, x_names, float(recipe.get("failed_mass", 0.0)))
        return cls(prior, theta, x, log_weights, make_likelihood(theta, x), recipe["how"], *about)
