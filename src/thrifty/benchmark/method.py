"""Define what a method of the benchmark is, and meter what it spends.

A method is one function, `fit(meter, x_o, budget, seed)`, that simulates through the meter until the budget is used and
returns a posterior: an object with `sample(n, x_o, seed=...)` and, where it has one, `log_prob(theta, x_o)`. The meter
counts runs, their cost and the CPU seconds of the simulator, so that no method does its own accounts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from thrifty.benchmark.problem import Problem
from thrifty.tables.simulations import Simulations
from thrifty.types import Array


@dataclass(frozen=True)
class Method:
    """A method of the benchmark.

    Attributes:
        name: In records and on pages.
        fit: (meter, x_o, budget, seed) -> posterior. `x_o` is None for an amortised method.
        amortised: Whether one fit serves every observation; else each observation is a fit of its own.
        has_density: Whether `log_prob` of the posterior is a normalised density, to be held against the reference.
        needs: Module without which it cannot run, such as "sbi".
        costly: Whether a fit takes minutes: it is then run at the middle budget only, unless asked for by name.
    """

    name: str
    fit: Callable[[Meter, Array | None, float, int], Any]
    amortised: bool = True
    has_density: bool = False
    needs: str = ""
    costly: bool = False


class Meter:
    """The simulator of a problem, which counts what it is asked to do.

    Attributes:
        prior: Of the problem.
        unit: Of cost: one run of the prior costs 1 on average.
        runs: So far.
        cost: Of all runs so far.
        seconds: CPU seconds that the simulator took.

    Example:
        >>> from thrifty.benchmark import find_problem
        >>> meter = Meter(find_problem("waiting"), seed=0)
        >>> x = meter.simulate(np.ones((10, 1)))
        >>> x.shape, meter.runs, bool(meter.cost > 0)
        ((10, 3), 10, True)
    """

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem, self.seed = problem, seed
        self.prior, self.unit, self.names = problem.prior, problem.unit, problem.names
        self.runs, self.cost, self.seconds = 0, 0.0, 0.0

    def simulate_many(self, thetas: Any, seed: int, *, start: int = 0, workers: int = 1) -> Simulations:
        """Run thetas (n, p) or `th.Draws`, as a model of `th.models` does."""
        begin = time.process_time()
        sims = self.problem.simulate_many(thetas, seed, start=start, workers=workers)
        self.seconds += time.process_time() - begin
        self.runs, self.cost = self.runs + len(sims), self.cost + float(sims.cost.sum())
        return sims

    def simulate(self, theta: Array) -> Array:
        """Run every row of theta (n, p); outputs (n, d)."""
        return self.simulate_many(theta, self.seed, start=self.runs).x

    def simulate_within(self, theta: Array, cost: float) -> Array:
        """Run rows of theta in order until they have cost so much; outputs (m, d) of the m rows that were run."""
        goal, found = self.cost + cost, []
        while len(found) < len(theta) and self.cost < goal:
            spent = (self.cost / self.runs) if self.runs else 1.0  # blocks of half of what is left, then single runs
            block = max(1, int(0.5 * (goal - self.cost) / max(spent, 1e-9)))
            found += list(self.simulate(theta[len(found) : len(found) + block]))
        return np.array(found)
