"""Write what a posterior says of each parameter as text: quantiles of numbers, probabilities of categories."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thrifty.display import list_shares
from thrifty.report.content import clean
from thrifty.report.gather import Facts
from thrifty.report.results import Result
from thrifty.types import Array, Levels, find_discrete, levels_of
from thrifty.weights import quantile, sum_by_label


def find_levels(facts: Facts, result: Result) -> Levels:
    """Return what values each parameter of a result takes, by the prior of its folder; plain numbers if it has none."""
    known = levels_of(facts.prior)
    return known if len(known) == len(result.names) else (None,) * len(result.names)


def format_quantiles(result: Result, levels: Levels, q: Sequence[float]) -> list[list[str]]:
    """Write the quantiles of each parameter: whole numbers where it takes only those; nothing for categories."""
    discrete = find_discrete(levels)
    table = quantile(result.samples, q, _log_weights(result), discrete=discrete).T
    return [
        [] if level else [f"{value:,.0f}" if whole else f"{value:.4g}" for value in row]
        for row, whole, level in zip(table.tolist(), discrete.tolist(), levels, strict=True)
    ]


def format_categories(result: Result, levels: Levels) -> list[str]:
    """Write the probability of each category of each parameter; empty for numbers."""
    weights, columns = _log_weights(result), result.samples.T
    return [
        list_shares(sum_by_label(column, tuple(clean(label, 40) for label in level), weights)) if level else ""
        for column, level in zip(columns, levels, strict=True)
    ]


def _log_weights(result: Result) -> Array:
    return np.zeros(len(result.samples)) if result.log_weights is None else np.asarray(result.log_weights)
