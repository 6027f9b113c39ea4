"""The rows of a campaign as columns, whether they come from a folder or from runs in memory.

One function, `Table.enter`, turns a finished run into a row: it is used when a folder is read, while a campaign runs,
and for `th.simulate`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from thrifty.runner.task import CostKind, Outcome
from thrifty.runner.time_limits import TimeLimit
from thrifty.store.groups import RunGroup
from thrifty.store.validate import Block, BlockState
from thrifty.types import Array

Shape = tuple[int, ...]


@dataclass
class Table:
    """Planned rows in order of their index, with the result of each run that has finished.

    Attributes:
        index, block, part: Plan index, and the numbers of the block and of the proposal (n,).
        theta: Parameters (n, p).
        predicted: Predicted cost (n,), NaN where there was no cost model.
        admitted: Whether the row counts (n,): a budget admits only some of its draws.
        x: Outputs (n, *shape), NaN where there is none; (n, 0) when they were not read.
        status: "pending", or how the run ended (n,).
        wall, cpu, reported: Measured cost (n,), NaN without a run.
        time_limit: Seconds after which the run itself was ended (n,), inf without a limit.
        policy: Position in `policies` of the rule for time-outs under which it ran (n,), -1 for none.
        shape: Of one output; None before it is known.
    """

    index: npt.NDArray[np.int64]
    theta: Array
    block: npt.NDArray[np.int64]
    part: npt.NDArray[np.int32 | np.int64]
    predicted: Array
    admitted: npt.NDArray[np.bool_]
    x: Array
    status: npt.NDArray[np.str_]
    wall: Array
    cpu: Array
    reported: Array
    time_limit: Array
    policy: npt.NDArray[np.int16]
    shape: Shape | None
    policies: list[TimeLimit] = field(default_factory=list)
    _unjudged: dict[int, Shape] = field(default_factory=dict)  # shapes of outputs that came before `shape` was known

    @classmethod
    def empty(cls, n: int, *, dim: int, shape: Shape | None, outputs: bool = True, x: Array | None = None) -> Table:
        """Make n pending rows, to be filled in; `x` holds NaN already, where it is given."""
        if x is None:
            x = np.full((n, *(shape if outputs and shape is not None else (0,))), np.nan)
        return cls(
            index=np.arange(n),
            theta=np.zeros((n, dim)),
            block=np.zeros(n, dtype=np.int64),
            part=np.zeros(n, dtype=np.int32),
            predicted=np.full(n, np.nan),
            admitted=np.ones(n, dtype=bool),
            x=x,
            status=np.full(n, "pending", dtype="<U8"),
            wall=np.full(n, np.nan),
            cpu=np.full(n, np.nan),
            reported=np.full(n, np.nan),
            time_limit=np.full(n, np.inf),
            policy=np.full(n, -1, dtype=np.int16),
            shape=shape,
        )

    def __len__(self) -> int:
        return len(self.index)

    @property
    def done(self) -> npt.NDArray[np.bool_]:
        """Rows with a run (n,)."""
        return self.status != "pending"

    @property
    def failed(self) -> npt.NDArray[np.bool_]:
        """Rows whose run gave no numbers (n,)."""
        return self.done & (self.status != "ok")

    def cost(self, kind: CostKind) -> Array:
        """Measured cost (n,); NaN where a run reported none, or one that is impossible."""
        if kind == "reported":  # folders made before such runs failed may hold negative and infinite ones
            return np.where((self.reported >= 0) & (self.reported < np.inf), self.reported, np.nan)
        return {"cpu": self.cpu, "wall": self.wall}[kind]

    def select(self, rows: slice | npt.NDArray[np.bool_]) -> Table:
        """Only these rows."""
        columns = {key: value[rows] for key, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **columns)

    def counted(self) -> Table:
        """Only the rows that count."""
        return self if self.admitted.all() else self.select(self.admitted)

    def enter(self, row: int, outcome: Outcome, policy: TimeLimit | None) -> None:
        """Fill in the result of one run. An output of another shape than the others is an error of its run."""
        self.status[row] = outcome.status
        self.wall[row], self.cpu[row], self.reported[row] = outcome.wall, outcome.cpu, outcome.reported
        self.time_limit[row] = np.inf if outcome.limit is None else outcome.limit
        self.policy[row] = self.policy_number(policy)
        if outcome.status == "ok":
            self.judge_shape(row, None if outcome.x is None else outcome.x.shape)
        if self.status[row] == "ok" and self.x.shape[1:] == self.shape:
            self.x[row] = outcome.x

    def find(self, index: int) -> int | None:
        """Return the row of a plan index; None if it is not in the table."""
        at = int(np.searchsorted(self.index, index))
        return at if at < len(self.index) and self.index[at] == index else None

    def enter_group(self, group: RunGroup) -> None:
        """Fill in the plain runs of a group, whose outputs have the shape of the table."""
        index = group.index[group.plain]
        at = np.minimum(np.searchsorted(self.index, index), max(len(self) - 1, 0))
        here = self.index[at] == index if len(self) else np.zeros(len(index), dtype=bool)
        rows = at[here]
        x = np.frombuffer(group.x, dtype="<f8").reshape(len(index), *self.x.shape[1:])
        whole = len(rows) == len(index) and (len(rows) == 0 or rows[-1] - rows[0] + 1 == len(rows))
        if whole and len(rows):
            self.x[rows[0] : rows[-1] + 1] = x
        else:
            self.x[rows] = x[here]
        self.status[rows] = "ok"
        for column, values in ((self.wall, group.wall), (self.cpu, group.cpu), (self.reported, group.reported)):
            column[rows] = values[group.plain][here]
        limit = group.limit[group.plain][here]
        self.time_limit[rows] = np.where(np.isnan(limit), np.inf, limit)
        numbers = {text: self.policy_number(rule) for text, rule in group.rules.items()}
        self.policy[rows] = np.array([numbers[text] for text in group.policy])[group.plain][here]

    def judge_shape(self, row: int, shape: Shape | None) -> None:
        """Mark an output of another shape as an error; before the shape is known, remember it for `judge_shapes`."""
        if self.shape is None and shape is not None:
            self._unjudged[row] = shape
        elif shape is None or shape != self.shape:
            self.status[row] = "error"

    def enter_all(self, outcomes: Iterable[Outcome], policy: TimeLimit | None) -> None:
        """Fill in the results of several runs, found by their index."""
        for outcome in outcomes:
            self.enter(int(np.searchsorted(self.index, outcome.index)), outcome, policy)

    def policy_number(self, policy: TimeLimit | None) -> int:
        """Return the position of a rule for time-outs, -1 for none; a new rule is added."""
        if policy is None:
            return -1
        if policy not in self.policies:
            self.policies.append(policy)
        return self.policies.index(policy)

    def judge_shapes(self, shape: Shape) -> None:
        """Mark the outputs of another shape as errors, now that the shape is known."""
        self.shape = shape
        for row in [row for row, found in self._unjudged.items() if found != shape]:
            self.status[row] = "error"
        self._unjudged.clear()

    def assign(self, blocks: Sequence[Block]) -> npt.NDArray[np.bool_]:
        """Set proposal and admission of each row from its block; which rows belong to none of them (n,)."""
        if not blocks:
            return np.ones(len(self), dtype=bool)
        ids = np.array([block.id for block in blocks])
        at = np.minimum(np.searchsorted(ids, self.block), len(ids) - 1).astype(np.int32)
        offset = self.index - np.array([block.first for block in blocks])[at]
        parts = np.array([block.part for block in blocks])
        self.part = parts.astype(np.int32 if parts.max() < 2**31 else np.int64)[at]
        self.admitted = offset < np.array([block.admitted for block in blocks])[at]
        return (ids[at] != self.block) | (offset < 0) | (offset >= np.array([block.n for block in blocks])[at])

    def read_states(self, blocks: Sequence[Block]) -> dict[int, BlockState]:
        """Return how far the runs of each block are, by its number."""
        found = {}
        for block in blocks:
            rows = (self.block == block.id) & self.admitted
            pending = np.flatnonzero(rows & ~self.done)
            first = int(self.index[pending[0]]) if len(pending) else 0
            limit = float(self.predicted[pending].max()) if len(pending) else np.nan  # NaN where one is NaN
            found[block.id] = BlockState(
                block.part, block.mode, block.first, int(rows.sum()), len(pending), first, limit
            )
        return found

    def admit_through(self, last: int, *, blocks: Collection[int]) -> None:
        """Let every row of these blocks up to index `last` count, as `Store.admit_through` commits it."""
        first = int(self.admitted.argmin())  # rows are admitted in order: those before it are admitted already
        rows = slice(first, int(np.searchsorted(self.index, last, side="right")))
        self.admitted[rows] |= np.isin(self.block[rows], list(blocks))

    def extend(self, block: Block, theta: Array, predicted: Array) -> None:
        """Add the rows of a block that was committed since the table was read."""
        more = Table.empty(len(theta), dim=theta.shape[1], shape=self.shape, outputs=self.x.shape[1:] == self.shape)
        more.index += block.first
        more.block[:], more.part[:] = block.id, block.part
        more.theta, more.predicted = theta, predicted
        more.admitted[:] = np.arange(len(theta)) < block.admitted
        for name, column in vars(self).items():
            if isinstance(column, np.ndarray):
                setattr(self, name, np.concatenate([column, getattr(more, name)]))


def common_shape(outcomes: Sequence[Outcome]) -> Shape | None:
    """Return the shape of most outputs; between equals the lowest index decides. None if no run gave numbers."""
    given = [o for o in sorted(outcomes, key=lambda o: o.index) if o.status == "ok" and o.x is not None]
    counts = Counter(outcome.x.shape for outcome in given if outcome.x is not None)
    return max(counts, key=lambda shape: counts[shape]) if counts else None
