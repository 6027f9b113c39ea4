"""Distances between two samples that may carry weights.

All take `x`, `y`, `x_weights=None`, `y_weights=None`; weights are linear and non-negative, e.g.
`th.normalise(log_weights)`. `mmd2`, `c2st`, `sliced_wasserstein` and `energy_distance` return a float,
`ks` a distance and a p-value per column, `c2st_test` the accuracy with its null interval.
"""

from thrifty.metrics.c2st import C2ST, c2st, c2st_test, forest, mlp
from thrifty.metrics.energy_distance import energy_distance
from thrifty.metrics.ks import KS, ks
from thrifty.metrics.mmd import median_distance, mmd2
from thrifty.metrics.sliced_wasserstein import sliced_wasserstein

__all__ = [
    "C2ST",
    "KS",
    "c2st",
    "c2st_test",
    "energy_distance",
    "forest",
    "ks",
    "median_distance",
    "mlp",
    "mmd2",
    "sliced_wasserstein",
]
