"""The pipes between the driver and one worker: bundles there, outcomes back, without a thread between.

A message is its length in eight bytes and a pickle, from one of our processes to another, in memory. The driver never
waits for a worker: what does not fit into a pipe is sent when there is room, and half a message from a worker that was
killed is thrown away with its lane. The lane is the worker's own, so a death disturbs nobody else.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
from collections import deque
from typing import Any

from thrifty.runner.engines.forkserver import CONTEXT

_LENGTH = struct.Struct("=Q")
_PIECE = 1 << 16  # bytes: what a pipe holds
LONGEST = 1 << 40  # bytes: a thousand runs of the largest output allowed are a quarter of this


class GarbledError(Exception):
    """What came through a pipe is no message: somebody else wrote into it, as a forked copy of the worker does."""


def framed(message: Any) -> bytes:
    """A message as bytes."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


class Frames:
    """Cuts what came through a pipe into messages.

    Example:
        >>> frames = Frames()
        >>> data = framed("first") + framed("second")
        >>> [frames.feed(data[:-3]), frames.feed(data[-3:])]
        [['first'], ['second']]
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """Messages that are complete now."""
        self._buffer += data
        found = []
        while len(self._buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._buffer)[0]
            if end > LONGEST:
                raise GarbledError(f"a message of {end:,} bytes is announced")
            if len(self._buffer) < end:
                break
            try:
                found.append(pickle.loads(memoryview(self._buffer)[_LENGTH.size : end].tobytes()))
            except Exception as problem:  # whatever the bytes mean, they are not ours
                raise GarbledError(f"{type(problem).__name__}: {problem}") from None
            del self._buffer[:end]
        return found


class Lane:
    """The driver's ends of a worker's pipes; `theirs` goes to the worker when it starts."""

    def __init__(self) -> None:
        reads, self._out = CONTEXT.Pipe(duplex=False)
        self._in, writes = CONTEXT.Pipe(duplex=False)
        self.theirs = (reads, writes)
        for end in (self._in, self._out):
            os.set_blocking(end.fileno(), False)
        self._frames, self._unsent = Frames(), bytearray()

    def fileno(self) -> int:
        """Readable when the worker has said something."""
        return self._in.fileno()

    def send(self, message: Any) -> None:
        """Send now, or as soon as the pipe has room."""
        self._unsent += framed(message)
        self.flush()

    def flush(self) -> bool:
        """Send what waits; whether something still does."""
        if not self._unsent:
            return False
        with contextlib.suppress(BlockingIOError, BrokenPipeError):  # a worker that is gone is reported by its pool
            while self._unsent:
                del self._unsent[: os.write(self._out.fileno(), memoryview(self._unsent)[:_PIECE].tobytes())]
        return bool(self._unsent)

    def receive(self) -> list[Any]:
        """Complete messages; never waits."""
        found: list[Any] = []
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._in.fileno(), _PIECE):
                found += self._frames.feed(data)
        return found

    def close(self) -> None:
        """A worker that waits for more ends itself."""
        for end in (*self.theirs, self._in, self._out):
            end.close()


class WorkerLane:
    """The worker's ends: it waits for bundles and for room."""

    def __init__(self, reads: Any, writes: Any) -> None:
        self._reads, self._writes = reads, writes
        self._frames, self._messages = Frames(), deque[Any]()

    def receive(self) -> Any:
        """The next message; EOFError when the driver is gone."""
        while not self._messages:
            data = os.read(self._reads.fileno(), _PIECE)
            if not data:
                raise EOFError
            self._messages.extend(self._frames.feed(data))
        return self._messages.popleft()

    def send(self, message: Any) -> None:
        """Send all of it."""
        data = memoryview(framed(message))
        while data:
            data = data[os.write(self._writes.fileno(), data) :]
