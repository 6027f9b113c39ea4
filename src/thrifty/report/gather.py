"""Read what a run folder holds. Nothing is executed or changed, and every row is checked."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from thrifty.campaign.campaign import Campaign
from thrifty.campaign.failures import FailureMap
from thrifty.campaign.kept_rounds import read_rounds
from thrifty.campaign.opened import charge_costs
from thrifty.campaign.plan import PILOTS_PER_PARAMETER, POWERS, compare_penalties, find_row
from thrifty.campaign.settings import CampaignSettings, StoredPrior
from thrifty.campaign.status import Status, make_status
from thrifty.campaign.weighting import limit_log_factor, pool_of, weigh_finished
from thrifty.costs import FinishModel, FittedCost, cost_from_dict, fit_cost
from thrifty.errors import DamagedStoreError, ThriftyError
from thrifty.proposals import CostAware, Pool, weighting_from_dict
from thrifty.report.content import as_labels, clean
from thrifty.runner.snapshot import Snapshot
from thrifty.store.store import Store
from thrifty.store.table import Table
from thrifty.store.validate import Block, Part
from thrifty.tables.simulations import Simulations
from thrifty.tradeoff import Row, Tradeoff
from thrifty.types import Array, Prior
from thrifty.weights import mass_of


@dataclass(frozen=True)
class Session:
    """One driver of the campaign: when it began, how long it ran at least, and where."""

    started: float
    elapsed: float
    host: str
    pid: int
    engine: str


@dataclass(frozen=True)
class Stamps:
    """When and where each run ended (n,), with its wall seconds, attempt, status and error."""

    index: npt.NDArray[np.int64]
    finished: Array
    wall: Array
    host: list[str]
    attempt: npt.NDArray[np.int64]
    status: list[str]
    error: list[str]


@dataclass(frozen=True)
class Facts:
    """What a folder holds, and what follows from it.

    Attributes:
        folder: The campaign's folder.
        settings: As frozen in the store.
        status: Where the campaign stands.
        table: All admitted rows, outputs included.
        log_weights: Joint weights of those rows (n,).
        cost: Measured cost in `unit` (n,).
        pilot: Which rows are pilots (n,).
        parts, blocks: Frozen proposals and committed blocks.
        sessions, stamps: When each driver ran, when each run ended.
        prior: The prior, or what is known of it.
    """

    folder: Path
    settings: CampaignSettings
    status: Status
    table: Table
    log_weights: Array
    cost: Array
    charged: Array
    pilot: np.ndarray
    parts: dict[int, Part]
    blocks: list[Block]
    sessions: list[Session]
    stamps: Stamps
    prior: Prior

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names, as they are."""
        return tuple(self.prior.names)

    @property
    def labels(self) -> tuple[str, ...]:
        """Parameter names for figures."""
        return as_labels(self.names)

    @property
    def unit(self) -> str:
        """Unit of cost."""
        return clean(self.status.unit, 20)

    @property
    def done(self) -> np.ndarray:
        """Rows with a run (n,)."""
        return self.table.done

    @property
    def ok(self) -> np.ndarray:
        """Rows that finished with finite output (n,)."""
        return self.table.status == "ok"

    @property
    def known_prior(self) -> Prior | None:
        """The prior, None where the folder does not hold it as numbers."""
        return None if isinstance(self.prior, StoredPrior) else self.prior

    @property
    def sequential(self) -> bool:
        """Whether a sequential method, SMC-ABC or rounds, chose draws of its own."""
        first = self.settings.generations
        return first is not None and len(self.blocks) > first

    @property
    def model_scale(self) -> float:
        """Cost in `unit` for one unit of the cost model: sequential methods learn it in `unit` itself."""
        return 1.0 if self.sequential else self.settings.cost_scale

    def command(self, verb: str) -> str:
        """Return the command line for the next step; rounds end with a posterior, without a step of their own."""
        verb = "run" if verb == "infer" and self.status.rounds else verb
        more = " --observed FILE" if verb == "infer" else ""
        return f"thrifty {verb} {shlex.quote(clean(self.folder))}{more}"

    @cached_property
    def part(self) -> int | None:
        """Number of the latest planned part, None while there is no plan."""
        planned = [block.part for block in self.blocks if block.mode != "pilot"]
        return planned[-1] if planned else None

    @property
    def frozen(self) -> bool:
        """Whether a plan has frozen a cost model; before that, the report shows what a plan would use."""
        return self.part is not None

    @cached_property
    def model(self) -> FittedCost | None:
        """The cost model of the latest plan; before a plan, that of the pilot; None while there are too few pilots."""
        if self.part is not None:
            recipe = self.parts[self.part].recipe
            if isinstance(recipe.get("cost"), dict):
                found = cost_from_dict(recipe["cost"])
                return replace(found, unit=self.unit) if self.sequential else found
        kept = self.settings.cost_model
        if isinstance(kept, dict):
            return cost_from_dict(kept)
        usable = np.isin(self.table.status, ("ok", "invalid")) & np.isfinite(self.cost) & (self.cost > 0)
        if (self.part is not None and not self.sequential) or usable.sum() < max(
            20, PILOTS_PER_PARAMETER * len(self.names)
        ):
            return None
        cost = self.cost[usable] / self.model_scale
        return fit_cost(self.table.theta[usable], cost, unit=self.unit, prior=self.known_prior)

    @cached_property
    def proposal(self) -> CostAware | None:
        """The cost-aware proposal of the latest plan; None for plain sampling and for generations of SMC."""
        if self.part is None or self.parts[self.part].kind != "cost_aware" or self.known_prior is None:
            return None
        made = weighting_from_dict(self.parts[self.part].recipe, self.known_prior)
        return made if isinstance(made, CostAware) else None

    @cached_property
    def trade(self) -> tuple[Tradeoff, Row] | None:
        """The trade-off, with the row that was chosen, or before a plan the default row."""
        if self.model is None or self.known_prior is None:
            return None
        proposal, table = self.proposal, compare_penalties(self.known_prior, self.model, self.proposal)
        if not self.frozen and table.worthwhile:
            return table, table[POWERS.index(0.5)]
        chosen = find_row(table, proposal)
        assert chosen is not None, "the table of a proposal has its row"
        return table, chosen

    @cached_property
    def simulations(self) -> Simulations | None:
        """The finished runs with their weights, although some are missing or failed; None before the first."""
        done = self.done
        if not done.any() or not np.isfinite(self.log_weights[done]).any():
            return None
        return Simulations(
            theta=self.table.theta[done], x=self.table.x[done], log_weights=self.log_weights[done],
            cost=self.cost[done], status=self.table.status[done], index=self.table.index[done],
            m=self.settings.m, unit=self.unit, x_names=self._statistic_names(), proposal=self._find_pool(),
        )  # fmt: skip

    def _find_pool(self) -> Pool | None:
        """Return what all runs were drawn from, by which `Campaign.simulations` weighs them; None where some miss."""
        whole = self.known_prior is not None and bool(self.done.all()) and not limit_log_factor(self.table).any()
        return pool_of(self.table, self.parts, self.prior) if whole else None

    def _statistic_names(self) -> tuple[str, ...]:
        """Names of the statistics for figures, where the simulator gave some; else empty."""
        return as_labels(self.settings.fit_x_names(self.table.x.shape[1:]))

    @cached_property
    def failure_map(self) -> FailureMap:
        """P(finish | theta) from the finished and failed runs, with names for figures."""
        theta, finished = self.table.theta[self.done], self.ok[self.done]
        return FailureMap(theta, finished, FinishModel.fit(theta, finished, self.known_prior), self.labels)


