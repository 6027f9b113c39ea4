"""Cost-aware proposals: exact draws from prior(theta)/g(cost(theta)), with the weights that undo them.

Sampling is rejection from the prior with acceptance g_min/g(c), exact because the floor lives inside g
(paper, Proposition 1; and theory for why a learned cost needs it). A wrong cost never biases anything: the
same frozen cost draws and weights. A mixture is one proposal with one penalty (`penalties.Balance`), so it
takes the same path. A pool of draws from several known proposals is weighted jointly by `Pool`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from thrifty.errors import CostError, PenaltyError, WeightError, warn
from thrifty.penalties import Balance, Constant, Power, as_penalty, check_penalty, check_shares, penalty_to_dict
from thrifty.priors import as_prior, check_draws, same_prior
from thrifty.types import Array, Cost, Draws, Penalty, Prior, Weighting, rows

BLOCK = 65_536  # candidates per random stream: amortises the set-up of a stream, and half a megabyte stays in cache
REFERENCE = 2**17  # free prior draws behind floor, gain, efficiency and B: B within 0.3 % for usual penalties
FINE = 2**20  # as many where the first are too few: a strong penalty over decades rests on few cheap draws
ROUGH = 0.01  # relative error of B above which more are drawn
UNKNOWN = 0.03  # relative error of B above which a pool's joint weights deserve a word
COLLAPSED = 0.02  # effective share of draws below which they are hardly worth drawing
_REFERENCE_STREAM = 20_250_503  # the reference draws are the same in every process: weights never depend on luck
RARE, HOPELESS = 1e-4, 1e-6  # acceptance that is worth a warning, and that is refused


class Normaliser(NamedTuple):
    """B = E_prior[1/g(c)] and its standard error."""

    value: float
    se: float

    @property
    def relative(self) -> float:
        """Standard error over value."""
        return self.se / self.value


def _normaliser(log_g: Array) -> Normaliser:
    inverse = np.exp(log_g.min() - log_g)
    scale = np.exp(-log_g.min())
    return Normaliser(float(inverse.mean() * scale), float(inverse.std() / np.sqrt(inverse.size) * scale))


def priced(cost: Cost, theta: Array) -> Array:
    """Cost of each row, checked to be positive and finite (n,)."""
    guarded = theta.view()
    guarded.setflags(write=False)  # a cost that works in place must not move the draws
    try:
        values = np.asarray(cost(guarded), dtype=np.float64)
    except ValueError as error:
        if "read-only" in str(error):
            raise CostError(
                "the cost function changes its input array", code="C13", fix="work on a copy: theta = theta.copy()"
            ) from None
        if "could not convert" in str(error):
            raise CostError(f"the cost function does not return numbers: {error}", code="C02") from None
        raise
    if values.shape != (len(theta),):
        raise CostError(
            f"cost(theta) returned shape {values.shape} for {len(theta)} parameters, expected ({len(theta)},)",
            code="C02",
            fix="a cost takes a table (n, p) and returns one number per row, e.g. lambda t: 1 + t[:, 0]",
        )
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise CostError(
            f"cost(theta) = {values[i]:g} at theta = {theta[i].tolist()} ({int(bad.sum())} of {len(theta)} such);"
            " it must be positive and finite everywhere in the prior",
            code="C02",
            fix="fit the logarithm of cost (th.fit_cost does), or clip the function",
        )
    return values


def reference_costs(prior: Prior, cost: Cost, *, n: int = REFERENCE, seed: int = _REFERENCE_STREAM) -> Array:
    """Costs at n prior draws: what floor, gain, efficiency and normalisers are computed from. No simulation."""
    if not callable(cost):
        raise CostError(f"cost must be callable (n, p) -> (n,), got {cost!r}", code="C02")
    theta = check_draws(prior, prior.sample(n, np.random.default_rng(seed)))
    costs = priced(cost, theta)
    again = priced(cost, theta[:256])
    if not np.allclose(again, costs[:256], rtol=0.01, atol=0):
        i = int(np.argmax(np.abs(np.log(again / costs[:256]))))
        raise CostError(
            f"cost(theta) = {costs[i]:.4g} and then {again[i]:.4g} at the same theta = {theta[i].tolist()}",
            code="C12",
            why="a cost that changes between calls draws by one value and weighs by another",
            fix="fit a frozen model: th.fit_cost(theta, seconds)",
        )
    return costs


def _reference_for(prior: Prior, cost: Cost, penalties: Sequence[Penalty]) -> Array:
    """Reference costs, more of them where a penalty's normaliser would be rough."""
    costs = reference_costs(prior, cost)
    penalties = [p.floored(float(costs.min())) for p in penalties]
    for penalty in penalties:
        check_penalty(penalty, np.quantile(costs, np.linspace(0, 1, 257)))
    if all(_normaliser(p.log(costs)).relative < ROUGH for p in penalties):
        return costs
    return reference_costs(prior, cost, n=FINE)


