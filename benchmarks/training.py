"""Training and sampling against sbi: same data, same run, one thread, CPU seconds, both to their own early stopping.

    python benchmarks/training.py [--seeds 5] [--first 1] [--n 5000] [--nle 1000 5000] [--quick]

Data: temporal SIR runs from the prior (12 outputs, 11 of them counts). Posterior estimators are compared by the mean
log posterior density of 500 fresh pairs; likelihood estimators by the same over 200 pairs, since a density of counts
means nothing; samplers by the CPU seconds of 1,000 draws. Needs the extras neural and models, and sbi.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from typing import Any

import contenders
import numpy as np
from problems import PROBLEMS, Problem

import thrifty as th

NPE_PAIRS, NLE_PAIRS = 500, 200
Row = tuple[float, float]  # CPU seconds, mean log posterior density


def compare_npe(problem: Problem, n: int, seed: int) -> dict[str, Row]:
    """Train every posterior estimator on one data set."""
    rng = np.random.default_rng([seed, n])
    runs, test = problem.runs(n, rng), problem.runs(NPE_PAIRS, rng)
    fits = {
        "thrifty default": contenders.ours_npe(problem, runs, seed),
        "thrifty MAF": contenders.ours_npe(problem, runs, seed, th.MAF()),
        "thrifty NSF": contenders.ours_npe(problem, runs, seed, th.NSF()),
        "sbi MAF": contenders.sbi_npe(problem, runs, seed, "maf"),
        "sbi NSF": contenders.sbi_npe(problem, runs, seed, "nsf"),
    }
    return {label: (fit.seconds, score(fit, test)) for label, fit in fits.items()}


def score(fit: contenders.Fit, test: th.Simulations) -> float:
    """Mean log posterior density of the test pairs."""
    assert fit.density is not None
    return float(np.maximum(fit.density(test.theta, test.x), -100.0).mean())


def compare_nle(problem: Problem, n: int, seed: int) -> dict[str, Row]:
    """Train both likelihood estimators on one data set, and our NPE, which also guides the evidences."""
    rng = np.random.default_rng([seed, n])
    runs, test = problem.runs(n, rng), problem.runs(NLE_PAIRS, rng)
    guide, seconds = contenders.timed(lambda: th.NPE(problem.prior).fit(runs, seed=seed))
    rows = {"thrifty NPE": (seconds, float(guide.log_density(test.theta, test.x).mean()))}
    fits = {
        "thrifty NLE": contenders.ours_nle(problem, runs, seed),
        "sbi NLE MAF": contenders.sbi_nle(problem, runs, seed, "maf"),
    }
    for label, fit in fits.items():
        values = contenders.posterior_density(fit, problem, guide, test, np.random.default_rng(seed))
        rows[label] = fit.seconds, float(np.maximum(values, -100.0).mean())
    return rows


def time_draws(problem: Problem, n: int, seed: int) -> dict[str, float]:
    """CPU seconds of draws from a learned likelihood: 1,000 at one observation, 100 at each of 100."""
    rng = np.random.default_rng([seed, n])
    posterior = th.NLE(problem.prior).fit(problem.runs(n, rng), seed=seed)
    x = problem.runs(100, rng).x
    posterior.sample(10, x[0], seed=0)  # imports are not sampling
    one = contenders.timed(lambda: posterior.sample(1000, x[0], seed=seed))[1]
    return {"1,000 at one": one, "100 at 100": contenders.timed(lambda: posterior.sample_batched(100, x, seed=seed))[1]}


def print_rows(title: str, tables: list[dict[str, Any]], reference: str) -> None:
    """Print mean and spread over seeds, and the times as shares of a reference."""
    print(f"\n{title}, {len(tables)} seeds")
    base = np.mean([table[reference][0] for table in tables])
    for label in tables[0]:
        seconds, values = (np.array([table[label][i] for table in tables]) for i in (0, 1))
        spread = values.std(ddof=1) if len(values) > 1 else np.nan
        share = f"{seconds.mean() / base:.2f} of {reference}"
        print(
            f"{label:18s} {seconds.mean():7.2f} s ({share})   log density {values.mean():+.3f} ({spread:.3f})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=1, help="first seed; settings were chosen on seeds from 100")
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--nle", nargs="*", type=int, default=[1000, 5000])
    parser.add_argument("--quick", action="store_true", help="300 runs, one seed")
    given = parser.parse_args()
    if given.quick:
        given.seeds, given.n, given.nle = 1, 300, [300]
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    problem = PROBLEMS["temporal_sir"]()
    seeds = range(given.first, given.first + given.seeds)
    th.NPE(problem.prior, training=th.Training(max_epochs=1)).fit(problem.runs(60, np.random.default_rng(0)), seed=0)
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:  # sbi writes logs where it runs
        os.chdir(folder)
        print_rows(f"NPE, {given.n} temporal SIR runs", [compare_npe(problem, given.n, s) for s in seeds], "sbi MAF")
        for n in given.nle:
            print_rows(f"NLE, {n} temporal SIR runs", [compare_nle(problem, n, s) for s in seeds], "sbi NLE MAF")
        drawn = time_draws(problem, given.nle[0] if given.nle else given.n, given.first)
        os.chdir(home)
    print("draws from a likelihood: " + ", ".join(f"{label} {seconds:.2f} s" for label, seconds in drawn.items()))


if __name__ == "__main__":
    main()
