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
from thrifty.models.base import OBSERVATION, Model, as_generator, check_whole, make_run_stream
from thrifty.models.compiled import kernel
from thrifty.models.stream import Words, draw_start, next_exponential, next_small_gamma, next_uniform, seed_state
from thrifty.priors import Uniform
from thrifty.types import Array, Prior, as_rows

_GRID_POINTS = 20_001  # over ± 10 sd: a cell is 1/1000 sd, the trapezoid rule's error below 1e-12
_MAX_LOG_DEPTH = 50.0  # log units below the mode that are kept: exp(-50) of the mass is left out
SUMMARIES = {
    "mean": np.mean,
    "sd": lambda sample: np.std(sample, ddof=1),
    "mean_log": lambda sample: np.log(sample).mean(),  # the sufficient statistic
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
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

    NAMES: ClassVar[tuple[str, ...]] = ("shape",)
    POSITIVE: ClassVar[tuple[str, ...]] = NAMES
    prior: Prior = field(default_factory=lambda: Uniform([100.0], [1000.0], names=Gamma.NAMES))  # type: ignore[arg-type]
    theta_true: Array = 500.0  # type: ignore[assignment]
    m: int = 500
    summaries: tuple[str, ...] = ("mean", "sd")

    def __post_init__(self) -> None:
        check_whole("m", self.m, 2)
        unknown = [name for name in self.summaries if name not in SUMMARIES]
        if unknown or not self.summaries:
            raise ConfigError(f"summaries {self.summaries} must be some of {', '.join(SUMMARIES)}", code="bad-setting")
        object.__setattr__(self, "summaries", tuple(self.summaries))
        super().__post_init__()

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


@dataclass(frozen=True, eq=False)
class GridPosterior:
    """The density proportional to exp(log_density) on [low, high], for one unimodal parameter, integrated on a grid.

    `sample`, `log_prob`, `names`, `dim` and `bounds` are those of a prior, so it can be used as one.

    Example:
        >>> posterior = GridPosterior(lambda t: -0.5 * t**2, -1.0, 40.0)
        >>> posterior.log_prob([[0.0]]).round(4).tolist(), round(posterior.mean, 4)
        ([-0.7462], 0.2876)
    """

    log_density: Callable[[Array], Array] = field(repr=False)
    low: float
    high: float
    names: tuple[str, ...] = ("theta",)
    grid: Array = field(init=False, repr=False, default=None)  # type: ignore[assignment]
    density: Array = field(init=False, repr=False, default=None)  # type: ignore[assignment]
    log_normaliser: float = field(init=False, repr=False, default=0.0)

    def __post_init__(self) -> None:
        grid = _grid_around_mode(self.log_density, self.low, self.high)
        values = self.log_density(grid)
        peak = values.max()
        log_normaliser = float(peak + np.log(np.trapezoid(np.exp(values - peak), grid)))
        object.__setattr__(self, "grid", grid)
        object.__setattr__(self, "density", np.exp(values - log_normaliser))
        object.__setattr__(self, "log_normaliser", log_normaliser)

    @property
    def dim(self) -> int:
        """One parameter."""
        return 1

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The prior's box."""
        return np.array([self.low]), np.array([self.high])

    @property
    def mean(self) -> float:
        """Posterior mean."""
        return float(np.trapezoid(self.grid * self.density, self.grid))

    @property
    def sd(self) -> float:
        """Posterior standard deviation."""
        return float(np.sqrt(np.trapezoid((self.grid - self.mean) ** 2 * self.density, self.grid)))

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Normalised log density (n,) of theta (n, 1): the formula itself, no interpolation."""
        point = as_rows(theta, dim=1)[:, 0]
        inside = (point >= self.low) & (point <= self.high)
        safe = np.where(inside, point, self.grid[0])
        return np.where(inside, self.log_density(safe) - self.log_normaliser, -np.inf)

    def cdf(self, theta: npt.ArrayLike) -> Array:
        """P(parameter <= theta) (n,)."""
        return np.interp(as_rows(theta, dim=1)[:, 0], self.grid, self._cumulative(), left=0.0, right=1.0)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw (n, 1) by inverting the distribution function."""
        return np.interp(as_generator(rng).random(n), self._cumulative(), self.grid)[:, None]

    def _cumulative(self) -> Array:
        area = 0.5 * (self.density[1:] + self.density[:-1]) * np.diff(self.grid)
        total = np.concatenate([[0.0], np.cumsum(area)])
        return total / total[-1]


def _grid_around_mode(log_density: Callable[[Array], Array], low: float, high: float) -> Array:
    """Shrink [low, high] to where the density counts; each round narrows by up to 500×."""
    for _ in range(4):
        grid = np.linspace(low, high, 2001)
        with np.errstate(divide="ignore", invalid="ignore"):  # data that no parameter can make are an error below
            values = log_density(grid)
        if np.isnan(values).any() or not np.isfinite(values.max()):
            raise DataError(
                "no parameter of the prior could have made these data",
                code="far-observation",
                fix="look for zeros, signs and units in x_o; model.observed(seed) is an example",
            )
        kept = np.flatnonzero(values > values.max() - _MAX_LOG_DEPTH)
        low, high = float(grid[max(kept[0] - 1, 0)]), float(grid[min(kept[-1] + 1, len(grid) - 1)])
    return np.linspace(low, high, _GRID_POINTS)
