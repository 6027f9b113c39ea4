"""SMC-ABC with cost-penalised kernels: the proposal follows the posterior and avoids what is expensive.

    generation 0   prior, or prior/g(c) when the cost is known
    generation t   kernel mixture round the particles of t-1, divided by g(c_t), c_t refitted to all runs so far
    weights        prior / sum_j (n_j/n) q_j(theta): all generations pooled as one sample from their mixture
    tolerance      the smallest epsilon at which the pool keeps `particles` effective draws

Every run of every generation stays in the pool and is weighted by what it was drawn from, so early runs are never
thrown away, weights are bounded by the first generation's share, and a refitted cost is a new component, never a
rewrite. A generation is a fixed number of planned runs, all finished before the next: no straggler is dropped and
nobody runs "until enough are accepted". The number of runs that a budget still pays for is set from *predicted*
cost before they are drawn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.costs import Polynomial, fit_cost
from thrifty.errors import ConfigError, CostError, InferenceError, ThriftyWarning
from thrifty.inference.abc import ABC
from thrifty.inference.adjustment import Adjust
from thrifty.inference.distances import Distance, as_distance
from thrifty.inference.generations import Runner, as_runner, concatenate
from thrifty.inference.observation import read_observation
from thrifty.kernel_proposal import KernelProposal
from thrifty.penalties import Constant, Power, as_penalty
from thrifty.priors import as_prior
from thrifty.proposals import CostAware, Pool, priced
from thrifty.study import Study
from thrifty.types import Array, Cost, Penalty, Prior, Simulations

PILOT = 50  # runs that tell what a run costs, before a budget is spent on more
OPENING = 0.2  # share of a budget that generation 0 may take
GROWTH = 3  # a generation is at least a third of the pool: long runs take few generations, each a better proposal
TIMINGS = 600  # a cost model is fitted to that many, evenly from all generations: more change little


@dataclass(frozen=True)
class Generation:
    """What one generation did.

    Attributes:
        n: Runs.
        cost: Their total cost.
        predicted: What the cost model of the time expected; 0 where there was none.
        epsilon: Tolerance of the pool after it.
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


