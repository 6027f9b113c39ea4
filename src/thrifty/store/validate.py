"""Values of a store that are whole, but that no thrifty ever wrote: wrong types, negative counts, sizes beyond reason.

A checksum vouches for the bytes, not for who wrote them. What the rest of the code relies on is checked here, once,
before anything is allocated by it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thrifty.errors import DamagedStoreError

MAX_BLOCK_DRAWS = 10**8  # of one block: a plan of so many takes tens of gigabytes
MAX_MISSING_DRAWS = 10**7  # draws that blocks name and the file has not: listing them takes a gigabyte
BLOCK = ("id", "part", "first", "n", "mode", "admitted")


def malformed_store_error(folder: Path | None, what: str) -> DamagedStoreError:
    """The one error for all of them."""
    return DamagedStoreError(
        f"refusing {folder or 'the folder'}: {what}",
        code="untrusted-folder",
        why="its checksum is right, but thrifty writes no such value",
        fix="if this is damage: th.Campaign.mend(folder) keeps the rows that are right, in a new file",
    )


@contextlib.contextmanager
def reject_malformed(folder: Path | None, what: str) -> Iterator[None]:
    """What is read inside is made of numbers from a file: whatever goes wrong is the file's fault."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise malformed_store_error(
            folder, f"{what} cannot be reject_malformed ({type(error).__name__}: {str(error)[:80]})"
        ) from None


def _whole(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _prior(value: Any) -> bool:
    if not isinstance(value, dict) or not _texts(value.get("names")) or not value["names"]:
        return False
    dim = len(value["names"])
    try:
        low, high = (np.array([float(end) for end in value[key]]) for key in ("low", "high"))
        draws, density = (np.asarray(value[key], dtype=np.float64) for key in ("draws", "log_prob"))
    except (LookupError, TypeError, ValueError):
        return False
    fits = density.ndim == 1 and draws.shape in ((len(density), dim), (len(density),))
    return len(low) == len(high) == dim and fits and draws.size == dim * len(density)


def _optional_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


_SETTINGS: dict[str, Callable[[Any], bool]] = {
    "seed": _whole,
    "m": lambda value: _whole(value, 1) and value <= MAX_BLOCK_DRAWS,
    "cost": lambda value: value in ("cpu", "wall", "reported"),
    "price": _optional_text,
    "unit": _optional_text,
    "budget": _optional_text,
    "prior": _prior,
    "simulator": lambda value: isinstance(value, dict),
    "shape": lambda value: isinstance(value, list) and all(_whole(size) for size in value),
    "pilots": _whole,
    "target": lambda value: value is None or (isinstance(value, list) and len(value) == 2 and all(map(_whole, value))),
    "deterministic": lambda value: isinstance(value, bool),
    "notes": _texts,
    "plans": lambda value: isinstance(value, dict) and all(_whole(part) for part in value.values()),
    "cost_model": lambda value: isinstance(value, dict),
}


def parse_settings(rows: Sequence[tuple[str, str]], folder: Path) -> dict[str, Any]:
    """Settings by name, from their JSON."""
    with reject_malformed(folder, "a setting"):
        found = {key: json.loads(value) for key, value in rows}
    missing = [key for key in ("seed", "prior", "cost", "m", "simulator") if key not in found]
    if missing:
        raise DamagedStoreError(f"settings {missing} of {folder} are gone", code="damaged-folder")
    for key, right in _SETTINGS.items():
        if key in found and not right(found[key]):
            raise malformed_store_error(folder, f"setting {key!r} is {json.dumps(found[key])[:60]}")
    return found


def parse_parts(rows: Sequence[tuple[int, str, str]], folder: Path) -> dict[int, tuple[str, dict[str, Any]]]:
    """Frozen proposals by number, from their JSON."""
    with reject_malformed(folder, "a frozen proposal"):
        found = {number: (kind, json.loads(recipe)) for number, kind, recipe in rows}
    for number, (kind, recipe) in found.items():
        if not isinstance(kind, str) or not isinstance(recipe, dict):
            raise malformed_store_error(folder, f"frozen proposal {number} is no recipe")
    return found


def parse_blocks(
    rows: Sequence[tuple[Any, ...]], folder: Path, *, parts: Container[int] | None = None
) -> list[dict[str, Any]]:
    """Blocks in order; each is of one of the `parts`, where these are given."""
    found: list[dict[str, Any]] = [dict(zip(BLOCK, row, strict=True)) for row in rows]
    for block in found:
        whole = all(_whole(block[key]) for key in BLOCK if key != "mode") and isinstance(block["mode"], str)
        if not whole or not block["admitted"] <= block["n"] <= MAX_BLOCK_DRAWS or block["first"] > 2**53:
            raise malformed_store_error(folder, f"block {block['id']} is {tuple(block.values())!s:.100}")
        if parts is not None and block["part"] not in parts:
            raise malformed_store_error(
                folder, f"block {block['id']} was drawn from proposal {block['part']}, which is not there"
            )
    return found
