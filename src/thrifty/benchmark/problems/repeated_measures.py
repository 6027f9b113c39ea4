"""The paper's Gamma model: mean and sd of 500 draws, whose posterior is in closed form, on a grid."""

from __future__ import annotations

import numpy as np

from thrifty.benchmark.problem import Problem
from thrifty.benchmark.problems.outbreaks import model_problem
from thrifty.models.gamma import Gamma
from thrifty.types import Array


def gamma_shape() -> Problem:
    """The shape of a Gamma law from mean and sd of 500 draws: a thousandth of the prior."""
    model = Gamma()

    def log_likelihood(theta: Array, x: Array) -> Array:
        x = np.broadcast_to(x, (len(theta), 2))
        if np.ptp(x, axis=0).max() == 0:
            return model.statistics_posterior(x[0]).log_prob(theta)
        rows = zip(theta, x, strict=True)
        return np.array([model.statistics_posterior(one).log_prob(t[None])[0] for t, one in rows])

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        return model.statistics_posterior(x_o).sample(n, rng)

    return model_problem(
        "gamma_shape", model, model.expected_cost, log_likelihood=log_likelihood, draw_posterior=draw, narrow=False
    )
