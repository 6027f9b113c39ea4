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
from functools import partial
from typing import Any, NoReturn

import numpy as np

from thrifty.campaign.campaign import Campaign
from thrifty.campaign.opened import OpenCampaign
from thrifty.campaign.planner import Planner
from thrifty.campaign.steps import Driver
from thrifty.campaign.weighting import proposal_of
from thrifty.errors import CampaignError, ConfigError, DataError
from thrifty.proposals.draws import Draws
from thrifty.runner.engines.processes import Processes
from thrifty.runner.first_output import OutputCheck
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.task import Engine
from thrifty.sequential.join_runs import join_runs
from thrifty.sequential.round_notes import RoundNotes, Stage, add_stage, list_changes, stages_from_list, stages_to_list
from thrifty.sequential.spending import Allowance, CostUnit, MeasuredSimulator, cost_kind_of
from thrifty.store.validate import Block, reject_malformed
from thrifty.tables.simulations import Simulations
from thrifty.types import Array

MAX_TRIED_RUNS = 5  # one by one, until an output is there to be checked: others may fail too
MAX_RELATIVE_DIFFERENCE = (
    1e-4  # of the spread: fits on two processors differ by up to 5e-5, another observation or seed by far more
)


def open_generations(
    simulator: Any,
    *,
    n: int | None,
    budget: float | str | None,
    seed: int,
    workers: int,
    engine: Any,
    check: OutputCheck | None = None,
    bars: bool = False,
) -> tuple[Generations, Allowance]:
    """Prepare to run a simulator, a model or a campaign under n runs or a budget.

    In a campaign the campaign's own `cost`, `unit` and `price` count. In memory, `th.Output(cost=...)` counts where the
    simulator gives it and CPU seconds where not; a budget in CPU or elapsed time measures that. `simulate_many` of a
    model counts in the model's own unit. `check` sees the first output before more runs are started. `bars` shows
    the runs.
    """
    if n is not None and (isinstance(n, str) or not 1 <= n < np.inf or n != int(n)):
        raise ConfigError(f"n must be a whole number >= 1, got {n!r}", code="bad-setting")
    slots = workers if engine is None else int(engine.slots)
    if isinstance(simulator, Campaign):
        cost = CostUnit.of_campaign(simulator, slots)
        generations = CampaignGenerations(simulator, engine if engine is not None else Processes(workers), check, bars)
        return generations, Allowance(n, cost.total(budget), slots)
    if hasattr(simulator, "simulate_many"):
        cost = CostUnit("reported", unit=str(getattr(simulator, "unit", "operations")), slots=slots)
    else:
        kind = cost_kind_of(budget)
        simulator, cost = MeasuredSimulator(simulator, engine, kind, check, bars), CostUnit(kind or "", slots=slots)
        check = None  # made by the engine, run by run
    return MemoryGenerations(simulator, seed, workers, check), Allowance(n, cost.total(budget), slots)


def _to_float(value: float | None) -> float:
    return float("nan") if value is None else float(value)


@dataclass
class MemoryGenerations:
    """Generations through `simulate_many`; nothing is written.

    Args:
        simulator: A model of `th.models`, or anything with its `simulate_many`.
        seed: Of draws and noise.
        workers: Local processes.
        check: Of the first output, before more runs are started.
    """

    simulator: Any
    seed: int
    workers: int = 1
    check: OutputCheck | None = None
    campaign: None = None
    _counts: list[int] = field(default_factory=list, init=False)

    def recall_rounds(self, identity: dict[str, str], asked: Stage) -> RoundNotes:
        """Return that no round was judged before."""
        return RoundNotes((asked,))

    def keep_rounds(self, judged: tuple[dict[str, float], ...], draws: tuple[Array, ...]) -> None:
        """Keep nothing."""

    def peek(self) -> None:
        """Return that nothing is committed ahead."""

    def read_earlier(self) -> list[tuple[Any, Simulations]]:
        """Return nothing: there are no earlier runs in memory."""
        return []

    def run(self, proposal: Any, n: int) -> tuple[Any, Simulations]:
        """Simulate n draws; return the proposal, and the simulations in the order of the draws."""
        number, start = len(self._counts), sum(self._counts)
        drawn = proposal.sample(n, np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(10, number))))
        draws = drawn if isinstance(drawn, Draws) else Draws(theta=drawn, names=proposal.names)
        sims = self._simulate(draws, start)
        if len(sims) != len(draws) or not np.array_equal(sims.theta, draws.theta):
            raise DataError(
                f"{len(sims)} simulations came back for {len(draws)} draws, or in another order",
                code="bad-simulator",
                why="a generation that keeps only what finished favours cheap runs",
                fix="finish the generation: every planned run must have a status",
            )
        self._counts.append(n)
        return proposal, sims

    def _simulate(self, draws: Draws, start: int) -> Simulations:
        """Simulate draws; of the very first ones only as many at first as it takes to see and check an output.

        Row i has the noise of (seed, start + i), so that two calls give what one would.
        """
        simulate = partial(self.simulator.simulate_many, seed=self.seed, workers=self.workers)
        if self._counts or self.check is None:
            return simulate(draws, start=start)
        first = simulate(draws[:1], start=start)
        for tried in range(1, min(MAX_TRIED_RUNS, len(draws))):
            if first.ok.any() or len(first) < tried:
                break
            first = join_runs(first, simulate(draws[tried : tried + 1], start=start + tried))
        if first.ok.any():
            self.check(first.pairs()[1].shape[1:], first.x_names)
        if not len(first) or len(first) >= len(draws):  # one that drops runs is refused by its caller
            return first
        return join_runs(first, simulate(draws[len(first) :], start=start + len(first)))


