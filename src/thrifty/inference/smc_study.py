"""What SMC-ABC gives back: the posterior, every run, and what each generation did."""

from __future__ import annotations

from dataclasses import dataclass

from thrifty.inference.distances import Distance
from thrifty.inference.weighted_posterior import WeightedPosterior
from thrifty.kernel_proposal import KernelProposal
from thrifty.proposals import CostAware
from thrifty.types import Prior, Simulations


@dataclass(frozen=True)
class Generation:
    """What one generation did.

    Attributes:
        n: Runs.
        cost: Their total cost.
        predicted: What the cost model of the time expected; 0 where there was none.
        epsilon: Tolerance of the pool after it, on the scale of the distance then.
        ess: Effective draws of the pool within that tolerance.
        acceptance: Share of this generation's runs within it.
        proposal: Where the draws came from.
    """

    n: int
    cost: float
    predicted: float
    epsilon: float
    ess: float
    acceptance: float
    proposal: Prior | CostAware | KernelProposal


@dataclass(frozen=True)
class SMCStudy:
    """The outcome of SMC-ABC.

    Attributes:
        posterior: Weighted draws at x_o.
        simulations: All runs with their pooled weights: a table any other method can be fitted to.
        generations: What each generation did.
        stopped: Why it ended: "runs", "budget", "tolerance" or "acceptance".
        distance: The distance at the end, its scale frozen: `th.ABC(distance=study.distance)` reads the same table.
    """

    posterior: WeightedPosterior
    simulations: Simulations
    generations: tuple[Generation, ...]
    stopped: str
    distance: Distance

    @property
    def cost(self) -> float:
        """Total cost of all runs."""
        return float(sum(g.cost for g in self.generations))

    def __str__(self) -> str:
        rows = [f"{'generation':>10} {'runs':>7} {'cost':>10} {'epsilon':>10} {'ess':>7} {'accepted':>9}"]
        for i, g in enumerate(self.generations):
            rows.append(f"{i:>10} {g.n:>7} {g.cost:>10.4g} {g.epsilon:>10.4g} {g.ess:>7.0f} {g.acceptance:>9.1%}")
        return "\n".join([*rows, f"stopped by {self.stopped}"])
