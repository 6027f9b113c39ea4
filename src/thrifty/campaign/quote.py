"""The quote: what each penalty would cost and be worth, when it would end and at what price. Nothing is committed.

The proposal is chosen by the function that `Campaign.plan` uses, so that what is quoted is what will run.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thrifty.campaign.budget import Budget, explain_wall_time, spent_budget_error
from thrifty.campaign.opened import OpenCampaign
from thrifty.campaign.plan import SELF_CHECK_P, count_runs, describe_failures, find_row
from thrifty.campaign.planner import Planner
from thrifty.costs import FittedCost
from thrifty.display import Card, Displayed, count_things
from thrifty.durations import format_amount, format_kind
from thrifty.penalty_table import (
    POOR_PRODUCT,
    Column,
    describe_self_test,
    find_place,
    list_penalties,
    write_end,
    write_penalties,
)
from thrifty.proposals import CostAware
from thrifty.tradeoff import Row, Tradeoff
from thrifty.types import Cost

_FEWER_RUNS = "What each run takes beyond its cost is not in the quote: of runs of milliseconds, expect fewer."


@dataclass(frozen=True)
class PilotFigures:
    """What the timed runs from the prior have shown; costs in the unit of the cost model.

    Attributes:
        n, failed: Pilots that finished, and how many of them failed.
        spent, low, high: Cost of all of them, of the cheapest and of the most expensive.
        pace: Wall seconds of one unit of cost.
        done: Finished runs in all, those of the campaign included.
        taken: What all of them took from the budget.
        per_unit: What one unit of cost takes from the budget.
    """

    n: int
    failed: int
    spent: float
    low: float
    high: float
    pace: float
    done: int
    taken: float
    per_unit: float

    @property
    def payers(self) -> str:
        """Name the runs that took from the budget."""
        return "the pilot" if self.done == self.n else f"{self.done:,} runs so far"


@dataclass(frozen=True, repr=False)
class Quote(Displayed):
    """Figures of a plan that has not been committed; printing it shows what `thrifty plan` prints.

    Attributes:
        table: One row per penalty.
        chosen: The row that `Campaign.plan` would use, with the figures of its proposal.
        cost: The cost model.
        p_value: Of the test that weighted draws restore the prior.
        pilot: What the pilot has shown.
        budget: The budget, or None.
        n: Runs of the chosen row.
        limited: Whether the budget pays for fewer runs than n.
        by_budget: Whether the budget alone says how many runs there are.
        workers: Workers assumed for the times.
        unit: Unit of cost.
        price, money: Price of one unit of cost and its currency; 0 and "" without a price.
        valid_share: Share of the draws that will finish, as far as is known; 1 where failures are not avoided.
        proposal: What would be drawn from; None for the prior.
        kind: Kind of seconds of costs, "CPU time" for one, where the budget is in wall time; else "".

    Example: see `th.Campaign`.
    """

    table: Tradeoff
    chosen: Row
    cost: FittedCost
    p_value: float
    pilot: PilotFigures
    budget: Budget | None
    n: int
    limited: bool
    workers: int
    unit: str
    price: float
    money: str
    valid_share: float = 1.0
    proposal: CostAware | None = None
    by_budget: bool = False
    kind: str = ""

    def runs(self, row: Row) -> int:
        """Runs of a row: as many as asked for, or as the budget pays for."""
        if self.budget is None:
            return self.n
        affordable = self.affordable(row)
        return min(affordable, self.n) if self.n and not self.by_budget else affordable

    def affordable(self, row: Row) -> int:
        """Runs of a row that the budget pays for, those that are done included."""
        assert self.budget is not None, "without a budget every number can be paid"
        left, each = self.budget.amount - self.pilot.taken, row.cost * self.pilot.per_unit
        if self.budget.of == "elapsed":
            each = row.cost * self.pilot.pace / self.workers
        return self.pilot.done - self.pilot.n + int(max(left, 0) / max(each, 1e-300))

    def seconds(self, row: Row) -> float:
        """Wall seconds until the runs of a row are done."""
        return self.runs(row) * row.cost * self.pilot.pace / self.workers

    def money_of(self, row: Row) -> float:
        """Price of the runs of a row."""
        return self.runs(row) * row.cost * self.price

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        rows = [
            {
                "penalty": row.label, "k": row.k, "cost_per_run": row.cost, "saved": row.saved,
                "effective": row.ess_fraction, "cost_per_effective_run": row.cost_per_effective,
                "saved_per_effective": row.saved_per_effective, "runs": self.runs(row),
                "total": self.runs(row) * row.cost, "seconds": self.seconds(row),
                "price": self.money_of(row) if self.price else None, "chosen": row is self.chosen,
                "best": row is self.table.best,
            }
            for row in self.table
        ]  # fmt: skip
        return {
            "rows": rows, "unit": self.unit, "ceiling": self.table.ceiling, "self_check_p": self.p_value,
            "cost_model_score": self.cost.score, "pilot_runs": self.pilot.n, "pilot_failed": self.pilot.failed,
            "pilot_cost": self.pilot.spent, "worthwhile": self.table.worthwhile, "limited_by_budget": self.limited,
        }  # fmt: skip

    def __str__(self) -> str:
        facts = [f"{label:<9} {text}" for label, text in self.facts()]
        return "\n".join([*facts, "", self.table_text(), self.advice(), self.total_text()])

    def facts(self) -> list[tuple[str, str]]:
        """What the quote rests on: (label, sentence) of pilot, cost model and self-test."""
        p, unit = self.pilot, self.unit
        spread = f", each {format_amount(p.low, unit)} to {format_amount(p.high, unit)}" if p.low else ""
        failures = [("failures", describe_failures(self.table, self.valid_share))] if self.table.avoids_failures else []
        test = describe_self_test(self.p_value, SELF_CHECK_P, is_plain=self.chosen.k == 0)
        return [
            ("pilot", f"{p.n} runs, {p.failed} failed, {format_kind(p.spent, unit, self.kind)} in all{spread}"),
            ("cost", str(self.cost)),
            *failures,
            ("self-test", test),
        ]

    def _card(self) -> Card:
        header, body = self.cells()
        notes, bold = (self.advice(), self.total_text()), find_place(self.table, self.chosen)
        return Card("quote (nothing is committed)", self.facts(), header, body, notes, bold=bold)

    def table_text(self) -> str:
        """The rows as aligned text of at most 100 characters."""
        return write_penalties(*self.cells())

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Header and body as text; the last column is a remark.

        One number of runs stands above their cost; where a budget pays for other numbers, each row has its own.
        """
        now = time.time()
        counts = {self.runs(row) for row in self.table}
        total = Column(f"{self.n:,} runs", lambda row: format_amount(self.runs(row) * row.cost, self.unit))
        columns = [total if counts == {self.n} else Column("runs", lambda row: f"{self.runs(row):,}")]
        columns.append(Column("ends", lambda row: write_end(now, self.seconds(row))))
        if self.price:
            columns.append(Column("price", lambda row: f"{self.money_of(row):,.2f} {self.money}"))
        return list_penalties(self.table, self.chosen, columns, unit=self.unit, kind=self.kind)

    def advice(self) -> str:
        """Say in a sentence or two what to do with it."""
        best, chosen = self.table.best, self.chosen
        if not self.table.worthwhile:
            return f"{self.table.verdict()} The campaign still gives you restarts, weights and checks."
        if chosen.product < POOR_PRODUCT:
            return (
                f"{chosen.label} keeps {chosen.ess_fraction:.1%} effective runs: {self.n:,} count as"
                f" {self.n * chosen.ess_fraction:,.0f}. Advised: {best.label}, which saves"
                f" {best.saved_per_effective:.0%} per effective run."
            )
        if chosen is best or chosen.saved_per_effective > best.saved_per_effective - 0.01:
            return (
                f"{chosen.label} saves {chosen.saved:.0%} per run and {chosen.saved_per_effective:.0%} per effective"
                f" run; by the fitted cost, at most about {1 - 1 / self.table.ceiling:.0%}."
            )
        return (
            f"{best.label} would save {best.saved_per_effective:.0%} per effective run,"
            f" {chosen.label} saves {chosen.saved_per_effective:.0%}."
        )

    def total_text(self) -> str:
        """Say what the chosen row takes in all, and what the budget pays for."""
        row, runs = self.chosen, self.runs(self.chosen)
        total, plain = (format_kind(runs * each, self.unit, self.kind) for each in (row.cost, self.table.prior_cost))
        budget = ""
        if self.budget is not None:
            enough = f"pays for {runs:,} of {self.n:,} runs" if self.limited else "is enough"
            took = self.budget.words(self.pilot.taken) + (" of wall time, " if self.is_wall else ", ")
            part = f"({self.pilot.payers} took {took}{self.pilot.taken / self.budget.amount:.0%} of it)"
            budget = f", budget {self.budget.describe()} {enough} {part}"
            budget = f", which uses up the budget of {self.budget.describe()} {part}" if self.by_budget else budget
        most = "up to about " if self.is_wall and (self.by_budget or self.limited) else ""
        what = f"{most}{count_runs(runs, self.pilot.n)} ({runs * row.ess_fraction:,.0f} effective)"
        workers = count_things(self.workers, "worker")
        first = f"for {what}: {total} (plain sampling {plain}) with {workers}{budget}"
        wall = f"{explain_wall_time(self.kind)} {_FEWER_RUNS}" if self.is_wall else ""
        return "\n".join([first, *self._describe_with_pilot(), *([wall] if wall else [])])

    @property
    def is_wall(self) -> bool:
        """Whether there is a budget of wall time from start to end."""
        return self.budget is not None and self.budget.of == "elapsed"

    def _describe_with_pilot(self) -> list[str]:
        """Say what pilot and runs come to together, as `Campaign.status` counts them; nothing once runs are done."""
        p, runs = self.pilot, self.runs(self.chosen)
        if self.proposal is None or not p.n or p.done > p.n:
            return []
        n, plain = p.n + runs, self.table.prior_cost
        effective = n * self.proposal.pooled_ess_fraction(p.n / n)
        cost = p.n * plain + runs * self.chosen.cost
        saved, per_effective = 1 - cost / (n * plain), 1 - cost / effective / plain * self.table.finish_share
        return [
            f"with the pilot: {n:,} runs count as {effective:,.0f}, saved about {saved:.0%}, per effective run"
            f" {per_effective:.0%}"
        ]


