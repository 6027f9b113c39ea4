"""Finish running bundles on the first Ctrl-C or SIGTERM, stop on the second Ctrl-C.

Handlers are installed only while a campaign runs.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed; what finished is kept and the rest is pending.

    `simulations` holds the table so far when the runs were in memory.
    """

    exit_code = 130
    simulations: Any = None


class Terminated(SystemExit):
    """SIGTERM arrived; what finished is kept and the rest is pending."""

    exit_code = 143

    def __init__(self, message: str = "") -> None:
        super().__init__(self.exit_code)
        self.message = message

    def __str__(self) -> str:
        return self.message


class Interrupts:
    """Turn signals into two flags, `drain` and `stop`, inside a `with` block.

    Outside the main thread signals cannot be caught, so nothing is installed there.
    """

    def __init__(self) -> None:
        self.drain = self.stop = False
        self.signal: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.drain and number == signal.SIGINT:
            self.stop = True
        self.drain, self.signal = True, number

    def raise_if_caught(self, message: str, *, simulations: Any = None) -> None:
        """End the call as the signal asked, after everything is safe."""
        if self.signal == signal.SIGTERM:
            raise Terminated(message)
        if self.signal is not None:
            interrupted = Interrupted(message)
            interrupted.simulations = simulations
            raise interrupted
