"""Say what goes to a worker (`Job` once, `Task` per run), what comes back (`Outcome`, `Report`), and who runs it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from thrifty.named import align, list_names
from thrifty.types import Array, Status

CostKind = Literal["cpu", "wall", "reported"]
Cause = Literal["", "died", "timeout", "lost"]
MAX_OUTPUT_BYTES = 256 * 2**20  # summaries are kilobytes, so more is almost surely a mistake


@dataclass(frozen=True, slots=True)
class Task:
    """One run to do: `limit` in seconds of wall time, `predicted` cost where known."""

    index: int
    theta: Array
    limit: float | None = None
    predicted: float = float("nan")
    attempt: int = 1
    probe: bool = False  # run twice and compare, whatever it costs

    def __reduce__(self) -> tuple[Any, ...]:
        return Task, (self.index, self.theta, self.limit, self.predicted, self.attempt, self.probe)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One finished run. `repeat` says whether a second run gave the same numbers, where it was tried."""

    index: int
    status: Status
    x: Array | None = None
    wall: float = 0.0
    cpu: float = 0.0
    memory: int = 0
    reported: float = float("nan")
    host: str = ""
    attempt: int = 1
    error: str = ""
    limit: float | None = None
    repeat: bool | None = None
    names: tuple[str, ...] = ()  # of the numbers in one x, where the simulator named them

    def __reduce__(self) -> tuple[Any, ...]:
        """Positional values: a dataclass with slots asks for its fields by name each time, five times as slow."""
        return Outcome, (
            self.index, self.status, self.x, self.wall, self.cpu, self.memory, self.reported, self.host, self.attempt,
            self.error, self.limit, self.repeat, self.names,
        )  # fmt: skip

    def cost(self, kind: CostKind) -> float:
        """Return CPU seconds, wall seconds, or what the simulator reported."""
        return {"cpu": self.cpu, "wall": self.wall, "reported": self.reported}[kind]


@dataclass
class OutputNames:
    """The names of the outputs of a campaign, learned from its first run; other names are an error of a run.

    Outputs are kept in the order of the first run that ends: a simulator may build its dictionary in any order. Which
    run that is depends on chance, so that the run with the lowest index decides in which order they are shown.

    Attributes:
        names: In the order in which outputs are kept; empty for plain numbers, None before the first run.
        on_found: Called with the names when they become known, before any run that has them is recorded.
        order: (Lowest index of a run so far, its names in its own order), None before the first.
        on_order: Called with `order` when it changes.

    Example:
        >>> import numpy as np
        >>> known = OutputNames(("peak", "size"))
        >>> known.align(Outcome(3, "ok", np.array([7.0, 1.0]), names=("size", "peak"))).x.tolist()
        [1.0, 7.0]
        >>> known.align(Outcome(4, "ok", np.array([7.0, 1.0]), names=("size", "day"))).error
        '[bad-output] the run returned size, day: peak missing, day unknown; expected peak, size'
    """

    names: tuple[str, ...] | None = None
    on_found: Callable[[tuple[str, ...]], None] = lambda names: None
    order: tuple[int, tuple[str, ...]] | None = None
    on_order: Callable[[tuple[int, tuple[str, ...]]], None] = lambda order: None

    def align(self, outcome: Outcome) -> Outcome:
        """Return the outcome with its numbers in the order of the others; an error where its names are others."""
        if outcome.x is None:
            return outcome
        if self.names is None:
            self.names = outcome.names
            if self.names:
                self.on_found(self.names)
        if outcome.names == self.names:
            self._note_order(outcome)
            return outcome
        try:
            if not self.names or not outcome.names:
                raise ValueError(f"expected {list_names(self.names) if self.names else 'numbers without names'}")
            aligned = replace(outcome, x=align(outcome.x, outcome.names, self.names), names=self.names)
            self._note_order(outcome)
            return aligned
        except ValueError as error:
            came = list_names(outcome.names) if outcome.names else "numbers without names"
            text = f"[bad-output] the run returned {came}: {error}"
            return replace(outcome, status="error", x=None, error=text, names=())

    def _note_order(self, outcome: Outcome) -> None:
        """Keep the order of the run with the lowest index."""
        if outcome.names and (self.order is None or outcome.index < self.order[0]):
            self.order = (outcome.index, outcome.names)
            self.on_order(self.order)


@dataclass(frozen=True)
class Job:
    """What all runs share: sent to each worker once."""

    simulator: Callable[..., Any]
    seed: int
    m: int = 1
    warm_up: bool = False  # a fresh worker repeats its first run, so that imports and compilation are not timed
    output_limit: int = MAX_OUTPUT_BYTES
    names: tuple[str, ...] = ()  # of the parameters, for simulators that take them by name


def get_name(simulator: Any) -> str:
    """Return what to call a simulator in messages."""
    own = simulator.func if isinstance(simulator, functools.partial) else simulator
    return getattr(own, "__qualname__", None) or type(own).__name__


@dataclass(frozen=True)
class Report:
    """A bundle that came back: outcomes of its finished runs, and what happened to the others.

    Attributes:
        tasks: The bundle.
        outcomes: One per finished run.
        cause: "" all finished; "died" the worker died; "timeout" it was ended; "lost" never started.
        guilty: Index that was running when the worker died, where known.
        detail: Signal or exit code, for people.
        elapsed: Wall seconds of the run that was under way.
        outside: The worker was killed by somebody else, as far as can be known: no fault of the run.
    """

    tasks: Sequence[Task]
    outcomes: Sequence[Outcome] = ()
    cause: Cause = ""
    guilty: int | None = None
    detail: str = ""
    elapsed: float = 0.0
    outside: bool = False


class Engine(Protocol):
    """Where runs happen. `submit` needs a free slot; `wait` returns bundles that ended.

    An engine keeps time limits; the loop decides on order, retries and blame.
    """

    bundle_seconds: float

    @property
    def slots(self) -> int:
        """Bundles that can be in flight."""
        ...

    @property
    def free(self) -> int:
        """Slots without a bundle."""
        ...

    @property
    def ahead(self) -> int:
        """Bundles that may be sent to busy slots, to be there when they become free."""
        ...

    def start(self, job: Job) -> None:
        """Make ready to run this job."""
        ...

    def submit(self, tasks: Sequence[Task]) -> None:
        """Start one bundle."""
        ...

    def wait(self, timeout: float) -> list[Report]:
        """Return bundles that ended, after at most `timeout` seconds."""
        ...

    def clock(self) -> float:
        """Monotonic seconds."""
        ...

    def stop(self) -> None:
        """End everything now; leave no process behind."""
        ...
