"""Write the section of `docs/benchmarks.md` on real simulators, from the records of `benchmarks/equal_budgets.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Lines = list[dict[str, Any]]
ARMS = ("plain", "aware", "sbi")
THIRDS = ("all", "cheap", "middle", "expensive")


def write_examples(lines: Lines) -> str:
    """Write the tables of all notebooks that have records."""
    if not lines:
        return "There are no records yet; `python benchmarks/equal_budgets.py` makes them."
    names = dict.fromkeys(line["example"] for line in lines)
    return "\n\n".join(write_example(name, [line for line in lines if line["example"] == name]) for name in names)


def write_example(name: str, lines: Lines) -> str:
    """Write what was saved, what the quote said and how good the posteriors are, with errors over seeds."""
    first, seeds = lines[0], ", ".join(str(line["seed"]) for line in lines)
    pilot = format_mean(collect(lines, "plain", "done", "pilot_seconds"), 1)
    version, commit, date, machine = (
        ", ".join(sorted({line[key] for line in lines})) for key in ("version", "commit", "date", "machine")
    )
    densities = ["runs", "plain", "cost-aware", "sbi's NPE, plain", "cost-aware less plain", "cost-aware less sbi's"]
    return "\n\n".join(
        [
            f"### {name}",
            f"The simulator of [this notebook](../examples/{name}.ipynb), {first['budget']} in each arm, {pilot} s of"
            f" it for {first['pilots']} pilot runs. Seeds {seeds}; ± is the standard error over seeds.",
            write_table(["", "plain", "cost-aware"], list_spending(lines)),
            "What the quote said of the cost-aware arm, and what happened after the pilot:",
            write_table(["", "quoted", "done", "quoted / done"], list_quotes(lines)),
            f"A quote rests on {first['pilots']} runs of very unlike cost, so that it differs from seed to seed.",
            f"Mean log density of the parameters of {first['held_out']} runs that no arm saw, higher is better. The"
            " thirds are those of the prior in the order of cost. Network and settings are the same in both arms.",
            write_table(densities, list_densities(lines)),
            compare_arms(lines),
            f"Made with thrifty {version}, code {commit}, on {date} ({machine}).",
        ]
    )


def list_spending(lines: Lines) -> list[list[str]]:
    """List what both arms did with the budget."""
    arms = ("plain", "aware")
    spent, runs, each, effective = (
        [collect(lines, arm, "done", key) for arm in arms]
        for key in ("seconds", "runs", "cost_per_run", "effective_with_pilot")
    )
    price = [s / e for s, e in zip(spent, effective, strict=True)]
    return [
        ["CPU s of all runs", *(format_mean(v, 1) for v in spent)],
        ["runs after the pilot", *(format_mean(v, 0) for v in runs)],
        ["CPU ms a run", *(format_mean(1000 * v, 1) for v in each)],
        ["effective runs, with the pilot", *(format_mean(v, 0) for v in effective)],
        ["CPU ms an effective run", *(format_mean(1000 * v, 1) for v in price)],
        ["saved for an effective run", "", format_mean(100 * (1 - price[1] / price[0]), 0) + " %"],
    ]


def list_quotes(lines: Lines) -> list[list[str]]:
    """List what was quoted and done."""
    rows = []
    for label, key, factor, digits in (
        ("CPU ms a run", "cost_per_run", 1000, 1),
        ("runs", "runs", 1, 0),
        ("effective share of them", "effective_share", 1, 2),
    ):
        quoted, done = (factor * collect(lines, "aware", kind, key) for kind in ("quoted", "done"))
        rows.append([label, format_mean(quoted, digits), format_mean(done, digits), format_mean(quoted / done, 2)])
    quoted = 100 * collect(lines, "aware", "quoted", "saved")
    done = 100 * (1 - collect(lines, "aware", "done", "cost_per_run") / collect(lines, "plain", "done", "cost_per_run"))
    rows.append(["saved for a run, %", format_mean(quoted, 0), format_mean(done, 0), format_mean(quoted / done, 2)])
    return rows


def list_densities(lines: Lines) -> list[list[str]]:
    """List held-out log densities, and their differences seed by seed."""
    rows = []
    for third in THIRDS:
        plain, aware, sbi = (collect(lines, arm, "log_density", third) for arm in ARMS)
        rows.append([third, *(format_mean(v, 2) for v in (plain, aware, sbi, aware - plain, aware - sbi))])
    return rows


def compare_arms(lines: Lines) -> str:
    """Say where the cost-aware arm is ahead or behind by more than two standard errors."""
    found = []
    for arm, label in (("plain", "plain sampling"), ("sbi", "sbi's NPE")):
        gaps = [collect(lines, "aware", "log_density", t) - collect(lines, arm, "log_density", t) for t in THIRDS]
        score = [gap.mean() / (gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else 0.0 for gap in gaps]
        ahead = ", ".join(third for third, value in zip(THIRDS, score, strict=True) if value > 2) or "none"
        behind = ", ".join(third for third, value in zip(THIRDS, score, strict=True) if value < -2) or "none"
        found.append(f"Against {label}, cost-aware sampling is ahead by more than two standard errors on: {ahead};")
        found.append(f"behind on: {behind}.")
    return " ".join(found)


def collect(lines: Lines, arm: str, part: str, key: str) -> np.ndarray:
    """Collect one number of every line."""
    return np.array([line[arm][part][key] for line in lines], dtype=float)


def format_mean(values: np.ndarray, digits: int) -> str:
    """Format a mean with its standard error.

    Example:
        >>> format_mean(np.array([1.0, 2.0, 3.0]), 2)
        '2.00 ± 0.58'
    """
    error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{error}"


def write_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table.

    Example:
        >>> print(write_table(["a", "b"], [["1", "2"]]))
        | a | b |
        |---|---|
        | 1 | 2 |
    """
    lines = [f"| {' | '.join(row)} |" for row in (head, *body)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])
