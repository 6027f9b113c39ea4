"""A tiny process that outlives the driver by a moment and ends what the driver started.

Started as a script with a pipe as its standard input. Each worker announces itself through the pipe
as two 64-bit numbers (process group, start time). When the last writer is gone, because the driver
closed the pipe or was killed, every announced process group that still exists is killed: workers,
and the programs they started. A process number used again by somebody else has another start time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import sys

RECORD = struct.Struct("=qq")


def start_time(pid: int) -> int:
    """When a process began, in clock ticks since boot; 0 where unknown or ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def announce(write_end: int) -> None:
    """Called by a worker that leads its own process group: one atomic write."""
    pid = os.getpid()
    os.write(write_end, RECORD.pack(pid, start_time(pid)))


def watch(read_end: int) -> None:
    """Collect announcements until the pipe closes, then end what is left."""
    groups: dict[int, int] = {}
    rest = b""
    while chunk := os.read(read_end, 4096):
        rest += chunk
        whole = len(rest) - len(rest) % RECORD.size
        groups.update(RECORD.iter_unpack(rest[:whole]))
        rest = rest[whole:]
    for group, began in groups.items():
        now = start_time(group)
        if now in (0, began):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watch(sys.stdin.fileno())
