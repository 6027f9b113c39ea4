"""How often data of the model are called unusual or the model wrong, and how often data of another model are.

    python benchmarks/model_check.py               a quick look: 10 development seeds
    python benchmarks/model_check.py --full        fresh seeds, into benchmarks/results/model_check.json
    python benchmarks/model_check.py --page        write the table of docs/diagnostics.md from that record

The linear Gaussian model of benchmarks/verdicts.py. Wrong data: one output 8 sd off, or all three times as large.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

import thrifty as th

sys.path.insert(0, str(Path(__file__).parent))
from verdicts import NOISE, PAGE, RECORDS, TILT, observe, simulate

RECORD = RECORDS.with_name("model_check.json")
DIMS, SIZES, POWER_SHARE = (2, 6, 20), (300, 3_000), 5  # a fifth of the seeds is enough for large shares
OUTPUT_SD = float(np.sqrt(1 + NOISE**2))
WRONG = {"one output 8 sd off": lambda x: x + 8 * OUTPUT_SD * np.eye(len(x))[0], "3 times as large": lambda x: 3 * x}


def measure(dim: int, n: int, tilt: float, seeds: range) -> dict[str, Any]:
    """Shares over the seeds."""
    unusual, wrong, found = [], [], {label: [] for label in WRONG}
    for seed in seeds:
        rng = np.random.default_rng([seed, dim, n, 1])
        runs = simulate(n, dim, tilt, rng)
        x_o = observe(rng.normal(size=(1, dim)), rng)[0]
        check = th.diagnostics.misspecification(runs, x_o)
        unusual.append(check.verdict != "trust")
        wrong.append("may be wrong" in check.reason)
        if seed % POWER_SHARE == 0:
            for label, change in WRONG.items():
                found[label].append(th.diagnostics.misspecification(runs, change(x_o)).verdict != "trust")
    shares = {label: float(np.mean(values)) for label, values in found.items()}
    row = {"parameters": dim, "runs": n, "cost_aware": tilt > 0, "seeds": len(seeds)}
    return row | {"unusual": float(np.mean(unusual)), "wrong": float(np.mean(wrong)), **shares}


def make_table(rows: list[dict[str, Any]]) -> str:
    """The table of the documentation."""
    head = ["p", "runs", "draws", "called unusual", "model called wrong", *(f"{label}: found" for label in WRONG)]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        shares = [row["unusual"], row["wrong"], *(row[label] for label in WRONG)]
        cells = [row["parameters"], f"{row['runs']:,}", "cost-aware" if row["cost_aware"] else "plain"]
        lines.append(f"| {' | '.join(map(str, cells))} | {' | '.join(f'{share:.1%}' for share in shares)} |")
    return "\n".join(lines) + f"\n\n({rows[0]['seeds']} seeds; a {POWER_SHARE}th of them for wrong data.)"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--page", action="store_true")
    settings = parser.parse_args()
    if settings.page:
        pattern = r"(<!-- model check: made by benchmarks/model_check.py -->\n).*?(<!-- end of model check -->)"
        table = make_table(json.loads(RECORD.read_text()))
        PAGE.write_text(
            re.sub(pattern, lambda found: found[1] + table + "\n" + found[2], PAGE.read_text(), flags=re.DOTALL)
        )
        return
    seeds = range(20_000, 20_200) if settings.full else range(10)
    rows = [measure(dim, n, tilt, seeds) for dim in DIMS for n in SIZES for tilt in (0.0, TILT)]
    print(make_table(rows))
    if settings.full:
        RECORD.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
