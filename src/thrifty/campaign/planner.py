"""Committing draws: which part they come from, in which random stream, how many a budget needs."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from thrifty.campaign import plan as planning
from thrifty.campaign.budget import Budget, Price
from thrifty.costs import FittedCost
from thrifty.errors import CampaignError, ConfigError, warn
from thrifty.proposals import CostAware, weighting_from_dict
from thrifty.runner.seeds import CANDIDATES, flip_coin, make_stream
from thrifty.runner.task import CostKind
from thrifty.store.read import Frozen, Table, read_table
from thrifty.store.store import Store
from thrifty.tradeoff import Tradeoff
from thrifty.types import Array, Cost, Prior

PRIOR = 0  # number of the part that is the prior itself
TOP_UP = (16, 10_000)  # draws added at once when a plan ends before its budget


@dataclass
class Planner:
    """Plans over an open store."""

    store: Store
    prior: Prior
    settings: dict[str, Any]
    price: Price | None

    def pilot(self, n: int) -> None:
        """Commit prior draws until there are n pilots."""
        have = sum(block["n"] for block in self.store.blocks() if block["mode"] == "pilot")
        if n > have:
            with self.store.together():
                self.commit(PRIOR, n - have, mode="pilot")
                self.store.put("pilots", n)

    def plan(
        self, n: int | None, budget: str | None, *, penalty: Any, mixture: Any, cost: Cost | None, refit: bool
    ) -> planning.Plan:
        """Freeze, test, commit; the quote."""
        table = read_table(self.store, dim=self.prior.dim, outputs=False)
        known: dict[str, int] = self.settings.get("plans", {})
        given = None if cost is None else planning.frozen(cost, self.prior, unit=self._measured_unit)
        request = request_of(penalty, mixture, given)
        part = None if refit else known.get(request)
        fitted, proposal, trade = self._proposal(table, part, given, penalty=penalty, mixture=mixture)
        p_value = planning.self_check(proposal, seed=self.settings["seed"])
        each = trade.prior_cost if proposal is None else proposal.expected_cost
        target = self._target(n, budget, each, table)
        with self.store.together():
            if part is None:
                part = self.add_part(proposal)
            have = self._committed(part, by_number=budget is None)
            if target > have:
                mode = "n" if budget is None else "budget"
                self.commit(part, target - have, mode=mode, proposal=proposal, fitted=fitted)
            again = {} if proposal is None else {request_of(penalty, mixture, None): part}  # without the cost: this one
            self.store.put("plans", {**known, **again, request: part})
            self.store.put("cost_model", fitted.to_dict())
            self.store.put("budget", budget)
            self.store.put("target", None if n is None or budget is None else [part, n])
        _, scale = cost_kind(self.settings, self.price)
        return planning.quote(
            proposal,
            trade,
            fitted,
            n=target,
            budget=budget or "",
            p_value=p_value,
            unit=unit_of(self.settings),
            scale=scale,
        )

    def commit(
        self,
        part: int,
        n: int,
        *,
        mode: str,
        proposal: Any = None,
        fitted: Cost | None = None,
    ) -> None:
        """Draw n parameters from a part, in the stream of the next block, and commit them."""
        if part == PRIOR:
            self._prior_part()
        if (self.store.parts()[part][0] == "prior") != (proposal is None):
            raise CampaignError(
                f"draws of {'the prior' if proposal is None else 'a proposal'} would be committed as part {part},"
                f" which is {self.store.parts()[part][0]!r}",
                code="other-settings",
                why="their weights would be those of another distribution, and every posterior wrong",
                fix="nothing was committed; a new folder can have both",
            )
        blocks = self.store.blocks()
        theta, log_weights = drawn(self.prior, proposal, n, seed=self.settings["seed"], block=len(blocks))
        predicted = np.full(n, np.nan) if fitted is None else np.asarray(fitted(theta), dtype=np.float64)
        first = sum(block["n"] for block in blocks)
        coins = np.array([flip_coin(self.settings["seed"], first + i) for i in range(n)])
        self.store.add_block(part, theta, log_weights=log_weights, predicted=predicted, coins=coins, mode=mode)

    def budget(self, text: str | None) -> Budget | None:
        """The budget in force."""
        return None if text is None else Budget.read(text, price=self.price, unit=self.settings.get("unit", ""))

    def top_up(self, budget: Budget) -> bool:
        """Commit more draws if the plan ended before the budget did."""
        budgeted = [block for block in self.store.blocks() if block["mode"] == "budget"]
        if not budgeted or self.store.totals()[budget.of] * budget.per_unit >= budget.amount:
            return False
        if self.settings.get("target") is not None:  # a number of runs was asked for as well, and they are there
            return False
        part = budgeted[-1]["part"]
        proposal = rebuilt(self.store, part, self.prior)
        fitted = Frozen(self.store.parts()[part][1]).cost if proposal is not None else None
        more = int(np.clip(sum(block["n"] for block in budgeted) // 4, *TOP_UP))
        self.commit(part, more, mode="budget", proposal=proposal, fitted=fitted)
        return True

    def _committed(self, part: int, *, by_number: bool) -> int:
        """Draws of a part besides the pilot; by number, those that an earlier budget did not admit do not count."""
        blocks = [b for b in self.store.blocks() if b["part"] == part and b["mode"] != "pilot"]
        return sum(b["admitted"] if by_number and b["mode"] == "budget" else b["n"] for b in blocks)

    def _prior_part(self) -> None:
        """Number 0 is the prior in every campaign, also in one that begins without a pilot."""
        if PRIOR not in self.store.parts():
            self.store.add_part("prior", {"kind": "prior"})

    def add_part(self, proposal: Any) -> int:
        """Freeze a proposal as a part of the pool and return its number; None is the prior."""
        self._prior_part()
        if proposal is None:
            return PRIOR
        recipe = proposal.to_dict()
        return self.store.add_part(recipe["kind"], recipe)

    @property
    def _measured_unit(self) -> str:
        return unit_of({**self.settings, "price": None})

    def _proposal(
        self, table: Table, part: int | None, given: FittedCost | None, *, penalty: Any, mixture: Any
    ) -> tuple[FittedCost, CostAware | None, Tradeoff]:
        frozen = None if part is None else rebuilt(self.store, part, self.prior)
        if part is not None and frozen is not None:
            fitted = Frozen(self.store.parts()[part][1]).cost
            return fitted, frozen, planning.tradeoff(self.prior, fitted)
        fitted = given
        if fitted is None:
            kind, _ = cost_kind(self.settings, self.price)
            usable = np.isin(table.status, ("ok", "invalid")) & np.isfinite(table.cost(kind))
            fitted = planning.fit(table.theta[usable], table.cost(kind)[usable], unit=self._measured_unit)
        proposal, trade = planning.choose(self.prior, fitted, penalty=penalty, mixture=mixture)
        if part is None or proposal is None:
            return fitted, proposal, trade
        warn(  # the same request keeps its part: these draws would not be the prior's
            "this plan began as plain sampling, since cost looked flat, and goes on so; from the runs there are now a"
            " cost-aware plan is worthwhile: plan(..., refit=True)",
            stacklevel=5,
        )
        return fitted, None, trade

    def _target(self, n: int | None, budget: str | None, each: float, table: Table) -> int:
        """Runs to commit: n, of which a budget given as well may admit fewer, or what the budget alone will need."""
        limit = self.budget(budget)
        if n is not None and (limit is None or any(block["mode"] == "budget" for block in self.store.blocks())):
            return n
        needed = self._draws(limit, each, table)  # refuses a budget that is spent before it begins
        return needed if n is None else n

    def _draws(self, budget: Budget | None, each: float, table: Table) -> int:
        """How many draws a budget will need; the pilot has been paid from it already."""
        assert budget is not None, "either n or a budget is given"
        spent = self.store.totals()[budget.of] * budget.per_unit
        if spent >= budget.amount:
            raise ConfigError(
                f"budget {budget.text!r} is below what {_so_far(table)} took already ({budget.words(spent)})",
                code="budget-too-small",
                fix="a larger budget, or fewer pilots",
            )
        kind, _ = cost_kind(self.settings, self.price)
        measured = {"elapsed": table.wall, "cpu": table.cpu, "wall": table.wall, "reported": table.reported}[budget.of]
        ratio = float(np.nansum(measured)) / max(float(np.nansum(table.cost(kind))), 1e-300)
        workers = 2 * (os.cpu_count() or 1) if budget.of == "elapsed" else 1
        left = (budget.amount - spent) * workers
        return planning.draws_for_budget(left, each * ratio * budget.per_unit)


def _so_far(table: Table) -> str:
    """The runs that were paid for, in words: drawn without a predicted cost, they are pilots."""
    done = int(table.done.sum())
    pilots = int((table.done & ~np.isfinite(table.predicted)).sum())
    return "the pilot" if pilots == done else f"{done:,} runs so far"


def request_of(penalty: Any, mixture: Any, cost: FittedCost | None) -> str:
    """What was asked for, as text: the same request continues the same part."""
    powers = tuple(mixture) if isinstance(mixture, list) else mixture
    words = {"penalty": str(penalty), "mixture": str(powers)}
    if cost is not None:
        numbers = json.dumps(cost.to_dict(), sort_keys=True).encode()
        words["cost"] = hashlib.blake2b(numbers, digest_size=8).hexdigest()
    return json.dumps(words)


def drawn(prior: Prior, proposal: Any, n: int, *, seed: int, block: int) -> tuple[Array, Array]:
    """(theta, log weights) of a block: a pure function of seed, block and proposal."""
    rng = np.random.default_rng(make_stream(seed, CANDIDATES, block))
    if proposal is None:
        return np.asarray(prior.sample(n, rng), dtype=np.float64), np.zeros(n)
    draws = proposal.sample(n, rng)
    return draws.theta, draws.log_weights


def rebuilt(store: Store, part: int, prior: Prior) -> CostAware | None:
    """The proposal of a part from its recipe; None for the prior."""
    kind, recipe = store.parts()[part]
    if kind == "prior":
        return None
    proposal = weighting_from_dict(recipe, prior)
    assert isinstance(proposal, CostAware), "parts other than the prior are cost-aware"
    return proposal


def cost_kind(settings: dict[str, Any], price: Price | None) -> tuple[CostKind, float]:
    """What is measured, and what one unit of it costs."""
    if price is not None and settings["cost"] != "reported":
        return price.of, price.per_second
    return settings["cost"], 1.0


def unit_of(settings: dict[str, Any]) -> str:
    """The unit in which costs are shown."""
    if settings.get("price") and settings["cost"] != "reported":
        return Price.read(settings["price"]).unit
    return (settings.get("unit") or "reported") if settings["cost"] == "reported" else "s"
