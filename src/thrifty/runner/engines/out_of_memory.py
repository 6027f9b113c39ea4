"""Whether the kernel killed something for lack of memory: what tells a run's own death from a kill from outside.

Linux counts such kills (`oom_kill` in /proc/vmstat, those of a container's or batch job's memory limit included). If
the count rose in the moments before a worker died by SIGKILL, memory was the cause, and the run its likely reason.
"""

from __future__ import annotations

COUNTERS = "/proc/vmstat"
EVERY = 1.0  # seconds between looks; a death is noticed within a fifth of that


def out_of_memory_kills(path: str = COUNTERS) -> int:
    """The kernel's count since boot; 0 where there is none."""
    try:
        with open(path, "rb") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(b"oom_kill ")), 0)
    except (OSError, ValueError, IndexError):
        return 0


class OutOfMemory:
    """The count now against that of one to two seconds ago.

    Example:
        >>> OutOfMemory().killed()
        False
    """

    def __init__(self, path: str = COUNTERS) -> None:
        self._path = path
        self._before = self._last = out_of_memory_kills(path)
        self._at = 0.0

    def look(self, now: float) -> None:
        """Remember the count, once a second."""
        if now - self._at >= EVERY:
            self._at, self._before, self._last = now, self._last, out_of_memory_kills(self._path)

    def killed(self) -> bool:
        """Whether the count rose within the last second or two."""
        return out_of_memory_kills(self._path) > self._before
