"""The runs of a plan at one moment: what is spent, what failed, and what cost-awareness saves, with an interval.

With weights w_i and costs y_i of all n runs (pilot included), a plain run costs on average
    mu = sum w y / sum w,   se^2 = sum w^2 (y - mu)^2 / (sum w)^2,
so the same n runs from the prior would have cost n mu, and n mu - sum y was saved. Per effective run the
comparison is sum y / ESS against mu: that is the figure that counts, and it may be negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thrifty.types import Array
from thrifty.weights import ess, mass_of, normalise

Z95 = 1.959963984540054


@dataclass(frozen=True)
class Saved:
    """Cost saved so far.

    Attributes:
        spent: Measured cost of all runs.
        plain: What as many prior runs would have cost, estimated.
        amount: plain - spent.
        low, high: 95 % interval of `amount`.
        share: amount / plain.
        per_effective: Share saved per effective run, 1 - (spent/ESS)/(plain/n).
        effective: Effective runs.
    """

    spent: float
    plain: float
    amount: float
    low: float
    high: float
    share: float
    per_effective: float
    effective: float


@dataclass(frozen=True)
class Snapshot:
    """The runs that count, as columns.

    Attributes:
        status: "pending", or how each run ended (n,).
        cost: Measured cost (n,), NaN without a run.
        predicted: Predicted cost (n,), NaN where no cost was known when the run was drawn, as for pilots.
        log_weights: Weights of the whole plan (n,).
    """

    status: npt.NDArray[np.str_]
    cost: Array
    predicted: Array
    log_weights: Array

    @property
    def done(self) -> npt.NDArray[np.bool_]:
        """Runs with a result (n,)."""
        return self.status != "pending"

    @property
    def failed_mass(self) -> float:
        """Share of prior mass of the finished runs that failed."""
        done = self.done
        return mass_of(self.status[done] != "ok", self.log_weights[done])

    def estimate_savings(self) -> Saved | None:
        """Estimate what the whole plan saves: with measured costs of finished runs, predicted ones of the others.

        The weights are those of all runs and cheap runs finish first, so finished runs alone would flatter. Nothing is
        known (None) while a pending run has no prediction, or before a run that is not a pilot has finished.
        """
        done, chosen = self.done, np.isfinite(self.predicted)
        if not chosen[~done].all() or (chosen.any() and not (chosen & done).any()):
            return None
        return estimate_savings(np.where(done, self.cost, self.predicted), self.log_weights)


def estimate_savings(cost: npt.ArrayLike, log_weights: npt.ArrayLike) -> Saved | None:
    """Estimate the savings of a set of runs with measured costs (n,) and log weights (n,); None below two runs.

    Example:
        >>> round(estimate_savings([1.0, 1.0, 4.0], [0.0, 0.0, np.log(4.0)]).amount, 9)
        3.0
    """
    cost, log_weights = np.asarray(cost, dtype=np.float64), np.asarray(log_weights, dtype=np.float64)
    known = np.isfinite(cost)
    cost, log_weights = cost[known], log_weights[known]
    if len(cost) < 2 or not np.isfinite(log_weights).any() or cost.sum() <= 0:
        return None
    weights = normalise(log_weights)
    mean = float(weights @ cost)
    error = float(np.sqrt(np.sum((weights * (cost - mean)) ** 2)))
    n, spent = len(cost), float(cost.sum())
    spread = np.exp(min(Z95 * error / mean, 700.0))  # on the log scale: a mean cost is positive and skew
    effective = ess(log_weights)
    return Saved(
        spent=spent,
        plain=n * mean,
        amount=n * mean - spent,
        low=n * mean / spread - spent,
        high=n * mean * spread - spent,
        share=1 - spent / (n * mean),
        per_effective=1 - spent / effective / mean,
        effective=effective,
    )
