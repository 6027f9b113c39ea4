"""Prior recovery: weighted proposal draws must reproduce the prior. Run by every plan, before any simulation.

For each parameter, and for the log weight itself (faults act along cost), the weighted distribution function
of proposal draws is compared with that of plain prior draws, and the other way round. The largest difference D,
over the largest standard deviation s of the difference, has nearly the Kolmogorov distribution, p = K(D / (2 s)),
since a Brownian bridge peaks at standard deviation 1/2. The weighted variance at each point is
sum w^2 (1{theta <= t} - F)^2, so no approximation by an effective sample size is needed. Over values that repeat both
functions are compared after each value's jump; p is then at least as large as it should be.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError, warn
from thrifty.priors import as_prior
from thrifty.proposals.draws import Draws, Proposal
from thrifty.types import Array, Prior, Weighting, find_discrete, levels_of
from thrifty.weights import ess, normalise

_MIN_EFFECTIVE_DRAWS = 500  # effective draws below which the Kolmogorov distance of weighted draws is not trusted
_MAX_LOG_WEIGHT_DIFFERENCE = 0.05  # weights computed in another batch differ by single-precision rounding, not more


def weighted_ks(values: npt.ArrayLike, log_weights: npt.ArrayLike, plain: npt.ArrayLike) -> tuple[float, float]:
    """Distance and p-value between weighted values (n,) and an unweighted sample (m,).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.uniform(0, 1, 4000)  # weights 2 theta turn it into Beta(2, 1)
        >>> distance, p = weighted_ks(theta, np.log(2 * theta), np.sqrt(rng.uniform(0, 1, 4000)))
        >>> bool(p > 1e-3)
        True
    """
    from scipy.special import kolmogorov  # a fifth of a second, so not at import

    values, plain = np.asarray(values, dtype=np.float64), np.sort(np.asarray(plain, dtype=np.float64))
    weights = normalise(log_weights)
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[order]
    points = np.concatenate([values, plain])
    steps = np.concatenate([[0.0], np.cumsum(weights)])
    squares = np.concatenate([[0.0], np.cumsum(weights**2)])
    rank = np.searchsorted(values, points, side="right")
    weighted, below = steps[rank], squares[rank]
    reference = np.searchsorted(plain, points, side="right") / len(plain)
    pooled = (weighted + reference) / 2
    variance = below * (1 - pooled) ** 2 + (squares[-1] - below) * pooled**2 + pooled * (1 - pooled) / len(plain)
    spread = float(np.sqrt(variance.max()))
    distance = float(np.abs(weighted - reference).max())
    return distance, float(kolmogorov(distance / (2 * spread))) if spread > 0 else 1.0


def check_recovery(draws: Draws, prior: Prior, *, seed: int) -> float:
    """Test that draws and weights belong together: p-value over all parameters and the weight (Bonferroni).

    Forward: weighted draws follow the prior. Backward, where the weight is known as a function: prior draws weighted by
    its inverse follow the draws. Each is asked where its weights leave 500 effective draws or more; strong
    penalties leave only the second, whose weights are bounded. Stored weights must equal the function in any case.
    """
    if len(draws) == 0:
        raise DataError("no draws to check", code="bad-array")
    plain = np.asarray(prior.sample(len(draws), np.random.default_rng(seed)), dtype=np.float64)
    columns: list[tuple[Array, Array]] = list(zip(draws.theta.T, plain.T, strict=True))
    p: list[float] = []
    if draws.proposal is not None:
        ours, theirs = _evaluate_weights(draws.proposal, draws.theta, plain, prior)
        if np.ptp(draws.log_weights - ours) > _MAX_LOG_WEIGHT_DIFFERENCE:
            return 0.0
        columns += [(ours, theirs)] if np.ptp(theirs) > 0 else []
        if ess(-theirs) >= _MIN_EFFECTIVE_DRAWS:
            p += [weighted_ks(b, -theirs, a)[1] for a, b in columns]
    if ess(draws.log_weights) >= _MIN_EFFECTIVE_DRAWS:
        p += [weighted_ks(a, draws.log_weights, b)[1] for a, b in columns]
    if not p:
        warn(
            f"[few-effective-runs] {len(draws):,} draws hold too few effective ones to be tested against the prior\n"
            "  fix: a gentler penalty, th.Power(0.5), or a higher floor"
        )
    return float(min(1.0, len(p) * min(p, default=1.0)))


def _evaluate_weights(proposal: Weighting, drawn: Array, plain: Array, prior: Prior) -> tuple[Array, Array]:
    """Return the log weights of both tables (n, p).

    Where parameters are discrete, each different row is evaluated once: values of another batch differ by rounding,
    and what is one jump of both distribution functions would become two.
    """
    if not find_discrete(levels_of(prior)).any():
        return np.asarray(proposal.log_weight(drawn)), np.asarray(proposal.log_weight(plain))
    rows, which = np.unique(np.concatenate([drawn, plain]), axis=0, return_inverse=True)
    both = np.asarray(proposal.log_weight(rows))[which.reshape(-1)]
    return both[: len(drawn)], both[len(drawn) :]


def prior_recovery(q: Proposal, *, n: int = 50_000, seed: int = 0) -> float:
    """Test that weighted draws from q reproduce its prior; a tiny p-value means that draws and weights disagree.

    Args:
        q: A proposal.
        n: Draws; 50,000 catch a weight forgotten, squared, or clipped in one place only.
        seed: Seed of the draws.

    Example:
        >>> q = th.CostAware(th.Uniform(1, 10), lambda t: t[:, 0], th.Power(1))
        >>> bool(th.prior_recovery(q, seed=0) > 1e-3)
        True
    """
    ours, theirs = np.random.SeedSequence(seed).spawn(2)
    draws = q.sample(n, np.random.default_rng(ours))
    return check_recovery(draws, as_prior(q.prior), seed=int(theirs.generate_state(1)[0]))
