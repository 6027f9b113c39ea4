"""Draw and run the generations of a sequential method, in memory or as committed blocks of a campaign.

A generation takes a proposal and a number and gives back that many simulations, *all of them, in plan order*: nothing
is drawn again for a slow or failed run and nothing stops at "enough accepted", so that run time cannot choose which
runs are seen. The noise of run i is a function of (seed, i) alone.

`MemoryGenerations` writes nothing. `CampaignGenerations` freezes each proposal as a part and commits its draws as a
block before it runs them. A generation that is already there is read back and only its pending runs are run: calling
the method again with the same settings continues where it stopped. It works through `campaign.session`, the only way
from here into a run folder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from thrifty.campaign.campaign import Campaign
from thrifty.campaign.opened import OpenCampaign, raise_interrupted
from thrifty.campaign.planner import Planner
from thrifty.campaign.steps import Driver
from thrifty.campaign.weighting import proposal_of
from thrifty.errors import CampaignError, ConfigError, DataError
from thrifty.proposals.draws import Draws
from thrifty.runner.engines.processes import Processes
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.task import Engine
from thrifty.sequential.spending import Allowance, CostUnit, MeasuredSimulator, cost_kind_of
from thrifty.store.validate import Block
from thrifty.tables.simulations import Simulations


class Generations(Protocol):
    """Draws and runs one generation after the other."""

    @property
    def campaign(self) -> Campaign | None:
        """The campaign whose folder keeps the runs, if any."""
        ...

    def read_earlier(self) -> list[tuple[Any, Simulations]]:
        """Return (proposal, simulations) of the runs that were there before the first generation."""
        ...

    def run(self, proposal: Any, n: int) -> Simulations:
        """Simulate n draws from the proposal; return them in plan order."""
        ...


def open_generations(
    simulator: Any, *, n: int | None, budget: float | str | None, seed: int, workers: int, engine: Any
) -> tuple[Generations, Allowance]:
    """Prepare to run a simulator, a model or a campaign under n runs or a budget.

    In a campaign the campaign's own `cost`, `unit` and `price` count. In memory, `th.Output(cost=...)` counts where the
    simulator gives it and CPU seconds where not; a budget in CPU or elapsed time measures that. `simulate_many` of a
    model counts in the model's own unit.
    """
    if n is not None and (isinstance(n, str) or not 1 <= n < np.inf or n != int(n)):
        raise ConfigError(f"n must be a whole number >= 1, got {n!r}", code="bad-setting")
    slots = workers if engine is None else int(engine.slots)
    if isinstance(simulator, Campaign):
        cost = CostUnit.of_campaign(simulator, slots)
        generations = CampaignGenerations(simulator, engine if engine is not None else Processes(workers))
        return generations, Allowance(n, cost.total(budget), slots)
    if hasattr(simulator, "simulate_many"):
        cost = CostUnit("reported", unit=str(getattr(simulator, "unit", "operations")), slots=slots)
    else:
        kind = cost_kind_of(budget)
        simulator, cost = MeasuredSimulator(simulator, engine, kind), CostUnit(kind or "", slots=slots)
    return MemoryGenerations(simulator, seed, workers), Allowance(n, cost.total(budget), slots)


@dataclass
class MemoryGenerations:
    """Generations through `simulate_many`; nothing is written.

    Args:
        simulator: A model of `th.models`, or anything with its `simulate_many`.
        seed: Of draws and noise.
        workers: Local processes.
    """

    simulator: Any
    seed: int
    workers: int = 1
    campaign: None = None
    _counts: list[int] = field(default_factory=list, init=False)

    def read_earlier(self) -> list[tuple[Any, Simulations]]:
        """Return nothing: there are no earlier runs in memory."""
        return []

    def run(self, proposal: Any, n: int) -> Simulations:
        """Simulate n draws from the proposal; return them in the order of the draws."""
        number, start = len(self._counts), sum(self._counts)
        drawn = proposal.sample(n, np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(10, number))))
        draws = drawn if isinstance(drawn, Draws) else Draws(theta=drawn, names=proposal.names)
        sims = self.simulator.simulate_many(draws, self.seed, start=start, workers=self.workers)
        if len(sims) != len(draws) or not np.array_equal(sims.theta, draws.theta):
            raise DataError(
                f"{len(sims)} simulations came back for {len(draws)} draws, or in another order",
                code="bad-simulator",
                why="a generation that keeps only what finished favours cheap runs",
                fix="finish the generation: every planned run must have a status",
            )
        self._counts.append(n)
        return sims


@dataclass
class CampaignGenerations:
    """Generations of one campaign, each a committed block of its folder.

    Args:
        campaign: The campaign; what it has run before becomes the first generations.
        engine: Where runs go.
    """

    campaign: Campaign
    engine: Engine
    _block: int = field(default=-1, init=False)

    def read_earlier(self) -> list[tuple[Any, Simulations]]:
        """Return (proposal, simulations) of pilot and plan blocks, their pending runs run first."""
        session = self.campaign.session
        with Interrupts() as interrupts, session.writing() as opened:
            if opened.settings.generations is None:  # the blocks so far are pilot and plan
                opened.keep(generations=len(opened.store.blocks()))
            self._block = int(opened.settings.generations or 0)
            blocks = [block for block in opened.store.blocks()[: self._block] if block.admitted]
            if blocks:
                Driver(opened, session.checked_simulator(opened), self.engine, interrupts).run_pending()
            if not interrupts.drain:
                return [(proposal_of(opened.parts[block.part], opened.prior), _read(opened, block)) for block in blocks]
        raise_interrupted(interrupts, opened)

    def run(self, proposal: Any, n: int) -> Simulations:
        """Simulate n draws from the proposal, in plan order: commit and run them, or read them back."""
        session = self.campaign.session
        with Interrupts() as interrupts, session.writing() as opened:
            simulator, blocks = session.checked_simulator(opened), opened.store.blocks()
            if self._block < len(blocks):
                self._check_same(opened, blocks[self._block], proposal, n)
            else:
                source, planner = None if proposal is self.campaign.prior else proposal, Planner(opened)
                part = planner.add_part(source)
                planner.commit(part, n, mode="n", proposal=source, cost=getattr(source, "cost", None))
            Driver(opened, simulator, self.engine, interrupts).run_pending()
            if not interrupts.drain:
                sims = _read(opened, opened.store.blocks()[self._block])
                self._block += 1
                return sims
        raise_interrupted(interrupts, opened)  # the generation stays committed

    def _check_same(self, opened: OpenCampaign, block: Block, proposal: Any, n: int) -> None:
        part, plain = opened.parts[block.part], proposal is self.campaign.prior
        same = part.kind == "prior" if plain else part.recipe == json.loads(json.dumps(proposal.to_dict()))
        if not same or block.n != n:
            raise CampaignError(
                f"generation {self._block} of {self.campaign.folder} has {block.n} draws of another proposal"
                f" ({n} were asked for)",
                code="other-settings",
                why="the folder was made with other settings, another observation or another seed",
                fix="use the settings it was made with, or a new folder",
            )


def _read(opened: OpenCampaign, block: Block) -> Simulations:
    """Read the runs of one block."""
    table, settings = opened.table_with_outputs(), opened.settings
    rows = (table.index >= block.first) & (table.index < block.first + block.n)
    return Simulations(
        theta=table.theta[rows],
        x=table.x[rows],
        cost=table.cost(settings.cost_kind)[rows] * settings.cost_scale,
        status=table.status[rows],
        index=table.index[rows],
        m=settings.m,
        names=opened.prior.names,
        unit=settings.unit,
    )
