"""Settings, proposals and blocks of a store, parsed and checked for values that thrifty never writes.

A checksum proves that the bytes are unchanged, not who wrote them. Types, counts and sizes on which the rest of the
code relies are checked here, once, before memory is allocated for them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from thrifty.errors import DamagedStoreError

MAX_BLOCK_DRAWS = 10**8  # a plan of so many takes tens of gigabytes
MAX_MISSING_DRAWS = 10**7  # draws that blocks name and the file does not have: listing them takes a gigabyte


@dataclass(frozen=True)
class Part:
    """A frozen proposal: "prior", or a kind of proposal with the numbers that define it."""

    kind: str
    recipe: dict[str, Any]


@dataclass(frozen=True)
class Block:
    """Draws committed together: indices first .. first + n - 1 of one part.

    Attributes:
        id, part: Numbers of the block and of its frozen proposal.
        first, n: Its first index, and how many draws it has.
        mode: "pilot", "n" (all will be completed) or "budget".
        admitted: How many of them will be completed.
    """

    id: int
    part: int
    first: int
    n: int
    mode: str
    admitted: int

    @property
    def indices(self) -> range:
        """Plan indices of its draws."""
        return range(self.first, self.first + self.n)


@dataclass(frozen=True)
class BlockState:
    """How far the runs of a block are.

    Attributes:
        part, mode: Of the block.
        start: Its first index.
        n: Draws that count.
        pending: How many of them have no run.
        first: Lowest index without a run.
        limit: Largest predicted cost of a draw without a run, NaN where one has no prediction.
    """

    part: int
    mode: str
    start: int
    n: int
    pending: int
    first: int
    limit: float


BLOCK_COLUMNS = tuple(column.name for column in fields(Block))


def malformed_store_error(folder: Path | None, what: str) -> DamagedStoreError:
    """Return the error for a value that thrifty never writes."""
    return DamagedStoreError(
        f"refusing {folder or 'the folder'}: {what}",
        code="untrusted-folder",
        why="thrifty never writes such a value",
        fix="if this is damage: th.Campaign.repair(folder) keeps the correct rows, in a new file",
    )


def damaged_rows_error(folder: Path, indices: set[int]) -> DamagedStoreError:
    """Return the error for rows that fail their checksum, or vanished."""
    bad = sorted(indices)
    listed = ", ".join(map(str, bad[:10])) + (", ..." if len(bad) > 10 else "")
    return DamagedStoreError(
        f"{len(bad)} records of {folder} fail their checksum (indices {listed})",
        code="damaged-folder",
        why="a changed value would be used as if it had been simulated",
        fix="verify(repair=True) runs them again",
    )


@contextlib.contextmanager
def reject_malformed(folder: Path | None, what: str) -> Iterator[None]:
    """Turn any error that values from a file cause inside this context into `malformed_store_error`."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise malformed_store_error(
            folder, f"{what} cannot be read ({type(error).__name__}: {str(error)[:80]})"
        ) from None


def _is_count(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_cost(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < np.inf


def _is_counts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_count, value))


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_prior(value: Any) -> bool:
    if not isinstance(value, dict) or not _is_texts(value.get("names")) or not value["names"]:
        return False
    dim = len(value["names"])
    try:
        low, high = (np.array([float(end) for end in value[key]]) for key in ("low", "high"))
        draws, density = (np.asarray(value[key], dtype=np.float64) for key in ("draws", "log_prob"))
    except (LookupError, TypeError, ValueError):
        return False
    fits = density.ndim == 1 and draws.shape in ((len(density), dim), (len(density),))
    return len(low) == len(high) == dim and fits and draws.size == dim * len(density)


def _is_optional_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


_SETTINGS: dict[str, Callable[[Any], bool]] = {
    "seed": _is_count,
    "m": lambda value: _is_count(value, 1) and value <= MAX_BLOCK_DRAWS,
    "cost": lambda value: value in ("cpu", "wall", "reported"),
    "price": _is_optional_text,
    "unit": _is_optional_text,
    "budget": _is_optional_text,
    "prior": _is_prior,
    "simulator": lambda value: isinstance(value, dict),
    "shape": _is_counts,
    "x_names": _is_texts,
    "x_order": lambda value: (
        isinstance(value, list) and len(value) == 2 and _is_count(value[0]) and _is_texts(value[1])
    ),
    "pilots": _is_count,
    "target": lambda value: (
        value is None or (isinstance(value, list) and len(value) == 2 and all(map(_is_count, value)))
    ),
    "deterministic": lambda value: isinstance(value, bool),
    "notes": _is_texts,
    "plans": lambda value: isinstance(value, dict) and all(_is_count(part) for part in value.values()),
    "figures": lambda value: isinstance(value, dict) and all(isinstance(item, dict) for item in value.values()),
    "discarded": lambda value: isinstance(value, dict) and all(_is_cost(cost) for cost in value.values()),
    "cost_model": lambda value: isinstance(value, dict),
    "generations": _is_count,
    "rounds": lambda value: value is None or (isinstance(value, dict) and isinstance(value.get("identity"), dict)),
}


def parse_settings(rows: Sequence[tuple[str, str]], folder: Path) -> dict[str, Any]:
    """Return settings by name, from their JSON."""
    with reject_malformed(folder, "a setting"):
        found = {key: json.loads(value) for key, value in rows}
    missing = [key for key in ("seed", "prior", "cost", "m", "simulator") if key not in found]
    if missing:
        raise DamagedStoreError(f"settings {missing} of {folder} are missing", code="damaged-folder")
    for key, right in _SETTINGS.items():
        if key in found and not right(found[key]):
            raise malformed_store_error(folder, f"setting {key!r} is {json.dumps(found[key])[:60]}")
    return found


def parse_parts(rows: Sequence[tuple[int, str, str]], folder: Path) -> dict[int, Part]:
    """Return frozen proposals by number, from their JSON."""
    with reject_malformed(folder, "a frozen proposal"):
        found = {number: Part(kind, json.loads(recipe)) for number, kind, recipe in rows}
    for number, part in found.items():
        if not isinstance(part.kind, str) or not isinstance(part.recipe, dict):
            raise malformed_store_error(folder, f"frozen proposal {number} is not a description of a proposal")
    return found


def parse_blocks(rows: Sequence[tuple[Any, ...]], folder: Path, *, parts: Container[int]) -> list[Block]:
    """Return blocks in order; each belongs to one of the `parts`."""
    found = [Block(*row) for row in rows]
    for block in found:
        counts = (block.id, block.part, block.first, block.n, block.admitted)
        valid = all(_is_count(value) for value in counts) and isinstance(block.mode, str)
        if not valid or not block.admitted <= block.n <= MAX_BLOCK_DRAWS or block.first > 2**53:
            raise malformed_store_error(folder, f"block {block.id} is {astuple(block)!s:.100}")
        if block.part not in parts:
            raise malformed_store_error(
                folder, f"block {block.id} was drawn from proposal {block.part}, which does not exist"
            )
    return found
