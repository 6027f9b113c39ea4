"""Ending what an external program leaves running in the background, and nothing that others started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

from thrifty.runner.engines.process_tree import ROUNDS, descendants

MARK = "THRIFTY_RUN"  # environment variable by which all that a program starts can be told from what others started
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphans of the program become ours, so that they can be ended


def adopt_orphans() -> None:
    """From now on, processes whose parent ended become children of this one (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def end_group(pid: int) -> None:
    """End what a program with a session of its own left running."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def end_marked(mark: str) -> None:
    """End what the program left running, and nothing else: the worker may have other programs under way."""
    for _ in range(ROUNDS):  # the children of those that are ended become ours
        roots = [pid for pid in descendants(os.getpid()) if _marked(pid, mark)]
        family = dict.fromkeys(member for root in roots for member in (root, *descendants(root)))
        for child in family:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        for child in family:
            with contextlib.suppress(ChildProcessError):  # a grandchild is reaped in the next round, when it is ours
                os.waitpid(child, 0)
        if not family:
            return


def _marked(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it ended meanwhile
        return False
