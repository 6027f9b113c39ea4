"""The fit that NLE and NRE share: a likelihood or a ratio, and P(valid | theta) where runs fail. No torch on import.

    p(x_o | theta) = p(x_o | theta, valid) · P(valid | theta)        for a valid x_o

Both networks learn the likelihood of *valid* runs, which is not p(x | theta) where validity depends on theta. So a
table with more than 1 % of the prior mass failed is refused, or the second factor is learned too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from thrifty.errors import ConfigError, QualityGateError
from thrifty.inference.checks import check_fit
from thrifty.inference.neural.potential_posterior import PotentialPosterior
from thrifty.inference.neural.prepare import (
    MAX_FAILED_MASS,
    Rows,
    choose_condition_box,
    describe_failures,
    prepare,
)
from thrifty.inference.neural.standardise import Frame, measure_frame
from thrifty.inference.neural.trained import Trained
from thrifty.inference.neural.training_settings import fingerprint_held_out, select_held_out
from thrifty.tables.simulations import Simulations
from thrifty.types import Array

FailurePolicy = Literal["refuse", "model"]
Build = Callable[[Rows, Frame, Array], tuple[Any, tuple[Any, ...]]]  # rows, frame, weights -> network, tensors


def check_failure_policy(policy: str) -> None:
    """Refuse an unknown policy for failed runs."""
    if policy not in ("refuse", "model"):
        raise ConfigError(f'failures must be "refuse" or "model", got {policy!r}', code="bad-setting")


def fit_likelihood(
    settings: Any,
    simulations: Simulations,
    seed: int,
    *,
    method: Literal["nle", "nre"],
    build: Build,
    loss: Callable[..., Any],
) -> PotentialPosterior:
    """Train the network that `build` makes on the valid simulations; `settings` is the NLE or NRE object.

    Raises:
        DataError, ConfigError: The table or the settings cannot be used.
        QualityGateError: too-many-failures, too many runs failed.
    """
    check_fit(simulations, seed)
    from thrifty.inference.neural.networks import seed_torch
    from thrifty.inference.neural.training import Table, scale_to_mean_one, train

    rows = prepare(simulations, settings.prior, weighted=settings.weighted)
    frame = measure_frame(
        rows.theta,
        rows.x,
        rows.log_weights,
        box=choose_condition_box(settings.prior),
        keep=rows.keep,
        shaped=settings.embedding is not None,
        scores=method == "nre",
    )
    seeds = [int(s) for s in np.random.SeedSequence(seed).generate_state(3, np.uint64) >> np.uint64(1)]
    valid, notes = _fit_validity(simulations, frame, settings.failures, method=method.upper(), seed=seeds[2])
    weights = scale_to_mean_one(rows.log_weights)
    with seed_torch(seeds[0]):
        net, tensors = build(rows, frame, weights)
    share = settings.training.validation
    table = Table(tensors, weights, select_held_out(rows.index, share))
    curve = train(net, loss, table=table, settings=settings.training, seed=seeds[1])
    kept = fingerprint_held_out(rows.theta, rows.index, share)
    notes = (*notes, *rows.notes)
    trained = Trained(method, net, settings.network, settings.embedding, frame, rows.reach, curve, notes, kept)
    return PotentialPosterior(settings.prior, trained, valid)


def _fit_validity(
    simulations: Simulations, frame: Frame, policy: FailurePolicy, *, method: str, seed: int
) -> tuple[Any, tuple[str, ...]]:
    """Return the network for P(valid | theta) or None, and a note on what failed; refuse what the policy refuses."""
    sentence = describe_failures(simulations)
    if not sentence:
        return None, ()
    if policy == "model":
        from thrifty.inference.neural.validity import fit_validity

        return fit_validity(simulations, frame, seed=seed), (
            f"{sentence}; P(valid | theta) was learned and multiplied in",
        )
    if simulations.failed_mass > MAX_FAILED_MASS:
        raise QualityGateError(
            f"{sentence}; the gate is {MAX_FAILED_MASS:.0%}",
            code="too-many-failures",
            why=f"{method} would learn the likelihood given that a run finishes",
            fix=f'th.{method}(prior, failures="model") multiplies by a learned P(valid | theta)',
        )
    return None, (sentence,)
