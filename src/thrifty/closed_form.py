"""The paper's closed forms, for a uniform prior on [low, high] and power penalties, corrected and for every k.

    cost = slope * theta^power + offset,      g(z) = z^k
    B  = E[c^-k],      CG = E[c] E[c^-k] / E[c^(1-k)]

The paper tabulates linear and quadratic costs with k = 1 and 2 (appendix B). Its third row of the table of B
prints g = 1 and slope squared; right is g(z) = z and slope.
"""

from __future__ import annotations

import numpy as np

from thrifty.errors import CostError


def moment(low: float, high: float, s: float, *, power: float = 1, slope: float = 1, offset: float = 0) -> float:
    """E[c^s] for theta uniform on [low, high], c = slope * theta^power + offset.

    Example:
        >>> moment(0.0, 2.0, 1.0)
        1.0
    """
    if not low < high:
        raise CostError(f"low {low:g} is not below high {high:g}", code="bad-setting")
    if slope == 0 or power == 0:
        raise CostError("slope and power must not be zero: the cost would be flat", code="bad-setting")
    if offset != 0 and power != 1:
        raise CostError(f"an offset has a closed form for power 1 only, got power {power:g}", code="bad-setting")
    ends = np.array([low, high], dtype=np.float64)
    costs = slope * np.sign(ends) * np.abs(ends) ** power + offset
    positive_range = low >= 0 or power == 1
    if not positive_range or costs.min() < 0 or (costs.min() == 0 and s < 0):
        raise CostError(
            f"cost must be positive on [{low:g}, {high:g}], got {costs.tolist()} at the ends", code="bad-cost"
        )
    if power == 1:
        return _integral(costs, s) / (slope * (high - low))
    return float(slope**s) * _integral(ends, power * s) / (high - low)


def _integral(ends: np.ndarray, s: float) -> float:
    """Integral of z^s between two ends."""
    a, b, e = float(ends[0]), float(ends[1]), s + 1
    if a == 0 or b == 0:
        return (b**e - a**e) / e
    x = e * np.log(b / a)  # expm1 keeps the digits where s is next to -1
    return float(a**e * np.log(b / a) * (np.expm1(x) / x if x != 0 else 1.0))


def normaliser(low: float, high: float, k: float, *, power: float = 1, slope: float = 1, offset: float = 0) -> float:
    """B = E[1/g(c)], the paper's table of normalisation constants.

    Example:
        >>> round(normaliser(1, 7, 1, power=2, slope=2), 4)  # the corrected third row
        0.0714
    """
    return moment(low, high, -k, power=power, slope=slope, offset=offset)


def gain(low: float, high: float, k: float, *, power: float = 1, slope: float = 1, offset: float = 0) -> float:
    """CG, the paper's table of computational gains, for any k.

    Example:
        >>> round(gain(1, 10, 1), 4)  # (10 + 1) log(10) / (2 (10 - 1))
        1.4071
    """
    settings = {"power": power, "slope": slope, "offset": offset}
    numerator = moment(low, high, 1, **settings) * moment(low, high, -k, **settings)
    return numerator / moment(low, high, 1 - k, **settings)


def ess_fraction(low: float, high: float, k: float, *, power: float = 1, slope: float = 1, offset: float = 0) -> float:
    """ESS/n = 1 / (E[g] E[1/g]).

    Example:
        >>> round(gain(1, 10, 1) * ess_fraction(1, 10, 1), 12)
        1.0
    """
    settings = {"power": power, "slope": slope, "offset": offset}
    return 1 / (moment(low, high, k, **settings) * moment(low, high, -k, **settings))


def ceiling(low: float, high: float, *, power: float = 1, slope: float = 1, offset: float = 0) -> float:
    """E[c] / (E sqrt c)^2: the most that any penalty can make of a fixed budget.

    Example:
        >>> bool(ceiling(1, 1000) > gain(1, 1000, 0.4) * ess_fraction(1, 1000, 0.4))
        True
    """
    settings = {"power": power, "slope": slope, "offset": offset}
    return moment(low, high, 1, **settings) / moment(low, high, 0.5, **settings) ** 2
