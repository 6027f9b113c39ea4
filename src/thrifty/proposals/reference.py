"""What is known before any run: costs at free prior draws, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from thrifty.errors import CostError, PenaltyError
from thrifty.penalties import check_penalty
from thrifty.priors import check_draws
from thrifty.types import Array, Cost, Penalty, Prior

REFERENCE_DRAWS = 2**17  # free prior draws behind floor, gain, efficiency and B: B within 0.3 % for usual penalties
MORE_REFERENCE_DRAWS = (
    2**20
)  # as many where the first are too few: a strong penalty over decades rests on few cheap draws
MAX_RELATIVE_ERROR = 0.01  # relative error of B above which more are drawn
REFERENCE_SEED = 20_250_503  # the reference draws are the same in every process: weights never depend on a seed


class Normaliser(NamedTuple):
    """B = E_prior[1/g(c)] and its standard error."""

    value: float
    se: float

    @property
    def relative(self) -> float:
        """Standard error over value."""
        return self.se / self.value


def estimate_normaliser(log_g: Array) -> Normaliser:
    """B and its standard error from log g at prior draws (n,)."""
    inverse = np.exp(log_g.min() - log_g)
    scale = np.exp(-log_g.min())
    return Normaliser(float(inverse.mean() * scale), float(inverse.std() / np.sqrt(inverse.size) * scale))


def evaluate_cost(cost: Cost, theta: Array) -> Array:
    """Evaluate the cost of each row (n,), which must be positive and finite."""
    guarded = theta.view()
    guarded.setflags(write=False)  # a cost that works in place must not move the draws
    try:
        values = np.asarray(cost(guarded), dtype=np.float64)
    except ValueError as error:
        if "read-only" in str(error):
            raise CostError(
                "the cost function changes its input array", code="bad-cost", fix="work on a copy: theta = theta.copy()"
            ) from None
        if "could not convert" in str(error):
            raise CostError(f"the cost function does not return numbers: {error}", code="bad-cost") from None
        raise
    if values.shape != (len(theta),):
        raise CostError(
            f"cost(theta) returned shape {values.shape} for {len(theta)} parameters, expected ({len(theta)},)",
            code="bad-cost",
            fix="a cost takes a table (n, p) and returns one number per row, e.g. lambda t: 1 + t[:, 0]",
        )
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise CostError(
            f"cost(theta) = {values[i]:g} at theta = {theta[i].tolist()} ({int(bad.sum())} of {len(theta)} such);"
            " it must be positive and finite everywhere in the prior",
            code="bad-cost",
            fix="fit the logarithm of cost (th.fit_cost does), or clip the function",
        )
    return values


def add_inside(prior: Prior, theta: Array, log_ratio: Callable[[Array], Array]) -> Array:
    """Return log prior density plus `log_ratio` (n,); outside the prior's support -inf, without asking for a ratio."""
    out = np.asarray(prior.log_prob(theta), dtype=np.float64).copy()
    inside = out > -np.inf
    if inside.any():
        out[inside] += log_ratio(theta[inside])
    return out


def cost_to_dict(cost: Cost, fix: str) -> dict[str, Any]:
    """Write a cost model as plain numbers; refuse a function, with the way out."""
    if not hasattr(cost, "to_dict"):
        raise CostError("the cost is a function and cannot be saved as plain numbers", code="code-not-saved", fix=fix)
    return cost.to_dict()  # type: ignore[attr-defined]


def check_callable(cost: Cost) -> None:
    """Refuse a cost that is not a function."""
    if not callable(cost):
        raise CostError(f"cost must be callable (n, p) -> (n,), got {cost!r}", code="bad-cost")


def draw_reference_costs(prior: Prior, cost: Cost, *, n: int = REFERENCE_DRAWS, seed: int = REFERENCE_SEED) -> Array:
    """Draw n prior parameters and evaluate their costs, for floor, gain, efficiency and normalisers; no simulation."""
    check_callable(cost)
    theta = check_draws(prior, prior.sample(n, np.random.default_rng(seed)))
    costs = evaluate_cost(cost, theta)
    again = evaluate_cost(cost, theta[:256])
    if not np.allclose(again, costs[:256], rtol=0.01, atol=0):
        i = int(np.argmax(np.abs(np.log(again / costs[:256]))))
        raise CostError(
            f"cost(theta) = {costs[i]:.4g} and then {again[i]:.4g} at the same theta = {theta[i].tolist()}",
            code="bad-cost",
            why="a cost that changes between calls draws by one value and weighs by another",
            fix="fit a frozen model: th.fit_cost(theta, seconds)",
        )
    return costs


def draw_enough_reference_costs(prior: Prior, cost: Cost, penalties: Sequence[Penalty]) -> Array:
    """Reference costs, more of them where a penalty's normaliser would be rough."""
    costs = draw_reference_costs(prior, cost)
    penalties = [p.floored(float(costs.min())) for p in penalties]
    for penalty in penalties:
        check_penalty(penalty, np.quantile(costs, np.linspace(0, 1, 257)))
    if all(estimate_normaliser(p.log(costs)).relative < MAX_RELATIVE_ERROR for p in penalties):
        return costs
    return draw_reference_costs(prior, cost, n=MORE_REFERENCE_DRAWS)


def log_mean_exp(values: Array) -> float:
    """Return log of the mean of exp(values)."""
    top = values.max()
    return float(top + np.log(np.mean(np.exp(values - top))))


def as_count(n: int) -> int:
    """Read a number of draws."""
    whole = isinstance(n, int | float | np.integer | np.floating) and not isinstance(n, bool) and np.isfinite(n)
    if not whole or int(n) != n or n < 0:
        raise PenaltyError(f"the number of draws must be a whole number >= 0, got {n!r}", code="bad-setting")
    return int(n)
