"""Decide how many runs a sequential method may still start, from a number of runs or a budget.

A budget is a sum over runs, in the unit of `Simulations.cost`. Runs are admitted in blocks whose size comes from
the *expected* cost of a draw, never from what the drawn runs would cost, and every block that was started is
finished: the number of runs is a stopping time, so weighted sums stay unbiased. A block is at most half of what is
left, the first of a new proposal an eighth (its cost is a prediction), never more than all runs before, down to one
run per worker, so that a budget is overrun by about one such block.

    CostUnit            what runs cost here, and a budget such as "2 cpu-h" as a sum of run costs
    Allowance           the runs that are left, and the size of the next block
    MeasuredSimulator   a plain simulator in memory, with the cost that it reports or that the clock measures
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np

from thrifty.campaign.budget import Budget
from thrifty.campaign.campaign import Campaign
from thrifty.campaign.simulate import simulate
from thrifty.errors import ConfigError, CostError
from thrifty.proposals.draws import Draws
from thrifty.runner.engines.processes import Processes
from thrifty.runner.first_output import FirstOutputCheck, OutputCheck
from thrifty.runner.task import CostKind, Engine, Outcome, Report
from thrifty.tables.simulations import Simulations

ALL_RUNS = 2**31  # as many runs as are left

_NAMES = {"cpu": "CPU time", "wall": "wall time", "elapsed": "elapsed time", "reported": "what the simulator reports"}
_FIXES = {
    "cpu": 'give CPU time, "2 cpu-h"; or a campaign with that cost',
    "wall": 'give elapsed time, "40 min"; or a campaign with cost="cpu"',
    "reported": 'give a number, in the reported unit; or measure time instead: th.Campaign(..., cost="cpu")',
}


@dataclass(frozen=True)
class CostUnit:
    """What runs cost here: the kind that is added up, the value of one unit of it, and its name.

    Attributes:
        kind: "cpu", "wall" or "reported"; "" when it is known only after the first run.
        scale: Units of cost for one second (the price), or for one reported unit.
        unit: Name of reported units, or empty.
        price: Of a campaign, for budgets in money.
        slots: Runs at a time: elapsed minutes times this are minutes of run time.
    """

    kind: str = ""
    scale: float = 1.0
    unit: str = ""
    price: Any = None
    slots: int = 1

    @classmethod
    def of_campaign(cls, campaign: Campaign, slots: int) -> CostUnit:
        """Read what runs of a campaign cost from its settings."""
        found = campaign.session.settings()
        return cls(found.cost_kind, found.cost_scale, found.reported_unit, found.price, slots)

    def total(self, budget: float | str | None) -> float | None:
        """Convert a budget to a sum of run costs.

        A number is in the unit of the runs. "2 cpu-h" is CPU time and "40 min" elapsed time, that is 40 minutes of
        run time on each of `slots` workers; "200 eur" needs the price of a campaign.

        Example:
            >>> CostUnit("wall", slots=2).total("40 min"), CostUnit("cpu", 0.01, price=None).total("2 cpu-h")
            (4800.0, 72.0)
        """
        if budget is None:
            return None
        if not isinstance(budget, str):
            if isinstance(budget, bool) or not 0 < budget < np.inf:
                raise ConfigError(f"budget must be a positive number, got {budget}", code="bad-amount")
            return float(budget)
        read = self._read(budget)
        if self.kind and read.of != self.kind and not (read.of == "elapsed" and self.kind != "reported"):
            raise ConfigError(
                f"budget {budget!r} is {_NAMES[read.of]}, but the cost of a run is {_NAMES[self.kind]} here",
                code="bad-amount",
                why="only one of them can be added up",
                fix=_FIXES[self.kind],
            )
        return read.amount / read.per_unit * self.scale * (self.slots if read.of == "elapsed" else 1)

    def _read(self, budget: str) -> Budget:
        """Read a text; "reported" names the unit of reported costs, whatever else it is called."""
        if self.kind != "reported" or self.price is not None:
            return Budget.read(budget, price=self.price, unit=self.unit)
        try:
            return Budget.read(budget, unit="reported" if budget.strip().endswith(" reported") else self.unit)
        except ConfigError as error:
            if error.code != "bad-price":
                raise
            unit = self.unit or "reported"
            raise ConfigError(
                f"budget {budget!r} is not in {unit}, the unit in which runs report their cost here",
                code="bad-price",
                fix=f'"100 {unit}", or a number',
            ) from None


def cost_kind_of(budget: float | str | None) -> CostKind | None:
    """Return the kind of cost that a text budget names; None where a number or nothing was given.

    Example:
        >>> cost_kind_of("2 cpu-h"), cost_kind_of("40 min"), cost_kind_of("5 reported"), cost_kind_of(12.0)
        ('cpu', 'wall', 'reported', None)
    """
    if not isinstance(budget, str):
        return None
    try:
        of = Budget.read(budget, unit="reported").of
    except ConfigError as error:
        if error.code != "bad-price":
            raise
        raise ConfigError(
            f"budget {budget!r} is money, and runs in memory have no price",
            code="bad-price",
            fix='th.Campaign(folder, simulator, prior, price="0.05 eur/cpu-h"); or "2 cpu-h"; or a number in the unit'
            " that the runs report",
        ) from None
    return "wall" if of == "elapsed" else of


class Spent(NamedTuple):
    """The runs so far: the sum of their costs, and their number."""

    cost: float
    runs: int


@dataclass(frozen=True)
class Allowance:
    """The number of runs, or the sum of their costs, that is allowed in all.

    Example:
        >>> Allowance(cost=100.0).runs_left(1.0, Spent(90.0, 5)), Allowance(cost=100.0).next_block(1.0, Spent(90.0, 5))
        (10.0, 5)
        >>> [Allowance(cost=100.0, slots=2).next_block(1.0, Spent(used, 50)) for used in (97.0, 98.5, 99.5)]
        [2, 1, 0]
    """

    runs: int | None = None
    cost: float | None = None
    slots: int = 1

    def share(self, part: float) -> Allowance:
        """Return the same allowance with a part of the cost."""
        return self if self.cost is None else replace(self, cost=part * self.cost)

    def runs_left(self, each: float | None, so_far: Spent) -> float:
        """Return the number of runs that are left, at an expected cost of `each`."""
        runs = np.inf if self.runs is None else float(self.runs - so_far.runs)
        if self.cost is None or not each:
            return runs
        return min(runs, (self.cost - so_far.cost) / each)

    def next_block(self, each: float | None, so_far: Spent, *, part: float = 0.5, spread: float = 0.0) -> int:
        """Return the number of runs to start next: a part of what is left, at last one per worker; 0 at the end.

        With costs of standard deviation `spread` times their mean, the block is so small that two standard deviations
        more than expected are still paid for.
        """
        left = self.runs_left(each, so_far)
        if left < 1:
            return 0
        if self.cost is None:
            return int(min(left, ALL_RUNS))
        # at most twice as many runs as now: after a cheap first run the next may be a thousand times more expensive
        most = max(self.slots, so_far.runs)
        paid = (np.sqrt(spread**2 + left) - spread) ** 2  # m with m + 2 spread √m = left
        return int(min(max(min(left, self.slots), min(part * left, paid)), most))

    def generation_size(self, size: int, each: float | None, so_far: Spent) -> int:
        """Return `size`, or all that is left where less than half a generation would remain."""
        return size if self.runs_left(each, so_far) > 1.5 * size else ALL_RUNS

    def stop_reason(self, so_far: Spent) -> str:
        """Name what is used up: "runs" or "budget"."""
        return "runs" if self.runs is not None and so_far.runs >= self.runs else "budget"


class RecordingEngine:
    """An engine that keeps the outcomes that pass through it; everything else is the engine's own."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.outcomes: dict[int, Outcome] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def wait(self, timeout: float) -> list[Report]:
        """Return the bundles that ended, and keep their outcomes."""
        reports = self.engine.wait(timeout)
        self.outcomes.update((outcome.index, outcome) for report in reports for outcome in report.outcomes)
        return reports


