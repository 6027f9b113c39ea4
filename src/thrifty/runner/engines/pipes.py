"""Send bundles to one worker and outcomes back through two pipes, without a thread between.

A message is its length in eight bytes and a pickle, from one of our processes to another, in memory. The driver never
waits for a worker: what does not fit into a pipe is sent when there is room, and half a message from a worker that was
killed is discarded with its pipes. Each worker has pipes of its own, so a death disturbs nobody else.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import struct
from collections import deque
from typing import Any

_LENGTH = struct.Struct("=Q")
_PIPE_BYTES = 1 << 16  # what a pipe holds
MAX_MESSAGE_BYTES = 1 << 40  # a thousand runs of the largest output allowed are a quarter of this


class GarbledError(Exception):
    """What came through a pipe is no message: somebody else wrote into it, as a forked copy of the worker does."""


def encode_message(message: Any) -> bytes:
    """Turn a message into bytes, its length first."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


class MessageDecoder:
    """Cut the bytes that came through a pipe into messages.

    Example:
        >>> decoder = MessageDecoder()
        >>> data = encode_message("first") + encode_message("second")
        >>> [decoder.feed(data[:-3]), decoder.feed(data[-3:])]
        [['first'], ['second']]
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """Take more bytes; return the messages that are complete now."""
        self._buffer += data
        found = []
        while len(self._buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._buffer)[0]
            if end > MAX_MESSAGE_BYTES:
                raise GarbledError(f"a message of {end:,} bytes is announced")
            if len(self._buffer) < end:
                break
            try:
                found.append(pickle.loads(memoryview(self._buffer)[_LENGTH.size : end].tobytes()))
            except Exception as problem:  # whatever the bytes mean, they are not ours
                raise GarbledError(f"{type(problem).__name__}: {problem}") from None
            del self._buffer[:end]
        return found


class DriverPipes:
    """The driver's ends of a worker's pipes; `worker_ends` goes to the worker when it starts."""

    def __init__(self) -> None:
        reads, self._out = multiprocessing.Pipe(duplex=False)
        self._in, writes = multiprocessing.Pipe(duplex=False)
        self.worker_ends = (reads, writes)
        for end in (self._in, self._out):
            os.set_blocking(end.fileno(), False)
        self._decoder, self._unsent = MessageDecoder(), bytearray()

    def fileno(self) -> int:
        """Return what a selector watches: readable when the worker has sent something."""
        return self._in.fileno()

    def send(self, message: Any) -> None:
        """Send now, or as soon as the pipe has room."""
        self._unsent += encode_message(message)
        self.flush()

    def flush(self) -> bool:
        """Send what waits; return whether something still does."""
        if not self._unsent:
            return False
        with contextlib.suppress(BlockingIOError, BrokenPipeError):  # the death of a worker is noticed elsewhere
            while self._unsent:
                del self._unsent[: os.write(self._out.fileno(), memoryview(self._unsent)[:_PIPE_BYTES].tobytes())]
        return bool(self._unsent)

    def receive(self) -> list[Any]:
        """Return complete messages; never wait."""
        found: list[Any] = []
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._in.fileno(), _PIPE_BYTES):
                found += self._decoder.feed(data)
        return found

    def close(self) -> None:
        """Close all ends: a worker that waits for more ends itself."""
        for end in (*self.worker_ends, self._in, self._out):
            end.close()


class WorkerPipes:
    """The worker's ends: it waits for bundles and for room."""

    def __init__(self, reads: Any, writes: Any) -> None:
        self._reads, self._writes = reads, writes
        self._decoder, self._messages = MessageDecoder(), deque[Any]()

    def receive(self) -> Any:
        """Wait for the next message; EOFError when the driver is gone."""
        while not self._messages:
            data = os.read(self._reads.fileno(), _PIPE_BYTES)
            if not data:
                raise EOFError
            self._messages.extend(self._decoder.feed(data))
        return self._messages.popleft()

    def send(self, message: Any) -> None:
        """Send all of it."""
        data = memoryview(encode_message(message))
        while data:
            data = data[os.write(self._writes.fileno(), data) :]
