"""Training and sampling against sbi: same data, same run, one thread, CPU seconds, both to their own early stopping.

    python benchmarks/training.py [--seeds 5] [--first 1] [--n 5000] [--nle 1000 5000] [--records file] [--quick]
    python benchmarks/training.py --table --records file       the table of rows that were kept
    python benchmarks/training.py --page                       the table of docs/neural.md, from benchmarks/records

Data: temporal SIR runs from the prior (12 outputs, 11 of them counts). Posterior estimators are compared by the mean
log posterior density of 500 fresh pairs; likelihood estimators by the same over 200 pairs, since a density of counts
means nothing; samplers by the CPU seconds of 1,000 draws. Needs the extras neural and models, and sbi.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import contenders
import numpy as np
from pages import DOCS, write_between
from problems import PROBLEMS, Problem

import thrifty as th

NPE_PAIRS, NLE_PAIRS = 500, 200
RECORDS = Path(__file__).parent / "records" / "training.jsonl"
PAGE = DOCS / "neural.md"
Row = dict[str, Any]  # method, n, seed, estimator, seconds (CPU), log_density (mean of the test pairs)
REFERENCES = {"npe": "sbi MAF", "nle": "sbi NLE MAF"}  # whose time the others are compared with, but for splines
SPLINES = {"thrifty NSF": "sbi NSF", "sbi NSF": "sbi NSF"}


def compare_npe(problem: Problem, n: int, seed: int) -> dict[str, tuple[float, float]]:
    """Train every posterior estimator on one data set; CPU seconds and mean log posterior density of each."""
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


def compare_nle(problem: Problem, n: int, seed: int) -> dict[str, tuple[float, float]]:
    """Train both likelihood estimators on one data set, and our NPE, which also guides the evidences."""
    rng = np.random.default_rng([seed, n])
    runs, test = problem.runs(n, rng), problem.runs(NLE_PAIRS, rng)
    guide, seconds = contenders.timed(lambda: th.NPE(problem.prior).fit(runs, seed=seed))
    found = {"thrifty NPE": (seconds, float(guide.log_density(test.theta, test.x).mean()))}
    fits = {
        "thrifty NLE": contenders.ours_nle(problem, runs, seed),
        "sbi NLE MAF": contenders.sbi_nle(problem, runs, seed, "maf"),
    }
    for label, fit in fits.items():
        values = contenders.posterior_density(fit, problem, guide, test, np.random.default_rng(seed))
        found[label] = fit.seconds, float(np.maximum(values, -100.0).mean())
    return found


COMPARE = {"npe": compare_npe, "nle": compare_nle}


def time_draws(problem: Problem, n: int, seed: int) -> dict[str, float]:
    """CPU seconds of draws from a learned likelihood: 1,000 at one observation, 100 at each of 100."""
    rng = np.random.default_rng([seed, n])
    posterior = th.NLE(problem.prior).fit(problem.runs(n, rng), seed=seed)
    x = problem.runs(100, rng).x
    posterior.sample(10, x[0], seed=0)  # imports are not sampling
    one = contenders.timed(lambda: posterior.sample(1000, x[0], seed=seed))[1]
    return {"1,000 at one": one, "100 at 100": contenders.timed(lambda: posterior.sample_batched(100, x, seed=seed))[1]}


def make_table(rows: list[Row]) -> str:
    """Return a table with mean and spread over seeds, times as shares of sbi's MAF, for splines of its NSF."""
    lines = [
        "| method | runs | estimator | seeds | CPU s | share of sbi's | log density |",
        "|---|---|---|---|---|---|---|",
    ]
    for method, n in sorted({(row["method"], row["n"]) for row in rows}, key=lambda key: (key[0] != "npe", key[1])):
        own = [row for row in rows if (row["method"], row["n"]) == (method, n)]
        for label in dict.fromkeys(row["estimator"] for row in own):
            reference = SPLINES.get(label, REFERENCES[method])
            base = np.mean([row["seconds"] for row in own if row["estimator"] == reference])
            mine = [row for row in own if row["estimator"] == label]
            seconds, values = (np.array([row[key] for row in mine]) for key in ("seconds", "log_density"))
            spread = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""
            lines.append(
                f"| {method.upper()} | {n:,} | {label} | {len(mine)} | {seconds.mean():.1f}"
                f" | {seconds.mean() / base:.2f} | {values.mean():+.3f}{spread} |"
            )
    return "\n".join([*lines, *_pair_methods(rows)])


