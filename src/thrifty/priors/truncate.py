"""Cut a prior of independent parameters to an interval of each: the prior, given that it lies there."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import PriorError
from thrifty.priors.adapters import as_prior
from thrifty.priors.families import LogUniform, Normal, Uniform
from thrifty.priors.independent import Independent
from thrifty.types import Prior

_CUT = (Uniform, LogUniform, Normal)  # the marginals that have an exact truncated form


def truncate(prior: Any, low: npt.ArrayLike, high: npt.ArrayLike) -> Prior:
    """Cut a prior to low ≤ theta ≤ high; inside, its density has the same shape and is normalised again.

        p(theta) 1[low ≤ theta ≤ high] / P(low ≤ theta ≤ high)

    Runs say nothing of parameters outside the prior that they were planned with. `th.reweight` to a prior that reaches
    beyond it needs that prior cut to it.

    Args:
        prior: Uniform, log-uniform or normal parameters, or scipy's normal; others where they lie inside already.
        low: Lower ends (p,), or one for all; -inf where there is none.
        high: Upper ends (p,).

    Raises:
        PriorError: bad-prior, nothing is left, or a parameter has no truncated form.

    Example:
        >>> cut = truncate(th.Normal([0.2, 0.5], [0.1, 0.1], names=["a", "b"]), 0, 1)
        >>> cut.bounds[0].tolist(), round(float(np.exp(cut.log_prob([[0.2, 0.5]])[0])), 2)
        ([0.0, 0.0], 16.29)
    """
    prior = as_prior(prior)
    try:
        low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (prior.dim,)) for end in (low, high))
    except (TypeError, ValueError):
        raise PriorError(
            f"low and high must be numbers, one for each of {prior.dim} parameters; got {low!r} and {high!r}"[:300],
            code="bad-prior",
        ) from None
    own_low, own_high = prior.bounds
    if (np.minimum(high, own_high) <= np.maximum(low, own_low)).any():
        raise PriorError(
            f"nothing of the prior lies between {low.tolist()} and {high.tolist()}",
            code="bad-prior",
            fix="check the order of low and high",
        )
    if ((low <= own_low) & (own_high <= high)).all():
        return prior
    if isinstance(prior, Uniform | LogUniform):
        return type(prior)(np.maximum(low, own_low), np.minimum(high, own_high), names=prior.names)
    if isinstance(prior, Normal):
        columns = zip(prior.names, prior.mean, prior.sd, low, high, strict=True)
        return Independent({name: _cut_normal(mean, sd, a, b) for name, mean, sd, a, b in columns})
    if isinstance(prior, Independent):
        columns = zip(prior.names, low, high, own_low, own_high, strict=True)
        kept = {
            name: prior.marginals[name] if a <= c and d <= b else _cut_marginal(name, prior.marginals[name], a, b)
            for name, a, b, c, d in columns
        }
        return Independent(kept)
    raise PriorError(
        f"{type(prior).__name__} cannot be cut to an interval of each parameter",
        code="bad-prior",
        fix="a prior of independent parameters: th.Independent, th.Normal, th.Uniform",
    )


def _cut_marginal(name: str, marginal: Any, low: float, high: float) -> Any:
    """Cut the distribution of one parameter."""
    if isinstance(marginal, _CUT):
        cut: Any = truncate(marginal, low, high)
        return cut.marginals[cut.names[0]] if isinstance(cut, Independent) else cut
    if getattr(getattr(marginal, "dist", None), "name", "") == "norm":
        return _cut_normal(float(marginal.mean()), float(marginal.std()), low, high)
    raise PriorError(
        f"prior {name!r}: this distribution has no truncated form here",
        code="bad-prior",
        fix="give the truncated distribution yourself, such as scipy.stats.truncnorm",
    )


def _cut_normal(mean: float, sd: float, low: float, high: float) -> Any:
    from scipy import stats

    return stats.truncnorm((low - mean) / sd, (high - mean) / sd, loc=mean, scale=sd)
