"""The default of `th.ABC` with few runs, against posteriors that are known: distance of marginals and coverage.

    python benchmarks/abc_few_runs.py               a quick look: two development seeds
    python benchmarks/abc_few_runs.py --full        fresh seeds, into benchmarks/results/abc_few_runs.json
    python benchmarks/abc_few_runs.py --page        write the table of docs/benchmarks.md from that record

Distance: Wasserstein distance of each marginal from the exact posterior, in its sd (1 = a shift by one sd); mean over
parameters, observations from the model and seeds. Coverage: share of true parameters inside 90 % intervals.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import thrifty as th

ROOT = Path(__file__).parents[1]
RECORD, PAGE = ROOT / "benchmarks" / "results" / "abc_few_runs.json", ROOT / "docs" / "benchmarks.md"
SIZES, OBSERVATIONS = (80, 300, 1_000, 5_000), 5
DEVELOPMENT, FRESH = range(2), range(100, 112)
Sampler = Callable[[np.ndarray, np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Problem:
    """A simulator over arrays, its prior, and 2,000 draws of the exact posterior."""

    prior: Any
    simulate: Sampler
    exact: Sampler


def gaussian(dim: int, useless: int, noise: float) -> Problem:
    """Parameters measured with noise, and outputs that say nothing."""

    def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.hstack([theta + noise * rng.normal(size=theta.shape), rng.normal(size=(len(theta), useless))])

    def exact(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return x[:dim] / (1 + noise**2) + noise / np.sqrt(1 + noise**2) * rng.normal(size=(2000, dim))

    return Problem(th.Normal(np.zeros(dim), np.ones(dim)), simulate, exact)


def on_grid(prior: Any, points: np.ndarray, log_likelihood: Callable[..., np.ndarray], simulate: Sampler) -> Problem:
    """A uniform prior on a grid fine enough to be exact."""

    def exact(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        values = log_likelihood(points, x)
        weights = np.exp(values - values.max())
        return points[rng.choice(len(points), 2000, p=weights / weights.sum())]

    return Problem(prior, simulate, exact)


def bent(theta: np.ndarray) -> np.ndarray:
    """Two outputs that are not linear in the parameters."""
    return np.stack([theta[..., 0] + theta[..., 1] ** 2, theta[..., 0] - theta[..., 1]], axis=-1)


LINE, SIDE = np.linspace(0.0, 4.0, 4001)[:, None], (np.arange(200) + 0.5) / 200
SQUARE = np.stack(np.meshgrid(SIDE, SIDE), axis=-1).reshape(-1, 2)
PROBLEMS: dict[str, Problem] = {
    "2 Gaussian means": gaussian(2, 0, 1.0),
    "6 Gaussian means": gaussian(6, 0, 1.0),
    "20 Gaussian means": gaussian(20, 0, 1.0),
    "1 mean, 9 useless outputs": gaussian(1, 9, 0.5),
    "1 mean, 39 useless outputs": gaussian(1, 39, 0.5),
    "log rate of 3 counts": on_grid(
        th.Uniform(0.0, 4.0), LINE, lambda t, x: (x * t - np.exp(t)).sum(1),
        lambda t, rng: rng.poisson(np.exp(np.repeat(t, 3, axis=1))).astype(float),
    ),
    "two modes": on_grid(
        th.Uniform(-2.0, 2.0), LINE - 2.0, lambda t, x: -12.5 * (x[0] - t[:, 0] ** 2) ** 2,
        lambda t, rng: t**2 + 0.2 * rng.normal(size=t.shape),
    ),
    "2 bounded, bent": on_grid(
        th.Uniform([0.0, 0.0], [1.0, 1.0]), SQUARE, lambda t, x: -50 * ((bent(t) - x) ** 2).sum(1),
        lambda t, rng: bent(t) + 0.1 * rng.normal(size=t.shape),
    ),
}  # fmt: skip
METHODS: dict[str, Callable[[Any], th.ABC]] = {
    "1 % of prior mass": lambda prior: th.ABC(prior, quantile=0.01, adjust="none"),
    "default": th.ABC,
}


def measure(problem: Problem, n: int, seed: int) -> dict[str, list[tuple[float, float]]]:
    """Distance and coverage of each method at some observations from the model."""
    rng = np.random.default_rng([seed, n])
    theta = problem.prior.sample(n, rng)
    runs = th.Simulations.from_arrays(theta=theta, x=problem.simulate(theta, rng))
    truth = problem.prior.sample(OBSERVATIONS, rng)
    observed = problem.simulate(truth, rng)
    found: dict[str, list[tuple[float, float]]] = {label: [] for label in METHODS}
    for true, x_o in zip(truth, observed, strict=True):
        reference = problem.exact(x_o, rng)
        for label, make in METHODS.items():
            post = make(problem.prior).fit(runs).accepted(x_o)
            low, high = post.quantile([0.05, 0.95])
            found[label].append((_distance(post, reference), float(np.mean((true >= low) & (true <= high)))))
    return found


def _distance(post: Any, reference: np.ndarray) -> float:
    levels = (np.arange(500) + 0.5) / 500
    gaps = np.abs(post.quantile(levels) - np.quantile(reference, levels, axis=0)).mean(0)
    return float((gaps / reference.std(0)).mean())


def measure_all(seeds: range) -> list[dict[str, Any]]:
    """One row for each problem and size."""
    rows = []
    for name, problem in PROBLEMS.items():
        for n in SIZES:
            found = [measure(problem, n, seed) for seed in seeds]
            row: dict[str, Any] = {"problem": name, "runs": n, "seeds": len(seeds)}
            for label in METHODS:
                table = np.array([one[label] for one in found])  # (seeds, observations, 2)
                row[label] = [float(v) for v in (*table.mean((0, 1)), table[..., 0].mean(1).std(ddof=1))]
            print(row, flush=True)
            rows.append(row)
    return rows


def make_table(rows: list[dict[str, Any]]) -> str:
    """The table of the documentation."""
    head = ["problem", "runs", *(f"{label}: distance | coverage" for label in METHODS)]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * (2 + 2 * len(METHODS))]
    for row in rows:
        cells = [f"{row[label][0]:.2f} ± {row[label][2]:.2f} | {row[label][1]:.0%}" for label in METHODS]
        lines.append(f"| {row['problem']} | {row['runs']:,} | {' | '.join(cells)} |")
    return "\n".join(lines) + f"\n\n(± over {rows[0]['seeds']} seeds.)"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--page", action="store_true")
    settings = parser.parse_args()
    warnings.simplefilter("ignore", th.ThriftyWarning)
    if settings.page:
        pattern = r"(<!-- few runs: made by benchmarks/abc_few_runs.py -->\n).*?(<!-- end of few runs -->)"
        table = make_table(json.loads(RECORD.read_text()))
        PAGE.write_text(
            re.sub(pattern, lambda found: found[1] + table + "\n" + found[2], PAGE.read_text(), flags=re.DOTALL)
        )
        return
    rows = measure_all(FRESH if settings.full else DEVELOPMENT)
    print(make_table(rows))
    if settings.full:
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
