"""A small store with a plan, half of it run, for tests of the folder on disk."""

from __future__ import annotations

import numpy as np

from thrifty.runner.task import Outcome
from thrifty.store.store import Store

SETTINGS = {
    "seed": 1, "cost": "cpu", "price": None, "unit": "", "m": 1, "simulator": {"name": "f"}, "shape": [2],
    "prior": {"names": ["a", "b"], "low": ["0", "0"], "high": ["1", "1"], "draws": [[0.5, 0.5]], "log_prob": [0.0]},
}  # fmt: skip
PLANNED, DONE = 30, 12


def make_outcome(index, status="ok", shape=(2,)):
    x = np.arange(float(np.prod(shape))).reshape(shape) + index if status in ("ok", "invalid") else None
    return Outcome(index, status, x, 0.5, 0.25 + index, 1000, float("nan"), "host", error="" if x is not None else "no")


def make_store(folder):
    """A store of 30 planned runs, of which 12 are done."""
    store = Store.create(folder, SETTINGS)
    store.add_part("prior", {"kind": "prior"})
    theta = np.random.default_rng(0).random((PLANNED, 2))
    cost = np.linspace(1, 2, PLANNED)
    store.add_block(0, theta, log_weights=np.zeros(PLANNED), predicted=cost, coins=cost - 1, mode="n")
    store.record([make_outcome(i) for i in range(DONE)], policy=None)
    return store
