"""Summarise records: accuracy against cost, what a method pays for its accuracy, and who is ahead.

A method for one observation visits one place with each seed, and another one at another budget. So means are balanced:
over seeds at each place first, then over places; and two methods are compared over the places that both have visited.
Between budgets accuracy is interpolated in log cost. The error of a ratio comes from seeds: one is left out at a time
(jackknife). Few seeds give an uncertain error: whether a difference is clear is judged by Student's t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

from thrifty.benchmark.records import Record, pick
from thrifty.types import Array

BASELINE = "npe"
LEVEL = 0.05  # at which two equal methods are told apart by mistake


@dataclass(frozen=True)
class Point:
    """Mean accuracy of a method at one budget.

    Attributes:
        cost: Mean cost of all runs.
        value: Mean of the measure over seeds at each place, then over places.
        error: Standard error of it; NaN where no place has two seeds.
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
        error: Jackknife standard error over seeds; NaN for one seed, and where the accuracy is not reached without one
            of the seeds.
        bound: "" where the ratio was interpolated, "<" where the smallest budget was enough already, ">" where the
            largest was not.
        seeds: How many there are.
        steady: Whether the bound is the same without any one of the seeds; False for one seed.
    """

    value: float
    error: float
    bound: str
    seeds: int
    steady: bool = True


@dataclass(frozen=True)
class Gap:
    """Difference of a measure between two methods at one budget, over the places that both have visited.

    Attributes:
        value: Of the first less the second.
        error: Standard error; NaN where it is not known.
        freedom: Degrees of freedom of the error (Welch and Satterthwaite).
        seeds: How many the method with fewer of them has.
        places: How many both have visited.
    """

    value: float
    error: float
    freedom: float
    seeds: int
    places: int

    @property
    def is_clear(self) -> bool:
        """Whether a t test at 5 % tells the methods apart; never where the error is not known."""
        return bool(abs(self.value) > student_t.ppf(1 - LEVEL / 2, self.freedom) * self.error)


def curve(records: Sequence[Record], name: str) -> list[Point]:
    """Average a measure of one method on one problem by budget, in the order of budgets."""
    points = []
    for budget in sorted({r.budget for r in records}):
        here = [r for r in records if r.budget == budget and getattr(r, name) is not None]
        if here:
            cost = float(np.mean([r.cost for r in here]))
            points.append(Point(cost, *_balance(here, name)[:2], len({r.seed for r in here})))
    return points


def find_middle_budget(records: Sequence[Record], problem: str) -> float:
    """Return the middle one of the budgets that a problem has records of, the lower one of two."""
    budgets = sorted({r.budget for r in pick(records, problem=problem, error="")})
    return budgets[(len(budgets) - 1) // 2]


def compare_accuracy(
    records: Sequence[Record], problem: str, first: str, second: str, *, budget: float, name: str = "c2st"
) -> Gap | None:
    """Return by how much a measure of one method exceeds another's at a budget; None where no place is shared."""
    one, other = (pick(records, problem=problem, method=m, budget=budget, error="") for m in (first, second))
    shared = {r.place for r in one} & {r.place for r in other}
    if not shared:
        return None
    both = [[r for r in rows if r.place in shared] for rows in (one, other)]
    (value, *mine), (base, *theirs) = (_balance(rows, name) for rows in both)
    seeds = min(len({r.seed for r in rows}) for rows in both)
    return Gap(value - base, *_add_errors(mine, theirs), seeds=seeds, places=len(shared))


def compare_cost(
    records: Sequence[Record],
    problem: str,
    method: str,
    name: str = "c2st",
    *,
    baseline: str = BASELINE,
    budget: float | None = None,
) -> Ratio | None:
    """Return what a method pays for the accuracy that the baseline has, over what the baseline pays for it.

    Args:
        records: Of any problems and methods.
        problem: Name.
        method: Whose cost is asked for, at any of its budgets.
        name: Of the measure; lower is better.
        baseline: The method that sets the accuracy.
        budget: At which it does; by default its largest.

    Returns:
        The ratio, or None where the two share no place.
    """
    mine, base = (pick(records, problem=problem, method=m, error="") for m in (method, baseline))
    goal = [r for r in base if r.budget == (max(b.budget for b in base) if budget is None else budget)]
    found = _ratio(mine, goal, name)
    if found is None:
        return None
    seeds = sorted({r.seed for r in goal} | {r.seed for r in mine})
    error, steady = _jackknife(mine, goal, name, seeds, _ratio)
    return Ratio(found[0], error, found[1], len(seeds), steady)


