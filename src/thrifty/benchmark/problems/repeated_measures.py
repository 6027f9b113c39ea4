"""The paper's two models of repeated measurements: draws of a Gamma law, and a radio channel.

gamma_shape   mean and sd of 500 draws: the posterior given them in closed form, on a grid
radio         six statistics of 50 channel measurements (201 frequencies, the paper: 801): no likelihood is known; the
              reference is that of a likelihood fitted to 12,000 runs around each posterior, not computed
              yet: the catalogue does not list it
"""

from __future__ import annotations

import numpy as np

from thrifty.benchmark.problem import Problem
from thrifty.benchmark.problems.emulated_likelihood import draw_emulated
from thrifty.benchmark.problems.outbreaks import model_problem
from thrifty.models.gamma import Gamma
from thrifty.models.radio import Radio
from thrifty.priors import Uniform
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


def radio() -> Problem:
    """Gain, reverberation time, arrival rate and noise of a radio channel, from moments of its power over time."""
    model = Radio(points=201)
    low, high = model.prior.bounds
    unit_box = Uniform(np.zeros(4), np.ones(4))

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        """On theta scaled to the unit box, of the three means and the logs of the three standard deviations."""

        def run(unit: Array, rng: np.random.Generator) -> Array:
            seed = int(rng.integers(2**31))
            return _with_log_spread(model.simulate_many(low + (high - low) * unit, seed).x)

        return low + (high - low) * draw_emulated(run, unit_box, _with_log_spread(x_o[None])[0], n, rng)

    return model_problem(
        "radio", model, model.expected_cost, log_likelihood=None, draw_posterior=draw, narrow=False, closed_form=False
    )


def _with_log_spread(x: Array) -> Array:
    return np.column_stack([x[:, :3], np.log(x[:, 3:])])
