"""What to run: fit and freeze the cost, choose the penalty, test that weighted draws restore the prior.

The default is the square root of cost, the best penalty for a fixed budget whatever the prior and the cost, with the
pilot as its prior share. Where cost is flat nothing can be saved: then the plan says so and draws from the prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thrifty.campaign.budget import Budget
from thrifty.costs import FinishModel, FittedCost, fit_cost
from thrifty.display import Card, Displayed, count_things
from thrifty.durations import format_amount, format_kind
from thrifty.errors import CostError, SelfCheckError, warn
from thrifty.penalties import Power, as_penalty
from thrifty.penalty_table import Column, describe_self_test, find_place, list_penalties, write_penalties
from thrifty.prior_recovery import prior_recovery
from thrifty.proposals import REFERENCE_SEED, CostAware, Mixture
from thrifty.tradeoff import Row, Tradeoff, format_label, make_row, tradeoff
from thrifty.types import Array, Prior

SELF_CHECK_P = 1e-6  # planted faults give less than 1e-12, and one honest plan in a million is refused
PILOTS_PER_PARAMETER = 4
POWERS = (0.0, 0.25, 0.5, 1.0, 2.0)  # of the penalties that are compared
MIXED_POWERS = (0, 0.5, 1, 2)  # of mixture=True, in equal shares
RESCALE_FACTOR = 3.0  # of measured over given cost, beyond which it is rescaled: forty pilots are off by less
MAX_RATIO_SPREAD = (
    1000.0  # of measured over given, 95 % over 5 % quantile. Cost range 1000: a constant cost gives 500 and
)
# is as good as plain sampling; 11,000 (a cost that falls where it should rise) halves the effective runs per budget
MIN_COMPARED_RUNS = 5


@dataclass(frozen=True, repr=False)
class Plan(Displayed):
    """What `Campaign.plan` committed; printing it shows the figures.

    Attributes:
        penalty: The penalty in words, "1" for plain sampling.
        n: Draws committed under it, besides the pilot.
        budget: The budget as written, or "".
        cost_per_run: Expected cost of one run.
        total: Expected cost of the n runs.
        plain: Expected cost of n plain runs.
        table: The trade-off over penalties.
        cost: The frozen cost model.
        p_value: Of the self-check.
        unit: Unit of cost.
        valid_share: Share of the draws that will finish, as far as is known; 1 where failures are not avoided.
        added: Draws that this call committed; 0 where all were committed before.
        chosen: The row of the table that is drawn from, or None where it has no such row.
        pilots: Runs of the pilot, which are not among the n.
        kind: Kind of seconds of costs, "CPU time" for one, where the budget is in wall time; else "".
        by_budget: Whether the budget alone says how many runs there are.
        committed: Draws of the same request that were committed before this call.
        earlier: Runs that other requests planned, pilot included, and their cost, measured or predicted; None without.

    Example: see `th.Campaign`.
    """

    penalty: str
    n: int
    budget: str
    cost_per_run: float
    total: float
    plain: float
    ess_fraction: float
    table: Tradeoff
    cost: FittedCost
    p_value: float
    unit: str
    valid_share: float = 1.0
    added: int | None = None
    chosen: Row | None = None
    pilots: int = 0
    kind: str = ""
    by_budget: bool = False
    committed: int | None = None
    earlier: tuple[int, float] | None = None

    def __str__(self) -> str:
        facts = [f"{label:<9} {text}" for label, text in self._facts()]
        table = write_penalties(*self._cells())
        return "\n".join([*self._added_text(), *facts, "", table, self.table.verdict(), self._total_text()])

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Header and body of the table, as the quote has them; a budget fixes more draws than it is likely to need."""
        total = Column(f"{self.n:,} runs", lambda row: format_amount(self.n * row.cost, self.table.unit))
        return list_penalties(self.table, self.chosen, [] if self.budget else [total], unit=self.table.unit)

    def _facts(self) -> list[tuple[str, str]]:
        failures = [("failures", describe_failures(self.table, self.valid_share))] if self.table.avoids_failures else []
        return [
            ("cost", str(self.cost)),
            *failures,
            ("self-test", describe_self_test(self.p_value, SELF_CHECK_P, is_plain=self.penalty == "1")),
        ]

    def _added_text(self) -> list[str]:
        """Say that runs are added to those of another request, which stay as they are."""
        if self.earlier is None or not self.added:
            return []
        runs, cost = self.earlier
        runs += self.committed or 0
        cost += (self.committed or 0) * self.cost_per_run
        total = cost + self.added * self.cost_per_run
        before, after = (format_kind(value, self.unit, self.kind) for value in (cost, total))
        most = "up to " if self.budget else ""
        return [
            f"adds {most}{count_things(self.added, 'run')} under another request to {runs:,}:"
            f" {most}{runs + self.added:,} in all, cost {before} before and about {after} after"
        ]

    def _total_text(self) -> str:
        chosen = "plain sampling" if self.penalty == "1" else f"penalty {self.penalty}"
        chosen += " of the cost of a valid run" if self.valid_share < 1 else ""
        most, limit = ("up to ", f", until the budget of {self._budget_text()} is used") if self.budget else ("", "")
        total, plain = (format_kind(value, self.unit, self.kind) for value in (self.total, self.plain))
        runs = most + count_runs(self.n, self.pilots)
        words = f"for {runs} under {chosen}: {total} (plain sampling {plain}){limit}"
        if self.budget and self.by_budget:
            words += ". More draws are fixed than the budget is likely to need; the others never run"
        if self.added is None or self.added == self.n:
            return words
        new = f"adds {count_things(self.added, 'run')}" if self.added else "adds nothing"
        before = self.n - self.added if self.committed is None else self.committed
        return f"{words}; this call {new}, {before:,} were committed before"

    def _budget_text(self) -> str:
        return self.budget + (" of wall time" if Budget.is_wall_time(self.budget) else "")

    def _card(self) -> Card:
        header, body = self._cells()
        title = "plan (nothing added: committed before)" if self.added == 0 else "plan (committed)"
        notes = (*self._added_text(), self.table.verdict(), self._total_text())
        return Card(title, self._facts(), header, body, notes, bold=find_place(self.table, self.chosen))


