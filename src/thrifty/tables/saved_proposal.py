"""The proposal behind a table as plain numbers, so that files keep the weight of any theta.

A proposal is code: a prior, a cost model, a penalty. Each of thrifty's own writes itself as numbers (`to_dict`), and is
rebuilt from them without drawing and without executing anything. What cannot be written (a cost that is a Python
function, a prior of one's own) is named in the file, so that a reader can say what to pass.

    {"prior": {...}, "weighting": {...}}      written
    {"missing": "CostAware: the cost is ..."}  could not be written
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from thrifty.errors import DataError, ThriftyError, WeightError
from thrifty.priors import as_prior
from thrifty.priors.prior_dict import prior_from_dict, prior_to_dict
from thrifty.proposals import weighting_from_dict
from thrifty.types import Array, Weighting

MAX_RECIPE_CHARACTERS = 50_000_000  # of JSON: a pool of a hundred generations of kernels has a tenth of it
_COMPARED_RUNS = 1000  # runs whose weights are compared with those of a proposal
MAX_WEIGHT_GAP = 1e-6  # of log weights in a file from those of a proposal that is given for it: rounding


def describe_proposal(proposal: Any, theta: Array, log_weights: Array) -> dict[str, Any] | None:
    """Write a proposal as plain numbers; None without one, or what is missing where it cannot be written.

    Args:
        proposal: The weighting behind the table.
        theta: Parameters (n, p) of the table.
        log_weights: Their log weights (n,): a proposal with others is not the one behind them.
    """
    if proposal is None:
        return None
    try:
        if measure_disagreement(theta, log_weights, proposal) > 0:
            return {"missing": f"{type(proposal).__name__}: its weights are not those of the table"}
        saved = {"prior": prior_to_dict(proposal.prior), "weighting": proposal.to_dict()}
        json.dumps(saved)
    except ThriftyError as error:
        return {"missing": f"{type(proposal).__name__}: {error.what}"}
    except (AttributeError, TypeError, ValueError):
        return {"missing": f"{type(proposal).__name__} has no to_dict that gives plain numbers"}
    return saved


def restore_proposal(saved: Any, theta: Array, log_weights: Array, prior: Any = None) -> Weighting | None:
    """Rebuild the proposal that `describe_proposal` wrote; None where there is none.

    Args:
        saved: What was read from a file: nothing in it is trusted.
        theta: Parameters (n, p) of the table.
        log_weights: Their log weights (n,), with which the proposal must agree.
        prior: The prior, where the file could not hold it.

    Raises:
        DataError: bad-file, the numbers are damaged.
    """
    if not isinstance(saved, Mapping) or "weighting" not in saved:
        return None
    try:
        if prior is None and saved["prior"].get("kind") == "given":
            return None  # a prior of one's own: pass prior=
        own = as_prior(prior) if prior is not None else prior_from_dict(saved["prior"])
        weighting = weighting_from_dict(saved["weighting"], own)
        if (spread := measure_disagreement(theta, log_weights, weighting)) > 0:
            raise ValueError(f"its log weights differ from those in the file by {spread:.3g}")
    except (ThriftyError, KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        what = getattr(error, "what", None) or repr(error)
        raise _damaged("".join(ch for ch in str(what) if ch.isprintable())[:200]) from None
    except (RecursionError, MemoryError, np.linalg.LinAlgError) as error:
        raise _damaged(type(error).__name__) from None
    return weighting


def _damaged(why: str) -> DataError:
    return DataError(
        f"the proposal in the file cannot be read: {why}",
        code="bad-file",
        fix="write the table again, or pass proposal= with the proposal that made it",
    )


def measure_disagreement(theta: Array, log_weights: Array, proposal: Weighting) -> float:
    """Measure by how much log weights and those of a proposal differ beyond a constant; 0 where only by rounding."""
    rows = np.flatnonzero(log_weights > -np.inf)
    rows = rows[:: max(len(rows) // _COMPARED_RUNS, 1)]
    if not len(rows):
        return 0.0
    own = log_weights[rows]
    spread = float(np.ptp(np.asarray(proposal.log_weight(theta[rows]), dtype=np.float64) - own))
    return 0.0 if spread <= MAX_WEIGHT_GAP * (1 + float(np.abs(own).max())) else spread


def check_agreement(theta: Array, log_weights: Array, proposal: Weighting) -> None:
    """Refuse a proposal whose weights are not those of the table, up to one constant.

    Raises:
        WeightError: conflicting-settings.
    """
    spread = measure_disagreement(theta, log_weights, proposal)
    if spread > 0:
        raise WeightError(
            f"weights given twice: the file has log_weights, and those of proposal= differ from them by {spread:.3g}",
            code="conflicting-settings",
            why="one of them belongs to another table",
            fix="leave proposal= out, or pass the proposal that drew these parameters",
        )
