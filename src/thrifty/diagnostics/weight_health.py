"""Measure how many equally weighted runs a table is worth, and on how many accepted ones an ABC posterior rests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.diagnostics.verdict import DisplayedCheck, Trust
from thrifty.inference.weighted_posterior import describe_rest, find_accepted
from thrifty.tables.simulations import Simulations, require_valid
from thrifty.types import Array, freeze
from thrifty.weights import ess, normalise, pareto_k

CARE_ESS, MIN_ESS = 100.0, 20.0  # effective runs: estimates to 10 % of an sd, and to a quarter of one
MAX_PARETO_K = 0.7  # above, the variance of an estimate is unreliable (Vehtari et al. 2024)
CARE_FAILED_MASS, MAX_FAILED_MASS = 1e-3, 1e-2  # failed prior mass: a warning, and a posterior that is conditional


@dataclass(frozen=True, repr=False)
class WeightHealth(DisplayedCheck):
    """Summary of the weights of a table.

    Attributes:
        n: Runs.
        ess: Effective number of valid runs.
        largest: Share of all weight on the heaviest run.
        top_percent: Share of all weight on the heaviest 1 % of runs.
        pareto_k: Shape of the weights' tail.
        failed_mass: Share of prior mass whose runs failed.
        weights: Normalised weights of the valid runs.
        name: The check.
        max_share: Share of all weight that no run can exceed: the pool contains draws of the prior; 1 without any.
    """

    n: int
    ess: float
    largest: float
    top_percent: float
    pareto_k: float
    failed_mass: float
    weights: Array
    name: str = "weights"
    max_share: float = 1.0

    @property
    def is_heavy(self) -> bool:
        """Whether the tail of the weights is heavy; one that ends where no run matters is not, whatever its shape."""
        return self.pareto_k > MAX_PARETO_K and self.max_share > 1 / CARE_ESS

    @property
    def ess_fraction(self) -> float:
        """The effective runs per valid run."""
        return self.ess / len(self.weights)

    @property
    def verdict(self) -> Trust:
        """The verdict by the effective number, the tail and the failed prior mass."""
        if self.ess < MIN_ESS or self.failed_mass > MAX_FAILED_MASS:
            return "do not trust"
        return "with care" if self.ess < CARE_ESS or self.is_heavy or self.failed_mass > CARE_FAILED_MASS else "trust"

    @property
    def reason(self) -> str:
        """One sentence with the numbers."""
        worth = f"over the whole prior {self.n:,} runs count as {self.ess:,.0f}"
        if self.failed_mass > CARE_FAILED_MASS:
            return f"{self.failed_mass:.1%} of prior mass failed: the posterior is conditional on finishing; {worth}"
        if self.ess < CARE_ESS:
            if self.n < CARE_ESS or self.ess_fraction > 0.5:  # as many draws of the prior would hardly be more
                return f"{worth}, {CARE_ESS:.0f} are needed: add runs"
            heaviest = f"the heaviest has {self.largest:.0%} of the weight"
            return f"{worth} ({heaviest}): use a gentler penalty or add prior runs"
        if self.is_heavy:
            return f"{worth}, but the tail of the weights is heavy (Pareto k {self.pareto_k:.2f}); add prior runs"
        return f"{worth}; the heaviest 1% hold {self.top_percent:.0%} of the weight"


def weight_health(simulations: Simulations | npt.ArrayLike) -> WeightHealth:
    """Summarise the weights of a table of runs, or of bare log weights (n,).

    Example:
        >>> health = weight_health(np.zeros(1000))
        >>> health.ess, health.verdict
        (1000.0, 'trust')
    """
    if isinstance(simulations, Simulations):
        log_weights, failed = require_valid(simulations).log_weights, simulations.failed_mass
        n, weights = len(simulations), normalise(log_weights)
        bound = float(getattr(simulations.proposal, "max_weight", np.inf)) / n
    else:
        weights = normalise(simulations)
        log_weights, n, failed = np.asarray(simulations, dtype=np.float64), len(weights), 0.0
        bound = 1.0
    heaviest = np.sort(weights)[::-1]
    return WeightHealth(
        n=n,
        ess=ess(log_weights),
        largest=float(heaviest[0]),
        top_percent=float(heaviest[: max(1, round(len(weights) / 100))].sum()),
        pareto_k=pareto_k(log_weights),
        failed_mass=failed,
        weights=freeze(weights),
        max_share=min(bound, 1.0),
    )


@dataclass(frozen=True, repr=False)
class AcceptedRuns(DisplayedCheck):
    """The accepted runs behind an ABC posterior.

    Attributes:
        n: How many there are.
        ess: As how many equally weighted ones they count.
        name: The check.

    Example:
        >>> print(AcceptedRuns(60, 51.2))
        accepted
          verdict  with care
          because  rests on 60 accepted runs (51 effective), which is few: make more runs
    """

    n: int
    ess: float
    name: str = "accepted"

    @property
    def verdict(self) -> Trust:
        """The verdict by the effective number, with the limits of a weighted table."""
        size = round(self.ess)  # as it is shown
        return "trust" if size >= CARE_ESS else "with care" if size >= MIN_ESS else "do not trust"

    @property
    def reason(self) -> str:
        """One sentence with the numbers."""
        few = "" if self.verdict == "trust" else ", which is few: make more runs"
        return describe_rest(self.n, self.ess) + few


def count_accepted(posterior: Any, x_o: Any) -> AcceptedRuns | None:
    """Count the accepted runs of an ABC posterior at x_o; None for other methods, or where none is accepted."""
    found = find_accepted(posterior, x_o)
    return None if found is None else AcceptedRuns(*found)
