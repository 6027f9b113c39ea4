"""Running the generations of a sequential method, in memory or in a campaign folder.

A runner takes a proposal and a number and gives back that many simulations, *all of them, in plan order*: nothing is
drawn again for a slow or failed run and nobody stops at "enough accepted", so that run time cannot choose what is
seen. The noise of run i is a function of (seed, i) alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from thrifty.errors import DataError
from thrifty.tables.draws import Draws
from thrifty.tables.simulations import Simulations


class Runner(Protocol):
    """Draws and runs one generation after the other."""

    def before(self) -> list[tuple[Any, Simulations]]:
        """(proposal, simulations) that are there already."""
        ...

    def __call__(self, proposal: Any, n: int) -> Simulations:
        """Simulations of n draws from the proposal, in plan order."""
        ...


@dataclass
class InMemory:
    """Runs through `th.simulate`, or a bundled model's own `simulate_many`; nothing is written.

    Args:
        simulator: `simulate(theta, rng)`, a `th.Command`, or a model of `th.models`.
        seed: Of draws and noise.
        workers: Local processes.
        engine: Instead of workers.
    """

    simulator: Any
    seed: int
    workers: int = 1
    engine: Any = None
    _counts: list[int] = field(default_factory=list, init=False)

    def before(self) -> list[tuple[Any, Simulations]]:
        """Nothing."""
        return []

    def __call__(self, proposal: Any, n: int) -> Simulations:
        """Simulations in the order of the draws."""
        number, start = len(self._counts), sum(self._counts)
        drawn = proposal.sample(n, np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(10, number))))
        draws = drawn if isinstance(drawn, Draws) else Draws(theta=drawn, names=proposal.names)
        sims = self._simulated(draws, number, start)
        if len(sims) != len(draws) or not np.array_equal(sims.theta, draws.theta):
            raise DataError(
                f"{len(sims)} simulations came back for {len(draws)} draws, or in another order",
                code="bad-simulator",
                why="a generation that keeps only what finished favours cheap runs",
                fix="finish the generation: every planned run must have a status",
            )
        self._counts.append(n)
        return sims

    def _simulated(self, draws: Draws, number: int, start: int) -> Simulations:
        if hasattr(self.simulator, "simulate_many"):
            return self.simulator.simulate_many(draws, self.seed, start=start, workers=self.workers)
        from thrifty import simulate  # loaded only when a plain simulator is given

        # a seed for each generation: th.simulate numbers its runs from zero
        seed = int(np.random.SeedSequence(self.seed, spawn_key=(12, number)).generate_state(1)[0])
        engine = {} if self.engine is None else {"engine": self.engine}
        return simulate(self.simulator, draws, workers=self.workers, seed=seed, progress="quiet", **engine)


def as_runner(simulator: Any, *, seed: int, workers: int, engine: Any) -> Runner:
    """A runner for whatever the user brought: simulator, model, or campaign."""
    from thrifty.campaign.campaign import Campaign

    if not isinstance(simulator, Campaign):
        return InMemory(simulator, seed, workers, engine)
    from thrifty.runner.engines.processes import Processes
    from thrifty.sequential.generations import Generations

    return Generations(simulator, engine if engine is not None else Processes(workers))


def concatenate(parts: list[Simulations]) -> Simulations:
    """One table of several generations, indices continued."""
    first = parts[0]
    return Simulations(
        theta=np.concatenate([p.theta for p in parts]),
        x=np.concatenate([p.x for p in parts]),
        cost=np.concatenate([p.cost for p in parts]),
        status=np.concatenate([p.status for p in parts]),
        index=np.arange(sum(len(p) for p in parts)),
        m=first.m,
        names=first.names,
        x_names=first.x_names,
        unit=first.unit,
    )
