"""A model choice with a category, a whole number and a number, whose posterior is known.

    model m in {narrow, wide},  P = 0.4, 0.6      count k in {1, 2, 3, 4}      shift a ~ N(0, 1)
    x_1 ~ N(a, 0.5²) if narrow, N(1.5 + a/2, 1) if wide          x_2 ~ N(k + m, 0.8²)

Wide runs cost ten times as much, and the cost grows with k.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

import thrifty as th
from thrifty.types import Array

PRIOR = th.Independent(
    {
        "model": th.Categorical([0.4, 0.6], ["narrow", "wide"]),
        "count": th.Integers(1, 4),
        "shift": th.Normal(0.0, 1.0),
    }
)
START, SLOPE, SD = np.array([0.0, 1.5]), np.array([1.0, 0.5]), np.array([0.5, 1.0])  # of x_1, by model
COUNT_SD = 0.8


def simulate(theta: Array, rng: np.random.Generator) -> Array:
    """Draw x (n, 2)."""
    m, noise = theta[:, 0].astype(int), rng.normal(size=(len(theta), 2))
    first = START[m] + SLOPE[m] * theta[:, 2] + SD[m] * noise[:, 0]
    return np.column_stack([first, theta[:, 1] + theta[:, 0] + COUNT_SD * noise[:, 1]])


def measure_cost(theta: Array) -> Array:
    """Expected cost (n,)."""
    return np.where(theta[:, 0] == 1, 10.0, 1.0) * theta[:, 1]


def make_table(n: int, seed: int, penalty: float = 0.5) -> th.Simulations:
    """Simulate n cost-aware draws."""
    rng = np.random.default_rng(seed)
    draws = th.CostAware(PRIOR, measure_cost, th.Power(penalty)).sample(n, rng)
    return th.Simulations.from_arrays(theta=draws.theta, x=simulate(draws.theta, rng), proposal=draws.proposal)


def exact_states(x_o: Array) -> Array:
    """Posterior probability (2, 4) of each model and count."""
    first = stats.norm.pdf(x_o[0], START, np.hypot(SLOPE, SD))
    counts = np.arange(1, 5)
    second = stats.norm.pdf(x_o[1], counts[None] + np.arange(2)[:, None], COUNT_SD)
    joint = np.array([0.4, 0.6])[:, None] * first[:, None] * second
    return joint / joint.sum()


def exact_shift(x_o: Array) -> tuple[Array, Array]:
    """Posterior mean and sd (2,) of the shift, given each model."""
    precision = 1 + (SLOPE / SD) ** 2
    return SLOPE * (x_o[0] - START) / SD**2 / precision, 1 / np.sqrt(precision)


def summarise(draws: Array) -> Array:
    """P(wide), mean count, P(count = 2), mean shift: the figures that are compared (4,)."""
    return np.array([draws[:, 0].mean(), draws[:, 1].mean(), (draws[:, 1] == 2).mean(), draws[:, 2].mean()])


def exact_figures(x_o: Array) -> Array:
    """Return the same for the exact posterior (4,)."""
    states = exact_states(x_o)
    counts = states.sum(0)
    return np.array([states[1].sum(), counts @ np.arange(1, 5), counts[1], states.sum(1) @ exact_shift(x_o)[0]])
