"""List the tasks of a benchmark in an order in which any beginning covers all problems and methods."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import log2
from zlib import crc32

from thrifty.benchmark.method import Method
from thrifty.benchmark.problem import PLACES
from thrifty.errors import ConfigError

BUDGETS = (300.0, 1_000.0, 3_000.0)  # prior runs: what a user of an expensive simulator can pay for
SEEDS = 5
DEFAULT_PROBLEMS = (  # without options: the paper's five models and one of each other kind
    *("gamma_shape", "homogeneous_sir", "temporal_sir", "bernoulli_sir", "radio"),
    *("lotka_volterra", "slcp", "two_moons", "gaussian_corner", "bernoulli_glm"),
)
CURVES = ("npe", "npe-aware", "rounds-nle-aware")  # without options, at every budget: the baseline and both defaults
QUICK_PROBLEMS = ("waiting", "gaussian_2", "two_moons")
QUICK_METHODS = ("npe", "npe-aware", "abc", "abc-aware", "smcabc-aware")
QUICK_BUDGETS = (200.0, 400.0)


@dataclass(frozen=True)
class Task:
    """One fit: a method on a problem at a budget, with draws at some places.

    Attributes:
        places: All three for an amortised method, one for another.
    """

    problem: str
    method: str
    budget: float
    seed: int
    places: tuple[str, ...]

    @property
    def keys(self) -> list[tuple[str, str, str, float, int]]:
        """Keys of the records that it makes."""
        return [(self.problem, place, self.method, self.budget, self.seed) for place in self.places]


def list_tasks(
    problems: Sequence[str],
    methods: Sequence[Method],
    budgets: Sequence[float],
    seeds: int,
    *,
    curves: Collection[str] | None = None,
) -> list[Task]:
    """Return all tasks: seed by seed, the middle budget first, and each method on another problem.

    A method for one observation goes through the places from seed to seed and budget to budget, see `choose_place`. A
    costly method is run at the middle budget only. Where `curves` is given, the methods that it names are run at every
    budget, and the others at the middle one.
    """
    if seeds < 1 or not budgets or not all(0 < b < float("inf") for b in budgets):
        raise ConfigError(
            f"seeds = {seeds}, budgets = {list(budgets)}; at least one seed and positive budgets are needed",
            code="bad-setting",
        )
    ordered = sorted(budgets)
    middle = ordered[(len(ordered) - 1) // 2]
    out = []
    for seed in range(seeds):
        for budget in [middle, *(b for b in ordered if b != middle)]:
            for shift in range(len(problems)):
                for i, method in enumerate(methods):
                    at_all = not method.costly if curves is None else method.name in curves
                    if not at_all and budget != middle:
                        continue
                    problem = problems[(i + shift) % len(problems)]
                    places = tuple(PLACES) if method.amortised else (choose_place(problem, budget, seed),)
                    out.append(Task(problem, method.name, float(budget), seed, places))
    return out


def choose_place(problem: str, budget: float, seed: int) -> str:
    """Return the place that a method for one observation visits.

    It depends on problem, budget and seed alone, whatever else is asked for, so that all such methods are compared at
    the same places, and a larger set continues a smaller one. Budgets that differ by a factor of two or three have
    different places.

    Example:
        >>> {choose_place("slcp", budget, 0) for budget in BUDGETS} == set(PLACES)
        True
    """
    doublings = round(log2(budget / BUDGETS[1]))
    return list(PLACES)[(seed + doublings + crc32(problem.encode())) % len(PLACES)]
