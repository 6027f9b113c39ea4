"""Weights of a campaign's rows, and the table that inference sees, or the reason why it would mislead.

Weights are a pure function of theta and the frozen proposals: a pool of n_j draws from proposal j counts as drawn from
sum_j (n_j/n) q_j (the balance heuristic). The pilot is the part drawn from the prior. A time limit adds a factor of its
own, by the rule under which each run was made.

While planned runs are missing, the finished ones are not the pool of the whole plan. A block counts as far as what has
finished of it is a sample of a known distribution (`count_blocks`): all of it; or, since the most expensive runs of a
plan start first, its proposal above the predicted cost of every missing run; or, where runs start in plan order, the
draws before the first missing one. Other runs have no weight until the rest has run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.campaign.failures import describe_where, finish_log_factor
from thrifty.campaign.settings import CampaignSettings
from thrifty.costs import cost_from_dict
from thrifty.display import count_things
from thrifty.durations import format_amount
from thrifty.errors import CampaignError, QualityGateError, warn
from thrifty.proposals import CostAware, Pool, weighting_from_dict
from thrifty.proposals.costlier_part import CostlierPart
from thrifty.runner.time_limits import lazy_log_factor
from thrifty.store.table import Table
from thrifty.store.validate import Block, BlockState, Part, reject_malformed
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Cost, Prior
from thrifty.weights import mass_of

WEIGHT_ROWS = 2**16  # evaluated together: larger pieces are no faster and take memory of their own
LIMIT_MARGIN = 1e-9  # relative, above the largest predicted cost of a missing run: rounding must not let it count
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


@dataclass(frozen=True)
class CountedBlock:
    """What counts of a block: runs with a lower index than `before`, where the proposal covers them."""

    n: int
    proposal: Any
    before: float = np.inf

    def counts(self, theta: Array, index: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which finished runs count (n,)."""
        inside = self.proposal.covers(theta) if isinstance(self.proposal, CostlierPart) else np.ones(len(theta), bool)
        return inside & (index < self.before)


def count_blocks(
    states: Mapping[int, BlockState], parts: dict[int, Part], prior: Prior, settings: CampaignSettings
) -> dict[int, CountedBlock]:
    """Return what counts of each block, by its number; blocks of which nothing counts are left out."""
    found = {}
    with reject_malformed(None, "a frozen proposal"):
        proposals = {state.part: proposal_of(parts[state.part], prior) for state in states.values()}
        for number, state in states.items():
            whole = proposals[state.part]
            if not state.pending:
                found[number] = CountedBlock(state.n, whole)
                continue
            if state.pending == state.n:
                continue
            cost = _ordering_cost(state, whole, settings)
            if cost is not None:
                limit = state.limit * (1 + LIMIT_MARGIN)  # the model gives the stored predictions to the last digits
                found[number] = CountedBlock(state.n, CostlierPart(whole, cost, limit, prior))
            else:  # as many draws as end before the first that is missing
                found[number] = CountedBlock(state.first - state.start, whole, before=state.first)
    return {number: block for number, block in found.items() if block.n}


def _ordering_cost(state: BlockState, proposal: Any, settings: CampaignSettings) -> Cost | None:
    """Return the cost by which the runs of a block were ordered, None where they run in plan order or it is unknown."""
    if state.mode != "n" or not np.isfinite(state.limit):
        return None
    if isinstance(proposal, CostAware):
        return proposal.cost
    plain = [
        settings.figures.get(request, {}).get("cost") for request, part in settings.plans.items() if part == state.part
    ]
    return cost_from_dict(plain[0]) if plain and plain[0] and all(other == plain[0] for other in plain) else None


def finished_log_weights(table: Table, blocks: Mapping[int, CountedBlock], prior: Prior) -> Array:
    """Return the log weights of the finished runs that count, -inf for all others (n,)."""
    found = np.full(len(table), -np.inf)
    counted = np.zeros(len(table), dtype=bool)
    for number, block in blocks.items():
        rows = np.flatnonzero((table.block == number) & table.done)
        counted[rows] = block.counts(table.theta[rows], table.index[rows])
    if counted.any():
        pool = _join_blocks(blocks.values(), prior)
        with reject_malformed(None, "a frozen proposal"):
            found[counted] = pool_log_weights(pool, table.theta[counted])
    return found


