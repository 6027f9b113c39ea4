"""How many runs per parameter (the paper's m) are worth their cost.

A likelihood or score estimated from m runs at one parameter is noisy; its noise costs effective draws. With
c_0 the cost of visiting a parameter at all (start-up, meshing, loading) and c_1 that of one run there:

    likelihood noise   var(log l) = v/m:         effective draws per cost  exp(-v/m) / (c_0 + m c_1)
                       best  m = (v + sqrt(v^2 + 4 v c_0/c_1)) / 2         (v when visiting is free: noise one nat)
    hits               chance a, v = (1 - a)/a:  effective draws per cost  1 / ((1 + v/m)(c_0 + m c_1))
                       best  m = sqrt(v c_0/c_1), at least 1                (1 when visiting is free)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from thrifty.errors import ConfigError


@dataclass(frozen=True)
class Split:
    """A budget as n parameters with m runs each.

    Attributes:
        n: Parameters.
        m: Runs per parameter.
        cost: Expected cost of them all.
    """

    n: int
    m: int
    cost: float


def split_budget(
    budget: float,
    run_cost: float,
    *,
    variance: float,
    overhead: float = 0.0,
    kind: Literal["likelihood", "hits"] = "likelihood",
    least: int = 1,
) -> Split:
    """Split a budget between parameters and runs per parameter, for the most effective draws.

    Args:
        budget: Total cost.
        run_cost: Expected cost of one run under the proposal (`q.expected_cost`).
        variance: v: variance of the log-likelihood estimate times m ("likelihood"), or (1 - a)/a for an
            acceptance chance a ("hits").
        overhead: Cost of visiting a parameter.
        kind: What the runs estimate.
        least: Smallest m that the method can use (statistics + 2 for a Gaussian synthetic likelihood).

    Example:
        >>> split_budget(1_000, 0.5, variance=20.0)
        Split(n=100, m=20, cost=1000.0)
        >>> split_budget(1_000, 0.5, variance=20.0, overhead=50.0).m  # visiting is expensive: more runs each
        56
        >>> split_budget(1_000, 0.5, variance=99.0, kind="hits").m  # one run per parameter, the classic result
        1
    """
    for label, value, sign in (("budget", budget, ">"), ("run_cost", run_cost, ">"), ("variance", variance, ">=")):
        if not (0 < value < np.inf or (value == 0 and sign == ">=")):
            raise ConfigError(f"{label} must be a finite number {sign} 0, got {value}", code="bad-setting")
    if not (np.isfinite(overhead) and overhead >= 0) or least < 1:
        raise ConfigError(f"overhead = {overhead} must be >= 0 and least = {least} >= 1", code="bad-setting")
    ratio = overhead / run_cost
    if kind == "likelihood":
        best = (variance + np.sqrt(variance**2 + 4 * variance * ratio)) / 2
    else:
        best = np.sqrt(variance * ratio)
    m = max(int(least), round(float(best)), 1)
    each = overhead + m * run_cost
    if budget < each:
        raise ConfigError(
            f"the budget {budget:g} does not pay for one parameter with {m} runs ({each:g})",
            code="budget-too-small",
            fix="raise the budget, or use a method that needs one run per parameter (th.ABC)",
        )
    return Split(int(budget / each), m, int(budget / each) * each)