@dataclass
class CampaignGenerations:
    """Generations of one campaign, each a committed block of its folder.

    Args:
        campaign: The campaign; what it has run before becomes the first generations.
        engine: Where runs go.
        check: Of the first output, before more runs are started.
        bars: Whether to show how far the runs are.
    """

    campaign: Campaign
    engine: Engine
    check: OutputCheck | None = None
    bars: bool = False
    _block: int = field(default=-1, init=False)

    def recall_rounds(self, identity: dict[str, str], asked: Stage) -> RoundNotes:
        """Return what earlier calls found between rounds; refuse a folder that another method or setting continued.

        What is asked for is added to what earlier calls asked for, where it goes beyond that.
        """
        folder = self.campaign.folder
        with self.campaign.session.writing() as opened:
            stored, settings = opened.settings.rounds, opened.settings
            drawn = settings.generations is not None and len(opened.store.blocks()) > settings.generations
            kept: dict[str, Any] = stored or {"identity": identity, "judged": [], "draws": []}
            if stored is None and drawn:
                _refuse_to_continue(folder, "another sequential method")
            if kept["judged"]:  # before, nothing drawn depends on x_o: any may follow round 0
                changed = list_changes(kept["identity"], identity)
                if changed:
                    _refuse_to_continue(folder, "; ".join(changed))
            with reject_malformed(folder, "what was found between rounds"):
                stages = stages_from_list(kept.get("stages", [])) if drawn else ()  # older folders have none
                judged = tuple({key: _to_float(value) for key, value in one.items()} for one in kept["judged"])
                draws = tuple(np.array(one, dtype=np.float64) for one in kept["draws"])
            stages = add_stage(stages, asked, folder)
            opened.keep(rounds=kept | {"identity": identity, "stages": stages_to_list(stages)})
            return RoundNotes(stages, judged, draws)

    def keep_rounds(self, judged: tuple[dict[str, float], ...], draws: tuple[Array, ...]) -> None:
        """Keep what was found between rounds, before the next one is drawn: a resumed run need not train again."""
        with self.campaign.session.writing() as opened:
            figures = [{key: None if np.isnan(v) else v for key, v in one.items()} for one in judged]
            found = {"judged": figures, "draws": [one.tolist() for one in draws]}
            opened.keep(rounds=(opened.settings.rounds or {}) | found)

    def peek(self) -> Any:
        """Return the proposal of the next committed block, or None where there is none."""
        with self.campaign.session.reading() as opened:
            blocks = opened.store.blocks()
            if self._block >= len(blocks):
                return None
            part = opened.parts[blocks[self._block].part]
            return self.campaign.prior if part.kind == "prior" else proposal_of(part, opened.prior)

    def read_earlier(self) -> list[tuple[Any, Simulations]]:
        """Return (proposal, simulations) of pilot and plan blocks, their pending runs run first."""
        session = self.campaign.session
        with Interrupts() as interrupts, session.writing() as opened:
            if opened.settings.generations is None:  # the blocks so far are pilot and plan
                opened.keep(generations=len(opened.store.blocks()))
            self._block = int(opened.settings.generations or 0)
            blocks = [block for block in opened.store.blocks()[: self._block] if block.admitted]
            if blocks:
                driver = self._make_driver(opened, interrupts)
                driver.run_pending()
                driver.raise_if_interrupted()
            return [(proposal_of(opened.parts[block.part], opened.prior), _read(opened, block)) for block in blocks]

    def run(self, proposal: Any, n: int) -> tuple[Any, Simulations]:
        """Commit n draws from the proposal and run them, or read them back; in plan order.

        Returned with them is the proposal from which they were drawn: where another processor computed it, the one
        in the folder, whose last digits differ.
        """
        session = self.campaign.session
        with Interrupts() as interrupts, session.writing() as opened:
            driver = self._make_driver(opened, interrupts)
            blocks = opened.store.blocks()
            if self._block < len(blocks):
                proposal = self._recorded(opened, blocks[self._block], proposal, n)
            else:
                source, planner = None if proposal is self.campaign.prior else proposal, Planner(opened)
                part = planner.add_part(source)
                planner.commit(part, n, mode="n", proposal=source, cost=getattr(source, "cost", None))
            driver.run_pending()
            driver.raise_if_interrupted()  # the generation stays committed
            self._block += 1
            return proposal, _read(opened, opened.store.blocks()[self._block - 1])

    def _make_driver(self, opened: OpenCampaign, interrupts: Interrupts) -> Driver:
        simulator = self.campaign.session.checked_simulator(opened)
        progress = "bar" if self.bars else "quiet"
        return Driver(opened, simulator, self.engine, interrupts, check=self.check, progress=progress)

    def _recorded(self, opened: OpenCampaign, block: Block, proposal: Any, n: int) -> Any:
        """Return the proposal of a committed block; refuse it where another one is asked for."""
        part, plain = opened.parts[block.part], proposal is self.campaign.prior
        asked = {"kind": "prior"} if plain else json.loads(json.dumps(proposal.to_dict()))
        if block.n != n or not _is_near(part.recipe, asked):
            raise CampaignError(
                f"generation {self._block} of {self.campaign.folder} has {block.n} draws of another proposal"
                f" ({n} were asked for)",
                code="other-settings",
                why="the folder was made with other settings, another observation or another seed",
                fix="use the settings it was made with, or a new folder",
            )
        return proposal if part.recipe == asked else proposal_of(part, opened.prior)