def count_runs(n: int, pilots: int) -> str:
    """Write the number of runs of a plan, which has no pilot among them.

    Example:
        >>> count_runs(400, 100), count_runs(1, 0)
        ('400 runs after the pilot', '1 run')
    """
    return count_things(n, "run") + (" after the pilot" if pilots else "")


def describe_failures(table: Tradeoff, valid_share: float) -> str:
    """Say in a sentence how a plan avoids failures."""
    return (
        f"avoided: {table.finish_share:.0%} of prior draws finish, {valid_share:.0%} of these; every weight is exact,"
        " avoid_failures=False leaves them in"
    )


def fit(theta: Array, cost: Array, *, unit: str, prior: Prior) -> FittedCost:
    """Fit the cost of finished runs; refuse too few of them."""
    needed = max(5, PILOTS_PER_PARAMETER * theta.shape[1])
    if len(theta) < needed:
        raise CostError(
            f"{len(theta)} finished pilot runs for {theta.shape[1]} parameters; need at least {needed}",
            code="too-few-pilots",
            fix=f"pilot(200), or at least pilot({10 * theta.shape[1]})",
        )
    return fit_cost(theta, cost, unit=unit, prior=prior)


def match_measured(cost: FittedCost, theta: Array, measured: Array) -> FittedCost:
    """Return a cost that the user gave in the unit of the costs measured at theta (n, p), (n,).

    A constant factor is taken over from the measured ones, with a warning: the shape of the cost decides which draws
    are made, its unit only what they are said to cost. A cost of another shape altogether is refused.
    """
    usable = np.isfinite(measured) & (measured > 0)
    if usable.sum() < MIN_COMPARED_RUNS:
        return cost
    predicted, measured = cost(theta[usable]), measured[usable]
    factor = float(measured.sum() / predicted.sum())
    low, high = (float(end) for end in np.quantile(measured / predicted, [0.05, 0.95]))
    if high > MAX_RATIO_SPREAD * low:
        raise CostError(
            f"measured / given cost varies {high / low:,.0f}-fold over {len(measured)} runs ({low:.3g} to {high:.3g})",
            code="other-cost",
            why="the cost that was given is not that of this simulator: it would favour expensive runs",
            fix="leave cost= out, and the cost is fitted to these runs; or correct the function",
        )
    if 1 / RESCALE_FACTOR <= factor <= RESCALE_FACTOR:
        return cost
    side, times = ("low", factor) if factor > 1 else ("high", 1 / factor)
    warn(
        f"[other-cost] cost= is {times:,.3g} times too {side} for the {len(measured)} runs so far: it is multiplied by"
        f" {factor:.3g} (measured / given is {low:.3g} to {high:.3g} in nine of ten runs)\n"
        f"  fix: give the cost in {cost.unit}, as it is measured",
        stacklevel=6,
    )
    return replace(cost, scale=cost.scale * factor, low=cost.low * factor, high=cost.high * factor)


