"""Running the generations of a sequential method, in memory or in a campaign folder.

A runner takes one generation's draws and gives back their simulations, *all of them, in plan order*: nothing is
drawn again for a slow or failed run and nobody stops at "enough accepted", so that run time cannot choose what is
seen. A generation is named by its number; the noise of run i is a function of (seed, i) alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from thrifty.errors import DataError
from thrifty.types import Draws, Simulations


class Runner(Protocol):
    """Runs the draws of one generation; `start` is the plan index of the first."""

    def __call__(self, draws: Draws, *, start: int) -> Simulations:
        """Simulations in the order of the draws."""
        ...


@dataclass(frozen=True)
class InMemory:
    """Runs through `th.simulate`, or a bundled model's own `simulate_many`; nothing is written.

    Args:
        simulator: `simulate(theta, rng)`, a `th.Command`, or a model of `th.models`.
        seed: Of the noise.
        workers: Local processes.
    """

    simulator: Any
    seed: int
    workers: int = 1

    def __call__(self, draws: Draws, *, start: int) -> Simulations:
        """Simulations in the order of the draws."""
        if hasattr(self.simulator, "simulate_many"):
            return self.simulator.simulate_many(draws, self.seed, start=start, workers=self.workers)
        from thrifty import simulate  # the runner proper: loaded only when a plain simulator is given

        # a seed for each generation: th.simulate numbers its runs from zero
        seed = int(np.random.SeedSequence(self.seed, spawn_key=(12, start)).generate_state(1)[0])
        return simulate(self.simulator, draws, workers=self.workers, seed=seed)


def as_runner(simulator: Any, *, seed: int, workers: int) -> Runner:
    """A runner for whatever the user brought: simulator, model, or campaign."""
    if hasattr(simulator, "run_draws"):  # a campaign: each generation is a committed block of its plan
        return InCampaign(simulator, workers)
    return InMemory(simulator, seed, workers)


@dataclass(frozen=True)
class InCampaign:
    """Runs through a campaign folder: each generation is a committed block, read back when it was run before."""

    campaign: Any
    workers: int = 1

    def __call__(self, draws: Draws, *, start: int) -> Simulations:
        """Simulations in the order of the draws."""
        return self.campaign.run_draws(draws, start=start, workers=self.workers)


def checked(sims: Simulations, draws: Draws) -> Simulations:
    """Refuse a runner that lost, added or reordered runs."""
    if len(sims) != len(draws) or not np.array_equal(sims.theta, draws.theta):
        raise DataError(
            f"{len(sims)} simulations came back for {len(draws)} draws, or in another order",
            code="D35",
            why="a generation that keeps only what finished favours cheap runs",
            fix="finish the generation: every planned run must have a status",
        )
    return sims


def concatenate(parts: list[Simulations]) -> Simulations:
    """One table of several generations, indices continued."""
    first = parts[0]
    return Simulations(
        theta=np.concatenate([p.theta for p in parts]),
        x=np.concatenate([p.x for p in parts]),
        log_weights=np.concatenate([p.log_weights for p in parts]),
        cost=np.concatenate([p.cost for p in parts]),
        status=np.concatenate([p.status for p in parts]),
        index=np.arange(sum(len(p) for p in parts)),
        m=first.m,
        names=first.names,
        x_names=first.x_names,
        unit=first.unit,
    )