@dataclass(frozen=True)
class SMCABC:
    """Settings of SMC-ABC.

    Args:
        prior: The prior.
        particles: Effective draws that the tolerance keeps: the accuracy of the posterior asked for.
        size: Runs of the first generations; `particles` by default. Later ones are a third of the pool.
        epsilon: Stop when the tolerance reaches this.
        min_acceptance: Stop when fewer of a generation's runs are accepted.
        distance: As in `th.ABC`; the scale is frozen after generation 0.
        penalty: g of the kernels; √c, the optimum for a fixed budget, by default.
        adjust: Regression adjustment of the final draws.

    Example:
        >>> def simulator(theta, rng):
        ...     return theta + 0.1 * rng.standard_normal(1)
        >>> class Table:  # a runner of one's own: anything with simulate_many
        ...     def simulate_many(self, draws, seed, start=0, workers=1):
        ...         noise = np.random.default_rng([seed, start]).normal(size=draws.theta.shape)
        ...         return th.Simulations.from_arrays(theta=draws.theta, x=draws.theta + 0.1 * noise)
        >>> study = SMCABC(th.Uniform([0.0], [10.0]), particles=200).run(Table(), [3.0], n=2_000, seed=0)
        >>> bool(abs(study.posterior.mean[0] - 3) < 0.05), study.stopped
        (True, 'runs')
    """

    prior: Prior
    particles: int = 200  # posterior sd to 5 %; fewer follow the posterior faster, more are steadier
    size: int | None = None
    epsilon: float | None = None
    min_acceptance: float = 0.005
    distance: Distance | Callable[[Array, Array], npt.ArrayLike] | None = None
    penalty: Penalty | float = Power(0.5)  # noqa: RUF009 - frozen
    adjust: Adjust = "none"

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", as_prior(self.prior))
        object.__setattr__(self, "penalty", as_penalty(self.penalty))
        ABC(self.prior, distance=self.distance, adjust=self.adjust)  # the same checks
        if self.particles < 10 or (self.size is not None and self.size < 10):
            raise ConfigError(f"particles = {self.particles}, size = {self.size}; each must be at least 10", code="D33")
        if self.epsilon is not None and not 0 <= self.epsilon < np.inf:
            raise ConfigError(f"epsilon must be a finite number >= 0, got {self.epsilon}", code="D31")
        if not 0 <= self.min_acceptance < 1:
            raise ConfigError(f"min_acceptance must lie in [0, 1), got {self.min_acceptance}", code="D33")

    def run(
        self,
        simulator: Any,
        x_o: npt.ArrayLike,
        *,
        n: int | None = None,
        budget: float | None = None,
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
            budget: Total cost, in the unit in which runs report it.
            cost: Known expected cost; learned from the runs when left out.
            seed: Of everything random.
            workers: Local processes.
            engine: `th.Inline()`, `th.Dask(...)` instead of workers.
        """
        _check_stop(n, budget, self.epsilon)
        runner = as_runner(simulator, seed=seed, workers=workers, engine=engine)
        loop = _Loop(self, runner, x_o, cost)
        return loop.run(n, budget)


def _check_stop(n: int | None, budget: float | None, epsilon: float | None) -> None:
    if n is None and budget is None and epsilon is None:
        raise ConfigError("nothing says when to stop", code="D33", fix="give n=, budget= or SMCABC(epsilon=...)")
    if n is not None and (n != int(n) or n < 1):
        raise ConfigError(f"n must be a whole number >= 1, got {n}", code="D33")
    if budget is not None and not 0 < budget < np.inf:
        raise ConfigError(f"budget must be a positive number, got {budget}", code="F03")


class _Loop:
    """The state of one run: the pool so far, and where the next generation comes from."""

    def __init__(self, settings: SMCABC, runner: Runner, x_o: npt.ArrayLike, cost: Cost | None) -> None:
        self.settings, self.runner, self.cost = settings, runner, cost
        # a campaign keeps its own prior object; parts that are the prior are known by identity
        campaign = getattr(runner, "campaign", None)
        self.prior = settings.prior if campaign is None else campaign.prior
        self.x_o: Any = x_o
        self.known_cost = cost is not None
        self.size = settings.size or settings.particles
        self.parts: list[Simulations] = []
        self.proposals: list[Prior | CostAware | KernelProposal] = []
        self.generations: list[Generation] = []
        self.distance: Distance | None = None
        self.distances = np.empty(0)
        self.log_weights = np.empty(0)
        self.ratios: list[Array] = []

    @property
    def used(self) -> int:
        return len(self.distances)

    @property
    def spent(self) -> float:
        return sum(g.cost for g in self.generations)

    def run(self, n: int | None, budget: float | None) -> Study:
        for proposal, sims in self.runner.before():
            self._add(proposal, sims)
        for count in self._opening(n, budget):
            self._generation(self._first(), count)
        while not (stopped := self._stopped()):
            proposal = self._next()
            count = self._affordable(proposal, self.size, n, budget)
            if not count:
                stopped = "runs" if n is not None and self.used >= n else "budget"
                break
            self._generation(proposal, count)
        return self._study(stopped)

    def _opening(self, n: int | None, budget: float | None) -> Iterator[int]:
        """Runs of generation 0, from the prior; under a budget a few first, to see what a run costs."""
        size = self.size if n is None else min(n, self.size)
        if self.used >= size:  # a campaign that has run before
            return
        if budget is None:
            yield size - self.used
            return
        if self.cost is None and not self.used:
            yield min(size, PILOT)
        each = self.spent / self.used if self.used else self._predicted(self._first())
        rest = size - self.used if each == 0 else min(size - self.used, int((OPENING * budget - self.spent) / each))
        if rest > 0:
            yield rest

    def _first(self) -> Prior | CostAware:
        prior, penalty = self.prior, as_penalty(self.settings.penalty)
        return CostAware(prior, self.cost, penalty) if self.known_cost and self.cost is not None else prior

    def _next(self) -> Prior | CostAware | KernelProposal:
        if not self.known_cost:
            self.cost = self._refitted_cost()
        accepted = self.distances <= self.generations[-1].epsilon
        theta = np.concatenate([p.theta for p in self.parts])[accepted]
        penalty = as_penalty(self.settings.penalty) if self.cost is not None else Constant()
        return KernelProposal.around(self.prior, theta, self.log_weights[accepted], penalty=penalty, cost=self.cost)

    def _refitted_cost(self) -> Cost | None:
        some = np.unique(np.linspace(0, self.used - 1, TIMINGS).astype(int))
        theta = np.concatenate([p.theta for p in self.parts])[some]
        cost = np.concatenate([p.cost for p in self.parts])[some]
        timed = np.isfinite(cost) & (cost > 0)
        if not timed.any():
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ThriftyWarning)  # a poor cost model saves less and biases nothing
                return fit_cost(theta[timed], cost[timed], model=Polynomial(3))  # a tenth of the time of "auto"
        except CostError:  # too few timings yet: plain kernels for now
            return self.cost

    def _affordable(self, proposal: Any, size: int, n: int | None, budget: float | None) -> int:
        """Runs of the next generation: what n and the *predicted* cost leave, never what single draws would cost."""
        size = max(size, self.used // GROWTH)
        if n is not None:
            size = min(size, n - self.used)
        if budget is None:
            return size
        if self.cost is not None:
            each = self._predicted(proposal) * self._correction()
        else:
            each = self.spent / self.used if self.used else 0.0
        left = (budget - self.spent) / each if each > 0 else np.inf
        # the last runs of a budget go in halves, so that a poor prediction overruns by little
        count = int(min(size, max(left / 2, min(left, self.size))))
        return count if count >= min(size, self.size // 2) else 0  # crumbs of a budget are not worth a generation

    def _predicted(self, proposal: Any) -> float:
        """Expected cost of a draw under the current cost model."""
        if proposal is self.prior and self.cost is not None:
            return float(np.mean(priced(self.cost, proposal.sample(4_096, np.random.default_rng(0)))))
        return float(proposal.expected_cost)

    def _correction(self) -> float:
        """Cost that generations had over the cost that was predicted for them."""
        both = [(g.cost, g.predicted) for g in self.generations if g.predicted > 0]
        return sum(c for c, _ in both) / sum(p for _, p in both) if both and sum(c for c, _ in both) > 0 else 1.0

    def _generation(self, proposal: Prior | CostAware | KernelProposal, count: int) -> None:
        self._add(proposal, self.runner(proposal, count))

    def _add(self, proposal: Prior | CostAware | KernelProposal, sims: Simulations) -> None:
        self.parts.append(sims)
        self.proposals.append(proposal)
        self._reweigh(sims.theta)
        self._measure()
        epsilon, ess = self._tolerance()
        self.generations.append(
            Generation(
                n=len(sims),
                cost=float(np.nansum(sims.cost)),
                predicted=0.0 if self.cost is None else len(sims) * self._predicted(proposal),
                epsilon=epsilon,
                ess=ess,
                acceptance=float(np.mean(self.distances[-len(sims) :] <= epsilon)),
                proposal=proposal,
            )
        )

    def _reweigh(self, new: Array) -> None:
        """Weights of the whole pool, as `Pool` has them, from density ratios kept between generations."""
        everything = np.concatenate([p.theta for p in self.parts])
        old = [np.concatenate([r, self._ratio(q, new)]) for r, q in zip(self.ratios, self.proposals, strict=False)]
        self.ratios = [*old, self._ratio(self.proposals[-1], everything)]
        shares = np.array([len(p) for p in self.parts]) / len(everything)
        terms = [np.log(share) + ratio for share, ratio in zip(shares, self.ratios, strict=True)]
        self.log_weights = -np.logaddexp.reduce(terms, axis=0)

    def _ratio(self, proposal: Any, theta: Array) -> Array:
        return np.zeros(len(theta)) if proposal is self.prior else proposal.log_ratio(theta)

    def _measure(self) -> None:
        """Distances of all runs, infinite for failed ones. The scale is frozen once the first kernels are drawn."""
        table = concatenate(self.parts)
        datasets = as_distance(self.settings.distance).datasets
        x, ok = table.x if datasets else table.x.reshape(len(table), -1), table.ok
        if not ok.any():
            raise InferenceError(f"none of the {len(table)} runs of generation 0 is valid", code="I24")
        if not isinstance(self.proposals[-1], KernelProposal):
            self.distance = as_distance(self.settings.distance).fit(x[ok], self.log_weights[ok])
            self.x_o = np.asarray(self.x_o, dtype=float) if datasets else read_observation(self.x_o, x.shape[1:])
            self.distances = np.empty(0)
        start = len(self.distances)
        new = np.full(len(table) - start, np.inf)
        new[ok[start:]] = as_distance(self.distance)(x[start:][ok[start:]], self.x_o)
        self.distances = np.concatenate([self.distances, new])

    def _tolerance(self) -> tuple[float, float]:
        """The smallest epsilon, not below the target, whose accepted draws count as `particles`."""
        order = np.argsort(self.distances, kind="stable")
        order = order[np.isfinite(self.distances[order])]
        weights = np.exp(self.log_weights[order] - self.log_weights[order].max())
        total, squares = np.cumsum(weights), np.cumsum(weights**2)
        effective = total**2 / squares
        enough = np.flatnonzero(effective >= self.settings.particles)
        # before the pool is that large, the nearer half steers
        last = int(enough[0]) if len(enough) else max((len(order) - 1) // 2, 0)
        epsilon = float(self.distances[order[last]])
        if self.settings.epsilon is not None:
            epsilon = max(epsilon, self.settings.epsilon)
        last = int(np.searchsorted(self.distances[order], epsilon, side="right")) - 1
        return epsilon, float(effective[last])

    def _stopped(self) -> str:
        last, target = self.generations[-1], self.settings.epsilon
        if target is not None and last.epsilon <= target and last.ess >= self.settings.particles:
            return "tolerance"
        if len(self.generations) > 1 and last.acceptance < self.settings.min_acceptance:
            return "acceptance"
        return ""

    def _study(self, stopped: str) -> Study:
        pool = Pool(tuple((len(p), q) for p, q in zip(self.parts, self.proposals, strict=True)), self.prior)
        table = concatenate(self.parts).reweighted(self.log_weights, pool)
        epsilon = self.generations[-1].epsilon
        method = ABC(self.prior, epsilon=epsilon, distance=self.distance, adjust=self.settings.adjust)
        posterior = method.fit(table).accepted(self.x_o)
        campaign = getattr(self.runner, "campaign", None)
        generations = tuple(self.generations)
        return Study(posterior, table, posterior.x_o, "smcabc", campaign, generations=generations, stopped=stopped)
