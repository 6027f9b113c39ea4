"""The table that inference sees, or the reason why it would mislead."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from thrifty.campaign.failures import describe_where
from thrifty.campaign.steps import failed_mass
from thrifty.errors import CampaignError, QualityGateError, warn
from thrifty.proposals import Pool
from thrifty.runner.progress import format_amount
from thrifty.store.read import Table, limit_factor
from thrifty.tables.simulations import Simulations
from thrifty.types import Array


def to_simulations(
    table: Table,
    pool: Pool | None,
    settings: dict[str, Any],
    *,
    cost: Array,
    predicted: Array,
    unit: str,
    names: tuple[str, ...],
    allow_incomplete: bool,
    max_failed: float,
) -> Simulations:
    """`Simulations` from a read table; refuses missing runs and too much failed prior mass."""
    if pool is None or not table.done.any():
        raise CampaignError("no run has finished yet", code="no-runs-yet", fix="c.pilot(200), c.plan(n=5000), c.run()")
    _check_complete(table, predicted, unit=unit, allow_incomplete=allow_incomplete)
    factor = limit_factor(table)
    log_weights = pool.log_weight(table.theta) + factor
    _check_failures(table, log_weights, names=names, max_failed=max_failed)
    return Simulations(
        theta=table.theta,
        x=table.x,
        log_weights=log_weights,
        cost=cost,
        status=table.status,
        index=table.index,
        m=int(settings["m"]),
        names=names,
        unit=unit,
        proposal=pool if not factor.any() else None,
    )


def _check_complete(table: Table, predicted: Array, *, unit: str, allow_incomplete: bool) -> None:
    missing = ~table.done
    if not missing.any():
        return
    predicted = predicted[missing]
    size = f" ({format_amount(float(np.nansum(predicted)), unit)} predicted)" if np.isfinite(predicted).any() else ""
    if not allow_incomplete:
        raise CampaignError(
            f"{int(missing.sum()):,} planned runs{size} are missing",
            code="unfinished-runs",
            why="what finished first is cheaper than the rest: the posterior would be biased towards cheap parameters",
            fix="c.run() finishes them; simulations(allow_incomplete=True) shows what there is",
        )
    warn(f"{int(missing.sum()):,} planned runs{size} are missing: cheap parameters are favoured", stacklevel=4)


def _check_failures(table: Table, log_weights: Array, *, names: tuple[str, ...], max_failed: float) -> None:
    failed = table.done & (table.status != "ok")
    mass = failed_mass(log_weights, failed, table.done)
    if mass <= max_failed:
        return
    causes = Counter(table.status[failed].tolist())
    words = ", ".join(f"{count} {status}" for status, count in sorted(causes.items()))
    where = describe_where(table.theta[table.done], failed[table.done], names)
    raise QualityGateError(
        f"{int(failed.sum()):,} of {int(table.done.sum()):,} runs failed ({words})"
        f"{', ' + where if where else ''}: {100 * mass:.1f} % of prior mass, more than {100 * max_failed:g} %",
        code="too-many-failures",
        why="the posterior would be conditional on finishing",
        fix=f"mend the simulator, or accept it: simulations(max_failed={max(0.05, round(1.2 * mass, 2)):g})",
    )
