"""The draws of a block: a pure function of seed, block and proposal, so that damaged ones can be drawn again."""

from __future__ import annotations

from typing import Any

import numpy as np

from thrifty.campaign.weighting import proposal_of
from thrifty.errors import DamagedStoreError
from thrifty.runner.seeds import CANDIDATES, flip_coin, make_stream
from thrifty.store.rows import plan_row
from thrifty.store.schema import translate_sqlite_errors
from thrifty.store.store import Store
from thrifty.types import Array, Prior


def draw_block(prior: Prior, proposal: Any, n: int, *, seed: int, block: int) -> tuple[Array, Array]:
    """Draw (theta, log weights) of a block: a pure function of seed, block and proposal."""
    rng = np.random.default_rng(make_stream(seed, CANDIDATES, block))
    if proposal is None:
        return np.asarray(prior.sample(n, rng), dtype=np.float64), np.zeros(n)
    draws = proposal.sample(n, rng)
    return draws.theta, draws.log_weights


def redraw(store: Store, prior: Prior, indices: list[int]) -> None:
    """Draw damaged parameters again, each block from its own random stream."""
    seed, parts, wanted = store.settings()["seed"], store.parts(), set(indices)
    for block in store.blocks():
        rows = sorted(wanted.intersection(block.indices))
        if not rows:
            continue
        part = parts[block.part]
        if part.kind not in ("prior", "cost_aware"):
            raise DamagedStoreError(
                f"{len(rows):,} draws of {store.folder} cannot be drawn again: a method chose them ({part.kind})",
                code="damaged-folder",
                why="they depend on results that are lost",
                fix="restore the folder from a backup, or begin again in a new one",
            )
        proposal = None if part.kind == "prior" else proposal_of(part, prior)
        theta, weights = draw_block(prior, proposal, block.n, seed=seed, block=block.id)
        with translate_sqlite_errors(store.folder), store.db:
            for i in rows:
                at = i - block.first
                predicted = float("nan") if proposal is None else float(proposal.cost(theta[at : at + 1])[0])
                row = plan_row(
                    i, block.id, theta[at], log_weight=float(weights[at]), predicted=predicted, coin=flip_coin(seed, i)
                )
                store.db.execute("INSERT OR REPLACE INTO plan VALUES (?, ?, ?, ?, ?, ?, ?)", row)
