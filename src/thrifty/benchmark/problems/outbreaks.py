"""The paper's three epidemics, in populations that are small enough for an exact posterior.

    homogeneous_sir   final size of 1,000 (the paper: 10,000): probabilities by recursion, one parameter on a grid
    temporal_sir      size, duration and removals by tenths among 200 (1,000): exact likelihood on a grid of 60 × 60
    bernoulli_sir     final size on sparse graphs of 200 (1,000, with a time course whose likelihood is not known)

Runs at one theta differ in cost, since an outbreak may die out: a run is charged the operations that it took.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from thrifty.benchmark.exact_draws import draw_on_grid
from thrifty.benchmark.problem import Problem
from thrifty.models.bernoulli_sir import BernoulliSIR
from thrifty.models.homogeneous_sir import HomogeneousSIR
from thrifty.models.temporal_sir import TemporalSIR
from thrifty.priors import Uniform
from thrifty.types import Array

SEED_BITS = 53  # of a uniform number: two of them seed the random numbers of a run
BETAS = 4_001  # points of the grid of the homogeneous posterior
COARSE = 25  # points a side, over which smooth expected costs are interpolated
GRAPH_RUNS, GRAPH_SEED = 20_000, 18_004  # of the fit of expected operations on graphs
RATIOS, EDGES = 40, 40  # points of the likelihood of a graph's final size; a cubic spline between them


def run_model(model: Any, theta: Array, u: Array, columns: slice = slice(None)) -> tuple[Array, Array]:
    """Run a model of `th.models` at every row, its random numbers seeded by u (n, 2); outputs and operations."""
    words = (u * 2.0**SEED_BITS).astype(np.uint64)
    runs = [model.run(t, np.random.default_rng(w.tolist())) for t, w in zip(theta, words, strict=True)]
    return np.array([run.x[columns] for run in runs]), np.array([run.cost for run in runs])


def model_problem(name: str, model: Any, mean_cost: Callable[[Array], Array], **rest: Any) -> Problem:
    """Make a problem of a model: `mean_cost` gives expected operations (n,), which are scaled to a prior mean of 1."""
    columns = rest.pop("columns", slice(None))
    scale = mean_cost(_halton(model.prior)).mean()

    def charge(theta: Array, u: Array) -> tuple[Array, Array]:
        x, operations = run_model(model, theta, u, columns)
        return x, operations / scale

    return Problem(
        name,
        model.prior,
        2,
        respond=lambda theta, u: charge(theta, u)[0],
        cost=lambda theta: mean_cost(theta) / scale,
        charge=charge,
        **rest,
    )


def _halton(prior: Any, n: int = 4_096) -> Array:
    """Spread points (n, p) evenly over a uniform prior."""
    from scipy.stats import qmc

    return prior.low + (prior.high - prior.low) * qmc.Halton(prior.dim, scramble=False).random(n + 1)[1:]


def homogeneous_sir() -> Problem:
    """The infection rate of an outbreak among 1,000, from its final size."""
    from thrifty.benchmark.problems.outbreak_sizes import size_probabilities

    model = HomogeneousSIR(population=1_000)
    low, high = (float(side[0]) for side in model.prior.bounds)
    betas = np.linspace(low, high, BETAS)
    sizes = np.arange(model.population + 1.0)

    @cache
    def table() -> Array:
        """Size probabilities (n, population + 1) at every tenth rate: they change slowly."""
        return np.array([size_probabilities(beta, model.population) for beta in betas[::10]])

    def mean_cost(theta: Array) -> Array:  # contacts of an infective are beta on average, whatever the others do
        return np.interp(theta[:, 0], betas[::10], table() @ sizes) * (1 + theta[:, 0])

    def log_likelihood(theta: Array, x: Array) -> Array:
        size = np.broadcast_to(x, (len(theta), 1))[:, 0].astype(int)
        return np.log([size_probabilities(b, model.population)[n] for b, n in zip(theta[:, 0], size, strict=True)])

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        log_value = np.log(np.maximum(table()[:, int(x_o[0])], 1e-300))
        inner = betas[1:-1]  # cells around inner points stay inside the prior
        return draw_on_grid(lambda b: np.interp(b, betas[::10], log_value), inner, n, rng)[:, None]

    return model_problem(
        "homogeneous_sir", model, mean_cost, log_likelihood=log_likelihood, draw_posterior=draw, narrow=False,
        is_telling=lambda x: bool(100 <= x[0] < model.population),
    )  # fmt: skip


def temporal_sir() -> Problem:
    """Infection and removal rate of an outbreak among 200, from its size, duration and removals in each tenth of it."""
    from thrifty.benchmark.problems.outbreak_sizes import size_probabilities

    model = TemporalSIR(population=200)
    sizes = np.arange(model.population + 1.0)

    @cache
    def table() -> tuple[Array, Array]:
        log_ratio = np.linspace(np.log(0.1), np.log(10.0), 8 * COARSE)
        found = [size_probabilities(float(r), model.population) @ sizes for r in np.exp(log_ratio)]
        return log_ratio, np.array(found)

    def mean_cost(theta: Array) -> Array:
        return 2 * np.interp(np.log(theta[:, 0] / theta[:, 1]), *table()) - 1

    def log_likelihood(theta: Array, x: Array) -> Array:
        from thrifty.benchmark.problems import temporal_likelihood as exact

        x = np.broadcast_to(x, (len(theta), 12))
        rows = [(t[0], t[1], one[2:].astype(np.int64), one[1]) for t, one in zip(theta, x, strict=True)]
        return np.array([exact.log_likelihood(*row, model.population) for row in rows])

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        from thrifty.benchmark.problems.temporal_likelihood import exact_grid_draws

        return exact_grid_draws(x_o, n, rng, population=model.population)

    return model_problem(
        "temporal_sir", model, mean_cost, log_likelihood=log_likelihood, draw_posterior=draw, narrow=False,
        closed_form=False, is_telling=lambda x: bool(x[0] >= 5),
    )  # fmt: skip


def bernoulli_sir() -> Problem:
    """Three rates of an outbreak on a sparse random graph of 200, from its final size alone."""
    from thrifty.benchmark.problems.outbreak_sizes import graph_size_probabilities

    prior = Uniform([0.1, 0.1, 0.005], [1.0, 1.0, 0.1], names=BernoulliSIR.NAMES)  # type: ignore[arg-type]
    model = BernoulliSIR(population=200, prior=prior, theta_true=(0.5, 0.5, 0.05))  # type: ignore[arg-type]

    @cache
    def table() -> tuple[Array, Array, Array]:
        """Size probabilities (ratios, edges, population + 1)."""
        log_ratio, edge = np.linspace(np.log(0.1), np.log(10.0), RATIOS), np.linspace(0.005, 0.1, EDGES)
        found = [[graph_size_probabilities(float(np.exp(r)), e, model.population) for e in edge] for r in log_ratio]
        return log_ratio, edge, np.array(found)

    def interpolate(theta: Array, values: Array) -> Array:
        from scipy.interpolate import RectBivariateSpline

        log_ratio, edge, _ = table()
        return RectBivariateSpline(log_ratio, edge, values).ev(np.log(theta[:, 0] / theta[:, 1]), theta[:, 2])

    def log_likelihood(theta: Array, x: Array) -> Array:
        size = np.broadcast_to(x, (len(theta), 1))[:, 0].astype(int)
        ratio = theta[:, 0] / theta[:, 1]
        rows = zip(ratio, theta[:, 2], size, strict=True)
        return np.log([graph_size_probabilities(r, e, model.population)[n] for r, e, n in rows])

    def draw(x_o: Array, n: int, rng: np.random.Generator) -> Array:
        """Prior draws accepted in proportion to their likelihood."""
        log_value = np.log(np.maximum(table()[2][:, :, int(x_o[0])], 1e-200))
        top, kept = log_value.max() + 0.05, np.empty((0, 3))  # a spline may pass its points by a little
        while len(kept) < n:
            theta = prior.sample(20_000, rng)
            accepted = np.log(rng.random(len(theta))) < interpolate(theta, log_value) - top
            kept = np.vstack([kept, theta[accepted]])
        return kept[:n]

    return model_problem(
        "bernoulli_sir", model, partial(_graph_cost, _fit_graph_cost(model)), log_likelihood=log_likelihood,
        draw_posterior=draw, narrow=False,
        closed_form=False, columns=slice(0, 1), is_telling=lambda x: bool(5 <= x[0] < model.population),
    )  # fmt: skip


def _fit_graph_cost(model: BernoulliSIR) -> Array:
    """Fit expected operations, which depend on beta/gamma and edge alone, to GRAPH_RUNS runs with a fixed seed."""
    theta = _halton(model.prior, GRAPH_RUNS)
    operations = model.simulate_many(theta, GRAPH_SEED).cost
    return np.asarray(np.linalg.lstsq(_graph_features(theta), operations, rcond=None)[0], dtype=np.float64)


def _graph_cost(slopes: Array, theta: Array) -> Array:
    return np.maximum(_graph_features(theta) @ slopes, 1.0)


def _graph_features(theta: Array) -> Array:
    """Powers (n, 15) up to the fourth of log beta/gamma and edge, both scaled to about ±1."""
    a, b = np.log(theta[:, 0] / theta[:, 1]) / np.log(10), theta[:, 2] / 0.05 - 1
    return np.column_stack([a**i * b**j for i in range(5) for j in range(5 - i)])
