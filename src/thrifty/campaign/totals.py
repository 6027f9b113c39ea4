"""Sums over all runs of a campaign, from which status and progress are made, in memory that does not grow.

The sums need the weight of every run, which takes seconds for a million of them. So a driver keeps them in the folder
about once a minute and at its end, with what they were made of: how many runs until which time stamp, their sums of
costs, and the blocks. Whoever asks next tests that, and adds only the runs that were recorded later. Anything that does
not match, and every campaign with time limits (whose weights depend on all runs together), is computed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from thrifty.campaign.settings import CampaignSettings
from thrifty.campaign.weighting import count_blocks, finished_log_weights, pool_from_counts
from thrifty.proposals import Pool
from thrifty.runner.snapshot import Snapshot, Totals
from thrifty.store.read import known_shape, stream_columns
from thrifty.store.rows import checksum
from thrifty.store.store import Store
from thrifty.store.sums import read_states, sum_runs
from thrifty.store.table import Table
from thrifty.store.validate import Part, reject_malformed
from thrifty.types import Prior

MIN_KEPT_RUNS = 10_000  # planned: fewer are summed up in a fraction of a second


def sum_up(
    store: Store,
    settings: CampaignSettings,
    parts: dict[int, Part],
    prior: Prior,
    *,
    kept: dict[str, Any] | None,
) -> tuple[Totals, dict[str, Any]]:
    """Return the sums over the runs that count, and the figures to keep; `kept` are figures of earlier, if any.

    Only for campaigns without time limits.
    """
    basis = _describe_basis(store, settings)
    totals = _read_kept(store, kept, basis)
    after = None if totals is None or kept is None else kept["runs"]["through"]
    pool = _pool(store, parts, prior)
    tables = stream_columns(store, dim=settings.dim, shape=tuple(basis["shape"]), after=after)
    totals = _add(totals or Totals(), tables, pool, settings, again=after is not None)
    sums = sum_runs(store)
    return totals, {"basis": basis, "runs": sums, "totals": totals.to_dict()}


def measure_failed_mass(store: Store, settings: CampaignSettings, parts: dict[int, Part], prior: Prior) -> float:
    """Return the share of prior mass that failed among the runs that have finished, while others are missing.

    The sums that are kept have the weights of the whole plan, which finished runs alone do not have.
    """
    blocks = count_blocks(read_states(store), parts, prior, settings)
    total = failed = -np.inf
    for table in stream_columns(store, dim=settings.dim, shape=known_shape(store, settings.shape)):
        counted = table.counted()
        weights = finished_log_weights(counted, blocks, prior)
        total = np.logaddexp(total, np.logaddexp.reduce(weights, initial=-np.inf))
        failed = np.logaddexp(failed, np.logaddexp.reduce(weights[counted.failed], initial=-np.inf))
    return float(np.exp(failed - total)) if np.isfinite(total) else 0.0


def _describe_basis(store: Store, settings: CampaignSettings) -> dict[str, Any]:
    """Return what the sums depend on besides runs: blocks, draws, kind of cost, shape of outputs."""
    blocks = checksum(tuple(value for row in store.query("SELECT * FROM blocks ORDER BY id") for value in row))
    shape = list(known_shape(store, settings.shape))
    return {
        "blocks": blocks,
        "planned": store.planned(),
        "cost": settings.cost_kind,
        "scale": settings.cost_scale,
        "shape": shape,
    }


def _read_kept(store: Store, kept: dict[str, Any] | None, basis: dict[str, Any]) -> Totals | None:
    """Return the sums that were kept, if the runs that they were made of are still the same."""
    try:
        if kept is None or kept["basis"] != basis or kept["runs"]["limited"]:
            return None
        through = kept["runs"]["through"]
        if through is None or sum_runs(store, float(through)) != kept["runs"]:
            return None
        values = dict(kept["totals"])
        return Totals(Counter(values.pop("by_status")), **values)
    except (LookupError, TypeError, ValueError, AttributeError):  # values that are none of ours
        return None


def _pool(store: Store, parts: dict[int, Part], prior: Prior) -> Pool | None:
    counts: Counter[int] = Counter()
    for block in store.blocks():
        counts[block.part] += block.admitted
    return pool_from_counts(counts, parts, prior) if counts.total() else None


def _add(
    totals: Totals, tables: Iterable[Table], pool: Pool | None, settings: CampaignSettings, *, again: bool
) -> Totals:
    """Add runs; with `again` these rows were counted as pending before."""
    for table in tables:
        counted = table.counted()
        if not len(counted) or pool is None:
            continue
        with reject_malformed(None, "a frozen proposal"), np.errstate(all="ignore"):
            weights = pool.log_weight(counted.theta)  # of parameters that are not checked here, and may be absurd
        predicted = counted.predicted * settings.cost_scale
        now = Snapshot(counted.status, counted.cost(settings.cost_kind) * settings.cost_scale, predicted, weights)
        if again:
            pending = np.full(len(counted), "pending", dtype="<U8")
            before = Snapshot(pending, np.full(len(counted), np.nan), predicted, weights)
            totals = totals.plus(before.sum_up(), sign=-1)
        totals = totals.plus(now.sum_up())
    return totals
