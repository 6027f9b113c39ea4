"""Write three sections of `docs/benchmarks.md`, and their figures, from records; every number there is theirs.

    python tools/benchmarks_page.py

The section on problems comes from `benchmarks/records/benchmark/records.jsonl` (made by `thrifty benchmark`), that on
real simulators from `benchmarks/records/equal_budgets.jsonl` (made by `benchmarks/equal_budgets.py`), and the summary
from both.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benchmark_figures import draw_problem
from benchmark_hours import Hours, estimate_hours
from peers_page import DEVELOPED, write_costs, write_losses, write_pairs, write_part_of_penalty, write_verdict
from real_simulators_page import Lines, write_examples, write_savings, write_table

from thrifty.benchmark import METHODS, PLACES, PROBLEMS, Record, describe, read_records
from thrifty.benchmark.benchmark_summary import curve
from thrifty.benchmark.records import pick, read_whole_lines
from thrifty.benchmark.tasks import BUDGETS, CURVES, DEFAULT_PROBLEMS, SEEDS

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks" / "records" / "benchmark" / "records.jsonl"
EXAMPLES = ROOT / "benchmarks" / "records" / "equal_budgets.jsonl"
RADIO = ROOT / "benchmarks" / "records" / "radio_law.json"  # made by tools/fit_radio.py
PAGE = ROOT / "docs" / "benchmarks.md"
FIGURES = ROOT / "docs" / "figures" / "benchmark"


def write_problems(records: Sequence[Record]) -> str:
    """Write the section on problems with known posteriors."""
    problems = [name for name in PROBLEMS if pick(records, problem=name)]
    methods = [name for name in METHODS if pick(records, method=name)]
    parts = [
        _head(records, problems, methods),
        "### Problems",
        _problem_table(problems),
        "### Cost for the same accuracy as plain NPE",
        write_costs(records, problems),
        "### Cost-aware beside plain",
        write_pairs(records, problems),
        "### Where a peer is ahead",
        write_losses(records, problems),
        "### CPU seconds of training beside simulation",
        _seconds_table(records, methods),
        "### CPU hours of the whole set",
        _hours_table(records, methods),
        "### Problem by problem",
        "Means over seeds at each place, then over the places of the row. An amortised method has all three from one"
        " fit; another method has one for each seed. Where the places of two rows differ, so do their observations:"
        " compare them in the tables above, which use shared places.",
        *(_problem(records, name, methods) for name in problems),
        _no_answers(records),
        _failures(records),
    ]
    return "\n\n".join(part for part in parts if part)


def _head(records: Sequence[Record], problems: Sequence[str], methods: Sequence[str]) -> str:
    dates, commits, machines, versions = (
        sorted({getattr(r, key) for r in records}) for key in ("date", "commit", "machine", "version")
    )
    libraries = sorted({r.library for r in records} - {""})
    pairs = {(r.problem, r.method) for r in records}
    seeds = sorted({len({r.seed for r in pick(records, problem=p, method=m)}) for p, m in pairs})
    budgets = _listed(sorted({r.budget for r in records}))
    return (
        "Each method spends a budget and gives draws at an observation. A run of the prior costs 1 on average: a budget"
        " of 1,000 is the cost of 1,000 prior runs. C2ST is the accuracy of a classifier that tells 1,000 draws from"
        " the exact posterior; 0.5 is perfect. [Benchmark a method](howto/benchmark.md) adds yours.\n\n"
        f"So far there are {len(records):,} records: {len(problems)} of {len(PROBLEMS)} problems, {len(methods)} of"
        f" {len(METHODS)} methods, {len(pairs)} pairs of them, {_listed(seeds)} of {SEEDS} seeds for a pair,"
        f" budgets {budgets}. One seed has no error, and is no evidence by itself. The command `thrifty benchmark"
        f" --workers 2 --out benchmarks/records/benchmark` continues with a set of {len(DEFAULT_PROBLEMS)} problems,"
        f" {SEEDS} seeds and the budgets {_listed(BUDGETS)}, of which {_listed(_list_single())} have the middle one"
        " only; `--problems all` adds the other problems.\n\n"
        f"Settings of thrifty's rounds were chosen on {_listed(DEVELOPED)}, with other seeds at the same observations;"
        " two_moons and other problems had shown faults that led to them"
        " ([rounds](rounds.md)). The other methods have the defaults of their libraries; sbi's methods in rounds spend"
        " a quarter of the budget in each of four. pyABC's last generation is often not complete when the budget is"
        " used: its runs are paid for, and the one before is the answer.\n\n"
        f"Made with thrifty {_listed(versions)}, code {_listed(commits)}, on {_listed(dates)} ({'; '.join(machines)})"
        + (f", with {_listed(libraries)}." if libraries else ".")
    )


def _list_single() -> list[str]:
    """List the methods that the set has at the middle budget only."""
    return [name for name in METHODS if name not in CURVES]


def _problem_table(problems: Sequence[str]) -> str:
    rows = []
    for name in problems:
        about = describe(name)
        volume = f"{about['smallest_volume']:.1e} to {about['largest_volume']:.1e}"
        sizes = [str(about[key]) for key in ("parameters", "outputs", "modes")]
        costs = [f"{about['cost_range']:.3g}", f"{about['costliest_tenth']:.0%}", f"{about['ceiling']:.2f}"]
        rows.append([name, *sizes, *costs, volume, about["reference"]])
    text = (
        "Each problem has three observations: runs at parameters whose cost is the 10 %, 50 % and 90 % quantile under"
        " the prior (cheap, middle, expensive). Cost range: 99 % over 1 % quantile. Costliest tenth: the share of"
        " the cost of prior runs that the costliest 10 % of them take; no observation is there, and few cost-aware"
        " runs. Ceiling: the most effective runs per cost that any proposal of parameters can give, over plain"
        " sampling. Volume: of the posterior over the prior's, at the three observations.\n\n"
    )
    head = ["problem", "parameters", "outputs", "modes", "cost range", "costliest tenth", "ceiling", "volume"]
    head += ["exact draws by"]
    return text + write_table(head, rows) + "\n\n" + _describe_radio()


def _describe_radio() -> str:
    """Say what the problem `radio` is, and how close it is to the radio model."""
    found = json.loads(RADIO.read_text(encoding="utf-8"))
    pairs, covered = found["pairs"], found["coverage"]
    residuals = found["residuals"]
    squares, skewness = residuals["mean_square"], max(np.abs(residuals["skewness"]))
    return (
        "The problem radio is not the radio model itself, whose likelihood is not known: its outputs are the statistics"
        f" of the radio model, drawn from a normal law fitted to {found['runs']:,} of its runs (`tools/fit_radio.py`)."
        " So its posterior is exact; its cost is that of the model. How close it is to the model, on"
        f" {found['held_out']:,} other runs: a classifier tells pairs of parameters and statistics of the model from"
        f" those of the law with accuracy {pairs['law']:.3f} (0.5 is perfect; {pairs['law_10_%_wider']:.3f} if the law"
        f" were 10 % wider). The mean square of standardised residuals is {min(squares):.2f} to {max(squares):.2f}"
        f" instead of 1, their skewness at most {skewness:.2f}. The 90 % intervals of the problem's posterior hold"
        f" {min(covered):.0%} to {max(covered):.0%} of the parameters of {found['covered']} runs of the model."
    )


def _pick_one_machine(records: Sequence[Record]) -> tuple[str, list[Record]]:
    """Return the machine with most records, and its records: CPU seconds of two machines cannot be compared."""
    machine = Counter(r.machine for r in records).most_common(1)[0][0]
    return machine, pick(records, machine=machine)


def _seconds_table(records: Sequence[Record], methods: Sequence[str]) -> str:
    machine, records = _pick_one_machine(records)
    rows = []
    for method in methods:
        mine = pick(records, method=method, error="")
        for budget in sorted({r.budget for r in mine}):
            here = [r for r in mine if r.budget == budget]
            means = [np.mean([getattr(r, n) for r in here]) for n in ("runs", "cost", "fit_seconds", "sample_seconds")]
            rows.append([method, f"{budget:g}", str(len(here)), *(f"{m:,.0f}" for m in means[:2]),
                         *(f"{m:.1f}" for m in means[2:])])  # fmt: skip
    text = (
        f"Means over problems and seeds, on one machine ({machine}). Where a run takes longer than the fit divided by"
        " the runs, simulation is the larger bill.\n\n"
    )
    return text + write_table(["method", "budget", "records", "runs", "cost", "fit, CPU s", "1,000 draws, CPU s"], rows)


def _hours_table(records: Sequence[Record], methods: Sequence[str]) -> str:
    machine, records = _pick_one_machine(records)
    parts, every = (estimate_hours(records, problems) for problems in (DEFAULT_PROBLEMS, PROBLEMS))
    rows = [[name, *_format_hours(parts[name]), f"{every[name].total:.2f}"] for name in methods if name in parts]
    both = [sum(hours.values(), Hours()) for hours in (parts, every)]
    rows.append(["all of these", *_format_hours(both[0]), f"{both[1].total:.2f}"])
    unknown = [name for name in METHODS if name not in parts]
    judged = sum(r.judge_seconds is not None for r in records)
    text = (
        f"What `thrifty benchmark` takes without options ({len(DEFAULT_PROBLEMS)} problems, {SEEDS} seeds, budgets"
        f" {_listed(BUDGETS)}) on this machine ({machine}): the mean of a method's records at a budget, times the"
        " number of its tasks. Where a budget has no records, the simulator of the nearest one grows with the budget,"
        " and the fit with its square root. The classifier stands for all measures of accuracy."
        f" {both[0].total:.1f} CPU hours in all, {both[1].total:.1f} with `--problems all`; two cores need half of that"
        " time. "
    )
    text += f"The classifier's time is in {judged:,} of {len(records):,} records" if judged else (
        "The classifier's time is in none of these records, and comes on top"
    )  # fmt: skip
    text += f". Methods without records are not in the sum: {_listed(unknown)}." if unknown else "."
    head = ["method", "fit, h", "draws, h", "simulator, h", "classifier, h", "total, h", "all problems, h"]
    return text + "\n\n" + write_table(head, rows)


def _format_hours(hours: Hours) -> list[str]:
    values = (hours.fit, hours.draws, hours.simulator, hours.judge, hours.total)
    return ["–" if np.isnan(value) else f"{value:.2f}" for value in values]


def _problem(records: Sequence[Record], name: str, methods: Sequence[str]) -> str:
    rows = []
    for method in methods:
        mine = pick(records, problem=name, method=method, error="")
        for budget in sorted({r.budget for r in mine}):
            here = [r for r in mine if r.budget == budget]
            cells = [
                _format_point(here, measure, digits)
                for measure, digits in (("c2st", 3), ("mmd2", 4), ("log_density", 2))
            ]
            places = [p for p in PLACES if any(r.place == p for r in here)]
            rows.append([method, f"{budget:g}", f"{np.mean([r.cost for r in here]):,.0f}", *cells, ", ".join(places),
                         str(len({r.seed for r in here}))])  # fmt: skip
    head = ["method", "budget", "cost", "C2ST", "MMD²", "log density", "places", "seeds"]
    return f"#### {name}\n\n![C2ST against cost](figures/benchmark/{name}.png)\n\n" + write_table(head, rows)


def _format_point(records: Sequence[Record], name: str, digits: int) -> str:
    found = curve(records, name)
    if not found:
        return "–"
    error = "" if np.isnan(found[0].error) else f" ± {found[0].error:.{digits}f}"
    return f"{found[0].value:.{digits}f}{error}"


def _no_answers(records: Sequence[Record]) -> str:
    """List what gave no answer because its first step needs a larger budget."""
    found = [r for r in records if r.has_no_answer]
    if not found:
        return ""
    rows = []
    for method, budget in sorted({(r.method, r.budget) for r in found}):
        here, asked = pick(found, method=method, budget=budget), pick(records, method=method, budget=budget)
        rows.append([method, f"{budget:g}", f"{len(here)} of {len(asked)}"])
    text = (
        "A method whose first step takes more runs than the budget pays for has no answer there; it did not fail.\n\n"
    )
    return "### No answer at this budget\n\n" + text + write_table(["method", "budget", "records"], rows)


def _failures(records: Sequence[Record]) -> str:
    failed = [r for r in records if r.error and not r.has_no_answer]
    if not failed:
        return ""
    rows = [[r.problem, r.place, r.method, f"{r.budget:g}", str(r.seed), r.error.replace("|", "/").splitlines()[0][:90]]
            for r in failed]  # fmt: skip
    return "### Fits that failed\n\n" + write_table(["problem", "place", "method", "budget", "seed", "error"], rows)


def _listed(values: Sequence[object]) -> str:
    return ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values)


def fill_region(page: str, name: str, text: str) -> str:
    r"""Put a text between the two comments that mark a region of a page.

    Example:
        >>> fill_region("<!-- a: made by x -->\nold\n<!-- end of a -->", "a", "new")
        '<!-- a: made by x -->\n\nnew\n\n<!-- end of a -->'
    """
    pattern = rf"(<!-- {name}: made by [^\n]* -->\n).*?(<!-- end of {name} -->)"
    filled, count = re.subn(pattern, lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{count} regions {name!r} on the page, expected 1")
    return filled


def fill_page(page: str, records: Sequence[Record], lines: Lines) -> str:
    """Write all three sections into the page."""
    problems = [name for name in PROBLEMS if pick(records, problem=name)]
    parts = [write_verdict(records, problems), write_part_of_penalty(records, problems), *write_savings(lines)]
    summary = "\n".join(part for part in parts if part)
    page = fill_region(page, "summary", summary)
    page = fill_region(page, "real simulators", write_examples(lines))
    return fill_region(page, "problems", write_problems(records))


def read_lines() -> Lines:
    """Read the records of real simulators; the last one of an example and a seed counts."""
    lines = [json.loads(line) for line in read_whole_lines(EXAMPLES)]
    return list({(line["example"], line["seed"]): line for line in lines}.values())


def main() -> None:
    records = read_records(RECORDS)
    PAGE.write_text(fill_page(PAGE.read_text(encoding="utf-8"), records, read_lines()), encoding="utf-8")
    for name in PROBLEMS:
        if pick(records, problem=name, error=""):
            draw_problem(records, name, FIGURES / f"{name}.png")
    print(f"{PAGE.relative_to(ROOT)}: {len(records)} records of problems, {len(read_lines())} of real simulators")


if __name__ == "__main__":
    main()
