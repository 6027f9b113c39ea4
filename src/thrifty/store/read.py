"""Which planned runs have no result yet, and which of them a budget may still admit.

From the store to the table: every checksum tested, weights recomputed from the frozen proposals.

Weights are a pure function of theta and the frozen list of proposals: the pool of n_j draws from proposal j counts
as drawn from sum_j (n_j/n) q_j (theory of the balance heuristic). The pilot is the part drawn from the prior.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.campaign.failures import finish_log_factor
from thrifty.campaign.outcome_table import Shape
from thrifty.costs import cost_from_dict
from thrifty.errors import DamagedStoreError
from thrifty.penalties import penalty_from_dict
from thrifty.proposals import Pool, weighting_from_dict
from thrifty.runner.task import MAX_OUTPUT_BYTES, CostKind
from thrifty.runner.time_limits import lazy_log_factor, read_policy
from thrifty.store.rows import read_outcome, read_theta
from thrifty.store.schema import explained
from thrifty.store.store import Store
from thrifty.store.validate import MOST_MISSING, odd, understood
from thrifty.types import Array, Prior, as_rows


class Frozen:
    """A proposal read from its recipe: log density over the prior, from plain numbers alone."""

    def __init__(self, recipe: dict[str, Any]) -> None:
        self.recipe = recipe
        self.cost = cost_from_dict(recipe["cost"])
        self.penalty = penalty_from_dict(recipe["penalty"])
        self.log_normaliser = float(recipe["log_normaliser"])

    def log_ratio(self, theta: npt.ArrayLike) -> Array:
        """Log proposal over prior density (n,)."""
        return -self.penalty.log(self.cost(theta)) - self.log_normaliser

    def to_dict(self) -> dict[str, Any]:
        """The recipe."""
        return self.recipe


@dataclass
class Table:
    """All rows of a campaign that count: planned, admitted, run or pending."""

    index: npt.NDArray[np.int64]
    theta: Array
    part: npt.NDArray[np.int64]
    predicted: Array
    x: Array
    status: npt.NDArray[np.str_]
    wall: Array
    cpu: Array
    reported: Array
    cut: Array
    policy: npt.NDArray[np.object_]
    withdrawn: int = 0  # planned under a budget, not admitted

    @property
    def done(self) -> npt.NDArray[np.bool_]:
        """Rows with a run."""
        return self.status != "pending"

    def first(self, n: int) -> Table:
        """The first n rows."""
        cut = {key: value[:n] for key, value in vars(self).items() if isinstance(value, np.ndarray)}
        return self if n == len(self.index) else replace(self, **cut)

    def cost(self, kind: CostKind) -> Array:
        """Measured cost (n,)."""
        return {"cpu": self.cpu, "wall": self.wall, "reported": self.reported}[kind]


def read_table(store: Store, *, dim: int, outputs: bool = True) -> Table:
    """Read and check everything; damaged rows are an error that names them."""
    table, damaged = scan(store, dim=dim, outputs=outputs)
    if damaged["plan"] or damaged["runs"]:
        bad = sorted({*damaged["plan"], *damaged["runs"]})
        shown = ", ".join(map(str, bad[:10])) + (", ..." if len(bad) > 10 else "")
        raise DamagedStoreError(
            f"{len(bad)} records of {store.folder} fail their checksum (indices {shown})",
            code="damaged-folder",
            why="a changed value would be used as if it had been simulated",
            fix="verify(repair=True) runs them again",
        )
    return table


def scan(store: Store, *, dim: int, outputs: bool = True) -> tuple[Table, dict[str, list[int]]]:
    """Everything readable, and the indices of damaged rows by table. Without outputs, runs are not checked.

    Rows go one by one into arrays made beforehand: lists of a hundred thousand rows would stay in the process as
    memory that is free and cannot be given back.
    """
    blocks = {block["id"]: block for block in store.blocks()}
    shape = known_shape(store)
    table = _planned(store, blocks, dim, x_shape=shape if outputs else (0,))
    damaged: dict[str, list[int]] = {"plan": [], "runs": []}
    n = seen = 0
    for row in store.plan_rows():
        seen += 1
        values, block = read_theta(row, dim), blocks.get(row[1])
        if values is None or block is None:
            damaged["plan"].append(int(row[0]))
        elif row[0] - block["first"] >= block["admitted"]:
            table.withdrawn += 1
        elif n == len(table.index):  # more rows than blocks have: not ours
            damaged["plan"].append(int(row[0]))
        else:
            table.index[n], table.theta[n], table.part[n] = row[0], values, block["part"]
            table.predicted[n] = np.nan if row[4] is None else row[4]
            n += 1
    if seen != sum(block["n"] for block in blocks.values()):  # a row that vanished is damage too
        if sum(block["n"] for block in blocks.values()) - seen > MOST_MISSING:
            raise odd(store.folder, f"its blocks name {MOST_MISSING:,} draws more than the {seen:,} it has")
        there = {row[0] for row in store.plan_rows()}
        planned = {i for block in blocks.values() for i in range(block["first"], block["first"] + block["n"])}
        damaged["plan"] += sorted((planned - there) | (there - planned))
    table = table.first(n)
    _fill(store, table, shape=shape, outputs=outputs, damaged=damaged["runs"])
    return table, damaged


def _planned(store: Store, blocks: dict[int, dict[str, Any]], dim: int, *, x_shape: Shape) -> Table:
    """An empty table with a row for each draw that counts."""
    n = sum(block["admitted"] for block in blocks.values())
    n = min(n, store.planned())  # sizes from files are not trusted
    size = 8 * math.prod(x_shape)
    if n * size > MAX_OUTPUT_BYTES:
        with explained(store.folder):
            largest = store.db.execute("SELECT max(length(x)) FROM runs").fetchone()[0]
        if largest is not None and size > largest:
            raise odd(store.folder, f"outputs are said to have shape {x_shape}, but none is so large")
    return Table(
        index=np.zeros(n, dtype=np.int64),
        theta=np.zeros((n, dim)),
        part=np.zeros(n, dtype=np.int64),
        predicted=np.full(n, np.nan),
        x=np.full((n, *x_shape), np.nan),
        status=np.full(n, "pending", dtype="<U8"),
        wall=np.full(n, np.nan),
        cpu=np.full(n, np.nan),
        reported=np.full(n, np.nan),
        cut=np.full(n, np.inf),
        policy=np.full(n, None, dtype=object),
    )


def _fill(store: Store, table: Table, *, shape: Shape, outputs: bool, damaged: list[int]) -> None:
    words = ",".join(str(size) for size in shape)
    index, at, n = table.index, 0, len(table.index)
    for row in store.run_rows(light=not outputs):
        outcome = read_outcome(row, check=outputs)
        if outcome is None:
            damaged.append(int(row[0]))
            continue
        while at < n and index[at] < outcome.index:  # both in order of the index
            at += 1
        if at == n or index[at] != outcome.index:
            continue
        table.status[at] = outcome.status
        table.wall[at], table.cpu[at], table.reported[at] = outcome.wall, outcome.cpu, outcome.reported
        table.cut[at] = np.inf if outcome.limit is None else outcome.limit
        table.policy[at] = row[12]
        if outcome.status == "ok" and row[2] != words:
            table.status[at] = "error"
        elif outputs and outcome.status == "ok":
            table.x[at] = outcome.x


def known_shape(store: Store) -> Shape:
    """The shape of outputs: frozen after the pilot, or what most finished runs have."""
    frozen = store.settings().get("shape")
    if frozen is None:
        with explained(store.folder):
            row = store.db.execute(
                "SELECT shape FROM runs WHERE status = 'ok' AND shape IS NOT NULL"
                " GROUP BY shape ORDER BY count(*) DESC, min(idx) LIMIT 1"
            ).fetchone()
        with understood(store.folder, "the shape of outputs"):
            frozen = [1] if row is None else [int(size) for size in str(row[0]).split(",")]
    shape = tuple(frozen)
    if 8 * int(np.prod(shape, dtype=object)) > MAX_OUTPUT_BYTES or any(size < 0 for size in shape):
        raise DamagedStoreError(
            f"{store.folder}: outputs of shape {shape} are beyond any limit", code="untrusted-folder"
        )
    return shape


def _part(kind: str, recipe: dict[str, Any], prior: Prior) -> Any:
    """A part of the pool: the prior, a cost-aware proposal, or whatever else has numbers (a generation's kernels)."""
    if kind == "prior":
        return prior
    return Frozen(recipe) if kind == "cost_aware" else weighting_from_dict(recipe, prior)


def pool_of(table: Table, parts: dict[int, tuple[str, dict[str, Any]]], prior: Prior) -> Pool:
    """The pool the counted rows were drawn from."""
    counts = np.bincount(table.part, minlength=1)
    used = [(int(counts[number]), *part) for number, part in parts.items() if number < len(counts) and counts[number]]
    with understood(None, "a frozen proposal"):
        pool = Pool(tuple((count, _part(kind, recipe, prior)) for count, kind, recipe in used), prior)
        pool.log_weight(table.theta[:1])
    return pool


def limit_factor(table: Table) -> Array:
    """What policies on time-outs add to the log weights, each run under the policy it ran with (n,)."""
    factor = np.zeros(len(table.index))
    for policy in {p for p in table.policy if p is not None}:
        rule = read_policy(policy)
        assert rule is not None, "rows with another policy are damaged"
        chosen = table.policy == policy
        late = table.status[chosen] == "timeout"
        if rule.on_timeout == "lazy":
            limit = np.full(chosen.sum(), rule.seconds)
            factor[chosen] = lazy_log_factor(
                table.status[chosen], table.wall[chosen], cut=table.cut[chosen], limit=limit, share=rule.share
            )
        elif rule.on_timeout == "weight":
            factor[chosen] = finish_log_factor(as_rows(table.theta[chosen]), late)
        elif rule.on_timeout == "restrict":
            factor[chosen] = np.where(late, -np.inf, 0.0)
    return factor


@dataclass(frozen=True)
class Pending:
    """Planned runs without a result: first those that will be completed, then, under a budget, the others in order."""

    index: npt.NDArray[np.int64]
    theta: Array
    predicted: Array
    must: int
    blocks: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls,
        store: Store,
        dim: int,
        *,
        modes: tuple[str, ...],
        withdrawn: bool = True,
        target: Sequence[int] | None = None,
    ) -> Pending:
        """Pending runs of the blocks with these modes; without `withdrawn`, no draws that a budget did not admit.

        A target (part, n) lets a budget admit draws of that part only, until n are admitted.
        """
        blocks = {block["id"]: block for block in store.blocks() if block["mode"] in modes}
        room = {part: most - _admitted(blocks.values(), part) for part, most in [target]} if target else None
        most = min(sum(block["n"] for block in blocks.values()), store.planned())
        index, theta, predicted = np.zeros(most, dtype=np.int64), np.zeros((most, dim)), np.full(most, np.nan)
        admitted, damaged, n = np.zeros(most, dtype=bool), [], 0
        for row in store.plan_rows(pending=True):
            block = blocks.get(row[1])
            inside = block is not None and row[0] - block["first"] < block["admitted"]
            if block is None or not (inside or withdrawn or block["mode"] != "budget"):
                continue
            if not inside and room is not None:
                if room.get(block["part"], 0) < 1:
                    continue
                room[block["part"]] -= 1
            values = read_theta(row, dim)
            if values is None or n == most:
                damaged.append(row[0])
                continue
            index[n], theta[n], predicted[n] = row[0], values, np.nan if row[4] is None else row[4]
            admitted[n] = inside
            n += 1
        if damaged:
            raise DamagedStoreError(
                f"{len(damaged)} planned runs of {store.folder} fail their checksum (first {damaged[0]})",
                code="damaged-folder",
                fix="verify(repair=True) draws them again",
            )
        order = np.argsort(~admitted[:n], kind="stable")
        must = int(admitted[:n].sum())
        return cls(index[order], theta[order], predicted[order], must=must, blocks=frozenset(blocks))


def _admitted(blocks: Iterable[dict[str, Any]], part: int) -> int:
    """Draws of a part, besides the pilot, that will be completed."""
    return sum(block["admitted"] for block in blocks if block["part"] == part and block["mode"] != "pilot")
