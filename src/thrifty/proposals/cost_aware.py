"""The proposal prior(theta)/(B g(cost(theta))), sampled exactly by rejection from the prior."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, Displayed, name_function
from thrifty.errors import PenaltyError, warn
from thrifty.penalties import Constant, Power, as_penalty, check_penalty, penalty_to_dict
from thrifty.priors import as_prior
from thrifty.proposals.draws import Draws
from thrifty.proposals.reference import (
    Normaliser,
    add_inside,
    as_count,
    check_callable,
    cost_to_dict,
    draw_enough_reference_costs,
    draw_reference_costs,
    estimate_normaliser,
    evaluate_cost,
    log_mean_exp,
)
from thrifty.types import Array, Cost, Penalty, Prior, as_rows, set_fields

if TYPE_CHECKING:
    from thrifty.costs.finish_model import FinishModel

CANDIDATES_PER_STREAM = 65_536  # amortises the set-up of a random stream, and half a megabyte stays in cache
MIN_ESS_FRACTION = 0.02  # effective share of draws below which they are hardly worth drawing
WARN_ACCEPTANCE, MIN_ACCEPTANCE = 1e-4, 1e-6  # acceptance that is worth a warning, and that is refused


class Penalised(Displayed):
    """What follows from a prior, a cost and a penalty with its floor, which the classes below hold as fields."""

    prior: Prior
    cost: Cost
    penalty: Penalty
    log_b: float | None = None
    finish: FinishModel | None = None
    _costs: Array | None
    _runs: Array | None = None

    def _card(self) -> Card:
        given = [("prior", str(self.prior)), ("cost", name_function(self.cost)), ("penalty", str(self.penalty))]
        valid = [] if self.finish is None else [("of the cost of", "a valid run: failures are avoided")]
        return Card(f"draws of {', '.join(self.names)} where runs are cheap, weighted to the prior", given + valid)

    @cached_property
    def _price(self) -> Cost:
        """What is penalised: the cost of a run, or of a valid run where P(finish | theta) is known."""
        if self.finish is None:
            return self.cost
        from thrifty.costs import ValidCost  # scipy: not at import

        return ValidCost(self.cost, self.finish)

    @cached_property
    def log_normaliser(self) -> float:
        """Log B."""
        return float(log_mean_exp(-self._log_g)) if self.log_b is None else self.log_b

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names."""
        return self.prior.names

    @cached_property
    def _log_g(self) -> Array:
        return self.penalty.log(self._reference)

    @cached_property
    def _reference(self) -> Array:
        return (
            draw_enough_reference_costs(self.prior, self._price, [self.penalty]) if self._costs is None else self._costs
        )

    @cached_property
    def _run_costs(self) -> Array:
        """Cost of a run at the reference draws, finished or not."""
        if self.finish is None:
            return self._reference
        return draw_reference_costs(self.prior, self.cost, n=len(self._reference)) if self._runs is None else self._runs

    @cached_property
    def finish_share(self) -> float:
        """Prior mass that finishes, as far as is known: E[P]; 1 where failures are not modelled."""
        return 1.0 if self.finish is None else float(np.mean(self._run_costs / self._reference))

    @cached_property
    def valid_share(self) -> float:
        """Share of the draws that finish, E[P/g] / E[1/g]; 1 where failures are not modelled."""
        if self.finish is None:
            return 1.0
        log_p = np.log(self._run_costs / self._reference)
        return float(np.exp(log_mean_exp(log_p - self._log_g) - log_mean_exp(-self._log_g)))

    @cached_property
    def valid_ess_fraction(self) -> float:
        """Effective valid draws per draw, E[P]^2 / (E[P g] E[1/g]); `ess_fraction` where failures are not modelled."""
        if self.finish is None:
            return self.ess_fraction
        log_p = np.log(self._run_costs / self._reference)
        total = 2 * log_mean_exp(log_p) - log_mean_exp(log_p + self._log_g) - log_mean_exp(-self._log_g)
        return float(np.exp(total))

    def pooled_ess_fraction(self, prior_share: float) -> float:
        """Effective valid draws per draw of a pool of which a share a is drawn from the prior, as a pilot is.

        E[P]^2 / E[P w] with the weights of the pool, w = 1 / (a + (1 - a) / (B g)).
        """
        ratio = np.exp(-self._log_g - log_mean_exp(-self._log_g))
        finishes = self._run_costs / self._reference
        weight = 1 / (prior_share + (1 - prior_share) * ratio)
        return float(np.mean(finishes) ** 2 / np.mean(finishes * weight))

    @cached_property
    def _log_g_min(self) -> float:
        low = self.penalty.low
        return float(self.penalty.log(np.array([low if low is not None else self._reference.min()]))[0])

    @cached_property
    def acceptance(self) -> float:
        """Share of prior draws that the sampler accepts, g_min B."""
        return float(np.exp(self._log_g_min + log_mean_exp(-self._log_g)))

    @cached_property
    def normaliser(self) -> Normaliser:
        """B = E_prior[1/g], estimated from free prior draws, with its standard error."""
        return estimate_normaliser(self._log_g)

    @cached_property
    def gain(self) -> float:
        """CG = E[c] E[1/g] / E[c/g]: cost per draw of the prior over that of the proposal."""
        log_c = np.log(self._run_costs)
        return float(np.exp(log_mean_exp(log_c) + log_mean_exp(-self._log_g) - log_mean_exp(log_c - self._log_g)))

    @cached_property
    def ess_fraction(self) -> float:
        """ESS/n = 1 / (E[g] E[1/g]): effective draws per draw."""
        return float(np.exp(-log_mean_exp(self._log_g) - log_mean_exp(-self._log_g)))

    @cached_property
    def expected_cost(self) -> float:
        """Expected cost of one draw, E[c/g] / E[1/g]."""
        log_c = np.log(self._run_costs)
        return float(np.exp(log_mean_exp(log_c - self._log_g) - log_mean_exp(-self._log_g)))

    def log_weight(self, theta: npt.ArrayLike) -> Array:
        """Return log g(cost(theta)) (n,): log prior over proposal, up to the constant log B."""
        theta = as_rows(theta, dim=self.prior.dim)
        return self.penalty.log(evaluate_cost(self._price, theta))

    def log_ratio(self, theta: npt.ArrayLike) -> Array:
        """Return log proposal over prior density (n,), normalised through the estimated B."""
        return -self.log_weight(theta) - self.log_normaliser

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Return log density (n,), normalised through the estimated B."""
        return add_inside(self.prior, as_rows(theta, dim=self.prior.dim), self.log_ratio)

    def sample(self, n: int, rng: np.random.Generator | int) -> Draws:
        """Draw n parameters exactly, with their log weights.

        Candidates come in blocks with one random stream each, so that the first draws do not depend on n. Without a
        penalty the draws are the prior's own.

        Raises:
            PenaltyError: few-effective-runs, fewer than one in a million candidates would be accepted.
        """
        n = as_count(n)
        rng = np.random.default_rng(rng)
        if isinstance(self.penalty, Constant) or (isinstance(self.penalty, Power) and self.penalty.k == 0):
            theta = np.asarray(self.prior.sample(n, rng), dtype=np.float64)
            return Draws(theta=theta, log_weights=np.zeros(n), names=self.names, proposal=self)
        self._check_acceptance()
        return self._draw(n, rng)

    def _draw(self, n: int, rng: np.random.Generator) -> Draws:
        entropy = rng.integers(2**63, size=2).tolist()
        kept_theta: list[Array] = []
        kept_log_g: list[Array] = []
        pivot, most = self._squeeze
        found = block = 0
        while found < n:
            stream = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(block,)))
            theta = np.asarray(self.prior.sample(CANDIDATES_PER_STREAM, stream), dtype=np.float64)
            costs, u = evaluate_cost(self._price, theta), stream.random(CANDIDATES_PER_STREAM)
            maybe = np.flatnonzero((costs <= pivot) | (u <= most))
            log_g = self.penalty.log(costs[maybe])
            excess = log_g - self._log_g_min
            if len(excess) and excess.min() < -1e-9:
                raise PenaltyError(
                    f"penalty {self.penalty} falls to {np.exp(excess.min()):.3g} of its value at its floor",
                    code="bad-penalty",
                    why="acceptance would exceed one and the draws would not follow the proposal",
                    fix="clip the cost inside the penalty, as th.Power(k, low=...) does",
                )
            with np.errstate(divide="ignore"):
                accepted = -np.log(u[maybe]) >= excess  # u <= g_min/g
            kept = maybe[accepted]
            kept_theta.append(theta[kept])
            kept_log_g.append(log_g[accepted])
            found += len(kept)
            block += 1
        theta = np.concatenate(kept_theta)[:n] if kept_theta else np.empty((0, self.prior.dim))
        log_g = np.concatenate(kept_log_g)[:n] if kept_log_g else np.empty(0)
        return Draws(theta=theta, log_weights=log_g, names=self.names, proposal=self)

    @cached_property
    def _squeeze(self) -> tuple[float, float]:
        """A cost, and the highest acceptance above it: g does not decrease, so a larger u is refused unlooked at.

        Chosen to leave the fewest candidates for the exact test.
        """
        levels = np.linspace(0, 1, 65)
        pivots = np.quantile(self._reference, levels)
        most = np.exp(np.minimum(self._log_g_min - self.penalty.log(pivots), 0.0))
        best = int(np.argmin(levels + (1 - levels) * most))
        return float(pivots[best]), float(most[best])

    def _check_acceptance(self) -> None:
        if self.acceptance >= WARN_ACCEPTANCE:
            if self.ess_fraction < MIN_ESS_FRACTION:
                warn(
                    f"[few-effective-runs] the penalty {self.penalty} keeps {self.ess_fraction:.1%} effective draws:"
                    f" 10,000 count as {10_000 * self.ess_fraction:,.0f}\n  fix: th.Power(0.5), or th.Mixture",
                    stacklevel=4,
                )
            return
        costs = self._reference
        floor = float(np.quantile(costs, 0.01))
        raised = float(np.exp(log_mean_exp(np.minimum(self.penalty.log(np.full(1, floor)) - self._log_g, 0.0))))
        what = f"1 in {_format_count(1 / self.acceptance)} prior draws is accepted under the penalty {self.penalty}"
        fix = (
            f"raise the floor: low={floor:.3g} (the cheapest 1% of the prior) accepts 1 in"
            f" {_format_count(1 / raised)}; or use a gentler penalty, th.Power(0.5)"
        )
        if self.acceptance < MIN_ACCEPTANCE:
            raise PenaltyError(
                what, code="few-effective-runs", why="drawing would take longer than simulating", fix=fix
            )
        warn(f"[few-effective-runs] {what}\n  fix: {fix}", stacklevel=4)

    def to_dict(self) -> dict[str, Any]:
        """Write plain numbers, where the cost model has them; the prior is given again on loading."""
        fix = "fit it with th.fit_cost, or keep the log_weights that came with the draws"
        return {
            "kind": "cost_aware",
            "cost": cost_to_dict(self.cost, fix),
            "penalty": penalty_to_dict(self.penalty),
            "log_normaliser": self.log_normaliser,
            **({} if self.finish is None else {"finish": self.finish.to_dict()}),
        }


@dataclass(frozen=True, eq=False, repr=False)
class CostAware(Penalised):
    """The proposal prior(theta) / (B g(cost(theta))).

    Args:
        prior: The target; anything `as_prior` reads.
        cost: Any callable (n, p) -> (n,), known or fitted, positive and finite.
        penalty: g; a number k means z^k.
        log_b: log B where it is known already; estimated from prior draws otherwise.
        finish: P(finish | theta), frozen: g then acts on the cost of a valid run, c/P. The weights stay exact.

    A new proposal draws from the prior once, to check its cost and its penalty and to find the floor. A proposal
    rebuilt from its numbers (log B and floor known) draws nothing until a property needs it.

    Example:
        >>> q = CostAware(th.Uniform(1, 10), lambda t: t[:, 0], th.Power(1))
        >>> draws = q.sample(1000, 0)
        >>> bool(draws.theta.mean() < 4.5), bool(abs(th.estimate(draws.theta, draws.log_weights).mean[0] - 5.5) < 0.5)
        (True, True)
        >>> round(q.gain * q.ess_fraction, 9)  # exactly 1 for g(z) = z
        1.0
    """

    prior: Prior
    cost: Cost
    penalty: Penalty = field(default_factory=lambda: Power(0.5))
    log_b: float | None = None
    finish: FinishModel | None = None
    _costs: Array | None = field(default=None, repr=False)
    _runs: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        penalty = as_penalty(self.penalty)
        set_fields(self, prior=as_prior(self.prior), penalty=penalty)
        check_callable(self.cost)
        if self.log_b is not None and penalty.low is not None:  # checked when it was new
            return
        penalty = penalty.floored(float(self._reference.min()))
        check_penalty(penalty, np.quantile(self._reference, np.linspace(0, 1, 257)))
        object.__setattr__(self, "penalty", penalty)


def _format_count(value: float) -> str:
    return f"{value / 1e6:.2g} million" if value >= 1e6 else f"{value:,.0f}"
