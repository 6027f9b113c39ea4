"""Several penalties at once, as one proposal; or as the paper weighs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from thrifty.errors import PenaltyError, WeightError
from thrifty.penalties import Balance, as_penalty, check_shares
from thrifty.priors import as_prior
from thrifty.proposals.cost_aware import CostAware, Penalised
from thrifty.proposals.draws import Draws
from thrifty.proposals.reference import as_count, draw_enough_reference_costs
from thrifty.types import Array, Cost, Penalty, Prior, set_fields

if TYPE_CHECKING:
    from thrifty.costs.finish_model import FinishModel


@dataclass(frozen=True, eq=False, repr=False)
class Mixture(Penalised):
    """Several penalties at once; by default weighted as one proposal (the balance heuristic).

    `scheme="balance"`: draws come from sum_j share_j prior/(B_j g_j), and weigh 1/sum_j share_j/(B_j g_j).
    `scheme="paper"`: share_j n draws from each component, each component self-normalised and counted 1/J, as
    the paper prints it (section 3.3): same draws, worse weights, kept for reproduction only.

    Args:
        prior: The target.
        cost: As in `CostAware`.
        powers: Exponents k_j, or penalties; 0 is the prior itself.
        shares: Share of the draws per component; equal when left out.
        scheme: "balance" or "paper".
        finish: As in `CostAware`.

    Example:
        >>> q = Mixture(th.Uniform(1, 100), lambda t: t[:, 0], powers=(0, 1, 2))
        >>> bool(np.exp(q.sample(1000, 0).log_weights).max() <= 3.0)  # bounded by 1/share of the prior
        True
    """

    prior: Prior
    cost: Cost
    powers: tuple[float | Penalty, ...] = (0, 0.5, 1, 2)
    shares: tuple[float, ...] = ()
    scheme: Literal["balance", "paper"] = "balance"
    finish: FinishModel | None = None
    components: tuple[CostAware, ...] = field(init=False, repr=False, compare=False)
    balanced: CostAware = field(init=False, repr=False, compare=False)
    penalty: Penalty = field(init=False, repr=False, compare=False)
    _costs: Array | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.scheme not in ("balance", "paper"):
            raise PenaltyError(f'scheme must be "balance" or "paper", got {self.scheme!r}', code="bad-penalty")
        if isinstance(self.powers, str) or not isinstance(self.powers, Sequence | np.ndarray):
            raise PenaltyError(
                f"powers must be a sequence such as (0, 0.5, 1), got {self.powers!r}", code="bad-penalty"
            )
        if len(self.powers) == 0:
            raise PenaltyError("a mixture needs at least one component", code="bad-penalty")
        prior = as_prior(self.prior)
        shares = tuple(float(s) for s in self.shares) or (1 / len(self.powers),) * len(self.powers)
        check_shares(shares, len(self.powers))
        penalties = [as_penalty(p) for p in self.powers]
        costs = draw_enough_reference_costs(prior, self._price, penalties)
        components = tuple(CostAware(prior, self.cost, p, finish=self.finish, _costs=costs) for p in penalties)
        log_b = tuple(c.log_normaliser for c in components)
        balance = Balance(tuple(c.penalty for c in components), shares, log_b)
        balanced = CostAware(prior, self.cost, balance, finish=self.finish, _costs=costs)
        set_fields(self, prior=prior, powers=tuple(self.powers), shares=shares, components=components)
        set_fields(self, balanced=balanced, penalty=balanced.penalty, _costs=costs)

    @cached_property
    def ess_fraction(self) -> float:
        """Effective draws per draw; for the paper's scheme the harmonic mean over components."""
        if self.scheme == "balance":
            return super().ess_fraction
        used = [(s, c.ess_fraction) for s, c in zip(self.shares, self.components, strict=True) if s > 0]
        return len(used) ** 2 / sum(1 / (share * fraction) for share, fraction in used)

    def log_weight(self, theta: npt.ArrayLike) -> Array:
        """Return log balance weight (n,).

        Raises:
            WeightError: Under the paper's scheme a weight depends on the component and on the other draws.
        """
        if self.scheme == "paper":
            raise WeightError(
                "under the paper's scheme a weight belongs to a draw of one component, not to a theta",
                code="bad-weights",
                fix="use the log_weights that came with the draws, or scheme='balance'",
            )
        return super().log_weight(theta)

    def log_ratio(self, theta: npt.ArrayLike) -> Array:
        """Return log mixture over prior density (n,)."""
        return self.balanced.log_ratio(theta)

    def sample(self, n: int, rng: np.random.Generator | int) -> Draws:
        """Draw n parameters with their log weights; under the paper's scheme with their component too."""
        if self.scheme == "balance":
            return super().sample(n, rng)
        rng = np.random.default_rng(rng)
        if as_count(n) == 0:
            return self.balanced.sample(0, rng)
        counts = _apportion(n, self.shares)
        streams = rng.spawn(len(counts))
        used = [(j, c, s) for j, (c, s) in enumerate(zip(counts, streams, strict=True)) if c > 0]
        parts = [self.components[j]._draw(count, stream) for j, count, stream in used]
        log_weights = [part.log_weights - np.logaddexp.reduce(part.log_weights) - np.log(len(used)) for part in parts]
        order = rng.permutation(n)
        return Draws(
            theta=np.concatenate([part.theta for part in parts])[order],
            log_weights=np.concatenate(log_weights)[order],
            names=self.names,
            component=np.repeat([j for j, _, _ in used], [count for _, count, _ in used])[order],
        )

    def to_dict(self) -> dict[str, Any]:
        """Write plain numbers of the one proposal that the mixture amounts to."""
        if self.scheme == "paper":
            self.log_weight(self.prior.sample(1, np.random.default_rng(0)))  # says why not
        return super().to_dict()


def _apportion(n: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers that sum to n, as near to n * shares as can be (largest remainders)."""
    exact = n * np.asarray(shares)
    counts = np.floor(exact).astype(int)
    counts[np.argsort(counts - exact, kind="stable")[: n - counts.sum()]] += 1
    return counts.tolist()
