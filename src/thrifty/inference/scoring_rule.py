"""Generalised Bayes with scoring rules (Pacchiardi and others): a posterior without a likelihood.

    p(theta | x_o) ∝ p(theta) exp(-lambda · sum over observations y of S(theta, y))

    energy   S = 2/m sum_j |x_j - y| - 1/(m(m-1)) sum_{j≠k} |x_j - x_k|
    kernel   S = 1/(m(m-1)) sum_{j≠k} k(x_j, x_k) - 2/m sum_j k(x_j, y),  k Gaussian

from the m runs x_j at theta: unbiased estimates of proper scores. The learning rate lambda is passed as `weight` or
calibrated at x_o. With loss L = sum of scores the posterior is asymptotically N(theta_hat, (lambda J)^-1), J the
curvature of the expected loss, while its minimiser theta_hat varies from data set to data set as J^-1 I J^-1, I the
variance of the loss's gradient. lambda makes both carry the same information (Lyddon, Holmes and Walker 2019):

    lambda = tr(J I^-1 J) / tr(J),   here in coordinates where J = 1:   lambda = mean eigenvalue of J^½ I^-1 J^½

With one parameter, credible intervals then have the coverage of confidence intervals: 1/(lambda J) = I/J^2. The
gradient's variance comes from pseudo-observations: runs already made at the parameters nearest the best one, so that
no new simulation is needed. Gradients and curvature are local quadratic regressions of the scores over theta.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from thrifty.display import DisplayedSettings
from thrifty.errors import ConfigError, InferenceError
from thrifty.inference.archive import Arrays, Recipe, Supplied
from thrifty.inference.before_fit import BeforeFit
from thrifty.inference.checks import check_weights_prior
from thrifty.inference.likelihood_posterior import How, LikelihoodPosterior, check_how, make_posterior
from thrifty.inference.sample_distances import measure_scale, squares
from thrifty.inference.surrogate import fit_quadratic, hessian_of, products
from thrifty.inference.transforms import BoxTransform
from thrifty.inference.vector_distances import chunks
from thrifty.priors import as_prior
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Prior, find_discrete, levels_of
from thrifty.weights import resample_indices

Score = Literal["energy", "kernel"]
Rows = npt.NDArray[np.intp]
PSEUDO_OBSERVATIONS = 400  # the gradient's variance to 7 %
LOCAL_FIT_SHARE = 0.15  # of the table; noise averages out, and the score is still a parabola
NEAREST_PARAMETERS = 20  # that pseudo-observations come from: near the best one, but not one alone with its noise


@dataclass(frozen=True)
class SampleScore:
    """Unbiased energy or kernel score of observations under the runs at each parameter.

    Attributes:
        kind: "energy" or "kernel".
        scale: Spread of each variable (d,), prior-weighted.
        lengthscale: Of the Gaussian kernel, in scaled units.
    """

    kind: Score
    scale: Array
    lengthscale: float = 1.0

    def _pair(self, a: Array, b: Array) -> Array:
        """The score's kernel with its sign: |a - b| for energy, -k(a, b) for the kernel score."""
        square = squares(a / self.scale, b / self.scale)
        return np.sqrt(square) if self.kind == "energy" else -np.exp(-square / (2 * self.lengthscale**2))

    def within(self, x: Array) -> Array:
        """The term of pairs j≠k (n,), which no observation changes."""
        m = x.shape[1]
        own = 0.0 if self.kind == "energy" else -1.0
        out = np.empty(len(x))
        for part in chunks(len(x), 8 * m * m):
            out[part] = (self._pair(x[part], x[part]).sum((1, 2)) - m * own) / (m * (m - 1))
        return out

    def across(self, x: Array, y: Array) -> Array:
        """Mean pair value (n, r) of the runs at each parameter with each observation y (r, d)."""
        out = np.empty((len(x), len(y)))
        for part in chunks(len(x), 8 * x.shape[1] * len(y)):
            out[part] = self._pair(x[part], y).mean(1)
        return out

    def __call__(self, x: Array, y: Array) -> Array:
        """Scores (n, r) of observations y (r, d) at each parameter's runs x (n, m, d)."""
        return 2 * self.across(x, y) - self.within(x)[:, None]


