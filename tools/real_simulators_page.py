"""Write the section of `docs/benchmarks.md` on real simulators, from the records of `benchmarks/equal_budgets.py`.

Where the mean quote of an example is off by more than a tenth, `REASONS` says why. A test fails where a reason is
missing, or has outlived its case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Lines = list[dict[str, Any]]
ARMS = ("plain", "aware", "sbi")
THIRDS = ("all", "cheap", "middle", "expensive")


QUOTED = (  # what the page calls it, key of the record
    ("cost of a run", "cost_per_run"),
    ("runs", "runs"),
    ("effective share", "effective_share"),
)
FULL = ("genomes",)  # examples with a section of their own
FAR = 0.1  # relative error of a mean quote, beyond which a reason is due

# (example, what was quoted) -> why the mean quote is further off: a sentence. What is said of caches was tried: the 15
# cheapest of 40 prior draws of genomes take 7.6 CPU ms a run among the others, 6.3 among themselves, 9.0 after pauses.
_CACHES = (
    "genomes: a short run takes more CPU time after a long one or after a pause, when the caches of the processor hold"
    " other data. The pilot mixes runs of all lengths; a cost-aware campaign makes mostly short ones, one after the"
    " other. So its runs are cheaper than quoted."
)
_OUTCOME = (
    "predators: run time depends on how a run ends, not on its parameters alone, and few very long runs take much of"
    " the cost. A pilot that holds none of them quotes too little. The notebook shows what helps here: a lazy time"
    " limit."
)
REASONS: dict[tuple[str, str], str] = {
    ("genomes", "cost of a run"): _CACHES,
    ("genomes", "runs"): _CACHES,
    ("predators", "cost of a run"): _OUTCOME,
    ("predators", "runs"): _OUTCOME,
}


def write_examples(lines: Lines) -> str:
    """Write the tables of all notebooks that have records."""
    if not lines:
        return "There are no records yet; `python benchmarks/equal_budgets.py` makes them."
    groups = {name: [line for line in lines if line["example"] == name] for name in list_names(lines)}
    return "\n\n".join(
        [
            *(write_example(name, groups[name]) for name in FULL if name in groups),
            "### Quotes of all examples",
            write_quotes(groups),
            "### Densities of all examples",
            write_all_densities(groups),
            describe_runs(lines),
        ]
    )


def write_savings(lines: Lines) -> list[str]:
    """Say what an effective run cost less on each real simulator, pilot included."""
    names = list_names(lines)
    if not names:
        return []
    parts = []
    for name in names:
        saved = 100 * find_saved([line for line in lines if line["example"] == name])
        parts.append(f"[{name}](../examples/{name}.ipynb) {format_mean(saved, 0)}%")
    return [
        "- Saved for an effective run on simulators that people use, in CPU seconds with the pilot, over plain sampling"
        f" with the same budget: {', '.join(parts)}. [Tables](#real-simulators)."
    ]


def find_saved(lines: Lines) -> np.ndarray:
    """Return the share of CPU seconds saved for an effective run with the pilot, seed by seed."""
    price = [
        collect(lines, arm, "done", "seconds") / collect(lines, arm, "done", "effective_with_pilot")
        for arm in ("plain", "aware")
    ]
    return 1 - price[1] / price[0]


def list_names(lines: Lines) -> list[str]:
    """List the examples, in the order of their first records."""
    return list(dict.fromkeys(line["example"] for line in lines))


def write_quotes(groups: dict[str, Lines]) -> str:
    """Write what the quotes of all examples said, over what happened, and why some are far off."""
    rows = []
    for name, lines in groups.items():
        ratios = [format_mean(divide_quoted(lines, key), 2) for _, key in QUOTED]
        saved = [format_mean(100 * values, 0) for values in find_savings(lines)]
        rows.append([f"[{name}](../examples/{name}.ipynb)", lines[0]["budget"], *ratios, *saved, str(len(lines))])
    head = ["example", "budget", *(f"{label}, quoted / done" for label, _ in QUOTED)]
    head += ["saved for an effective run, quoted, %", "done, %", "seeds"]
    found = find_far_quotes(groups)
    text = (
        "The cost-aware arm of each example: means over seeds with standard errors. Runs are those after the pilot. A"
        f" quote rests on a pilot of {join_sorted(line['pilots'] for lines in groups.values() for line in lines)} runs."
    )
    far = "; ".join(f"{name} ({label})" for name, label in found)
    text += f" Off by more than {FAR:.0%} on average: {far}." if found else f" All are within {FAR:.0%} on average."
    reasons = dict.fromkeys(REASONS.get(one) or _excuse(*one, groups[one[0]]) for one in found)
    return "\n\n".join([text, write_table(head, rows), *(f"- {reason}" for reason in reasons)])


def find_far_quotes(groups: dict[str, Lines]) -> list[tuple[str, str]]:
    """List (example, what was quoted) whose mean is off by more than FAR."""
    return [
        (name, label)
        for name, lines in groups.items()
        for label, key in QUOTED
        if abs(divide_quoted(lines, key).mean() - 1) > FAR
    ]


def _excuse(name: str, label: str, lines: Lines) -> str:
    """Say of a quote without a reason that pilots differ that much, if they do."""
    if _is_clear(label, lines):
        return f"{name}, {label}: not explained yet."
    return (
        f"{name}: less than two standard errors off. Costs of its runs differ so much that the mean of"
        f" {lines[0]['pilots']} of them has this error."
    )


def _is_clear(label: str, lines: Lines) -> bool:
    """Whether a mean quote is off by more than two standard errors."""
    ratios = divide_quoted(lines, dict(QUOTED)[label])
    return len(lines) < 2 or abs(ratios.mean() - 1) > 2 * ratios.std(ddof=1) / np.sqrt(len(lines))


def find_wrong_reasons(lines: Lines) -> list[str]:
    """List quotes that are far off, by more than two standard errors, without a reason, and reasons not needed."""
    groups = {name: [line for line in lines if line["example"] == name] for name in list_names(lines)}
    far = set(find_far_quotes(groups))
    clear = {(name, label) for name, label in far if _is_clear(label, groups[name])}
    missing = [f"{name}, {label}: say why the quote is off" for name, label in sorted(clear - REASONS.keys())]
    return missing + [f"{name}, {label}: the quote is right" for name, label in sorted(REASONS.keys() - far)]


def divide_quoted(lines: Lines, key: str) -> np.ndarray:
    """Divide what was quoted for the cost-aware arm by what happened, seed by seed."""
    return collect(lines, "aware", "quoted", key) / collect(lines, "aware", "done", key)


def find_savings(lines: Lines) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of cost saved for an effective run after the pilot: quoted, and done."""
    price = [
        collect(lines, arm, "done", "cost_per_run") / collect(lines, arm, "done", "effective_share")
        for arm in ("plain", "aware")
    ]
    return collect(lines, "aware", "quoted", "saved_per_effective"), 1 - price[1] / price[0]


