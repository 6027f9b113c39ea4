"""Decide in which order runs start, and how many are sent together.

Longest predicted first fills many workers evenly (random order costs 1.5 times the ideal makespan at
1,000 workers and a 1000-fold cost range). It is harmless only among runs that will all be completed: the
first `must` of a schedule. Behind them, under a budget, runs are admitted in plan order. Runs of milliseconds
are sent in bundles, sized by predicted time and never larger than a worker's share of a third of what is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from thrifty.runner.task import Outcome, Task
from thrifty.runner.time_limits import TimeLimit
from thrifty.types import Array

MAX_BUNDLE_RUNS = 1000  # more would make the loss of one bundle and the delay of its results felt

LOADED_RUNS = 4096  # whose parameters are taken at once: from a store, it costs a few microseconds each
SUMMED_ROWS = 2**16  # summed at once, so that looking at progress takes no memory


class Parameters(Protocol):
    """Parameters of all runs: an array (n, p), or what reads them from a store."""

    def __getitem__(self, rows: Any, /) -> Array:
        """Return parameters (k, p) of k rows."""
        ...


class Schedule:
    """Runs still to start, handed out as bundles.

    Args:
        index: Plan indices (n,).
        theta: Parameters (n, p).
        predicted: Predicted cost in seconds (n,), or None.
        must: How many of the first rows will be completed whatever happens; all by default.
        limit: Time limit, if any.
        seed: Campaign seed, for the lazy coin.
        probe: Index to run twice, as a test of its seed.
        history: Wall seconds and predicted cost (or number) of earlier runs, from which the pace starts.
    """

    def __init__(
        self,
        index: npt.NDArray[np.int32 | np.int64],
        theta: Parameters,
        *,
        predicted: Array | None = None,
        must: int | None = None,
        limit: TimeLimit | None = None,
        seed: int = 0,
        probe: int | None = None,
        history: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self.index, self.theta, self.limit, self.seed, self.probe = index, theta, limit, seed, probe
        self.has_predictions = predicted is not None and bool(np.isfinite(predicted).all())
        self.predicted = np.asarray(predicted, dtype=np.float64) if self.has_predictions else np.ones(len(index))
        self._open = len(index) if must is None else must
        self._order = np.arange(len(index), dtype=np.int32 if len(index) < 2**31 else np.int64)
        if self.has_predictions:
            self._order[: self._open] = np.argsort(-self.predicted[: self._open], kind="stable")
        self._loaded, self._loaded_from = np.empty((0, 0)), 0  # parameters of the next runs, in order
        self._next = 0
        self._repeated: deque[Task] = deque()  # lost with their worker; they go first
        self._alone: deque[Task] = deque()  # may have killed their worker; sent one by one
        self._extended: deque[Task] = deque()  # with a longer limit; they go last
        self.left = float(self.predicted.sum())
        self._wall, self._units = history
        self._started: dict[int, float] = {}
        self.learned, self._logs, self._log_squares = 0, 0.0, 0.0

    def __len__(self) -> int:
        return len(self._order) - self._next + len(self._repeated) + len(self._alone) + len(self._extended)

    @property
    def has_admitted(self) -> bool:
        """Whether something admitted waits to start."""
        return bool(self._repeated or self._alone or self._extended) or self._next < self._open

    def admit(self, *, seconds: float, cost: float = np.inf, runs: float = np.inf) -> int:
        """Admit the next runs in plan order, of about `seconds` and `cost`, at most `runs`; return the last index.

        Whether a run is admitted depends on those before it, never on itself: the run that fills the measure is
        admitted too. (Leaving it out would ask the gate once more just before expensive runs.)
        """
        room, filled, last = min(seconds / (self.pace or np.inf), cost), 0.0, min(self._open + runs, len(self._order))
        while True:
            filled += float(self.predicted[self._open])
            self._open += 1
            if filled >= room or self._open >= last:
                return int(self.index[self._open - 1])

    @property
    def pace(self) -> float | None:
        """Measured wall seconds per predicted second (per run where nothing is predicted); None before the first."""
        if self._units > 0:
            return self._wall / self._units
        return 1.0 if self.has_predictions else None

    def learn(self, outcome: Outcome, units: float) -> None:
        """Add a measured time to the pace; old ones count less and less, so that the pace follows the machine."""
        self._wall, self._units = 0.999 * self._wall + outcome.wall, 0.999 * self._units + units
        if outcome.wall > 0 and units > 0:
            ratio = float(np.log(outcome.wall / units))
            self.learned += 1
            self._logs += ratio
            self._log_squares += ratio**2
        self._started.pop(outcome.index, None)

    @property
    def spread(self) -> float:
        """Standard deviation of log(measured/predicted) so far; one before it is known."""
        if self.learned < 5:
            return 1.0
        mean = self._logs / self.learned
        return float(np.sqrt(max(self._log_squares / self.learned - mean**2, 0.0)))

    def sum_outstanding(self, *, everything: bool = False) -> tuple[float, float]:
        """Return the predicted cost of what is admitted and not finished, and the sum of its squares.

        With `everything`, also of what is not admitted yet.
        """
        again = (*self._repeated, *self._alone, *self._extended)
        running = np.array([*self._started.values(), *(task.predicted for task in again)])
        total, squares = float(running.sum()), float((running**2).sum())
        end = len(self._order) if everything else self._open
        for at in range(self._next, end, SUMMED_ROWS):
            waiting = self.predicted[self._order[at : min(at + SUMMED_ROWS, end)]]
            total, squares = total + float(waiting.sum()), squares + float((waiting**2).sum())
        return total, squares

    def is_next_short(self, *, seconds: float, slots: int) -> bool:
        """Whether the next run is an ordinary one of at most about `seconds`, with enough behind it.

        The last four runs per slot wait for whoever is free first: that is what keeps the end even.
        """
        if self._alone or self._repeated or self._next == len(self._order) or self.pace is None:
            return False
        predicted = float(self.predicted[self._order[self._next]])
        return predicted * self.pace <= seconds and self.left > 4 * slots * predicted

    def take(self, *, seconds: float, slots: int) -> list[Task]:
        """Remove and return the next bundle of about `seconds`; empty when nothing is left."""
        if self._alone:
            return [self._alone.popleft()]
        if self._repeated:
            return [self._repeated.popleft()]
        if self._next == self._open:
            return [self._extended.popleft()] if self._extended else []
        room = 0.0
        if self.pace is not None and self.pace > 0:
            room = min(seconds / self.pace, self.left / (3 * slots))
        bundle, filled = [], 0.0
        while self._next < self._open and len(bundle) < MAX_BUNDLE_RUNS:
            row = int(self._order[self._next])
            if bundle and filled + self.predicted[row] > room:
                break
            bundle.append(self._task(row, self._load(self._next)))
            filled += self.predicted[row]
            self._next += 1
        self.left -= filled
        self._started.update((task.index, task.predicted) for task in bundle)
        return bundle

    def repeat(self, tasks: Sequence[Task], *, alone: bool = False) -> None:
        """Put runs that were lost with their worker back: the same index, the same seed."""
        (self._alone if alone else self._repeated).extend(tasks)

    def repeat_with_longer_limit(self, task: Task) -> None:
        """Put the same run back with twice its limit, after all others."""
        assert task.limit is not None, "only a limited run can be extended"
        self._extended.append(replace(task, limit=2 * task.limit, attempt=task.attempt + 1))

    def _load(self, at: int) -> Array:
        """Return the parameters of the run at a place in the order; a few thousand are taken together."""
        if not 0 <= at - self._loaded_from < len(self._loaded):
            self._loaded_from, self._loaded = at, self.theta[self._order[at : at + LOADED_RUNS]]
        return self._loaded[at - self._loaded_from]

    def _task(self, row: int, theta: Array) -> Task:
        index = int(self.index[row])
        limit = self.limit.seconds_for(seed=self.seed, index=index) if self.limit else None
        return Task(index, theta, limit, float(self.predicted[row]), probe=index == self.probe)
