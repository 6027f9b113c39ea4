"""Sum up a table of runs for people: how many count, what they cost, and the range of every column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, count_things, format_number
from thrifty.durations import format_amount, format_percent
from thrifty.tables.columns import Columns
from thrifty.types import Array
from thrifty.weights import ess, mass_of

MAX_NUMBERS = 10**6  # of outputs whose range is computed: a display must not take long


def summarise_runs(runs: Columns) -> Card:
    """Describe a checked table: number of runs, weights, failures, cost, and lowest, median and highest values."""
    assert runs.log_weights is not None
    assert runs.cost is not None
    assert runs.status is not None
    n, ok = len(runs.theta), runs.status == "ok"
    valid = int(ok.sum())
    effective = ess(runs.log_weights[ok]) if np.isfinite(runs.log_weights[ok]).any() else 0.0
    total = format_amount(float(np.nansum(runs.cost)), runs.unit) if np.isfinite(runs.cost).any() else "not known"
    facts = [("weights", f"{count_things(valid, 'valid run')} count as {effective:,.0f}"), ("cost", total)]
    ended = runs.status != "pending"
    if failed := int((ended & ~ok).sum()):
        share = mass_of(~ok[ended], runs.log_weights[ended])
        mass = format_percent(share)
        facts.append(("failed", f"{count_things(failed, 'run')}, {mass} of prior mass"))
    if not ended.all():
        facts.append(("not finished", f"{count_things(int((~ended).sum()), 'run')}, without weight"))
    if runs.m > 1:
        facts.append(("m", f"{runs.m} realisations of each theta"))
    if runs.x.ndim > 2:
        facts.append(("x", " × ".join(map(str, runs.x.shape[1:])) + " numbers a run"))
    header = ("column", "lowest", "median", "highest")
    return Card(count_things(n, "run"), facts, header, _describe_columns(runs, ok))


def _describe_columns(runs: Columns, ok: npt.NDArray[np.bool_]) -> list[Sequence[str]]:
    """Describe each parameter, and each statistic where runs return a row of them."""
    columns = list(zip(runs.parameter_names, runs.theta.T, strict=True))
    if runs.x.ndim == 2 and runs.x.size <= MAX_NUMBERS:
        names = runs.x_names or [f"x_{i + 1}" for i in range(runs.x.shape[1])]
        columns += list(zip(names, runs.x[ok].T, strict=True))
    return [describe_column(name, values) for name, values in columns if len(values)]


def describe_column(name: str, values: Array) -> Sequence[str]:
    """Return a name with the lowest, median and highest of some values."""
    return [name, *(format_number(float(value)) for value in np.quantile(values, [0, 0.5, 1]))]
