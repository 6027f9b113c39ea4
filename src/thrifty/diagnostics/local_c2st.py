"""Local classifier two-sample test: is the posterior correct *at x_o*? (Linhart et al. 2023), with weights.

SBC, coverage and TARP average over all observations. Here a classifier learns to distinguish held-out parameters from
posterior draws as a function of the observation, and is then evaluated at x_o:

    T(x_o) = mean over posterior draws at x_o of (P(held-out | draw, x_o) - 1/2)^2

Parameters enter as z = (theta - mean) / sd of the posterior at their x. The observation enters as c: that posterior
mean, the leading components of x itself (a posterior that ignores x has one mean for all), and a prediction of z from
all of x, fitted on a third of the pairs, which finds one informative statistic among many that are noise. The
classifier is a linear discriminant on z, z z, z c and random tanh units of both; terms of c alone would cancel

    log odds = phi(z, c) . (G + ridge)^-1 g,    g = sum w_i (phi of the held-out one - mean phi of its rivals)

with G the pooled second moment. If the posterior is correct, a held-out parameter and its rivals, posterior draws at
the same x_i, are exchangeable. The null distribution of T comes from exchanging it with one of them: a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np
import numpy.typing as npt

from thrifty.diagnostics.arguments import check_count, check_posterior, draw_posterior
from thrifty.diagnostics.features import Components, RankRegression
from thrifty.diagnostics.replicates import Replicates, replicate
from thrifty.diagnostics.verdict import DisplayedCheck, Trust, format_p_value, judge_effect
from thrifty.errors import DataError
from thrifty.inference.checks import read_observation
from thrifty.named import order_observation
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Posterior
from thrifty.weights import normalise

_UNITS = 30  # random units: enough for a curved boundary, few enough for 500 pairs
_RIDGE_COUNTS = 3.0  # pseudo-counts: shrinks chance patterns without hiding a shift of half an sd
_RIVALS = 5  # posterior draws compared with each held-out parameter
_MAX_PRODUCTS = 40  # of z and c, and of z with itself: a tenth of the pairs
_MAX_COMPONENTS = 8  # of x
_MAX_SDS = 8.0  # posterior sd at which a parameter is clipped
_FIT_EVERY = 3  # every third pair fits the prediction of z from x; its own prediction is zero
_DRAWS_AT_X_O = 500  # draws at x_o that T is averaged over


@dataclass(frozen=True, repr=False)
class LocalC2ST(DisplayedCheck):
    """The statistic T at x_o and its distribution for a correct posterior.

    Attributes:
        statistic: T(x_o), 0 for a correct posterior, at most 1/4.
        null: Simulated values of T for a correct posterior (b,).
        p_value: Probability of a T at least as large.
        ess: Effective number of held-out pairs.
        name: The check.
    """

    statistic: float
    null: Array
    p_value: float
    ess: float
    name: str = "local_c2st"

    @property
    def effect(self) -> float:
        """The root mean square of P - 1/2 at x_o in excess of chance."""
        return sqrt(max(self.statistic - float(self.null.mean()), 0.0))

    @property
    def verdict(self) -> Trust:
        """The verdict: an effect of 0.05 is a local accuracy of about 0.55; 0.1, of about 0.6."""
        return self.judge(1)

    def judge(self, tests: int) -> Trust:
        """Return the verdict when this is one of several tests of the same question."""
        return judge_effect(self.p_value, self.effect, small=0.05, large=0.1, tests=tests)

    @property
    def reason(self) -> str:
        """One sentence with the numbers."""
        what = "cannot be told" if self.verdict == "trust" else "can be told"
        return f"at x_o posterior draws {what} from held-out parameters ({format_p_value(self.p_value)})"


def local_c2st(
    posterior: Posterior,
    simulations: Simulations | Replicates,
    x_o: npt.ArrayLike,
    *,
    pairs: int = 500,
    draws: int = 100,
    nulls: int = 500,
    seed: int = 0,
) -> LocalC2ST:
    """Test with a weighted classifier whether the posterior is correct at x_o.

    Args:
        posterior: The posterior.
        simulations: Held-out runs with their weights, or `replicate(...)` of them.
        x_o: The observation.
        pairs: Held-out runs used.
        draws: Posterior draws at each.
        nulls: Simulated values of T under a correct posterior.
        seed: Seed of everything.
    """
    check_posterior(posterior)
    check_count(nulls, 20, "nulls")
    check_count(seed, 0, "seed")
    if isinstance(simulations, Replicates):
        replicates = simulations
    else:
        replicates = replicate(posterior, simulations, pairs=pairs, draws=draws, density=False, seed=seed)
    x_o = order_observation(x_o, replicates.x.shape[1:], replicates.x_names)
    observed = read_observation(x_o, replicates.x.shape[1:])
    if replicates.draws.shape[1] < 2 * (_RIVALS + 1):
        raise DataError(f"local_c2st needs at least {2 * (_RIVALS + 1)} draws per pair", code="bad-setting")
    rng = np.random.default_rng(seed)
    own = draw_posterior(posterior, 2 * _DRAWS_AT_X_O, observed, int(rng.integers(2**31)), replicates.theta.shape[1])
    z, centre = _standardise(own[None], None)
    problem = _Problem.of(replicates, z[0], np.hstack([centre[0], observed.ravel()]), rng)
    statistic = float(problem.statistics(np.zeros((1, len(replicates)), dtype=np.intp))[0])
    places = rng.integers(0, _RIVALS + 1, (nulls, len(replicates)))
    null = np.concatenate([problem.statistics(part) for part in np.array_split(places, max(1, nulls // 50))])
    return LocalC2ST(statistic, null, _p_value(statistic, null), replicates.ess)


@dataclass(frozen=True)
class _Problem:
    """Features of held-out parameters and their rivals, and of the draws at x_o."""

    groups: Array  # (n, 1 + rivals, f): centred features, the held-out parameter first
    at: Array  # (m, f)
    solve: Array  # (f, f): inverse of G + ridge
    weights: Array  # (n,), sum = effective number of pairs

    @classmethod
    def of(cls, replicates: Replicates, z_o: Array, at_o: Array, rng: np.random.Generator) -> _Problem:
        both, centre = _standardise(replicates.draws, replicates.theta)
        z, dim = both[:, : _RIVALS + 1], centre.shape[1]
        flat = replicates.x.reshape(len(centre), -1)
        means = Components.of(centre, replicates.log_weights, dim)
        parts = Components.of(
            flat, replicates.log_weights, min(_MAX_COMPONENTS, max(_MAX_PRODUCTS // dim - 2 * dim, 1))
        )
        predicted, predicted_o = _predict_z(replicates, np.clip(z[:, 0], -_MAX_SDS, _MAX_SDS), at_o[None, dim:], rng)
        c = np.hstack([means(centre), parts(flat), predicted])
        c_o = np.hstack([means(at_o[None, :dim]), parts(at_o[None, dim:]), predicted_o])
        features = _make_features(dim, c.shape[1], rng)
        groups = features(z, np.broadcast_to(c[:, None], (*z.shape[:2], c.shape[1])))
        at = features(z_o, np.broadcast_to(c_o, (len(z_o), c.shape[1])))
        weights = normalise(replicates.log_weights) * replicates.ess
        middle = np.einsum("n,nrf->f", weights, groups) / (weights.sum() * groups.shape[1])
        groups, at = groups - middle, at - middle
        flat = groups.reshape(-1, groups.shape[2])
        second = (flat * np.repeat(weights / groups.shape[1], groups.shape[1])[:, None]).T @ flat
        inverse = np.linalg.inv(second + _RIDGE_COUNTS * np.eye(len(second)))
        return cls(groups, at, inverse, weights)

    def statistics(self, place: npt.NDArray[np.intp]) -> Array:
        """Compute T (b,) when the member `place` (b, n) of each group takes the role of the held-out parameter."""
        n, size, _ = self.groups.shape
        chosen = np.zeros((len(place), n, size))
        np.put_along_axis(chosen, place[:, :, None], 1.0, axis=2)
        contrast = (chosen * size - 1) / (size - 1) * self.weights[:, None]  # one against the mean of the others
        gradient = contrast.reshape(len(place), -1) @ self.groups.reshape(n * size, -1)
        odds = self.at @ (self.solve @ gradient.T)
        return np.mean((1 / (1 + np.exp(-np.clip(odds, -30, 30))) - 0.5) ** 2, axis=0)


def _predict_z(replicates: Replicates, z: Array, x_o: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Predict z from x, at the pairs (n, p) and at x_o (1, p), by a regression on a third of the pairs.

    Given the fitted pairs, all others stay exchangeable with their rivals; the fitted pairs themselves get zero.
    """
    fitted = rng.permutation(len(z)) % _FIT_EVERY == 0
    predict = RankRegression.of(replicates.x[fitted], z[fitted], replicates.log_weights[fitted])
    return np.where(fitted[:, None], 0.0, predict(replicates.x)), predict(x_o)


