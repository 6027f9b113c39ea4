"""Importance-corrected posteriors: draws of one posterior, reweighted by prior × likelihood.

    theta_i ~ q(theta | x_o),    w_i = p(theta_i) p(x_o | theta_i) / q(theta_i | x_o),    p(x_o) ≈ mean of w_i

q is a posterior that can be drawn from and evaluated (NPE), the likelihood a learned one (NLE) or the user's function.
The weights are Pareto-smoothed; their shape k and effective size say whether the correction helps. The corrected
posterior is that of the *likelihood*: a wrong likelihood is not put right by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, Displayed
from thrifty.errors import ConfigError, InferenceError, warn
from thrifty.inference import archive
from thrifty.inference.abc import ABCPosterior
from thrifty.inference.answers.dimensions import Divisible
from thrifty.inference.answers.evidence import LEARNING, MAX_TAIL_SHAPE, LogEvidence
from thrifty.inference.answers.likelihood_of import bind_likelihood, check_likelihood, describe_likelihood
from thrifty.inference.answers.smoothing import smooth_weights
from thrifty.inference.archive import Arrays, Recipe
from thrifty.inference.checks import check_draws
from thrifty.inference.likelihood_posterior import LikelihoodPosterior
from thrifty.inference.posterior_draws import Sampled, drop_nan
from thrifty.inference.weighted_posterior import WeightedPosterior
from thrifty.named import hash_observation, order_observation
from thrifty.plots.plotted_posterior import PlottedPosterior
from thrifty.priors import as_prior
from thrifty.priors.families import as_parameter_names
from thrifty.priors.prior_dict import prior_to_dict
from thrifty.proposals.reference import add_inside, log_mean_exp
from thrifty.types import Array, Prior, as_rows, levels_of
from thrifty.weights import ess, resample_indices

MIN_CANDIDATES = 4_000  # draws of q: a Pareto k to 0.1, an evidence to 2 % where half of them count
MAX_CANDIDATES_PER_DRAW = 20  # beyond, few draws are repeated many times, whatever is done
MIN_EFFECTIVE_SHARE = 0.1  # of the candidates; below, more than nine in ten are drawn for nothing
MISSED = "what the draws of a poor correction miss"
UNCHANGED_SHARE = 0.98  # of the candidates; above, the weights hardly differ: q was right already


@dataclass(frozen=True)
class Correction:
    """Weighted draws of a corrected posterior at one observation, and whether the correction helps.

    Attributes:
        weighted: The draws of q with smoothed weights.
        ess: Effective draws.
        k: Pareto shape of the weights: below 0.5 fine, above 0.7 not to be trusted.
        evidence: Log of p(x_o), the mean weight.
        verdict: "corrected", "unchanged" (q was right already) or "not corrected" (q misses what the likelihood wants).
        reason: One sentence with the numbers.
    """

    weighted: WeightedPosterior
    ess: float
    k: float
    evidence: LogEvidence
    verdict: str
    reason: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.reason}; log evidence {self.evidence}"


@dataclass(frozen=True, eq=False, repr=False)
class Corrected(PlottedPosterior, Divisible):
    """A posterior whose draws are reweighted by prior × likelihood.

    Args:
        posterior: What is drawn from: a posterior of `th.NPE` (or `th.NLE`, `th.NRE`, an ensemble), or an object with
            `sample(n, x_o, seed=)` and a normalised `log_prob(theta, x_o)`.
        likelihood: What it is corrected by: a posterior of `th.NLE`, `th.NRE` or `th.SyntheticLikelihood`, an ensemble
            of NLE, or a function (theta (n, p), x_o) -> log likelihood (n,).
        prior: The prior; by default the posterior's.

    Example:
        >>> class Wide:  # N(0, 2²) where the posterior is N(0.5, 1/2)
        ...     def sample(self, n, x_o, *, seed):
        ...         return 2 * np.random.default_rng(seed).normal(size=(n, 1))
        ...     def log_prob(self, theta, x_o):
        ...         return th.Normal(0, 2).log_prob(theta)
        >>> def log_likelihood(theta, x_o):
        ...     return th.Normal(x_o, 1).log_prob(theta)
        >>> posterior = Corrected(Wide(), log_likelihood, prior=th.Normal(0, 1))
        >>> found = posterior.correct([1.0], seed=0)
        >>> found.verdict, bool(abs(found.weighted.mean[0] - 0.5) < 5 * found.weighted.mean_se[0])
        ('corrected', True)
    """

    posterior: Any
    likelihood: Any
    prior: Prior = None  # type: ignore[assignment]
    _levels: dict[bytes, float] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        _check_drawn(self.posterior)
        prior = getattr(self.posterior, "prior", None) if self.prior is None else self.prior
        if prior is None:
            raise ConfigError("the posterior has no prior", code="bad-setting", fix="th.Corrected(..., prior=prior)")
        check_likelihood(self.likelihood)
        object.__setattr__(self, "prior", as_prior(prior))
        _check_names(self)

    def _card(self) -> Card:
        parts = {"drawn from": self.posterior, "corrected by": self.likelihood}
        facts = [(label, _write_title(part)) for label, part in parts.items()]
        return Card(f"corrected posterior of {', '.join(self.names)}", facts)

    @property
    def names(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Parameter names."""
        return tuple(self.prior.names)

    @property
    def x_names(self) -> tuple[str, ...]:
        """Names of the numbers in one observation, or empty."""
        return getattr(self.posterior, "x_names", ())

    @property
    def failed_mass(self) -> float:
        """Share of prior mass whose runs failed in the table of the likelihood, where it says so."""
        return getattr(self.likelihood, "failed_mass", 0.0)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader should know about both fits."""
        parts = (self.posterior, self.likelihood)
        return tuple(dict.fromkeys(note for part in parts for note in getattr(part, "notes", ())))

    def correct(self, x_o: npt.ArrayLike, n: int = MIN_CANDIDATES, seed: int = 0) -> Correction:
        """Draw n from the posterior and weight them; `verdict` and `reason` say whether that helps."""
        check_draws(n, seed)
        x_o = self._read_observation(x_o)
        theta = np.asarray(self.posterior.sample(n, x_o, seed=seed), dtype=np.float64)
        raw = self.bind_density(x_o)(theta) - self.posterior.log_prob(theta, x_o)
        return self._judge(theta, drop_nan(raw), x_o)

    def _read_observation(self, x_o: Any) -> Array:
        """Return an observation as numbers, in the order of the simulator's where it has names."""
        return np.asarray(order_observation(x_o, (len(self.x_names),), self.x_names), dtype=np.float64)

    def _judge(self, theta: Array, raw: Array, x_o: Array) -> Correction:
        if raw.max() == -np.inf:
            raise InferenceError(
                f"prior × likelihood is zero at all {len(raw)} draws of the posterior",
                code="far-observation",
                why="there is nothing to reweight",
                fix="check x_o and the likelihood; the posterior may lie elsewhere",
            )
        smooth, k = smooth_weights(raw)
        size, (low, high) = ess(smooth), self.prior.bounds
        level, values = log_mean_exp(smooth), np.exp(smooth - smooth.max())
        se = float(values.std(ddof=1) / values.mean() / np.sqrt(len(values)))
        over, missing = describe_likelihood(self.likelihood)
        share = size / len(raw)
        reason = f"{len(raw):,} draws count as {size:,.0f}, Pareto k {k:.2f}"
        poor = k > MAX_TAIL_SHAPE or share < MIN_EFFECTIVE_SHARE
        verdict = "not corrected" if poor else "unchanged" if share > UNCHANGED_SHARE else "corrected"
        without = ([] if callable(self.likelihood) else [LEARNING]) + ([MISSED] if poor else [])
        return Correction(
            weighted=WeightedPosterior(
                theta,
                smooth,
                x_o,
                low,
                high,
                self.names,
                x_names=self.x_names,
                levels=levels_of(self.prior),
                prior=self.prior,
            ),
            ess=size,
            k=k,
            evidence=LogEvidence(level, se, size, over, missing, " and ".join(without)),
            verdict=verdict,
            reason=reason,
        )

    def draw(self, n: int, x_o: npt.ArrayLike, seed: int = 0) -> Sampled:
        """Draw, with the effective share of the posterior's draws; warns where the correction does not help."""
        check_draws(n, seed)
        found = self.correct(x_o, MIN_CANDIDATES, seed)
        ratio = len(found.weighted) * float(found.weighted.weights.max())  # of the largest weight to the mean
        count = int(n * np.clip(1.2 * ratio, 2.0, MAX_CANDIDATES_PER_DRAW))
        if count > MIN_CANDIDATES:
            found = self.correct(x_o, count, seed)
        _warn_if_poor(found)
        pool = found.weighted
        chosen = resample_indices(pool.log_weights, n, rng=np.random.default_rng([seed, 1]))
        effective = np.full(self.prior.dim, min(float(n), found.ess))
        share, rhat = found.ess / len(pool), np.ones(self.prior.dim)
        return Sampled(pool.theta[chosen], 1.0, share, effective, rhat, names=self.parameter_names)

    def sample(self, n: int, x_o: npt.ArrayLike, seed: int = 0) -> Array:
        """Draw (n, p) from the corrected posterior at x_o."""
        return self.draw(n, x_o, seed).samples

    def log_prob(self, theta: npt.ArrayLike, x_o: npt.ArrayLike) -> Array:
        """Log of prior × likelihood over the evidence (k,), at theta (k, p)."""
        key = hash_observation(x_o)
        if key not in self._levels:
            found = self.correct(x_o)
            _warn_if_poor(found)
            self._levels[key] = found.evidence.value
        return self.bind_density(x_o)(as_rows(theta, dim=self.prior.dim, names=self.prior.names)) - self._levels[key]

    def log_evidence(self, x_o: npt.ArrayLike, seed: int = 0) -> LogEvidence:
        """Log of p(x_o), the mean weight; its error has neither that of the likelihood nor a wrong k in it.

        Warns where the correction does not help: the evidence is then too small by what the draws miss.
        """
        found = self.correct(x_o, MIN_CANDIDATES, seed)
        _warn_if_poor(found)
        return found.evidence

    def bind_density(self, x_o: npt.ArrayLike) -> Callable[[Array], Array]:
        """Return theta (k, p) -> log of prior × likelihood (k,)."""
        likelihood = bind_likelihood(self.likelihood, self._read_observation(x_o))
        return lambda theta: add_inside(self.prior, theta, likelihood)

    def save(self, path: str | Path) -> None:
        """Write both parts to one file; a function must be passed again: `th.load_posterior(path, likelihood=f)`."""
        archive.write(path, *self.to_parts())

    def to_parts(self) -> tuple[Recipe, Arrays]:
        """Return the JSON recipe and the plain arrays that rebuild both parts."""
        if not hasattr(self.posterior, "to_parts"):
            raise ConfigError(
                f"a {type(self.posterior).__name__} of your own cannot be saved",
                code="code-not-saved",
                why="saved posteriors hold plain numbers and never code",
                fix="save corrected.correct(x_o).weighted, or use a posterior of thrifty",
            )
        own: tuple[Recipe, Arrays] = ({"kind": "own", "type": getattr(self.likelihood, "__name__", "function")}, {})
        likelihood = self.likelihood.to_parts() if hasattr(self.likelihood, "to_parts") else own
        parts = [self.posterior.to_parts(), likelihood]
        return archive.join_members(parts, kind="corrected", prior=prior_to_dict(self.prior))


