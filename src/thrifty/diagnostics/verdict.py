"""What a check says in the end: trust, with care, or do not trust, and why."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

import numpy as np

Trust = Literal["trust", "with care", "do not trust"]
ORDER: tuple[Trust, ...] = ("trust", "with care", "do not trust")

# a p-value below CARE in a right analysis: one report in a hundred per check; below ALARM: one in ten thousand
CARE, ALARM = 0.01, 1e-4


@runtime_checkable
class Check(Protocol):
    """A finished check."""

    @property
    def name(self) -> str:
        """What was checked."""
        ...

    @property
    def verdict(self) -> Trust:
        """What it means for the posterior."""
        ...

    @property
    def reason(self) -> str:
        """One sentence with the numbers behind the verdict."""
        ...


def worst(verdicts: list[Trust]) -> Trust:
    """The least trusting of several verdicts.

    Example:
        >>> worst(["trust", "with care"])
        'with care'
    """
    return ORDER[max((ORDER.index(verdict) for verdict in verdicts), default=0)]


def by_size(p_value: float, effect: float, *, small: float, large: float) -> Trust:
    """Verdict from a p-value and the size of the effect: many runs must not turn a trifle into an alarm."""
    if not (np.isfinite(p_value) and np.isfinite(effect)):
        return "do not trust"  # what cannot be told is no reason for trust
    if p_value < ALARM and effect > large:
        return "do not trust"
    return "with care" if p_value < CARE and effect > small else "trust"


def shown(p_value: float) -> str:
    """A p-value as people read it.

    Example:
        >>> shown(0.034), shown(2e-9)
        ('p = 0.03', 'p < 1e-6')
    """
    if p_value < 1e-6:
        return "p < 1e-6"
    return f"p = {p_value:.2f}" if p_value >= 0.01 else f"p = {p_value:.1g}"
