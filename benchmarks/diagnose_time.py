"""CPU seconds of what follows a fit to 5,000 runs of temporal SIR: checks of every method, answers of NPE.

    python benchmarks/diagnose_time.py [--runs 5000] [--only NLE] [--seed 0] [--records file] [--quick]
    python benchmarks/diagnose_time.py --page      the tables of docs/diagnostics.md and docs/neural.md, from records

`th.diagnose` without a time limit, at most 300 held-out runs and 100 draws at each: within 60 for every method.
Synthetic likelihoods and scoring rules have 20 runs for each of 250 parameters. Answers of NPE: one log density and 20
draws at each of 300 outputs, with the weights in training and after it. Needs the extras neural and models.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pages import DOCS, write_between
from problems import PROBLEMS

import thrifty as th

REPEATS = 20  # runs per parameter of methods that need several
OUTPUTS, DRAWS_AT_EACH = 300, 20
RECORDS = Path(__file__).parent / "records" / "diagnose_time.jsonl"
METHODS: dict[str, Callable[[Any], Any]] = {
    "NPE": th.NPE,
    'NPE, correction="after"': lambda prior: th.NPE(prior, correction="after"),
    "NLE": th.NLE,
    "NRE": th.NRE,
    "Ensemble of NPE": lambda prior: th.Ensemble(th.NPE(prior, network=th.MAF()), members=3),
    "ABC": th.ABC,
    "SyntheticLikelihood": th.SyntheticLikelihood,
    "ScoringRule": th.ScoringRule,
}
WITH_REPEATS = ("SyntheticLikelihood", "ScoringRule")
CORRECTIONS = ("weights", "after")
Row = dict[str, Any]  # what ("diagnose" or "answers"), method, runs, seed, seconds (CPU), and more of each


def make_runs(n: int, m: int, seed: int) -> tuple[Any, th.Simulations, np.ndarray]:
    """Prior, cost-aware runs of n/m parameters with m realisations each, and an observation."""
    problem, rng = PROBLEMS["temporal_sir"](), np.random.default_rng(seed)
    proposal = th.CostAware(problem.prior, lambda theta: 1 + theta[:, 0] / theta[:, 1], th.Power(0.5))
    draws = proposal.sample(n // m, rng)
    x = problem.simulate(np.repeat(draws.theta, m, axis=0), rng)
    x = x if m == 1 else x.reshape(len(draws), m, -1)
    runs = th.Simulations.from_arrays(theta=draws.theta, x=x, m=m, proposal=proposal, names=problem.prior.names)
    return problem.prior, runs, problem.simulate(problem.prior.sample(1, rng), rng)[0]


def measure(name: str, n: int, seed: int = 0) -> tuple[float, th.diagnostics.Diagnosis]:
    """CPU seconds of one diagnosis, and the diagnosis; the fit is not counted."""
    prior, runs, x_o = make_runs(n, REPEATS if name in WITH_REPEATS else 1, seed)
    posterior = METHODS[name](prior).fit(runs, seed=seed)
    began = time.process_time()
    found = th.diagnose(posterior, runs, x_o, prior=prior, time_limit=None)  # a busy machine must leave nothing out
    return time.process_time() - began, found


def measure_answers(correction: Any, n: int, seed: int = 0) -> tuple[float, float]:
    """CPU seconds of log densities and of draws at many outputs, of NPE with this correction."""
    prior, runs, _ = make_runs(n, 1, seed)
    _, test, _ = make_runs(OUTPUTS, 1, seed + 1)
    posterior = th.NPE(prior, correction=correction).fit(runs, seed=seed)
    posterior.sample(10, test.x[0], seed=seed)  # imports are not answers
    began = time.process_time()
    for theta, x in zip(test.theta, test.x, strict=True):
        posterior.log_prob(theta[None], x)
    middle = time.process_time()
    posterior.sample_batched(DRAWS_AT_EACH, test.x, seed=seed)
    return middle - began, time.process_time() - middle


def run_all(names: list[str], corrections: tuple[str, ...], n: int, seed: int) -> list[Row]:
    """Measure each method and each correction: the rows."""
    rows: list[Row] = []
    for name in names:
        seconds, found = measure(name, n, seed)
        pairs = len(found["sbc"].ranks) if "sbc" in {check.name for check in found} else 0
        more = {"pairs": pairs, "notes": list(found.notes)}
        rows.append({"what": "diagnose", "method": name, "runs": n, "seed": seed, "seconds": seconds} | more)
    for correction in corrections:
        densities, draws = measure_answers(correction, n, seed)
        more = {"densities": densities, "draws": draws}
        rows.append({"what": "answers", "method": correction, "runs": n, "seed": seed} | more)
    return rows


def make_table(rows: list[Row]) -> str:
    """The table of `th.diagnose`."""
    lines = ["| method | runs | CPU s | held-out runs | left out |", "|---|---|---|---|---|"]
    for row in (row for row in rows if row["what"] == "diagnose"):
        left_out = "; ".join(note for note in row["notes"] if "time_limit" in note)
        cells = (row["method"], f"{row['runs']:,}", f"{row['seconds']:.0f}", str(row["pairs"]), left_out or "nothing")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def make_answers_table(rows: list[Row]) -> str:
    """The table of answers of NPE under both corrections."""
    head = f"| `correction=` | runs | {OUTPUTS} log densities, CPU s | {OUTPUTS * DRAWS_AT_EACH:,} draws, CPU s |"
    lines = [
        f'| `"{row["method"]}"` | {row["runs"]:,} | {row["densities"]:.2f} | {row["draws"]:.2f} |'
        for row in rows
        if row["what"] == "answers"
    ]
    return "\n".join([head, "|---|---|---|---|", *lines])


def read_rows(path: Path) -> list[Row]:
    """Rows that were written."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_page() -> None:
    """Put the tables of the records into the documentation."""
    rows = read_rows(RECORDS)
    write_between(DOCS / "diagnostics.md", "times", "diagnose_time.py", make_table(rows))
    write_between(DOCS / "neural.md", "answers", "diagnose_time.py", make_answers_table(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--only", default="", help="part of the name of the method; without the answers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--records", type=Path, help="file to append the rows to")
    parser.add_argument("--page", action="store_true", help="write the tables of the documentation from the records")
    parser.add_argument("--quick", action="store_true", help="1,000 runs, three methods")
    given = parser.parse_args()
    if given.page:
        return write_page()
    warnings.simplefilter("ignore")
    names = [name for name in METHODS if given.only in name]
    if given.quick:
        names, given.runs = ["NPE", "ABC", "SyntheticLikelihood"], 1_000
    rows = run_all(names, () if given.only else CORRECTIONS, given.runs, given.seed)
    if given.records:
        with given.records.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    print(make_table(rows))
    if not given.only:
        print("\n" + make_answers_table(rows))


if __name__ == "__main__":
    main()
