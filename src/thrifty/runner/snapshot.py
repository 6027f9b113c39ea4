"""The runs of a plan at one moment: what is spent, what failed, and what cost-awareness saves, with an interval.

With weights w_i and costs y_i of all n runs (pilot included), a plain run costs on average
    mu = sum w y / sum w,   se^2 = sum w^2 (y - mu)^2 / (sum w)^2,
so the same n runs from the prior would have cost n mu, and n mu - sum y was saved. Per effective run the
comparison is sum y / ESS against mu: that is the figure that counts, and it may be negative.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.types import STATUSES, Array
from thrifty.weights import ess, normalise

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
        drawn_log_weights: The same without what time limits add to them (n,); None where nothing is added. Savings are
            compared by these: plain draws would have met the same limits.
    """

    status: npt.NDArray[np.str_]
    cost: Array
    predicted: Array
    log_weights: Array
    drawn_log_weights: Array | None = None

    @property
    def done(self) -> npt.NDArray[np.bool_]:
        """Runs with a result (n,)."""
        return self.status != "pending"

    @np.errstate(over="ignore", invalid="ignore")
    def sum_up(self) -> Totals:
        """Return the sums that all figures are made of; absurd costs, of a damaged file, give infinite sums."""
        done, chosen = self.done, np.isfinite(self.predicted)
        finite = np.isfinite(self.log_weights)
        shift = float(self.log_weights[finite].max()) if finite.any() else 0.0
        weights = np.exp(self.log_weights - shift)
        cost = np.where(done, self.cost, self.predicted)
        known = np.isfinite(cost)
        drawn = weights if self.drawn_log_weights is None else np.exp(self.drawn_log_weights - shift)
        y, w = cost[known], drawn[known]
        center = float(y.mean()) if len(y) else 0.0
        off = y - center
        counts = {name: int((self.status == name).sum()) for name in STATUSES}
        return Totals(
            by_status=Counter({name: count for name, count in counts.items() if count}),
            shift=shift,
            done_mass=float(weights[done].sum()),
            failed_mass_sum=float(weights[done & (self.status != "ok")].sum()),
            spent=float(np.nansum(self.cost[done])),
            left=float(np.nansum(self.predicted[~done])),
            unpredicted=int((~chosen & ~done).sum()),
            predicted=int(chosen.sum()),
            predicted_done=int((chosen & done).sum()),
            known=len(y),
            center=center,
            y=float(y.sum()),
            w=float(w.sum()),
            wy=float(w @ off),
            ww=float(w @ w),
            wwy=float(w**2 @ off),
            wwyy=float((w * off) @ (w * off)),
            limited_share=_divide(_count_effective(weights[known]), _count_effective(w)),
        )


