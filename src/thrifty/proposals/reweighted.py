"""The weighting of runs that were drawn for one prior and count for another.

w(theta) = new prior / proposal = w_old(theta) · new prior / old prior
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.priors.prior_dict import prior_to_dict
from thrifty.types import Array, Prior, Weighting, as_rows


@dataclass(frozen=True, eq=False)
class Reweighted:
    """What `th.reweight` keeps beside the weights, so that the prior they belong to is known.

    Args:
        drawn: The weighting of the runs as they were drawn.
        old: The prior that it restores.
        prior: The prior that counts now.

    Example:
        >>> old, new = th.Uniform(0, 1), th.Normal(0.5, 0.1)
        >>> q = th.Pool([(100, old)], old)
        >>> again = Reweighted(q, old, new)
        >>> bool(np.allclose(again.log_weight([[0.5]]), new.log_prob([[0.5]])))
        True
    """

    drawn: Weighting
    old: Prior
    prior: Prior

    def log_weight(self, theta: npt.ArrayLike) -> Array:
        """Return log of the new prior over the proposal (n,); -inf where the new prior has no mass."""
        theta = as_rows(theta, dim=self.prior.dim)
        out = np.asarray(self.prior.log_prob(theta), dtype=np.float64).copy()
        before = np.asarray(self.old.log_prob(theta), dtype=np.float64)
        inside = (out > -np.inf) & (before > -np.inf)
        out[inside] += self.drawn.log_weight(theta[inside]) - before[inside]
        out[~inside] = -np.inf
        return out

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Return the log density of the proposal (n,), where it is known: reweighting does not change it."""
        density: Any = self.drawn
        return density.log_prob(theta)

    def to_dict(self) -> dict[str, Any]:
        """Write plain numbers, where the weighting has them; the new prior is given again on loading."""
        drawn: Any = self.drawn
        return {"kind": "reweighted", "old": prior_to_dict(self.old), "drawn": drawn.to_dict()}
