"""Run the generations of SMC-ABC, one after the other.

A generation is drawn from one frozen proposal and finished before the next is made. Under a budget it runs in blocks
(`thrifty.sequential.spending`), the last ones down to one run per worker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from thrifty.inference.abc import ABC
from thrifty.inference.adjustment import Adjust, adjust_parameters, epanechnikov
from thrifty.inference.transforms import BoxTransform
from thrifty.inference.vector_distances import Distance
from thrifty.inference.weighted_posterior import WeightedPosterior
from thrifty.penalties import Constant, as_penalty
from thrifty.proposals import CostAware
from thrifty.proposals.kernel import KernelProposal
from thrifty.sequential.generations import Generations
from thrifty.sequential.nearness import RUNS_PER_COEFFICIENT, Nearness, find_tolerance, project
from thrifty.sequential.run_pool import PaidRuns
from thrifty.sequential.spending import Allowance
from thrifty.study.study import Study
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Cost, Penalty, Prior
from thrifty.weights import ess

FIRST_RUNS = 50  # runs of generation 0 that a budget pays before anything else: fewer say nothing of cost or posterior
FIRST_SHARE = 0.2  # share of a budget that the rest of generation 0 may take
POOL_PER_GENERATION = 3  # a generation is at least a third of the pool: few generations, each a better proposal


@dataclass(frozen=True)
class Generation:
    """What one generation did.

    Attributes:
        n: Runs.
        cost: Their total cost.
        predicted: What the cost model of the time expected; 0 where there was none.
        epsilon: Tolerance of the pool after it, on the scale of the distance then.
        ess: Effective draws of the pool within that tolerance.
        acceptance: Share of this generation's runs within it.
        proposal: Where the draws came from.
    """

    n: int
    cost: float
    predicted: float
    epsilon: float
    ess: float
    acceptance: float
    proposal: Prior | CostAware | KernelProposal


class LoopSettings(Protocol):
    """The settings of `SMCABC`, checked."""

    prior: Final[Prior]
    particles: Final[int]
    size: Final[int | None]
    epsilon: Final[float | None]
    min_acceptance: Final[float]
    distance: Final[Distance | Callable[[Array, Array], npt.ArrayLike] | None]
    penalty: Final[Penalty | float]
    adjust: Final[Adjust]


class Loop:
    """The state of one run: the pool so far, and how the next generation is chosen."""

    def __init__(
        self, settings: LoopSettings, generations: Generations, x_o: npt.ArrayLike, *, cost: Cost | None
    ) -> None:
        self.settings, self.campaign = settings, generations.campaign
        # a campaign keeps its own prior object; parts that are the prior are known by identity
        self.prior: Prior = settings.prior if self.campaign is None else self.campaign.prior
        self.size: int = settings.size or 2 * settings.particles
        self.source, self.runs = generations, PaidRuns(self.prior, generations, cost)
        self.pool = self.runs.pool
        self.near = Nearness(settings.distance, x_o, fixed=settings.epsilon is not None)
        self.generations: list[Generation] = []

    def run(self, allowed: Allowance) -> Study:
        """Run generations until something stops them."""
        for proposal, sims in self.source.read_earlier():
            self.pool.add(proposal, sims)
            self._note(proposal, len(sims))
        stopped = self._run_first(allowed)
        while not (stopped := stopped or self._stop_reason()):
            proposal = self._next()
            each = self.runs.expected_cost(proposal)
            size = max(self.size, len(self.pool) // POOL_PER_GENERATION)
            stopped = self._run_generation(proposal, allowed.generation_size(size, each, self.pool.spent), allowed)
        return self._study(stopped)

    def _run_first(self, allowed: Allowance) -> str:
        """Run generation 0, from the prior; under a budget at most a share of it."""
        missing = self.size - len(self.pool)  # a campaign may have run before
        if missing <= 0:
            return ""
        proposal = self._first()
        stopped = self._run_generation(proposal, min(missing, FIRST_RUNS) if allowed.cost else missing, allowed)
        missing = self.size - len(self.pool)
        if stopped or missing <= 0:
            return stopped
        self._run_generation(proposal, missing, allowed.share(FIRST_SHARE))
        return ""

    def _run_generation(self, proposal: Any, size: int, allowed: Allowance) -> str:
        """Run `size` draws; return what stopped them, if anything did."""
        done, stopped = self.runs.run(proposal, size, allowed)
        if done:
            self._note(proposal, done)
        return stopped

    def _note(self, proposal: Any, n: int) -> None:
        """Add n more runs to the list of generations, with distances and tolerance after them."""
        runs = self.pool.runs
        if isinstance(proposal, KernelProposal):
            self.near.measure_all(runs, 4 * self.settings.particles)
        else:
            self.near.measure_first(runs, self.pool.log_weights)
        epsilon, effective = find_tolerance(
            self.near.distances,
            self.pool.log_weights,
            particles=self.settings.particles,
            least=self.settings.epsilon or 0.0,
        )
        cost, predicted = self.runs.compare_cost(proposal, n)
        acceptance = float(np.mean(self.near.distances[-n:] <= epsilon))
        self.generations.append(Generation(n, cost, predicted, epsilon, effective, acceptance, proposal))

    def _first(self) -> Prior | CostAware:
        if self.runs.known_cost and self.runs.cost is not None:
            return CostAware(self.prior, self.runs.cost, as_penalty(self.settings.penalty))
        return self.prior

    def _next(self) -> KernelProposal:
        self.runs.refit_cost()
        cost = self.runs.cost
        penalty = as_penalty(self.settings.penalty) if cost is not None else Constant()
        theta, log_weights, scale = self._particles()
        return KernelProposal.around(self.prior, theta, log_weights, penalty=penalty, cost=cost, scale=scale)

    def _particles(self) -> tuple[Array, Array, float]:
        """Choose the centres of the next kernels: (theta, log weights, kernel over particle covariance).

        The nearest runs, moved by regression to where they would be had they hit x_o: any proposal is right as long
        as its weights are, and this one reaches the posterior generations before the tolerance does. They are not
        weighted: with V the posterior covariance and kernels of twice the particles' v, the next particles have
        1/v' = 1/V + 1/(3v), so that v settles at 2V/3 and the mixture, 3v, at 2V: the shape of prior · sqrt(chance
        of a hit). Distances without statistics, and too few runs for a regression, take the accepted particles.
        """
        distances = self.near.distances
        order = np.argsort(distances, kind="stable")[: 2 * self.settings.particles]
        order = order[np.isfinite(distances[order])]  # failed runs are infinitely far
        kernel = epanechnikov(distances[order], float(distances[order[-1]]))
        order, kernel = order[np.isfinite(kernel)], kernel[np.isfinite(kernel)]
        offset = self.near.offset(self.pool.runs)
        if offset is not None and ess(kernel) >= RUNS_PER_COEFFICIENT * (offset.shape[1] + 2):
            low, high = self.prior.bounds
            moved = adjust_parameters(self.pool.theta[order], offset[order], kernel, BoxTransform(low, high))
            return moved, kernel, 2.0
        accepted = distances <= self.generations[-1].epsilon
        return self.pool.theta[accepted], self.pool.log_weights[accepted], 1.0

    def _stop_reason(self) -> str:
        last, target = self.generations[-1], self.settings.epsilon
        if target is not None and last.epsilon <= target and last.ess >= self.settings.particles:
            return "tolerance"
        if isinstance(last.proposal, KernelProposal) and last.acceptance < self.settings.min_acceptance:
            return "acceptance"
        return ""

    def _study(self, stopped: str) -> Study:
        table, generations = self.pool.table, tuple(self.generations)
        posterior = self._posterior(table)
        return Study(posterior, table, posterior.x_o, "smcabc", self.campaign, generations=generations, stopped=stopped)

    def _posterior(self, table: Simulations) -> WeightedPosterior:
        """Accept the draws nearest to x_o, in projected statistics where neither distance nor tolerance was given."""
        settings, near = self.settings, self.near
        offset = near.offset(table) if near.is_adaptive else None
        found = None
        if offset is not None:
            found = project(
                table.theta,
                offset,
                near.distances,
                log_weights=table.log_weights,
                prior=self.prior,
                particles=settings.particles,
            )
        if found is not None:
            return found.posterior(
                table, near.x_o, prior=self.prior, particles=settings.particles, adjust=settings.adjust
            )
        epsilon = self.generations[-1].epsilon
        method = ABC(self.prior, epsilon=epsilon, distance=near.distance, adjust=settings.adjust)
        return method.fit(table).accepted(near.x_o)
