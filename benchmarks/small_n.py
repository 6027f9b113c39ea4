"""Few runs: default NPE and NLE against sbi's MAF and NSF, on problems with known posteriors.

    python benchmarks/small_n.py [--problems two_moons slcp …] [--n 200 500 1000] [--seeds 3] [--first 1]
                                 [--methods npe nle] [--records file] [--table] [--quick]

Mean log posterior density of the parameters that made fresh outputs (500 pairs, 100 for NLE), its spread over data sets
and seeds, and the CPU seconds of training in one thread. "exact" is the same for the true posterior, over the first 100
pairs alone. The settings were chosen on seeds from 100; fresh ones begin at 1. Rows are kept in a file, and made only
once; those of the last comparison are in `benchmarks/records/small_n.jsonl`.
Needs the extras neural and models, and sbi.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import contenders
import numpy as np
from problems import PROBLEMS, Problem

import thrifty as th

PAIRS = {"npe": 500, "nle": 100}
METHODS: dict[str, dict[str, Callable[..., contenders.Fit]]] = {
    "npe": {
        "thrifty": contenders.ours_npe,
        "sbi maf": lambda *given: contenders.sbi_npe(*given, "maf"),
        "sbi nsf": lambda *given: contenders.sbi_npe(*given, "nsf"),
    },
    "nle": {
        "thrifty": contenders.ours_nle,
        "sbi maf": lambda *given: contenders.sbi_nle(*given, "maf"),
        "sbi nsf": lambda *given: contenders.sbi_nle(*given, "nsf"),
    },
}


def measure(problem: Problem, n: int, seed: int, method: str, contenders_wanted: set[str]) -> list[dict[str, Any]]:
    """Fit every estimator to one data set and judge it by fresh pairs."""
    rng = np.random.default_rng([seed, n])
    runs, test = problem.runs(n, rng), problem.runs(PAIRS[method], rng)
    exact = None if problem.exact is None else float(problem.exact(test.theta[:100], test.x[:100]).mean())
    guide = th.NPE(problem.prior).fit(runs, seed=seed) if method == "nle" else None
    rows = []
    for label in (label for label in METHODS[method] if label in contenders_wanted):
        fit = METHODS[method][label](problem, runs, seed)
        if guide is None:
            assert fit.density is not None
            values = fit.density(test.theta, test.x)
        else:
            values = contenders.posterior_density(fit, problem, guide, test, np.random.default_rng(seed))
        score = float(np.mean(np.maximum(values, -100.0)))  # one lost parameter must not be the whole figure
        row = {"problem": problem.name, "n": n, "seed": seed, "method": method, "estimator": label, "exact": exact}
        rows.append(row | {"log_density": score, "seconds": fit.seconds, "epochs": fit.epochs})
    return rows


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print one line per problem, n and method, and how often thrifty is ahead of the better of sbi's."""
    keys = dict.fromkeys((row["method"], row["problem"], row["n"]) for row in rows)
    ahead = steady = faster = total = 0
    for method, problem, n in sorted(keys):
        cells, figures = [], {}
        for label in METHODS[method]:
            mine = [
                r for r in rows if (r["method"], r["problem"], r["n"], r["estimator"]) == (method, problem, n, label)
            ]
            if not mine:
                continue
            values, seconds = np.array([r["log_density"] for r in mine]), float(np.mean([r["seconds"] for r in mine]))
            spread = float(values.std(ddof=1)) if len(values) > 1 else np.nan
            figures[label] = float(values.mean()), spread, seconds
            cells.append(f"{label} {values.mean():+7.3f} ({spread:.3f}) {seconds:6.1f} s")
        exact = [r["exact"] for r in rows if (r["method"], r["problem"], r["n"]) == (method, problem, n)]
        ceiling = "" if exact[0] is None else f"  exact {np.mean(exact):+.3f}"
        print(f"{method}  {problem:20s} n = {n:5d}  " + "   ".join(cells) + ceiling)
        others = [figure for label, figure in figures.items() if label != "thrifty"]
        if "thrifty" in figures and others:
            best, own = max(others), figures["thrifty"]
            total += 1
            ahead, steady, faster = (
                ahead + (own[0] >= best[0]),
                steady + (own[1] <= best[1]),
                faster + (own[2] <= best[2]),
            )
    print(
        f"of {total}: at least as good as the better of sbi's {ahead}, spread no larger {steady}, no more CPU {faster}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--n", nargs="*", type=int, default=[200, 500, 1000, 3000])
    parser.add_argument("--methods", nargs="*", default=["npe", "nle"], choices=["npe", "nle"])
    parser.add_argument("--estimators", nargs="*", default=["thrifty", "sbi maf", "sbi nsf"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=1, help="first seed; settings were chosen on seeds from 100")
    parser.add_argument("--records", type=Path, help="file of rows that are there already, and of new ones")
    parser.add_argument("--table", action="store_true", help="print the table of the records only")
    parser.add_argument("--quick", action="store_true", help="one problem, 200 runs, one seed")
    given = parser.parse_args()
    if given.quick:
        given.problems, given.n, given.seeds = ["gaussian_1"], [200], 1
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    small = PROBLEMS["gaussian_1"]()  # imports are not training
    th.NPE(small.prior, training=th.Training(max_epochs=1)).fit(small.runs(60, np.random.default_rng(0)), seed=0)
    records = given.records.resolve() if given.records else None
    rows = [json.loads(line) for line in records.read_text().splitlines()] if records and records.exists() else []
    done = {(r["problem"], r["n"], r["seed"], r["method"], r["estimator"]) for r in rows}
    with tempfile.TemporaryDirectory() as folder:  # sbi writes logs where it runs
        os.chdir(folder)
        for seed in range(given.first, given.first + given.seeds) if not given.table else ():
            for method, n, name in ((m, n, name) for m in given.methods for n in given.n for name in given.problems):
                problem = PROBLEMS[name]()
                left = {e for e in given.estimators if (problem.name, n, seed, method, e) not in done}
                made = measure(problem, n, seed, method, left) if left else []
                rows += made
                if records and made:
                    with records.open("a") as file:
                        file.writelines(json.dumps(row) + "\n" for row in made)
        os.chdir(Path(folder).parent)
    print_table(rows)


if __name__ == "__main__":
    main()