def _standardise(draws: Array, theta: Array | None) -> tuple[Array, Array]:
    """Standardise theta and the second half of the draws by the moments of the first half; also return its means.

    The halves keep theta and draws exchangeable: neither contributes to its own mean.
    """
    half = draws.shape[1] // 2
    centre, spread = draws[:, :half].mean(1), draws[:, :half].std(1)
    spread = np.where(spread > 0, spread, 1.0)
    rest = draws[:, half:] if theta is None else np.concatenate([theta[:, None, :], draws[:, half:]], axis=1)
    return (rest - centre[:, None, :]) / spread[:, None, :], centre


def _make_features(dim: int, conditions: int, rng: np.random.Generator) -> Callable[[Array, Array], Array]:
    slopes = rng.standard_normal((dim + conditions, _UNITS)) / np.sqrt(dim + conditions)
    offsets = rng.uniform(-2, 2, _UNITS)
    rows, columns = np.triu_indices(dim)
    if len(rows) > _MAX_PRODUCTS:  # beyond eight parameters the squares alone
        rows = columns = np.arange(dim)

    def features(z: Array, c: Array) -> Array:
        z = np.clip(z, -_MAX_SDS, _MAX_SDS)  # one extreme draw must not dominate the fit
        products = (z[..., :, None] * c[..., None, :]).reshape(*z.shape[:-1], -1)
        units = np.tanh(np.concatenate([z, c], axis=-1) @ slopes + offsets)
        return np.concatenate([z, z[..., rows] * z[..., columns] / 2, products / 2, units], axis=-1)

    return features


def _p_value(statistic: float, null: Array) -> float:
    """Compute the share of null values as large; where they are too few, by a normal distribution of log T."""
    exceeding = int(np.sum(null >= statistic))
    if exceeding >= 3 or len(null) < 20:
        return (1 + exceeding) / (1 + len(null))
    logs = np.log(np.maximum(null, 1e-300))
    z = (np.log(max(statistic, 1e-300)) - logs.mean()) / max(float(logs.std(ddof=1)), 1e-12)
    return float(erfc(z / sqrt(2)) / 2)
