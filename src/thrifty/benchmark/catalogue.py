"""List the problems of the benchmark with their reference draws.

Reference draws of problems without a closed form come with the package, in `references`, since a sampler's chains
differ between processors; `thrifty benchmark --references` computes them again. Closed forms are drawn when asked
for, with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np

from thrifty.benchmark.exact_draws import relative_volume
from thrifty.benchmark.problem import PLACES, Problem
from thrifty.errors import ConfigError
from thrifty.types import Array

# problem -> module of `problems` that makes it, in the order in which pages list them
_HOME = {
    "gamma_shape": "repeated_measures",
    "homogeneous_sir": "outbreaks",
    "temporal_sir": "outbreaks",
    "bernoulli_sir": "outbreaks",
    "radio": "radio_channel",
    "lotka_volterra": "dynamics",
    "epidemic_ode": "dynamics",
    "slcp": "multimodal",
    "two_moons": "multimodal",
    "squares": "multimodal",
    "gaussian_2": "linear",
    "gaussian_corner": "linear",
    "gaussian_8": "linear",
    "gaussian_10": "linear",
    "useless": "linear",
    "bernoulli_glm": "regressions",
    "poisson_regression": "regressions",
    "counts": "conjugate",
    "waiting": "conjugate",
    "shares": "conjugate",
}
PROBLEMS = tuple(_HOME)
FOLDER = Path(__file__).resolve().parent / "references"
REFERENCE_SEED = 18_003
REFERENCE_DRAWS = 2_000  # at each observation, equally weighted
PARTICLES = 4_000  # of a sampler; every second one is kept
NARROW_VOLUME = 1e-3  # of a narrow posterior, over the prior's


def check_problem_name(name: str) -> None:
    """Refuse a name that no problem has."""
    if name not in _HOME:
        raise ConfigError(f"no problem {name!r}", code="bad-name", fix=f"one of {', '.join(PROBLEMS)}")


@cache
def find_problem(name: str) -> Problem:
    """Make the problem of this name.

    Example:
        >>> find_problem("waiting").names
        ('rate',)
    """
    check_problem_name(name)
    make: Callable[[], Problem] = getattr(import_module(f"thrifty.benchmark.problems.{_HOME[name]}"), name)
    return make()


@cache
def read_reference(name: str, place: str) -> Array:
    """Return equally weighted draws (REFERENCE_DRAWS, p) of the exact posterior at a place."""
    if find_problem(name).closed_form:
        return draw_reference(name, place, REFERENCE_SEED, REFERENCE_DRAWS)
    path = FOLDER / f"{name}.npz"
    if not path.exists():
        raise ConfigError(
            f"the reference draws {path.name} are missing",
            code="bad-file",
            fix=f"thrifty benchmark --references --problems {name} computes them",
        )
    with np.load(path) as kept:
        return kept[place].astype(np.float64)


def draw_reference(name: str, place: str, seed: int, n: int) -> Array:
    """Draw (n, p) of the exact posterior, again."""
    return draw_exact(find_problem(name), place, seed, n)


def draw_exact(problem: Problem, place: str, seed: int, n: int) -> Array:
    """Draw (n, p) of the exact posterior of a problem, which need not be one of the list."""
    rng = np.random.default_rng([seed, list(PLACES).index(place)])
    if problem.closed_form:
        return problem.draw_posterior(problem.x_o(place), n, rng)
    drawn = problem.draw_posterior(problem.x_o(place), max(PARTICLES, n), rng)
    return drawn[rng.permutation(len(drawn))[:n]]  # copies of one particle lie side by side


def measure_disagreement(name: str, place: str) -> tuple[float, float]:
    """Compare the reference with draws of another seed: largest difference of means, and of log standard deviations.

    Both are in standard errors of REFERENCE_DRAWS independent draws.
    """
    a, b = read_reference(name, place), draw_reference(name, place, REFERENCE_SEED + 1, REFERENCE_DRAWS)
    if find_problem(name).modes > 1:  # signs are drawn, not found
        a, b = np.abs(a), np.abs(b)
    means = np.abs(a.mean(0) - b.mean(0)) / b.std(0) * np.sqrt(len(b) / 2)
    fourth = ((b - b.mean(0)) ** 4).mean(0) / b.var(0) ** 2
    spreads = np.abs(np.log(a.std(0) / b.std(0))) / np.sqrt((fourth - 1) / (2 * len(b)))
    return float(means.max()), float(spreads.max())


def make_reference(name: str, folder: Path = FOLDER) -> Path:
    """Compute the reference draws of one problem and keep them."""
    drawn = {place: draw_reference(name, place, REFERENCE_SEED, REFERENCE_DRAWS) for place in PLACES}
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.npz"
    np.savez_compressed(path, **{place: draws.astype(np.float32) for place, draws in drawn.items()})  # type: ignore[arg-type]
    return path


@cache
def measure_volume(name: str, place: str) -> float:
    """Volume of the posterior over the prior's."""
    prior = find_problem(name).prior.sample(REFERENCE_DRAWS, np.random.default_rng(4))
    return relative_volume(read_reference(name, place), prior)


def describe(name: str) -> dict[str, float | str]:
    """Describe a problem: sizes, cost range, what could be saved, and volumes of the posteriors.

    `costliest_tenth` is the share of the prior's cost that its costliest tenth takes: beyond the expensive observation.
    """
    made = find_problem(name)
    cost = made.cost(made.prior.sample(20_000, np.random.default_rng(3)))
    low, high = np.quantile(cost, [0.01, 0.99])
    volumes = [measure_volume(name, place) for place in PLACES]
    return {
        "parameters": made.prior.dim,
        "outputs": len(made.x_o("middle")),
        "modes": made.modes,
        "cost_range": float(high / low),
        "costliest_tenth": float(np.sort(cost)[-len(cost) // 10 :].sum() / cost.sum()),
        "ceiling": float(cost.mean() / np.sqrt(cost).mean() ** 2),
        "smallest_volume": min(volumes),
        "largest_volume": max(volumes),
        "reference": "closed form" if made.closed_form else "sampler",
    }
