"""The likelihood that is behind a posterior or in a user's function, bound to one observation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import ConfigError
from thrifty.inference.ensemble import EnsemblePosterior
from thrifty.inference.likelihood_posterior import LikelihoodPosterior
from thrifty.types import Array


def check_likelihood(likelihood: Any) -> None:
    """Refuse what has no likelihood.

    Raises:
        ConfigError: bad-setting.
    """
    if isinstance(likelihood, EnsemblePosterior):
        for member in likelihood.members:
            check_likelihood(member)
    elif not (callable(likelihood) or hasattr(likelihood, "log_likelihood")):
        raise ConfigError(
            f"{type(likelihood).__name__} has no likelihood",
            code="bad-setting",
            fix="th.NLE(prior).fit(simulations), or a function (theta, x_o) -> log likelihood (n,)",
        )


def bind_likelihood(likelihood: Any, x_o: npt.ArrayLike) -> Callable[[Array], Array]:
    """Return theta (n, p) -> log likelihood (n,) of x_o; an ensemble's is the log of the members' mean likelihood.

    Example:
        >>> bind_likelihood(lambda theta, x_o: -np.square(theta[:, 0] - x_o), 2.0)(np.array([[1.0], [4.0]])).tolist()
        [-1.0, -4.0]
    """
    if isinstance(likelihood, EnsemblePosterior):
        each = [bind_likelihood(member, x_o) for member in likelihood.members]
        return lambda theta: np.logaddexp.reduce([one(theta) for one in each], axis=0) - np.log(len(each))
    if isinstance(likelihood, LikelihoodPosterior):
        return likelihood.surrogate(x_o)
    if hasattr(likelihood, "log_likelihood"):
        return lambda theta: likelihood.log_likelihood(theta, x_o)
    return lambda theta: _call(likelihood, theta, x_o)


def _call(function: Callable[..., Any], theta: Array, x_o: npt.ArrayLike) -> Array:
    values = np.asarray(function(theta, np.asarray(x_o, dtype=np.float64)), dtype=np.float64)
    if values.shape != (len(theta),):
        raise ConfigError(
            f"the likelihood returned shape {values.shape} for {len(theta)} parameters, expected ({len(theta)},)",
            code="bad-setting",
            fix="write it over all rows at once: f(theta (n, p), x_o) -> log likelihood (n,)",
        )
    return values


def describe_likelihood(likelihood: Any) -> tuple[tuple[str, ...], str]:
    """Return what each statistic contributes and what is missing, as in `LogEvidence`; nothing of a function."""
    first = likelihood.members[0] if isinstance(likelihood, EnsemblePosterior) else likelihood
    return getattr(first, "evidence_measure", ((), ""))