def gather(folder: Path) -> Facts:
    """Read a campaign.

    Raises:
        CampaignError: no-campaign, there is none; DamagedStoreError where rows fail their checksum or are impossible.
    """
    try:
        return _read_folder(folder)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, ThriftyError):
            raise
        raise DamagedStoreError(
            f"{clean(folder)} holds values that no campaign has ({type(error).__name__}: {clean(error, 100)})",
            code="damaged-folder",
        ) from None


def _read_folder(folder: Path) -> Facts:
    campaign = Campaign.open(folder)
    with campaign.session.reading() as opened:
        settings, parts, blocks = opened.settings, opened.parts, opened.store.blocks()
        table, planned = opened.table_with_outputs(), opened.store.planned()
        elapsed = opened.store.spent("elapsed")
        discarded = opened.store.discarded().get(settings.cost_kind, 0.0) * settings.cost_scale
        sessions, stamps = _read_sessions(opened.store), _read_stamps(opened.store)
    cost = table.cost(settings.cost_kind) * settings.cost_scale
    weights = np.empty(0)
    if len(table):
        weights = pool_of(table, parts, campaign.prior).log_weight(table.theta) + limit_log_factor(table)
    charged = charge_costs(table, settings.cost_kind, predicted_kind=settings.cost_kind) * settings.cost_scale
    now = Snapshot(table.status, charged, table.predicted * settings.cost_scale, weights).sum_up()
    now = replace(now, spent=now.spent + discarded)  # attempts that were tried again
    if now.planned > now.done > 0:  # savings are of the whole plan; all else is of what was drawn and run so far
        weights = weigh_finished(table, parts, campaign.prior, settings, blocks)
        failed = mass_of(table.failed[table.done], weights[table.done])
        now = replace(now, failed_mass_sum=failed, done_mass=1.0)
    pilots = [block.id for block in blocks if block.mode == "pilot"]
    return Facts(
        folder=folder,
        settings=settings,
        status=make_status(
            str(folder),
            now,
            settings,
            elapsed=elapsed,
            withdrawn=planned - len(table),
            rounds=read_rounds(settings, blocks, parts),
        ),
        table=table,
        log_weights=weights,
        cost=cost,
        charged=charged,
        pilot=np.isin(table.block, pilots),
        parts=parts,
        blocks=blocks,
        sessions=sessions,
        stamps=stamps,
        prior=campaign.prior,
    )  # fmt: skip


def _read_sessions(store: Store) -> list[Session]:
    rows = store.db.execute("SELECT started, elapsed, host, pid, note FROM sessions ORDER BY id").fetchall()
    return [
        Session(float(started), float(elapsed), clean(host, 80), int(pid), clean(note, 40))
        for started, elapsed, host, pid, note in rows
        if isinstance(started, int | float) and isinstance(elapsed, int | float) and isinstance(pid, int)
    ]


def _read_stamps(store: Store) -> Stamps:
    columns = ("idx", "finished", "wall", "host", "attempt", "status", "error")
    rows = store.query(f"SELECT {', '.join(columns)} FROM runs ORDER BY idx")
    column = {name: [row[at] for row in rows] for at, name in enumerate(columns)}
    return Stamps(
        index=np.array(column["idx"], dtype=np.int64),
        finished=np.array(column["finished"], dtype=np.float64),
        wall=np.array(column["wall"], dtype=np.float64),
        host=[clean(host, 80) for host in column["host"]],
        attempt=np.array(column["attempt"], dtype=np.int64),
        status=[str(status) for status in column["status"]],
        error=[str(error or "") for error in column["error"]],
    )