@dataclass
class MeasuredSimulator:
    """A plain simulator with `simulate_many`, at the cost that it reports where it reports one.

    `th.simulate` gives one kind of cost, but which kind a simulator has is known only after it has run. So the engine
    records CPU seconds, wall seconds and reported cost of every run, and the table gets the kind that fits.

    Args:
        simulator: `simulate(theta, rng)` or a `th.Command`.
        engine: Where runs go; local processes by default.
        kind: "cpu" or "wall" for a budget in that; None takes `th.Output(cost=...)` where the first runs have it, and
            CPU seconds where they do not.
        check: Of the first output, before more runs are started.
        bars: Whether to show how far the runs are.
    """

    simulator: Callable[..., Any]
    engine: Engine | None = None
    kind: CostKind | None = None
    check: OutputCheck | None = None
    bars: bool = False

    def simulate_many(self, draws: Draws, seed: int, *, start: int = 0, workers: int = 1) -> Simulations:
        """Simulate the draws in order; `start` gives each generation its own noise."""
        place = self.engine if self.engine is not None else Processes(workers)
        if self.check is not None:
            place = cast("Engine", FirstOutputCheck(place, self.check))
        engine = RecordingEngine(place)
        own = int(np.random.SeedSequence(seed, spawn_key=(12, start)).generate_state(1)[0])
        progress = "bar" if self.bars else "quiet"
        sims = simulate(self.simulator, draws, seed=own, progress=progress, engine=cast("Engine", engine))
        if self.kind is None:
            self.kind = "reported" if any(np.isfinite(o.reported) for o in engine.outcomes.values()) else "cpu"
        if self.kind == "cpu":
            return sims
        cost = np.full(len(sims), np.nan)  # the cost of a run that crashed its worker is unknown
        for index, outcome in engine.outcomes.items():
            cost[index] = outcome.cost(self.kind)
        missing = ~np.isfinite(cost) & sims.ok
        if missing.any():
            raise CostError(
                f"{missing.sum()} of {len(sims)} runs report no cost, the others do",
                code="bad-cost",
                why="seconds and reported units cannot be added up",
                fix="return th.Output(x, cost=...) from every run, or from none",
            )
        return replace(sims, cost=cost, unit="s" if self.kind == "wall" else "reported")
