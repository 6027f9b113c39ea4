"""The same runs under another prior: weights times the ratio of the densities, and no run made again."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.proposals.reweighted import Reweighted
from thrifty.tables.simulations import Simulations
from thrifty.types import Prior


def reweight(simulations: Simulations, new_prior: Any, *, old_prior: Any = None) -> Simulations:
    """Weigh the same runs for another prior, without a simulation: weights times new over old prior density.

    Args:
        simulations: The runs.
        new_prior: Any prior over the same parameters, inside the support of the old one; `th.truncate` cuts one to it.
        old_prior: The prior that the weights restore; taken from the proposal where it is known.

    Raises:
        DataError: No table of runs; the old prior is not known, or the new one lies outside of it.

    Example:
        >>> theta = np.random.default_rng(0).uniform(0, 1, (4000, 1))
        >>> runs = th.Simulations.from_arrays(theta=theta, x=theta)
        >>> narrower = th.reweight(runs, th.Uniform(0, 0.5), old_prior=th.Uniform(0, 1))
        >>> round(float(th.estimate(narrower.theta, narrower.log_weights).mean[0]), 1)
        0.3
    """
    from thrifty.priors import as_prior, has_same_density

    if not isinstance(simulations, Simulations):
        several = f" of {len(simulations)}" if isinstance(simulations, list | tuple) else ""
        raise DataError(
            f"reweight expects one table of runs (th.Simulations), got {type(simulations).__name__}{several}",
            code="bad-setting",
            fix="pass one table at a time; a campaign gives its own by campaign.simulations()",
        )
    known = getattr(simulations.proposal, "prior", None) if old_prior is None else old_prior
    if known is None:
        raise DataError(
            "the prior behind these weights is not known",
            code="wrong-prior",
            fix="pass old_prior=, the prior of the campaign",
        )
    old, new = as_prior(known), as_prior(new_prior)
    if old.dim != simulations.dim or new.dim != simulations.dim:
        raise DataError(
            f"priors over {old.dim} and {new.dim} parameters, runs have {simulations.dim}", code="wrong-prior"
        )
    columns = _match_columns(old, simulations, "old_prior"), _match_columns(new, simulations, "new_prior")
    _check_support(old, new, np.argsort(columns[1])[columns[0]])
    counts = simulations.log_weights > -np.inf  # what an earlier prior excluded stays excluded
    theta = simulations.theta[counts]
    before = np.asarray(old.log_prob(theta[:, columns[0]]), dtype=np.float64)
    outside = int(np.sum(~(before > -np.inf)))
    if outside:
        raise DataError(
            f"{outside} of {len(theta)} runs with weight lie outside old_prior",
            code="outside-prior",
            why="the weights cannot restore a prior that excludes their runs",
            fix="pass as old_prior the prior of the campaign, or of the last reweight",
        )
    shift = np.asarray(new.log_prob(theta[:, columns[1]]), dtype=np.float64) - before
    if not (shift > -np.inf).any():
        raise DataError(
            "no run lies in the support of both priors", code="outside-prior", fix="run a campaign under the new prior"
        )
    log_weights = simulations.log_weights.copy()
    log_weights[counts] += shift
    in_order = all(np.array_equal(order, np.arange(simulations.dim)) for order in columns)
    kept = simulations.proposal
    own = getattr(kept, "prior", None)
    is_known = old_prior is None or (own is not None and has_same_density(as_prior(own), old))
    if kept is None or not is_known or not in_order:
        return simulations.reweighted(log_weights)
    return simulations.reweighted(log_weights, Reweighted(kept, old, new))


def _match_columns(prior: Prior, simulations: Simulations, label: str) -> npt.NDArray[np.int64]:
    """Find the column of the runs for each parameter of the prior, by name where both have names."""
    given = tuple(prior.names)
    unnamed = {("theta",), tuple(f"theta_{i + 1}" for i in range(prior.dim))}  # called so when given no names
    if not simulations.names or given == simulations.names or {given, simulations.names} & unnamed:
        return np.arange(prior.dim)
    if set(given) != set(simulations.names):
        raise DataError(
            f"{label} has parameters {', '.join(given)}, the runs {', '.join(simulations.names)}",
            code="wrong-prior",
            why="densities are matched by name; by position one parameter would get the prior of another",
            fix=f"give the prior names={list(simulations.names)}, in its own order",
        )
    return np.array([simulations.names.index(name) for name in given])


def _check_support(old: Prior, new: Prior, order: npt.NDArray[np.int64]) -> None:
    """`order` gives, for each parameter of the old prior, its column in draws of the new one."""
    draws = new.sample(2000, np.random.default_rng(0))[:, order]
    outside = float(np.mean(~np.isfinite(np.asarray(old.log_prob(draws)))))
    if outside > 0:
        raise DataError(
            f"{outside:.1%} of the new prior lies where the old one has no mass",
            code="outside-prior",
            why="no run was ever made there, so no weight can restore it",
            fix=f"cut the new prior to the old one: th.truncate(new_prior, {describe_ends(old)}); or run a campaign"
            " under it",
        )


def describe_ends(prior: Prior) -> str:
    """Write the support of a prior as the two arguments of `th.truncate`.

    Example:
        >>> describe_ends(th.Uniform([0, 0], [1, 2.5]))
        '[0, 0], [1, 2.5]'
    """
    low, high = ("[" + ", ".join(f"{end:.12g}" for end in ends) + "]" for ends in prior.bounds)
    return f"{low}, {high}"
