"""Estimate the CPU time of a set of benchmark tasks from the records of some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from thrifty.benchmark import Record, list_tasks
from thrifty.benchmark.records import pick
from thrifty.benchmark.roster import list_methods
from thrifty.benchmark.tasks import BUDGETS, CURVES, SEEDS

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class Hours:
    """CPU hours of the fits, the draws, the simulator and the classifier; NaN for the last where no record has it."""

    fit: float = 0.0
    draws: float = 0.0
    simulator: float = 0.0
    judge: float = 0.0

    @property
    def total(self) -> float:
        """The sum, without the classifier where its time is not known."""
        return float(np.nansum(astuple(self)))

    def __add__(self, other: Hours) -> Hours:
        """Add part by part."""
        return Hours(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def scale(self, fit: float, simulator: float, places: float) -> Hours:
        """Multiply the fit, the simulator, and what comes once at each place."""
        return Hours(self.fit * fit, self.draws * places, self.simulator * simulator, self.judge * places)


def estimate_hours(records: Sequence[Record], problems: Sequence[str]) -> dict[str, Hours]:
    """Estimate the CPU hours of each method that has records, over all budgets and seeds of some problems.

    A task takes what the method's records took on average over problems at the same budget; without any, that of the
    nearest budget with records, where the simulator grows with the budget and the fit with its square root (NPE on
    1,000 and 3,000 runs: 2.1 and 2.9 CPU s). The classifier takes what it took for the same method, else the median.
    """
    every = list_methods()  # records are read where what made them is not installed, too
    timed = [r.judge_seconds for r in records if r.judge_seconds is not None]
    judge = float(np.median(timed)) if timed else float("nan")
    known = {name: _average_by_budget(mine, judge) for name in every if (mine := pick(records, method=name, error=""))}
    out = dict.fromkeys(known, Hours())
    for task in list_tasks(problems, [every[name] for name in known], BUDGETS, SEEDS, curves=CURVES):
        seconds = known[task.method]
        nearest = min(seconds, key=lambda budget: abs(np.log(budget / task.budget)))
        more = task.budget / nearest
        out[task.method] += seconds[nearest].scale(np.sqrt(more), more, len(task.places))
    return {name: total.scale(*[1 / SECONDS_PER_HOUR] * 3) for name, total in out.items()}


def _average_by_budget(records: Sequence[Record], judge: float) -> dict[float, Hours]:
    """Average the CPU seconds (as `Hours`) of one method by budget; those of the classifier over all budgets."""
    own = [r.judge_seconds for r in records if r.judge_seconds is not None]
    judge = float(np.mean(own)) if own else judge
    out = {}
    for budget in sorted({r.budget for r in records}):
        here = pick(records, budget=budget)
        seconds = [np.mean([getattr(r, f"{n}_seconds") for r in here]) for n in ("fit", "sample", "simulator")]
        out[budget] = Hours(*(float(s) for s in seconds), judge)
    return out