def write_all_densities(groups: dict[str, Lines]) -> str:
    """Write by how much the cost-aware posterior is ahead at unseen runs, for all examples."""
    rows = []
    for name, lines in groups.items():
        for arm, label in (("plain", "plain"), ("sbi", "sbi's NPE, plain")):
            gaps = [collect(lines, "aware", "log_density", t) - collect(lines, arm, "log_density", t) for t in THIRDS]
            rows.append([name, label, *(format_mean(gap, 2) for gap in gaps), str(lines[0]["held_out"])])
    text = (
        "Mean log density of the parameters of unseen runs, cost-aware less the other, at equal CPU seconds; above 0"
        " the cost-aware posterior is better. The thirds are those of the prior in the order of cost."
    )
    head = ["example", "less", *THIRDS, "unseen runs"]
    return text + "\n\n" + write_table(head, rows)


def describe_runs(lines: Lines) -> str:
    """Say what made the records."""
    version, commit, date, machine = (
        join_sorted(line[key] for line in lines) for key in ("version", "commit", "date", "machine")
    )
    return f"Made with thrifty {version}, code {commit}, on {date} ({machine})."


def join_sorted(values: Iterable[object]) -> str:
    """Join the different values of records."""
    return ", ".join(sorted({str(value) for value in values}))


def write_example(name: str, lines: Lines) -> str:
    """Write what was saved, what the quote said and how good the posteriors are, with errors over seeds."""
    first, seeds = lines[0], ", ".join(str(line["seed"]) for line in lines)
    pilot = format_mean(collect(lines, "plain", "done", "pilot_seconds"), 1)
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
            describe_runs(lines),
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
    saved = format_mean(100 * find_saved(lines), 0)
    return [
        ["CPU s of all runs", *(format_mean(v, 1) for v in spent)],
        ["runs after the pilot", *(format_mean(v, 0) for v in runs)],
        ["CPU ms a run", *(format_mean(1000 * v, 1) for v in each)],
        ["effective runs, with the pilot", *(format_mean(v, 0) for v in effective)],
        ["CPU ms an effective run", *(format_mean(1000 * v, 1) for v in price)],
        ["saved for an effective run", "", f"{saved}%"],
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
        >>> format_mean(np.array([-0.3]), 0)
        '0'
    """
    error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}" if len(values) > 1 else ""
    mean = f"{values.mean():.{digits}f}"
    return (mean.lstrip("-") if float(mean) == 0 else mean) + error


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
