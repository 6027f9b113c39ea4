"""NLE of counts and other tied outputs: every network against the exact posterior, and the default without cells.

    python benchmarks/tied_outputs.py [--seeds 3] [--first 1] [--records file] [--quick]
    python benchmarks/tied_outputs.py --page      the table of docs/neural.md, from benchmarks/records

The problem is that of tests/inference/neural/test_counts.py: two parameters, eight tied outputs, 1,500 runs. Mean
Kullback-Leibler divergence from the exact posterior at 60 fresh outputs, beside the loss of an exact posterior that
knows seven of the eight outputs, and the CPU seconds of training in one thread. Needs the extra neural.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import contenders
import numpy as np
from pages import DOCS, write_between

import thrifty as th
from thrifty.inference.neural import standardise

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "inference" / "neural"))
import test_counts as problem

RUNS, PAIRS = 1_500, 60
RECORDS = Path(__file__).parent / "records" / "tied_outputs.jsonl"
PAGE = DOCS / "neural.md"
BOUND, DEFAULT = "exact, without one of the outputs", "`th.AutoregressiveMixture()`"
NETWORKS: dict[str, Any] = {
    DEFAULT: th.AutoregressiveMixture(),
    "`th.NSF(transforms=1, hidden=(32, 32))`": th.NSF(transforms=1, hidden=(32, 32)),
    "`th.MAF()`": th.MAF(),
    "`th.MixtureDensity(4)`": th.MixtureDensity(4),
}
Row = dict[str, Any]  # network, cells (bool), seed, divergence (nats, mean of the outputs), seconds (CPU)


def measure(seed: int, networks: list[str]) -> list[Row]:
    """Fit every network to one table with cells, and the default without them."""
    runs = problem.table(RUNS, np.random.default_rng([seed, RUNS]))
    rows = [
        {"network": BOUND, "cells": True, "seed": seed, "divergence": problem.loss_of_an_output(seed), "seconds": 0}
    ]
    for label, cells in [(label, True) for label in networks] + [(DEFAULT, False)]:
        method = th.NLE(problem.PRIOR, network=NETWORKS[label])
        found = standardise.Cells.of if cells else lambda x, log_weights: None
        with mock.patch.object(standardise.Cells, "of", found):
            posterior, seconds = contenders.timed(lambda fit=method.fit: fit(runs, seed=seed))
        divergence = float(problem.distances(posterior, seed, pairs=PAIRS).mean())
        rows.append({"network": label, "cells": cells, "seed": seed, "divergence": divergence, "seconds": seconds})
    return rows


def make_table(rows: list[Row]) -> str:
    """Return a table with a line per network: mean divergence and its spread over seeds, and CPU seconds."""
    lines = ["| network | seeds | nats from the exact posterior | CPU s |", "|---|---|---|---|"]
    for label, cells in dict.fromkeys((row["network"], row["cells"]) for row in rows):
        own = [row for row in rows if (row["network"], row["cells"]) == (label, cells)]
        values, seconds = (np.array([row[key] for row in own]) for key in ("divergence", "seconds"))
        spread = f" ± {values.std(ddof=1):.2f}" if len(own) > 1 else ""
        shown = "–" if label == BOUND else f"{seconds.mean():.1f}"
        name = label if cells else f"{label}, without cells"
        lines.append(f"| {name} | {len(own)} | {values.mean():.2f}{spread} | {shown} |")
    return "\n".join(lines)


def read_rows(path: Path) -> list[Row]:
    """Rows that were written."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--records", type=Path, help="file to append the rows to")
    parser.add_argument("--page", action="store_true", help="write the table of the documentation from the records")
    parser.add_argument("--quick", action="store_true", help="one seed, two networks")
    given = parser.parse_args()
    if given.page:
        return write_between(PAGE, "ties", "tied_outputs.py", make_table(read_rows(RECORDS)))
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows: list[Row] = []
    for seed in range(given.first, given.first + (1 if given.quick else given.seeds)):
        made = measure(seed, [DEFAULT, "`th.MixtureDensity(4)`"] if given.quick else list(NETWORKS))
        rows += made
        if given.records:
            with given.records.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in made)
    print(make_table(rows))


if __name__ == "__main__":
    main()
