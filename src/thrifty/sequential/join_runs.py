"""Join two tables of runs of one simulator, where all runs of one of them may have failed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from thrifty.tables.simulations import Simulations


def join_runs(first: Simulations, second: Simulations) -> Simulations:
    """Return both tables as one without weights, outputs in the order of the first one's names, indices continued.

    A table without a valid run does not know the shape of an output: it takes that of the other.

    Example:
        >>> nothing = th.Simulations(theta=[[0.0]], x=[[np.nan]], cost=[1.0], status=["invalid"])
        >>> join_runs(nothing, th.Simulations.from_arrays(theta=[[1.0]], x=[[2.0, 3.0]])).x.tolist()
        [[nan, nan], [2.0, 3.0]]
    """
    if first.x.shape[1:] != second.x.shape[1:]:
        if not first.ok.any():
            first = _fill_with_nan(first, second)
        elif not second.ok.any():
            second = _fill_with_nan(second, first)
    second = second.ordered(first.x_names)
    columns = {
        label: np.concatenate([getattr(part, label) for part in (first, second)])
        for label in ("theta", "x", "cost", "status")
    }
    return replace(first, **columns, index=None, log_weights=None, proposal=None)


def _fill_with_nan(empty: Simulations, other: Simulations) -> Simulations:
    return replace(empty, x=np.full((len(empty), *other.x.shape[1:]), np.nan), x_names=other.x_names)
