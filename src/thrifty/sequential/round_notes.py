"""What a folder keeps of inference in rounds: what was asked for, and what was found between rounds.

A stage is what one call asked for. The first has `rounds` rounds, each of which doubles the pool. One that extends a
folder begins with a part of its runs used, and doubles the pool, about, in each of its rounds too.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from typing import Any

from thrifty.errors import CampaignError
from thrifty.sequential.spending import Spent
from thrifty.types import Array

_FAILURES = re.compile(r"\bfailures='(refuse|model)'")  # in the text of a method


@dataclass(frozen=True)
class Stage:
    """What one call asked for.

    Attributes:
        rounds: How many, at most.
        runs: Total number of runs, or None.
        cost: Total cost, or None.
    """

    rounds: int
    runs: int | None = None
    cost: float | None = None

    def measure_use(self, spent: Spent) -> float:
        """Return the share of the runs or of the cost that is used, whichever is larger."""
        runs = 0.0 if self.runs is None else spent.runs / self.runs
        return max(runs, 0.0 if self.cost is None else spent.cost / self.cost)

    def share(self, used: float, *, extends: bool) -> list[float]:
        """Return the share of all runs, or of the cost, that is used at the end of each round.

        Every round doubles the pool: the first ones, which know little, are cheap to run and to train on, and half of
        all runs come from the best proposal.

        Example:
            >>> Stage(4, runs=800).share(0.0, extends=False)
            [0.125, 0.25, 0.5, 1.0]
            >>> Stage(4, runs=800).share(0.25, extends=True)
            [0.5, 1.0]
        """
        if not extends:
            return [2.0 ** (number + 1 - self.rounds) for number in range(self.rounds)]
        if used >= 1:
            return []
        count = max(round(-math.log2(used)), 1)
        return [used ** (1 - number / count) for number in range(1, count)] + [1.0]

    def exceeds(self, other: Stage) -> bool:
        """Tell whether it allows more runs or more cost, or limits the other of the two."""
        pairs = ((self.runs, other.runs), (self.cost, other.cost))
        return any(mine is not None and (its is None or mine > its) for mine, its in pairs)

    def describe(self) -> str:
        """Name what was asked for."""
        parts = [f"n={self.runs:,}".replace(",", "_")] if self.runs is not None else []
        return ", ".join(parts + ([f"budget={self.cost:g}"] if self.cost is not None else []))


@dataclass(frozen=True)
class RoundNotes:
    """What a method in rounds was asked for and found so far.

    Attributes:
        stages: What each call asked for that went beyond the calls before it.
        judged: Figures of each round.
        draws: Posterior draws (n, p) at each observation, after the last one.
    """

    stages: tuple[Stage, ...]
    judged: tuple[dict[str, float], ...] = ()
    draws: tuple[Array, ...] = ()


def add_stage(stages: tuple[Stage, ...], asked: Stage, folder: Any) -> tuple[Stage, ...]:
    """Add what is asked for to what a folder was asked for before, where it goes beyond that.

    Raises:
        CampaignError: other-settings, less is asked for than the rounds so far were made for.

    Example:
        >>> first = (Stage(4, runs=400),)
        >>> len(add_stage(first, Stage(4, runs=400), "c")), len(add_stage(first, Stage(4, runs=900), "c"))
        (1, 2)
    """
    if not stages:
        return (asked,)
    last = stages[-1]
    if (asked.runs, asked.cost) == (last.runs, last.cost):
        return stages
    if asked.exceeds(last):
        return (*stages, asked)
    raise CampaignError(
        f"{asked.describe()} is less than the {last.describe()} that the rounds of {folder} were made for",
        code="other-settings",
        why="the sizes of its rounds follow from that",
        fix=f"{last.describe()} finishes them, more adds rounds; or a new folder",
    )


def list_changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Name the settings that differ from those of a folder; how failed runs are treated may change between rounds.

    What was drawn stays valid then, and every fit reads all runs again: `failures="model"` is the way out of a folder
    in which too many runs failed.

    Example:
        >>> list_changes({"method": "NLE(failures='refuse')"}, {"method": "NLE(failures='model')"})
        []
        >>> list_changes({"seed": "0"}, {"seed": "1"})
        ['seed: 0 -> 1']
    """
    old, new = ({key: _FAILURES.sub("", value) for key, value in one.items()} for one in (before, now))
    return [f"{key}: {before.get(key)} -> {value}" for key, value in now.items() if old.get(key) != new[key]]


def stages_to_list(stages: tuple[Stage, ...]) -> list[dict[str, Any]]:
    """Write stages as plain numbers."""
    return [asdict(stage) for stage in stages]


def stages_from_list(kept: Any) -> tuple[Stage, ...]:
    """Read what `stages_to_list` wrote."""
    return tuple(Stage(**one) for one in kept)
