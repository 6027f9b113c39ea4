"""Few runs: default NPE and NLE against sbi's MAF and NSF, on problems with known posteriors.

    python benchmarks/small_n.py [--problems two_moons slcp …] [--n 200 500 1000] [--seeds 3] [--first 1]
                                 [--methods npe nle] [--records file] [--table] [--quick]
    python benchmarks/small_n.py --page        the table of docs/neural.md, from benchmarks/records

Mean log posterior density of the parameters that made fresh outputs (500 pairs, 100 for NLE), its spread over data sets
and seeds, and the CPU seconds of training in one thread. "exact" is the same for the true posterior, over the first 100
pairs alone. The settings were chosen on seeds from 100, and without the problems of `FRESH`; fresh seeds begin at 1,
those of NLE at 11: seeds 1 to 3 had shown where an earlier NLE was behind; with useless outputs at 21, for the same
reason.
Rows are kept in a file, and made only once; those of the last comparison are in `benchmarks/records/small_n.jsonl`.
Needs the extras neural and models, and sbi.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import contenders
import numpy as np
from pages import DOCS, write_between
from problems import FRESH, PROBLEMS, Problem

import thrifty as th

PAIRS = {"npe": 500, "nle": 100}
RECORDS = Path(__file__).parent / "records" / "small_n.jsonl"
PAGE = DOCS / "neural.md"
Row = dict[
    str, Any
]  # problem, n, seed, method, estimator, exact, log_density (mean of the pairs), seconds (CPU), epochs
OURS = "thrifty"
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


def measure(problem: Problem, n: int, seed: int, method: str, contenders_wanted: set[str]) -> list[Row]:
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


@dataclass(frozen=True)
class Cell:
    """The comparison of one method on one problem with n runs, over the seeds that all estimators have.

    Attributes:
        seeds: How many.
        gain: Mean log density of thrifty less that of the better of sbi's, in nats.
        error: Standard error of the gain, from the differences of the seeds.
        spread: Standard deviation over seeds of both: thrifty's, and that of the better of sbi's.
        cpu: CPU seconds of thrifty over those of the better of sbi's.
        gap: What thrifty's lacks to the exact posterior, where that is known.
    """

    seeds: int
    gain: float
    error: float
    spread: tuple[float, float]
    cpu: float
    gap: float | None

    def list_misses(self) -> list[str]:
        """Name the targets that this cell misses."""
        names = {"log density": self.gain < 0, "spread": self.spread[0] > self.spread[1], "CPU": self.cpu > 1}
        return [name for name, is_missed in names.items() if is_missed]


def compare(rows: list[Row], method: str, problem: str, n: int) -> Cell | None:
    """Compare thrifty with the sbi estimator that has the higher mean log density; None where rows are missing."""
    own = [r for r in rows if (r["method"], r["problem"], r["n"]) == (method, problem, n)]
    found = {label: {r["seed"]: r for r in own if r["estimator"] == label} for label in METHODS[method]}
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in found.values())))
    if not seeds:
        return None
    values = {label: np.array([found[label][s]["log_density"] for s in seeds]) for label in found}
    seconds = {label: np.mean([found[label][s]["seconds"] for s in seeds]) for label in found}
    best = max((label for label in found if label != OURS), key=lambda label: values[label].mean())
    spread = tuple(float(values[label].std(ddof=1)) if len(seeds) > 1 else np.nan for label in (OURS, best))
    exact = [found[OURS][s]["exact"] for s in seeds]
    gap = None if exact[0] is None else float(np.mean(exact) - values[OURS].mean())
    gains = values[OURS] - values[best]
    error = float(gains.std(ddof=1) / np.sqrt(len(seeds))) if len(seeds) > 1 else np.nan
    share = float(seconds[OURS] / seconds[best])
    return Cell(len(seeds), float(gains.mean()), error, (spread[0], spread[1]), share, gap)


def make_table(rows: list[Row]) -> str:
    """Return a table of gain and CPU share, a line per method and problem, a column per n; summary and misses."""
    sizes = sorted({r["n"] for r in rows})
    head = " | ".join(f"n = {n:,}" for n in sizes)
    lines = [f"| method | problem, parameters | {head} |", "|---|---|" + "---|" * len(sizes)]
    cells: dict[tuple[str, str, int], Cell] = {}
    for method in METHODS:
        for name in dict.fromkeys(make().name for make in PROBLEMS.values()):
            found = {n: compare(rows, method, name, n) for n in sizes}
            cells |= {(method, name, n): cell for n, cell in found.items() if cell is not None}
            if any(found.values()):
                shown = " | ".join(_show(found[n]) for n in sizes)
                lines.append(f"| {method.upper()} | {name}{' *' if name in _fresh_names() else ''} | {shown} |")
    parts = [*lines, "", *(_summarise(method, cells) for method in METHODS), _list_misses(cells)]
    return "\n".join(parts).rstrip("\n")


def _fresh_names() -> set[str]:
    return {make().name for make in FRESH.values()}


def _show(cell: Cell | None) -> str:
    return "–" if cell is None else f"{_show_gain(cell)}, {cell.cpu:.2f} ({cell.seeds})"


def _show_gain(cell: Cell) -> str:
    return f"{cell.gain:+.2f}" if cell.seeds == 1 else f"{cell.gain:+.2f} ± {cell.error:.2f}"


def _list_misses(cells: dict[tuple[str, str, int], Cell]) -> str:
    """Return a table of the cells that miss a target, worst gain first; empty where none does."""
    missed = {key: cell for key, cell in cells.items() if cell.list_misses()}
    if not missed:
        return ""
    lines = ["| missed | method | problem | runs | gain | spread, sbi's | CPU share |", "|---|---|---|---|---|---|---|"]
    for (method, name, n), cell in sorted(missed.items(), key=lambda item: item[1].gain):
        spread = "–" if cell.seeds == 1 else f"{cell.spread[0]:.3f}, {cell.spread[1]:.3f}"
        what = " and ".join(cell.list_misses())
        row = (what, method.upper(), name, f"{n:,}", _show_gain(cell), spread, f"{cell.cpu:.2f}")
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _summarise(method: str, cells: dict[tuple[str, str, int], Cell]) -> str:
    """Say in how many cells the targets are met; spreads of two or three seeds are compared over all cells together."""
    own = [cell for key, cell in cells.items() if key[0] == method]
    fresh = [cell for key, cell in cells.items() if key[0] == method and key[1] in _fresh_names()]
    if not own:
        return ""
    ahead, cheap = sum(cell.gain >= 0 for cell in own), sum(cell.cpu <= 1 for cell in own)
    behind = sum(cell.seeds > 1 and cell.gain < -2 * cell.error for cell in own)
    good = f"{sum(cell.gain >= 0 for cell in fresh)} of {len(fresh)} of the fresh problems"
    text = (
        f"{method.upper()}: at least as good in {ahead} of {len(own)} cells ({good}), behind by more than two standard"
        f" errors in {behind}; no more CPU in {cheap}"
    )
    spreads = np.array([cell.spread for cell in own if cell.seeds > 1])
    if not len(spreads):
        return text + ".\n"
    ours, theirs = np.sqrt(np.mean(spreads**2, axis=0))
    lower = int(np.sum(spreads[:, 0] <= spreads[:, 1]))
    return (
        f"{text}; spread over seeds {ours:.3f} nat against {theirs:.3f} (root mean square over cells; no larger in"
        f" {lower} of {len(spreads)}).\n"
    )


def write_page() -> None:
    """Put the table of the records between the marks of docs/neural.md."""
    write_between(PAGE, "few runs", "small_n.py", make_table(read_rows(RECORDS)))


def read_rows(path: Path | None) -> list[Row]:
    """Rows that were written."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []


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
    parser.add_argument("--page", action="store_true", help="write the table of the documentation from the records")
    parser.add_argument("--quick", action="store_true", help="one problem, 200 runs, one seed")
    given = parser.parse_args()
    if given.page:
        return write_page()
    if given.quick:
        given.problems, given.n, given.seeds = ["gaussian_1"], [200], 1
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    small = PROBLEMS["gaussian_1"]()  # imports are not training
    th.NPE(small.prior, training=th.Training(max_epochs=1)).fit(small.runs(60, np.random.default_rng(0)), seed=0)
    records = given.records.resolve() if given.records else None
    rows = read_rows(records)
    done = {(r["problem"], r["n"], r["seed"], r["method"], r["estimator"]) for r in rows}
    with tempfile.TemporaryDirectory() as folder:  # sbi writes logs where it runs
        os.chdir(folder)
        for seed in range(given.first, given.first + given.seeds) if not given.table else ():
            for n, method, name in itertools.product(given.n, given.methods, given.problems):
                problem = PROBLEMS[name]()
                left = {e for e in given.estimators if (problem.name, n, seed, method, e) not in done}
                made = measure(problem, n, seed, method, left) if left else []
                rows += made
                if records and made:
                    with records.open("a") as file:
                        file.writelines(json.dumps(row) + "\n" for row in made)
        os.chdir(Path(folder).parent)
    print(make_table(rows))


if __name__ == "__main__":
    main()