@dataclass(frozen=True, eq=False)
class CostAware:
    """The proposal prior(theta) / (B g(cost(theta))).

    Args:
        prior: The target; anything `as_prior` reads.
        cost: Any callable (n, p) -> (n,), known or fitted, positive and finite.
        penalty: g; a number k means z^k.
        log_b: log B where it is known already; estimated from prior draws otherwise.

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
    _costs: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", as_prior(self.prior))
        penalty = as_penalty(self.penalty)
        object.__setattr__(self, "penalty", penalty)
        penalty = penalty.floored(float(self._reference.min()))
        check_penalty(penalty, np.quantile(self._reference, np.linspace(0, 1, 257)))
        object.__setattr__(self, "penalty", penalty)

    @cached_property
    def log_normaliser(self) -> float:
        """Log B."""
        return float(_log_mean_exp(-self._log_g)) if self.log_b is None else self.log_b

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names."""
        return self.prior.names

    @cached_property
    def _log_g(self) -> Array:
        return self.penalty.log(self._reference)

    @cached_property
    def _reference(self) -> Array:
        return _reference_for(self.prior, self.cost, [self.penalty]) if self._costs is None else self._costs

    @cached_property
    def _log_g_min(self) -> float:
        low = self.penalty.low
        return float(self.penalty.log(np.array([low if low is not None else self._reference.min()]))[0])

    @cached_property
    def acceptance(self) -> float:
        """Share of prior draws that the sampler accepts, g_min B."""
        return float(np.exp(self._log_g_min + _log_mean_exp(-self._log_g)))

    @cached_property
    def normaliser(self) -> Normaliser:
        """B = E_prior[1/g], estimated from free prior draws, with its standard error."""
        return _normaliser(self._log_g)

    @cached_property
    def gain(self) -> float:
        """CG = E[c] E[1/g] / E[c/g]: cost per draw of the prior over that of the proposal."""
        log_c = np.log(self._reference)
        return float(np.exp(_log_mean_exp(log_c) + _log_mean_exp(-self._log_g) - _log_mean_exp(log_c - self._log_g)))

    @cached_property
    def ess_fraction(self) -> float:
        """ESS/n = 1 / (E[g] E[1/g]): effective draws per draw."""
        return float(np.exp(-_log_mean_exp(self._log_g) - _log_mean_exp(-self._log_g)))

    @cached_property
    def expected_cost(self) -> float:
        """Expected cost of one draw, E[c/g] / E[1/g]."""
        log_c = np.log(self._reference)
        return float(np.exp(_log_mean_exp(log_c - self._log_g) - _log_mean_exp(-self._log_g)))

    def log_weight(self, theta: npt.ArrayLike) -> Array:
        """Log g(cost(theta)) (n,): log prior over proposal, up to the constant log B."""
        theta = rows(theta, dim=self.prior.dim)
        return self.penalty.log(priced(self.cost, theta))

    def log_ratio(self, theta: npt.ArrayLike) -> Array:
        """Log proposal over prior density (n,), normalised through the estimated B."""
        return -self.log_weight(theta) - self.log_normaliser

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Log density (n,), normalised through the estimated B."""
        theta = rows(theta, dim=self.prior.dim)
        out = np.asarray(self.prior.log_prob(theta), dtype=np.float64).copy()
        inside = out > -np.inf
        out[inside] += self.log_ratio(theta[inside])
        return out

    def sample(self, n: int, rng: np.random.Generator | int) -> Draws:
        """Draw n parameters exactly, with their log weights.

        Candidates come in blocks with one random stream each, so that the first draws do not depend on n. Without a
        penalty the draws are the prior's own.

        Raises:
            PenaltyError: G04, fewer than one in a million candidates would be accepted.
        """
        n = _count(n)
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
            theta = np.asarray(self.prior.sample(BLOCK, stream), dtype=np.float64)
            costs, u = priced(self.cost, theta), stream.random(BLOCK)
            maybe = np.flatnonzero((costs <= pivot) | (u <= most))
            log_g = self.penalty.log(costs[maybe])
            excess = log_g - self._log_g_min
            if len(excess) and excess.min() < -1e-9:
                raise PenaltyError(
                    f"penalty {self.penalty} falls to {np.exp(excess.min()):.3g} of its value at its floor",
                    code="G09",
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
        if self.acceptance >= RARE:
            if self.ess_fraction < COLLAPSED:
                warn(
                    f"[G03] the penalty {self.penalty} keeps {self.ess_fraction:.1%} effective draws:"
                    f" 10,000 count as {10_000 * self.ess_fraction:,.0f}\n  fix: th.Power(0.5), or th.Mixture",
                    stacklevel=4,
                )
            return
        costs = self._reference
        floor = float(np.quantile(costs, 0.01))
        raised = float(np.exp(_log_mean_exp(np.minimum(self.penalty.log(np.full(1, floor)) - self._log_g, 0.0))))
        what = f"1 in {_short(1 / self.acceptance)} prior draws is accepted under the penalty {self.penalty}"
        fix = (
            f"raise the floor: low={floor:.3g} (the cheapest 1 % of the prior) accepts 1 in {_short(1 / raised)};"
            " or use a gentler penalty, th.Power(0.5)"
        )
        if self.acceptance < HOPELESS:
            raise PenaltyError(what, code="G04", why="drawing would take longer than simulating", fix=fix)
        warn(f"[G04] {what}\n  fix: {fix}", stacklevel=4)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, where the cost model has them; the prior is given again on loading."""
        if not hasattr(self.cost, "to_dict"):
            raise CostError(
                "the cost is a function and cannot be saved as plain numbers",
                code="C08",
                fix="fit it with th.fit_cost, or keep the log_weights that came with the draws",
            )
        return {
            "kind": "cost_aware",
            "cost": self.cost.to_dict(),  # type: ignore[attr-defined]
            "penalty": penalty_to_dict(self.penalty),
            "log_normaliser": self.log_normaliser,
        }


