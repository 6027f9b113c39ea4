"""A kernel mixture around particles, on request with a share of the prior, divided by g(cost).

    q(theta) = M(theta) 1[prior > 0] / (Z g(c(theta))),      M = (1 - s) K + s prior,
    K(theta) = sum_j W_j N(theta; theta_j, S)

The proposal of one generation of SMC-ABC (s = 0) and of one round of NLE or NRE (s = 0.2, which bounds the weights).
Draws come by exact rejection: pick a particle, move it (or draw from the prior), keep it inside the prior's support and
with probability g_min/g(c), the floor being inside g. The weight prior · g / M is exact; Z, needed only to pool
generations, is estimated from free draws of M.

With S the particles' covariance the mixture has twice their covariance: for a Gaussian posterior that is exactly
the shape of prior · sqrt(near-hit chance), which together with g = √c is the cost-optimal proposal (theory of
section 3.1 with the chance of acceptance as integrand). With S the mean covariance of neighbouring particles
(`measure_local_covariance`) separate peaks stay separate.

Discrete parameters move by themselves, each by a pmf of its own: a whole number to the one nearest to a normal draw,
P(k | k_j) = Phi((k - k_j + 1/2)/s) - Phi((k - k_j - 1/2)/s); a category of C stays with probability 1 - r and is drawn
again otherwise, P(k | k_j) = (1 - r) 1[k = k_j] + r/C. K is the sum over j of W_j times all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import PenaltyError
from thrifty.penalties import penalty_to_dict
from thrifty.priors.prior_dict import prior_to_dict
from thrifty.proposals.draws import Draws
from thrifty.proposals.reference import cost_to_dict, evaluate_cost
from thrifty.types import Array, Cost, Penalty, Prior, as_rows, find_discrete, freeze, levels_of
from thrifty.weights import covariance, normalise, resample_indices

ROWS_AT_ONCE = 1_024  # rows of a density evaluated at once: the table of kernels stays in the cache
CANDIDATES_PER_TURN = 4_096  # candidates per turn of the rejection loop
REFERENCE_DRAWS = 2**15  # free draws behind floor and normaliser: relative error of Z below 1 %
_REFERENCE_STREAM = 20_250_504  # the same in every process: weights never depend on a seed
MAX_CENTRES = 500  # particles of the mixture; more cost time and change nothing
MIN_ACCEPTANCE = 1e-5  # acceptance below which drawing would take longer than simulating
CATEGORY_MOVES = 0.2  # r: one draw in five changes its category, so that each is tried in every generation
MIN_WHOLE_STEP = 0.5  # least s of a whole number: one draw in three then moves off it
NEIGHBOUR_SHARE = 0.1  # of the particles: enough to measure a covariance, few enough to lie on one peak


def _unit_cost(theta: Array) -> Array:
    return np.ones(len(theta))


@dataclass(frozen=True)
class KernelProposal:
    """A Gaussian mixture round weighted particles, divided by g(cost), inside the prior.

    Args:
        prior: The target of the weights, and the support.
        centres: Particles (J, p).
        log_weights: Their log weights (J,).
        kernel: Covariance (p, p) of the move.
        penalty: g.
        cost: Frozen expected cost; None is plain sampling.
        prior_share: s, the share of the prior in the mixture.

    Example:
        >>> prior = th.Uniform([0.0], [10.0])
        >>> q = KernelProposal(prior, np.array([[2.0], [8.0]]), np.zeros(2), np.eye(1), th.Power(1),
        ...                    lambda t: 1 + t[:, 0])
        >>> draws = q.sample(2_000, 0)
        >>> bool((draws.theta < 5).mean() > 0.7)  # the particle at 2 is three times cheaper than the one at 8
        True
    """

    prior: Prior
    centres: Array
    log_weights: Array
    kernel: Array
    penalty: Penalty
    cost: Cost | None = None
    prior_share: float = 0.0

    def __post_init__(self) -> None:
        for label in ("centres", "log_weights", "kernel"):
            object.__setattr__(self, label, freeze(getattr(self, label)))
        discrete = self._discrete
        if discrete.any():  # they move by themselves
            kernel = np.array(self.kernel)
            kernel[discrete] = kernel[:, discrete] = 0.0
            steps = np.maximum(np.diag(self.kernel)[discrete], MIN_WHOLE_STEP**2)
            kernel[discrete, discrete] = steps
            object.__setattr__(self, "kernel", freeze(kernel))

    @classmethod
    def around(
        cls, prior: Prior, theta: Array, log_weights: Array, *, penalty: Penalty, cost: Cost | None, scale: float = 1.0
    ) -> KernelProposal:
        """Make the proposal round weighted particles, with `scale` times their covariance as kernel."""
        spread = scale * covariance(theta, log_weights)
        floor = 1e-8 * np.square(np.ptp(theta, axis=0)).max() + 1e-300  # particles on a line still move off it
        kernel = spread + floor * np.eye(len(spread))
        if len(theta) > MAX_CENTRES:
            theta = theta[resample_indices(log_weights, MAX_CENTRES, rng=_REFERENCE_STREAM)]
            log_weights = np.zeros(MAX_CENTRES)
        return cls(prior, theta, log_weights, kernel, penalty, cost)

    @property
    def _discrete(self) -> npt.NDArray[np.bool_]:
        return find_discrete(levels_of(self.prior))

    @cached_property
    def _root(self) -> Array:
        return np.asarray(np.linalg.cholesky(self.kernel), dtype=np.float64)

    def _round(self, theta: Array, centres: Array, rng: np.random.Generator) -> None:
        """Move the discrete parameters of theta (n, p) to their values, in place; they were moved from the centres."""
        for column, level in enumerate(levels_of(self.prior)):
            if level == ():
                theta[:, column] = np.round(theta[:, column])
            elif level:
                moves = rng.random(len(theta)) < CATEGORY_MOVES
                again = rng.integers(len(level), size=len(theta))
                theta[:, column] = np.where(moves, again, centres[:, column])

    def _log_moves(self, theta: Array) -> Array:
        """Return log P (n, J) that the discrete parameters of each centre move to those of theta (n, p)."""
        total = np.zeros((len(theta), len(self.centres)))
        for column, level in enumerate(levels_of(self.prior)):
            if level is None:
                continue
            off = theta[:, column][:, None] - self.centres[:, column]
            if level:
                total += np.log((1 - CATEGORY_MOVES) * (off == 0) + CATEGORY_MOVES / len(level))
            else:
                total += _log_cell(off, float(np.sqrt(self.kernel[column, column])))
        return total

    def draw_candidates(self, n: int, rng: np.random.Generator) -> Array:
        """Draw (n, p) from the mixture M, some of them perhaps outside the prior's support."""
        chosen = rng.choice(len(self.centres), n, p=normalise(self.log_weights))
        theta = self.centres[chosen] + rng.standard_normal((n, self.centres.shape[1])) @ self._root.T
        self._round(theta, self.centres[chosen], rng)
        if self.prior_share > 0:
            plain = rng.random(n) < self.prior_share
            theta[plain] = self.prior.sample(int(plain.sum()), rng)
        return theta

    @cached_property
    def _free(self) -> tuple[Array, float]:
        """Costs at free kernel draws inside the support, and the share that lies inside."""
        theta = self.draw_candidates(REFERENCE_DRAWS, np.random.default_rng(_REFERENCE_STREAM))
        inside = np.asarray(self.prior.log_prob(theta)) > -np.inf
        if not inside.any():
            raise PenaltyError(f"none of {REFERENCE_DRAWS} kernel draws lies inside the prior", code="outside-prior")
        return evaluate_cost(self.cost or _unit_cost, theta[inside]), float(inside.mean())

    @cached_property
    def _floored(self) -> Penalty:
        return self.penalty.floored(float(self._free[0].min()))

    def _log_g(self, theta: Array) -> Array:
        return self._floored.log(evaluate_cost(self.cost or _unit_cost, theta))

    @cached_property
    def log_normaliser(self) -> float:
        """Log Z = log E_K[1[prior > 0] / g(c)]."""
        costs, inside = self._free
        return float(np.log(np.mean(np.exp(-self._floored.log(costs)))) + np.log(inside))

    @cached_property
    def expected_cost(self) -> float:
        """Expected cost of one draw under the cost model (1 without one)."""
        costs, _ = self._free
        share = normalise(-self._floored.log(costs))
        return float(share @ costs)

    def log_kernel(self, theta: Array) -> Array:
        """Return log K (n,) at theta (n, p)."""
        free = ~self._discrete
        inverse = np.linalg.inv(self._root[np.ix_(free, free)])
        a, b = theta[:, free] @ inverse.T, self.centres[:, free] @ inverse.T
        with np.errstate(divide="ignore"):
            log_weights = np.log(normalise(self.log_weights)) - 0.5 * np.square(b).sum(1)
        constant = np.log(np.diag(inverse)).sum() - 0.5 * len(inverse) * np.log(2 * np.pi)
        out = np.empty(len(theta))
        for i in range(0, len(theta), ROWS_AT_ONCE):
            part = slice(i, i + ROWS_AT_ONCE)
            terms = a[part] @ b.T + log_weights
            if not free.all():
                terms += self._log_moves(theta[part])
            top = terms.max(1)
            total = np.log(np.exp(terms - top[:, None]).sum(1))
            out[part] = top + total - 0.5 * np.square(a[part]).sum(1)
        return out + constant

    def log_mixture(self, theta: Array) -> Array:
        """Return log M (n,) at theta (n, p)."""
        if self.prior_share == 0:
            return self.log_kernel(theta)
        plain = np.log(self.prior_share) + np.asarray(self.prior.log_prob(theta))
        return np.logaddexp(np.log1p(-self.prior_share) + self.log_kernel(theta), plain)

    def log_weight(self, theta: npt.ArrayLike) -> Array:
        """Return log of prior · g / M (n,): exact, up to the constant Z."""
        theta = as_rows(theta, dim=self.prior.dim)
        return np.asarray(self.prior.log_prob(theta)) + self._log_g(theta) - self.log_mixture(theta)

    def log_ratio(self, theta: npt.ArrayLike) -> Array:
        """Return log proposal over prior density (n,), normalised through Z: what `th.Pool` needs."""
        return -self.log_weight(theta) - self.log_normaliser

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Return log density (n,); -inf outside the prior's support."""
        theta = as_rows(theta, dim=self.prior.dim)
        inside = np.asarray(self.prior.log_prob(theta)) > -np.inf
        out = np.full(len(theta), -np.inf)
        if inside.any():
            out[inside] = self.log_mixture(theta[inside]) - self._log_g(theta[inside]) - self.log_normaliser
        return out

    def sample(self, n: int, rng: np.random.Generator | int) -> Draws:
        """Draw n parameters exactly, with their log weights.

        Raises:
            PenaltyError: few-effective-runs, hardly any candidate is accepted.
        """
        rng = np.random.default_rng(rng)
        low = self._floored.low
        log_g_min = float(self._floored.log(np.array([low if low is not None else self._free[0].min()]))[0])
        acceptance = float(np.exp(log_g_min + self.log_normaliser))
        if acceptance < MIN_ACCEPTANCE:
            raise PenaltyError(
                f"1 in {1 / acceptance:.2g} kernel draws is accepted under the penalty {self.penalty}",
                code="few-effective-runs",
                fix="raise the floor of the penalty (low=...) or use a gentler one, th.Power(0.5)",
            )
        kept: list[Array] = []
        found = 0
        while found < n:
            theta = self.draw_candidates(CANDIDATES_PER_TURN, rng)
            theta = theta[np.asarray(self.prior.log_prob(theta)) > -np.inf]
            theta = theta[rng.standard_exponential(len(theta)) >= self._log_g(theta) - log_g_min]
            kept.append(theta)
            found += len(theta)
        theta = np.concatenate(kept)[:n]
        return Draws(theta=theta, log_weights=self.log_weight(theta), names=self.prior.names, proposal=self)

    def to_dict(self) -> dict[str, Any]:
        """Write plain numbers, where the cost model has them; the prior is given again on loading."""
        fix = "let the method learn the cost (leave cost= out), or fit it with th.fit_cost"
        described = {
            "kind": "kernel",
            "centres": self.centres.tolist(),
            "log_weights": self.log_weights.tolist(),
            "kernel": self.kernel.tolist(),
            "prior": prior_to_dict(self.prior),
            "penalty": penalty_to_dict(self.penalty),
            "cost": None if self.cost is None else cost_to_dict(self.cost, fix),
        }
        return described | ({"prior_share": self.prior_share} if self.prior_share else {})


