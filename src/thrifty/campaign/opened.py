"""An open campaign: its store, and what was read from it, each at most once per call.

`Campaign` puts its steps together from it; so does `Generations`, for methods that steer their own simulations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from thrifty.campaign.budget import Of
from thrifty.campaign.fingerprint import fingerprint
from thrifty.campaign.kept_rounds import read_rounds
from thrifty.campaign.settings import CampaignSettings, differences
from thrifty.campaign.status import Status, make_status
from thrifty.campaign.totals import MIN_KEPT_RUNS, measure_failed_mass, sum_up
from thrifty.campaign.weighting import limit_log_factor, pool_log_weights, pool_of, weigh_finished
from thrifty.costs import FittedCost, cost_from_dict
from thrifty.errors import CampaignError, ConfigError
from thrifty.runner.snapshot import Snapshot, Totals
from thrifty.runner.task import CostKind, Outcome
from thrifty.runner.time_limits import TimeLimit
from thrifty.store.lock import FolderLock
from thrifty.store.read import known_shape, read_columns, read_table
from thrifty.store.schema import translate_os_errors
from thrifty.store.store import Store
from thrifty.store.sums import find_failed, has_limits, has_unpriced
from thrifty.store.table import Table
from thrifty.store.validate import Part, malformed_store_error
from thrifty.types import CHARGED_STATUSES, Array, Prior
from thrifty.weights import mass_of


@dataclass
class OpenCampaign:
    """A store that is open for one call, with its settings; proposals and table are read when first needed.

    Args:
        store: Open for reading or writing.
        prior: Of the parameters.
        settings: Parsed from the store; `keep` changes both.
        warned: Warnings that this campaign has said, each of them once.
        check_draws: Whether the checksum of every draw is tested when the table is read.
    """

    store: Store
    prior: Prior
    settings: CampaignSettings
    check_draws: bool = True
    warned: set[str] = field(default_factory=set)
    simulator_changed: bool = field(default=False, init=False)  # since the runs so far; set by `checked_simulator`
    _pool_weights: Array = field(default_factory=lambda: np.empty(0))
    _figures: dict[str, Any] | None = None

    @cached_property
    def parts(self) -> dict[int, Part]:
        """Frozen proposals by number."""
        parts = self.store.parts()
        missing = set(self.settings.plans.values()) - set(parts)
        if missing:
            raise malformed_store_error(
                self.store.folder, f"a plan draws from proposal {min(missing)}, which does not exist"
            )
        return parts

    @cached_property
    def table(self) -> Table:
        """All planned rows without outputs; runs that finish during this call are entered in it."""
        return read_columns(self.store, dim=self.settings.dim, shape=self.settings.shape, check=self.check_draws)

    def table_with_outputs(self, *, lazy: bool = False) -> Table:
        """Read the rows that count, with outputs, every checksum tested; with `lazy` outputs lie in a file."""
        table = read_table(self.store, dim=self.settings.dim, shape=self.settings.shape, lazy=lazy)
        self.settings.order_outputs(table.x)
        return table

    def keep(self, **changes: Any) -> None:
        """Store settings; their names are those of `CampaignSettings`."""
        for key, value in changes.items():
            self.store.put(key, value)
        self.settings = replace(self.settings, **changes)

    def add_part(self, kind: str, recipe: dict[str, Any]) -> int:
        """Freeze a proposal and return its number. Number 0 is the prior in every campaign."""
        parts = self.parts
        number = self.store.add_part(kind, recipe)
        parts[number] = Part(kind, recipe)
        return number

    @property
    def cost_model(self) -> FittedCost | None:
        """The cost model of the last plan, frozen; None before the first."""
        return None if self.settings.cost_model is None else cost_from_dict(self.settings.cost_model)

    def judge_shapes(self) -> None:
        """Mark outputs of another shape than most as errors, if the pilot has not done so yet."""
        if self.table.shape is None:
            self.table.judge_shapes(known_shape(self.store, None))

    def pilot_costs(self) -> tuple[Array, Array]:
        """Return parameters (n, p) and costs (n,) of the finished pilots; of all finished runs where there is none."""
        self.judge_shapes()
        runs = self.table.counted()
        cost = runs.cost(self.settings.cost_kind)
        pilots = [block.id for block in self.store.blocks() if block.mode == "pilot"]
        known = runs.done & np.isfinite(cost) & (cost > 0)
        chosen = known & np.isin(runs.block, pilots)
        chosen = chosen if chosen.any() else known
        return runs.theta[chosen], cost[chosen]

    def pilot_indices(self) -> list[int]:
        """Return the plan indices of all pilots, which are committed in blocks of their own."""
        return [index for block in self.store.blocks() if block.mode == "pilot" for index in block.indices]

    def log_weights(self) -> Array:
        """Log weights of the rows that count: of the pool, with what time limits add (n,)."""
        table = self.table.counted()
        if not len(table):
            return np.empty(0)
        if len(self._pool_weights) != len(table):  # rows that count are added, never taken away
            self._pool_weights = pool_log_weights(pool_of(table, self.parts, self.prior), table.theta)
        return self._pool_weights + limit_log_factor(table)

    def charges(self, of: CostKind) -> Array:
        """Return what every planned row took (n,), see `charge_costs`."""
        return charge_costs(self.table, of, predicted_kind=self.settings.cost_kind)

    def spent(self, of: Of) -> float:
        """Sum what all runs took, attempts without a kept result included, or "elapsed" seconds over all drivers."""
        if of != "reported" or not has_unpriced(self.store):
            return self.store.spent(of)
        return float(np.nansum(self.charges(of))) + self.store.discarded().get(of, 0.0)

    def take_snapshot(self) -> Snapshot:
        """Return the rows that count, with costs in the unit that is shown."""
        table, scale = self.table.counted(), self.settings.cost_scale
        cost = self.charges(self.settings.cost_kind)[self.table.admitted]
        log_weights = self.log_weights()
        drawn = self._pool_weights if table.policies else None
        return Snapshot(table.status, cost * scale, table.predicted * scale, log_weights, drawn)

    def sum_up(self) -> Totals:
        """Return sums over the runs that count, and what attempts without a kept result took."""
        totals, paid = self._sum_up(), self.store.discarded().get(self.settings.cost_kind, 0.0)
        if totals.failed and totals.done < totals.planned:
            totals = replace(totals, failed_mass_sum=self._measure_failed_mass(), done_mass=1.0)
        return replace(totals, spent=totals.spent + paid * self.settings.cost_scale) if paid else totals

    def _measure_failed_mass(self) -> float:
        """Return the share of prior mass that failed, of the runs that have finished while others are missing."""
        if not self._needs_table():
            return measure_failed_mass(self.store, self.settings, self.parts, self.prior)
        table = self.table.counted()
        weights = weigh_finished(table, self.parts, self.prior, self.settings, self.store.blocks())
        return mass_of(table.failed[table.done], weights[table.done])

    def _sum_up(self) -> Totals:
        """Return sums over the runs that count, from those kept in the folder and what was recorded since."""
        if self._needs_table():
            self.judge_shapes()
            return self.take_snapshot().sum_up()
        if self._figures is None:
            self._figures = self.store.figures()
        totals, self._figures = sum_up(self.store, self.settings, self.parts, self.prior, kept=self._figures)
        return totals

    def _needs_table(self) -> bool:
        """Return whether sums need all runs together: under time limits, and to charge runs with impossible costs."""
        unpriced = self.settings.cost_kind == "reported" and has_unpriced(self.store)
        return unpriced or has_limits(self.store)

    def keep_figures(self) -> None:
        """Keep the sums in the folder, so that `status` of a large campaign need not compute them."""
        if self.store.planned() >= MIN_KEPT_RUNS and not self._needs_table():
            self._sum_up()
            if self._figures is not None:
                self.store.put_figures(self._figures)

    def note_outcomes(self, outcomes: Sequence[Outcome], limit: TimeLimit | None) -> None:
        """Enter recorded runs in the table, if it was read."""
        if "table" in vars(self):
            self.table.enter_all(outcomes, limit)

    def note_admission(self, last: int, blocks: Collection[int]) -> None:
        """Enter an admission in the table, if it was read."""
        if "table" in vars(self):
            self.table.admit_through(last, blocks=blocks)

    def status(self) -> Status:
        """Compute the status of this moment."""
        now, elapsed = self.sum_up(), self.store.spent("elapsed")
        withdrawn = self.store.planned() - now.planned
        rounds = read_rounds(self.settings, self.store.blocks(), self.parts)
        folder = str(self.store.folder)
        limit = self.settings.limit
        taken = 0.0 if limit is None else self.spent(limit.of) * limit.per_unit
        return make_status(folder, now, self.settings, elapsed=elapsed, withdrawn=withdrawn, rounds=rounds, taken=taken)


def charge_costs(table: Table, of: CostKind, *, predicted_kind: CostKind) -> Array:
    """Return what every row of a table took (n,), NaN without a run.

    A run that gave a result and no possible cost is charged as predicted: a pilot at the mean of the other pilots.
    """
    cost = table.cost(of)
    missing = np.isnan(cost) & np.isin(table.status, CHARGED_STATUSES) if of == "reported" else np.zeros(0, dtype=bool)
    if not missing.any():
        return cost
    expected, known = table.predicted.copy(), np.isfinite(cost)
    planned = np.isfinite(expected)
    both = known & planned
    if of != predicted_kind and both.any():  # predicted in another unit
        expected *= cost[both].sum() / max(float(expected[both].sum()), 1e-300)
    elif of != predicted_kind:  # and no run has shown what that is worth: as the other runs
        planned[:] = False
    others = cost[known & ~planned] if (known & ~planned).any() else cost[known]
    expected[~planned] = others.mean() if len(others) else 0.0
    return np.where(missing, expected, cost)


@dataclass(frozen=True)
class Session:
    """Opens the folder of a campaign for reading or, under its lock, for writing.

    Attributes:
        folder: Of the campaign.
        prior: Of its parameters.
        simulator: None for a campaign that is only read.
        accept_changed: Whether a simulator that changed since the first run may be used.
        depends_on: Data files and folders that it reads.
        warned: Warnings that were said of its cost model.
    """

    folder: Path
    prior: Prior
    simulator: Callable[..., Any] | None
    accept_changed: bool = False
    depends_on: tuple[Path, ...] = ()
    warned: set[str] = field(default_factory=set)

    @contextmanager
    def reading(self, *, check_draws: bool = True) -> Iterator[OpenCampaign]:
        """Open the folder without locking or changing it."""
        with translate_os_errors(self.folder), closing(Store.open(self.folder, readonly=True)) as store:
            store.hold_snapshot()
            yield OpenCampaign(store, self.prior, CampaignSettings.parse(store.settings()), check_draws, self.warned)

    def settings(self) -> CampaignSettings:
        """Read the settings of the campaign."""
        with self.reading() as opened:
            return opened.settings

    @contextmanager
    def writing(self) -> Iterator[OpenCampaign]:
        """Open the folder under its lock."""
        with translate_os_errors(self.folder), FolderLock(self.folder), closing(Store.open(self.folder)) as store:
            settings = CampaignSettings.parse(store.settings())
            yield OpenCampaign(store, self.prior, settings, warned=self.warned)

    def checked_simulator(self, opened: OpenCampaign) -> Callable[..., Any]:
        """Return the simulator; refuse one that is missing, or that changed since the first run."""
        if self.simulator is None:
            raise ConfigError(
                "Campaign.open() cannot run simulations", code="read-only", fix="th.Campaign(folder, simulator, prior)"
            )
        recorded, now = opened.settings.simulator, fingerprint(self.simulator, self.depends_on)
        changed = differences(recorded, now)
        if not changed or not opened.store.has_runs():
            if now != recorded:  # parts that the recorded one did not know, or files that moved
                opened.keep(simulator=now)
            return self.simulator
        failed = len(find_failed(opened.store, ",".join(map(str, known_shape(opened.store, opened.settings.shape)))))
        opened.simulator_changed = True
        if not self.accept_changed:
            again = " (it is recorded)"
            if failed:
                again = (
                    f"; with it run(redo_failed=True) or pilot(..., redo_failed=True) makes the {failed:,} failed runs"
                )
                again += " again by the new code"
            raise CampaignError(
                f"the simulator changed since {self.folder} began: {'; '.join(changed[:5])}",
                code="simulator-changed",
                why="runs of two versions would be mixed as if they were one model",
                fix=f"use a new folder, or accept_changed=True{again}",
            )
        note = f"simulator changed and accepted: {'; '.join(changed[:5])}"
        opened.keep(notes=(*opened.settings.notes, note), simulator=now)
        return self.simulator