@dataclass(frozen=True, eq=False)
class Mixture:
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
    components: tuple[CostAware, ...] = field(init=False, repr=False, compare=False)
    balanced: CostAware = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.scheme not in ("balance", "paper"):
            raise PenaltyError(f'scheme must be "balance" or "paper", got {self.scheme!r}', code="G05")
        if isinstance(self.powers, str) or not isinstance(self.powers, Sequence | np.ndarray):
            raise PenaltyError(f"powers must be a sequence such as (0, 0.5, 1), got {self.powers!r}", code="G05")
        if len(self.powers) == 0:
            raise PenaltyError("a mixture needs at least one component", code="G05")
        prior = as_prior(self.prior)
        shares = tuple(float(s) for s in self.shares) or (1 / len(self.powers),) * len(self.powers)
        check_shares(shares, len(self.powers))
        penalties = [as_penalty(p) for p in self.powers]
        costs = _reference_for(prior, self.cost, penalties)
        components = tuple(CostAware(prior, self.cost, p, _costs=costs) for p in penalties)
        log_b = tuple(c.log_normaliser for c in components)
        balance = Balance(tuple(c.penalty for c in components), shares, log_b)
        balanced = CostAware(prior, self.cost, balance, _costs=costs)
        for label, value in {
            "prior": prior,
            "powers": tuple(self.powers),
            "shares": shares,
            "components": components,
            "balanced": balanced,
        }.items():
            object.__setattr__(self, label, value)

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names."""
        return self.prior.names

    @property
    def penalty(self) -> Penalty:
        """The one penalty that the mixture amounts to."""
        return self.balanced.penalty

    @property
    def gain(self) -> float:
        """Cost per draw of the prior over that of the mixture."""
        return self.balanced.gain

    @property
    def expected_cost(self) -> float:
        """Expected cost of one draw."""
        return self.balanced.expected_cost

    @property
    def acceptance(self) -> float:
        """Share of prior draws that the sampler accepts."""
        return self.balanced.acceptance

    @property
    def normaliser(self) -> Normaliser:
        """E_prior[1/g] of the one penalty: 1, up to the error of the components' normalisers."""
        return self.balanced.normaliser

    @property
    def ess_fraction(self) -> float:
        """Effective draws per draw; for the paper's scheme the harmonic mean over components."""
        if self.scheme == "balance":
            return self.balanced.ess_fraction
        used = [(s, c.ess_fraction) for s, c in zip(self.shares, self.components, strict=True) if s > 0]
        return len(used) ** 2 / sum(1 / (share * fraction) for share, fraction in used)

    def log_weight(self, theta: npt.ArrayLike) -> Array:
        """Log balance weight (n,).

        Raises:
            WeightError: Under the paper's scheme a weight depends on the component and on the other draws.
        """
        if self.scheme == "paper":
            raise WeightError(
                "under the paper's scheme a weight belongs to a draw of one component, not to a theta",
                code="W04",
                fix="use the log_weights that came with the draws, or scheme='balance'",
            )
        return self.balanced.log_weight(theta)

    def log_ratio(self, theta: npt.ArrayLike) -> Array:
        """Log mixture over prior density (n,)."""
        return self.balanced.log_ratio(theta)

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Log density of the mixture (n,)."""
        return self.balanced.log_prob(theta)

    def sample(self, n: int, rng: np.random.Generator | int) -> Draws:
        """Draw n parameters with their log weights; under the paper's scheme with their component too."""
        if self.scheme == "balance":
            draws = self.balanced.sample(n, rng)
            return Draws(theta=draws.theta, log_weights=draws.log_weights, names=self.names, proposal=self)
        rng = np.random.default_rng(rng)
        if _count(n) == 0:
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
        """Plain numbers of the one proposal that the mixture amounts to."""
        if self.scheme == "paper":
            self.log_weight(self.prior.sample(1, np.random.default_rng(0)))  # says why not
        return self.balanced.to_dict()


