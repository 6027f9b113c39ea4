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
*expected* cost before they are drawn. Regression decides where to look and, unless a distance or tolerance is given,
which projection of the statistics is compared; the weights never depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import ConfigError
from thrifty.inference.abc import ABC
from thrifty.inference.adjustment import Adjust
from thrifty.inference.vector_distances import Distance
from thrifty.penalties import Power, as_penalty
from thrifty.priors import as_prior
from thrifty.sequential.generations import open_generations
from thrifty.sequential.smc_loop import Loop
from thrifty.study.study import Study
from thrifty.types import Array, Cost, Penalty, Prior


@dataclass(frozen=True)
class SMCABC:
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", as_prior(self.prior))
        object.__setattr__(self, "penalty", as_penalty(self.penalty))
        ABC(self.prior, distance=self.distance, adjust=self.adjust)  # the same checks
        if self.particles < 10 or (self.size is not None and self.size < 10):
            raise ConfigError(
                f"particles = {self.particles}, size = {self.size}; each must be at least 10", code="bad-setting"
            )
        if self.epsilon is not None and not 0 <= self.epsilon < np.inf:
            raise ConfigError(f"epsilon must be a finite number >= 0, got {self.epsilon}", code="bad-setting")
        if not 0 <= self.min_acceptance < 1:
            raise ConfigError(f"min_acceptance must lie in [0, 1), got {self.min_acceptance}", code="bad-setting")

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
        generations, allowed = open_generations(
            simulator, n=n, budget=budget, seed=seed, workers=workers, engine=engine
        )
        return Loop(self, generations, x_o, cost=cost).run(allowed)
