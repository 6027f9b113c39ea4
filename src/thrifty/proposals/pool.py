"""Joint weights of draws from several known proposals; and any proposal from its plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, Displayed
from thrifty.errors import WeightError, warn
from thrifty.penalties import penalty_from_dict
from thrifty.priors import as_prior, is_same_prior
from thrifty.priors.prior_dict import prior_from_dict
from thrifty.proposals.cost_aware import CostAware
from thrifty.proposals.kernel import KernelProposal
from thrifty.proposals.reference import add_inside, as_count
from thrifty.proposals.reweighted import Reweighted
from thrifty.proposals.truncated import TruncatedPrior
from thrifty.types import Array, Prior, Weighting, as_rows, set_fields

MAX_RELATIVE_ERROR = 0.03  # relative error of B above which a pool warns about its joint weights


@dataclass(frozen=True, eq=False, repr=False)
class Pool(Displayed):
    """Joint weights of draws from several known proposals: pilot, campaign, top-ups.

    The pool of n_j draws from q_j counts as drawn from sum_j (n_j/n) q_j, so each draw weighs
    prior/sum_j (n_j/n) q_j, whatever component it came from. Adding a proposal re-weights the pool; it never
    touches a draw.

    Args:
        parts: Pairs (n_j, proposal_j); a prior stands for itself, any other object needs `log_prob`.
        prior: The target.

    Example:
        >>> prior = th.Uniform(1, 10)
        >>> q = th.CostAware(prior, lambda t: t[:, 0], th.Power(1))
        >>> pool = Pool([(100, prior), (900, q)], prior)
        >>> bool(np.exp(pool.log_weight([[10.0]]))[0] < 10.0)  # at most n over the number of prior draws
        True
    """

    parts: tuple[tuple[int, Any], ...]
    prior: Prior

    def _card(self) -> Card:
        rows = [(f"{n:,}", str(part).replace("\n", ";")) for n, part in self.parts]
        return Card(f"pool of {sum(n for n, _ in self.parts):,} draws", header=("draws", ""), rows=rows)

    def __post_init__(self) -> None:
        try:
            parts = tuple((as_count(count), proposal) for count, proposal in self.parts)
        except (TypeError, ValueError):
            raise WeightError(
                f"a pool takes pairs (number of draws, proposal), got {self.parts!r}", code="bad-setting"
            ) from None
        if not parts or sum(count for count, _ in parts) == 0:
            raise WeightError(f"a pool needs draws; got counts {[count for count, _ in parts]}", code="bad-setting")
        set_fields(self, parts=parts, prior=as_prior(self.prior))
        if len(parts) > 1:
            for _, proposal in parts:
                _warn_if_normaliser_is_rough(proposal)

    @property
    def shares(self) -> tuple[float, ...]:
        """n_j/n."""
        total = sum(count for count, _ in self.parts)
        return tuple(count / total for count, _ in self.parts)

    @property
    def max_weight(self) -> float:
        """The weight that no draw can exceed, n over the number of prior draws; infinite without any.

        Example:
            >>> prior = th.Uniform(1, 10)
            >>> Pool([(100, prior), (900, th.CostAware(prior, lambda t: t[:, 0], th.Power(1)))], prior).max_weight
            10.0
        """
        plain = sum(count for count, proposal in self.parts if is_same_prior(proposal, self.prior))
        return sum(count for count, _ in self.parts) / plain if plain else float("inf")

    def log_weight(self, theta: npt.ArrayLike) -> Array:
        """Return log prior over pool density (n,)."""
        return -self.log_ratio(theta)

    def log_ratio(self, theta: npt.ArrayLike) -> Array:
        """Return log pool over prior density (n,)."""
        theta = as_rows(theta, dim=self.prior.dim)
        terms = [
            np.log(share) + self._log_ratio_of(proposal, theta)
            for share, (_, proposal) in zip(self.shares, self.parts, strict=True)
            if share > 0
        ]
        return np.logaddexp.reduce(terms, axis=0)

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Return log density of the pool (n,)."""
        return add_inside(self.prior, as_rows(theta, dim=self.prior.dim), self.log_ratio)

    def _log_ratio_of(self, proposal: Any, theta: Array) -> Array:
        if is_same_prior(proposal, self.prior):
            return np.zeros(len(theta))
        # a ratio is against the proposal's own prior: of use only where that is the pool's
        if hasattr(proposal, "log_ratio") and is_same_prior(getattr(proposal, "prior", self.prior), self.prior):
            return proposal.log_ratio(theta)
        density: Any = proposal if hasattr(proposal, "log_prob") else as_prior(proposal)
        return np.asarray(density.log_prob(theta)) - np.asarray(self.prior.log_prob(theta))

    def to_dict(self) -> dict[str, Any]:
        """Write plain numbers, where every part has them."""
        parts = [{"kind": "prior"} if is_same_prior(p, self.prior) else p.to_dict() for _, p in self.parts]
        return {"kind": "pool", "counts": [count for count, _ in self.parts], "parts": parts}


def _warn_if_normaliser_is_rough(proposal: Any) -> None:
    """Warn if B has a large error; a proposal rebuilt from its numbers was tested when it was new."""
    if getattr(proposal, "log_b", None) is not None or not hasattr(proposal, "normaliser"):
        return
    error = proposal.normaliser.relative
    if error > MAX_RELATIVE_ERROR:
        warn(
            f"[few-effective-runs] the normaliser of {proposal.penalty} is known to {error:.0%} only, and joint weights"
            " rest on it\n  fix: a gentler penalty, or a higher floor, th.Power(k, low=...)",
            stacklevel=5,
        )


def weighting_from_dict(data: dict[str, Any], prior: Prior) -> Weighting:
    """Rebuild the proposal or pool that `to_dict` wrote, over the given prior; nothing is drawn."""
    from thrifty.costs import FinishModel, cost_from_dict  # scipy: not at import

    prior = as_prior(prior)
    cost = None if data.get("cost") is None else cost_from_dict(data["cost"])
    match data.get("kind"):
        case "cost_aware" if cost is not None:
            finish = FinishModel.from_dict(data["finish"]) if data.get("finish") else None
            return CostAware(prior, cost, penalty_from_dict(data["penalty"]), data["log_normaliser"], finish)
        case "kernel":  # a folder opened without its prior still has its numbers
            own = prior if data["prior"]["kind"] == "given" else prior_from_dict(data["prior"])
            arrays = (data[label] for label in ("centres", "log_weights", "kernel"))
            share = float(data.get("prior_share", 0.0))
            return KernelProposal(
                own, *arrays, penalty=penalty_from_dict(data["penalty"]), cost=cost, prior_share=share
            )
        case "truncated":
            region = weighting_from_dict(data["region"], prior)
            if not isinstance(region, KernelProposal):
                raise WeightError("the region of a truncated prior is not a kernel mixture", code="bad-file")
            penalty = penalty_from_dict(data["penalty"])
            return TruncatedPrior(region, data["level"], penalty, cost, log_z=data["log_normaliser"])
        case "pool":
            parts = [prior if p.get("kind") == "prior" else weighting_from_dict(p, prior) for p in data["parts"]]
            return Pool(tuple(zip(data["counts"], parts, strict=True)), prior)
        case "reweighted":
            old = prior_from_dict(data["old"])
            return Reweighted(weighting_from_dict(data["drawn"], old), old, prior)
        case other:
            raise WeightError(f"unknown kind of proposal {other!r}", code="bad-file")
