"""Summarise records: accuracy against cost, and what each method pays to be as accurate as plain NPE.

A method is compared with plain NPE (the baseline) over the same places and seeds, since a method for one observation
visits a place at a time. Between budgets accuracy is interpolated in log cost. The error of a ratio comes from seeds:
one is left out at a time (jackknife).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thrifty.benchmark.records import Record, pick
from thrifty.types import Array

BASELINE = "npe"


@dataclass(frozen=True)
class Point:
    """Mean accuracy of a method at one budget.

    Attributes:
        cost: Mean cost of all runs.
        value: Mean of the measure over seeds and places.
        error: Standard error over seeds, places of one seed averaged first; NaN for one seed.
        seeds: How many.
    """

    cost: float
    value: float
    error: float
    seeds: int


@dataclass(frozen=True)
class Ratio:
    """Cost to reach the baseline's accuracy, over the baseline's cost.

    Attributes:
        value: The ratio; NaN where the accuracy is not reached at any budget.
        error: Jackknife standard error over seeds; NaN for one seed.
        bound: "" where the ratio was interpolated, "<" where the smallest budget was enough already, ">" where the
            largest was not.
        seeds: How many both have.
    """

    value: float
    error: float
    bound: str
    seeds: int


def curve(records: Sequence[Record], name: str) -> list[Point]:
    """Average a measure of one method on one problem by budget, in the order of budgets."""
    points = []
    for budget in sorted({r.budget for r in records}):
        here = [r for r in records if r.budget == budget and getattr(r, name) is not None]
        if not here:
            continue
        seeds = sorted({r.seed for r in here})
        each = np.array([np.mean([getattr(r, name) for r in here if r.seed == seed]) for seed in seeds])
        error = float(each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else float("nan")
        cost = float(np.mean([r.cost for r in here]))
        points.append(Point(cost, float(each.mean()), error, len(seeds)))
    return points


def compare_cost(records: Sequence[Record], problem: str, method: str, name: str = "c2st") -> Ratio | None:
    """Return what a method pays for the accuracy that the baseline has at its largest budget; None without records."""
    mine, base = (pick(records, problem=problem, method=m, error="") for m in (method, BASELINE))
    shared = {(r.place, r.seed) for r in mine} & {(r.place, r.seed) for r in base}
    mine, base = ([r for r in rows if (r.place, r.seed) in shared] for rows in (mine, base))
    if not mine or not base:
        return None
    value, bound = _ratio(mine, base, name)
    seeds = sorted({seed for _, seed in shared})
    return Ratio(value, _jackknife(mine, base, name, seeds), bound, len(seeds))


def _ratio(mine: Sequence[Record], base: Sequence[Record], name: str) -> tuple[float, str]:
    ours, goal = curve(mine, name), curve(base, name)[-1]
    cost, value = np.array([p.cost for p in ours]), np.array([p.value for p in ours])
    if value[0] <= goal.value:
        return float(cost[0] / goal.cost), "<"
    reached = np.flatnonzero(value <= goal.value)
    if not len(reached):
        return float("nan"), ">"
    return float(np.exp(_interpolate(np.log(cost), value, int(reached[0]), goal.value)) / goal.cost), ""


def _interpolate(log_cost: Array, value: Array, after: int, goal: float) -> float:
    """Find the log cost at which a falling line between two points has the value `goal`."""
    share = (value[after - 1] - goal) / (value[after - 1] - value[after])
    return float(log_cost[after - 1] + share * (log_cost[after] - log_cost[after - 1]))


def _jackknife(mine: Sequence[Record], base: Sequence[Record], name: str, seeds: Sequence[int]) -> float:
    if len(seeds) < 2:
        return float("nan")
    without = [
        _ratio([r for r in mine if r.seed != seed], [r for r in base if r.seed != seed], name)[0] for seed in seeds
    ]
    values = np.array(without)
    return float(np.sqrt((len(values) - 1) / len(values) * np.square(values - values.mean()).sum()))
