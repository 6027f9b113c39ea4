"""In which order runs start, and how many travel together.

Longest predicted first fills many workers evenly (random order costs 1.5 times the ideal makespan at
1,000 workers and a 1000-fold cost range). It is harmless only inside a committed block that will be
completed: where a budget may stop admission, runs start in plan order. Runs of milliseconds travel in
bundles, sized by their predicted time and never larger than a worker's share of a third of what is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from thrifty.campaign.limits import TimeLimit
from thrifty.campaign.task import Outcome, Task
from thrifty.types import Array

LARGEST_BUNDLE = 1000  # runs; more would make the loss of one bundle and the delay of its results felt


class Schedule:
    """Runs still to start, handed out as bundles.

    Args:
        index: Plan indices (n,).
        theta: Parameters (n, p).
        predicted: Predicted cost in seconds (n,), or None.
        longest_first: Order inside a committed block.
        limit: Time limit, if any.
        seed: Campaign seed, for the lazy coin.
    """

    def __init__(
        self,
        index: npt.NDArray[np.int64],
        theta: Array,
        *,
        predicted: Array | None = None,
        longest_first: bool = True,
        limit: TimeLimit | None = None,
        seed: int = 0,
        probe: int | None = None,
    ) -> None:
        self.index, self.theta, self.limit, self.seed, self.probe = index, theta, limit, seed, probe
        self.known = predicted is not None and bool(np.isfinite(predicted).all())
        self.predicted = np.asarray(predicted, dtype=np.float64) if self.known else np.ones(len(index))
        order = np.argsort(-self.predicted, kind="stable") if self.known and longest_first else np.arange(len(index))
        self._order = order
        self._next = 0
        self._again: deque[Task] = deque()  # after a death or loss, first in line
        self._alone: deque[Task] = deque()  # suspects, one by one
        self._later: deque[Task] = deque()  # extended limits, last
        self.left = float(self.predicted.sum())
        self._wall, self._units = 0.0, 0.0

    def __len__(self) -> int:
        return len(self._order) - self._next + len(self._again) + len(self._alone) + len(self._later)

    @property
    def pace(self) -> float | None:
        """Measured wall seconds per predicted second (per run where nothing is predicted); None before the first."""
        if self._units > 0:
            return self._wall / self._units
        return 1.0 if self.known else None

    def learn(self, outcome: Outcome, units: float) -> None:
        """Take a measured time into the pace; old ones fade so that the pace follows the machine."""
        self._wall, self._units = 0.999 * self._wall + outcome.wall, 0.999 * self._units + units

    def take(self, *, seconds: float, slots: int) -> list[Task]:
        """The next bundle of about `seconds`, empty when nothing is left."""
        if self._alone:
            return [self._alone.popleft()]
        if self._again:
            return [self._again.popleft()]
        if self._next == len(self._order):
            return [self._later.popleft()] if self._later else []
        room = 0.0
        if self.pace is not None and self.pace > 0:
            room = min(seconds / self.pace, self.left / (3 * slots))
        bundle, filled = [], 0.0
        while self._next < len(self._order) and len(bundle) < LARGEST_BUNDLE:
            row = int(self._order[self._next])
            if bundle and filled + self.predicted[row] > room:
                break
            bundle.append(self._task(row))
            filled += self.predicted[row]
            self._next += 1
        self.left -= filled
        return bundle

    def again(self, tasks: Sequence[Task], *, alone: bool = False) -> None:
        """Runs that were lost with their worker: the same index, the same seed."""
        (self._alone if alone else self._again).extend(tasks)

    def extend(self, task: Task) -> None:
        """The same run with twice its limit, after all others."""
        assert task.limit is not None, "only a limited run can be extended"
        self._later.append(replace(task, limit=2 * task.limit, attempt=task.attempt + 1))

    def _task(self, row: int) -> Task:
        index = int(self.index[row])
        limit = self.limit.seconds_for(seed=self.seed, index=index) if self.limit else None
        return Task(index, self.theta[row], limit, float(self.predicted[row]), probe=index == self.probe)
