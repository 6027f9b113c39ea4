"""The exact likelihood of the temporal SIR against the exponential of its whole generator."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

pytest.importorskip("numba")


def dense(beta: float, gamma: float, counts: np.ndarray, duration: float, population: int) -> float:
    """The same density from all states (infectives, removed) of a small population."""
    states = {(i, r): j for j, (i, r) in enumerate((i, r) for r in range(population + 1)
              for i in range(population + 1 - r))}  # fmt: skip
    rates = np.zeros((len(states), len(states)))
    for (i, r), j in states.items():
        susceptible = population - i - r
        if i and susceptible:
            rates[j, states[i + 1, r]] = beta * i * susceptible / population
        if i:
            rates[j, states[i - 1, r + 1]] = gamma * i
        rates[j, j] = -rates[j].sum()
    step, at = expm(rates * duration / len(counts)), np.zeros(len(states))
    at[states[1, 0]] = 1.0
    removed = np.array([r for _, r in states])
    for done in np.cumsum(counts)[:-1]:
        at = (at @ step) * (removed == done)
    return float(np.log((at @ step)[states[1, counts.sum() - 1]] * gamma))


@pytest.mark.parametrize(
    ("counts", "population"), [((1, 0, 2), 5), ((0, 3, 1, 2), 8), ((1,), 4), ((2, 2, 1, 0, 3), 9), ((0, 0, 1), 6)]
)
def test_likelihood_is_that_of_the_whole_chain(counts, population):
    from thrifty.benchmark.problems.temporal_likelihood import log_likelihood

    for beta, gamma, duration in ((0.9, 0.3, 4.0), (0.4, 0.8, 1.7), (0.2, 0.1, 9.0)):
        args = np.array(counts), duration, population
        exact = dense(beta, gamma, *args)
        assert abs(log_likelihood(beta, gamma, *args) - exact) < 1e-8
        assert abs(log_likelihood(beta, 1.1 * gamma, *args) - exact) > 1e-4, "another rate is told apart (mutant)"
