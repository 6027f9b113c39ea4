"""Committing draws: from which proposal, in which random stream, how many a budget needs."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from thrifty.campaign import plan as planning
from thrifty.campaign.block_draws import draw_block
from thrifty.campaign.budget import Budget, spent_budget_error
from thrifty.campaign.opened import OpenCampaign
from thrifty.campaign.requests import Proposed, Tabulated, hash_cost, read_tradeoff, request_key
from thrifty.campaign.weighting import proposal_of
from thrifty.costs import FinishModel, FittedCost, cost_from_dict, fit_cost
from thrifty.errors import CampaignError, CostError, warn, warn_once
from thrifty.proposals import CostAware
from thrifty.runner.seeds import flip_coin
from thrifty.store.sums import sum_planned
from thrifty.store.table import Table
from thrifty.store.validate import reject_malformed
from thrifty.tradeoff import Tradeoff
from thrifty.types import Array, Cost

PRIOR = 0  # number of the part that is the prior itself
MAX_COMPARED_RUNS = 400  # runs that a given cost, or a plain plan, is compared with: a fit to them takes a second
MAX_FAILED_SHARE = 0.05  # of the pilot: as many failures are worth avoiding; fewer cost less than the weights
MIN_RUNS_OF_A_KIND = 3  # failed runs, and finished ones, below which P(finish) is a guess
TOP_UP_DRAWS = (16, 10_000)  # fewest and most draws added at once when a plan ends before its budget


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

    def propose(
        self, *, penalty: Any, mixture: Any, cost: Cost | None, refit: bool, avoid_failures: bool | None = None
    ) -> Proposed:
        """Choose the proposal of a request: that of an earlier equal request, with its figures, or a new one."""
        key = partial(request_key, penalty, mixture, avoid_failures=avoid_failures)
        settings, given, requests = self.campaign.settings, None, (key(),)
        if isinstance(cost, FittedCost):
            given, requests = cost, (key(hash_cost(cost)),)
        elif cost is not None:
            values = Tabulated.of(cost, self.campaign.prior)
            requests = (key(values.hash()),)
            if refit or requests[0] not in settings.plans:
                given = fit_cost(values.theta, values.cost, unit=settings.measured_unit, prior=self.campaign.prior)
                requests = (*requests, key(hash_cost(given)))  # as earlier versions wrote it
        known = [request for request in requests if request in settings.plans and not refit]
        if known:
            return self._continue(requests, settings.plans[known[0]], settings.figures.get(known[0]), given)
        if given is not None:
            theta, measured, _ = self._timed_runs(MAX_COMPARED_RUNS)
            fitted = planning.match_measured(given, theta, measured)
        else:
            fitted = self._fit()
        finish = self._fit_finish(avoid_failures)
        proposal, table = planning.choose(self.campaign.prior, fitted, penalty=penalty, mixture=mixture, finish=finish)
        return _describe(requests, None, fitted, proposal, table)

    def _continue(
        self, requests: tuple[str, ...], part: int, figures: dict[str, Any] | None, given: FittedCost | None
    ) -> Proposed:
        """Return the proposal of an earlier equal request; its figures are computed only where the folder has none."""
        proposal = self._proposal(part)
        if figures is not None:
            with reject_malformed(self.campaign.store.folder, "a figure of a plan"):
                cost = cost_from_dict(figures["cost"]) if proposal is None else _cost_of(proposal)
                table = read_tradeoff(figures["table"])
                if planning.find_row(table, proposal) is None:  # as earlier versions wrote it
                    table = planning.compare_penalties(self.campaign.prior, cost, proposal)
                numbers = {key: figures[key] for key in ("cost_per_run", "ess_fraction", "p_value")}
                return Proposed(requests, part, cost, proposal, table, **numbers)
        cost = _cost_of(proposal) if proposal is not None else given or self.campaign.cost_model or self._fit()
        table = planning.compare_penalties(self.campaign.prior, cost, proposal)
        return _describe(requests, part, cost, proposal, table)

    def plan(
        self,
        n: int | None,
        budget: str | None,
        *,
        penalty: Any,
        mixture: Any,
        cost: Cost | None,
        refit: bool,
        avoid_failures: bool | None = None,
    ) -> planning.Plan:
        """Freeze the proposal of a request and commit the draws that are missing."""
        campaign = self.campaign
        chosen = self.propose(penalty=penalty, mixture=mixture, cost=cost, refit=refit, avoid_failures=avoid_failures)
        have = 0 if chosen.part is None else self._committed(chosen.part, by_number=budget is None)
        target = self._target(n, budget, chosen, have)
        earlier = self._count_earlier(chosen.part) if target > have else None
        if chosen.p_value is None or target > have:
            chosen = replace(chosen, p_value=self.check(chosen))
        if chosen.part == PRIOR and target > have and penalty is None and not mixture and cost is None:
            self._warn_if_worthwhile()
        self._commit_request(
            chosen, target, plain=request_key(penalty, mixture, avoid_failures=avoid_failures), n=n, budget=budget
        )
        scale, each = campaign.settings.cost_scale, chosen.cost_per_run
        assert chosen.p_value is not None, "a plan is tested before it is kept"
        return planning.Plan(
            penalty="1" if chosen.proposal is None else str(chosen.proposal.penalty),
            n=target,
            budget=budget or "",
            cost_per_run=each * scale,
            total=target * each * scale,
            plain=target * chosen.table.prior_cost * scale,
            ess_fraction=chosen.ess_fraction,
            table=chosen.table,
            cost=chosen.cost,
            p_value=chosen.p_value,
            unit=campaign.settings.unit,
            valid_share=1.0 if chosen.proposal is None else chosen.proposal.valid_share,
            added=max(target - have, 0),
            chosen=planning.find_row(chosen.table, chosen.proposal),
            pilots=campaign.settings.pilots,
            kind=campaign.settings.name_kind(campaign.settings.read_budget(budget)),
            by_budget=budget is not None and n is None,
            committed=have,
            earlier=earlier,
        )

    def check(self, chosen: Proposed) -> float:
        """Test that weighted draws of a proposal restore the prior; return the p-value, or refuse it."""
        return planning.self_check(chosen.proposal, seed=self.campaign.settings.seed)

    def _commit_request(self, chosen: Proposed, target: int, *, plain: str, n: int | None, budget: str | None) -> None:
        """Commit the draws that a request lacks and note it, both or neither; nothing is written where nothing changes.

        The same request without its cost (`plain`) means this proposal from now on.
        """
        with self.campaign.store.transaction() if chosen.part is None else contextlib.nullcontext():
            part = chosen.part if chosen.part is not None else self.add_part(chosen.proposal)
            missing = target - self._committed(part, by_number=budget is None)
            settings, requests = self.campaign.settings, {*chosen.requests, *([plain] if chosen.proposal else [])}
            changes = self._changes(chosen, part, requests, n=n, budget=budget)
            if missing <= 0 and all(_is_same(getattr(settings, key), value) for key, value in changes.items()):
                return
            with self.campaign.store.transaction():
                if missing > 0:
                    mode = "n" if budget is None else "budget"
                    self.commit(part, missing, mode=mode, proposal=chosen.proposal, cost=chosen.cost)
                self.campaign.keep(**changes)

    def _changes(
        self, chosen: Proposed, part: int, requests: set[str], *, n: int | None, budget: str | None
    ) -> dict[str, Any]:
        """Return the settings that note a request with its figures."""
        settings = self.campaign.settings
        return {
            "plans": {**settings.plans, **dict.fromkeys(requests, part)},
            "figures": {**settings.figures, **dict.fromkeys(requests, chosen.figures())},
            "cost_model": chosen.cost.to_dict(),
            "budget": budget,
            "target": None if n is None or budget is None else (part, n),
        }

    def _warn_if_worthwhile(self) -> None:
        """Say so if a plan that began as plain sampling should be cost-aware, by the runs there are now."""
        theta, cost, usable = self._timed_runs(MAX_COMPARED_RUNS)
        if usable < max(5, planning.PILOTS_PER_PARAMETER * theta.shape[1]):
            return
        fitted = planning.fit(theta, cost, unit=self.campaign.settings.measured_unit, prior=self.campaign.prior)
        if planning.tradeoff(self.campaign.prior, fitted).worthwhile:
            warn(  # the same request keeps its part: other draws would not be from the prior
                "this plan began as plain sampling, since cost looked flat, and goes on so; from the runs there"
                " are now a cost-aware plan is worthwhile: plan(..., refit=True)",
                stacklevel=5,
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
        planned = [block for block in store.blocks() if block.mode != "pilot"]
        budgeted = [block for block in planned if block.mode == "budget"] or planned
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

    def _timed_runs(self, most: int | None = None) -> tuple[Array, Array, int]:
        """Return parameters (n, p) and costs (n,) of finished runs, at most so many, evenly chosen; and how many."""
        table, settings = self.campaign.table.counted(), self.campaign.settings
        cost = table.cost(settings.cost_kind)
        usable = np.flatnonzero(np.isin(table.status, ("ok", "invalid")) & np.isfinite(cost))
        rows = usable if most is None else usable[:: -(-len(usable) // most) or 1]
        return table.theta[rows], cost[rows], len(usable)

    def _fit_finish(self, avoid_failures: bool | None) -> FinishModel | None:
        """Learn P(finish | theta) from all runs where failures are to be avoided; None where they are not.

        By default they are where more than 5 % of the pilot failed: it is drawn from the prior, so that is prior mass.
        """
        table, store = self.campaign.table.counted(), self.campaign.store
        pilots = np.isin(table.block, [block.id for block in store.blocks() if block.mode == "pilot"]) & table.done
        good = table.status == "ok"
        if avoid_failures is None:
            avoid_failures = bool(pilots.any()) and float((~good[pilots]).mean()) > MAX_FAILED_SHARE
        enough = min(int((good & table.done).sum()), int((~good & table.done).sum())) >= MIN_RUNS_OF_A_KIND
        if not (avoid_failures and enough):
            return None
        return FinishModel.fit(table.theta[table.done], good[table.done], self.campaign.prior)

    def _fit(self) -> FittedCost:
        """Fit the cost of all finished runs."""
        theta, cost, _ = self._timed_runs()
        with warn_once(self.campaign.warned):
            return planning.fit(theta, cost, unit=self.campaign.settings.measured_unit, prior=self.campaign.prior)

    def _committed(self, part: int, *, by_number: bool) -> int:
        """Count draws of a part besides the pilot; by number, without draws that an earlier budget did not admit."""
        blocks = [b for b in self.campaign.store.blocks() if b.part == part and b.mode != "pilot"]
        return sum(b.admitted if by_number and b.mode == "budget" else b.n for b in blocks)

    def _count_earlier(self, part: int | None) -> tuple[int, float] | None:
        """Return runs and cost of what other requests planned, with the pilot; None where there was no other plan."""
        blocks = self.campaign.store.blocks()
        others = [b for b in blocks if b.admitted and b.mode != "pilot" and b.part != part]
        if not others:
            return None
        settings = self.campaign.settings
        pilots = [b for b in blocks if b.mode == "pilot"]
        runs, cost = sum_planned(self.campaign.store, (*pilots, *others), settings.cost_kind)
        return runs, cost * settings.cost_scale

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

    def _target(self, n: int | None, budget: str | None, chosen: Proposed, have: int) -> int:
        """Runs to commit: n, of which a budget given as well may admit fewer, or what the budget alone will need."""
        settings = self.campaign.settings
        limit = settings.read_budget(budget)
        if limit is None or (n is not None and any(b.mode == "budget" for b in self.campaign.store.blocks())):
            assert n is not None, "either n or a budget is given"
            return n
        if n is None and have and settings.budget == budget and settings.target is None:
            return have  # the budget in force: run() adds draws by itself if they do not use it up
        needed = self._draws(limit, chosen.cost_per_run)  # refuses a budget that is spent before it begins
        return max(self._finished(chosen.part) + needed, have) if n is None else n

    def _finished(self, part: int | None) -> int:
        """Count the finished runs of a part besides the pilot: what is left of a budget pays for others."""
        table = self.campaign.table
        pilots = [block.id for block in self.campaign.store.blocks() if block.mode == "pilot"]
        return 0 if part is None else int((table.done & (table.part == part) & ~np.isin(table.block, pilots)).sum())

    def _draws(self, budget: Budget, each: float) -> int:
        """How many draws a budget will need; the pilot has been paid from it already."""
        table = self.campaign.table.counted()
        spent = self.campaign.spent(budget.of) * budget.per_unit
        if spent >= budget.amount:
            payers = _runs_so_far(table)
            raise spent_budget_error(
                budget, payers, spent, cpu=self.campaign.spent("cpu"), only_pilots=payers == "the pilot"
            )
        measured = table.wall if budget.of == "elapsed" else table.cost(budget.of)
        cost = table.cost(self.campaign.settings.cost_kind)
        ratio = float(np.nansum(measured)) / max(float(np.nansum(cost)), 1e-300)
        if not table.done.any():  # a unit of the budget is a unit of cost, where nothing was measured
            if budget.of not in (self.campaign.settings.cost_kind, "elapsed"):
                raise CostError(
                    f"budget {budget.text!r} is not in the unit of cost, and no run has shown what one takes from it",
                    code="too-few-pilots",
                    fix="c.pilot(20) first",
                )
            ratio = 1.0
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


def _describe(
    requests: tuple[str, ...], part: int | None, cost: FittedCost, proposal: CostAware | None, table: Tradeoff
) -> Proposed:
    """Put the figures of a proposal together."""
    each = table.prior_cost if proposal is None else proposal.expected_cost
    effective = table.finish_share if proposal is None else proposal.valid_ess_fraction
    return Proposed(requests, part, cost, proposal, table, each, effective)


def _is_same(old: Any, new: Any) -> bool:
    """Whether two settings are the same, as they are written in the store."""
    return json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)
