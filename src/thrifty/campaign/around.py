"""What stands around the loop: where outcomes are kept, who decides on admission, who watches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from thrifty.campaign.schedule import Schedule
from thrifty.campaign.task import Outcome


class Sink(Protocol):
    """Where outcomes are kept."""

    def record(self, outcomes: Sequence[Outcome]) -> None:
        """Keep outcomes; returns when they are buffered or safe."""
        ...

    def flush(self, *, force: bool = False) -> int:
        """Make what is buffered safe if it is time; the number of runs made safe."""
        ...

    def admitted(self, last: int) -> None:
        """Commit that every draw up to this index will be completed; called before any of them starts."""
        ...


class Gate(Protocol):
    """Decides, from the past alone, whether more runs may be admitted."""

    def admit(self, *, spent: float, now: float) -> bool:
        """Never sees the parameters of the next run."""
        ...

    def left(self, *, spent: float) -> float:
        """What is left of the budget, infinite where cost is not limited."""
        ...

    def late(self, *, now: float) -> bool:
        """True when nothing more may start before a hard deadline, not even what was admitted."""
        ...

    def cut(self, *, now: float) -> bool:
        """True when even running work must end (a hard deadline)."""
        ...


class Watcher(Protocol):
    """Progress, told what is safe."""

    def update(self, *, recorded: int, schedule: Schedule, busy: int, outcomes: Sequence[Outcome]) -> None:
        """Called after each wait."""
        ...

    def say(self, text: str) -> None:
        """Something the person must see now."""
        ...


class Open:
    """The gate without budget."""

    def admit(self, *, spent: float, now: float) -> bool:
        """Always."""
        return True

    def left(self, *, spent: float) -> float:
        """No limit."""
        return np.inf

    def late(self, *, now: float) -> bool:
        """Never."""
        return False

    def cut(self, *, now: float) -> bool:
        """Never."""
        return False
