"""Which planned runs have no result yet, and which of them a budget may still admit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.campaign.rows import read_theta
from thrifty.campaign.store import Store
from thrifty.errors import DamagedStoreError
from thrifty.types import Array


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
