"""One driver per folder: a kernel lock that dies with its owner, so there is never a stale one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
from pathlib import Path

from thrifty.errors import FolderInUseError, StorageError, warn
from thrifty.store.schema import explain, storage_error

KERNEL_LOCKS = Path("/proc/locks")  # of Linux


class FolderLock:
    """`with FolderLock(folder):` owns the folder for writing; readers never need it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "lock"
        self._file: int | None = None

    def __enter__(self) -> FolderLock:
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            found = explain(self.path.parent) if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOSPC) else None
            if found is not None:
                raise storage_error(self.path.parent, *found) from None
            raise StorageError(f"cannot write to {self.path.parent}: {error.strerror}", code="disk-problem") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                owner = _owner(file)
                os.close(file)
                raise FolderInUseError(
                    f"{self.path.parent} is in use by {owner}",
                    code="folder-in-use",
                    why="two drivers would run the same simulations twice",
                    fix="wait for it, or watch it: Campaign.open(folder).status()",
                ) from None
            warn(
                f"[disk-problem] {self.path.parent}: this file system has no locks ({error.strerror});"
                " start one driver only"
            )
        self._file = file
        with contextlib.suppress(OSError):  # who holds it, for the message; a full disk must not stop us here
            note = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps(note).encode(), 0)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _owner(file: int) -> str:
    try:
        note = json.loads(os.pread(file, 4096, 0))
        pid, host, since = int(note["pid"]), str(note["host"])[:100], str(note["since"])[:30]
    except (ValueError, KeyError, TypeError, OSError):
        return "another process"
    return "".join(c for c in f"pid {pid} on {host} since {since}" if c.isprintable())


def has_driver(folder: Path) -> bool | None:
    """Whether a process holds the folder's lock, by the kernel's list of locks; None on systems without such a list.

    Trying to take the lock would answer this too, but could make a driver that starts at that moment fail.
    """
    try:
        held = KERNEL_LOCKS.read_text()
    except OSError:
        return None
    try:
        inode = (folder / "lock").stat().st_ino
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return any("FLOCK" in line and f":{inode} " in line for line in held.splitlines())