@runtime_checkable
class _KnownRatio(Protocol):
    def log_ratio(self, theta: npt.ArrayLike) -> Array: ...


@dataclass(frozen=True, eq=False)
class Pool:
    """Joint weights of draws from several known proposals: pilot, campaign, top-ups.

    The pool of n_j draws from q_j counts as drawn from sum_j (n_j/n) q_j, so each draw weighs
    prior/sum_j (n_j/n) q_j, whatever component it came from. Adding a proposal re-weights the pool; it never
    touches a draw.

    Args:
        parts: Pairs (n_j, proposal_j); a prior stands for itself, any other object needs `log_prob`.
        prior: The target.

    Example:
        >>> prior = th.Uniform(1, 10)
        >>> q = CostAware(prior, lambda t: t[:, 0], th.Power(1))
        >>> pool = Pool([(100, prior), (900, q)], prior)
        >>> bool(np.exp(pool.log_weight([[10.0]]))[0] < 10.0)  # at most n over the number of prior draws
        True
    """

    parts: tuple[tuple[int, Any], ...]
    prior: Prior

    def __post_init__(self) -> None:
        try:
            parts = tuple((_count(count), proposal) for count, proposal in self.parts)
        except (TypeError, ValueError):
            raise WeightError(
                f"a pool takes pairs (number of draws, proposal), got {self.parts!r}", code="W05"
            ) from None
        if not parts or sum(count for count, _ in parts) == 0:
            raise WeightError(f"a pool needs draws; got counts {[count for count, _ in parts]}", code="W05")
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "prior", as_prior(self.prior))
        for _, proposal in parts:
            error = getattr(proposal, "normaliser", Normaliser(1.0, 0.0))
            if len(parts) > 1 and error.relative > UNKNOWN:
                warn(
                    f"[W07] the normaliser of {proposal.penalty} is known to {error.relative:.0%} only, and joint"
                    " weights rest on it\n  fix: a gentler penalty, or a higher floor, th.Power(k, low=...)",
                    stacklevel=4,
                )

    @property
    def shares(self) -> tuple[float, ...]:
        """n_j/n."""
        total = sum(count for count, _ in self.parts)
        return tuple(count / total for count, _ in self.parts)

    def log_weight(self, theta: npt.ArrayLike) -> Array:
        """Log prior over pool density (n,)."""
        return -self.log_ratio(theta)

    def log_ratio(self, theta: npt.ArrayLike) -> Array:
        """Log pool over prior density (n,)."""
        theta = rows(theta, dim=self.prior.dim)
        terms = [
            np.log(share) + self._log_ratio_of(proposal, theta)
            for share, (_, proposal) in zip(self.shares, self.parts, strict=True)
            if share > 0
        ]
        return np.logaddexp.reduce(terms, axis=0)

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Log density of the pool (n,)."""
        theta = rows(theta, dim=self.prior.dim)
        out = np.asarray(self.prior.log_prob(theta), dtype=np.float64).copy()
        inside = out > -np.inf
        out[inside] += self.log_ratio(theta[inside])
        return out

    def _log_ratio_of(self, proposal: Any, theta: Array) -> Array:
        if same_prior(proposal, self.prior):
            return np.zeros(len(theta))
        # a ratio is against the proposal's own prior: of use only where that is the pool's
        if isinstance(proposal, _KnownRatio) and same_prior(getattr(proposal, "prior", self.prior), self.prior):
            return proposal.log_ratio(theta)
        density: Any = proposal if hasattr(proposal, "log_prob") else as_prior(proposal)
        return np.asarray(density.log_prob(theta)) - np.asarray(self.prior.log_prob(theta))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, where every part has them."""
        parts = [{"kind": "prior"} if same_prior(p, self.prior) else p.to_dict() for _, p in self.parts]
        return {"kind": "pool", "counts": [count for count, _ in self.parts], "parts": parts}


