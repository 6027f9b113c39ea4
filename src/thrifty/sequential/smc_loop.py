"""The generations of SMC-ABC, one after the other.

A generation is drawn from one frozen proposal and finished before the next is made. Under a budget it goes in blocks
(`thrifty.sequential.spending`), the last ones down to one run per worker.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.costs import Polynomial, fit_cost
from thrifty.errors import ConfigError, CostError, ThriftyWarning
from thrifty.inference.abc import ABC
from thrifty.inference.adjustment import adjusted, epanechnikov
from thrifty.inference.transforms import BoxTransform
from thrifty.inference.weighted_posterior import WeightedPosterior
from thrifty.penalties import Constant, as_penalty
from thrifty.proposals import CostAware, evaluate_cost
from thrifty.proposals.kernel import KernelProposal
from thrifty.sequential.generations import Generation
from thrifty.sequential.memory_generations import Runner
from thrifty.sequential.nearness import Nearness, tolerance
from thrifty.sequential.projection import PER_STATISTIC, projected
from thrifty.sequential.run_pool import RunPool
from thrifty.sequential.spending import Allowance
from thrifty.study.study import Study
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Cost, Prior
from thrifty.weights import ess

if TYPE_CHECKING:
    from thrifty.sequential.smc_abc import SMCABC

PILOT = 50  # runs of generation 0 that a budget pays before anything else: fewer say nothing of cost or posterior
OPENING = 0.2  # share of a budget that the rest of generation 0 may take
GROWTH = 3  # a generation is at least a third of the pool: long runs take few generations, each a better proposal
TASTE = 0.125  # share of what is left that the first draws of a proposal may take: 0.5 overran a budget by 2 %
TIMINGS = 600  # a cost model is fitted to that many, evenly from all generations: more change little


class Loop:
    """The state of one run: the pool so far, and where the next generation comes from."""

    def __init__(self, settings: SMCABC, runner: Runner, x_o: npt.ArrayLike, *, cost: Cost | None) -> None:
        self.settings, self.runner, self.cost, self.known_cost = settings, runner, cost, cost is not None
        # a campaign keeps its own prior object; parts that are the prior are known by identity
        campaign = getattr(runner, "campaign", None)
        self.prior: Prior = settings.prior if campaign is None else campaign.prior
        self.size: int = settings.size or 2 * settings.particles
        self.pool = RunPool(self.prior)
        self.near = Nearness(settings.distance, x_o, fixed=settings.epsilon is not None)
        self.generations: list[Generation] = []

    def run(self, allowed: Allowance) -> Study:
        """Generations until something stops them."""
        for proposal, sims in self.runner.before():
            self.pool.add(proposal, sims)
            self._note(proposal, len(sims))
        stopped = self._opening(allowed)
        while not (stopped := stopped or self._stopped()):
            proposal = self._next()
            each = self._expected(proposal)
            size = allowed.rounded(max(self.size, len(self.pool) // GROWTH), each, self.pool)
            stopped = self._generation(proposal, size, allowed)
        return self._study(stopped)

    def _opening(self, allowed: Allowance) -> str:
        """Generation 0, from the prior; under a budget at most a share of it."""
        missing = self.size - len(self.pool)  # a campaign may have run before
        if missing <= 0:
            return ""
        proposal = self._first()
        stopped = self._generation(proposal, min(missing, PILOT) if allowed.cost else missing, allowed)
        missing = self.size - len(self.pool)
        if stopped or missing <= 0:
            return stopped
        self._generation(proposal, missing, allowed.share(OPENING))
        return ""

    def _generation(self, proposal: Any, size: int, allowed: Allowance) -> str:
        """Run `size` draws in blocks; what stopped it, if anything did."""
        done, stopped, before = 0, "", self.pool.spent
        while done < size and not stopped:
            each = self._expected(proposal)
            if done and each is not None:  # draws of this very proposal tell more than a cost model of its region
                each = max(each, (self.pool.spent - before) / done)
            part = 0.5 if done else TASTE
            count = min(size - done, allowed.block(each, self.pool, part=part, spread=self.pool.unevenness))
            if count:
                self.pool.add(proposal, self.runner(proposal, count))
                done += count
                self._refuse_free(allowed)
            else:
                stopped = allowed.reason(self.pool)
        if stopped == "budget" and len(self.pool) < 2:
            raise ConfigError(
                f"the first run cost {self.pool.spent:g} of the budget of {allowed.cost:g}: no second is paid for",
                code="budget-too-small",
                why="one run has nothing to be compared with",
                fix=f"{100 * self.pool.spent:.2g} would pay about a hundred runs like it",
            )
        if done:
            self._note(proposal, done)
        return stopped

    def _refuse_free(self, allowed: Allowance) -> None:
        if allowed.cost is not None and not np.nansum(self.pool.cost) > 0:
            raise CostError(
                f"a budget was given, but the first {len(self.pool)} runs report no cost",
                code="bad-cost",
                why="a budget that is never used never ends",
                fix="give n=, or let the simulator return th.Output(x, cost=...)",
            )

    def _note(self, proposal: Any, n: int) -> None:
        """Weights, distances and tolerance after n more runs, in the list of generations."""
        runs = self.pool.runs
        if isinstance(proposal, KernelProposal):
            self.near.follow(runs, 4 * self.settings.particles)
        else:
            self.near.open(runs, self.pool.log_weights)
        epsilon, effective = tolerance(
            self.near.distances,
            self.pool.log_weights,
            particles=self.settings.particles,
            least=self.settings.epsilon or 0.0,
        )
        self.generations.append(
            Generation(
                n=n,
                cost=float(np.nansum(runs.cost[-n:])),
                predicted=0.0 if self.cost is None else n * self._predicted(proposal),
                epsilon=epsilon,
                ess=effective,
                acceptance=float(np.mean(self.near.distances[-n:] <= epsilon)),
                proposal=proposal,
            )
        )

    def _first(self) -> Prior | CostAware:
        if self.known_cost and self.cost is not None:
            return CostAware(self.prior, self.cost, as_penalty(self.settings.penalty))
        return self.prior

    def _next(self) -> KernelProposal:
        if not self.known_cost:
            self.cost = self._refitted_cost()
        penalty = as_penalty(self.settings.penalty) if self.cost is not None else Constant()
        theta, log_weights, scale = self._particles()
        return KernelProposal.around(self.prior, theta, log_weights, penalty=penalty, cost=self.cost, scale=scale)

    def _particles(self) -> tuple[Array, Array, float]:
        """Where the next kernels sit: (theta, log weights, kernel over particle covariance).

        The nearest runs, moved by regression to where they would be had they hit x_o: any proposal is right as long
        as its weights are, and this one is at the posterior generations before the tolerance is. They are not
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
        if offset is not None and ess(kernel) >= PER_STATISTIC * (offset.shape[1] + 2):
            low, high = self.prior.bounds
            moved = adjusted(self.pool.theta[order], offset[order], kernel, BoxTransform(low, high))
            return moved, kernel, 2.0
        accepted = distances <= self.generations[-1].epsilon
        return self.pool.theta[accepted], self.pool.log_weights[accepted], 1.0

    def _refitted_cost(self) -> Cost | None:
        some = np.unique(np.linspace(0, len(self.pool) - 1, TIMINGS).astype(int))
        theta, cost = self.pool.theta[some], self.pool.cost[some]
        timed = np.isfinite(cost) & (cost > 0)
        if not timed.any():
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ThriftyWarning)  # a poor cost model saves less and biases nothing
                return fit_cost(theta[timed], cost[timed], model=Polynomial(3))  # a tenth of the time of "auto"
        except CostError:  # too few timings yet: plain kernels for now
            return self.cost

    def _expected(self, proposal: Any) -> float | None:
        """Expected cost of one draw, set right by how earlier generations met theirs; None before any is known."""
        if self.cost is not None:
            return self._predicted(proposal) * self._correction()
        return self.pool.spent / len(self.pool) if len(self.pool) else None

    def _predicted(self, proposal: Any) -> float:
        """Expected cost of a draw under the current cost model."""
        if proposal is self.prior and self.cost is not None:
            return float(np.mean(evaluate_cost(self.cost, proposal.sample(4_096, np.random.default_rng(0)))))
        return float(proposal.expected_cost)

    def _correction(self) -> float:
        """Cost that generations had over the cost that was predicted for them."""
        both: Array = np.array([(g.cost, g.predicted) for g in self.generations if g.predicted > 0]).reshape(-1, 2)
        cost, predicted = both.sum(0)
        return float(cost / predicted) if cost > 0 else 1.0

    def _stopped(self) -> str:
        last, target = self.generations[-1], self.settings.epsilon
        if target is not None and last.epsilon <= target and last.ess >= self.settings.particles:
            return "tolerance"
        if isinstance(last.proposal, KernelProposal) and last.acceptance < self.settings.min_acceptance:
            return "acceptance"
        return ""

    def _study(self, stopped: str) -> Study:
        table, campaign = self.pool.table, getattr(self.runner, "campaign", None)
        posterior, generations = self._posterior(table), tuple(self.generations)
        return Study(posterior, table, posterior.x_o, "smcabc", campaign, generations=generations, stopped=stopped)

    def _posterior(self, table: Simulations) -> WeightedPosterior:
        """The draws nearest to x_o, in what the statistics say about theta where the scale is ours to choose."""
        settings, near = self.settings, self.near
        offset = near.offset(table) if near.follows else None
        found = None
        if offset is not None:
            found = projected(
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
