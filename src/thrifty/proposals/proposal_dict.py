"""Proposals and pools from the plain numbers that `to_dict` wrote."""

from __future__ import annotations

from typing import Any

from thrifty.errors import WeightError
from thrifty.penalties import penalty_from_dict
from thrifty.priors import as_prior
from thrifty.proposals.cost_aware import CostAware
from thrifty.proposals.kernel import KernelProposal
from thrifty.proposals.pool import Pool
from thrifty.types import Prior, Weighting


def weighting_from_dict(data: dict[str, Any], prior: Prior) -> Weighting:
    """Rebuild the proposal or pool that `to_dict` wrote, over the given prior; nothing is drawn."""
    from thrifty.costs import cost_from_dict  # scipy: not at import

    prior = as_prior(prior)
    match data.get("kind"):
        case "cost_aware":
            return CostAware(
                prior, cost_from_dict(data["cost"]), penalty_from_dict(data["penalty"]), data["log_normaliser"]
            )
        case "kernel":
            return KernelProposal.from_dict(data, prior)
        case "pool":
            parts = [prior if p.get("kind") == "prior" else weighting_from_dict(p, prior) for p in data["parts"]]
            return Pool(tuple(zip(data["counts"], parts, strict=True)), prior)
        case other:
            raise WeightError(f"unknown kind of proposal {other!r}", code="bad-file")
