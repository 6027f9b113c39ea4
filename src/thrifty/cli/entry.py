"""The way in and the way out: every error becomes a message and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from thrifty.errors import ThriftyWarning


def main() -> None:
    """`thrifty` on the command line."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; its exit code. What it sets is gone afterwards: it may be called from a program."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", ThriftyWarning)
        warnings.showwarning = _once_each()
        return copy_context().run(_run, arguments)


def _run(arguments: list[str]) -> int:
    try:
        from thrifty.cli.app import app

        code = app(arguments, prog_name="thrifty", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:  # `thrifty status | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except BaseException as error:
        from thrifty.cli.failures import explain

        return explain(error, json="--json" in arguments)


def _once_each() -> Callable[..., None]:
    """Show each warning once, as one line; a line number of thrifty helps nobody who uses it from a shell."""
    seen: set[str] = set()

    def show(message: Any, category: Any, *where: Any) -> None:
        if issubclass(category, ThriftyWarning):
            if str(message) not in seen:
                seen.add(str(message))
                print(f"warning: {message}", file=sys.stderr, flush=True)
        elif os.environ.get("THRIFTY_DEBUG"):
            print(warnings.formatwarning(message, category, *where[:2]), file=sys.stderr)

    return show