def _warn_if_poor(found: Correction) -> None:
    if found.verdict == "not corrected":
        warn(
            f"[few-effective-runs] the correction does not help: {found.reason} (wanted: k below {MAX_TAIL_SHAPE}"
            f" and {MIN_EFFECTIVE_SHARE:.0%} of the draws). The posterior misses where the likelihood is large:"
            " sample the likelihood's own posterior instead, or fit the posterior to more runs",
            stacklevel=4,
        )


def _write_title(part: Any) -> str:
    return part._card().title if isinstance(part, Displayed) else getattr(part, "__name__", type(part).__name__)


def _check_names(corrected: Corrected) -> None:
    """Refuse parts whose parameters or statistics have other names, or the same in another order."""
    own, made_up = tuple(corrected.prior.names), as_parameter_names(None, corrected.prior.dim)
    for part in (corrected.posterior, corrected.likelihood):
        its = tuple(getattr(part, "names", ()))
        if its and its != own and made_up not in (its, own):
            raise _mismatch(f"the {type(part).__name__} has the parameters {', '.join(its)}", own)
    its = tuple(getattr(corrected.likelihood, "x_names", ()))
    if its and corrected.x_names and its != tuple(corrected.x_names):
        raise _mismatch(f"the likelihood has the statistics {', '.join(its)}", corrected.x_names)


def _mismatch(what: str, wanted: tuple[str, ...]) -> ConfigError:
    return ConfigError(
        f"{what}; expected {', '.join(wanted)}, in this order",
        code="conflicting-settings",
        why="one number would be read as another",
        fix="fit both parts to one table, or to tables with the same columns in the same order",
    )


def _check_drawn(posterior: Any) -> None:
    """Refuse what cannot be drawn from and evaluated alike."""
    if not (hasattr(posterior, "sample") and hasattr(posterior, "log_prob")):
        raise ConfigError(
            f"{type(posterior).__name__} has no sample and log_prob", code="bad-posterior", fix="pass what fit returned"
        )
    pointwise = isinstance(posterior, LikelihoodPosterior) and posterior.how == "pointwise"
    if pointwise or isinstance(posterior, ABCPosterior | WeightedPosterior):
        raise ConfigError(
            f"{type(posterior).__name__} draws from its runs, but evaluates a kernel density",
            code="bad-posterior",
            why="weights would be those of another density than the one drawn from",
            fix="correct a posterior of th.NPE, or use th.SyntheticLikelihood(prior).fit(simulations) by itself",
        )
