"""Check the first output that comes back, before more runs are started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from thrifty.runner.task import Engine, Job, Report, Task

OutputCheck = Callable[[tuple[int, ...], tuple[str, ...]], object]  # shape and names of one output; raises


class FirstOutputCheck:
    """An engine that checks shape and names of the first output; everything else is the engine's own.

    The check is made when the next bundle is submitted or waited for: what has come back is recorded by then, and no
    finished run is lost.

    Args:
        engine: Where runs go.
        check: Called once with the shape and the names of one output; what it raises ends the runs.
    """

    def __init__(self, engine: Engine, check: OutputCheck) -> None:
        self.engine, self._check = engine, check
        self._job: Job | None = None
        self._found: tuple[tuple[int, ...], tuple[str, ...]] | None = None
        self._is_checked = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def start(self, job: Job) -> None:
        """Make ready to run this job."""
        self._job = job
        self.engine.start(job)

    def submit(self, tasks: Sequence[Task]) -> None:
        """Start one bundle, unless the first output is not as expected."""
        self._check_once()
        self.engine.submit(tasks)

    def wait(self, timeout: float) -> list[Report]:
        """Return the bundles that ended, and keep the shape of the first output."""
        self._check_once()
        reports = self.engine.wait(timeout)
        if self._found is None:
            ok = (o for report in reports for o in report.outcomes if o.status == "ok" and o.x is not None)
            first = next(ok, None)
            if first is not None:
                is_set = self._job is not None and self._job.m > 1
                shape = np.atleast_1d(np.asarray(first.x)).shape
                self._found = (shape[1:] if is_set else shape), first.names
        return reports

    def _check_once(self) -> None:
        if self._found is not None and not self._is_checked:
            self._is_checked = True
            self._check(*self._found)
