"""A tiny process that outlives the driver by a moment and ends what the driver started.

Started as a script with a pipe as its standard input. Each worker announces itself through the pipe
as two 64-bit numbers (process group, start time). When the last writer is gone, because the driver
closed the pipe or was killed, every announced process group that still exists is killed: workers,
and the programs they started, in whatever session. A process number used again by somebody else has another
start time. Then the folder named as its argument, where runs wrote, is removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import struct
import sys

RECORD = struct.Struct("=qq")
ROUNDS = (
    20  # looks at a family that grows while it is ended; one and a second to see that none is left do nearly always
)


def stat(pid: int) -> list[bytes]:
    """The kernel's line about a process, from its state on; empty where unknown or ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def start_time(pid: int) -> int:
    """When a process began, in clock ticks since boot; 0 where unknown or ended."""
    fields = stat(pid)
    return int(fields[19]) if len(fields) > 19 else 0


def children(pid: int) -> list[int]:
    """Children of a process that have not ended."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:  # it ended meanwhile, or the kernel keeps no such list
        return []
    return [child for child in found if stat(child)[:1] != [b"Z"]]


def descendants(pid: int) -> list[int]:
    """Children of a process, and theirs, whatever group or session they made for themselves."""
    found = children(pid)
    for child in found:  # grows while it is read
        found += children(child)
    return found


def end_tree(pid: int, born: int) -> None:
    """Kill a process that leads a group, all of the group, and all its descendants outside the group.

    It is stopped first, so that it starts nothing more; descendants that start others meanwhile are looked for again.
    A process of another start time has only inherited the number.
    """
    if start_time(pid) not in (0, born):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGSTOP)
    for _ in range(ROUNDS):
        family = descendants(pid)
        for member in family:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(member, signal.SIGKILL)
        if not family:
            break
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def announce(write_end: int) -> int:
    """Called by a worker that leads its own process group: one atomic write; its start time."""
    pid = os.getpid()
    born = start_time(pid)
    os.write(write_end, RECORD.pack(pid, born))
    return born


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
        end_tree(group, began)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watch(sys.stdin.fileno())
    for folder in sys.argv[1:]:
        shutil.rmtree(folder, ignore_errors=True)
