"""Compare predicted with measured cost, in total and by parameter.

A wrong cost model never biases a posterior (the same frozen model draws and weights); it saves less than expected.
With r_i = measured / predicted - 1, expectation zero at every theta for a correct model, r is regressed on the
standardised parameters; a Wald test with heteroscedastic errors asks whether any coefficient differs from zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thrifty.diagnostics.arguments import check_simulations, parameter_names
from thrifty.diagnostics.verdict import CARE_P_VALUE, DisplayedCheck, Trust, format_p_value
from thrifty.errors import CostError, DataError
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Cost, freeze

MIN_TIMED_RUNS = 20
_CAP_QUANTILE = 0.995  # ratios are capped at three times this quantile: one suspended machine is no trend
_LARGE_ERROR = 0.2  # an error of a fifth, in total or per sd of a parameter: worth refitting


@dataclass(frozen=True, repr=False)
class CostCheck(DisplayedCheck):
    """Predicted and measured costs.

    Attributes:
        theta: Parameters (n, p) of the timed runs.
        predicted, measured: Costs (n,).
        score: R-squared of log measured by log predicted.
        ratio: Total measured over total predicted.
        ratio_se: Its standard error.
        trends: Change of measured/predicted per standard deviation of each parameter (p,).
        trend_se: Standard errors (p,).
        p_value: Of "measured equals predicted on average at every theta".
        names: Parameter names.
        unit: Of cost.
        name: The check.
    """

    theta: Array
    predicted: Array
    measured: Array
    score: float
    ratio: float
    ratio_se: float
    trends: Array
    trend_se: Array
    p_value: float
    names: tuple[str, ...]
    unit: str
    name: str = "cost_model"

    @property
    def verdict(self) -> Trust:
        """At most "with care": costs decide what is saved, not what is inferred."""
        large = abs(self.ratio - 1) > _LARGE_ERROR or np.abs(self.trends).max() > _LARGE_ERROR
        return "with care" if self.p_value < CARE_P_VALUE and large else "trust"

    @property
    def reason(self) -> str:
        """One sentence with the numbers."""
        total = f"measured / predicted cost {self.ratio:.2f} ± {self.ratio_se:.2f} over {len(self.measured):,} runs"
        total += f", R² {self.score:.2f} on log cost"
        if self.verdict == "trust":
            return total
        worst, p_value = int(np.argmax(np.abs(self.trends))), format_p_value(self.p_value)
        return (
            f"{total}; it changes by {self.trends[worst]:+.0%} per sd of {self.names[worst]} ({p_value})."
            " The posterior is not affected; refit the cost to save more"
        )


def cost_check(cost: Cost, simulations: Simulations) -> CostCheck:
    """Compare a cost model with the measured costs of runs that did not train it.

    Raises:
        DataError: Fewer than 20 runs with a measured cost.
        CostError: The model predicts a cost that is not positive.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.uniform(1, 5, (200, 1))
        >>> seconds = theta[:, 0] * rng.lognormal(-0.005, 0.1, 200)
        >>> runs = th.Simulations.from_arrays(theta=theta, x=theta, cost=seconds)
        >>> [cost_check(c, runs).verdict for c in (lambda t: t[:, 0], lambda t: t[:, 0] ** 2)]
        ['trust', 'with care']
    """
    check_simulations(simulations)
    timed = np.isfinite(simulations.cost) & (simulations.cost > 0)
    if timed.sum() < MIN_TIMED_RUNS:
        raise DataError(
            f"{int(timed.sum())} runs with a measured cost; at least {MIN_TIMED_RUNS} are needed", code="too-few-runs"
        )
    theta, measured = simulations.theta[timed], simulations.cost[timed]
    predicted = np.asarray(cost(theta), dtype=np.float64)
    if predicted.shape != measured.shape or not (predicted > 0).all():
        raise CostError(
            f"cost(theta) must give {len(theta)} positive numbers; got shape {predicted.shape}"
            f", smallest {predicted.min():g}",
            code="bad-cost",
        )
    ratio = measured / predicted
    ratio = np.minimum(ratio, 3 * np.quantile(ratio, _CAP_QUANTILE))
    coefficients, errors, p_value = _wald(theta, ratio - 1)
    total = float(measured.sum() / predicted.sum())
    spread = np.sqrt(np.sum((measured - total * predicted) ** 2)) / predicted.sum()
    log_gap, log_measured = np.log(measured / predicted), np.log(measured)
    variance = float(np.var(log_measured))
    return CostCheck(
        theta=freeze(theta),
        predicted=freeze(predicted),
        measured=freeze(measured),
        score=1 - float(np.var(log_gap)) / variance if variance > 0 else 0.0,
        ratio=total,
        ratio_se=float(spread),
        trends=coefficients[1:],
        trend_se=errors[1:],
        p_value=p_value,
        names=parameter_names(simulations.names, theta.shape[1]),
        unit=simulations.unit,
    )


def _wald(theta: Array, residual: Array) -> tuple[Array, Array, float]:
    """Regress on (1, standardised theta): coefficients, robust standard errors, p-value of "all are zero"."""
    from scipy.stats import f

    n, p = theta.shape
    spread = theta.std(0)
    design = np.column_stack([np.ones(n), (theta - theta.mean(0)) / np.where(spread > 0, spread, 1.0)])
    inverse = np.linalg.pinv(design.T @ design)
    coefficients = inverse @ design.T @ residual
    leverage = np.einsum("ij,jk,ik->i", design, inverse, design)
    scores = design * ((residual - design @ coefficients) / np.maximum(1 - leverage, 0.05))[:, None]  # HC3
    matrix = inverse @ (scores.T @ scores) @ inverse
    statistic = float(coefficients @ np.linalg.pinv(matrix) @ coefficients) / (p + 1)
    return coefficients, np.sqrt(np.diag(matrix)), float(f.sf(statistic, p + 1, max(n - p - 1, 1)))
