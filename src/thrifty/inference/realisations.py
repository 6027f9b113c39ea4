"""Several runs per parameter (the paper's m): planning them, running them, and how many are worth their cost.

A likelihood or score estimated from m runs at one parameter is noisy; its noise costs effective draws. With
c_0 the cost of visiting a parameter at all (start-up, meshing, loading) and c_1 that of one run there:

    likelihood noise   var(log l) = v/m:         effective draws per cost  exp(-v/m) / (c_0 + m c_1)
                       best  m = (v + sqrt(v^2 + 4 v c_0/c_1)) / 2         (v when visiting is free: noise one nat)
    hits               chance a, v = (1 - a)/a:  effective draws per cost  1 / ((1 + v/m)(c_0 + m c_1))
                       best  m = sqrt(v c_0/c_1), at least 1                (1 when visiting is free)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from thrifty.errors import ConfigError, DataError
from thrifty.types import Draws, Simulations


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
        >>> split_budget(1_000, 0.5, variance=20.0, overhead=50.0).m  # visiting is dear: stay longer
        56
        >>> split_budget(1_000, 0.5, variance=99.0, kind="hits").m  # one run per parameter, the classic result
        1
    """
    for label, value, positive in (
        ("budget", budget, True),
        ("run_cost", run_cost, True),
        ("variance", variance, False),
    ):
        if not (np.isfinite(value) and (value > 0 if positive else value >= 0)):
            raise ConfigError(f"{label} must be a finite number {'>' if positive else '>='} 0, got {value}", code="F03")
    if not (np.isfinite(overhead) and overhead >= 0) or least < 1:
        raise ConfigError(f"overhead = {overhead} must be >= 0 and least = {least} >= 1", code="F03")
    ratio = overhead / run_cost
    best = (
        (variance + np.sqrt(variance**2 + 4 * variance * ratio)) / 2
        if kind == "likelihood"
        else np.sqrt(variance * ratio)
    )
    m = max(int(least), round(float(best)), 1)
    each = overhead + m * run_cost
    if budget < each:
        raise ConfigError(
            f"the budget {budget:g} does not pay for one parameter with {m} runs ({each:g})",
            code="F04",
            fix="raise the budget, or use a method that needs one run per parameter (th.ABC)",
        )
    return Split(int(budget / each), m, int(budget / each) * each)


def repeat(draws: Draws, m: int) -> Draws:
    """Each draw m times in a row, to be simulated m times with independent noise; `group` puts them together.

    Example:
        >>> repeat(th.Draws(theta=[[1.0], [2.0]]), 3).theta.ravel().tolist()
        [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    """
    if m < 1:
        raise ConfigError(f"m must be at least 1, got {m}", code="D08")
    return draws[np.repeat(np.arange(len(draws)), m)]


def group(sims: Simulations, m: int) -> Simulations:
    """Runs of repeated draws as a table with m realisations per parameter: x (n, m, *event).

    Costs are summed. A parameter with a failed run is failed as a whole, with its first run's status, because a
    likelihood from the runs that happened to finish is another likelihood.

    Example:
        >>> sims = th.Simulations.from_arrays(theta=[[1.0], [1.0], [2.0], [2.0]], x=[[1.0], [2.0], [3.0], [4.0]])
        >>> group(sims, 2).x.shape
        (2, 2, 1)
    """
    if m < 1 or len(sims) % m:
        raise DataError(f"{len(sims)} runs are not a multiple of m = {m}", code="D08")
    theta = sims.theta.reshape(-1, m, sims.dim)
    if (theta != theta[:, :1]).any():
        raise DataError(f"runs in one group of {m} have different parameters", code="D08", fix="repeat(draws, m)")
    failed = ~sims.ok.reshape(-1, m)
    first = np.argmax(failed, axis=1)
    status = np.where(failed.any(1), sims.status.reshape(-1, m)[np.arange(len(first)), first], "ok")
    return replace(
        sims,
        theta=theta[:, 0],
        x=sims.x.reshape(-1, m, *sims.x.shape[1:]) if m > 1 else sims.x,
        log_weights=sims.log_weights.reshape(-1, m)[:, 0],
        cost=sims.cost.reshape(-1, m).sum(1),
        status=status,
        index=sims.index.reshape(-1, m)[:, 0],
        m=m,
    )
