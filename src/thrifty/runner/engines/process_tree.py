"""Find and end processes that workers started, also after the driver was killed.

`CleanupProcess` starts a small process that outlives the driver by a moment. The driver tells it the process id of
each worker through a pipe. When the pipe closes, because the driver closed it or was killed, every worker that still
exists ends with all it started, in whatever session. `psutil.Process` remembers when a process started, so that a
process id that is used again by somebody else is never touched.

This module imports nothing of thrifty: the small process must start quickly.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

MARK = "THRIFTY_RUN"  # environment variable that tells what a program started from what others started
MAX_ROUNDS = 20  # looks at a tree that grows while it ends; the second nearly always shows that nothing is left
CLOSE_SECONDS = 5.0  # to wait for the small process when the driver ends in order
KILL_SECONDS = 2.0  # to wait for killed workers; it takes milliseconds unless the kernel holds one
OUT_OF_MEMORY_COUNTERS = "/proc/vmstat"
OUT_OF_MEMORY_SECONDS = 1.0  # between two looks at the counter; a death is noticed within a tenth of that
_SET_CHILD_SUBREAPER = 36  # of prctl: orphans of a program become children of the worker, which can end them
_PROCESS_ID = struct.Struct("=q")
_SCRIPT = "import sys; sys.path += sys.argv[1:3]; import process_tree; process_tree.clean_up_after_driver(sys.argv[3])"


class CleanupProcess:
    """The driver's side of the small process that ends workers when the driver is gone.

    Attributes:
        scratch: Folder for what runs write; the small process removes it at the end.
    """

    def __init__(self) -> None:
        self.scratch = tempfile.mkdtemp(prefix="thrifty-")
        self._workers: set[int] = set()
        self._start()

    def _start(self) -> None:
        reader, self._writer = os.pipe()
        folders = [str(Path(psutil.__file__).parent.parent), str(Path(__file__).parent)]
        # without site-packages: 40 ms of CPU time less for each campaign
        command = [sys.executable, "-I", "-S", "-c", _SCRIPT, *folders, self.scratch]
        self._process = subprocess.Popen(command, stdin=reader, start_new_session=True)
        os.close(reader)

    def add_worker(self, pid: int) -> None:
        """End this worker when the driver is gone; call it before the worker gets something to run."""
        self._workers.add(pid)
        self._announce([pid])

    def forget_worker(self, pid: int) -> None:
        """Leave out a worker that ended."""
        self._workers.discard(pid)

    def ensure_running(self) -> None:
        """Start another small process if somebody killed this one."""
        if self._process.poll() is not None:
            os.close(self._writer)
            self._start()
            self._announce(sorted(self._workers))

    def _announce(self, pids: list[int]) -> None:
        with contextlib.suppress(BrokenPipeError):  # it was killed: `ensure_running` starts another and repeats all
            os.write(self._writer, b"".join(map(_PROCESS_ID.pack, pids)))

    def close(self) -> None:
        """Let it end what is left, remove the folder, and end."""
        os.close(self._writer)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=CLOSE_SECONDS)


def clean_up_after_driver(scratch: str) -> None:
    """Collect process ids from standard input until it closes, then end these processes and remove the folder."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    workers: dict[int, psutil.Process] = {}
    rest = b""
    while chunk := os.read(sys.stdin.fileno(), 4096):
        rest += chunk
        whole = len(rest) - len(rest) % _PROCESS_ID.size
        for (pid,) in _PROCESS_ID.iter_unpack(rest[:whole]):
            if (worker := find_process(pid)) is not None:
                workers[pid] = worker
        rest = rest[whole:]
    for worker in workers.values():
        end_tree(worker)
    until = time.monotonic() + KILL_SECONDS  # a worker that still writes would keep its folder
    while (
        any(process_state(worker) != psutil.STATUS_ZOMBIE for worker in workers.values()) and time.monotonic() < until
    ):
        time.sleep(0.01)
    shutil.rmtree(scratch, ignore_errors=True)


def find_process(pid: int) -> psutil.Process | None:
    """Return the process with this id, or None where it ended."""
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


