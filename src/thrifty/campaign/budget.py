"""Budgets and prices as people write them: "2 cpu-h", "40 min", "200 eur" at "0.05 eur/cpu-h".

How a campaign stops at its budget without bias is in `thrifty.runner.gates`.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from thrifty.durations import SECONDS_PER_UNIT, format_amount as shown, name_unit, split_amount
from thrifty.errors import ConfigError
from thrifty.runner.task import Outcome
from thrifty.types import CHARGED_STATUSES

Of = Literal["cpu", "wall", "elapsed", "reported"]
NEAR_UNIT = 0.75  # similarity of a misspelt unit, "hrs" or "hoers", to the known one; currencies have less
_EXAMPLES = 'examples: "2 cpu-h", "40 min", "200 eur" with price="0.05 eur/cpu-h"'


@dataclass(frozen=True)
class Price:
    """Money per second of CPU or wall time: `Price.read("0.05 eur/cpu-h")`."""

    per_second: float
    unit: str
    of: Literal["cpu", "wall"]

    @classmethod
    def read(cls, text: str) -> Price:
        """Read "0.05 eur/cpu-h" or "3 usd/h" (a wall hour of one worker).

        Example:
            >>> Price.read("36 eur/cpu-h")
            Price(per_second=0.01, unit='eur', of='cpu')
        """
        money, slash, time = str(text).partition("/")
        amount, unit = _split(money, "price")
        of, seconds = _time_unit(time.strip())
        if not slash or not unit or seconds is None or not amount > 0:
            raise ConfigError(f'price {text!r} is not of the form "0.05 eur/cpu-h"', code="bad-price")
        return cls(amount / seconds, unit, "cpu" if of == "cpu" else "wall")


@dataclass(frozen=True)
class Budget:
    """How much may be spent, and of what.

    Attributes:
        amount: In seconds, money or the simulator's own unit.
        of: "cpu" or "wall" seconds summed over runs, "elapsed" wall seconds of the campaign, or "reported" cost.
        per_unit: Seconds (or reported units) to the unit of amount: the price.
        text: As the user wrote it.
    """

    amount: float
    of: Of
    per_unit: float
    text: str

    @classmethod
    def read(cls, text: str, *, price: Price | None = None, unit: str = "") -> Budget:
        """Read a budget; `unit` is the unit of reported costs, if the campaign has one.

        Example:
            >>> Budget.read("2 cpu-h").amount, Budget.read("40 min").of
            (7200.0, 'elapsed')
        """
        amount, word = _split(text, "budget")
        if not word:
            raise ConfigError(f"budget {text!r} has no unit", code="bad-amount", fix=_EXAMPLES)
        if not (np.isfinite(amount) and amount > 0):
            raise ConfigError(f"budget {text!r} must be above 0", code="bad-amount", fix=_EXAMPLES)
        of, seconds = _time_unit(word)
        if seconds is not None:
            return cls(amount * seconds, of, 1.0, text)
        if unit and name_unit(word) == name_unit(unit):  # "600 units" of a cost that has no unit of its own
            return cls(amount, "reported", 1.0, text)
        if price is None:
            _check_spelling(amount, word, text, unit)
            raise ConfigError(
                f"budget {text!r}: unit {word!r} needs a price", code="bad-price", fix=f'price="0.05 {word}/cpu-h"'
            )
        if price.unit != word:
            raise ConfigError(f"budget {text!r} is in {word}, the price in {price.unit}", code="bad-price")
        return cls(amount, price.of, price.per_second, text)

    def words(self, value: float) -> str:
        """An amount of it for people, in its own unit.

        Example:
            >>> Budget.read("2 cpu-h").words(5400), Budget.read("600 steps", unit="steps").words(12.0)
            ('1.5 h', '12 steps')
        """
        word = _split(self.text, "budget")[1]
        return shown(value, "s" if _time_unit(word)[1] is not None else word)

    @staticmethod
    def is_wall_time(text: str) -> bool:
        """Whether a budget, as it was written, is wall time from start to end.

        Example:
            >>> Budget.is_wall_time("20 s"), Budget.is_wall_time("2 cpu-h"), Budget.is_wall_time("200 eur")
            (True, False, False)
        """
        of, seconds = _time_unit((split_amount(text) or (0.0, ""))[1])
        return of == "elapsed" and seconds is not None

    def describe(self) -> str:
        """Name the budget for people: wall time is called so, since costs are mostly in another kind of seconds.

        Example:
            >>> Budget.read("20 s").describe(), Budget.read("2 cpu-h").describe()
            ('20 s of wall time', '2 cpu-h')
        """
        return self.text.replace(" reported", " units") + (" of wall time" if self.of == "elapsed" else "")

    def spent_on(self, outcome: Outcome) -> float:
        """What one run took from the budget; NaN for a run that is to be charged as predicted.

        A run that gave a result and no possible cost is charged so; one that raised or died before it could report
        a cost took nothing that is known.
        """
        value = {"cpu": outcome.cpu, "wall": outcome.wall, "elapsed": 0.0, "reported": outcome.reported}[self.of]
        if np.isnan(value):
            return np.nan if outcome.status in CHARGED_STATUSES else 0.0
        return value * self.per_unit


def spent_budget_error(budget: Budget, payers: str, taken: float, *, cpu: float, only_pilots: bool) -> ConfigError:
    """Make the error for a budget below what the runs so far took: `cpu` seconds, or `taken` in its own unit."""
    kinds = {"elapsed": " of wall time", "cpu": " of CPU time", "wall": " of wall time of single runs"}
    is_time = _time_unit(_split(budget.text, "budget")[1])[1] is not None
    kind = kinds.get(budget.of, "") if is_time else ""
    what = f"budget {budget.text!r} is below what {payers} took already ({budget.words(taken)}{kind}"
    fix = (
        "a new folder with fewer pilots, or a larger budget" if only_pilots else "a larger budget: these runs are paid"
    )
    if is_time and budget.of == "elapsed":
        what += f", {shown(cpu, 's')} of CPU time"
        fix += (
            f'. A time without "cpu-" is wall time from start to end; CPU time is written "{math.ceil(2 * cpu)} cpu-s"'
        )
    return ConfigError(f"{what})", code="budget-too-small", fix=fix)


def explain_wall_time(kind: str) -> str:
    """Say why a budget of wall time and the cost of runs, of this kind of seconds or another unit, are two numbers.

    Example:
        >>> explain_wall_time("CPU time")[:62]
        'Cost is CPU time, summed over runs; the budget is wall time fr'
    """
    cost = f"Cost is {kind}, summed over runs" if kind else "Cost is summed over runs"
    return (
        f"{cost}; the budget is wall time from start to end. Workers run at the same time, and each run and the start"
        " of workers take wall time of their own, so that the two differ."
    )


def _split(text: object, label: str) -> tuple[float, str]:
    found = split_amount(text)
    if found is None:
        raise ConfigError(f"{label} {text!r} is not an amount with a unit", code="bad-amount", fix=_EXAMPLES)
    return found


def _check_spelling(amount: float, word: str, text: str, unit: str) -> None:
    """Reject a unit that is nearly a unit of time, or nearly the unit of reported costs."""
    known = [*SECONDS_PER_UNIT, *(f"cpu-{name}" for name in SECONDS_PER_UNIT), *([name_unit(unit)] if unit else [])]
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=NEAR_UNIT)
    if near:
        what = f"budget {text!r}: unknown unit {word!r}. Did you mean {near[0]!r}?"
        fix = f'"{amount:g} {near[0]}", or, if {word} is a currency, price="0.05 {word}/cpu-h"'
        raise ConfigError(what, code="bad-amount", fix=fix)


def _time_unit(word: str) -> tuple[Of, float | None]:
    cpu = word.lower().startswith("cpu-")
    return ("cpu" if cpu else "elapsed"), SECONDS_PER_UNIT.get(word.lower().removeprefix("cpu-"))