def make_quote(
    opened: OpenCampaign,
    n: int | None,
    budget: str | None,
    *,
    penalty: Any,
    mixture: Any,
    cost: Cost | None,
    refit: bool,
    workers: int,
    avoid_failures: bool | None = None,
) -> Quote:
    """Choose the proposal of a request and compare it with other penalties; nothing is changed."""
    settings = opened.settings
    planner = Planner(opened)
    proposed = planner.propose(penalty=penalty, mixture=mixture, cost=cost, refit=refit, avoid_failures=avoid_failures)
    limit = settings.read_budget(budget)
    table, chosen = proposed.table, find_row(proposed.table, proposed.proposal)
    assert chosen is not None, "the table of a proposal has its row"
    priced = settings.price is not None and settings.cost != "reported"
    quote = Quote(
        table=table,
        chosen=chosen,
        cost=proposed.cost,
        p_value=planner.check(proposed) if proposed.p_value is None else proposed.p_value,
        pilot=_pilot_figures(opened, limit),
        budget=limit,
        n=n or 0,
        limited=False,
        workers=workers,
        unit=settings.measured_unit,
        price=settings.cost_scale if priced else 0.0,
        money=settings.unit if priced else "",
        valid_share=1.0 if proposed.proposal is None else proposed.proposal.valid_share,
        proposal=proposed.proposal,
        kind="" if settings.unit != settings.measured_unit else settings.name_kind(limit),
    )
    if limit is None:
        return quote
    affordable = quote.affordable(chosen)
    if affordable < 1:
        figures = quote.pilot
        raise spent_budget_error(
            limit, figures.payers, figures.taken, cpu=opened.spent("cpu"), only_pilots=figures.done == figures.n
        )
    return replace(quote, limited=n is not None and affordable < n, n=n or affordable, by_budget=n is None)


