"""Waiting for many workers at once: which have said something, and which have ended.

Lanes are watched by the kernel. Deaths come from the pools' threads, which leave a note and ring a bell.
"""

from __future__ import annotations

import contextlib
import queue
import selectors
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thrifty.campaign.slot import Slot

Death = tuple["Slot", int, BaseException | None]


class Switchboard:
    """One per engine; only `note` may be called from another thread."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._bell, self._button = socket.socketpair()
        for end in (self._bell, self._button):
            end.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._deaths: queue.SimpleQueue[Death] = queue.SimpleQueue()

    def watch(self, slot: Slot) -> None:
        """Listen to a slot's lane."""
        self._selector.register(slot.lane, selectors.EVENT_READ, slot)

    def unwatch(self, slot: Slot) -> None:
        """Before the lane is closed."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(slot.lane)

    def note(self, slot: Slot, life: int, problem: BaseException | None) -> None:
        """A worker ended; `life` says which of the slot's workers it was."""
        self._deaths.put((slot, life, problem))
        with contextlib.suppress(OSError):  # closed already, or rung often enough
            self._button.send(b"!")

    def wait(self, timeout: float) -> tuple[list[Slot], list[Death]]:
        """Slots whose workers have said something, and workers that ended, after at most `timeout` seconds."""
        heard = [key.data for key, _ in self._selector.select(timeout)]
        deaths: list[Death] = []
        if None in heard:
            with contextlib.suppress(BlockingIOError):
                self._bell.recv(4096)
            with contextlib.suppress(queue.Empty):
                while True:
                    deaths.append(self._deaths.get_nowait())
        return [slot for slot in heard if slot is not None], deaths

    def close(self) -> None:
        """Nothing is heard any more."""
        self._selector.close()
        self._bell.close()
        self._button.close()
