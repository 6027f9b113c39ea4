"""Run SMC-ABC with cost-penalised kernels: the proposal follows the posterior and avoids expensive runs.

    generation 0   prior, or prior/g(c) when the cost is known
    generation t   kernel mixture around the runs nearest to x_o, moved by regression to where they would be had they
                   hit it, divided by g(c_t), c_t refitted to all runs so far
    weights        prior / sum_j (n_j/n) q_j(theta): all generations pooled as one sample from their mixture
    tolerance      the smallest epsilon at which the pool keeps `particles` effective draws

Every run of every generation stays in the pool and is weighted by what it was drawn from, so early runs are never
discarded, weights are bounded by the first generation's share, and a refitted cost is a new component, never a
change of an old one. A generation is a fixed number of planned runs, all finished before the next: no slow run is
dropped and no generation runs "until enough are accepted". How many runs a budget still pays for is set from
*expected* cost before they are drawn; under a budget a generation runs in blocks (`sequential.spending`), the last ones
down to one run per worker. Regression decides where to look and, unless a distance or tolerance is given,
which projection of the statistics is compared; the weights never depend on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, Displayed, DisplayedSettings, count_things
from thrifty.errors import ConfigError
from thrifty.inference.abc import ABC
from thrifty.inference.adjustment import Adjust, adjust_parameters, epanechnikov
from thrifty.inference.checks import check_observed, read_observation
from thrifty.inference.transforms import BoxTransform
from thrifty.inference.vector_distances import Distance, as_distance
from thrifty.inference.weighted_posterior import WeightedPosterior
from thrifty.penalties import Constant, Power, as_penalty
from thrifty.priors import as_prior
from thrifty.proposals import CostAware
from thrifty.proposals.kernel import KernelProposal
from thrifty.sequential.finish import base_method, check_finish, fit_finish
from thrifty.sequential.generations import Generations, open_generations
from thrifty.sequential.nearness import RUNS_PER_COEFFICIENT, Nearness, accept_projected, find_tolerance
from thrifty.sequential.run_pool import RunPool
from thrifty.sequential.spending import Allowance
from thrifty.study.study import Study
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Cost, Penalty, Posterior, Prior, set_fields
from thrifty.weights import ess

FIRST_RUNS = 50  # runs of generation 0 that a budget pays before anything else: fewer say nothing of cost or posterior
FIRST_SHARE = 0.2  # share of a budget that the rest of generation 0 may take
POOL_PER_GENERATION = 3  # a generation is at least a third of the pool: few generations, each a better proposal


@dataclass(frozen=True, repr=False)
class SMCABC(DisplayedSettings):
    """Settings of SMC-ABC.

    Args:
        prior: The prior.
        particles: Effective draws that the tolerance keeps, at the least: the accuracy of the posterior.
            In projected statistics more are kept where runs are many (one in 40 of the neighbourhood).
        size: Runs of the first generations; twice `particles` by default, since that many runs choose the next kernels.
            Later ones are a third of the pool.
        epsilon: Stop when the tolerance reaches this.
        min_acceptance: Stop when fewer of a generation's runs are accepted.
        distance: As in `th.ABC`. By default (or with `Euclidean()`), and without an epsilon, the scale follows the
            runs from generation to generation and the posterior is read in projected statistics, in units of about one
            posterior standard deviation. With a scale, an epsilon, or another distance: plain ABC at that distance.
        penalty: g of the kernels; by default √c, the optimum for a fixed budget.
        adjust: Regression adjustment of the final draws.
        finish: A last step, `th.NPE(prior)`, `th.NLE(prior)`, `th.NRE(prior)` or a `th.Ensemble` of one, fitted to the
            pool; the study then has its posterior instead of accepted draws. None: accepted draws.

    Example:
        >>> def simulator(theta, rng):
        ...     return theta + 0.1 * rng.standard_normal(1)
        >>> class Table:  # any object with simulate_many
        ...     def simulate_many(self, draws, seed, start=0, workers=1):
        ...         noise = np.random.default_rng([seed, start]).normal(size=draws.theta.shape)
        ...         return th.Simulations.from_arrays(theta=draws.theta, x=draws.theta + 0.1 * noise)
        >>> study = SMCABC(th.Uniform([0.0], [10.0]), particles=200).run(Table(), [3.0], n=2_000, seed=0)
        >>> bool(abs(study.posterior.mean[0] - 3) < 0.05), study.stopped
        (True, 'runs')
    """

    prior: Prior
    particles: int = 200  # posterior sd to 5 %; fewer follow the posterior faster, more vary less
    size: int | None = None
    epsilon: float | None = None
    min_acceptance: float = (
        0.001  # 0.005 stopped an outbreak of 13 at a hundredth of its budget, with a wrong posterior
    )
    distance: Distance | Callable[[Array, Array], npt.ArrayLike] | None = None
    penalty: Penalty | float = Power(0.5)  # noqa: RUF009 - frozen
    adjust: Adjust = "none"
    finish: Any = None

    def __post_init__(self) -> None:
        set_fields(self, prior=as_prior(self.prior), penalty=as_penalty(self.penalty))
        ABC(self.prior, distance=self.distance, adjust=self.adjust)  # the same checks
        if self.particles < 10 or (self.size is not None and self.size < 10):
            raise ConfigError(
                f"particles = {self.particles}, size = {self.size}; each must be at least 10", code="bad-setting"
            )
        if self.epsilon is not None and not 0 <= self.epsilon < np.inf:
            raise ConfigError(f"epsilon must be a finite number >= 0, got {self.epsilon}", code="bad-setting")
        if not 0 <= self.min_acceptance < 1:
            raise ConfigError(f"min_acceptance must lie in [0, 1), got {self.min_acceptance}", code="bad-setting")
        if self.finish is not None:
            check_finish(self.finish, self.prior)

    @property
    def name(self) -> str:
        """Label of results: "smcabc", or with a last step "smcabc-npe"."""
        last = "" if self.finish is None else f"-{type(base_method(self.finish)).__name__.lower()}"
        return f"smcabc{last}"

    def run(
        self,
        simulator: Any,
        x_o: npt.ArrayLike,
        *,
        n: int | None = None,
        budget: float | str | None = None,
        cost: Cost | None = None,
        seed: int = 0,
        workers: int = 1,
        engine: Any = None,
    ) -> Study:
        """Run generations until n runs or the budget are used, or the tolerance or acceptance is reached.

        Args:
            simulator: A simulator, a model of `th.models`, or a `th.Campaign` (each generation a durable block).
            x_o: The observation.
            n: Total number of runs.
            budget: Total cost: a number in the unit in which runs report it, "2 cpu-h", "40 min" (of run time on
                each worker), or "200 eur" for a campaign with a price. The overrun is about the most expensive run
                per worker.
            cost: Known expected cost; by default learned from the runs.
            seed: Of everything random.
            workers: Local processes.
            engine: `th.Inline()`, `th.Dask(...)`, `th.Futures(...)` instead of workers.
        """
        if n is None and budget is None and self.epsilon is None:
            raise ConfigError(
                "nothing says when to stop", code="conflicting-settings", fix="give n=, budget= or SMCABC(epsilon=...)"
            )
        check = None  # a distance between sets of outputs reads its observation itself
        if not as_distance(self.distance).datasets:
            check_observed(x_o)
            check = partial(read_observation, x_o)
        generations, allowed = open_generations(
            simulator, n=n, budget=budget, seed=seed, workers=workers, engine=engine, check=check
        )
        return Loop(self, generations, x_o, cost=cost, seed=seed).run(allowed)


@dataclass(frozen=True, repr=False)
class Generation(Displayed):
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

    def cells(self) -> dict[str, str]:
        """Return what a table shows, by column."""
        shown = {"runs": f"{self.n}", "cost": f"{self.cost:.4g}", "epsilon": f"{self.epsilon:.4g}"}
        return shown | {"ess": f"{self.ess:.0f}", "accepted": f"{self.acceptance:.1%}"}

    def _card(self) -> Card:
        return Card(f"generation of {count_things(self.n, 'run')}", tuple(self.cells().items())[1:])


class Loop:
    """The state of one run: the pool so far, and how the next generation is chosen."""

    def __init__(
        self, settings: SMCABC, generations: Generations, x_o: npt.ArrayLike, *, cost: Cost | None, seed: int = 0
    ) -> None:
        self.settings, self.campaign, self.seed = settings, generations.campaign, seed
        # a campaign keeps its own prior object; parts that are the prior are known by identity
        self.prior: Prior = settings.prior if self.campaign is None else self.campaign.prior
        self.size: int = settings.size or 2 * settings.particles
        self.source, self.pool = generations, RunPool(self.prior, generations, cost)
        self.near = Nearness(settings.distance, x_o, fixed=settings.epsilon is not None)
        self.generations: list[Generation] = []

    def run(self, allowed: Allowance) -> Study:
        """Run generations until something stops them."""
        began = time.monotonic()
        for proposal, sims in self.source.read_earlier():
            self.pool.add(proposal, sims)
            self._note(proposal, len(sims))
        stopped = self._run_first(allowed)
        while not (stopped := stopped or self._stop_reason()):
            proposal = self._next()
            each = self.pool.expected_cost(proposal)
            size = max(self.size, len(self.pool) // POOL_PER_GENERATION)
            stopped = self._run_generation(proposal, allowed.generation_size(size, each, self.pool.spent), allowed)
        table, generations = self.pool.table, tuple(self.generations)
        posterior, x_o = self._conclude(table)
        seconds = time.monotonic() - began
        study = Study(posterior, table, x_o, self.settings.name, self.campaign, seconds=seconds)
        return replace(study, generations=generations, stopped=stopped)

    def _run_first(self, allowed: Allowance) -> str:
        """Run generation 0, from the prior; under a budget at most a share of it."""
        missing = self.size - len(self.pool)  # a campaign may have run before
        if missing <= 0:
            return ""
        proposal = self.prior
        if self.pool.known_cost and self.pool.cost is not None:
            proposal = CostAware(self.prior, self.pool.cost, as_penalty(self.settings.penalty))
        stopped = self._run_generation(proposal, min(missing, FIRST_RUNS) if allowed.cost else missing, allowed)
        missing = self.size - len(self.pool)
        if stopped or missing <= 0:
            return stopped
        self._run_generation(proposal, missing, allowed.share(FIRST_SHARE))
        return ""

    def _run_generation(self, proposal: Any, size: int, allowed: Allowance) -> str:
        """Run `size` draws; return what stopped them, if anything did."""
        done, stopped = self.pool.run(proposal, size, allowed)
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
        cost, predicted = self.pool.compare_cost(proposal, n)
        acceptance = float(np.mean(self.near.distances[-n:] <= epsilon))
        self.generations.append(Generation(n, cost, predicted, epsilon, effective, acceptance, proposal))

    def _next(self) -> KernelProposal:
        self.pool.refit_cost()
        cost = self.pool.cost
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
            moved = adjust_parameters(self.pool.runs.theta[order], offset[order], kernel, BoxTransform.of(self.prior))
            return moved, kernel, 2.0
        accepted = distances <= self.generations[-1].epsilon
        return self.pool.runs.theta[accepted], self.pool.log_weights[accepted], 1.0

    def _stop_reason(self) -> str:
        last, target = self.generations[-1], self.settings.epsilon
        if target is not None and last.epsilon <= target and last.ess >= self.settings.particles:
            return "tolerance"
        if isinstance(last.proposal, KernelProposal) and last.acceptance < self.settings.min_acceptance:
            return "acceptance"
        return ""

    def _conclude(self, table: Simulations) -> tuple[Posterior, Array]:
        """Return the posterior and where it holds: accepted draws, or the last step fitted to the pool."""
        if self.settings.finish is None:
            accepted = self._posterior(table)
            return accepted, accepted.x_o
        return fit_finish(self.settings.finish, table, self.near.distances, seed=self.seed), self.near.x_o

    def _posterior(self, table: Simulations) -> WeightedPosterior:
        """Accept the draws nearest to x_o, in projected statistics where neither distance nor tolerance was given."""
        prior, near, adjust = self.prior, self.near, self.settings.adjust
        found = accept_projected(table, near, prior=prior, particles=self.settings.particles, adjust=adjust)
        if found is not None:
            return found
        method = ABC(prior, epsilon=self.generations[-1].epsilon, distance=near.distance, adjust=adjust)
        return method.fit(table).accepted(near.x_o)
