"""How much a method that steers its own simulations may spend, and how many runs the rest still pays for.

A budget is a sum over runs, in the unit of `Simulations.cost`. Runs are admitted in blocks whose number comes from
the *expected* cost of a draw, never from what the drawn runs would cost, and blocks that were started are finished:
the number of runs is a stopping time, so weighted sums stay unbiased. Blocks are at most half of what is left, the
first of a new proposal an eighth (its cost is a prediction), never more than all runs before, down to one run per
worker, so that a budget is overrun by about one such block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from thrifty.campaign.budget import Budget, Of
from thrifty.errors import ConfigError

LARGEST = 2**31  # runs: as many as are asked for


@dataclass(frozen=True)
class Money:
    """What runs cost here: the kind that is added up, what one unit of it is worth, and its name.

    Attributes:
        kind: "cpu", "wall" or "reported"; "" when only the first run will tell.
        scale: Units of cost to one second (the price), or to one reported unit.
        unit: Name of reported units, or empty.
        price: Of a campaign, for budgets in money.
        slots: Runs at a time: elapsed minutes times this are minutes of run time.
    """

    kind: str = ""
    scale: float = 1.0
    unit: str = ""
    price: Any = None
    slots: int = 1

    def amount(self, budget: float | str | None) -> float | None:
        """The budget as a sum of run costs.

        A number is in the unit of the runs. "2 cpu-h" is CPU time and "40 min" elapsed time, that is 40 minutes of
        run time on each of `slots` workers; "200 eur" needs the price of a campaign.

        Example:
            >>> Money("wall", slots=2).amount("40 min"), Money("cpu", 0.01, price=None).amount("2 cpu-h")
            (4800.0, 72.0)
        """
        if budget is None:
            return None
        if not isinstance(budget, str):
            if isinstance(budget, bool) or not 0 < budget < np.inf:
                raise ConfigError(f"budget must be a positive number, got {budget}", code="bad-amount")
            return float(budget)
        read = Budget.read(budget, price=self.price, unit=self.unit)
        if self.kind and read.of != self.kind and not (read.of == "elapsed" and self.kind != "reported"):
            raise ConfigError(
                f"budget {budget!r} is {_WORDS[read.of]}, but the cost of a run is {_WORDS[self.kind]} here",
                code="bad-amount",
                why="only one of them can be added up",
                fix=_FIXES[self.kind],
            )
        return read.amount / read.per_unit * self.scale * (self.slots if read.of == "elapsed" else 1)


_WORDS = {"cpu": "CPU time", "wall": "wall time", "elapsed": "elapsed time", "reported": "what the simulator reports"}
_FIXES = {
    "cpu": 'give CPU time, "2 cpu-h"; or a campaign with that cost',
    "wall": 'give elapsed time, "40 min"; or a campaign with cost="cpu"',
    "reported": 'give a number, in the reported unit; or measure time instead: th.Campaign(..., cost="cpu")',
}


def kind_for(budget: float | str | None) -> Of | None:
    """The kind of cost that a text asks for; None where a number or nothing was given.

    Example:
        >>> kind_for("2 cpu-h"), kind_for("40 min"), kind_for(12.0)
        ('cpu', 'wall', None)
    """
    if not isinstance(budget, str):
        return None
    try:
        of = Budget.read(budget).of
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


class Spender(Protocol):
    """What has been run so far."""

    @property
    def spent(self) -> float:
        """Cost of all runs."""
        ...

    def __len__(self) -> int:
        """Number of runs."""
        ...


@dataclass(frozen=True)
class Allowance:
    """How many runs, or what sum of their costs, there may be in all.

    Example:
        >>> Allowance(cost=100.0).left(1.0, Spent(90.0, 5)), Allowance(cost=100.0).block(1.0, Spent(90.0, 5))
        (10.0, 5)
        >>> [Allowance(cost=100.0, slots=2).block(1.0, Spent(used, 50)) for used in (97.0, 98.5, 99.5)]
        [2, 1, 0]
    """

    runs: int | None = None
    cost: float | None = None
    slots: int = 1

    def share(self, part: float) -> Allowance:
        """The same with a part of the cost."""
        return self if self.cost is None else replace(self, cost=part * self.cost)

    def left(self, each: float | None, so_far: Spender) -> float:
        """Runs that are left, at an expected cost of `each`."""
        runs = np.inf if self.runs is None else float(self.runs - len(so_far))
        if self.cost is None or not each:
            return runs
        return min(runs, (self.cost - so_far.spent) / each)

    def block(self, each: float | None, so_far: Spender, *, part: float = 0.5, spread: float = 0.0) -> int:
        """Runs to start next: under a budget a part of what is left, or the last one per worker; 0 ends it.

        With costs of standard deviation `spread` times their mean, so many that two standard deviations more than
        expected are still paid for.
        """
        left = self.left(each, so_far)
        if left < 1:
            return 0
        if self.cost is None:
            return int(min(left, LARGEST))
        most = max(
            self.slots, len(so_far)
        )  # at most double: after a cheap first run the next may be a thousand times dearer
        surely = (np.sqrt(spread**2 + left) - spread) ** 2  # m with m + 2 spread √m = left
        return int(min(max(min(left, self.slots), min(part * left, surely)), most))

    def rounded(self, size: int, each: float | None, so_far: Spender) -> int:
        """Runs of a generation: `size`, or all that is left when half a generation would remain."""
        left = self.left(each, so_far)
        return size if left > 1.5 * size else LARGEST

    def reason(self, so_far: Spender) -> str:
        """Which of the two is used up."""
        return "runs" if self.runs is not None and len(so_far) >= self.runs else "budget"


@dataclass(frozen=True)
class Spent:
    """A sum and a number, where no pool is at hand."""

    spent: float
    runs: int

    def __len__(self) -> int:
        return self.runs
