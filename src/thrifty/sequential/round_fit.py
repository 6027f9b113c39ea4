"""Fit the posterior of a round: which runs are trained on.

    NLE, NRE   all runs of all rounds, unweighted: p(x | theta) does not depend on how theta was drawn
    NPE        the runs inside the last region, weighted by prior / (joint density of all rounds); or all runs, where
               that predicts held-out runs in the region as well (`local_fit`)

How long a network is trained is decided by the method itself.
"""

from __future__ import annotations

from typing import Any

from thrifty.inference.checks import least_run_count
from thrifty.proposals.truncated import TruncatedPrior
from thrifty.sequential.finish import base_method
from thrifty.sequential.local_fit import measure_gain
from thrifty.tables.simulations import Simulations


def find_region(proposals: list[Any]) -> TruncatedPrior | None:
    """Return the last region from which a round was drawn (NPE), or None."""
    return next((q for q in reversed(proposals) if isinstance(q, TruncatedPrior)), None)


def choose_rows(table: Simulations, region: TruncatedPrior | None, gain: float, dim: int) -> Simulations:
    """Return the runs to train on: all, or for NPE those in the last region, unless that wins nothing."""
    if region is None or gain <= 0:
        return table
    inside = table[region.contains(table.theta)]
    return inside if inside.ok.sum() >= least_run_count(dim) else table


def fit_best(method: Any, table: Simulations, region: TruncatedPrior | None, *, seed: int) -> tuple[Any, float]:
    """Fit the posterior; for NPE on the runs in the region and on all runs, and return the better one with its gain."""
    base = base_method(method)
    near = method.fit(choose_rows(table, region, float("inf"), base.prior.dim), seed=seed)
    if region is None or base.correction != "weights":  # others have no density under the prior to compare
        return near, float("nan")
    far, share = method.fit(table, seed=seed), base.training.validation
    gain = measure_gain(near, far, region, table, share=share, seed=seed)
    return (far if gain <= 0 else near), gain
