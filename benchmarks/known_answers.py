"""Every piece of inference against a known answer, over seeds, with a mutant that must be worse.

    python benchmarks/known_answers.py [1 4 10] [--seeds 3] [--records file] [--quick]
    python benchmarks/known_answers.py --table      the table of benchmarks/records/answers.jsonl
    python benchmarks/known_answers.py --page       the same into docs/benchmarks.md

The cases are in `known_cases.py`: evidence, correction, flow matching, embeddings, device, conditionals, discrete
parameters, failures, robustness, samplers. The error is ours less the known answer: mean and standard error over
seeds. Rows are kept in a file, and made only once. Needs the extra neural, and pytest for the models of the tests.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

RECORDS = Path(__file__).parent / "records" / "answers.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
MARKS = "<!-- known answers: made by benchmarks/known_answers.py -->\n", "<!-- end of known answers -->"
Record = dict[str, Any]  # piece, seed, case, measure, known, ours, mutant


def read_rows(path: Path) -> list[Record]:
    """Rows that were written."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def make_table(rows: list[Record]) -> str:
    """Return a table with one line for each case and measure: known answer, ours, its error, the mutant's."""
    lines = [
        "| piece | case | measure | known | ours | error | mutant's error | seeds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for piece in sorted({row["piece"] for row in rows}, key=lambda piece: int(piece.split()[0])):
        for case, measure in dict.fromkeys((r["case"], r["measure"]) for r in rows if r["piece"] == piece):
            mine = [r for r in rows if (r["piece"], r["case"], r["measure"]) == (piece, case, measure)]
            known, ours = (np.array([r[key] for r in mine]) for key in ("known", "ours"))
            wrong = [r["mutant"] - r["known"] for r in mine if r["mutant"] is not None]
            mutant = f"{np.mean(wrong):+.3f}" if wrong else "–"
            figures = f"{known.mean():.3f} | {ours.mean():.3f} | {format_error(ours - known)} | {mutant} | {len(mine)}"
            lines.append(f"| {piece} | {case} | {measure} | {figures} |")
    return "\n".join(lines)


def format_error(errors: np.ndarray) -> str:
    """Write the mean of errors (seeds,) with its standard error."""
    se = f" ± {errors.std(ddof=1) / np.sqrt(len(errors)):.3f}" if len(errors) > 1 else ""
    return f"{errors.mean():+.3f}{se}"


def write_page() -> None:
    """Put the table of the records between the marks of docs/benchmarks.md."""
    page, table = PAGE.read_text(), make_table(read_rows(RECORDS))
    pattern = re.escape(MARKS[0]) + ".*?" + re.escape(MARKS[1])
    PAGE.write_text(re.sub(pattern, lambda _: f"{MARKS[0]}{table}\n{MARKS[1]}", page, flags=re.DOTALL))


def measure(piece: str, seed: int, size: float) -> list[Record]:
    """Run the cases of one piece with one seed; tell the CPU seconds."""
    from known_cases import CASES

    begun = time.process_time()
    made = [{"piece": piece, "seed": seed, **row._asdict()} for row in CASES[piece](seed, size)]
    print(f"{piece}, seed {seed}: {time.process_time() - begun:.0f} CPU s", flush=True)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pieces", nargs="*", help="numbers of pieces; all of them if none is given")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--records", type=Path, help="file of rows that are there already, and of new ones")
    parser.add_argument("--table", action="store_true", help="print the table of the records only")
    parser.add_argument("--page", action="store_true", help="write the table of the documentation from the records")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the runs, one seed: figures mean nothing")
    given = parser.parse_args()
    if given.page:
        return write_page()
    if given.table:
        return print(make_table(read_rows(given.records or RECORDS)))
    from known_cases import CASES

    warnings.simplefilter("ignore")
    wanted = [piece for piece in CASES if not given.pieces or piece.split()[0] in given.pieces]
    rows = read_rows(given.records) if given.records else []
    done = {(row["piece"], row["seed"]) for row in rows}
    for seed in range(1 if given.quick else given.seeds):
        for piece in wanted:
            if (piece, seed) in done:
                continue
            made = measure(piece, seed, 0.05 if given.quick else 1.0)
            rows += made
            if given.records:
                with given.records.open("a") as file:
                    file.writelines(json.dumps(row) + "\n" for row in made)
    print(make_table(rows))


if __name__ == "__main__":
    main()
