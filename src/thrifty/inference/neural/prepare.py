"""Prepare a table of simulations for training: rows that are valid, inside the prior and checked. No torch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError, warn
from thrifty.inference.checks import (
    MAX_FAILED_MASS,
    Reach,
    check_parameters,
    check_run_count,
    check_weights,
    find_varying,
)
from thrifty.inference.transforms import BoxTransform
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Prior, find_discrete, levels_of
from thrifty.weights import normalise

MIN_LOG_SCALE_RATIO = 20.0  # a positive parameter with high / low above this is seen on a log-like scale


@dataclass(frozen=True)
class Rows:
    """Pairs to learn from.

    Attributes:
        theta: Parameters (n, p).
        x: Outputs (n, *event), or (n, m, *event) for sets.
        log_weights: Weights in use (n,): zeros when the method does not use them.
        index: Plan index of the run behind each row (n,), so that all pairs of a run fall on one side of the split.
        keep: Which flat statistics vary.
        reach: Where the simulations lie.
        notes: What the reader should know.
    """

    theta: Array
    x: Array
    log_weights: Array
    index: npt.NDArray[np.int64]
    keep: npt.NDArray[np.bool_]
    reach: Reach
    notes: tuple[str, ...]

    def unfold(self) -> Rows:
        """Return sets (n, m, *event) as pairs, one row for each member."""
        m = self.x.shape[1]
        theta, log_weights = np.repeat(self.theta, m, axis=0), np.repeat(self.log_weights, m)
        return replace(self, theta=theta, x=self.x.reshape(-1, *self.x.shape[2:]), log_weights=log_weights)


def prepare(
    simulations: Simulations, prior: Prior, *, weighted: bool, sets: bool = False, shaped: bool = False
) -> Rows:
    """Check a table and lay it out as pairs, or sets; statistics that never vary are kept where x is shaped.

    Raises:
        DataError: wrong-prior, too-few-runs, outside-prior, or constant-output where nothing varies.
    """
    check_parameters(simulations, prior)
    good = simulations.valid()
    if weighted and np.isneginf(good.log_weights).any():
        good = good[np.isfinite(good.log_weights)]
    check_run_count(len(good), prior.dim)
    outside = ~np.isfinite(prior.log_prob(good.theta))
    if outside.any():
        raise DataError(
            f"{int(outside.sum())} of {len(good)} simulations lie outside the prior, first theta ="
            f" {good.theta[outside][0].tolist()}",
            code="outside-prior",
            why="the posterior is defined over the prior's support only",
            fix="use the prior that the simulations were planned with",
        )
    if weighted:
        check_weights(good.log_weights)
    theta, x, log_weights = good.pairs()
    keep, notes = find_varying(x, good.x_names)
    notes = [] if shaped else notes  # of an image or a series nothing is dropped
    for note in notes:
        warn(f"[constant-output] {note}", stacklevel=4)
    reach = Reach.of(x, log_weights, good.x_names)
    index = np.repeat(good.index, good.m)
    if sets:
        theta, x, log_weights, index = good.theta, good.x, good.log_weights, good.index
        x = x[:, None] if good.m == 1 else x
    used = log_weights if weighted else np.zeros(len(theta))
    return Rows(theta, x, used, index, keep, reach, tuple(notes))


def describe_failures(simulations: Simulations, of: str = "the prior mass") -> str:
    """Describe the runs that failed in one sentence; empty when none did. `of` says what the runs stand for."""
    failed, ended = simulations.status[simulations.failed], int((simulations.ok | simulations.failed).sum())
    if not len(failed):
        return ""
    kinds, counts = np.unique(failed, return_counts=True)
    listed = ", ".join(f"{count} {kind}" for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True))
    return f"{len(failed)} of {ended} runs failed ({listed}): {simulations.failed_mass:.2%} of {of}"


def warn_failures(simulations: Simulations) -> tuple[str, ...]:
    """Warn of failed runs under NPE: outputs with NaN are harmless at a valid x_o, other failures are not."""
    # in rounds these are the runs of a region
    sentence = describe_failures(simulations, of="the prior mass that these runs stand for")
    lost = simulations.failed & (simulations.status != "invalid")
    if lost.any() and normalise(simulations.log_weights)[lost].sum() > MAX_FAILED_MASS:
        warn(f"[too-many-failures] {sentence}. The posterior is conditional on runs that finish", stacklevel=4)
    return (sentence,) if sentence else ()


def choose_condition_box(prior: Prior) -> BoxTransform:
    """Choose the bounds to transform away where theta is not modelled: half-lines, and positive boxes of decades."""
    low, high = (np.array(end) for end in prior.bounds)
    both = np.isfinite(low) & np.isfinite(high)
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = both & ~((low > 0) & (high / low > MIN_LOG_SCALE_RATIO))
    levels = levels_of(prior)
    plain &= ~find_discrete(levels)
    low[plain], high[plain] = -np.inf, np.inf
    return BoxTransform(low, high, levels)
