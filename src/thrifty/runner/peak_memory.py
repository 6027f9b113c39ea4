"""Measure the peak memory of each run and of the programs it started."""

from __future__ import annotations

import contextlib
import os
import resource
import sys

RESET_SECONDS = 0.05  # between two resets of the kernel's mark, which take a system call
RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes of one unit of ru_maxrss


class PeakMemory:
    """Measure the peak memory of a run in bytes with the kernel's high-water mark, reset before the run.

    It can be reset on Linux only; elsewhere the value is the peak of the worker so far. Runs that follow each other
    within 50 ms share one mark: the value is then the peak of the worker over the last moments, an upper bound.
    """

    def __init__(self) -> None:
        self._reset_at, self._owner, self._mark = -1.0, 0, -1
        self._program = 0  # peak of external programs, as the kernel reports it when they end

    def begin(self, now: float) -> None:
        """Reset the mark, unless that was done a moment ago."""
        self._program = 0
        if now - self._reset_at > RESET_SECONDS:
            self._reset_at = now
            with contextlib.suppress(OSError):  # no such file: not Linux
                if self._owner != os.getpid():  # a fork must not reset its parent's mark
                    self._owner, self._mark = os.getpid(), os.open("/proc/self/clear_refs", os.O_WRONLY)
                os.write(self._mark, b"5")

    def end(self) -> int:
        """Read the mark."""
        return max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT, self._program)

    def add_program(self, usage: resource.struct_rusage) -> None:
        """Take an external program into account when it has ended."""
        self._program = max(self._program, usage.ru_maxrss * RSS_UNIT)


PEAK_MEMORY = PeakMemory()
