"""Judge whether runs in a region around the posterior teach NPE more than all runs do.

    gain = mean over held-out runs in R of   log q_R(theta | x) / q_R(R | x)   -   log q(theta | x) / q(R | x)

q_R was trained on the runs in R, q on all of them, both with weights; both learn the same posterior wherever R holds
it. Near the border of R only q knows of what lies outside, so each density is divided by its own mass in R, from draws.

Where the posterior depends on x in a curved way, runs far from x_o teach nothing of it, and the region wins by far.
Where it is linear in x, far runs teach as much as near ones or more, and a region only cuts posteriors at its border.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thrifty.inference.neural.training_settings import mark_held_out
from thrifty.proposals.truncated import TruncatedPrior
from thrifty.tables.simulations import Simulations
from thrifty.types import Array

MIN_RUNS = 20  # held-out runs that are compared: fewer say nothing
MAX_RUNS = 300  # the standard error of a gain is then a tenth of a nat and less
DRAWS_PER_RUN = 60  # of each posterior, behind its mass in the region


def measure_gain(near: Any, far: Any, region: TruncatedPrior, runs: Simulations, *, share: float, seed: int) -> float:
    """Return the gain of `near`, trained on the runs in the region, over `far`, less its standard error.

    Args:
        near: Posterior of NPE, trained on the runs in the region.
        far: Posterior of NPE, trained on all runs.
        region: The region.
        runs: All runs, with weights (n rows).
        share: Of the runs that both held out, by their plan index.
        seed: Of the draws.

    Returns:
        Nats per run; above 0 the region is worth it; NaN where too few runs were held out, or one has several outputs.
    """
    kept = runs[runs.ok & mark_held_out(runs.index, share)]
    kept = kept[region.contains(kept.theta)]
    if len(kept) < MIN_RUNS or runs.m > 1:  # of several outputs per run, networks may see any number
        return float("nan")
    kept = kept[np.unique(np.linspace(0, len(kept) - 1, MAX_RUNS).astype(int))]
    weights = np.exp(kept.log_weights - kept.log_weights.max())
    gaps = score_inside(near, region, kept, seed=seed) - score_inside(far, region, kept, seed=seed)
    gain = float(np.average(gaps, weights=weights))
    error = float(np.sqrt(np.square(weights * (gaps - gain)).sum()) / weights.sum())
    return gain - error


def score_inside(posterior: Any, region: TruncatedPrior, runs: Simulations, *, seed: int) -> Array:
    """Return the log density (n,) of each run's parameters at its own output, normalised over the region."""
    members = getattr(posterior, "members", (posterior,))
    each = [member.log_density(runs.theta, runs.x) for member in members]
    draws = np.concatenate(
        [member.sample_batched(DRAWS_PER_RUN, runs.x, seed=seed) for member in members], axis=1
    )  # (n, draws, p)
    inside = region.contains(draws.reshape(-1, draws.shape[-1])).reshape(draws.shape[:2]).mean(1)
    log_density = np.logaddexp.reduce(each, axis=0) - np.log(len(each))
    return log_density - np.log(np.maximum(inside, 0.5 / draws.shape[1]))
