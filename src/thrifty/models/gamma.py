"""Gamma: m draws of Gamma(theta, 1), made so that a draw costs what theta is (the paper's section 4.1).

A draw is the sum of floor(theta) standard exponentials and, for the fraction a = theta − floor(theta), one
Gamma(a, 1) by rejection from x^(a-1) on [0, 1] and e^(-x) beyond (Ahrens and Dieter 1974, exact for a < 1). The
paper names the Ahrens–Dieter method of 1982, whose cost hardly depends on theta; the sampler behind its linear cost
is this sum.

Operations: exponentials and uniforms drawn; on average m (floor(theta) + 2 (1 + a/e) / Γ(1 + a)).

True posterior: the m raw values are known, so p(theta | x) ∝ exp((theta − 1) Σ log x − m log Γ(theta)) under the
uniform prior. This is what the paper compares with. Inference only sees the statistics; what they alone allow is
`statistics_posterior`, which for mean and sd differs from it by a few thousandths of a posterior sd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from thrifty.errors import ConfigError, DataError
from thrifty.models.base import OBSERVATION, Model, make_run_stream
from thrifty.models.compiled import kernel
from thrifty.models.grid import GridPosterior
from thrifty.models.stream import Words, draw_start, next_exponential, next_small_gamma, next_uniform, seed_state
from thrifty.priors import Uniform
from thrifty.types import Array, Prior, as_rows

SUMMARIES = {
    "mean": np.mean,
    "sd": lambda sample: np.std(sample, ddof=1),
    "mean_log": lambda sample: np.log(sample).mean(),  # the sufficient statistic
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Gamma(Model):
    """Shape theta ~ U(100, 1000), m = 500 draws; the paper's truths are 250, 500 and 750.

    Attributes:
        m: Draws per run.
        summaries: Statistics of a run, of "mean", "sd" and "mean_log".

    Example:
        >>> model = th.models.Gamma(theta_true=250)
        >>> sample = model.observed_sample(seed=1)
        >>> bool(np.isclose(model.observed(seed=1)[0], sample.mean()))
        True
        >>> round(model.reference_posterior(sample).sd, 1)  # about sqrt(theta/m)
        0.7
    """

    POSITIVE: ClassVar[tuple[str, ...]] = ("shape",)
    prior: Prior = field(default_factory=lambda: Uniform([100.0], [1000.0], names=("shape",)))  # type: ignore[arg-type]
    theta_true: Array = 500.0  # type: ignore[assignment]
    m: int = 500
    summaries: tuple[str, ...] = ("mean", "sd")

    def __post_init__(self) -> None:
        if not isinstance(self.m, int | np.integer) or self.m < 2:
            raise ConfigError(f"m must be a whole number >= 2, got {self.m!r}", code="bad-setting")
        unknown = [name for name in self.summaries if name not in SUMMARIES]
        if unknown or not self.summaries:
            raise ConfigError(f"summaries {self.summaries} must be some of {', '.join(SUMMARIES)}", code="bad-setting")
        object.__setattr__(self, "summaries", tuple(self.summaries))
        super().__post_init__()

    def _names(self) -> tuple[str, ...]:
        return ("shape",)

    @property
    def summary_names(self) -> tuple[str, ...]:
        """The chosen summaries."""
        return self.summaries

    def _run(self, theta: Array, rng: np.random.Generator) -> tuple[Array, float]:
        sample, operations = _gamma_draws(theta[0], self.m, draw_start(rng))
        return np.array([SUMMARIES[name](sample) for name in self.summaries]), float(operations)

    def observed_sample(self, seed: int) -> Array:
        """Return the raw values (m,) behind `observed(seed)`."""
        return _gamma_draws(self.theta_true[0], self.m, draw_start(make_run_stream(seed, OBSERVATION, 0)))[0]

    def expected_cost(self, theta: npt.ArrayLike) -> Array:
        """Return mean number of operations (n,) at each row of theta (n, 1)."""
        shape = as_rows(theta, dim=1)[:, 0]
        a = shape - np.floor(shape)
        rejection = np.where(a > 0, 2 * (1 + a / np.e) / np.exp(gammaln(1 + a)), 0.0)  # two uniforms a try
        return self.m * (np.floor(shape) + rejection) + self.overhead

    def reference_posterior(self, sample: npt.ArrayLike) -> GridPosterior:
        """Return the posterior given the m raw values (m,)."""
        values = np.asarray(sample, dtype=np.float64)
        if values.shape != (self.m,) or not (np.isfinite(values) & (values > 0)).all():
            raise DataError(
                f"reference_posterior needs the {self.m} raw positive values, got shape {values.shape}",
                code="bad-observation",
                fix="model.observed_sample(seed), or statistics_posterior(x_o) for the statistics",
            )
        return self._posterior(lambda t: self._log_given_mean_log(t, np.log(values).mean()))

    def statistics_posterior(self, x_o: npt.ArrayLike) -> GridPosterior:
        """Return the posterior given the statistics x_o (q,).

        "mean" is exactly Gamma(m theta, m) and "mean_log" is sufficient, so both are exact. For ("mean", "sd"), mean
        and sd/mean are independent (the latter does not depend on scale); the law of (sd/mean)² is replaced by the
        Gamma law with the same, exact, mean and variance. It carries 1/(2 theta) of the information.
        """
        x = np.atleast_1d(np.asarray(x_o, dtype=np.float64))
        if x.shape != (len(self.summaries),) or not np.isfinite(x).all():
            raise DataError(
                f"x_o must be {len(self.summaries)} finite numbers, got {x.tolist()}", code="bad-observation"
            )
        given = dict(zip(self.summaries, x.tolist(), strict=True))
        if "mean_log" in given:
            return self._posterior(lambda t: self._log_given_mean_log(t, given["mean_log"]))
        if "mean" not in given:
            raise ConfigError(
                "the posterior given sd alone is not known", code="bad-setting", fix='add "mean" to summaries'
            )
        if "sd" not in given:
            return self._posterior(lambda t: self._log_given_mean(t, given["mean"]))
        cv2 = (given["sd"] / given["mean"]) ** 2
        return self._posterior(lambda t: self._log_given_mean(t, given["mean"]) + self._log_given_cv2(t, cv2))

    def _posterior(self, log_likelihood: Callable[[Array], Array]) -> GridPosterior:
        if not isinstance(self.prior, Uniform):
            raise ConfigError("the reference posterior is for a uniform prior", code="wrong-prior")
        return GridPosterior(log_likelihood, float(self.prior.low[0]), float(self.prior.high[0]), self.names)

    def _log_given_mean_log(self, theta: Array, mean_log: float) -> Array:
        return self.m * ((theta - 1) * mean_log - gammaln(theta))

    def _log_given_mean(self, theta: Array, mean: float) -> Array:
        return self.m * theta * np.log(self.m * mean) - gammaln(self.m * theta)

    def _log_given_cv2(self, theta: Array, cv2: float) -> Array:
        m, total = self.m, self.m * theta
        mean = 1 / (theta + 1 / m)
        fourth = theta**2 + (3 * theta**2 + 6 * theta) / m - theta**2 * (m - 3) / (m * (m - 1))  # E s⁴
        variance = fourth * m**4 / (total * (total + 1) * (total + 2) * (total + 3)) - mean**2
        shape, scale = mean**2 / variance, variance / mean
        return (shape - 1) * np.log(cv2) - cv2 / scale - gammaln(shape) - shape * np.log(scale)


@kernel
def _gamma_draws(theta: float, m: int, start: Words) -> tuple[Array, int]:
    g = seed_state(start)
    sample = np.empty(m)
    whole = int(theta)
    fraction = theta - whole
    operations = m * whole
    for i in range(m):
        total = 0.0
        for _ in range(whole // 16):  # the sum of 16 exponentials is −log of a product of 16 uniforms, all > 2^−53
            product = 1.0
            for _ in range(8):
                u, g = next_uniform(g)
                v, g = next_uniform(g)
                product *= (1.0 - u) * (1.0 - v)
            total -= np.log(product)
        for _ in range(whole % 16):
            value, g = next_exponential(g)
            total += value
        if fraction > 0.0:
            value, tries, g = next_small_gamma(fraction, g)
            total += value
            operations += 2 * tries
        sample[i] = total
    return sample, operations
