"""The verdict of a check: trust, with care, or do not trust, with one sentence that says why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from thrifty.display import Card, Displayed

Trust = Literal["trust", "with care", "do not trust"]
VERDICTS: tuple[Trust, ...] = ("trust", "with care", "do not trust")

# A correct posterior fails a question below the first once in a hundred reports, below the second once in ten thousand.
CARE_P_VALUE, ALARM_P_VALUE = 0.01, 1e-4


@runtime_checkable
class Check(Protocol):
    """The result of one check."""

    @property
    def name(self) -> str:
        """The name of the check."""
        ...

    @property
    def verdict(self) -> Trust:
        """Whether the posterior can be trusted, by this check."""
        ...

    @property
    def reason(self) -> str:
        """One sentence with the numbers behind the verdict."""
        ...


class DisplayedCheck(Displayed):
    """Show the result of a check by its verdict and reason, not by its arrays."""

    def _card(self) -> Card:
        assert isinstance(self, Check)
        p_value = read_p_value(self)
        facts = [("verdict", self.verdict), ("because", self.reason)]
        return Card(self.name, facts + ([] if p_value is None else [("p-value", format_p_value(float(p_value)))]))


def read_p_value(check: Check) -> float | None:
    """Read the p-value of a check; None where it has none, or where too little was measured to judge it."""
    p_value = getattr(check, "p_value", None)
    return None if p_value is None or not getattr(check, "is_judged", True) else float(p_value)


@dataclass(frozen=True, repr=False)
class NotMeasured(DisplayedCheck):
    """A check that could not be made: no reason for an alarm, and none for trust."""

    reason: str
    name: str = "calibration"
    verdict: Trust = "with care"


def judge_among(check: Check, tests: int) -> Trust:
    """Return the verdict of a check that is one of several tests of the same question.

    Its p-value counts times the number of tests, so that asking five tests raises no more false alarms than asking one.
    """
    judge = getattr(check, "judge", None)
    return check.verdict if judge is None else judge(tests)


def worst_verdict(verdicts: list[Trust]) -> Trust:
    """Return the least trusting of several verdicts.

    Example:
        >>> worst_verdict(["trust", "with care"])
        'with care'
    """
    return VERDICTS[max((VERDICTS.index(verdict) for verdict in verdicts), default=0)]


def judge_effect(p_value: float, effect: float, *, small: float, large: float, tests: int = 1) -> Trust:
    """Judge by a p-value and the size of the effect: with many runs a negligible effect must not raise an alarm.

    Args:
        p_value: Of "nothing is wrong".
        effect: How much is wrong.
        small: Effect below which nothing is said.
        large: Effect above which the posterior is not trusted.
        tests: How many tests ask the same question (Bonferroni).
    """
    if not (np.isfinite(p_value) and np.isfinite(effect)):
        return "do not trust"  # an unknown result is no reason for trust
    if tests * p_value < ALARM_P_VALUE and effect > large:
        return "do not trust"
    return "with care" if tests * p_value < CARE_P_VALUE and effect > small else "trust"


def format_p_value(p_value: float) -> str:
    """Format a p-value for a sentence.

    Example:
        >>> format_p_value(0.034), format_p_value(2e-9)
        ('p = 0.03', 'p < 1e-6')
    """
    if p_value < 1e-6:
        return "p < 1e-6"
    return f"p = {p_value:.2f}" if p_value >= 0.01 else f"p = {p_value:.1g}"
