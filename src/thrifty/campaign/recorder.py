"""The sink of a campaign: groups of outcomes, committed by time and count, before they are counted as done."""

from __future__ import annotations

import time
from collections.abc import Sequence

from thrifty.campaign.store import Store
from thrifty.campaign.task import Outcome

GROUP_SECONDS = 0.5  # what a crash of the machine can cost; a sync takes milliseconds
GROUP_RUNS = 256


class Recorder:
    """Buffers outcomes and commits them in groups; `recorded` counts only what is safe."""

    def __init__(self, store: Store, *, policy: str | None, session: int, blocks: frozenset[int]) -> None:
        self.store, self.policy, self.session, self.blocks = store, policy, session, blocks
        self.recorded = 0
        self._buffer: list[Outcome] = []
        self._begun = self._committed = time.monotonic()

    def record(self, outcomes: Sequence[Outcome]) -> None:
        """Buffer outcomes; they count as done after the next commit."""
        self._buffer += outcomes

    def flush(self, *, force: bool = False) -> int:
        """Commit if the group is large or old enough; the number of runs that are safe."""
        now = time.monotonic()
        due = len(self._buffer) >= GROUP_RUNS or now - self._committed >= GROUP_SECONDS
        if self._buffer and (force or due):
            group, self._buffer = self._buffer, []
            self.store.record(group, policy=self.policy)
            self.store.note_session(self.session, now - self._begun)
            self.recorded += len(group)
            self._committed = time.monotonic()
        return self.recorded

    def admitted(self, last: int) -> None:
        """Commit an admission under a budget, before it is acted upon."""
        self.store.admit_through(last, blocks=self.blocks)
