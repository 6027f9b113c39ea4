"""Generalised Bayes with scoring rules (Pacchiardi and others): a posterior without a likelihood.

    p(theta | x_o) ∝ p(theta) exp(-lambda · sum over observations y of S(theta, y))

    energy   S = 2/m sum_j |x_j - y| - 1/(m(m-1)) sum_{j≠k} |x_j - x_k|
    kernel   S = 1/(m(m-1)) sum_{j≠k} k(x_j, x_k) - 2/m sum_j k(x_j, y),  k Gaussian

from the m runs x_j at theta: unbiased estimates of proper scores. lambda is calibrated at x_o (see
`learning_rate.py`) or given as `weight`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from thrifty.errors import ConfigError, DataError
from thrifty.inference.learning_rate import calibrated
from thrifty.inference.likelihood_posterior import How, LikelihoodPosterior, check_how, realisations
from thrifty.inference.sample_distances import squares
from thrifty.inference.spread import chunks, robust_spread
from thrifty.inference.transforms import BoxTransform
from thrifty.priors import as_prior
from thrifty.types import Array, Prior, Simulations
from thrifty.weights import resample_indices

Score = Literal["energy", "kernel"]


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


@dataclass(frozen=True)
class ScaledScore:
    """-lambda times the summed score, as a log-likelihood; lambda calibrated at x_o unless given."""

    score: SampleScore
    weight: float | None
    theta: Array
    box: BoxTransform
    within: Array

    def __call__(self, x: Array, x_o: Array) -> Array:
        """Generalised log-likelihood (n,)."""
        total = (2 * self.score.across(x, x_o) - self.within[:, None]).sum(1)
        return -self.rate(x, x_o) * total

    def rate(self, x: Array, x_o: Array) -> float:
        """The learning rate at x_o."""
        if self.weight is not None:
            return self.weight
        return _cached_rate(_Key(self, x, x_o))

    def recipe(self) -> dict[str, Any]:
        """Plain values that rebuild it."""
        score = {"score": self.score.kind, "scale": self.score.scale.tolist(), "lengthscale": self.score.lengthscale}
        return {"name": "scoring-rule", "weight": self.weight} | score


class _Key:
    """One calibration per (table, observation): sampling and density must agree on it, and it takes a while."""

    def __init__(self, scaled: ScaledScore, x: Array, x_o: Array) -> None:
        self.scaled, self.x, self.x_o = scaled, x, x_o
        self._id = (id(x), x_o.tobytes(), scaled.score.kind, scaled.score.lengthscale)

    def __hash__(self) -> int:
        return hash(self._id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._id == other._id and self.x is other.x


@lru_cache(maxsize=8)
def _cached_rate(key: _Key) -> float:
    scaled = key.scaled
    return calibrated(scaled.score, scaled.box.to_unconstrained(scaled.theta), key.x, key.x_o, scaled.within)


@dataclass(frozen=True)
class ScoringRule:
    """Settings of a scoring-rule posterior.

    Args:
        prior: The prior.
        score: "energy" or "kernel".
        weight: Learning rate lambda; calibrated at each x_o when left out.
        how: "pointwise" (the default: each drawn parameter's score stands alone), "surrogate" or "regression".
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
        check_how(self.how)
        if self.score not in ("energy", "kernel"):
            raise ConfigError(f'score must be "energy" or "kernel", got {self.score!r}', code="bad-setting")
        if self.weight is not None and not 0 < self.weight < np.inf:
            raise ConfigError(f"weight must be a positive number, got {self.weight}", code="bad-setting")

    def fit(self, simulations: Simulations, *, seed: int = 0) -> LikelihoodPosterior:
        """Freeze scale and lengthscale from prior-weighted runs; `seed` is for uniformity."""
        valid, x = realisations(simulations, self.m)
        if valid.dim != self.prior.dim:
            raise DataError(
                f"simulations have {valid.dim} parameters, the prior has {self.prior.dim}", code="wrong-prior"
            )
        spread = robust_spread(x[:, 0], valid.log_weights)
        if not (spread > 0).any():
            raise DataError(f"all {len(spread)} variables are constant in all runs", code="constant-output")
        scale = np.where(spread > 0, spread, np.inf)
        score = SampleScore(self.score, scale, _lengthscale(x / scale, valid.log_weights))
        return LikelihoodPosterior(
            prior=self.prior,
            theta=valid.theta,
            x=x,
            log_weights=valid.log_weights,
            likelihood=ScaledScore(score, self.weight, valid.theta, BoxTransform.of(self.prior), score.within(x)),
            how=self.how,
            event=valid.x.shape[2:],
            kind="scoring-rule",
            names=valid.names or self.prior.names,
        )


def _lengthscale(x: Array, log_weights: Array) -> float:
    """Median over prior-weighted parameters of the median distance between two runs at one parameter."""
    some = resample_indices(log_weights, min(200, len(x)), rng=0)
    middle = [float(np.median(np.sqrt(squares(r, r))[np.triu_indices(len(r), 1)])) for r in x[some]]
    value = float(np.median(middle))
    return value if value > 0 else 1.0
