"""Are weighted ranks uniform? The test behind SBC, coverage and TARP, with simultaneous bands.

For ranks u in (0, 1) with weights w the distance of the weighted distribution function from the diagonal, over
its standard deviation, is compared with its largest value under uniformity:

    T = max_t |F_w(t) - t| / s(t),     s(t)^2 = V(t) (1 - t)^2 + (V(1) - V(t)) t^2,   V(t) = sum of w_i^2 with u_i <= t

Without weights V(t) = t/n and s is binomial. Weights that go with the rank (large ranks mean large theta, hence
expensive, hence heavy) bend the clock V; it is modelled by a quadratic density, since the raw sum has the noise of the
ranks that it is to judge. The law of T is simulated: uniform ranks with these very weights, scaled to s(t); exact
without weights. With them s is an estimate, and few heavy runs make a poor one: V counts w / (1 - w) for w, and T is
taken for a Student statistic with as many degrees of freedom as there are effective runs (measured at ESS 25 to 160: a
size of 5 to 8 % for a nominal 5 %; 13 % without).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thrifty.diagnostics.arguments import check_level
from thrifty.diagnostics.verdict import CARE, Trust, by_size, shown
from thrifty.metrics.ks import squared, studentised, tail
from thrifty.types import Array
from thrifty.weights import ecdf, ess, normalise

_PATHS, _BATCH = 2000, 100
# each tail must hold five effective runs, where counts are near normal, and 1 % of them
_TAIL_COUNT, _TAIL_SHARE = 5.0, 0.01
FEW = 50.0  # effective runs below which no calibration is worth a "trust"


@dataclass(frozen=True)
class Calibration:
    """Weighted ranks against uniformity.

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
        """Over all rows, by Bonferroni."""
        return float(min(1.0, len(self.p_values) * self.p_values.min()))

    @property
    def verdict(self) -> Trust:
        """A gap of 0.05 is a shift of an eighth of a standard deviation; 0.1, of a quarter."""
        verdict = by_size(self.p_value, float(self.gaps.max()), small=0.05, large=0.1)
        return "with care" if verdict == "trust" and self.ess < FEW else verdict

    @property
    def reason(self) -> str:
        """The worst row in words."""
        worst = int(np.argmin(self.p_values))
        if self.verdict == "trust":
            how = "uniform" if self.p_value >= CARE else f"within {self.gaps.max():.2f} of uniform"
            return f"ranks are {how} over {self.ess:.0f} effective runs ({shown(self.p_value)})"
        if self.p_value >= CARE:
            return f"only {self.ess:.0f} effective runs to calibrate on; {FEW:.0f} are needed"
        label = self.names[worst]
        return f"{label}: {self._shape(worst)} (gap {self.gaps[worst]:.2f}, {shown(self.p_value)})"

    def at(self, levels: npt.ArrayLike, row: int = 0) -> tuple[Array, Array]:
        """Weighted share of ranks at or below each level, and its standard error."""
        levels = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        share = ecdf(self.ranks[:, row], levels, self.log_weights)
        below = (self.ranks[:, row][:, None] <= levels) - share
        return share, np.sqrt(normalise(self.log_weights) ** 2 @ below**2)

    def _shape(self, row: int) -> str:
        weights, ranks = normalise(self.log_weights), self.ranks[:, row]
        if self.names[row].startswith("from afar"):
            off = abs(float(weights @ ranks - 0.5)) > 0.05
            return "the posterior is off to one side" if off else "the posterior has the wrong width"
        if self.names[row].startswith("from where x"):
            near = float(weights @ ranks) < 0.5
            return f"the truth lies {'nearer to' if near else 'farther from'} where x points than the posterior does"
        if self.name != "sbc":
            under = float(self.ecdf[row].mean() - self.levels.mean())
            return "regions hold the truth too rarely: over-confident" if under < 0 else "regions are too wide"
        shift = float(weights @ ranks - 0.5)
        spread = float(weights @ (ranks - 0.5) ** 2 - 1 / 12)
        if abs(shift) > abs(spread) * 2:
            return "the posterior is too low" if shift > 0 else "the posterior is too high"
        return "the posterior is too narrow" if spread > 0 else "the posterior is too wide"


def calibrate(name: str, ranks: Array, log_weights: Array, names: tuple[str, ...], level: float = 0.95) -> Calibration:
    """Compare each column of ranks (n, r) with the uniform distribution."""
    check_level(level)
    size = ess(log_weights)
    edge = float(np.clip(_TAIL_COUNT / size, _TAIL_SHARE, 0.25))
    levels = np.linspace(edge, 1 - edge, 99)
    suprema = _null_suprema(normalise(log_weights), levels)  # one law: it depends on the weights alone
    rows = [_one(column, log_weights, levels, suprema, 1 - (1 - level) / ranks.shape[1]) for column in ranks.T]
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


def _one(
    ranks: Array, log_weights: Array, levels: Array, suprema: Array, level: float
) -> tuple[Array, Array, Array, float]:
    curve = ecdf(ranks, levels, log_weights)
    squares = _squares(normalise(log_weights))
    clock = _clock(ranks, squares, levels)
    deviation = np.sqrt(clock * (1 - levels) ** 2 + (squares.sum() - clock) * levels**2)
    width = np.quantile(suprema, level) * deviation
    statistic = float(np.abs((curve - levels) / deviation).max())
    p_value = tail(statistic, suprema, 1.0, np.inf if _flat(squares) else ess(log_weights))
    return curve, np.maximum(levels - width, 0.0), np.minimum(levels + width, 1.0), p_value


def _flat(weights: Array) -> bool:
    return bool(np.ptp(weights) <= 1e-9 * weights[0])


def _squares(weights: Array) -> Array:
    """What each rank adds to the clock; equal weights need no estimate."""
    return weights**2 if _flat(weights) else squared(weights)


def _null_suprema(weights: Array, levels: Array) -> Array:
    """Values of T for ranks that are uniform and have nothing to do with the weights (paths,)."""
    rng = np.random.default_rng(0)  # one fixed stream: the same ranks give the same p-value
    cells, step = len(levels) + 1, levels[1] - levels[0]
    deviation = np.sqrt(levels * (1 - levels) * np.sum(weights**2))
    suprema = []
    for _ in range(0, _PATHS, _BATCH):
        cell = np.ceil((rng.random((_BATCH, len(weights))) - levels[0]) / step).clip(0, cells - 1).astype(np.int64)
        cell += cells * np.arange(_BATCH)[:, None]
        mass = np.bincount(cell.ravel(), weights=np.tile(weights, _BATCH), minlength=_BATCH * cells)
        curve = np.cumsum(mass.reshape(_BATCH, cells), axis=1)[:, :-1]
        suprema.append(np.abs((curve - levels) / deviation).max(axis=1))
    found = np.concatenate(suprema)
    return found if _flat(weights) else studentised(found, 1 / float(np.sum(weights**2)), rng)


def _clock(ranks: Array, squares: Array, levels: Array) -> Array:
    """V at the levels: density 1 + a P1 + b P2 (shifted Legendre) with the moments of the squared weights."""
    share = squares / squares.sum()
    first = 3 * float(share @ (2 * ranks - 1))
    second = 5 * float(share @ (6 * ranks**2 - 6 * ranks + 1))
    size = abs(first) + abs(second)
    shrink = min(1.0, 0.9 / size) if size > 0 else 0.0  # a density stays positive
    if _flat(squares):
        shrink = 0.0  # equal weights cannot go with the rank
    bend = first * (levels**2 - levels) + second * (2 * levels**3 - 3 * levels**2 + levels)
    return squares.sum() * (levels + shrink * bend)
