"""From outcomes to the table `Simulations`, the same whatever the order in which runs came back."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from thrifty.runner.task import Outcome
from thrifty.tables.simulations import Simulations
from thrifty.types import Array

Shape = tuple[int, ...]


def common_shape(outcomes: Sequence[Outcome]) -> Shape | None:
    """The shape most finished runs have; the lowest index decides between equals. None if none finished."""
    counts = Counter(outcome.x.shape for outcome in outcomes if outcome.status == "ok" and outcome.x is not None)
    if not counts:
        return None
    most = max(counts.values())
    tied = {shape for shape, count in counts.items() if count == most}
    finished = (o for o in sorted(outcomes, key=lambda o: o.index) if o.status == "ok" and o.x is not None)
    return next(o.x.shape for o in finished if o.x is not None and o.x.shape in tied)


def shape_error(shape: Shape, expected: Shape) -> str:
    """What to say about a run whose output has another shape."""
    got, want = (f"{s[0]} values" if len(s) == 1 else f"shape {s}" for s in (shape, expected))
    return f"[bad-output] returned {got}, the other runs {want}: all runs must have one shape; pad or summarise"


def columns(
    outcomes: Sequence[Outcome], n: int, *, shape: Shape | None, position: dict[int, int]
) -> dict[str, np.ndarray]:
    """Columns x, status, wall, cpu, reported, cut (n rows) from outcomes in any order; missing rows are pending."""
    event = shape or (1,)
    x = np.full((n, *event), np.nan)
    status = np.full(n, "pending", dtype="<U8")
    numbers = {name: np.full(n, np.nan) for name in ("wall", "cpu", "reported")}
    cut = np.full(n, np.inf)
    for outcome in outcomes:
        row = position[outcome.index]
        status[row] = outcome.status
        for name, column in numbers.items():
            column[row] = getattr(outcome, name)
        cut[row] = np.inf if outcome.limit is None else outcome.limit
        if outcome.status == "ok" and outcome.x is not None:
            if outcome.x.shape == event:
                x[row] = outcome.x
            else:
                status[row] = "error"
    return {"x": x, "status": status, "cut": cut, **numbers}


def table_hash(sims: Simulations) -> str:
    """Hash of what a table says (index, theta, x, status, weights), not of how long it took.

    Two campaigns with the same seed, prior, plan and simulator have the same hash, whatever happened on the way.
    """
    digest = hashlib.blake2b(digest_size=16)
    for column in (sims.index, sims.theta, sims.x, sims.log_weights):
        digest.update(repr((column.shape, column.dtype.str)).encode() + np.ascontiguousarray(column).tobytes())
    digest.update("\n".join(sims.status.tolist()).encode())
    return digest.hexdigest()


def chosen_cost(table: dict[str, np.ndarray], kind: str) -> Array:
    """The cost column of a table."""
    return table[{"cpu": "cpu", "wall": "wall", "reported": "reported"}[kind]]
