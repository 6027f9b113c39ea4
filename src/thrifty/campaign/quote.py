"""The quote: what each penalty would cost and be worth, when it would end and at what price; nothing is committed.

Fitted to the timed pilot by the same functions that `Campaign.plan` uses, so that what was quoted is what will run.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from thrifty.cli.config_tables import Settings
from thrifty.cli.output import figure, share, table
from thrifty.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from thrifty.campaign.budget import Budget
    from thrifty.costs import FittedCost
    from thrifty.tradeoff import Row, Tradeoff

GRID = (0.0, 0.25, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Pilot:
    """The timed runs from the prior."""

    n: int
    failed: int
    spent: float  # in the unit of cost
    low: float
    high: float
    pace: float  # wall seconds of one unit of cost
    done: int  # runs in all, those of the campaign included
    taken: float  # of the budget so far, by all of them
    per_unit: float  # of the budget, for one unit of cost

    @property
    def payers(self) -> str:
        """Who took from the budget, in words."""
        return "the pilot" if self.done == self.n else f"{self.done:,} runs so far"


@dataclass(frozen=True)
class Quote:
    """Figures of a plan that has not been committed.

    Attributes:
        table: One row a penalty.
        chosen: The row that `thrifty run` will use.
        fitted: The cost model.
        p_value: Of the self-check.
        n: Runs of the chosen row.
        limited: The budget pays for fewer runs than n asks for.
    """

    table: Tradeoff
    chosen: Row
    fitted: FittedCost
    p_value: float
    pilot: Pilot
    budget: Budget | None
    n: int
    limited: bool
    workers: int
    unit: str
    price: float  # money for one unit of cost, 0 without a price
    money: str

    def runs(self, row: Row) -> int:
        """Runs of a row: as many as asked for, or as the budget pays for."""
        affordable = self._affordable(row)
        if self.budget is None:
            return self.n
        return affordable if not self.n else min(affordable, self.n)

    def _affordable(self, row: Row) -> int:
        if self.budget is None:
            return self.n
        left, each = self.budget.amount - self.pilot.taken, row.cost * self.pilot.per_unit
        if self.budget.of == "elapsed":
            each = row.cost * self.pilot.pace / self.workers
        return self.pilot.done - self.pilot.n + int(max(left, 0) / max(each, 1e-300))

    def seconds(self, row: Row) -> float:
        """Wall seconds until its runs are done."""
        return self.runs(row) * row.cost * self.pilot.pace / self.workers

    def money_of(self, row: Row) -> float:
        """Price of its runs."""
        return self.runs(row) * row.cost * self.price


def make_quote(folder: Path, settings: Settings, *, workers: int) -> Quote:
    """Fit the pilot of a folder and weigh the penalties; reads only."""
    from thrifty.campaign import plan as planning
    from thrifty.campaign.budget import Budget, Price
    from thrifty.campaign.planner import cost_kind, unit_of
    from thrifty.store.read import read_table
    from thrifty.store.store import Store
    from thrifty.tradeoff import tradeoff

    store = Store.open(folder, readonly=True)
    try:
        stored, runs = store.settings(), read_table(store, dim=settings.prior.dim, outputs=False)
        totals = store.totals()
    finally:
        store.close()
    price = Price.read(settings.cost.price) if settings.cost.price else None
    kind, scale = cost_kind(stored, price)
    unit = unit_of({**stored, "price": None})
    first = runs.index < int(stored.get("pilots", 0))
    cost = runs.cost(kind)
    usable = first & np.isin(runs.status, ("ok", "invalid")) & np.isfinite(cost)
    fitted = planning.fit(runs.theta[usable], cost[usable], unit=unit)
    proposal, _ = planning.choose(settings.prior, fitted, **settings.planned())
    p_value = planning.self_check(proposal, seed=settings.plan.seed)
    budget = Budget.read(settings.plan.budget, price=price, unit=settings.cost.unit) if settings.plan.budget else None
    pilot = _pilot(runs, first, cost, budget=budget, totals=totals)
    offered, chosen = _rows(tradeoff, settings, fitted, worthwhile=proposal is not None)
    quote = Quote(
        offered, chosen, fitted, p_value, pilot, budget, settings.plan.n or 0, False, workers, unit,
        scale if price is not None and settings.cost.measure != "reported" else 0.0, price.unit if price else "",
    )  # fmt: skip
    return _checked(quote, settings)


def _pilot(runs: Any, first: Any, cost: Any, *, budget: Budget | None, totals: dict[str, float]) -> Pilot:
    done = first & runs.done
    known = done & np.isfinite(cost) & np.isfinite(runs.wall)
    spent = float(cost[known].sum())
    measured = {"cpu": runs.cpu, "wall": runs.wall, "reported": runs.reported, "elapsed": runs.wall}
    per_unit, taken = 1.0, 0.0
    if budget is not None:
        per_unit = float(np.nansum(measured[budget.of][known])) / max(spent, 1e-300) * budget.per_unit
        taken = totals[budget.of] * budget.per_unit
    positive = cost[known][cost[known] > 0]
    low, high = (float(positive.min()), float(positive.max())) if len(positive) else (0.0, 0.0)
    failed = int((done & (runs.status != "ok")).sum())
    return Pilot(
        int(done.sum()), failed, spent, low, high, float(runs.wall[known].sum()) / max(spent, 1e-300),
        int(runs.done.sum()), taken, per_unit,
    )  # fmt: skip


def _rows(tradeoff: Any, settings: Settings, fitted: Any, *, worthwhile: bool) -> tuple[Tradeoff, Row]:
    """The grid, with what the user asked for in it, and the row that will be used."""
    asked, mixture = settings.plan.penalty, settings.plan.mixture
    powers = sorted({*GRID, *([] if asked is None else [asked])})
    mixtures = [] if mixture is False else [(0.0, 0.5, 1.0, 2.0) if mixture is True else mixture]
    offered = tradeoff(settings.prior, fitted, powers=powers, mixtures=mixtures)
    if mixtures:
        return offered, offered[len(powers)]
    k = (0.5 if worthwhile else 0.0) if asked is None else asked
    return offered, next(row for row in offered if row.k == k)


def _checked(quote: Quote, settings: Settings) -> Quote:
    from dataclasses import replace

    if quote.budget is None:
        return quote
    affordable = quote._affordable(quote.chosen)
    if affordable < 1:
        raise ConfigError(
            f"budget {quote.budget.text!r} is below what {quote.pilot.payers} took already"
            f" ({quote.budget.words(quote.pilot.taken)})",
            code="budget-too-small",
            fix="a larger budget, or a new folder with fewer pilots",
        )
    asked = settings.plan.n
    return replace(quote, limited=asked is not None and affordable < asked, n=asked or affordable)


def quote_text(quote: Quote) -> str:
    """The table, as shown."""
    now = time.time()
    header = ["penalty", "cost/run", "saved", "effective", "per effective run", "runs", "total", "ends about"]
    header += ["price"] if quote.price else []
    body = []
    for row in quote.table:
        cells = [row.label, figure(row.cost, quote.unit), share(row.saved), share(row.ess_fraction)]
        cells += [figure(row.cost_per_effective, quote.unit), f"{quote.runs(row):,}"]
        cells += [figure(quote.runs(row) * row.cost, quote.unit), when(now, quote.seconds(row))]
        cells += [f"{quote.money_of(row):,.2f} {quote.money}"] if quote.price else []
        body.append([*cells, _remark(quote, row)])
    return table([*header, ""], body)


def _remark(quote: Quote, row: Row) -> str:
    words = ["plain sampling"] if row.k == 0 else []
    if row is quote.table.best and row.product > 1.01:
        words.append(f"best ({-row.saved_per_effective:+.0%})")
    if row.product < 0.9:
        words.append("not advised")
    return ", ".join(words) + (" <- chosen" if row is quote.chosen else "")


def when(now: float, seconds: float) -> str:
    """The time of day, with the date when it is another day."""
    if not np.isfinite(seconds) or seconds > 3.2e9:
        return "never"
    end, today = time.localtime(now + seconds), time.localtime(now)
    return time.strftime(
        "%H:%M" if end.tm_yday == today.tm_yday and end.tm_year == today.tm_year else "%Y-%m-%d %H:%M", end
    )


def recommendation(quote: Quote) -> str:
    """What to do with it, in a sentence or two."""
    best, chosen = quote.table.best, quote.chosen
    if not quote.table.worthwhile:
        most = 1 - 1 / quote.table.ceiling
        return (
            f"cost varies {quote.table.cost_range:.2f}x over the prior: the best possible saving is {most:.1%}."
            " Plain sampling it is; the campaign still gives you restarts, weights and checks."
        )
    if chosen.product < 0.9:
        return (
            f"{chosen.label} keeps {chosen.ess_fraction:.1%} effective runs: {quote.n:,} count as"
            f" {quote.n * chosen.ess_fraction:,.0f}. Advised: {best.label}, which saves"
            f" {best.saved_per_effective:.0%} per effective run."
        )
    if chosen is best or chosen.saved_per_effective > best.saved_per_effective - 0.01:
        return (
            f"{chosen.label} saves {chosen.saved:.0%} per run and {chosen.saved_per_effective:.0%} per effective run;"
            f" no penalty can save more than {1 - 1 / quote.table.ceiling:.0%}."
        )
    return (
        f"{best.label} would save {best.saved_per_effective:.0%} per effective run,"
        f" {chosen.label} saves {chosen.saved_per_effective:.0%}."
    )
