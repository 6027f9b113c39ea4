"""Test whether weighted ranks are uniform, with simultaneous bands: the test behind SBC, coverage and TARP.

For ranks u in (0, 1) with weights w the distance of the weighted distribution function from the diagonal, over
its standard deviation, is compared with its largest value under uniformity:

    T = max_t |F_w(t) - t| / s(t),     s(t)^2 = V(t) (1 - t)^2 + (V(1) - V(t)) t^2,   V(t) = sum of w_i^2 with u_i <= t

Without weights V(t) = t/n and s is binomial. Weights that are correlated with the rank (large ranks mean large theta,
hence high cost, hence large weight) make V nonlinear. V is modelled by a quadratic density, since the raw sum has the
noise of the ranks under test. The distribution of T is simulated: uniform ranks with the same weights, scaled to s(t);
exact without weights. With weights s is an estimate, which is poor when a few runs have most of the weight: V uses
w / (1 - w) in place of w, and T is treated as a Student statistic with as many degrees of freedom as there are
effective runs (measured at ESS 25 to 160: a size of 5 to 8 % for a nominal 5 %; 13 % without).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thrifty.diagnostics.arguments import check_level
from thrifty.diagnostics.verdict import CARE_P_VALUE, DisplayedCheck, Trust, format_p_value, judge_effect
from thrifty.metrics.ks import jackknife_squares, studentise, tail_probability
from thrifty.types import Array
from thrifty.weights import ecdf, ess, normalise

_NULL_PATHS, _PATHS_PER_BATCH = 2000, 100
_TAIL_PATHS = 100  # paths whose excess gives the tail: its scale to 10 %
# each tail must hold five effective runs, where counts are nearly normal, and 1 % of them
_MIN_TAIL_RUNS, _MIN_TAIL_SHARE = 5.0, 0.01
MIN_EFFECTIVE_RUNS = 50.0  # with fewer effective runs no calibration supports a "trust"


@dataclass(frozen=True, repr=False)
class Calibration(DisplayedCheck):
    """Weighted ranks compared with the uniform distribution.

    Attributes:
        name: The check.
        names: What each row of ranks belongs to (r,).
        ranks: Ranks (n, r) in (0, 1).
        log_weights: Of the ranks (n,).
        levels: Where the distribution function is compared (t,).
        ecdf: Weighted distribution function of the ranks (r, t).
        low, high: Simultaneous band (r, t) that holds all of `ecdf` with probability `level` if ranks are uniform.
        p_values: One per row (r,).
        gaps: Largest distance of `ecdf` from the diagonal (r,).
        ess: Effective number of ranks.
        level: Of the bands, over all rows together.
    """

    name: str
    names: tuple[str, ...]
    ranks: Array
    log_weights: Array
    levels: Array
    ecdf: Array
    low: Array
    high: Array
    p_values: Array
    gaps: Array
    ess: float
    level: float

    @property
    def p_value(self) -> float:
        """The p-value over all rows, by Bonferroni."""
        return float(min(1.0, len(self.p_values) * self.p_values.min()))

    @property
    def verdict(self) -> Trust:
        """The verdict: a gap of 0.05 is a shift of an eighth of a standard deviation; 0.1, of a quarter."""
        return self.judge(1)

    def judge(self, tests: int) -> Trust:
        """Return the verdict when this is one of several tests of the same question."""
        verdict = judge_effect(self.p_value, float(self.gaps.max()), small=0.05, large=0.1, tests=tests)
        return "with care" if verdict == "trust" and self.ess < MIN_EFFECTIVE_RUNS else verdict

    @property
    def reason(self) -> str:
        """One sentence about the worst row."""
        worst = int(np.argmin(self.p_values))
        if self.verdict == "trust":
            how = "uniform" if self.p_value >= CARE_P_VALUE else f"within {self.gaps.max():.2f} of uniform"
            return f"ranks are {how} over {self.ess:.0f} effective runs ({format_p_value(self.p_value)})"
        if self.p_value >= CARE_P_VALUE:
            return f"only {self.ess:.0f} effective runs to calibrate on; {MIN_EFFECTIVE_RUNS:.0f} are needed"
        label = self.names[worst]
        return f"{label}: {self._shape(worst)} (gap {self.gaps[worst]:.2f}, {format_p_value(self.p_value)})"

    def at(self, levels: npt.ArrayLike, row: int = 0) -> tuple[Array, Array]:
        """Compute the weighted share of ranks at or below each level, and its standard error."""
        levels = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        share = ecdf(self.ranks[:, row], levels, self.log_weights)
        below = (self.ranks[:, row][:, None] <= levels) - share
        return share, np.sqrt(normalise(self.log_weights) ** 2 @ below**2)

    def _shape(self, row: int) -> str:
        weights, ranks = normalise(self.log_weights), self.ranks[:, row]
        if self.names[row].startswith("from afar"):
            shifted = abs(float(weights @ ranks - 0.5)) > 0.05
            return "the posterior is shifted to one side" if shifted else "the posterior has the wrong width"
        if self.names[row].startswith("from where x"):
            near = float(weights @ ranks) < 0.5
            return f"the truth lies {'nearer to' if near else 'farther from'} where x points than the posterior does"
        if self.name != "sbc":
            under = float(self.ecdf[row].mean() - self.levels.mean())
            held = f"90% regions hold {float(self.at(0.9, row)[0][0]):.0%} of the true parameters"
            return f"regions are too {'narrow' if under < 0 else 'wide'}: {held}"
        shift = float(weights @ ranks - 0.5)
        spread = float(weights @ (ranks - 0.5) ** 2 - 1 / 12)
        if abs(shift) > abs(spread) * 2:
            return "the posterior is too low" if shift > 0 else "the posterior is too high"
        inside = self.at([0.05, 0.95], row)[0]
        held = f"90% intervals hold {float(inside[1] - inside[0]):.0%} of the true values"
        return f"the posterior is too {'narrow' if spread > 0 else 'wide'}: {held}"


def calibrate(name: str, ranks: Array, log_weights: Array, names: tuple[str, ...], level: float = 0.95) -> Calibration:
    """Compare each column of ranks (n, r) with the uniform distribution."""
    check_level(level)
    size = ess(log_weights)
    edge = float(np.clip(_MIN_TAIL_RUNS / size, _MIN_TAIL_SHARE, 0.25))
    levels = np.linspace(edge, 1 - edge, 99)
    suprema = _null_suprema(normalise(log_weights), levels)  # the same for all rows: it depends on the weights alone
    rows = [_compare_row(column, log_weights, levels, suprema, 1 - (1 - level) / ranks.shape[1]) for column in ranks.T]
    curve, low, high, p_values = (np.array(part) for part in zip(*rows, strict=True))
    return Calibration(
        name=name,
        names=names,
        ranks=ranks,
        log_weights=log_weights,
        levels=levels,
        ecdf=curve,
        low=low,
        high=high,
        p_values=p_values,
        gaps=np.abs(curve - levels).max(axis=1),
        ess=size,
        level=level,
    )


def _compare_row(
    ranks: Array, log_weights: Array, levels: Array, suprema: Array, level: float
) -> tuple[Array, Array, Array, float]:
    """Compare one row of ranks (n,): its distribution function, the lower and upper band, and the p-value."""
    curve = ecdf(ranks, levels, log_weights)
    squares, size = _variance_terms(normalise(log_weights)), ess(log_weights)
    variance = _cumulative_variance(ranks, squares, levels)
    deviation = np.sqrt(variance * (1 - levels) ** 2 + (squares.sum() - variance) * levels**2)
    width = np.quantile(suprema, level) * deviation
    statistic = float(np.abs((curve - levels) / deviation).max())
    even = _are_equal(squares)
    p_value = _exponential_tail(statistic, suprema) if even else tail_probability(statistic, suprema, 1.0, size)
    return curve, np.maximum(levels - width, 0.0), np.minimum(levels + width, 1.0), p_value


def _exponential_tail(statistic: float, suprema: Array) -> float:
    """Estimate P(T > statistic): by counting, and beyond the largest paths by an exponential tail.

    Counts of five runs in a tail are skewed, so that a Gaussian tail rejects too often: 0.6 % of correct posteriors at
    p < 0.2 %.
    """
    exceeding = int(np.sum(suprema >= statistic))
    if exceeding >= _TAIL_PATHS // 4:
        return exceeding / len(suprema)
    largest = np.sort(suprema)[-_TAIL_PATHS:]
    excess = max(float(largest.mean() - largest[0]), 1e-300)
    return float(_TAIL_PATHS / len(suprema) * np.exp(-max(statistic - float(largest[0]), 0.0) / excess))


def _are_equal(weights: Array) -> bool:
    return bool(np.ptp(weights) <= 1e-9 * weights[0])


def _variance_terms(weights: Array) -> Array:
    """Compute what each rank adds to V; equal weights need no estimate."""
    return weights**2 if _are_equal(weights) else jackknife_squares(weights)


def _null_suprema(weights: Array, levels: Array) -> Array:
    """Simulate T (paths,) for ranks that are uniform and independent of the weights."""
    rng = np.random.default_rng(0)  # a fixed seed: the same ranks give the same p-value
    cells, step = len(levels) + 1, levels[1] - levels[0]
    deviation = np.sqrt(levels * (1 - levels) * np.sum(weights**2))
    suprema = []
    batch = _PATHS_PER_BATCH
    for _ in range(0, _NULL_PATHS, batch):
        cell = np.ceil((rng.random((batch, len(weights))) - levels[0]) / step).clip(0, cells - 1).astype(np.int64)
        cell += cells * np.arange(batch)[:, None]
        mass = np.bincount(cell.ravel(), weights=np.tile(weights, batch), minlength=batch * cells)
        curve = np.cumsum(mass.reshape(batch, cells), axis=1)[:, :-1]
        suprema.append(np.abs((curve - levels) / deviation).max(axis=1))
    found = np.concatenate(suprema)
    return found if _are_equal(weights) else studentise(found, 1 / float(np.sum(weights**2)), rng)


def _cumulative_variance(ranks: Array, squares: Array, levels: Array) -> Array:
    """Model V at the levels: density 1 + a P1 + b P2 (shifted Legendre) with the moments of the squared weights."""
    share = squares / squares.sum()
    first = 3 * float(share @ (2 * ranks - 1))
    second = 5 * float(share @ (6 * ranks**2 - 6 * ranks + 1))
    size = abs(first) + abs(second)
    shrink = min(1.0, 0.9 / size) if size > 0 else 0.0  # keeps the density positive
    if _are_equal(squares):
        shrink = 0.0  # equal weights cannot be correlated with the rank
    bend = first * (levels**2 - levels) + second * (2 * levels**3 - 3 * levels**2 + levels)
    return squares.sum() * (levels + shrink * bend)
