"""The prior, restricted to a region and divided by g(cost): the proposal of one round of NPE.

    q(theta) = prior(theta) 1[theta in R] / (Z g(c(theta))),      R = {theta: K(theta) >= e^level prior(theta)}

R is where a kernel mixture K around posterior draws exceeds the prior by a factor: the region of high posterior density
relative to the prior, of any shape and in several parts. Inside it the weight is g(c) alone, so that a network trained
on such draws learns the posterior under the prior wherever R holds all of the posterior's mass.

Draws come by exact rejection, from K with acceptance e^level prior/K · g_min/g (at most 1 inside R, by the definition
of R), or from the prior with acceptance g_min/g where that accepts more. Z, needed to pool rounds, is estimated from
free draws and kept with the numbers of the proposal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from thrifty.errors import PenaltyError
from thrifty.penalties import Constant, penalty_to_dict
from thrifty.proposals.draws import Draws
from thrifty.proposals.kernel import KernelProposal, measure_local_covariance
from thrifty.proposals.reference import Normaliser, add_inside, cost_to_dict, evaluate_cost
from thrifty.types import Array, Cost, Penalty, Prior, as_rows
from thrifty.weights import resample_indices

CENTRES = 200  # kernels of the region: a density is evaluated at some 10^5 candidates
KERNEL_SCALE = (
    2.0  # kernels twice as wide (in variance) as the neighbourhood: R is smooth, and one draw in five is kept
)
CANDIDATES_PER_TURN = 2**14
MIN_REFERENCE_DRAWS = 10_000  # accepted, behind Z: a relative error of 1 %
MAX_REFERENCE_CANDIDATES = 2**19  # a quarter of a minute at 200 kernels
MIN_ACCEPTANCE = 1e-5  # acceptance below which drawing would take longer than simulating
_REFERENCE_STREAM = 20_250_507  # the same in every process: weights never depend on a seed


class _Reference(NamedTuple):
    """Free draws of the restricted prior: costs (n,), one proposal draw in `tried` / n was kept, and from where."""

    cost: Array
    tried: int


def _unit_cost(theta: Array) -> Array:
    return np.ones(len(theta))


@dataclass(frozen=True)
class TruncatedPrior:
    """The prior inside a region around posterior draws, divided by g(cost).

    Args:
        region: The kernel mixture K; its own penalty and cost are not used.
        level: Log of K over prior at the border of the region.
        penalty: g.
        cost: Frozen expected cost; None is plain sampling.
        log_z: Log Z where it is known already.

    Example:
        >>> prior, rng = th.Uniform([0.0], [10.0]), np.random.default_rng(0)
        >>> q = TruncatedPrior.around(prior, rng.normal(3.0, 0.2, (400, 1)), left_out=0.001)
        >>> theta = q.sample(1_000, rng).theta
        >>> bool(theta.min() > 1.5), bool(theta.max() < 4.5), bool(theta.std() > 0.3)  # flat, wider than the draws
        (True, True, True)
    """

    region: KernelProposal
    level: float
    penalty: Penalty = field(default_factory=Constant)
    cost: Cost | None = None
    log_z: float | None = None

    @classmethod
    def around(
        cls,
        prior: Prior,
        theta: Array,
        *,
        left_out: float,
        penalty: Penalty | None = None,
        cost: Cost | None = None,
    ) -> TruncatedPrior:
        """Make the smallest region of this kind that leaves out a share of posterior draws theta (n, p)."""
        kernel = KERNEL_SCALE * measure_local_covariance(theta)
        centres = theta[resample_indices(np.zeros(len(theta)), CENTRES, rng=_REFERENCE_STREAM)]
        region = KernelProposal(prior, centres, np.zeros(CENTRES), kernel, Constant())
        ratio = region.log_kernel(theta) - np.asarray(prior.log_prob(theta))
        found = cls(region, float(np.quantile(ratio, left_out)), penalty or Constant(), cost)
        # the floor of g is frozen with the proposal: the cheapest parameter of the region
        return found if cost is None else cls(region, found.level, found._floored, cost)

    @property
    def prior(self) -> Prior:
        """The target of the weights."""
        return self.region.prior

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names."""
        return self.prior.names

    def contains(self, theta: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Tell which parameters (n, p) lie in the region."""
        theta = as_rows(theta, dim=self.prior.dim)
        log_prior = np.asarray(self.prior.log_prob(theta))
        inside = log_prior > -np.inf
        inside[inside] = self.region.log_kernel(theta[inside]) - log_prior[inside] >= self.level
        return inside

    def _draw_inside(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n candidates and return those that exact rejection keeps: draws of the prior inside the region."""
        if self.level <= 0:  # the prior itself hits the region more often than the kernels are kept
            theta = np.asarray(self.prior.sample(n, rng), dtype=np.float64)
            return theta[self.contains(theta)]
        theta = self.region.draw_candidates(n, rng)
        log_prior = np.asarray(self.prior.log_prob(theta))
        theta, log_prior = theta[log_prior > -np.inf], log_prior[log_prior > -np.inf]
        ratio = self.region.log_kernel(theta) - log_prior
        return theta[(ratio >= self.level) & (rng.standard_exponential(len(ratio)) >= ratio - self.level)]

    @cached_property
    def _reference(self) -> _Reference:
        rng, kept, tried = np.random.default_rng(_REFERENCE_STREAM), [np.empty((0, self.prior.dim))], 0
        while sum(map(len, kept)) < MIN_REFERENCE_DRAWS and tried < MAX_REFERENCE_CANDIDATES:
            kept.append(self._draw_inside(CANDIDATES_PER_TURN, rng))
            tried += CANDIDATES_PER_TURN
        theta = np.concatenate(kept)
        if len(theta) < MIN_ACCEPTANCE * tried or not len(theta):
            raise PenaltyError(
                f"{len(theta)} of {tried:,} candidates lie in the region of high posterior density",
                code="few-effective-runs",
                why="drawing would take longer than simulating",
                fix="more runs in the first round, or th.Rounds(th.NLE(prior)), which draws from the posterior itself",
            )
        return _Reference(evaluate_cost(self.cost or _unit_cost, theta), tried)

    @cached_property
    def _floored(self) -> Penalty:
        return self.penalty if self.penalty.low is not None else self.penalty.floored(float(self._reference.cost.min()))

    def _log_g(self, theta: Array) -> Array:
        return self._floored.log(evaluate_cost(self.cost or _unit_cost, theta))

    @cached_property
    def normaliser(self) -> Normaliser:
        """Z, the integral of prior/g over the region, with its standard error."""
        costs, tried = self._reference
        inverse = np.exp(-self._floored.log(costs))
        mean, square = inverse.sum() / tried, np.square(inverse).sum() / tried
        scale = np.exp(-max(self.level, 0.0))  # of the acceptance e^level prior/K
        return Normaliser(float(scale * mean), float(scale * np.sqrt(max(square - mean**2, 0.0) / tried)))

    @cached_property
    def log_normaliser(self) -> float:
        """Log Z."""
        return float(np.log(self.normaliser.value)) if self.log_z is None else self.log_z

    @cached_property
    def expected_cost(self) -> float:
        """Expected cost of one draw under the cost model (1 without one)."""
        costs = self._reference.cost
        inverse = np.exp(-self._floored.log(costs))
        return float((inverse * costs).sum() / inverse.sum())

    def log_weight(self, theta: npt.ArrayLike) -> Array:
        """Return log of prior over proposal (n,), up to the constant Z: log g inside the region, infinite outside."""
        theta = as_rows(theta, dim=self.prior.dim)
        inside, out = self.contains(theta), np.full(len(theta), np.inf)
        if inside.any():
            out[inside] = self._log_g(theta[inside])
        return out

    def log_ratio(self, theta: npt.ArrayLike) -> Array:
        """Return log proposal over prior density (n,), normalised through Z; -inf outside the region."""
        return -self.log_weight(theta) - self.log_normaliser

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Return log density (n,); -inf outside the region."""
        return add_inside(self.prior, as_rows(theta, dim=self.prior.dim), self.log_ratio)

    def sample(self, n: int, rng: np.random.Generator | int) -> Draws:
        """Draw n parameters exactly, with their log weights."""
        rng = np.random.default_rng(rng)
        low = self._floored.low
        log_g_min = float(self._floored.log(np.array([low if low is not None else 1.0]))[0])
        kept, found, tried = [np.empty((0, self.prior.dim))], 0, 0
        while found < n:
            theta = self._draw_inside(CANDIDATES_PER_TURN, rng)
            theta = theta[rng.standard_exponential(len(theta)) >= self._log_g(theta) - log_g_min]
            kept.append(theta)
            found, tried = found + len(theta), tried + CANDIDATES_PER_TURN
            if found < MIN_ACCEPTANCE * tried and tried > MAX_REFERENCE_CANDIDATES:
                raise PenaltyError(
                    f"{found} of {tried:,} candidates are accepted under the penalty {self.penalty}",
                    code="few-effective-runs",
                    fix="raise the floor of the penalty (low=...) or use a gentler one, th.Power(0.5)",
                )
        theta = np.concatenate(kept)[:n]
        return Draws(theta=theta, log_weights=self._log_g(theta), names=self.names, proposal=self)

    def to_dict(self) -> dict[str, Any]:
        """Write plain numbers, where the cost model has them; the prior is given again on loading."""
        fix = "let the method learn the cost (leave cost= out), or fit it with th.fit_cost"
        return {
            "kind": "truncated",
            "region": self.region.to_dict(),
            "level": self.level,
            "penalty": penalty_to_dict(self._floored),
            "cost": None if self.cost is None else cost_to_dict(self.cost, fix),
            "log_normaliser": self.log_normaliser,
        }
