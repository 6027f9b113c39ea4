"""What posteriors of several methods share: draws with their quality, many posteriors at once, the highest point.

For calibration, a posterior is drawn from at hundreds of observations, a hundred times each. `temper_many` moves the
walkers of all of them together: the power of each likelihood is raised from 0 to 1 in steps of its own, each keeping
half of its walkers effective, with differential moves (ter Braak 2006) among the walkers of one observation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from thrifty.display import Card, Displayed, count_things, format_number
from thrifty.inference.transforms import BoxTransform
from thrifty.priors.families import as_parameter_names
from thrifty.types import Array

# Each round narrows the search to about a third of its width: float32 networks resolve no more than 40 rounds reach.
SEARCH_ROUNDS = 40
SEARCH_DRAWS = 400  # points tried in each round
SEARCH_ELITE = 40  # the best of them, whose spread the next round uses

LogDensities = Callable[[Array], Array]  # (m, l, p) -> (m, l)
MAX_TEMPERATURES = 60  # each step halves the effective walkers: 1e-18 of the prior
MOVES_PER_TEMPERATURE = 3
LAST_MOVES = 15  # at power 1: places of walkers of one parent are then apart
EVIDENCE_DRAWS, STUDENT_FREEDOM = 400, 5.0  # behind each evidence: a relative error of about 5 %


@dataclass(frozen=True, repr=False)
class Sampled(Displayed):
    """Posterior draws and how they were made.

    Attributes:
        samples: Draws (n, p).
        acceptance: Share of network draws inside the prior's support, or of accepted moves.
        local_ess: Effective share of network draws under the weights (`correction="after"`), else 1.
        ess: Effective draws (p,) of a Markov chain; n for independent draws.
        rhat: Convergence ratio (p,) of a Markov chain; 1 for independent draws.
        names: Parameter names (p,), for the display.
    """

    samples: Array
    acceptance: float
    local_ess: float
    ess: Array
    rhat: Array
    names: tuple[str, ...] = field(default=(), kw_only=True)

    def _card(self) -> Card:
        n, p = self.samples.shape
        names = as_parameter_names(self.names, p)  # a chain that is thinned to n draws counts as no more than n
        rows = [
            (
                names[i],
                *map(
                    format_number,
                    (*np.quantile(self.samples[:, i], [0.05, 0.5, 0.95]), min(self.ess[i], n), self.rhat[i]),
                ),
            )
            for i in range(p if n else 0)
        ]
        header = ("parameter", "5%", "median", "95%", "effective draws", "R-hat")
        return Card(count_things(n, "posterior draw"), [("acceptance", f"{self.acceptance:.0%}")], header, rows)

    @classmethod
    def independent(cls, samples: Array, acceptance: float = 1.0, names: tuple[str, ...] = ()) -> Sampled:
        """Describe independent draws (n, p), each of which counts."""
        n, p = samples.shape
        return cls(samples, acceptance, 1.0, np.full(p, float(n)), np.ones(p), names=names)


def maximise(
    log_density: Callable[[Array], Array], start: Array, box: BoxTransform, *, rng: np.random.Generator
) -> Array:
    """Find the maximum (p,) of a vectorised log density inside the box, without gradients.

    Each round draws points around the best one so far and narrows to the best of them. `start` (k, p) holds the
    first points, such as posterior draws.

    Example:
        >>> box = BoxTransform(np.zeros(2), np.ones(2))
        >>> start, rng = np.full((50, 2), 0.5), np.random.default_rng(0)
        >>> peak = maximise(lambda t: -((t - 0.3) ** 2).sum(1), start, box, rng=rng)
        >>> peak.round(2).tolist()
        [0.3, 0.3]
    """
    z = box.to_unconstrained(start)
    value = log_density(box.to_bounded(z))
    p = z.shape[1]
    spread = np.atleast_2d(np.cov(z.T)) + 0.01 * np.eye(p)
    best, highest = z[int(np.argmax(value))], float(value.max())
    for _ in range(SEARCH_ROUNDS):
        root = np.linalg.cholesky(spread + 1e-14 * np.eye(p))
        z = best + rng.standard_normal((SEARCH_DRAWS, p)) @ root.T
        value = log_density(box.to_bounded(z))
        elite = z[np.argsort(-value)[:SEARCH_ELITE]] - best  # about the old centre: grows on a slope, shrinks at a top
        spread = elite.T @ elite / len(elite)
        if value.max() > highest:
            best, highest = z[int(np.argmax(value))], float(value.max())
    return box.to_bounded(best[None])[0]


def drop_nan(values: Array) -> Array:
    """Return log densities with -inf for what is not a number."""
    return np.nan_to_num(np.asarray(values, dtype=np.float64), nan=-np.inf, posinf=-np.inf, neginf=-np.inf)


def temper_many(
    log_likelihood: LogDensities, log_prior: LogDensities, start: Array, walkers: int, *, rng: np.random.Generator
) -> Array:
    """Draw (m, walkers, p) from m densities prior × likelihood_i, starting from prior draws (m, l, p), l >= walkers.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> centre = np.array([-2.0, 1.0])[:, None]
        >>> draws = temper_many(lambda z: -50 * (z[..., 0] - centre) ** 2, lambda z: -0.5 * z[..., 0] ** 2,
        ...                     rng.standard_normal((2, 400, 1)), 100, rng=rng)
        >>> draws.shape, bool(np.abs(draws.mean((1, 2)) - centre[:, 0] * 100 / 101).max() < 0.05)
        ((2, 100, 1), True)
    """
    cloud = _Cloud(start, log_likelihood(start), log_prior(start))
    power = np.zeros(len(start))
    for _ in range(MAX_TEMPERATURES):
        step = _next_powers(cloud.value, power)
        rows, chosen = (
            np.arange(len(start))[:, None],
            _resample_rows((step - power)[:, None] * cloud.value, walkers, rng),
        )
        cloud, power = _Cloud(*(part[rows, chosen] for part in cloud)), step
        is_last = bool((power >= 1).all())
        for _ in range(LAST_MOVES if is_last else MOVES_PER_TEMPERATURE):
            _move_halves(cloud, power, log_likelihood, log_prior, rng)
        if is_last:
            break
    return np.take_along_axis(cloud.z, np.argsort(rng.random(cloud.value.shape), axis=1)[..., None], 1)


class _Cloud(NamedTuple):
    """Walkers of many observations, moved in place."""

    z: Array  # (m, w, p)
    value: Array  # log likelihood (m, w)
    base: Array  # log prior (m, w)


def _next_powers(value: Array, power: Array) -> Array:
    """Find for each row of value (m, l) the largest power, at most 1, that leaves half of the walkers effective."""
    size = np.isfinite(value).sum(1)

    def enough(step: Array) -> npt.NDArray[np.bool_]:
        with np.errstate(invalid="ignore"):
            terms = np.where(np.isfinite(value), (step - power)[:, None] * value, -np.inf)
        weights = np.exp(terms - terms.max(1, keepdims=True))
        return weights.sum(1) ** 2 >= 0.5 * size * np.square(weights).sum(1)

    low, high = power.copy(), np.ones(len(power))
    at_once = enough(high)
    for _ in range(40):
        middle = (low + high) / 2
        good = enough(middle)
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    return np.where(at_once, 1.0, np.where(low > power, low, high))


def _resample_rows(log_weights: Array, n: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Choose n columns (m, n) of each row by its weights, systematically."""
    terms = np.where(np.isfinite(log_weights), log_weights, -np.inf)
    share = np.exp(terms - logsumexp(terms, axis=1, keepdims=True))
    edges = np.cumsum(share, axis=1)
    points = (np.arange(n) + rng.random((len(share), 1))) / n * edges[:, -1:]
    return np.stack([np.searchsorted(e, p).clip(max=len(e) - 1) for e, p in zip(edges, points, strict=True)])


