"""Keep what the benchmark measured: one JSON line for each (problem, place, method, budget, seed).

A line is written whole or not at all as far as readers are concerned: one cut short by a kill is left out, and the next
run does its task again. Numbers are kept to six digits; what does not exist is null.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from thrifty.errors import DataError

NO_ANSWER = "too-few-runs"  # code of the error with which a method says that the budget is too small for any answer


@dataclass(frozen=True)
class Record:
    """What one method did at one observation.

    Attributes:
        problem, place, method: Names.
        budget: Asked for, in units of the mean cost of a prior run.
        seed: Of draws, noise, networks and classifiers.
        c2st, mmd2, width, worst: See `Accuracy`; None where the method failed.
        log_density: Mean log density of the reference draws; None where the posterior has no density.
        cost: Of all runs behind the posterior.
        runs: Their number.
        fit_seconds: CPU seconds of the fit without the simulator; an amortised fit is counted in full at each place.
        sample_seconds: CPU seconds of 1,000 draws.
        simulator_seconds: CPU seconds of the simulator.
        error: Why the method failed, or "".
        version, commit, date, machine: Of the code and of the run.
        judge_seconds: CPU seconds of the classifier and the other measures of accuracy; None in records made before it
            was taken, and where the method failed.
        library: Package behind the method with its version, such as "sbi 0.27.0"; "" for none, and in older records.
    """

    problem: str
    place: str
    method: str
    budget: float
    seed: int
    c2st: float | None
    mmd2: float | None
    width: float | None
    worst: float | None
    log_density: float | None
    cost: float
    runs: int
    fit_seconds: float
    sample_seconds: float
    simulator_seconds: float
    error: str
    version: str
    commit: str
    date: str
    machine: str
    judge_seconds: float | None = None
    library: str = ""

    @property
    def key(self) -> tuple[str, str, str, float, int]:
        """What a record is about."""
        return self.problem, self.place, self.method, self.budget, self.seed

    @property
    def has_no_answer(self) -> bool:
        """Whether the method gives none at this budget, which is no fault: its first step needs more runs."""
        return f"[{NO_ANSWER}]" in self.error

    def to_line(self) -> str:
        """Write one line of JSON."""
        return json.dumps({name: shorten(value) for name, value in asdict(self).items()}) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Record:
        """Read what `to_line` wrote.

        Raises:
            DataError: bad-file, the line is no record.
        """
        try:
            return cls(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise DataError(f"not a record of the benchmark: {line[:60]!r} ({error})", code="bad-file") from None


def shorten(value: Any) -> Any:
    """Keep six digits of a number; None for what is not finite, which JSON does not know.

    Example:
        >>> shorten(1 / 3), shorten(float("nan")), shorten("a")
        (0.333333, None, 'a')
    """
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def read_records(path: Path) -> list[Record]:
    """Read all whole lines; the last one of a key counts."""
    found = {record.key: record for record in map(Record.from_line, read_whole_lines(path))}
    return list(found.values())


def list_done(records: Iterable[Record]) -> set[Any]:
    """Return the keys that need no other try: a fit that failed is made again, one without an answer is not."""
    return {record.key for record in records if not record.error or record.has_no_answer}


def append_records(path: Path, records: Iterable[Record]) -> None:
    """Add the lines of records in one write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    append_lines(path, "".join(record.to_line() for record in records))


def read_whole_lines(path: Path) -> list[str]:
    """Read the lines of a file of records, without empty ones and without a last one that a kill cut short."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n") and line.strip()]


def append_lines(path: Path, text: str) -> None:
    """Add whole lines, on the disk before this returns; a line cut short by a kill is dropped first."""
    with path.open("a+b") as handle:
        handle.seek(0, os.SEEK_END)
        if handle.tell():
            handle.seek(-1, os.SEEK_END)
            if handle.read(1) != b"\n":
                _drop_cut_line(path)
        handle.write(text.encode())
        handle.flush()
        os.fsync(handle.fileno())


def _drop_cut_line(path: Path) -> None:
    data = path.read_bytes()
    os.truncate(path, data.rfind(b"\n") + 1)


def pick(records: Sequence[Record], **wanted: Any) -> list[Record]:
    """Return the records with these entries."""
    unknown = set(wanted) - {f.name for f in fields(Record)}
    if unknown:
        raise DataError(f"records have no {', '.join(sorted(unknown))}", code="bad-name")
    return [r for r in records if all(getattr(r, name) == value for name, value in wanted.items())]
