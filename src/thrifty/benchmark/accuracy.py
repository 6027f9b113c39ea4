"""Measure how far draws are from reference draws: classifier accuracy, MMD² and widths.

Exact draws score 0.5, 0 and 1, whatever their number:

    c2st    accuracy of a classifier on at most 1,000 draws of each kind, with a standard error of 0.011. The classifier
            is a network where the posterior has one mode, and boosted trees where it has several: modes 1.5 times too
            wide, or crescents twice too thick, are 0.50 to the network and 0.63 and 0.59 to the trees, whose cuts do
            not depend on the distance of the modes. On one mode, 1.2 times too wide, both find 0.56 to 0.60.
    mmd2    unbiased; lengthscale the reference's median distance, in units of the reference's standard deviations. It
            sees the shares of modes, hardly their widths.
    width   of a marginal: standard deviation where the posterior has one mode; exp(entropy) of the marginal where it
            has several. There the standard deviation tells the distance of the modes, not how wide they are, and so
            does an interquantile range; exp(entropy) adds up the widths of the modes, so that a lost mode is seen.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from thrifty.metrics import c2st, median_distance, mlp, mmd2
from thrifty.types import Array

MOST_DRAWS = 1_000  # of each kind for the classifier
SPACINGS = 10  # neighbours on each side in the entropy of a marginal: 1 % of 1,000 draws, less than any mode has


@dataclass(frozen=True)
class Accuracy:
    """Distance of draws from the reference.

    Attributes:
        c2st: Accuracy of a classifier, 0.5 to 1.
        mmd2: Squared maximum mean discrepancy, unbiased.
        width: exp(mean log ratio of widths over parameters), 1 where right.
        worst: Ratio of the parameter whose log is largest in absolute value.
    """

    c2st: float
    mmd2: float
    width: float
    worst: float

    def row(self) -> dict[str, float]:
        """Return the numbers by name."""
        return asdict(self)


def measure(draws: Array, reference: Array, *, modes: int = 1, seed: int = 0) -> Accuracy:
    """Compare draws (n, p) with reference draws (m, p)."""
    draws, reference = thin(draws, 2 * MOST_DRAWS), thin(reference, 2 * MOST_DRAWS)
    log_ratio = np.log(find_widths(draws, modes) / find_widths(reference, modes))
    classifier = mlp if modes == 1 else boosted_trees
    few = thin(draws, MOST_DRAWS), thin(reference, MOST_DRAWS)
    return Accuracy(
        c2st=float(c2st(*few, seed=seed, classifier=classifier)),
        mmd2=scaled_mmd2(draws, reference),
        width=float(np.exp(log_ratio.mean())),
        worst=float(np.exp(log_ratio[np.argmax(np.abs(log_ratio))])),
    )


def boosted_trees(dim: int, seed: int) -> Any:
    """Make a classifier of 100 small trees: forests of full-grown ones saw less of the same faults."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    del dim
    settings: dict[str, Any] = {"early_stopping": False}  # a stub inferred from the default "auto" would refuse it
    return HistGradientBoostingClassifier(
        max_iter=100, max_leaf_nodes=8, learning_rate=0.05, random_state=seed, **settings
    )


def thin(draws: Array, most: int) -> Array:
    """Keep at most so many rows, evenly from the whole table."""
    return draws if len(draws) <= most else draws[np.linspace(0, len(draws) - 1, most).astype(int)]


def scaled_mmd2(draws: Array, reference: Array) -> float:
    """Estimate MMD² without bias, in units of the reference's standard deviations."""
    scale = reference.std(0)
    y = reference / scale
    return float(mmd2(draws / scale, y, lengthscale=median_distance(y), unbiased=True))


def find_widths(draws: Array, modes: int) -> Array:
    """Find the width (p,) of each marginal: see the module."""
    if modes == 1:
        return draws.std(0, ddof=1)
    ordered = np.sort(thin(draws, MOST_DRAWS), axis=0)
    n = len(ordered)
    low, high = np.maximum(np.arange(n) - SPACINGS, 0), np.minimum(np.arange(n) + SPACINGS, n - 1)
    gaps = (ordered[high] - ordered[low]) * (n / (high - low))[:, None]
    least = 1e-3 * draws.std(0)  # copies of one draw have no gap
    return np.exp(np.log(np.maximum(gaps, least)).mean(0))
