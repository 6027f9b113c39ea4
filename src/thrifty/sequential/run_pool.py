"""All runs of a sequential method so far, weighted as one sample from the mixture of what they were drawn from.

    w(theta) = prior / sum_j (n_j/n) q_j(theta)          (`th.Pool`, kept up to date run by run)

Early runs are never thrown away, weights are bounded by the share of the first generation, and a refitted cost is a
new component, never a rewrite.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thrifty.proposals import Pool
from thrifty.sequential.memory_generations import concatenate
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Prior


class RunPool:
    """Simulations with the proposals behind them.

    Args:
        prior: The target of the weights; draws from this very object are plain.

    Attributes:
        counts: Runs from each proposal.
        log_weights: Log prior over pool density (n,).
    """

    def __init__(self, prior: Prior) -> None:
        self.prior = prior
        self.proposals: list[Any] = []
        self.counts: list[int] = []
        self.log_weights: Array = np.empty(0)
        self._parts: list[Simulations] = []
        self._ratios: list[Array] = []  # log q_j/prior at every run: what is known is not computed again

    def __len__(self) -> int:
        return len(self.log_weights)

    def add(self, proposal: Any, sims: Simulations) -> None:
        """Take in runs; more runs from the last proposal are counted with its others."""
        self._ratios = [
            np.concatenate([known, self._ratio(q, sims.theta)])
            for known, q in zip(self._ratios, self.proposals, strict=True)
        ]
        self._parts.append(sims)
        if self.proposals and proposal is self.proposals[-1]:
            self.counts[-1] += len(sims)
        else:
            self.proposals.append(proposal)
            self.counts.append(len(sims))
            self._ratios.append(self._ratio(proposal, self.theta))
        shares = np.array(self.counts) / sum(self.counts)
        terms = [np.log(share) + ratio for share, ratio in zip(shares, self._ratios, strict=True)]
        self.log_weights = -np.logaddexp.reduce(terms, axis=0)

    def _ratio(self, proposal: Any, theta: Array) -> Array:
        return np.zeros(len(theta)) if proposal is self.prior else proposal.log_ratio(theta)

    @property
    def theta(self) -> Array:
        """Parameters (n, p) of all runs."""
        return np.concatenate([part.theta for part in self._parts])

    @property
    def cost(self) -> Array:
        """Costs (n,) of all runs."""
        return np.concatenate([part.cost for part in self._parts])

    @property
    def spent(self) -> float:
        """Cost of all runs."""
        return float(sum(np.nansum(part.cost) for part in self._parts))

    @property
    def unevenness(self) -> float:
        """Standard deviation of the costs over their mean; 0 before there are any."""
        cost = self.cost[np.isfinite(self.cost)] if self._parts else np.empty(0)
        return float(cost.std() / cost.mean()) if len(cost) and cost.mean() > 0 else 0.0

    @property
    def runs(self) -> Simulations:
        """All runs, not weighted."""
        return concatenate(self._parts)

    @property
    def table(self) -> Simulations:
        """All runs with their weights and the pool that made them."""
        pool = Pool(tuple(zip(self.counts, self.proposals, strict=True)), self.prior)
        return self.runs.reweighted(self.log_weights, pool)
