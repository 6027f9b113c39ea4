"""Fit the posterior of a round: which runs are trained on, and how thoroughly.

    NLE, NRE   all runs of all rounds, unweighted: p(x | theta) does not depend on how theta was drawn
    NPE        the runs inside the last region, weighted by prior / (joint density of all rounds); or all runs, where
               that predicts held-out runs in the region as well (`local_fit`)

Runs of later rounds lie close together, so that a likelihood is asked for details a hundredth of the prior wide. One
network of NLE, trained for its usual number of epochs, was far from done there (its held-out loss still fell by 0.4 nat
with four times as many), and one of three never got there however long it was trained: its posterior was two to three
times too large, its held-out loss higher by 0.9 nat (`exchange` of the development problems). So `strengthen` trains
several networks at once for twice as many epochs, and NLE drops those that did not learn. CPU time doubles.

That is for few outputs. With many, a run has many numbers to learn from and the usual epochs are enough: twice as many
made the held-out loss worse (`lotka_volterra`, 20 outputs: -1.17 instead of -1.45, and C2ST 0.60 instead of 0.50).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from thrifty.inference.checks import least_run_count
from thrifty.inference.neural.nle import NLE
from thrifty.inference.neural.recipes import AutoregressiveMixture
from thrifty.proposals.truncated import TruncatedPrior
from thrifty.sequential.finish import base_method
from thrifty.sequential.local_fit import measure_gain
from thrifty.tables.simulations import Simulations

EPOCH_FACTOR = 2  # of the usual cycle of NLE
MAX_MEMBERS = 3  # networks trained at once: that none of them learns is then one case in thirty
MAX_CONDITIONALS = 12  # networks times outputs, so that six outputs are few: a step takes little longer than of one


def strengthen(method: Any, runs: Simulations) -> Any:
    """Return NLE of few outputs with more networks and epochs where they are left open; anything else as it is.

    Example:
        >>> runs = th.Simulations.from_arrays(theta=np.zeros((2500, 1)), x=np.zeros((2500, 5)))
        >>> strong = strengthen(th.NLE(th.Normal(0, 1)), runs)
        >>> strong.network.members, strong.training.cycle
        (2, 56)
    """
    if not isinstance(method, NLE) or not isinstance(method.network, AutoregressiveMixture):
        return method
    members = min(MAX_MEMBERS, MAX_CONDITIONALS // (runs.x[0].size // runs.m))
    if members < 2:
        return method
    network, training = method.network, method.training
    if network.members is None:
        network = replace(network, members=members)
    if training.cycle is None:
        cycle = EPOCH_FACTOR * (training.settle(len(runs), cyclic=True).cycle or 0)
        training = replace(training, cycle=cycle, patience=max(training.patience, cycle))  # a cycle ends by itself
    return replace(method, network=network, training=training)


def find_region(proposals: list[Any]) -> TruncatedPrior | None:
    """Return the last region from which a round was drawn (NPE), or None."""
    return next((q for q in reversed(proposals) if isinstance(q, TruncatedPrior)), None)


def choose_rows(table: Simulations, region: TruncatedPrior | None, gain: float, dim: int) -> Simulations:
    """Return the runs to train on: all, or for NPE those in the last region, unless that wins nothing."""
    if region is None or gain <= 0:
        return table
    inside = table[region.contains(table.theta)]
    return inside if inside.ok.sum() >= least_run_count(dim) else table


def fit_round(method: Any, rows: Simulations, *, seed: int) -> Any:
    """Fit a method to the runs of all rounds."""
    return strengthen(method, rows).fit(rows, seed=seed)


def fit_best(method: Any, table: Simulations, region: TruncatedPrior | None, *, seed: int) -> tuple[Any, float]:
    """Fit the posterior; for NPE on the runs in the region and on all runs, and return the better one with its gain."""
    base = base_method(method)
    near = fit_round(method, choose_rows(table, region, float("inf"), base.prior.dim), seed=seed)
    if region is None or base.correction != "weights":  # others have no density under the prior to compare
        return near, float("nan")
    far, share = fit_round(method, table, seed=seed), base.training.validation
    gain = measure_gain(near, far, region, table, share=share, seed=seed)
    return (far if gain <= 0 else near), gain