def _log_cell(off: Array, sd: float) -> Array:
    """Return the log probability that a normal draw of this sd is nearest to the whole number `off` away."""
    from scipy.special import log_ndtr

    upper, lower = (0.5 - np.abs(off)) / sd, (-0.5 - np.abs(off)) / sd  # the left tail, where differences have digits
    top = log_ndtr(upper)
    return top + np.log1p(-np.exp(log_ndtr(lower) - top))


def measure_local_covariance(theta: Array) -> Array:
    """Average the covariance (p, p) of each particle's neighbours over all particles (n, p).

    That of one peak where there are several, and of a part of it where it is bent: a kernel for mixtures that keep the
    shape of the particles.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.normal(size=(500, 2)) + 100.0 * rng.integers(2, size=(500, 1))  # two peaks of width 1
        >>> bool(np.sqrt(measure_local_covariance(theta)[0, 0]) < 1.0)
        True
    """
    n, p = theta.shape
    scale = theta.std(0) + 1e-300
    z = (theta - theta.mean(0)) / scale
    count = min(max(int(NEIGHBOUR_SHARE * n), 2 * p + 2), n)
    total = np.zeros((p, p))
    for one in z:
        near = z[np.argpartition(np.square(z - one).sum(1), count - 1)[:count]]
        off = near - near.mean(0)
        total += off.T @ off / count
    floor = 1e-8 * np.eye(p)  # particles on a line still move off it
    return (total / n + floor) * np.outer(scale, scale)