def price_accuracy(
    records: Sequence[Record], problem: str, method: str, name: str = "c2st", *, budget: float | None = None
) -> Ratio | None:
    """Return what a method pays at one budget, over what the baseline pays for the accuracy that this buys.

    The other way round than `compare_cost`: the method needs one budget only, and the baseline gives the curve.

    Args:
        records: Of any problems and methods.
        problem: Name.
        method: Whose price is asked for.
        name: Of the measure; lower is better.
        budget: Of the method; by default the middle one of the problem.

    Returns:
        The ratio, or None where the two share no place. Its bound is "<" where the baseline is less accurate at its
        largest budget, ">" where it is as accurate at its smallest; the value is then the bound.
    """
    base = pick(records, problem=problem, method=BASELINE, error="")
    if not base:
        return None
    budget = find_middle_budget(records, problem) if budget is None else budget
    mine = pick(records, problem=problem, method=method, error="", budget=budget)
    found = _price(base, mine, name)
    if found is None:
        return None
    seeds = sorted({r.seed for r in mine} | {r.seed for r in base})
    error, steady = _jackknife(base, mine, name, seeds, _price)
    return Ratio(found[0], error, found[1], len({r.seed for r in mine}), steady)


def _price(base: Sequence[Record], mine: Sequence[Record], name: str) -> tuple[float, str] | None:
    found = _ratio(base, mine, name)
    if found is None:
        return None
    if found[1] == ">":
        costliest = [r.cost for r in base if r.budget == max(b.budget for b in base)]
        return float(np.mean([r.cost for r in mine]) / np.mean(costliest)), "<"
    return 1 / found[0], ">" if found[1] else ""


def _ratio(mine: Sequence[Record], goal: Sequence[Record], name: str) -> tuple[float, str] | None:
    """Find where the difference from the goal falls to zero; at each budget it is taken over shared places."""
    cost, gap, goal_cost = [], [], [r.cost for r in goal]
    for budget in sorted({r.budget for r in mine}):
        here = [r for r in mine if r.budget == budget]
        shared = {r.place for r in here} & {r.place for r in goal}
        if shared:
            ours, theirs = ([r for r in rows if r.place in shared] for rows in (here, goal))
            cost.append(float(np.mean([r.cost for r in ours])))
            gap.append(_balance(ours, name)[0] - _balance(theirs, name)[0])
    if not gap:
        return None
    paid = float(np.mean(goal_cost))
    if gap[0] <= 0:
        return cost[0] / paid, "<"
    reached = np.flatnonzero(np.array(gap) <= 0)
    if not len(reached):
        return float("nan"), ">"
    return float(np.exp(_interpolate(np.log(cost), np.array(gap), int(reached[0]))) / paid), ""


def _interpolate(log_cost: Array, gap: Array, after: int) -> float:
    """Find the log cost at which a falling line between two points is zero."""
    share = gap[after - 1] / (gap[after - 1] - gap[after])
    return float(log_cost[after - 1] + share * (log_cost[after] - log_cost[after - 1]))


def _balance(records: Sequence[Record], name: str) -> tuple[float, float, float]:
    """Average over seeds at each place, then over places; with standard error and degrees of freedom.

    Where every seed has every place, the places of a seed are averaged first: they come from one fit. Else each record
    is a fit of its own, and what differs at one place is pooled over places.
    """
    places, seeds = sorted({r.place for r in records}), sorted({r.seed for r in records})
    table = np.full((len(seeds), len(places)), np.nan)
    for r in records:
        table[seeds.index(r.seed), places.index(r.place)] = getattr(r, name)
    filled = np.isfinite(table)
    means, counts, spare = np.nanmean(table, 0), filled.sum(0), int(filled.sum()) - len(places)
    if spare == 0:
        return float(means.mean()), float("nan"), 0.0
    if filled.all():
        return float(means.mean()), float(table.mean(1).std(ddof=1) / np.sqrt(len(seeds))), len(seeds) - 1.0
    spread = np.sqrt(np.nansum(np.square(table - means)) / spare)
    return float(means.mean()), float(spread * np.sqrt((1 / counts).sum()) / len(places)), float(spare)


def _add_errors(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Return the error of a difference from (error, freedom) of both sides, and its degrees of freedom."""
    squares = np.square([one[0], other[0]])
    terms = np.square(squares) / np.maximum([one[1], other[1]], 1e-9)
    total = float(squares.sum())
    return float(np.sqrt(total)), total**2 / float(terms.sum()) if terms.sum() > 0 else float("inf")


def _jackknife(
    mine: Sequence[Record],
    goal: Sequence[Record],
    name: str,
    seeds: Sequence[int],
    compare: Callable[[Sequence[Record], Sequence[Record], str], tuple[float, str] | None],
) -> tuple[float, bool]:
    """Return the error over seeds, and whether leaving one out always gives the same bound."""
    if len(seeds) < 2:
        return float("nan"), False
    whole = compare(mine, goal, name)
    without = [compare([r for r in mine if r.seed != s], [r for r in goal if r.seed != s], name) for s in seeds]
    values = np.array([float("nan") if found is None else found[0] for found in without])
    steady = all(found is not None and whole is not None and found[1] == whole[1] for found in without)
    return float(np.sqrt((len(values) - 1) / len(values) * np.square(values - values.mean()).sum())), steady
