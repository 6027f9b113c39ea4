"""What a driver reads and writes while it runs: pending draws, a few thousand at a time, and outcomes in groups.

A plan of a million runs is not held in memory: of each pending run only its index and its predicted cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thrifty.runner.task import Outcome
from thrifty.runner.time_limits import TimeLimit
from thrifty.store.groups import PlanGroup, find_blocks, read_plan_group
from thrifty.store.rows import Row, read_theta
from thrifty.store.store import Store
from thrifty.store.validate import Block, damaged_rows_error
from thrifty.types import Array

GROUP_SECONDS = 0.5  # results that a crash of the machine can lose; a sync takes milliseconds
GROUP_RUNS = 4096  # committed at once at most: more do not make a commit cheaper per run
GROUP_BYTES = 2**24  # of outputs in memory before they are committed
FIGURES_SECONDS = 60.0  # between figures kept for `status`; what is newer is added when it is asked for
MAX_FIGURES_SHARE = 0.02  # of the driver's time


class StoredDraws:
    """Parameters of pending runs that stay in the store: `draws[positions]` reads and checks a few of them."""

    def __init__(self, store: Store, index: npt.NDArray[np.int32 | np.int64], *, dim: int) -> None:
        self._store, self._index, self._dim = store, index, dim

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, positions: npt.NDArray[np.int32 | np.int64]) -> Array:
        """Return parameters (k, p)."""
        wanted = self._index[positions]
        if not len(wanted):
            return np.empty((0, self._dim))
        group = _read_checked(self._store, self._store.plan_rows_at(wanted.tolist()), self._dim)
        missing = set(wanted.tolist()) - set(group.index.tolist())
        if missing:
            raise damaged_rows_error(self._store.folder, missing)
        return group.theta[np.searchsorted(group.index, wanted)]


@dataclass(frozen=True)
class Pending:
    """Planned runs without a result: first those that will be completed, then, under a budget, the others in order."""

    index: npt.NDArray[np.int32 | np.int64]
    theta: StoredDraws
    predicted: Array
    must: int
    blocks: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.index)


def read_pending(
    store: Store,
    blocks: Sequence[Block],
    *,
    dim: int,
    withdrawn: bool = True,
    target: tuple[int, int] | None = None,
) -> Pending:
    """Read the rows of these blocks that have no result yet; the checksum of every draw is tested.

    Args:
        store: The store.
        blocks: The blocks to look at.
        dim: Number of parameters.
        withdrawn: Whether draws that a budget has not admitted may still be admitted.
        target: (part, n): a budget admits draws of that part only, until n are admitted.
    """
    n, known = store.count_pending(), store.blocks()
    index = np.empty(n, dtype=np.int32 if store.last_index() < 2**31 else np.int64)
    predicted, admitted, at = np.empty(n), np.empty(n, dtype=bool), 0
    chosen = np.array([block.id for block in blocks])
    more = np.inf if target is None else max(target[1] - admitted_draws(blocks, target[0]), 0)
    # what may be admitted: with a target the draws of its own part, never what an earlier budget left behind
    open_blocks = [b.id for b in blocks if target is None or (b.part == target[0] and b.mode != "pilot")]
    for rows in store.pending_rows():
        group = _read_checked(store, rows, dim)
        place, is_known = find_blocks(group.block, known)
        if not is_known.all():
            raise damaged_rows_error(store.folder, set(group.index[~is_known].tolist()))
        own = {name: np.array([getattr(b, name) for b in known])[place] for name in ("first", "n", "part", "admitted")}
        offset = group.index - own["first"]
        if ((offset < 0) | (offset >= own["n"])).any():
            raise damaged_rows_error(store.folder, set(group.index[(offset < 0) | (offset >= own["n"])].tolist()))
        counts, wanted = offset < own["admitted"], np.isin(group.block, chosen)
        if not withdrawn:
            budgeted = [block.id for block in blocks if block.mode == "budget"]
            wanted &= counts | ~np.isin(group.block, budgeted)
        if target is not None:
            others = np.flatnonzero(wanted & ~counts & np.isin(group.block, open_blocks))
            others = others[: int(min(more, len(others)))]
            more -= len(others)
            wanted &= counts
            wanted[others] = True
        end = at + int(wanted.sum())
        index[at:end], predicted[at:end] = group.index[wanted], group.predicted[wanted]
        admitted[at:end] = counts[wanted]
        at = end
    index, predicted, admitted = index[:at], predicted[:at], admitted[:at]
    if not admitted.all():
        order = np.argsort(~admitted, kind="stable")
        index, predicted = index[order], predicted[order]
    draws = StoredDraws(store, index, dim=dim)
    return Pending(index, draws, predicted, must=int(admitted.sum()), blocks=frozenset(open_blocks))


def _read_checked(store: Store, rows: Sequence[Row], dim: int) -> PlanGroup:
    """Parse plan rows; damaged ones are an error that names them."""
    group = read_plan_group(rows, dim) if rows else None
    if group is None or not group.plain.all():
        damaged = {int(row[0]) for row in rows if read_theta(row, dim) is None}
        raise damaged_rows_error(store.folder, damaged or {int(row[0]) for row in rows})
    return group


def admitted_draws(blocks: Collection[Block], part: int) -> int:
    """Count the draws of a part, besides the pilot, that will be completed."""
    return sum(block.admitted for block in blocks if block.part == part and block.mode != "pilot")


def sum_counted(store: Store, column: str) -> tuple[int, float, float]:
    """Count the runs that count and have this cost, with the sums of their wall seconds and of the cost."""
    assert column in ("cpu", "wall", "reported")
    found = [
        store.query(
            f"SELECT count(*), total(wall), total({column}) FROM runs"
            f" WHERE idx >= ? AND idx < ? AND {column} IS NOT NULL",
            block.first,
            block.first + block.admitted,
        )[0]
        for block in store.blocks()
    ]
    count, wall, cost = map(sum, zip(*found, strict=True)) if found else (0, 0.0, 0.0)
    return int(count), float(wall), float(cost)


def count_done(store: Store) -> int:
    """Count the runs that count."""
    sql = "SELECT count(*) FROM runs WHERE idx >= ? AND idx < ?"
    return sum(int(store.query(sql, b.first, b.first + b.admitted)[0][0]) for b in store.blocks())


class Recorder:
    """Commits outcomes in groups; `recorded` counts only committed runs.

    Args:
        store: Open for writing.
        policy: Rule for time-outs.
        session: Number of this driver's session.
        blocks: Blocks whose draws may be admitted.
        on_commit: Called with each group that is safe.
        on_admit: Called with the last index admitted.
        keep_figures: Keeps sums of the campaign in the folder; called about once a minute.
    """

    def __init__(
        self,
        store: Store,
        *,
        policy: TimeLimit | None,
        session: int,
        blocks: frozenset[int],
        on_commit: Callable[[Sequence[Outcome]], None] = lambda outcomes: None,
        on_admit: Callable[[int], None] = lambda last: None,
        keep_figures: Callable[[], None] = lambda: None,
    ) -> None:
        self.store, self.policy, self.session, self.blocks = store, policy, session, blocks
        self.on_commit, self.on_admit, self.keep_figures = on_commit, on_admit, keep_figures
        self.recorded = 0
        self._buffer: list[Outcome] = []
        self._bytes = 0
        self._begun = self._committed = time.monotonic()
        self._figures_due = self._begun + FIGURES_SECONDS

    def record(self, outcomes: Sequence[Outcome]) -> None:
        """Buffer outcomes; they count as done after the next commit."""
        self._buffer += outcomes
        self._bytes += sum(outcome.x.nbytes for outcome in outcomes if outcome.x is not None)

    def flush(self, *, force: bool = False) -> int:
        """Commit if the group is large or old enough; return the number of committed runs."""
        now = time.monotonic()
        large = len(self._buffer) >= GROUP_RUNS or self._bytes >= GROUP_BYTES
        if self._buffer and (force or large or now - self._committed >= GROUP_SECONDS):
            group, self._buffer, self._bytes = self._buffer, [], 0
            self.store.record(group, policy=self.policy, session=self.session, elapsed=now - self._begun)
            self.on_commit(group)
            self.recorded += len(group)
            self._committed = time.monotonic()
            if self._committed >= self._figures_due:
                self.keep_figures()
                took = time.monotonic() - self._committed
                self._figures_due = time.monotonic() + max(FIGURES_SECONDS, took / MAX_FIGURES_SHARE)
        return self.recorded

    def discard(self, outcome: Outcome) -> None:
        """Note the cost of a run that is tried again: it was paid, although its result is not kept."""
        self.store.add_discarded({"cpu": outcome.cpu, "wall": outcome.wall, "reported": outcome.reported})

    def admit_through(self, last: int) -> None:
        """Commit an admission under a budget, before any of the admitted runs starts."""
        self.store.admit_through(last, blocks=self.blocks)
        self.on_admit(last)
