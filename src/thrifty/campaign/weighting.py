"""Weights of a campaign's rows, and the table that inference sees, or the reason why it would mislead.

Weights are a pure function of theta and the frozen proposals: a pool of n_j draws from proposal j counts as drawn from
sum_j (n_j/n) q_j (the balance heuristic). The pilot is the part drawn from the prior. A time limit adds a factor of its
own, by the rule under which each run was made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from thrifty.campaign.failures import describe_where, finish_log_factor
from thrifty.campaign.settings import CampaignSettings
from thrifty.errors import CampaignError, QualityGateError, warn
from thrifty.proposals import Pool, weighting_from_dict
from thrifty.runner.progress import format_amount
from thrifty.runner.time_limits import lazy_log_factor
from thrifty.store.table import Table
from thrifty.store.validate import Part, reject_malformed
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Prior
from thrifty.weights import mass_of

WEIGHT_ROWS = 2**16  # evaluated together: larger pieces are no faster and take memory of their own
MAX_FAILED_MASS = 0.01  # share of prior mass that may fail before the reader must know


def proposal_of(part: Part, prior: Prior) -> Any:
    """Return the prior, or the proposal whose numbers a part holds."""
    return prior if part.kind == "prior" else weighting_from_dict(part.recipe, prior)


def pool_of(table: Table, parts: dict[int, Part], prior: Prior) -> Pool:
    """Return the pool from which the rows of a table were drawn."""
    numbers, counts = np.unique(table.part, return_counts=True)
    pool = pool_from_counts(dict(zip(numbers.tolist(), counts.tolist(), strict=True)), parts, prior)
    with reject_malformed(None, "a frozen proposal"):
        pool.log_weight(table.theta[:1])
    return pool


def pool_from_counts(counts: Mapping[int, int], parts: dict[int, Part], prior: Prior) -> Pool:
    """Return the pool of so many draws from each part, by its number."""
    used = [(counts[number], part) for number, part in parts.items() if counts.get(number)]
    with reject_malformed(None, "a frozen proposal"):
        return Pool(tuple((count, proposal_of(part, prior)) for count, part in used), prior)


def pool_log_weights(pool: Pool, theta: Array) -> Array:
    """Return the log weights of a pool (n,), in pieces: a cost model makes dozens of numbers of each parameter."""
    found = np.empty(len(theta))
    for at in range(0, len(theta), WEIGHT_ROWS):
        found[at : at + WEIGHT_ROWS] = pool.log_weight(theta[at : at + WEIGHT_ROWS])
    return found


def limit_log_factor(table: Table) -> Array:
    """What time limits add to the log weights (n,), each run under the rule with which it was made."""
    factor = np.zeros(len(table))
    for number, rule in enumerate(table.policies):
        rows = table.policy == number
        late = table.status[rows] == "timeout"
        if rule.on_timeout == "lazy":
            limit = np.full(rows.sum(), rule.seconds)
            factor[rows] = lazy_log_factor(
                table.status[rows], table.wall[rows], cut=table.time_limit[rows], limit=limit, share=rule.share
            )
        elif rule.on_timeout == "weight":
            factor[rows] = finish_log_factor(table.theta[rows], late)
        elif rule.on_timeout == "restrict":  # outside the declared prior
            factor[rows] = np.where(late, -np.inf, 0.0)
    return factor


def to_simulations(
    table: Table,
    parts: dict[int, Part],
    prior: Prior,
    settings: CampaignSettings,
    *,
    allow_incomplete: bool,
    max_failed: float,
) -> Simulations:
    """Make `Simulations` from rows with outputs; refuse missing runs and too much failed prior mass."""
    if not table.done.any():
        raise CampaignError("no run has finished yet", code="no-runs-yet", fix="c.pilot(200), c.plan(n=5000), c.run()")
    _check_complete(table, settings, allow_incomplete=allow_incomplete)
    pool = pool_of(table, parts, prior)
    log_weights, is_pool = pool_log_weights(pool, table.theta), True
    if table.policies:
        factor = limit_log_factor(table)
        log_weights, is_pool = log_weights + factor, not factor.any()
    _check_failures(table, log_weights, names=prior.names, max_failed=max_failed)
    cost = table.cost(settings.cost_kind)
    cost *= settings.cost_scale
    for column in (table.theta, table.x, table.status, table.index, cost, log_weights):
        column.setflags(write=False)  # this table ends here: its columns become those of `Simulations`, not copies
    return Simulations(
        theta=table.theta,
        x=table.x,
        log_weights=log_weights,
        cost=cost,
        status=table.status,
        index=table.index,
        m=settings.m,
        names=prior.names,
        x_names=settings.fit_x_names(table.x.shape[1:]),
        unit=settings.unit,
        proposal=pool if is_pool else None,
    )


def _check_complete(table: Table, settings: CampaignSettings, *, allow_incomplete: bool) -> None:
    missing = ~table.done
    if not missing.any():
        return
    predicted = table.predicted[missing] * settings.cost_scale
    known = np.isfinite(predicted).any()
    size = f" ({format_amount(float(np.nansum(predicted)), settings.unit)} predicted)" if known else ""
    if not allow_incomplete:
        raise CampaignError(
            f"{int(missing.sum()):,} planned runs{size} are missing",
            code="unfinished-runs",
            why="runs that finish first are cheaper than the others: the posterior would be biased towards cheap"
            " parameters",
            fix="c.run() finishes them; simulations(allow_incomplete=True) returns the finished ones",
        )
    warn(f"{int(missing.sum()):,} planned runs{size} are missing: cheap parameters are favoured", stacklevel=5)


def _check_failures(table: Table, log_weights: Array, *, names: tuple[str, ...], max_failed: float) -> None:
    if not table.failed.any():
        return
    mass = mass_of(table.failed[table.done], log_weights[table.done])
    if mass <= max_failed:
        return
    raise QualityGateError(
        f"{failures_in_words(table, names, causes=True)}: {100 * mass:.1f} % of prior mass,"
        f" more than {100 * max_failed:g} %",
        code="too-many-failures",
        why="the posterior would be conditional on finishing",
        fix="repair the simulator, or accept it: simulations() and th.infer take"
        f" max_failed={max(0.05, round(1.2 * mass, 2)):g}",
    )


def failures_in_words(table: Table, names: tuple[str, ...], *, causes: bool = False) -> str:
    """Say how many runs failed, on request with their causes, and where in the space of parameters."""
    done, failed = table.done, table.failed
    counts = Counter(table.status[failed].tolist())
    listed = f" ({', '.join(f'{count} {status}' for status, count in sorted(counts.items()))})" if causes else ""
    where = describe_where(table.theta[done], failed[done], names)
    return f"{int(failed.sum()):,} of {int(done.sum()):,} runs failed{listed}{', ' + where if where else ''}"
