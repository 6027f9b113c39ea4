"""The runs of `th.infer` with a method that takes any table: pilot, plan, run, within a number of runs or a budget."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from thrifty.campaign.settings import check_count
from thrifty.campaign.weighting import MAX_FAILED_MASS
from thrifty.durations import Duration
from thrifty.errors import ConfigError
from thrifty.inference.checks import read_observations
from thrifty.named import order_observation
from thrifty.penalty_table import write_end
from thrifty.tables.simulations import Simulations
from thrifty.types import Array

if TYPE_CHECKING:
    from thrifty.campaign.campaign import Campaign

PILOTS = 200  # timed runs, as in the paper; a fifth of a small campaign, since they are used to learn the cost only
PILOT_BUDGET_SHARE = 0.1  # of a budget, at most, once the first pilots have shown what a run costs
FIRST_PILOTS_PER_PARAMETER = 10  # a cost surface needs points in each direction


@dataclass(frozen=True)
class Runs:
    """What a user asked for.

    Attributes:
        n: Runs besides the pilot, or None.
        budget: "2 cpu-h", "40 min" or a number in the unit of cost, or None; with n, whichever comes first.
        pilot: Pilot runs, or None to choose.
        time_limit, on_timeout: Limit of each run, as for `Campaign.run`.
        workers: Local processes.
        max_failed: Share of prior mass that may fail.
        progress: As for `Campaign.run`.
        is_default: Whether n was not asked for; then it is said what it will cost before it is spent.
    """

    n: int | None
    budget: float | str | None = None
    pilot: int | None = None
    time_limit: Duration | None = None
    on_timeout: str | None = None
    workers: int = 2
    max_failed: float = MAX_FAILED_MASS
    progress: bool | None = None
    is_default: bool = False

    def run(self, campaign: Campaign, x_o: Any) -> Array:
        """Do pilot, plan and runs; return the observation as numbers, refused right after the pilot if none fits."""
        how: dict[str, Any] = {"workers": self.workers, "time_limit": self.time_limit, "on_timeout": self.on_timeout}
        how["progress"] = self.progress
        budget = _write_budget(self.budget, campaign)
        first = self._count_first(campaign.prior.dim)
        run_pilot(campaign, first, budget, **how)
        observed = read_observed(campaign.simulations(allow_incomplete=True, max_failed=1), x_o)
        check_pilot_failures(campaign, self.max_failed)
        if budget is not None and self.pilot is None:
            campaign.pilot(self._extend_pilot(campaign, budget, first), **how)
        if self.is_default:
            self._announce_default(campaign)
        is_counted = self.n is not None  # then the budget is a cap
        campaign.plan(n=self.n, budget=None if is_counted else budget, cap=budget if is_counted else None)
        campaign.run(**how)
        return observed

    def _announce_default(self, campaign: Campaign) -> None:
        """Say that a number of runs was chosen, and what it will cost, as long as none of them was made."""
        with campaign.session.reading() as opened:
            if any(block.mode != "pilot" for block in opened.store.blocks()):
                return
        quote = campaign.quote(n=self.n, workers=self.workers)
        end = write_end(time.time(), quote.seconds(quote.chosen))
        announce(
            f"neither n nor budget was given: n = {self.n:,} is the default, {quote.total_text().splitlines()[0]}; ends"
            f" about {end}",
            self.progress,
        )

    def _count_first(self, dim: int) -> int:
        """Return the pilot runs before anything is known of the cost."""
        if self.pilot is not None:
            check_count(self.pilot, "pilot")
            return self.pilot
        first = FIRST_PILOTS_PER_PARAMETER * dim
        return first if self.n is None or self.budget is not None else min(PILOTS, max(self.n // 5, first))

    def _extend_pilot(self, campaign: Campaign, budget: str, first: int) -> int:
        """Return the pilot runs that a part of the budget pays for; decided once, by the first pilots alone."""
        with campaign.session.reading() as opened:
            settings, amount = opened.settings, opened.settings.read_budget(budget)
            if settings.pilots > first or amount is None:
                return max(settings.pilots, first)
            spent = opened.spent(amount.of) * amount.per_unit
        paid = int(PILOT_BUDGET_SHARE * amount.amount * first / spent) if spent > 0 else PILOTS
        most = PILOTS if self.n is None else min(PILOTS, self.n // 5)
        return max(first, min(paid, most))


def announce(text: str, progress: bool | None) -> None:
    """Write a line on stderr, unless no progress is to be shown."""
    if progress is not False:
        print(text, file=sys.stderr, flush=True)


def check_unit(budget: object, cost: str) -> None:
    """Refuse a budget that is a number of unknown unit: only reported costs have a unit of their own."""
    if budget is None or isinstance(budget, str) or cost == "reported":
        return
    raise ConfigError(
        f"budget = {budget!r} has no unit",
        code="bad-amount",
        why="seconds of CPU time and of wall time, and hours, are all possible",
        fix=f'budget="{budget} cpu-s" for CPU time, "{budget} s" for wall time from start to end',
    )


def run_pilot(campaign: Campaign, n: int, budget: str | None, **how: Any) -> None:
    """Run n pilots; under a budget the first of them show whether it pays for all.

    Raises:
        ConfigError: budget-too-small, the pilot would cost more than the budget. Only the first runs were made.
    """
    first = FIRST_PILOTS_PER_PARAMETER * campaign.prior.dim
    if budget is not None and n > first and campaign.session.settings().pilots < n:
        campaign.pilot(first, **how)
        with campaign.session.reading() as opened:
            amount, ended = opened.settings.read_budget(budget), opened.settings.pilots
            is_known = amount is not None and opened.store.planned() == ended  # later runs have costs of their own
            spent = opened.spent(amount.of) * amount.per_unit if amount is not None and is_known else 0.0
        if amount is not None and spent * n / ended > amount.amount:
            affordable = int(PILOT_BUDGET_SHARE * amount.amount * ended / spent)
            raise ConfigError(
                f"pilot = {n:,} runs would take about {amount.words(spent * n / ended)}, by the first {ended}, and the"
                f" budget is {amount.text}",
                code="budget-too-small",
                why="nothing would be left for the runs after the pilot",
                fix=f"pilot = {max(first, affordable)}, or a larger budget; the {ended} runs are kept",
            )
    campaign.pilot(n, **how)


def check_pilot_failures(campaign: Campaign, max_failed: float) -> None:
    """Refuse to go on where the pilot shows that more of the prior fails than may: before the rest is paid for.

    Few failures of a short pilot show nothing: the lower end of their 95 % interval must exceed the limit.
    """
    from scipy import stats

    pilots = campaign.simulations(allow_incomplete=True, max_failed=1)
    failed, ended = int(pilots.failed.sum()), int((pilots.ok | pilots.failed).sum())
    if failed and stats.beta.ppf(0.025, failed, ended - failed + 1) > max_failed:
        campaign.simulations(allow_incomplete=True, max_failed=max_failed)  # says how much fails, and where


def read_observed(simulations: Simulations, x_o: Any) -> Array:
    """Return the observation as numbers in the order of the outputs; refuse one that does not fit them."""
    event = simulations.pairs()[1].shape[1:]
    read_observations(x_o, event, simulations.x_names)
    return np.asarray(order_observation(x_o, event, simulations.x_names), dtype=np.float64)


def _write_budget(budget: float | str | None, campaign: Campaign) -> str | None:
    """Write a number as a budget in the unit of cost."""
    if budget is None or isinstance(budget, str):
        return budget
    settings = campaign.session.settings()
    check_unit(budget, settings.cost)
    return f"{float(budget)!r} {settings.measured_unit}"
