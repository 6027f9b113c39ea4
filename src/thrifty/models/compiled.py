"""`kernel`: numba's compiler with the settings that all event loops share.

Kernels allocate nothing per event, release the GIL, and are compiled once per machine (numba's file cache).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from thrifty.errors import MissingExtraError

try:
    import numba
    from llvmlite import ir
    from numba.extending import intrinsic
except ImportError as error:
    raise MissingExtraError(
        f"this model's event loop is compiled by numba, which cannot be imported ({error})",
        code="missing-extra",
        why="in plain Python a run takes about a hundred times longer",
        fix='pip install "thrifty[models]"; th.models.GaussianToy needs nothing extra',
    ) from error


def _forget_stale_code() -> None:
    """Drop cached machine code older than any file of this folder: numba looks at a loop's own file only."""
    folder = Path(__file__).parent
    newest = max(path.stat().st_mtime for path in folder.glob("*.py"))
    for cached in (folder / "__pycache__").glob("*.nbi"):
        with suppress(OSError):  # a read-only installation keeps what it came with
            if cached.stat().st_mtime < newest:
                cached.unlink()


_forget_stale_code()
_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """Compile an event loop on its first call and keep the machine code in numba's file cache.

    Where no folder can be written (an installation and a home that are both read-only) the code is
    compiled again in each process: slower to start, the same numbers.
    """
    return _compile(function, fastmath=False)


def fast_kernel(function: _Function) -> _Function:
    """Like `kernel`, but sums may be taken in any order: the compiler then adds four numbers at a time."""
    return _compile(function, fastmath={"reassoc", "contract", "nsz"})  # NaN and infinity keep their meaning


def _compile(function: _Function, *, fastmath: bool | set[str]) -> _Function:
    try:
        return numba.njit(nogil=True, cache=True, fastmath=fastmath)(function)  # type: ignore[return-value]
    except RuntimeError:  # "no locator available for file": nowhere to keep the cache
        return numba.njit(nogil=True, fastmath=fastmath)(function)  # type: ignore[return-value]


def _lowest_bit(typing: Any, bits: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return numba.types.uint64(numba.types.uint64), emit


# place of the lowest 1 of a 64-bit word that has one: a single machine instruction, for use in kernels
trailing_zeros: Any = intrinsic(_lowest_bit)
