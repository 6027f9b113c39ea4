"""Torch's global state kept as it was found: its stream, its threads; and evaluation of networks in chunks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from thrifty.types import Array

if TYPE_CHECKING:
    from thrifty.inference.neural.networks import DensityNet

CHUNK = 20_000  # rows per evaluation: bounds memory, still large enough to be fast


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's global stream seeded inside, restored outside."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One thread: with a busy second core two were 90 times slower than one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def generator(seed: int) -> torch.Generator:
    """A generator of its own."""
    return torch.Generator().manual_seed(seed)


@torch.no_grad()
def evaluate(function: Callable[..., Tensor], *tables: np.ndarray) -> Array:
    """Function over rows of float32 tables, in chunks, on one thread; (n,) float64."""
    with one_thread():
        parts = [
            function(*(_tensor(t[i : i + CHUNK]) for t in tables)).numpy() for i in range(0, len(tables[0]), CHUNK)
        ]
    return np.concatenate(parts).astype(np.float64) if parts else np.zeros(0)


def _tensor(table: np.ndarray) -> Tensor:
    """A tensor over the rows; one row repeated stays one row in memory."""
    if len(table) > 1 and table.strides[0] == 0:
        return torch.from_numpy(np.array(table[:1])).expand(table.shape)
    return torch.from_numpy(np.ascontiguousarray(table)) if table.flags.writeable else torch.from_numpy(table.copy())


@torch.no_grad()
def draw(net: DensityNet, n: int, c: np.ndarray, g: torch.Generator) -> Array:
    """N draws (n, p) given one row c (1, ...)."""
    with one_thread():
        return net.sample(n, torch.from_numpy(c), g).numpy().astype(np.float64)