def find_descendants(process: psutil.Process) -> list[psutil.Process]:
    """List children of a process, and theirs, that have not ended, whatever session they made for themselves."""
    try:
        return [child for child in process.children(recursive=True) if process_state(child) != psutil.STATUS_ZOMBIE]
    except psutil.Error:  # it ended meanwhile
        return []


def process_state(process: psutil.Process) -> str:
    """Return running, sleeping, stopped, ...; "zombie" also for a process that is gone."""
    try:
        return process.status()
    except psutil.Error:
        return psutil.STATUS_ZOMBIE


def process_cpu_seconds(process: psutil.Process) -> float:
    """Return CPU seconds of a live process and (on Linux) of its ended children; 0 where it is gone."""
    try:
        return float(sum(process.cpu_times()[:4]))
    except psutil.Error:
        return 0.0


def end_tree(process: psutil.Process) -> None:
    """Kill a process, the group it leads, and all its descendants outside the group.

    It is stopped first, so that it starts nothing more; descendants that start others meanwhile are looked for again.
    """
    if psutil.pid_exists(process.pid) and not process.is_running():  # somebody else has the process id now
        return
    with contextlib.suppress(psutil.Error):
        process.suspend()
    for _ in range(MAX_ROUNDS):
        if not (family := find_descendants(process)):
            break
        _kill_each(family)
    end_group(process.pid)
    _kill_each([process])  # it leads no group if it had only just started


def end_group(pid: int) -> None:
    """Kill the process group that this process leads or led."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _kill_each(family: list[psutil.Process]) -> None:
    for member in family:
        with contextlib.suppress(psutil.Error):
            member.kill()


def adopt_orphans() -> None:
    """Make processes whose parent ended children of this process.

    Linux only. Elsewhere a program's background processes end with the worker, not with the run, and those in a
    session of their own are not found.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_marked(mark: str) -> None:
    """End what a program left running, and nothing else: the worker may have other programs under way."""
    for _ in range(MAX_ROUNDS):  # the children of those that end become ours
        if not _has_children():
            return
        roots = [child for child in find_descendants(psutil.Process()) if _has_mark(child, mark)]
        family = list(dict.fromkeys(member for root in roots for member in (root, *find_descendants(root))))
        _kill_each(family)
        for member in family:
            with contextlib.suppress(ChildProcessError):  # a grandchild is reaped in the next round, when it is ours
                os.waitpid(member.pid, 0)
        if not family:
            return


def _has_children() -> bool:
    """Whether this process has children, ended ones included: one system call where psutil reads every process."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    except AttributeError:  # no such call on this system
        return True
    return True


def _has_mark(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(MARK, "").startswith(mark)
    except psutil.Error:  # it ended meanwhile
        return False


class OutOfMemoryCounter:
    """Tell whether the kernel has just killed something for lack of memory.

    Linux counts such kills (`oom_kill` in /proc/vmstat, those of a container's or batch job's memory limit included).
    If the count rose in the moments before a worker died by SIGKILL, memory was the cause, and the run its likely
    reason. Elsewhere there is no such count: a kill for lack of memory looks like a kill from outside.

    Example:
        >>> OutOfMemoryCounter().has_risen()
        False
    """

    def __init__(self, path: str = OUT_OF_MEMORY_COUNTERS) -> None:
        self._path = path
        self._before = self._last = self._read()
        self._read_at = 0.0

    def update(self, now: float) -> None:
        """Remember the count, once a second."""
        if now - self._read_at >= OUT_OF_MEMORY_SECONDS:
            self._read_at, self._before, self._last = now, self._last, self._read()

    def has_risen(self) -> bool:
        """Whether the count rose within the last second or two."""
        return self._read() > self._before

    def _read(self) -> int:
        """Return the kernel's count since boot; 0 where there is none."""
        try:
            with open(self._path, "rb") as file:
                return next((int(line.split()[1]) for line in file if line.startswith(b"oom_kill ")), 0)
        except (OSError, ValueError, IndexError):
            return 0