def _pair_methods(rows: list[Row]) -> list[str]:
    """Return a sentence on what NLE gains over NPE on the same data and pairs, where both were measured."""
    found = []
    for n in sorted({row["n"] for row in rows if row["method"] == "nle"}):
        values = {(r["estimator"], r["seed"]): r["log_density"] for r in rows if (r["method"], r["n"]) == ("nle", n)}
        seeds = [seed for label, seed in values if label == "thrifty NLE" and ("thrifty NPE", seed) in values]
        gain = np.array([values["thrifty NLE", seed] - values["thrifty NPE", seed] for seed in seeds])
        if len(gain) > 1:
            found.append(f"{gain.mean():+.3f} ± {gain.std(ddof=1) / np.sqrt(len(gain)):.3f} at {n:,} runs")
    return ["", f"thrifty's NLE less its NPE, ± standard error over seeds: {', '.join(found)}."] if found else []


def write_page() -> None:
    """Put the table of the records between the marks of docs/neural.md."""
    write_between(PAGE, "training", "training.py", make_table(read_rows(RECORDS)))


def read_rows(path: Path | None) -> list[Row]:
    """Rows that were written."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []


def run_missing(rows: list[Row], wanted: list[tuple[str, int, int]], records: Path | None) -> list[Row]:
    """Measure every (method, n, seed) that has no rows yet, and write them."""
    problem = PROBLEMS["temporal_sir"]()
    done = {(row["method"], row["n"], row["seed"]) for row in rows}
    for method, n, seed in wanted:
        if (method, n, seed) in done:
            continue
        key = {"method": method, "n": n, "seed": seed}
        found = COMPARE[method](problem, n, seed)
        made = [key | {"estimator": e, "seconds": s, "log_density": value} for e, (s, value) in found.items()]
        rows = rows + made
        if records:
            with records.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in made)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=1, help="first seed; settings were chosen on seeds from 100")
    parser.add_argument("--n", nargs="*", type=int, default=[5000], help="runs for posterior estimators")
    parser.add_argument("--nle", nargs="*", type=int, default=[1000, 5000])
    parser.add_argument("--records", type=Path, help="file of rows that are there already, and of new ones")
    parser.add_argument("--table", action="store_true", help="print the table of the records only")
    parser.add_argument("--page", action="store_true", help="write the table of the documentation from the records")
    parser.add_argument("--quick", action="store_true", help="300 runs, one seed")
    given = parser.parse_args()
    if given.page:
        return write_page()
    if given.quick:
        given.seeds, given.n, given.nle = 1, [300], [300]
    records = given.records.resolve() if given.records else None
    rows = read_rows(records)
    if given.table:
        return print(make_table(rows))
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    problem = PROBLEMS["temporal_sir"]()
    th.NPE(problem.prior, training=th.Training(max_epochs=1)).fit(problem.runs(60, np.random.default_rng(0)), seed=0)
    cells = [("npe", n) for n in given.n] + [("nle", n) for n in given.nle]
    wanted = [(method, n, given.first + i) for i in range(given.seeds) for method, n in cells]
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:  # sbi writes logs where it runs
        os.chdir(folder)
        rows = run_missing(rows, wanted, records)
        drawn = time_draws(problem, given.nle[0] if given.nle else given.n[0], given.first)
        os.chdir(home)
    print(make_table(rows))
    print("draws from a likelihood: " + ", ".join(f"{label} {seconds:.2f} s" for label, seconds in drawn.items()))


if __name__ == "__main__":
    main()