def _refuse_to_continue(folder: Any, what: str) -> NoReturn:
    raise CampaignError(
        f"{folder} was continued with other settings ({what:.300})",
        code="other-settings",
        why="its draws follow from those settings, and its runs are paid for",
        fix="use the settings it was made with, or a new folder",
    )


def _is_near(old: Any, new: Any) -> bool:
    """Return whether two described proposals are one, computed on two processors: their last digits may differ.

    Arrays are compared column by column on the scale of the column itself, whatever the unit of a parameter.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_is_near(old[key], new[key]) for key in old)
    if old == new or not isinstance(old, float | list):
        return old == new
    try:
        a, b = np.array(old, dtype=np.float64), np.array(new, dtype=np.float64)
    except (TypeError, ValueError):  # a list of words or of descriptions
        if isinstance(old, float) or not isinstance(new, list) or len(old) != len(new):
            return False
        return all(map(_is_near, old, new))
    if a.shape != b.shape:
        return False
    spread, size = np.ptp(np.atleast_1d(a), axis=0), np.abs(np.atleast_1d(a)).max(axis=0)
    return bool((np.abs(a - b) <= MAX_RELATIVE_DIFFERENCE * np.where(spread > 0, spread, size)).all())


Generations = MemoryGenerations | CampaignGenerations  # draw and run one generation after the other


def _read(opened: OpenCampaign, block: Block) -> Simulations:
    """Read the runs of one block."""
    table, settings = opened.table_with_outputs(), opened.settings
    rows = (table.index >= block.first) & (table.index < block.first + block.n)
    assert table.done[rows].all(), "every run of a generation that counts is finished before it is read"
    return Simulations(
        theta=table.theta[rows],
        x=table.x[rows],
        cost=table.cost(settings.cost_kind)[rows] * settings.cost_scale,
        status=table.status[rows],
        index=table.index[rows],
        m=settings.m,
        names=opened.prior.names,
        x_names=settings.fit_x_names(table.x.shape[1:]),
        unit=settings.unit,
    )
