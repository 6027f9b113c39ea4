"""One session of a campaign: pending runs in, the loop, recorded runs out, and what must be said afterwards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.campaign.budget import Budget, ClockGate, CostGate, Gates, reserve
from thrifty.campaign.failures import describe_where
from thrifty.campaign.interrupts import Interrupts
from thrifty.campaign.limits import TimeLimit
from thrifty.campaign.loop import Ending, Loop, all_failed
from thrifty.campaign.pending import Pending
from thrifty.campaign.progress import ProgressMode, watcher
from thrifty.campaign.reading import Table, known_shape, read_table
from thrifty.campaign.recorder import Recorder
from thrifty.campaign.schedule import Schedule
from thrifty.campaign.simulate import GATE, not_deterministic
from thrifty.campaign.store import Store
from thrifty.campaign.tally import Tally
from thrifty.campaign.task import CostKind, Engine, Job, Outcome
from thrifty.errors import CampaignError, SimulatorError, warn
from thrifty.types import Array


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
        with watcher(self.progress, tally=self._tally(pending, budget)) as watching:
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
        if self._loop.differs is not None and self.settings.get("deterministic", True):
            self.store.put("deterministic", False)
            warn(not_deterministic(self._loop.differs), stacklevel=4)
        return ending

    def after_pilot(self, names: tuple[str, ...]) -> None:
        """Freeze the shape of outputs, and refuse what cannot be learned from."""
        if self.interrupts.drain:
            return
        table = read_table(self.store, dim=len(names))
        done = table.status != "pending"
        counts = Counter(table.status[done].tolist())
        if counts.total() and not counts["ok"] and not counts["timeout"]:
            raise all_failed(counts, self._loop._first_error if self._loop else "")
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

    def _gate(self, schedule: Schedule, budget: Budget | None, deadline: float | None) -> Gates:
        gates: list[CostGate | ClockGate] = []
        now = self.engine.clock()
        if budget is not None and budget.of == "elapsed":
            gates.append(ClockGate(now + budget.amount - self.store.totals()["elapsed"]))
        elif budget is not None:
            gates.append(CostGate(budget.amount))
        if deadline is not None:
            left = reserve(schedule.predicted, schedule.pace or 0.0) if schedule.known else 0.0
            gates.append(ClockGate(now + deadline, reserve=left, hard=True))
        return Gates(gates)

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
