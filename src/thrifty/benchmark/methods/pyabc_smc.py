"""Fit pyABC's SMC with its defaults: 100 particles, median epsilon, adaptive Euclidean distance, one process.

Generations run until the budget is used; the last complete one is the answer, as a user who stops there has it.
A budget that ends before the first one gives the error too-few-runs ("no answer at this budget"), not draws of the
prior.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import numpy as np

from thrifty.benchmark.method import Meter
from thrifty.errors import InferenceError
from thrifty.types import Array
from thrifty.weights import resample

PARTICLES = 100
MOST_GENERATIONS = 60  # far more than any budget pays for


class BudgetUsedError(Exception):
    """Raised inside the simulator when the budget is used."""


class ParticlePosterior:
    """Weighted particles (n, p) as a posterior."""

    def __init__(self, theta: Array, log_weights: Array) -> None:
        self.theta, self.log_weights = theta, log_weights

    def sample(self, n: int, x_o: Array, seed: int = 0) -> Array:
        """Draw (n, p) from the particles by their weights."""
        del x_o
        return resample(self.theta, self.log_weights, n, rng=seed)


def fit_pyabc(meter: Meter, x_o: Array | None, budget: float, seed: int) -> ParticlePosterior:
    """Run pyABC's SMC until the budget is used."""
    import pyabc  # pyright: ignore[reportMissingImports] - of the extra bench

    logging.getLogger("ABC").setLevel(logging.ERROR)
    np.random.seed(seed)  # noqa: NPY002 - pyABC draws from numpy's global stream

    def model(parameters: Any) -> dict[str, float]:
        if meter.cost >= budget:
            raise BudgetUsedError
        theta = np.array([[parameters[name] for name in meter.names]])
        return _as_dict(meter.simulate(theta)[0])

    smc = pyabc.ABCSMC(
        model,
        _write_prior(pyabc, meter.prior),
        pyabc.AdaptivePNormDistance(p=2),
        population_size=PARTICLES,
        sampler=pyabc.SingleCoreSampler(check_max_eval=False),
    )
    smc.new("sqlite://", _as_dict(np.asarray(x_o)))
    with suppress(BudgetUsedError):
        smc.run(max_nr_populations=MOST_GENERATIONS)
    history: Any = smc.history  # None before `new`, says its stub
    if history.max_t < 0:
        raise InferenceError(
            f"no generation of pyABC is complete after a budget of {budget:g} runs",
            code="too-few-runs",
            why=f"it calibrates with {PARTICLES} runs, and {PARTICLES} particles take about {2 * PARTICLES} more",
            fix=f"a budget of {4 * PARTICLES} or more",
        )
    frame, weights = history.get_distribution(m=0)
    return ParticlePosterior(frame[list(meter.names)].to_numpy(), np.log(np.maximum(weights, 1e-300)))


def _as_dict(x: Array) -> dict[str, float]:
    return {f"x{i}": float(value) for i, value in enumerate(x)}


def _write_prior(pyabc: Any, prior: Any) -> Any:
    """Write a prior of thrifty as one of pyABC."""
    parts = {}
    for i, name in enumerate(prior.names):
        if hasattr(prior, "low"):
            parts[name] = pyabc.RV("uniform", float(prior.low[i]), float(prior.high[i] - prior.low[i]))
        elif hasattr(prior, "sd"):
            parts[name] = pyabc.RV("norm", float(prior.mean[i]), float(prior.sd[i]))
        else:
            marginal = prior.marginals[name]
            parts[name] = pyabc.RV(marginal.dist.name, *marginal.args, **marginal.kwds)
    return pyabc.Distribution(parts)
