"""Budgets, and the gates that stop without bias.

A run may start only because of what happened before it, never because of its own cost: the number started is
then a stopping time, and by Wald's identity the weighted sums stay unbiased (Glynn and Heidelberger 1990). So:
admit in plan order, stop admitting, finish what was started. Keeping only what finished in time is off by nine
standard deviations at a cost range of 1000; skipping draws that "no longer fit" by nineteen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from thrifty.errors import ConfigError
from thrifty.runner.progress import amount as shown
from thrifty.runner.task import Outcome
from thrifty.types import Array

Of = Literal["cpu", "wall", "elapsed", "reported"]
_SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_TEXT = re.compile(r"\s*([-+0-9.eE]+|\S*?)\s*([A-Za-z€$][\w€$-]*)?\s*")
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
        if unit and word == unit:
            return cls(amount, "reported", 1.0, text)
        if price is None:
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

    def spent_on(self, outcome: Outcome) -> float:
        """What one run took from the budget."""
        value = {"cpu": outcome.cpu, "wall": outcome.wall, "elapsed": 0.0, "reported": outcome.reported}[self.of]
        return 0.0 if np.isnan(value) else value * self.per_unit


def seconds(text: str | float, label: str = "deadline") -> float:
    """Wall seconds from a number or a text such as "40 min"."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        amount, word = float(text), "s"
    else:
        amount, word = _split(text, label)
    of, factor = _time_unit(word)
    if factor is None or of == "cpu" or not amount > 0:
        raise ConfigError(f"{label} {text!r} is not a time", code="bad-amount", fix='examples: "40 min", "12 h"')
    return amount * factor


def _split(text: object, label: str) -> tuple[float, str]:
    match = _TEXT.fullmatch(text) if isinstance(text, str) else None
    try:
        return float(match[1]), match[2] or ""  # type: ignore[index]
    except (TypeError, ValueError):
        raise ConfigError(f"{label} {text!r} is not an amount with a unit", code="bad-amount", fix=_EXAMPLES) from None


def _time_unit(word: str) -> tuple[Of, float | None]:
    cpu = word.lower().startswith("cpu-")
    return ("cpu" if cpu else "elapsed"), _SECONDS.get(word.lower().removeprefix("cpu-"))


@dataclass(frozen=True)
class CostGate:
    """Open while what was spent and what is in flight (as predicted) is below the budget."""

    amount: float

    def admit(self, *, spent: float, now: float) -> bool:
        """From the past alone: `spent` holds finished runs and predictions for runs already admitted."""
        return spent < self.amount

    def left(self, *, spent: float) -> float:
        """Budget not yet spent or in flight."""
        return max(self.amount - spent, 0.0)

    def late(self, *, now: float) -> bool:
        """What was admitted may always start."""
        return False

    def cut(self, *, now: float) -> bool:
        """Runs that were started are finished."""
        return False


@dataclass(frozen=True)
class ClockGate:
    """Open until a time; with `hard`, running work ends there too and stays pending.

    Args:
        until: On the engine's clock.
        reserve: Admission ends this much earlier: the 99 % quantile of predicted durations for a hard limit.
        hard: Whether running work is cut at `until`.
    """

    until: float
    reserve: float = 0.0
    hard: bool = False

    def admit(self, *, spent: float, now: float) -> bool:
        """The same time for every draw: the next one is not looked at."""
        return now < self.until - self.reserve

    def left(self, *, spent: float) -> float:
        """Cost is not limited."""
        return np.inf

    def late(self, *, now: float) -> bool:
        """Before a hard limit nothing starts that would probably not end in time."""
        return self.hard and now >= self.until - self.reserve

    def cut(self, *, now: float) -> bool:
        """At the hard limit."""
        return self.hard and now >= self.until


@dataclass(frozen=True)
class Gates:
    """All of several gates."""

    gates: Sequence[CostGate | ClockGate]

    def admit(self, *, spent: float, now: float) -> bool:
        """All must be open."""
        return all(gate.admit(spent=spent, now=now) for gate in self.gates)

    def left(self, *, spent: float) -> float:
        """The smallest."""
        return min((gate.left(spent=spent) for gate in self.gates), default=np.inf)

    def late(self, *, now: float) -> bool:
        """Any may hold."""
        return any(gate.late(now=now) for gate in self.gates)

    def cut(self, *, now: float) -> bool:
        """Any may cut."""
        return any(gate.cut(now=now) for gate in self.gates)


def reserve(predicted: Array, pace: float) -> float:
    """Time to leave before a hard limit: the 99 % quantile of predicted durations of the whole plan."""
    return float(np.quantile(predicted, 0.99) * pace) if len(predicted) else 0.0