@dataclass(frozen=True)
class Totals:
    """Sums over the runs that count: they can be added, so that a million runs need not be in memory together.

    Attributes:
        by_status: Runs per status.
        shift: Weights below are exp(log weight - shift).
        done_mass, failed_mass_sum: Weight of the finished runs, and of those that failed.
        spent, left: Measured cost, and predicted cost of pending runs.
        unpredicted: Pending runs without a prediction.
        predicted, predicted_done: Runs with a prediction, and how many of them have finished.
        known: Runs with a cost, measured or predicted.
        center: Costs below are counted from here, so that squares lose no digits.
        y, w, wy, ww, wwy, wwyy: Sums of cost and weight over those runs, of their products, and of the squares.
        limited_share: Share of the effective runs that time limits leave; 1 without limits. No sum: it belongs to all
            runs together.
    """

    by_status: Counter[str] = field(default_factory=Counter)
    shift: float = 0.0
    done_mass: float = 0.0
    failed_mass_sum: float = 0.0
    spent: float = 0.0
    left: float = 0.0
    unpredicted: int = 0
    predicted: int = 0
    predicted_done: int = 0
    known: int = 0
    center: float = 0.0
    y: float = 0.0
    w: float = 0.0
    wy: float = 0.0
    ww: float = 0.0
    wwy: float = 0.0
    wwyy: float = 0.0
    limited_share: float = 1.0

    @property
    def planned(self) -> int:
        """Number of runs that count."""
        return self.by_status.total()

    @property
    def done(self) -> int:
        """Number of runs with a result."""
        return self.planned - self.by_status["pending"]

    @property
    def failed(self) -> int:
        """Number of runs that gave no numbers."""
        return self.done - self.by_status["ok"]

    @property
    def failed_mass(self) -> float:
        """Share of prior mass of the finished runs that failed."""
        return max(self.failed_mass_sum, 0.0) / self.done_mass if self.done_mass > 0 and self.failed else 0.0

    def plus(self, other: Totals, *, sign: int = 1) -> Totals:
        """Add the sums of other runs, or with sign -1 take them away."""
        if not self.planned:
            return other if sign > 0 else other.moved(shift=0.0, center=0.0, sign=-1)
        mine = self.moved(shift=max(self.shift, other.shift), center=self.center)
        theirs = other.moved(shift=mine.shift, center=mine.center, sign=sign)
        counts = {key: mine.by_status[key] + theirs.by_status[key] for key in {*mine.by_status, *theirs.by_status}}
        sums = {key: value + getattr(theirs, key) for key, value in asdict(mine).items() if key in _SUMS}
        return Totals(Counter({key: n for key, n in counts.items() if n}), shift=mine.shift, center=mine.center, **sums)

    def moved(self, *, shift: float, center: float, sign: int = 1) -> Totals:
        """Return the same sums relative to another shift and center."""
        scale, by = float(np.exp(self.shift - shift)), self.center - center
        sums = {key: value for key, value in asdict(self).items() if key in _SUMS}
        sums |= {
            "done_mass": scale * self.done_mass,
            "failed_mass_sum": scale * self.failed_mass_sum,
            "w": scale * self.w,
            "wy": scale * (self.wy + by * self.w),
            "ww": scale**2 * self.ww,
            "wwy": scale**2 * (self.wwy + by * self.ww),
            "wwyy": scale**2 * (self.wwyy + 2 * by * self.wwy + by * by * self.ww),
        }
        counts = Counter({key: sign * n for key, n in self.by_status.items()})
        return Totals(counts, shift=shift, center=center, **{key: sign * value for key, value in sums.items()})

    @np.errstate(over="ignore", invalid="ignore")
    def estimate_savings(self) -> Saved | None:
        """Estimate what the whole plan saves: with measured costs of finished runs, predicted ones of the others.

        The weights are those of all runs, and runs do not finish in a random order: finished ones alone would mislead.
        Nothing is known (None) while a pending run has no prediction, or before a run that is not a pilot has finished.
        """
        if self.unpredicted or (self.predicted and not self.predicted_done):
            return None
        if self.known < 2 or not self.w > 0 or self.y <= 0:
            return None
        off = self.wy / self.w
        mean = self.center + off
        error = np.sqrt(max(self.wwyy - 2 * off * self.wwy + off * off * self.ww, 0.0)) / self.w
        saved = _make_saved(self.known, self.y, mean, error, effective=self.w * self.w / self.ww)
        return replace(saved, effective=saved.effective * self.limited_share)

    def to_dict(self) -> dict[str, Any]:
        """Write plain values."""
        return asdict(self) | {"by_status": dict(self.by_status)}


_SUMS = ("done_mass", "failed_mass_sum", "spent", "left", "unpredicted", "predicted", "predicted_done", "known")
_SUMS += ("y", "w", "wy", "ww", "wwy", "wwyy")


def _count_effective(weights: Array) -> float:
    return _divide(float(weights.sum()) ** 2, float(weights @ weights))


def _divide(a: float, b: float) -> float:
    return a / b if b > 0 else 1.0


def _make_saved(n: int, spent: float, mean: float, error: float, *, effective: float) -> Saved:
    spread = float(np.exp(min(Z95 * error / mean, 700.0)))  # on the log scale: a mean cost is positive and skew
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
    return _make_saved(len(cost), float(cost.sum()), mean, error, effective=ess(log_weights))