def _pilot_figures(opened: OpenCampaign, budget: Budget | None) -> PilotFigures:
    opened.judge_shapes()
    runs, settings = opened.table.counted(), opened.settings
    cost = runs.cost(settings.cost_kind)
    pilots = [block.id for block in opened.store.blocks() if block.mode == "pilot"]
    done = runs.done & np.isin(runs.block, pilots)
    known = np.isfinite(cost) & np.isfinite(runs.wall)
    known &= done if (done & known).any() else runs.done  # without a pilot, all runs show what a unit takes
    spent = float(cost[known].sum())
    per_unit, taken = 1.0, 0.0
    if budget is not None:
        measured = runs.wall if budget.of == "elapsed" else runs.cost(budget.of)
        per_unit = float(np.nansum(measured[known])) / max(spent, 1e-300) * budget.per_unit
        taken = opened.spent(budget.of) * budget.per_unit
    positive = cost[known][cost[known] > 0]
    low, high = (float(positive.min()), float(positive.max())) if len(positive) else (0.0, 0.0)
    pace = float(runs.wall[known].sum()) / spent if spent > 0 else 1.0 if settings.measured_unit == "s" else math.nan
    failed, paid = int((done & runs.failed).sum()), opened.charges(settings.cost_kind)[opened.table.admitted]
    spent = float(np.nansum(paid[done]))
    return PilotFigures(int(done.sum()), failed, spent, low, high, pace, int(runs.done.sum()), taken, per_unit)