def weighting_from_dict(data: dict[str, Any], prior: Prior) -> Weighting:
    """The proposal or pool written by `to_dict`, over the given prior."""
    from thrifty.costs import cost_from_dict
    from thrifty.penalties import penalty_from_dict

    prior = as_prior(prior)
    match data.get("kind"):
        case "cost_aware":
            return CostAware(
                prior, cost_from_dict(data["cost"]), penalty_from_dict(data["penalty"]), data["log_normaliser"]
            )
        case "kernel":
            from thrifty.kernel_proposal import KernelProposal

            return KernelProposal.from_dict(data, prior)
        case "pool":
            parts = [prior if p.get("kind") == "prior" else weighting_from_dict(p, prior) for p in data["parts"]]
            return Pool(tuple(zip(data["counts"], parts, strict=True)), prior)
        case other:
            raise WeightError(f"unknown kind of proposal {other!r}", code="W06")


def _count(n: int) -> int:
    whole = isinstance(n, int | float | np.integer | np.floating) and not isinstance(n, bool) and np.isfinite(n)
    if not whole or int(n) != n or n < 0:
        raise PenaltyError(f"the number of draws must be a whole number >= 0, got {n!r}", code="G08")
    return int(n)


def _apportion(n: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers that sum to n, as near to n * shares as can be (largest remainders)."""
    exact = n * np.asarray(shares)
    counts = np.floor(exact).astype(int)
    counts[np.argsort(counts - exact, kind="stable")[: n - counts.sum()]] += 1
    return counts.tolist()


def _log_mean_exp(values: Array) -> float:
    top = values.max()
    return float(top + np.log(np.mean(np.exp(values - top))))


def _short(value: float) -> str:
    return f"{value / 1e6:.2g} million" if value >= 1e6 else f"{value:,.0f}"
