"""A folder with the prior and simulator it belongs to: what every step of a campaign needs, and methods of their own.

`Campaign` puts steps together from it; so do sequential methods, which commit their own draws.

One session of a campaign: pending runs in, the loop, recorded runs out, and what must be said afterwards.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from thrifty.campaign.budget import Budget, Price
from thrifty.campaign.failures import describe_where
from thrifty.campaign.fingerprint import changes, fingerprint
from thrifty.campaign.planner import Planner, cost_kind, unit_of
from thrifty.campaign.simulate import GATE, not_deterministic
from thrifty.errors import CampaignError, ConfigError, SimulatorError, warn
from thrifty.runner.gates import Gate, reserve_before_deadline
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.loop import Ending, Loop, all_failed_error
from thrifty.runner.progress import ProgressMode, Tally, watch_progress
from thrifty.runner.schedule import Schedule
from thrifty.runner.task import CostKind, Engine, Job, Outcome
from thrifty.runner.time_limits import TimeLimit
from thrifty.store.lock import FolderLock
from thrifty.store.read import Pending, Table, known_shape, limit_factor, pool_of, read_table
from thrifty.store.store import Recorder, Store
from thrifty.types import Array, Prior


@dataclass
class Driver:
    """Drives runs through the loop into the store."""

    store: Store
    simulator: Callable[..., Any]
    engine: Engine
    settings: dict[str, Any]
    limit: TimeLimit | None
    progress: ProgressMode
    kind: CostKind
    scale: float
    unit: str
    weigh: Callable[[], tuple[Table, Array]]
    interrupts: Interrupts
    _loop: Loop | None = None

    def run(
        self,
        pending: Pending,
        *,
        first: bool = False,
        budget: Budget | None = None,
        deadline: float | None = None,
    ) -> Ending:
        """Run until done, stopped or out of budget."""
        if not len(pending.index):
            return "done"
        schedule = Schedule(
            pending.index,
            pending.theta,
            predicted=pending.predicted,
            must=pending.must,
            limit=self.limit,
            seed=self.settings["seed"],
            probe=int(pending.index.min()) if first else None,
            history=self._history(pending),
        )
        policy = None if self.limit is None else json.dumps(asdict(self.limit))
        session = self.store.begin_session(type(self.engine).__name__)
        recorder = Recorder(self.store, policy=policy, session=session, blocks=pending.blocks)
        spend = budget.spent_on if budget is not None else lambda outcome: outcome.cpu
        job = Job(self.simulator, self.settings["seed"], self.settings["m"], warm_up=True)
        with watch_progress(self.progress, tally=self._tally(pending, budget)) as watching:
            self._loop = Loop(
                self.engine,
                job,
                schedule,
                recorder,
                limit=self.limit,
                gate=self._gate(schedule, budget, deadline),
                watcher=watching,
                price=spend,
                fail_fast=first,
                must_spend=budget is not None and budget.of != "elapsed",
                spent=self._spent(budget),
                predicted_price=budget.per_unit if budget is not None and budget.of == self.kind else 0.0,
            )
            ending = self._loop.run(self.interrupts)
        if self._loop.differing_index is not None and self.settings.get("deterministic", True):
            self.store.put("deterministic", False)
            warn(not_deterministic(self._loop.differing_index), stacklevel=4)
        return ending

    def after_pilot(self, names: tuple[str, ...]) -> None:
        """Freeze the shape of outputs, and refuse what cannot be learned from."""
        if self.interrupts.drain:
            return
        table = read_table(self.store, dim=len(names))
        done = table.status != "pending"
        counts = Counter(table.status[done].tolist())
        if counts.total() and not counts["ok"] and not counts["timeout"]:
            raise all_failed_error(counts, self._loop.first_error if self._loop else "")
        ok = table.status == "ok"
        if ok.sum() >= 10 and np.ptp(table.x[ok].reshape(int(ok.sum()), -1), axis=0).max() == 0:
            raise SimulatorError(
                f"output is identical for all {int(ok.sum())} pilots",
                code="constant-output",
                why="nothing can be learned from it",
                fix="does the simulator read its parameters and its rng?",
            )
        if "shape" not in self.settings and ok.any():
            self.store.put("shape", list(known_shape(self.store)))

    def extend_timeouts(self) -> None:
        """Under "extend", earlier time-outs are pending again when the limit is now longer."""
        if self.limit is None or self.limit.on_timeout != "extend":
            return
        table = read_table(self.store, dim=self.settings_dim, outputs=False)
        again = (table.status == "timeout") & (table.cut < self.limit.seconds)
        self.store.forget(table.index[again].tolist())

    @property
    def settings_dim(self) -> int:
        """Number of parameters."""
        return len(self.settings["prior"]["names"])

    def finish(self, ending: Ending) -> None:
        """What the reader must know at the end of a run."""
        if self.interrupts.drain:
            return
        late = self._loop.timed_out if self._loop is not None else None
        if ending == "timeout" and late is not None:
            raise CampaignError(
                f"run {late.index} passed the time limit ({late.error}) and on_timeout is 'stop'",
                code="time-limit-passed",
                fix="run() again with lazy, extend, restrict or weight, or a longer limit",
            )
        table, log_weights = self.weigh()
        failed = table.done & (table.status != "ok")
        mass = failed_mass(log_weights, failed, table.done)
        if mass > GATE:
            where = describe_where(table.theta[table.done], failed[table.done], tuple(self.settings["prior"]["names"]))
            warn(
                f"{int(failed.sum())} of {int(table.done.sum())} runs failed{', ' + where if where else ''}"
                f" ({100 * mass:.1f} % of prior mass). The posterior is conditional on finishing.",
                stacklevel=4,
            )

    def _history(self, pending: Pending) -> tuple[float, float]:
        """Wall seconds and cost of the runs so far: what a predicted unit takes here."""
        table, _ = self.weigh()
        known = table.done & np.isfinite(table.wall) & np.isfinite(table.cost(self.kind))
        units = table.cost(self.kind)[known] if np.isfinite(pending.predicted).all() else np.ones(int(known.sum()))
        return float(table.wall[known].sum()), float(units.sum())

    def _spent(self, budget: Budget | None) -> float:
        return 0.0 if budget is None else self.store.totals()[budget.of] * budget.per_unit

    def _gate(self, schedule: Schedule, budget: Budget | None, deadline: float | None) -> Gate:
        now, most, until, end, reserve = self.engine.clock(), np.inf, np.inf, np.inf, 0.0
        if budget is not None and budget.of == "elapsed":
            until = now + budget.amount - self.store.totals()["elapsed"]
        elif budget is not None:
            most = budget.amount
        if deadline is not None:
            end = now + deadline
            reserve = (
                reserve_before_deadline(schedule.predicted, schedule.pace or 0.0) if schedule.has_predictions else 0.0
            )
        return Gate(budget=most, until=until, deadline=end, reserve=reserve)

    def _tally(self, pending: Pending, budget: Budget | None) -> Tally:
        table, log_weights = self.weigh()
        done, planned = table.done, table.index
        kind, scale = self.kind, self.scale

        def price(outcome: Outcome) -> float:
            return outcome.cost(kind) * scale

        def weight_of(index: int) -> float:
            row = int(np.searchsorted(planned, index))  # the table is in plan order
            return float(log_weights[row]) if row < len(planned) and planned[row] == index else np.nan

        cost = table.cost(kind)[done] * scale
        earlier = (cost, log_weights[done], table.status[done] != "ok")
        ahead = (planned[~done], table.predicted[~done] * scale, log_weights[~done])
        total = int(done.sum()) + len(pending.index)
        shown = budget.amount if budget is not None and budget.of == kind else None
        return Tally(
            total, price=price, unit=self.unit, weight_of=weight_of, earlier=earlier, ahead=ahead, budget=shown
        )


def failed_mass(log_weights: Array, failed: npt.NDArray[np.bool_], done: npt.NDArray[np.bool_]) -> float:
    """Share of prior mass of the runs that failed."""
    weights = log_weights[done]
    if not len(weights) or not np.isfinite(weights).any():
        return 0.0
    weights = np.exp(weights - weights.max())
    return float(weights[failed[done]].sum() / weights.sum())


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

    def settings(self) -> dict[str, Any]:
        """Read the settings of the campaign."""
        store, settings = self.reading()
        store.close()
        return settings

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

    def run_pending(self, store: Store, interrupts: Interrupts, engine: Engine) -> None:
        """Run what is committed by number and pending, for a method that commits its own draws."""
        settings = store.settings()
        is_first = settings.get("shape") is None
        pending = Pending.of(store, self.prior.dim, modes=("pilot", "n"))
        if len(pending.index):
            self.check_simulator(store, settings)
        driver = self.driver(store, interrupts, engine=engine, limit=None, progress="quiet")
        driver.run(pending, first=is_first)
        if is_first:
            driver.after_pilot(self.prior.names)

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
