"""Fit NPE by the paper's own scheme: a pilot for the cost alone, then prior/cost^k, or the paper's mixture of powers.

The pilot is paid for and not trained on, and the mixture is weighted as the paper prints it: each component by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thrifty.benchmark.method import Meter
from thrifty.benchmark.methods.amortised import count_pilots, open_pool
from thrifty.inference.neural.npe import NPE
from thrifty.penalties import Power
from thrifty.proposals import CostAware, Mixture
from thrifty.types import Array, Cost, Prior


def propose_power(k: float) -> Callable[[Prior, Cost], Any]:
    """Make the proposal prior/cost^k."""
    return lambda prior, cost: CostAware(prior, cost, Power(k))


def propose_mixture(prior: Prior, cost: Cost) -> Mixture:
    """Make the paper's mixture of the powers 0, 1/2, 1 and 2."""
    return Mixture(prior, cost, powers=(0, 0.5, 1, 2), scheme="paper")


def fit_paper(propose: Callable[[Prior, Cost], Any]) -> Any:
    """Make the fit of NPE on runs of a proposal alone."""

    def fit(meter: Meter, x_o: Array | None, budget: float, seed: int) -> Any:
        del x_o
        pool, allowed = open_pool(meter, budget, seed)
        pool.run(meter.prior, count_pilots(budget, meter.prior.dim), allowed)
        pool.refit_cost()
        proposal = propose(meter.prior, pool.cost) if pool.cost is not None else CostAware(meter.prior, _flat, Power(0))
        n = max(int((budget - meter.cost) / proposal.expected_cost), 10 * meter.prior.dim)
        draws = proposal.sample(n, seed)
        return NPE(meter.prior).fit(meter.simulate_many(draws, seed, start=len(pool)), seed=seed)

    return fit


def _flat(theta: Array) -> Array:
    return theta[:, 0] * 0.0 + 1.0