@dataclass(frozen=True, eq=False)
class ScaledScore:
    """-lambda times the summed score, as a log-likelihood of one table; lambda calibrated at x_o unless passed."""

    kind = "scoring-rule"

    score: SampleScore
    weight: float | None
    theta: Array
    box: BoxTransform
    within: Array
    _rates: dict[bytes, float] = field(default_factory=dict, repr=False)

    def __call__(self, x: Array, x_o: Array) -> Array:
        """Generalised log-likelihood (n,)."""
        total = (2 * self.score.across(x, x_o) - self.within[:, None]).sum(1)
        return -self.rate(x, x_o) * total

    def rate(self, x: Array, x_o: Array) -> float:
        """Return the learning rate at x_o, calibrated once: sampling and density must agree on it."""
        if self.weight is not None:
            return self.weight
        if (key := x_o.tobytes()) not in self._rates:
            z = self.box.to_unconstrained(self.theta)
            self._rates[key] = calibrate_rate(self.score, z, x, x_o, self.within)
        return self._rates[key]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that rebuild it."""
        score = {"score": self.score.kind, "scale": self.score.scale.tolist(), "lengthscale": self.score.lengthscale}
        return {"name": "scoring-rule", "weight": self.weight} | score


def calibrate_rate(score: SampleScore, z: Array, x: Array, x_o: Array, within: Array) -> float:
    """Calibrate lambda at x_o (r, d), from the runs x (n, m, d) at z (n, p), parameters without bounds.

    Raises:
        InferenceError: too-few-runs, the score has no minimum that the runs can locate.
    """
    loss = (2 * score.across(x, x_o) - within[:, None]).sum(1)
    quadratic = fit_quadratic(z, -loss, width=0.0, effective=LOCAL_FIT_SHARE * len(z))
    used = quadratic.weights > 1e-3
    best = np.clip(quadratic.peak, z[used].min(0), z[used].max(0))  # within the runs that carry the fit
    near = np.argsort(np.square((z - best) / quadratic.scale).sum(1))[:NEAREST_PARAMETERS]
    pseudo, owner = _choose_pseudo_observations(x, near)
    values = 2 * _across_without_self(score, x[used], pseudo, owner, np.flatnonzero(used)) - within[used, None]
    root = np.sqrt(quadratic.weights[used])[:, None]
    design = products((z[used] - best) / quadratic.scale)
    coefficients = np.linalg.lstsq(root * design, root * values, rcond=1e-10)[0]  # (terms, pseudo-observations)
    p = z.shape[1]
    curvature = hessian_of(coefficients.mean(1), p)
    spread = np.atleast_2d(np.cov(coefficients[1 : 1 + p]))
    values_j, vectors = np.linalg.eigh(curvature)
    if values_j.min() <= 0 or np.linalg.eigvalsh(spread).min() <= 0:
        raise InferenceError(
            f"the score has no clear minimum near the observation (curvatures {np.round(values_j, 4).tolist()})",
            code="too-few-runs",
            why="the learning rate is calibrated by the curvature of the score there",
            fix="pass weight=..., more runs per parameter (m), or more parameters near the posterior",
        )
    half = (vectors / np.sqrt(values_j)) @ vectors.T
    return float(np.mean(1 / np.linalg.eigvalsh(half @ spread @ half)))


def _choose_pseudo_observations(x: Array, near: Rows) -> tuple[Array, Rows]:
    """Choose runs (k, d) at the nearest parameters; return them and the row of each."""
    each = min(x.shape[1], -(-PSEUDO_OBSERVATIONS // len(near)))
    return x[near, :each].reshape(-1, x.shape[2]), np.repeat(near, each)


def _across_without_self(score: SampleScore, x: Array, y: Array, owner: Rows, rows: Rows) -> Array:
    """Return mean pair values (n, k) without the pair of a run with itself as pseudo-observation."""
    m = x.shape[1]
    out = score.across(x, y)
    own = 0.0 if score.kind == "energy" else -1.0
    mine = rows[:, None] == owner[None]
    return np.where(mine, (m * out - own) / (m - 1), out)


@dataclass(frozen=True, repr=False)
class ScoringRule(BeforeFit, DisplayedSettings):
    """Settings of a scoring-rule posterior.

    Args:
        prior: The prior.
        score: "energy" or "kernel".
        weight: Learning rate lambda; calibrated at each x_o when left out.
        how: "pointwise" (the default: each drawn parameter has its own score), "surrogate" or "regression".
        m: Runs per parameter; read from the table when left out.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.uniform(-3, 3, (500, 1))
        >>> x = theta[:, None] + rng.normal(size=(500, 50, 1))
        >>> sims = th.Simulations.from_arrays(theta=theta, x=x, m=50)
        >>> post = ScoringRule(th.Uniform(-3, 3), weight=1.0).fit(sims)
        >>> bool(abs(post.weighted(np.full((20, 1), 0.5)).mean[0] - 0.5) < 0.2)
        True
    """

    prior: Prior
    score: Score = "energy"
    weight: float | None = None
    how: How = "pointwise"
    m: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", as_prior(self.prior))
        check_how(self.how, self.prior)
        if self.score not in ("energy", "kernel"):
            raise ConfigError(f'score must be "energy" or "kernel", got {self.score!r}', code="bad-setting")
        if self.weight is not None and not 0 < self.weight < np.inf:
            raise ConfigError(f"weight must be a positive number, got {self.weight}", code="bad-setting")
        if self.weight is None and find_discrete(levels_of(self.prior)).any():
            raise ConfigError(
                "the learning rate is calibrated by the spread of the parameters, which categories do not have",
                code="conflicting-settings",
                fix="weight=1.0, or another number of your own; or th.NLE, th.NPE, th.ABC",
            )

    def fit(self, simulations: Simulations, *, seed: int = 0) -> LikelihoodPosterior:
        """Freeze scale and lengthscale from prior-weighted runs; `seed` has no effect."""

        def make_likelihood(valid: Simulations, x: Array) -> ScaledScore:
            scale = measure_scale(x[:, 0], valid.log_weights)
            score = SampleScore(self.score, scale, _choose_lengthscale(x / scale, valid.log_weights))
            return ScaledScore(score, self.weight, valid.theta, BoxTransform.of(self.prior), score.within(x))

        if self.how == "pointwise":  # the drawn parameters stand for the prior; a surrogate has its density
            check_weights_prior(simulations, self.prior, "ScoringRule")
        return make_posterior(simulations, self.prior, self.m, self.how, make_likelihood)


def _choose_lengthscale(x: Array, log_weights: Array) -> float:
    """Take the median over prior-weighted parameters of the median distance between two runs at one parameter."""
    some = resample_indices(log_weights, min(200, len(x)), rng=0)
    middle = [float(np.median(np.sqrt(squares(r, r))[np.triu_indices(len(r), 1)])) for r in x[some]]
    value = float(np.median(middle))
    return value if value > 0 else 1.0


def load_scoring_rule(recipe: Recipe, arrays: Arrays, supplied: Supplied) -> LikelihoodPosterior:
    """Rebuild a posterior of `ScoringRule` from the parts that it was saved as."""
    settings, prior = recipe["likelihood"], supplied.choose_prior(recipe)
    score = SampleScore(settings["score"], np.asarray(settings["scale"], float), float(settings["lengthscale"]))

    def make_likelihood(theta: Array, x: Array) -> ScaledScore:
        return ScaledScore(score, settings["weight"], theta, BoxTransform.of(prior), score.within(x))

    return LikelihoodPosterior.from_parts(recipe, arrays, prior, make_likelihood)
