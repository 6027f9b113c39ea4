"""Running the runs of a campaign: pending rows in, the loop, recorded runs out, and what must be said afterwards."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from thrifty.campaign.budget import Budget
from thrifty.campaign.failures import find_failed_runs
from thrifty.campaign.opened import OpenCampaign
from thrifty.campaign.simulate import not_deterministic
from thrifty.campaign.status import Status
from thrifty.campaign.weighting import MAX_FAILED_MASS, failures_in_words
from thrifty.errors import CampaignError, SimulatorError, warn
from thrifty.runner.causes import describe_causes
from thrifty.runner.first_output import FirstOutputCheck, OutputCheck
from thrifty.runner.gates import Gate, reserve_before_deadline
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.loop import FIRST_RUNS, Ending, Loop, Priced, all_failed_error
from thrifty.runner.progress import ProgressMode, Watched, watch_progress
from thrifty.runner.schedule import Schedule
from thrifty.runner.signatures import explain_vector
from thrifty.runner.task import Engine, Job, OutputNames
from thrifty.runner.time_limits import TimeLimit
from thrifty.store.driving import Pending, Recorder, count_done, read_pending, sum_counted
from thrifty.store.read import known_shape
from thrifty.store.sums import (
    count_statuses,
    find_causes,
    find_timeouts,
    first_failure,
    outputs_vary,
    sum_costs,
    sum_runs,
)
from thrifty.types import Array

_log = logging.getLogger(__name__)
MAX_MODELLED_RUNS = 2000  # pilots predicted when a call begins: an error of 4 % of the price at the most
MIN_CONSTANT_OUTPUTS = 10  # equal outputs that show that nothing can be learned: fewer may be chance

_REDO_FIX = (
    "correct the simulator; then th.Campaign(..., accept_changed=True), and pilot(..., redo_failed=True) makes the"
    " failed runs again. To look at one: simulator(theta, np.random.default_rng(0))"
)


@dataclass
class Driver:
    """Drives runs through the loop into the store."""

    campaign: OpenCampaign
    simulator: Callable[..., Any]
    engine: Engine
    interrupts: Interrupts
    limit: TimeLimit | None = None
    progress: ProgressMode | bool | None = "quiet"
    check: OutputCheck | None = None  # of the first output, before more runs are started
    _loop: Loop | None = None

    def run_planned(self, *, deadline: float | None, top_up: Callable[[Budget], bool]) -> Ending:
        """Run everything that is planned; a budget that is not used up by its plan gets more draws by `top_up`."""
        store, settings = self.campaign.store, self.campaign.settings
        if not store.blocks():
            raise CampaignError(
                f"{store.folder} has no planned runs", code="no-runs-yet", fix="c.pilot(200), then c.plan(n=5000)"
            )
        budget = settings.read_budget(settings.budget)
        target = settings.target if budget is not None else None
        self._extend_timeouts()
        while True:
            pending = read_pending(store, store.blocks(), dim=settings.dim, withdrawn=budget is not None, target=target)
            before = 0.0 if budget is None else self.campaign.spent(budget.of)
            ending = self.run(pending, budget=budget, deadline=deadline)
            if ending != "done" or budget is None:
                return ending
            if len(pending) and self.campaign.spent(budget.of) == before and target is None:
                raise SimulatorError(
                    f"{len(pending):,} runs took nothing from the budget of {budget.text!r}",
                    code="bad-cost",
                    why="the budget would never be used up",
                    fix="return th.Output(x, cost=...) with a cost above 0, or plan(n=...)",
                )
            if not top_up(budget):
                return ending

    def run(
        self, pending: Pending, *, first: bool = False, budget: Budget | None = None, deadline: float | None = None
    ) -> Ending:
        """Run until done, stopped or out of budget; `first` runs end at once if all of them fail."""
        if not len(pending):
            return "done"
        store, settings = self.campaign.store, self.campaign.settings
        if first:
            self._refuse_again()
        history, priced = self._measure(pending, budget, limited=budget is not None or deadline is not None)
        schedule = Schedule(
            pending.index,
            pending.theta,
            predicted=pending.predicted,
            must=pending.must,
            limit=self.limit,
            seed=settings.seed,
            probe=int(pending.index.min()) if first else None,
            history=history,
        )
        session = store.begin_session(type(self.engine).__name__)
        _log.info("run %d pending runs of %s on %s", len(pending), store.folder, type(self.engine).__name__)
        with watch_progress(self.progress, self._watched(pending, budget)) as watching:
            self._loop = Loop(
                self.engine if self.check is None else cast("Engine", FirstOutputCheck(self.engine, self.check)),
                Job(self.simulator, settings.seed, settings.m, warm_up=True, names=settings.names),
                schedule,
                self._recorder(pending, session),
                limit=self.limit,
                gate=self._gate(schedule, budget, deadline),
                watcher=watching,
                price=budget.spent_on if budget is not None else lambda outcome: outcome.cpu,
                fail_fast=first,
                failed_fix=_REDO_FIX,
                must_spend=budget is not None and budget.of != "elapsed",
                spent=0.0 if budget is None else self.campaign.spent(budget.of) * budget.per_unit,
                predicted_price=self._predicted_price(schedule, budget),
                earlier=priced,
                outputs=self._learn_names(),
            )
            ending = self._loop.run(self.interrupts)
        _log.info("runs of %s ended: %s", store.folder, ending)
        if self._loop.differing_index is not None and settings.deterministic:
            self.campaign.keep(deterministic=False)
            warn(not_deterministic(self._loop.differing_index), stacklevel=4)
        return ending

    def _refuse_again(self) -> None:
        """Refuse to start more first runs where all that there are failed, and the simulator is the same."""
        store = self.campaign.store
        counts = Counter(dict(store.query("SELECT status, count(*) FROM runs GROUP BY 1")))
        is_broken = counts.total() >= FIRST_RUNS and not counts["ok"] and not counts["timeout"]
        if is_broken and not self.campaign.simulator_changed:
            raise self._all_failed_error(counts)

    def _all_failed_error(self, counts: Counter[str]) -> SimulatorError:
        store = self.campaign.store
        is_same = len({cause.text for cause in find_causes(store, None)}) == 1
        hint = explain_vector(self.simulator, self.campaign.settings.names)
        return all_failed_error(counts, first_failure(store), fix=_REDO_FIX, is_same=is_same, hint=hint)

    def _learn_names(self) -> OutputNames:
        campaign, settings = self.campaign, self.campaign.settings
        return OutputNames(
            settings.x_names or None,
            lambda names: campaign.keep(x_names=names),
            settings.x_order,
            lambda order: campaign.keep(x_order=order),
        )

    def _recorder(self, pending: Pending, session: int) -> Recorder:
        campaign = self.campaign
        return Recorder(
            campaign.store,
            policy=self.limit,
            session=session,
            blocks=pending.blocks,
            on_commit=lambda outcomes: campaign.note_outcomes(outcomes, self.limit),
            on_admit=lambda last: campaign.note_admission(last, pending.blocks),
            keep_figures=campaign.keep_figures,
        )

    def run_pilot(self) -> None:
        """Run pending pilots, freeze the shape of outputs, and refuse outputs from which nothing can be learned."""
        store = self.campaign.store
        pilots = [block for block in store.blocks() if block.mode == "pilot"]
        self.run(read_pending(store, pilots, dim=self.campaign.settings.dim), first=True)
        self.check_outputs()

    def run_pending(self) -> None:
        """Run everything that will be completed, for a method that commits its own draws."""
        is_first, store = self.campaign.settings.shape is None, self.campaign.store
        self.run(read_pending(store, store.blocks(), dim=self.campaign.settings.dim, withdrawn=False), first=is_first)
        if is_first:
            self.check_outputs(least=FIRST_RUNS)

    def check_outputs(self, *, least: int = 1) -> None:
        """Freeze the shape of outputs; refuse a simulator that always fails (in `least` runs) or returns the same."""
        if self.interrupts.drain:
            return
        store = self.campaign.store
        shape = known_shape(store, self.campaign.settings.shape)
        counts = count_statuses(store, ",".join(map(str, shape)))
        if counts.total() >= least and not counts["ok"] and not counts["timeout"]:
            raise self._all_failed_error(counts)
        if counts["ok"] >= MIN_CONSTANT_OUTPUTS and not outputs_vary(store, ",".join(map(str, shape))):
            raise SimulatorError(
                f"output is identical for all {counts['ok']} pilots",
                code="constant-output",
                why="nothing can be learned from it",
                fix="does the simulator read its parameters and its rng?",
            )
        if self.campaign.settings.shape is None and counts["ok"]:
            self.campaign.keep(shape=shape)

    def raise_if_interrupted(self) -> None:
        """Raise what a signal asked for, now that everything is safe."""
        if self.interrupts.signal is not None:
            done = int(sum_runs(self.campaign.store)["count"] or 0)
            self.interrupts.raise_if_caught(f"stopped. {done:,} runs are safe on disk. Calling again continues.")

    def finish(self, ending: Ending) -> Status:
        """Return the status at the end of a run; raise or warn about what the reader must know."""
        late = self._loop.timed_out if self._loop is not None else None
        if ending == "timeout" and late is not None:
            raise CampaignError(
                f"run {late.index} passed the time limit ({late.error}) and on_timeout is 'stop'",
                code="time-limit-passed",
                fix="run() again with lazy, extend, restrict or weight, or a longer limit",
            )
        self.campaign.keep_figures()
        status = self.end_status()
        if status.failed_mass > MAX_FAILED_MASS:
            causes = describe_causes(find_failed_runs(self.campaign.store, self.campaign.settings.shape).causes)
            counted = failures_in_words(self.campaign.table.counted(), self.campaign.settings.names)
            warn(
                f"[too-many-failures] {counted} ({100 * status.failed_mass:.1f}% of prior mass){causes}."
                " The posterior is conditional on finishing.\n"
                "  fix: campaign.failures() shows the messages; correct the simulator, then run(redo_failed=True)",
                stacklevel=4,
            )
        return status

    def end_status(self) -> Status:
        """Return the status as it is when this driver has ended."""
        return replace(self.campaign.status(), running=False)

    def _extend_timeouts(self) -> None:
        """Under "extend", make earlier time-outs pending again when the limit is now longer."""
        if self.limit is None or self.limit.on_timeout != "extend":
            return
        again = find_timeouts(self.campaign.store, self.limit.seconds)
        if again:
            self.campaign.store.add_discarded(sum_costs(self.campaign.store, again))
            self.campaign.store.forget(again)

    def _measure(self, pending: Pending, budget: Budget | None, *, limited: bool) -> tuple[tuple[float, float], Priced]:
        """Return wall seconds and predicted units of the runs so far, and what they took from the budget.

        The table is read only where price or time is limited.
        """
        if not limited:
            count, wall, cost = sum_counted(self.campaign.store, self.campaign.settings.cost_kind)
            return (wall, cost if np.isfinite(pending.predicted).all() else float(count)), Priced()
        units, wall = self._units(pending), self.campaign.table.wall
        known = np.isfinite(wall) & np.isfinite(units)
        return (float(wall[known].sum()), float(units[known].sum())), self._priced(units, budget)

    def _units(self, pending: Pending) -> Array:
        """Predicted units of the runs so far (n,), of the same cost model as the pending ones; NaN where unknown.

        Runs without a prediction, as pilots, are predicted by the frozen cost model. Where a pending run has no
        prediction either, a run is a unit.
        """
        table, settings, model = self.campaign.table, self.campaign.settings, self.campaign.cost_model
        done = table.done
        if not np.isfinite(pending.predicted).all():
            return np.where(done, 1.0, np.nan)
        last = table.part[np.searchsorted(table.index, pending.index[-1])]  # the runs that a budget may admit
        units = np.where(done & (table.part == last), table.predicted, np.nan)
        rows = np.flatnonzero(done & ~np.isfinite(table.predicted))[:MAX_MODELLED_RUNS]
        units[rows] = table.cost(settings.cost_kind)[rows] if model is None else model(table.theta[rows])
        return units

    def _priced(self, units: Array, budget: Budget | None) -> Priced:
        """Return the runs so far with what they took from the budget: the price from which admission starts."""
        if budget is None or budget.of == "elapsed":
            return Priced()
        paid = self.campaign.table.cost(budget.of) * budget.per_unit
        known = np.isfinite(paid) & np.isfinite(units)
        return Priced(int(known.sum()), float(paid[known].sum()), float(units[known].sum()))

    def _predicted_price(self, schedule: Schedule, budget: Budget | None) -> float:
        """Return the price of a predicted unit where none was measured; 0 where predictions are of another kind."""
        same = budget is not None and budget.of == self.campaign.settings.cost_kind and schedule.has_predictions
        return budget.per_unit if same and budget is not None else 0.0

    def _gate(self, schedule: Schedule, budget: Budget | None, deadline: float | None) -> Gate:
        now, most, until, end, reserve = self.engine.clock(), np.inf, np.inf, np.inf, 0.0
        if budget is not None and budget.of == "elapsed":
            until = now + budget.amount - self.campaign.store.spent("elapsed")
        elif budget is not None:
            most = budget.amount
        if deadline is not None:
            end = now + deadline
            reserve = (
                reserve_before_deadline(schedule.predicted, schedule.pace or 0.0) if schedule.has_predictions else 0.0
            )
        return Gate(budget=most, until=until, deadline=end, reserve=reserve)

    def _watched(self, pending: Pending, budget: Budget | None) -> Watched:
        settings = self.campaign.settings
        total = count_done(self.campaign.store) + len(pending)
        amount = budget.amount if budget is not None and budget.of == settings.cost_kind else None
        used = None if budget is None else lambda: self.campaign.spent(budget.of) * budget.per_unit / budget.amount
        return Watched(total, settings.unit, self.campaign.sum_up, amount, used, kind=settings.seconds_kind)
