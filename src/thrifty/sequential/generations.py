"""Generations of a method that steers its own simulations, as committed blocks of a campaign.

Each generation is a proposal frozen as a part and a block of draws, committed before it runs, finished before it is
read. Asked for a generation that is there already, the planned draws are read back and only pending runs are run:
calling the method again with the same settings goes on where it stopped.

What one generation of a sequential method did.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from thrifty.campaign.planner import PRIOR, cost_kind, drawn, unit_of
from thrifty.errors import CampaignError
from thrifty.proposals import CostAware, weighting_from_dict
from thrifty.proposals.kernel import KernelProposal
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.seeds import coin
from thrifty.store.read import Pending, read_table
from thrifty.store.store import Store
from thrifty.tables.simulations import Simulations
from thrifty.types import Prior

if TYPE_CHECKING:
    from thrifty.campaign.campaign import Campaign
    from thrifty.runner.task import Engine


@dataclass(frozen=True)
class Generation:
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


STARTED = "generations"  # setting: the first block that belongs to generations; earlier ones are pilot and plan


@dataclass
class Generations:
    """The generations of one campaign, in order.

    Args:
        campaign: The campaign; what it has run before becomes the first generations.
        engine: Where runs go.
    """

    campaign: Campaign
    engine: Engine
    _block: int = field(default=-1, init=False)

    def before(self) -> list[tuple[Any, Simulations]]:
        """(proposal, simulations) of pilot and plan blocks that were run before the first generation."""
        with Interrupts() as interrupts, self.campaign.session.writing() as (store, settings):
            if STARTED not in settings:
                store.put(STARTED, len(store.blocks()))
            self._block = int(store.settings()[STARTED])
            blocks = [block for block in store.blocks()[: self._block] if block["admitted"]]
            if blocks:
                self._finish(store, interrupts)
            if not interrupts.drain:
                return [(self._proposal(store, block["part"]), self._read(store, block)) for block in blocks]
        self.campaign.session.stop_if_asked(interrupts)  # raises what the signal asked for
        return []

    def __call__(self, proposal: Any, n: int) -> Simulations:
        """Simulations of n draws from the proposal, in plan order: committed, run, or read back."""
        with Interrupts() as interrupts, self.campaign.session.writing() as (store, settings):
            self.campaign.session.check_simulator(store, settings)
            blocks = store.blocks()
            if self._block >= len(blocks):
                self._commit(store, settings, proposal, n)
            else:
                self._check_same(store, blocks[self._block], proposal, n)
            self._finish(store, interrupts)
            block = store.blocks()[self._block]
            sims = self._read(store, block)
        if interrupts.drain:
            self.campaign.session.stop_if_asked(
                interrupts
            )  # raises what the signal asked for; the generation stays committed
        self._block += 1
        return sims

    def _commit(self, store: Store, settings: dict[str, Any], proposal: Any, n: int) -> None:
        plain = proposal is self.campaign.prior
        if plain:
            part = PRIOR
            if PRIOR not in store.parts():
                store.add_part("prior", {"kind": "prior"})
        else:
            if PRIOR not in store.parts():
                store.add_part("prior", {"kind": "prior"})  # number 0 is the prior in every campaign
            recipe = proposal.to_dict()
            part = store.add_part(recipe["kind"], recipe)
        blocks = store.blocks()
        source = None if plain else proposal
        theta, log_weights = drawn(self.campaign.prior, source, n, seed=settings["seed"], block=len(blocks))
        first = sum(block["n"] for block in blocks)
        coins = np.array([coin(settings["seed"], first + i) for i in range(n)])
        cost = getattr(proposal, "cost", None)
        predicted = np.full(n, np.nan) if plain or cost is None else np.asarray(cost(theta), dtype=np.float64)
        store.add_block(part, theta, log_weights=log_weights, predicted=predicted, coins=coins, mode="n")

    def _check_same(self, store: Store, block: dict[str, Any], proposal: Any, n: int) -> None:
        kind, recipe = store.parts()[block["part"]]
        same = kind == "prior" if proposal is self.campaign.prior else recipe == _plain(proposal.to_dict())
        if not same or block["n"] != n:
            raise CampaignError(
                f"generation {self._block} of {self.campaign.folder} has {block['n']} draws of another proposal"
                f" ({n} were asked for)",
                code="other-settings",
                why="the folder was made with other settings, another observation or another seed",
                fix="use the settings it was made with, or a new folder",
            )

    def _finish(self, store: Store, interrupts: Interrupts) -> None:
        """Run everything that is pending."""
        settings = store.settings()
        session = self.campaign.session
        opening = settings.get("shape") is None
        pending = Pending.of(store, self.campaign.prior.dim, modes=("pilot", "n"))
        if len(pending.index):
            session.check_simulator(store, settings)
        driver = session.driver(store, interrupts, engine=self.engine, limit=None, progress="quiet")
        driver.run(pending, first=opening)
        if opening:
            driver.after_pilot(self.campaign.prior.names)

    def _proposal(self, store: Store, part: int) -> Any:
        kind, recipe = store.parts()[part]
        return self.campaign.prior if kind == "prior" else weighting_from_dict(recipe, self.campaign.prior)

    def _read(self, store: Store, block: dict[str, Any]) -> Simulations:
        table = read_table(store, dim=self.campaign.prior.dim)
        settings = store.settings()
        kind, scale = cost_kind(settings, self.campaign.price)
        rows = (table.index >= block["first"]) & (table.index < block["first"] + block["n"])
        return Simulations(
            theta=table.theta[rows],
            x=table.x[rows],
            cost=table.cost(kind)[rows] * scale,
            status=table.status[rows],
            index=table.index[rows],
            m=int(settings["m"]),
            names=self.campaign.prior.names,
            unit=unit_of(settings),
        )


def _plain(recipe: dict[str, Any]) -> dict[str, Any]:
    """The recipe as JSON gives it back."""
    import json

    return json.loads(json.dumps(recipe))
