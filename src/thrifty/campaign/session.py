"""A folder with the prior and simulator it belongs to: what every step of a campaign needs, and methods of their own.

`Campaign` puts steps together from it; so does `Generations`, for methods that steer their own simulations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from thrifty.campaign.budget import Price
from thrifty.campaign.drive import Driver
from thrifty.campaign.fingerprint import changes, fingerprint
from thrifty.campaign.interrupts import Interrupts
from thrifty.campaign.limits import TimeLimit
from thrifty.campaign.lock import FolderLock
from thrifty.campaign.loop import Ending
from thrifty.campaign.pending import Pending
from thrifty.campaign.planner import Planner, cost_kind, unit_of
from thrifty.campaign.progress import ProgressMode
from thrifty.campaign.reading import Table, limit_factor, pool_of, read_table
from thrifty.campaign.store import Store
from thrifty.campaign.task import Engine
from thrifty.errors import CampaignError, ConfigError, SimulatorError
from thrifty.types import Array, Prior


class Reading(NamedTuple):
    """A campaign as it was read: rows, frozen proposals, settings, wall seconds of all drivers."""

    table: Table
    parts: dict[int, tuple[str, dict[str, Any]]]
    settings: dict[str, Any]
    elapsed: float


@dataclass(frozen=True)
class Session:
    """Opens the folder for reading or, under its lock, for writing, and makes the parts that work on it.

    Attributes:
        folder: Of the campaign.
        prior: Of its parameters.
        simulator: None for a campaign that is only read.
        price: Of a unit of cost, if any.
        accept_changed: Whether a simulator that changed may go on.
    """

    folder: Path
    prior: Prior
    simulator: Callable[..., Any] | None
    price: Price | None
    accept_changed: bool = False

    def read(self, *, outputs: bool = True) -> Reading:
        """Everything there is, checked; nothing is changed or locked."""
        store, settings = self.reading()
        with closing(store):
            table = read_table(store, dim=self.prior.dim, outputs=outputs)
            return Reading(table, store.parts(), settings, store.totals()["elapsed"])

    def reading(self) -> tuple[Store, dict[str, Any]]:
        """The store, to be closed by the caller, and its settings."""
        store = Store.open(self.folder, readonly=True)
        return store, store.settings()

    @contextmanager
    def writing(self) -> Iterator[tuple[Store, dict[str, Any]]]:
        """The store and its settings, under the folder's lock."""
        with FolderLock(self.folder):
            store = Store.open(self.folder)
            with closing(store):
                yield store, store.settings()

    def planner(self, store: Store, settings: dict[str, Any]) -> Planner:
        """What commits draws."""
        return Planner(store, self.prior, settings, self.price)

    def driver(
        self, store: Store, interrupts: Interrupts, *, engine: Engine, limit: TimeLimit | None, progress: ProgressMode
    ) -> Driver:
        """What runs them."""
        assert self.simulator is not None, "check_simulator comes first"
        settings = store.settings()
        kind, scale = cost_kind(settings, self.price)

        def weigh() -> tuple[Table, Array]:
            table = read_table(store, dim=self.prior.dim, outputs=False)
            return table, self.weights(table, store.parts())

        return Driver(
            store, self.simulator, engine, settings=settings, limit=limit, progress=progress, kind=kind, scale=scale,
            unit=unit_of(settings), weigh=weigh, interrupts=interrupts,
        )  # fmt: skip

    def run_planned(self, store: Store, settings: dict[str, Any], driver: Driver, *, deadline: float | None) -> Ending:
        """Run what is planned; a budget that outlasts its plan gets more draws."""
        if not store.blocks():
            raise CampaignError(
                f"{self.folder} has no planned runs", code="no-runs-yet", fix="c.pilot(200), then c.plan(n=5000)"
            )
        planner = self.planner(store, settings)
        budget = planner.budget(settings.get("budget"))
        driver.extend_timeouts()
        while True:
            modes = ("pilot", "n", "budget")
            target = settings.get("target")
            pending = Pending.of(
                store, self.prior.dim, modes=modes, withdrawn=budget is not None, target=target if budget else None
            )
            before = None if budget is None else store.totals()[budget.of]
            ending = driver.run(pending, budget=budget, deadline=deadline)
            if ending != "done" or budget is None:
                return ending
            if len(pending.index) and store.totals()[budget.of] == before and target is None:
                raise SimulatorError(
                    f"{len(pending.index):,} runs took nothing from the budget of {budget.text!r}",
                    code="bad-cost",
                    why="the budget would never be used up",
                    fix="return th.Output(x, cost=...) with a cost above 0, or plan(n=...)",
                )
            if not planner.top_up(budget):
                return ending

    def weights(self, table: Table, parts: dict[int, Any]) -> Array:
        """Log weights of the pool, with what policies on time-outs add (n,)."""
        if not len(table.index):
            return np.empty(0)
        return pool_of(table, parts, self.prior).log_weight(table.theta) + limit_factor(table)

    def check_simulator(self, store: Store, settings: dict[str, Any]) -> None:
        """Refuse to run a simulator that is missing, or other than the one the campaign began with."""
        if self.simulator is None:
            raise ConfigError(
                "this campaign was opened to read", code="read-only", fix="th.Campaign(folder, simulator, prior)"
            )
        now = fingerprint(self.simulator)
        changed = changes(settings["simulator"], self.simulator)
        if not changed or not store.totals()["done"]:
            store.put("simulator", now)
            return
        if not self.accept_changed:
            raise CampaignError(
                f"the simulator changed since {self.folder} began: {'; '.join(changed[:5])}",
                code="simulator-changed",
                why="mixing versions mixes models",
                fix="use a new folder, or accept_changed=True (recorded in the folder)",
            )
        notes = [*settings.get("notes", []), f"simulator changed and accepted: {'; '.join(changed[:5])}"]
        store.put("notes", notes)
        store.put("simulator", now)

    def stop_if_asked(self, interrupts: Interrupts) -> None:
        """Raise what a signal asked for, now that the store is closed and the lock released."""
        store, _ = self.reading()
        done = int(store.totals()["done"])
        store.close()
        interrupts.raise_if_caught(f"stopped. {done:,} runs are safe on disk. Calling again continues.")
