"""Find outputs that come in steps or pile up at values: counts, rounded, clipped and zero-inflated numbers.

A value that many runs share has a probability, not a density. Methods that estimate densities must know, or they rise
without end there: neural likelihoods give such values cells (`neural.cells`), synthetic ones a least spread.
"""

from __future__ import annotations

import numpy as np

from thrifty.types import Array

MIN_TIED_SHARE = 0.01  # of runs that share their value with another: single precision alone ties 0.2 % of 20,000


def is_tied(column: Array) -> bool:
    """Tell whether a share of the values (n,) that chance does not explain equals another one.

    Example:
        >>> is_tied(np.array([0.0, 0.0, 1.3, 2.1])), is_tied(np.linspace(0, 1, 50))
        (True, False)
    """
    _, counts = np.unique(column, return_counts=True)
    return bool(counts[counts > 1].sum() >= MIN_TIED_SHARE * len(column)) and bool((counts > 1).any())


def find_step(values: Array) -> float:
    """Find the step of a lattice that holds all of the increasing values; 0 where there is none.

    Example:
        >>> find_step(np.array([0.0, 3.0, 5.0])), round(find_step(np.array([0.1, 0.3, 0.7])), 9)
        (1.0, 0.2)
        >>> find_step(np.log([1.0, 2.0, 3.0]))
        0.0
    """
    gaps = np.diff(values)
    if not len(gaps):
        return 0.0
    if (values == np.round(values)).all() and np.abs(values).max() < 2**53:
        return float(np.gcd.reduce(gaps.astype(np.int64)))
    ratios = gaps / gaps.min()
    rounding = np.spacing(np.abs(values).max()) / gaps.min()
    return float(gaps.min()) if (np.abs(ratios - np.round(ratios)) < 1e-6 * ratios + 4 * rounding).all() else 0.0


def least_spreads(x: Array) -> Array:
    """Find a least standard deviation (d,) for each statistic of runs x (n, m, d) at n parameters; 0 without ties.

    On a lattice that of a uniform cell, step / sqrt(12). Where m runs are equal otherwise, what they can have missed:
    a value with a chance of 1/m, as far away as values elsewhere are, so the median spread over sqrt(m).

    Example:
        >>> least_spreads(np.array([[[0.0], [1.0]], [[0.0], [0.0]]])).round(3).tolist()
        [0.289]
    """
    m = x.shape[1]
    out = np.zeros(x.shape[2])
    for j, column in enumerate(np.moveaxis(x, 2, 0)):
        if is_tied(column.ravel()):
            step, sd = find_step(np.unique(column)), column.std(1)
            missed = float(np.median(sd[sd > 0])) / np.sqrt(m) if (sd > 0).any() else 0.0
            out[j] = step / np.sqrt(12) if step > 0 else missed
    return out
