"""Fit a network to the pool of SMC-ABC as its last step: `th.SMCABC(prior, finish=th.NPE(prior))`.

    NPE        the weighted runs nearest to x_o: p(theta | x) at one x does not depend on which other x are kept
    NLE, NRE   all runs of the pool, unweighted: a likelihood learned from runs chosen by x is that of the chosen runs

The draws of the pool lie where the posterior is, and every proposal has full support, since generation 0 is from the
prior.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import ConfigError
from thrifty.inference.ensemble import Ensemble
from thrifty.inference.neural.likelihood_fit import LikelihoodMethod
from thrifty.inference.neural.npe import NPE
from thrifty.inference.neural.prepare import warn_failures
from thrifty.sequential.nearness import NEIGHBOURHOOD_SHARE
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Posterior, Prior

MIN_NEAR_RUNS = 400  # of NPE: fewer leave a network little to learn; the neighbourhood is a fifth of a larger pool


def base_method(method: Any) -> Any:
    """Return the method itself, or the one of which an ensemble is made."""
    return method.method if isinstance(method, Ensemble) else method


def check_finish(method: Any, prior: Prior) -> None:
    """Refuse a last step that is none, or that has another prior."""
    base = base_method(method)
    if not isinstance(base, LikelihoodMethod | NPE):
        raise ConfigError(
            f"finish = {base!r:.80} is not a last step",
            code="bad-setting",
            fix="th.NPE(prior), th.NLE(prior), th.NRE(prior), a th.Ensemble of one, or None",
        )
    theta = prior.sample(8, np.random.default_rng(0))
    same = base.prior.names == prior.names and np.allclose(base.prior.log_prob(theta), prior.log_prob(theta))
    if not same:
        raise ConfigError("finish has another prior than SMC-ABC", code="wrong-prior", fix="give both the same prior")


def choose_runs(method: Any, table: Simulations, distances: Array) -> npt.NDArray[np.intp]:
    """Choose the rows to train on: for NPE the nearest ones, for NLE and NRE all.

    Args:
        method: As given to `finish`.
        table: The pool (n runs).
        distances: From x_o (n,), infinite for failed runs.

    Example:
        >>> runs = th.Simulations.from_arrays(theta=np.zeros((3000, 1)), x=np.zeros((3000, 1)))
        >>> distances, prior = np.arange(3000.0), th.Normal(0, 1)
        >>> [len(choose_runs(method(prior), runs, distances)) for method in (th.NPE, th.NLE)]
        [600, 3000]
    """
    if not isinstance(base_method(method), NPE):
        return np.arange(len(table))
    order = np.argsort(distances, kind="stable")
    order = order[np.isfinite(distances[order])]
    return np.sort(order[: max(MIN_NEAR_RUNS, int(NEIGHBOURHOOD_SHARE * len(order)))])


def fit_finish(method: Any, table: Simulations, distances: Array, *, seed: int) -> Posterior:
    """Fit the last step to the pool; failed runs are reported for all of it."""
    rows = choose_runs(method, table, distances)
    if len(rows) < len(table):
        warn_failures(table)
    return method.fit(table[rows], seed=seed)