def choose(
    prior: Prior, cost: FittedCost, *, penalty: Any, mixture: Any, finish: FinishModel | None = None
) -> tuple[CostAware | None, Tradeoff]:
    """Choose the proposal, None where plain sampling is best, and return it with its trade-off.

    `penalty` is a number k or a penalty; `mixture` is True or a tuple of powers; with neither, the square root of
    cost unless cost is flat. With `finish` the penalty acts on the cost of a valid run.
    """
    table = compare_penalties(prior, cost, finish=finish)
    proposal = _propose(prior, cost, table, penalty=penalty, mixture=mixture, finish=finish)
    return proposal, table if proposal is None else _with_row(table, proposal)


def _propose(
    prior: Prior, cost: FittedCost, table: Tradeoff, *, penalty: Any, mixture: Any, finish: FinishModel | None
) -> CostAware | None:
    if mixture is not None and mixture is not False:
        powers = MIXED_POWERS if mixture is True else tuple(mixture)
        return Mixture(prior, cost, powers=powers, finish=finish).balanced
    if penalty is None:
        return CostAware(prior, cost, Power(0.5), finish=finish) if table.worthwhile else None
    chosen = as_penalty(penalty)
    if isinstance(chosen, Power) and chosen.k == 0:
        return None
    return CostAware(prior, cost, chosen, finish=finish)


def compare_penalties(
    prior: Prior, cost: FittedCost, proposal: CostAware | None = None, *, finish: FinishModel | None = None
) -> Tradeoff:
    """Compare the usual penalties, and that of a proposal: the table that quote, plan and report show.

    All rows rest on the reference draws of proposals, so that a figure is the same wherever it is shown.
    """
    finish = finish if proposal is None else proposal.finish
    table = tradeoff(prior, cost, POWERS, seed=REFERENCE_SEED, finish=finish)
    return table if proposal is None else _with_row(table, proposal)


def _with_row(table: Tradeoff, proposal: CostAware) -> Tradeoff:
    """Put the row of a proposal in its place: of its own power, between two powers, or last."""
    own = make_row(proposal, format_label(proposal.penalty, proposal.finish))
    others = [row for row in table if row.label != own.label]
    at = len(others) if np.isnan(own.k) else sum(row.k < own.k for row in others)
    return replace(table, rows=(*others[:at], own, *others[at:]))


def find_row(table: Tradeoff, proposal: CostAware | None) -> Row | None:
    """Find the row of a proposal, None for plain draws; return None where the table has no such row."""
    label = format_label(Power(0)) if proposal is None else format_label(proposal.penalty, proposal.finish)
    return next((row for row in table if row.label == label), None)


def self_check(proposal: CostAware | None, *, seed: int) -> float:
    """Test that weighted draws restore the prior; return the p-value, or refuse the plan before anything runs."""
    if proposal is None:
        return 1.0
    p = prior_recovery(proposal, seed=seed)
    if not p > SELF_CHECK_P:
        raise SelfCheckError(
            f"weighted draws do not reproduce the prior (p = {p:.1g})",
            code="self-check-failed",
            why="draws and weights disagree; every posterior would be wrong",
            fix="nothing was run; check prior.sample against prior.log_prob, or report this",
        )
    return p


def draws_for_budget(left: float, each: float, *, slots: int = 64) -> int:
    """Return how many draws to commit so that the budget nearly always ends before the plan does."""
    expected = left / max(each, 1e-300)
    return int(np.ceil(expected + 4 * np.sqrt(expected) + slots))
