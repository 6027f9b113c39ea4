"""The part of a proposal above a cost: what is known of its draws while the cheaper ones have not been run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.priors import is_same_prior
from thrifty.types import Array, Cost, Prior, as_rows


@dataclass(frozen=True, eq=False)
class CostlierPart:
    """A proposal q where the predicted cost c is above a limit: q(theta) if c(theta) > limit, and 0 elsewhere.

    It is not normalised. Where n draws of q are run in order of their predicted cost, the most expensive first, and all
    above the limit have ended, these are distributed as the n draws are above the limit: a pool counts n of this part.

    Args:
        proposal: q, or the prior itself.
        cost: The cost by which its draws were ordered, (n, p) -> (n,).
        limit: The largest predicted cost of a draw that has not been run.
        prior: The target.

    Example:
        >>> prior = th.Uniform(0, 1)
        >>> part = CostlierPart(prior, lambda theta: theta[:, 0], 0.5, prior)
        >>> part.log_ratio([[0.2], [0.7]]).tolist()
        [-inf, 0.0]
    """

    proposal: Any
    cost: Cost
    limit: float
    prior: Prior

    def covers(self, theta: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return where the cost is above the limit (n,)."""
        return np.asarray(self.cost(as_rows(theta, dim=self.prior.dim))) > self.limit

    def log_ratio(self, theta: npt.ArrayLike) -> Array:
        """Return log of this part over prior density (n,), -inf below the limit."""
        theta = as_rows(theta, dim=self.prior.dim)
        is_prior = is_same_prior(self.proposal, self.prior)
        whole = np.zeros(len(theta)) if is_prior else self.proposal.log_ratio(theta)
        return np.where(self.covers(theta), whole, -np.inf)