def _move_halves(
    cloud: _Cloud, power: Array, log_likelihood: LogDensities, log_prior: LogDensities, rng: np.random.Generator
) -> None:
    """Move all walkers once: each half by differences of two walkers of the other half."""
    z, value, base = cloud
    m, w, p = z.shape
    half, rows = rng.permutation(w), np.arange(m)[:, None]
    for mine, other in ((half[: w // 2], half[w // 2 :]), (half[w // 2 :], half[: w // 2])):
        first = rng.integers(len(other), size=(m, len(mine)))
        second = (first + rng.integers(1, len(other), size=first.shape)) % len(other)
        scale = np.where(rng.random((m, len(mine), 1)) < 0.1, 1.0, 2.38 / np.sqrt(2 * p) * rng.uniform(0.4, 1.0))
        jump = scale * (z[rows, other[first]] - z[rows, other[second]])
        trial = z[:, mine] + jump + 1e-3 * z[:, other].std(1, keepdims=True) * rng.standard_normal(jump.shape)
        new_base, new_value = log_prior(trial), log_likelihood(trial)
        with np.errstate(invalid="ignore"):
            gain = new_base - base[:, mine] + power[:, None] * (new_value - value[:, mine])
        accepted = np.log(rng.random(gain.shape)) < np.nan_to_num(gain, nan=-np.inf)
        z[:, mine] = np.where(accepted[..., None], trial, z[:, mine])
        value[:, mine] = np.where(accepted, new_value, value[:, mine])
        base[:, mine] = np.where(accepted, new_base, base[:, mine])


def log_evidence_many(
    log_likelihood: LogDensities, log_prior: LogDensities, draws: Array, *, rng: np.random.Generator
) -> Array:
    """Estimate log of the integral (m,) of each prior × likelihood_i by importance sampling around draws (m, w, p).

    Each proposal is a wide Student t with the mean and covariance of the draws.
    """
    m, _, p = draws.shape
    centre = draws.mean(1, keepdims=True)
    off = draws - centre
    cover = 1.5 * np.swapaxes(off, 1, 2) @ off / draws.shape[1] + 1e-12 * np.eye(p)
    root = np.linalg.cholesky(cover)
    chi = rng.chisquare(STUDENT_FREEDOM, (m, EVIDENCE_DRAWS, 1)) / STUDENT_FREEDOM
    u = rng.standard_normal((m, EVIDENCE_DRAWS, p)) / np.sqrt(chi)
    points = centre + u @ np.swapaxes(root, 1, 2)
    log_det = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1, keepdims=True)
    constant = (
        gammaln((STUDENT_FREEDOM + p) / 2) - gammaln(STUDENT_FREEDOM / 2) - 0.5 * p * np.log(STUDENT_FREEDOM * np.pi)
    )
    log_t = constant - log_det - 0.5 * (STUDENT_FREEDOM + p) * np.log1p(np.square(u).sum(-1) / STUDENT_FREEDOM)
    terms = log_prior(points) + log_likelihood(points) - log_t
    return logsumexp(terms, axis=1) - np.log(EVIDENCE_DRAWS)
