"""Fit the posterior of a round: which runs are trained on, and how thoroughly.

    NLE, NRE   all runs of all rounds, unweighted: p(x | theta) does not depend on how theta was drawn
    NPE        the runs inside the last region, weighted by prior / (joint density of all rounds); or all runs, where
               that predicts held-out runs in the region as well (`local_fit`)

Runs of later rounds lie close together, so that a likelihood is asked for details a hundredth of the prior wide. One
network of NLE, trained for its usual number of epochs, is far from done there, and one of three never gets there: its
posterior is two to three times too large, its held-out loss higher by 0.9 nat (`exchange` of the development problems).
So `strengthen` trains several networks at once for twice as many epochs, and NLE drops those that did not learn. That
is enough to choose where the next round draws. The last posterior is trained again for four, eight, ... times the usual
epochs, as long as held-out runs are predicted better (`fit_longer`): `hooks` needed sixteen times.

    epochs   held-out loss   volume (exact 1.4e-3)   C2ST          CPU s     (hooks, 1,289 runs, two network seeds)
    2 x      -4.15 -4.11     6.1e-3 4.2e-3           0.61 0.64      3
    4 x      -4.72 -4.78     1.7e-3 2.2e-3           0.58 0.57      5
    8 x      -5.33 -5.27     1.6e-3 1.6e-3           0.56 0.56      9
    16 x     -5.38 -5.37     1.5e-3 1.5e-3           0.54 0.54     18

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

EPOCH_FACTOR = 2  # of the usual cycle of NLE, between rounds
MAX_STEPS = 8_000  # of the last training: where epochs were doubled until nothing was won, 7,500 were enough
MIN_GAIN_NATS = 0.02  # of the held-out loss per run: a width wrong by a tenth costs as much
MAX_MEMBERS = 3  # networks trained at once: that none of them learns is then one case in thirty
MAX_CONDITIONALS = 12  # networks times outputs, so that six outputs are few: a step takes little longer than of one


def strengthen(method: Any, runs: Simulations, factor: int = EPOCH_FACTOR) -> Any:
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
        cycle = factor * (training.settle(len(runs), cyclic=True).cycle or 0)
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


def fit_longer(method: Any, rows: Simulations, posterior: Any, *, seed: int) -> Any:
    """Train NLE of few outputs again for twice as many epochs, and again, while held-out runs are predicted better.

    Args:
        method: Of the rounds.
        rows: All runs.
        posterior: Its fit by `fit_round`, which is returned where nothing is better.
        seed: As there.
    """
    factor, usual = EPOCH_FACTOR, strengthen(method, rows)
    if usual is method or method.training.cycle is not None:
        return posterior
    steps = usual.training.cycle * len(rows) / usual.training.choose_batch(len(rows))
    while 2 * steps <= MAX_STEPS:
        factor, steps = 2 * factor, 2 * steps
        longer = strengthen(method, rows, factor).fit(rows, seed=seed)
        gain = min(posterior.curve.members) - min(longer.curve.members)
        posterior = longer if gain > 0 else posterior
        if gain < MIN_GAIN_NATS:
            break
    return posterior


def fit_best(method: Any, table: Simulations, region: TruncatedPrior | None, *, seed: int) -> tuple[Any, float]:
    """Fit the posterior; for NPE on the runs in the region and on all runs, and return the better one with its gain."""
    base = base_method(method)
    near = fit_round(method, choose_rows(table, region, float("inf"), base.prior.dim), seed=seed)
    if region is None or base.correction != "weights":  # others have no density under the prior to compare
        return near, float("nan")
    far, share = fit_round(method, table, seed=seed), base.training.validation
    gain = measure_gain(near, far, region, table, share=share, seed=seed)
    return (far if gain <= 0 else near), gain
