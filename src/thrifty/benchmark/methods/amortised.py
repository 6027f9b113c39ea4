"""Fit thrifty's amortised methods: one table of runs, plain or cost-aware, for all observations.

    plain        runs of the prior until the budget is used
    cost-aware   a pilot of the prior (as in `th.infer`), its cost model, then prior/√cost, all pooled by exact weights

Both spend the budget by the same rule, in blocks whose expected cost is known before they are drawn.
"""

from __future__ import annotations

from typing import Any

from thrifty.benchmark.method import Meter
from thrifty.penalties import Power
from thrifty.proposals import CostAware
from thrifty.sequential.generations import open_generations
from thrifty.sequential.run_pool import RunPool
from thrifty.sequential.spending import ALL_RUNS, Allowance
from thrifty.tables.simulations import Simulations
from thrifty.types import Array

MOST_PILOTS = 200  # as in `th.infer`: a fifth of a small budget, but ten runs for each parameter
PILOT_SHARE, PILOTS_PER_PARAMETER = 0.2, 10


def fit_plain(method: type) -> Any:
    """Make the fit of a method class, such as `th.NPE`, on runs of the prior."""

    def fit(meter: Meter, x_o: Array | None, budget: float, seed: int) -> Any:
        del x_o
        pool, allowed = open_pool(meter, budget, seed)
        pool.run(meter.prior, ALL_RUNS, allowed)
        return method(meter.prior).fit(pool.table, seed=seed)

    return fit


def fit_aware(method: type) -> Any:
    """Make the fit of a method class on a pilot and runs of prior/√cost, pooled."""

    def fit(meter: Meter, x_o: Array | None, budget: float, seed: int) -> Any:
        del x_o
        return method(meter.prior).fit(run_aware(meter, budget, seed), seed=seed)

    return fit


def run_aware(meter: Meter, budget: float, seed: int) -> Simulations:
    """Run a pilot and prior/√cost until the budget is used; all runs with their joint weights."""
    pool, allowed = open_pool(meter, budget, seed)
    pool.run(meter.prior, count_pilots(budget, meter.prior.dim), allowed)
    pool.refit_cost()
    if pool.cost is None:
        pool.run(meter.prior, ALL_RUNS, allowed)
    else:
        pool.run(CostAware(meter.prior, pool.cost, Power(0.5)), ALL_RUNS, allowed)
    return pool.table


def open_pool(meter: Meter, budget: float, seed: int) -> tuple[RunPool, Allowance]:
    """Open an empty pool of runs under a budget."""
    generations, allowed = open_generations(meter, n=None, budget=budget, seed=seed, workers=1, engine=None)
    return RunPool(meter.prior, generations, None), allowed


def count_pilots(budget: float, dim: int) -> int:
    """Return the size of a pilot.

    Example:
        >>> count_pilots(300, 2), count_pilots(3_000, 2), count_pilots(300, 10)
        (60, 200, 100)
    """
    return min(MOST_PILOTS, max(int(PILOT_SHARE * budget), PILOTS_PER_PARAMETER * dim))