def weigh_finished(
    table: Table, parts: dict[int, Part], prior: Prior, settings: CampaignSettings, blocks: Sequence[Block]
) -> Array:
    """Return the log weights of the finished runs of a table, with what time limits add to them (n,)."""
    counted = count_blocks(table.read_states(blocks), parts, prior, settings)
    return finished_log_weights(table, counted, prior) + limit_log_factor(table)


def _join_blocks(blocks: Iterable[CountedBlock], prior: Prior) -> Pool:
    """Return the pool of these blocks; blocks of one proposal are one part of it."""
    counts: dict[int, list[Any]] = {}
    for block in blocks:
        counts.setdefault(id(block.proposal), [0, block.proposal])[0] += block.n
    return Pool(tuple((count, proposal) for count, proposal in counts.values()), prior)


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
    blocks: Sequence[Block],
    allow_incomplete: bool,
    max_failed: float,
) -> Simulations:
    """Make `Simulations` from rows with outputs; refuse missing runs and too much failed prior mass."""
    if not table.done.any():
        raise CampaignError("no run has finished yet", code="no-runs-yet", fix="c.pilot(200), c.plan(n=5000), c.run()")
    if table.done.all():
        pool = pool_of(table, parts, prior)
        log_weights, is_pool = pool_log_weights(pool, table.theta), True
    else:
        _refuse_incomplete(table, settings, allow_incomplete=allow_incomplete)
        counted = count_blocks(table.read_states(blocks), parts, prior, settings)
        pool, is_pool, log_weights = None, False, finished_log_weights(table, counted, prior)
        _warn_incomplete(table, counted, log_weights, settings)
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


def _refuse_incomplete(table: Table, settings: CampaignSettings, *, allow_incomplete: bool) -> None:
    if allow_incomplete:
        return
    raise CampaignError(
        f"{_describe_missing(table, settings)} are missing",
        code="unfinished-runs",
        why="the most expensive runs start first: those that have finished are not a sample of the plan",
        fix="c.run() finishes them; simulations(allow_incomplete=True) returns the finished ones, weighted as they were"
        " drawn and run",
    )


def _describe_missing(table: Table, settings: CampaignSettings) -> str:
    missing = ~table.done
    predicted = table.predicted[missing] * settings.cost_scale
    known = np.isfinite(predicted).any()
    size = f" ({format_amount(float(np.nansum(predicted)), settings.unit)} predicted)" if known else ""
    return f"{count_things(int(missing.sum()), 'planned run')}{size}"


def _warn_incomplete(
    table: Table, blocks: Mapping[int, CountedBlock], log_weights: Array, settings: CampaignSettings
) -> None:
    """Say what the finished runs stand for."""
    counted, done = int(np.isfinite(log_weights).sum()), int(table.done.sum())
    words = f"{_describe_missing(table, settings)} are missing; {counted:,} finished runs are weighted as drawn and run"
    words += " so far"
    if counted < done:
        words += f", {done - counted:,} have no weight until the others have run"
    limits = [b.proposal.limit if isinstance(b.proposal, CostlierPart) else 0.0 for b in blocks.values()]
    if not limits or min(limits) > 0:
        least = format_amount(min(limits, default=np.inf) * settings.cost_scale, settings.unit)
        words += f"; none of them stands for parameters with a predicted cost below {least}"
    warn(words, stacklevel=5)


def _check_failures(table: Table, log_weights: Array, *, names: tuple[str, ...], max_failed: float) -> None:
    if not table.failed.any():
        return
    mass = mass_of(table.failed[table.done], log_weights[table.done])
    if mass <= max_failed:
        return
    raise QualityGateError(
        f"{failures_in_words(table, names, causes=True)}: {100 * mass:.1f}% of prior mass,"
        f" more than {100 * max_failed:g}%",
        code="too-many-failures",
        why="the posterior would be conditional on finishing",
        fix="repair the simulator, then run(redo_failed=True) makes these runs again; or accept it: simulations() and"
        " th.infer take"
        f" max_failed={max(0.05, round(1.2 * mass, 2)):g}",
    )


def failures_in_words(table: Table, names: tuple[str, ...], *, causes: bool = False) -> str:
    """Say how many runs failed, on request with their causes, and where in the space of parameters."""
    done, failed = table.done, table.failed
    counts = Counter(table.status[failed].tolist())
    listed = f" ({', '.join(f'{count} {status}' for status, count in sorted(counts.items()))})" if causes else ""
    where = describe_where(table.theta[done], failed[done], names)
    return f"{int(failed.sum()):,} of {int(done.sum()):,} runs failed{listed}{', ' + where if where else ''}"
