"""Committing draws: from which proposal, in which random stream, how many a budget needs."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from thrifty.campaign import plan as planning
from thrifty.campaign.budget import Budget
from thrifty.campaign.opened import OpenCampaign
from thrifty.campaign.weighting import proposal_of
from thrifty.costs import FittedCost
from thrifty.errors import CampaignError, ConfigError, DamagedStoreError, warn
from thrifty.proposals import CostAware
from thrifty.runner.seeds import CANDIDATES, flip_coin, make_stream
from thrifty.store.rows import plan_row
from thrifty.store.schema import translate_sqlite_errors
from thrifty.store.store import Store
from thrifty.store.table import Table
from thrifty.tradeoff import Tradeoff
from thrifty.types import Array, Cost, Prior

PRIOR = 0  # number of the part that is the prior itself
TOP_UP_DRAWS = (16, 10_000)  # fewest and most draws added at once when a plan ends before its budget


@dataclass(frozen=True)
class Proposed:
    """From what a request would draw.

    Attributes:
        request: The request as text, see `request_key`.
        part: Number of the frozen proposal of an earlier plan with the same request, or None.
        cost: The cost model.
        proposal: None for plain draws from the prior.
        table: The trade-off between penalties.
        p_value: Of the test that weighted draws restore the prior.
    """

    request: str
    part: int | None
    cost: FittedCost
    proposal: CostAware | None
    table: Tradeoff
    p_value: float

    @property
    def cost_per_run(self) -> float:
        """Expected cost of one run, in the unit of the cost model."""
        return self.table.prior_cost if self.proposal is None else self.proposal.expected_cost


@dataclass
class Planner:
    """Plans over an open campaign."""

    campaign: OpenCampaign

    def pilot(self, n: int) -> None:
        """Commit prior draws until there are n pilots."""
        have = sum(block.n for block in self.campaign.store.blocks() if block.mode == "pilot")
        if n > have:
            with self.campaign.store.transaction():
                self.commit(PRIOR, n - have, mode="pilot")
                self.campaign.keep(pilots=n)

    def propose(self, *, penalty: Any, mixture: Any, cost: Cost | None, refit: bool) -> Proposed:
        """Choose and test the proposal of a request: that of an earlier equal request, or a new one."""
        settings, prior = self.campaign.settings, self.campaign.prior
        given = None if cost is None else planning.freeze_cost(cost, prior, unit=settings.measured_unit)
        request = request_key(penalty, mixture, given)
        part = None if refit else settings.plans.get(request)
        earlier = None if part is None else self._proposal(part)
        if earlier is not None:
            proposal, fitted = earlier, _cost_of(earlier)
            table = planning.tradeoff(prior, fitted)
        else:
            fitted = given if given is not None else self._fit()
            proposal, table = planning.choose(prior, fitted, penalty=penalty, mixture=mixture)
            if part is not None and proposal is not None:
                warn(  # the same request keeps its part: these draws would not be from the prior
                    "this plan began as plain sampling, since cost looked flat, and goes on so; from the runs there"
                    " are now a cost-aware plan is worthwhile: plan(..., refit=True)",
                    stacklevel=5,
                )
                proposal = None
        return Proposed(request, part, fitted, proposal, table, planning.self_check(proposal, seed=settings.seed))

    def plan(
        self, n: int | None, budget: str | None, *, penalty: Any, mixture: Any, cost: Cost | None, refit: bool
    ) -> planning.Plan:
        """Freeze the proposal of a request and commit the draws that are missing."""
        campaign = self.campaign
        chosen = self.propose(penalty=penalty, mixture=mixture, cost=cost, refit=refit)
        target = self._target(n, budget, chosen.cost_per_run)
        with campaign.store.transaction():
            part = chosen.part if chosen.part is not None else self.add_part(chosen.proposal)
            have = self._committed(part, by_number=budget is None)
            if target > have:
                mode = "n" if budget is None else "budget"
                self.commit(part, target - have, mode=mode, proposal=chosen.proposal, cost=chosen.cost)
            # the same request without its cost means this proposal from now on
            again = {} if chosen.proposal is None else {request_key(penalty, mixture, None): part}
            campaign.keep(
                plans={**campaign.settings.plans, **again, chosen.request: part},
                cost_model=chosen.cost.to_dict(),
                budget=budget,
                target=None if n is None or budget is None else (part, n),
            )
        scale, each = campaign.settings.cost_scale, chosen.cost_per_run
        return planning.Plan(
            penalty="1" if chosen.proposal is None else str(chosen.proposal.penalty),
            n=target,
            budget=budget or "",
            cost_per_run=each * scale,
            total=target * each * scale,
            plain=target * chosen.table.prior_cost * scale,
            ess_fraction=1.0 if chosen.proposal is None else chosen.proposal.ess_fraction,
            table=chosen.table,
            cost=chosen.cost,
            p_value=chosen.p_value,
            unit=campaign.settings.unit,
        )

    def commit(self, part: int, n: int, *, mode: str, proposal: Any = None, cost: Cost | None = None) -> None:
        """Draw n parameters from a part, in the random stream of the next block, and commit them."""
        store, seed = self.campaign.store, self.campaign.settings.seed
        if part == PRIOR:
            self._prior_part()
        kind = self.campaign.parts[part].kind
        if (kind == "prior") != (proposal is None):
            raise CampaignError(
                f"draws of {'the prior' if proposal is None else 'a proposal'} would be committed as part {part},"
                f" which is {kind!r}",
                code="other-settings",
                why="their weights would be those of another distribution, and every posterior wrong",
                fix="nothing was committed; a new folder can have both",
            )
        blocks = store.blocks()
        theta, log_weights = draw_block(self.campaign.prior, proposal, n, seed=seed, block=len(blocks))
        predicted = np.full(n, np.nan) if cost is None else np.asarray(cost(theta), dtype=np.float64)
        first = sum(block.n for block in blocks)
        coins = np.array([flip_coin(seed, first + i) for i in range(n)])
        block = store.add_block(part, theta, log_weights=log_weights, predicted=predicted, coins=coins, mode=mode)
        if "table" in vars(self.campaign):
            self.campaign.table.extend(block, theta, predicted)

    def top_up(self, budget: Budget) -> bool:
        """Commit more draws if the plan ended before the budget did; return whether there are more."""
        store = self.campaign.store
        budgeted = [block for block in store.blocks() if block.mode == "budget"]
        if not budgeted or self.campaign.spent(budget.of) * budget.per_unit >= budget.amount:
            return False
        if self.campaign.settings.target is not None:  # the number of runs that was asked for as well is reached
            return False
        part = budgeted[-1].part
        proposal = self._proposal(part)
        more = int(np.clip(sum(block.n for block in budgeted) // 4, *TOP_UP_DRAWS))
        cost = self.campaign.cost_model if proposal is None else _cost_of(proposal)
        self.commit(part, more, mode="budget", proposal=proposal, cost=cost)
        return True

    def _fit(self) -> FittedCost:
        """Fit the cost of all finished runs."""
        table, settings = self.campaign.table.counted(), self.campaign.settings
        cost = table.cost(settings.cost_kind)
        usable = np.isin(table.status, ("ok", "invalid")) & np.isfinite(cost)
        return planning.fit(table.theta[usable], cost[usable], unit=settings.measured_unit)

    def _committed(self, part: int, *, by_number: bool) -> int:
        """Count draws of a part besides the pilot; by number, without draws that an earlier budget did not admit."""
        blocks = [b for b in self.campaign.store.blocks() if b.part == part and b.mode != "pilot"]
        return sum(b.admitted if by_number and b.mode == "budget" else b.n for b in blocks)

    def _prior_part(self) -> None:
        """Number 0 is the prior in every campaign, also in one that begins without a pilot."""
        if PRIOR not in self.campaign.parts:
            self.campaign.add_part("prior", {"kind": "prior"})

    def add_part(self, proposal: Any) -> int:
        """Freeze a proposal as a part of the pool and return its number; None is the prior."""
        self._prior_part()
        if proposal is None:
            return PRIOR
        recipe = proposal.to_dict()
        return self.campaign.add_part(recipe["kind"], recipe)

    def _proposal(self, part: int) -> CostAware | None:
        """Rebuild the proposal of a part; None for the prior."""
        found = self.campaign.parts[part]
        if found.kind == "prior":
            return None
        proposal = proposal_of(found, self.campaign.prior)
        assert isinstance(proposal, CostAware), "parts of a plan other than the prior are cost-aware"
        return proposal

    def _target(self, n: int | None, budget: str | None, each: float) -> int:
        """Runs to commit: n, of which a budget given as well may admit fewer, or what the budget alone will need."""
        limit = self.campaign.settings.read_budget(budget)
        if limit is None or (n is not None and any(b.mode == "budget" for b in self.campaign.store.blocks())):
            assert n is not None, "either n or a budget is given"
            return n
        needed = self._draws(limit, each)  # refuses a budget that is spent before it begins
        return needed if n is None else n

    def _draws(self, budget: Budget, each: float) -> int:
        """How many draws a budget will need; the pilot has been paid from it already."""
        table = self.campaign.table.counted()
        spent = self.campaign.spent(budget.of) * budget.per_unit
        if spent >= budget.amount:
            raise ConfigError(
                f"budget {budget.text!r} is below what {_runs_so_far(table)} took already ({budget.words(spent)})",
                code="budget-too-small",
                fix="a larger budget, or fewer pilots",
            )
        measured = table.wall if budget.of == "elapsed" else table.cost(budget.of)
        cost = table.cost(self.campaign.settings.cost_kind)
        ratio = float(np.nansum(measured)) / max(float(np.nansum(cost)), 1e-300)
        workers = 2 * (os.cpu_count() or 1) if budget.of == "elapsed" else 1
        left = (budget.amount - spent) * workers
        return planning.draws_for_budget(left, each * ratio * budget.per_unit)


def _runs_so_far(table: Table) -> str:
    """Name the runs that were paid for; runs drawn without a predicted cost are pilots."""
    done = int(table.done.sum())
    pilots = int((table.done & ~np.isfinite(table.predicted)).sum())
    return "the pilot" if pilots == done else f"{done:,} runs so far"


def _cost_of(proposal: CostAware) -> FittedCost:
    assert isinstance(proposal.cost, FittedCost), "a frozen proposal has a fitted cost"
    return proposal.cost


def request_key(penalty: Any, mixture: Any, cost: FittedCost | None) -> str:
    """Write a request as text: an equal request continues the same part."""
    powers = tuple(mixture) if isinstance(mixture, list) else mixture
    words = {"penalty": str(penalty), "mixture": str(powers)}
    if cost is not None:
        numbers = json.dumps(cost.to_dict(), sort_keys=True).encode()
        words["cost"] = hashlib.blake2b(numbers, digest_size=8).hexdigest()
    return json.dumps(words)


def draw_block(prior: Prior, proposal: Any, n: int, *, seed: int, block: int) -> tuple[Array, Array]:
    """Draw (theta, log weights) of a block: a pure function of seed, block and proposal."""
    rng = np.random.default_rng(make_stream(seed, CANDIDATES, block))
    if proposal is None:
        return np.asarray(prior.sample(n, rng), dtype=np.float64), np.zeros(n)
    draws = proposal.sample(n, rng)
    return draws.theta, draws.log_weights


def redraw(store: Store, prior: Prior, indices: list[int]) -> None:
    """Draw damaged parameters again, each block from its own random stream."""
    seed, parts, wanted = store.settings()["seed"], store.parts(), set(indices)
    for block in store.blocks():
        rows = sorted(wanted.intersection(block.indices))
        if not rows:
            continue
        part = parts[block.part]
        if part.kind not in ("prior", "cost_aware"):
            raise DamagedStoreError(
                f"{len(rows):,} draws of {store.folder} cannot be drawn again: a method chose them ({part.kind})",
                code="damaged-folder",
                why="they depend on results that are lost",
                fix="restore the folder from a backup, or begin again in a new one",
            )
        proposal = None if part.kind == "prior" else proposal_of(part, prior)
        theta, weights = draw_block(prior, proposal, block.n, seed=seed, block=block.id)
        with translate_sqlite_errors(store.folder), store.db:
            for i in rows:
                at = i - block.first
                predicted = float("nan") if proposal is None else float(proposal.cost(theta[at : at + 1])[0])
                row = plan_row(
                    i, block.id, theta[at], log_weight=float(weights[at]), predicted=predicted, coin=flip_coin(seed, i)
                )
                store.db.execute("INSERT OR REPLACE INTO plan VALUES (?, ?, ?, ?, ?, ?, ?)", row)
