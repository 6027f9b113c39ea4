"""Write the section of `docs/benchmarks.md` on real simulators, from the records of `benchmarks/equal_budgets.py`.

Where the mean quote of an example is off by more than a tenth, `REASONS` says why. A test fails where a reason is
missing, or has outlived its case.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student_t

Lines = list[dict[str, Any]]
ARMS = ("plain", "aware", "sbi")
THIRDS = ("all", "cheap", "middle", "expensive")


QUOTED = (  # what the page calls it, what of the record
    ("cost of a run", "cost_per_run"),
    ("runs", "runs"),
    ("effective share", "effective_share"),
    ("effective runs", "effective_runs"),
)
FULL = ("genomes",)  # examples with a section of their own
FAR = 0.1  # relative error of a mean quote, or error of a quoted saving as a share, beyond which a reason is due
LEVEL = 0.05  # of a t test over seeds
COMPANY = Path(__file__).resolve().parents[1] / "benchmarks" / "records" / "company.json"

# example -> why its mean quote is further off, in plain words
REASONS: dict[str, str] = {
    "genomes": (
        "what a short run takes depends on what the processor did before it. {company} A cost-aware campaign makes"
        " mostly short runs, in other company than those of the pilot, so that its quote can be off by as much, to"
        " either side. On the machine of these quotes the same test was not made, so that it is not shown why they were"
        " too high."
    ),
    "fire-in-c": (
        "cost grows steeply with the parameters and levels off where the whole forest burns. A fit to few pilot runs"
        " goes on growing where it has none, and quotes too much, for plain sampling more than for cost-aware sampling."
        " More pilots help."
    ),
    "predators": (
        "run time depends on how a run ends, not on its parameters alone, and few very long runs take much of the cost."
        " The cost model gives a single long run a limited influence, since as a rule the machine was busy then; here"
        " such runs are the model's own, and it quotes too little, less than the mean of its pilot. The notebook shows"
        " what helps: a lazy time limit."
    ),
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
        f" with the same budget: {', '.join(parts)}. More effective runs did not always give a better posterior where"
        " runs are expensive: [densities](#densities-of-all-examples). [Tables](#real-simulators)."
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
        pilot = collect(lines, "plain", "done", "pilot_seconds") / collect_top(lines, "pilots")
        plain = collect(lines, "plain", "done", "cost_per_run")
        costs = [pilot / plain, collect(lines, "plain", "quoted", "cost_per_run") / plain]
        ratios = [format_mean(values, 2) for values in (*costs, *(divide_quoted(lines, key) for _, key in QUOTED))]
        saved = [format_mean(100 * values, 0) for values in (*find_savings(lines), find_saved(lines))]
        rows.append([f"[{name}](../examples/{name}.ipynb)", lines[0]["budget"], *ratios, *saved, str(len(lines))])
    head = ["example", "budget", "plain: mean of the pilot / done", "plain: cost of a run"]
    head += [*(f"{label}" for label, _ in QUOTED), "saved for an effective run, quoted, %", "done, %"]
    head += ["done with the pilot, %", "seeds"]
    text = (
        "Quoted over done, means over seeds with standard errors; runs are those after the pilot. The first two columns"
        " of ratios are about plain sampling: the mean cost of its pilot runs, which the quote does not use, and the"
        " quoted cost. The others are about cost-aware sampling. A quote rests on a pilot of"
        f" {join_sorted(line['pilots'] for lines in groups.values() for line in lines)} runs."
    )
    found = find_far_quotes(groups)
    far = "; ".join(f"{name} ({', '.join(labels)})" for name, labels in found.items())
    text += f" Off by more than {FAR:.0%} on average: {far}." if found else f" All are within {FAR:.0%} on average."
    reasons = [f"- {name}: {write_reason(name)}" for name in found]
    return "\n\n".join([text, write_table(head, rows), *reasons])


def find_far_quotes(groups: dict[str, Lines]) -> dict[str, list[str]]:
    """List what was quoted, by example, whose mean is off by more than FAR; a saving by so many percentage points."""
    found = {}
    for name, lines in groups.items():
        far = [label for label, key in QUOTED if abs(divide_quoted(lines, key).mean() - 1) > FAR]
        quoted, done = find_savings(lines)
        far += ["saving"] if abs((quoted - done).mean()) > FAR else []
        if far:
            found[name] = far
    return found


def write_reason(name: str) -> str:
    """Say why the quote of an example is off."""
    return REASONS.get(name, "not explained yet.").replace("{company}", describe_company())


def describe_company() -> str:
    """Say what short runs of genomes take in three kinds of company, from their record."""
    found = json.loads(COMPANY.read_text(encoding="utf-8"))
    others, themselves, pauses = (
        format_mean(1000 * np.array(found["seconds"][kind]), 1) for kind in ("others", "themselves", "pauses")
    )
    return (
        f"The {found['short']} cheapest of {found['pilots']} prior draws take {others} CPU ms a run between the others,"
        f" {themselves} between themselves, and {pauses} after pauses of {found['pause']:g} s ({found['machine']})."
    )


def find_wrong_reasons(lines: Lines) -> list[str]:
    """List examples whose quote is far off without a reason, and reasons that are not needed."""
    far = find_far_quotes({name: [line for line in lines if line["example"] == name] for name in list_names(lines)})
    missing = [f"{name}, {', '.join(far[name])}: say why the quote is off" for name in far if name not in REASONS]
    return missing + [f"{name}: the quote is right" for name in REASONS if name not in far]


def divide_quoted(lines: Lines, key: str) -> np.ndarray:
    """Divide what was quoted for the cost-aware arm by what happened, seed by seed."""
    if key == "effective_runs":
        return divide_quoted(lines, "runs") * divide_quoted(lines, "effective_share")
    return collect(lines, "aware", "quoted", key) / collect(lines, "aware", "done", key)


def find_savings(lines: Lines) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of cost saved for an effective run after the pilot: quoted, and done."""
    price = [
        collect(lines, arm, "done", "cost_per_run") / collect(lines, arm, "done", "effective_share")
        for arm in ("plain", "aware")
    ]
    return collect(lines, "aware", "quoted", "saved_per_effective"), 1 - price[1] / price[0]


def write_all_densities(groups: dict[str, Lines]) -> str:
    """Write by how much the cost-aware posterior is ahead at unseen runs, for all examples, and where it is behind."""
    rows, lower, clear = [], [], []
    for name, lines in groups.items():
        for arm, label in (("plain", "plain"), ("sbi", "sbi's NPE, plain")):
            gaps = find_gaps(lines, arm)
            rows.append([name, label, *(format_mean(gap, 2) for gap in gaps.values()), str(lines[0]["held_out"])])
            lower += [f"{name}, {third} (beside {label})" for third, gap in gaps.items() if gap.mean() < 0]
            clear += [f"{name}, {third} (beside {label})" for third, gap in gaps.items() if judge_gap(gap) < 0]
    text = (
        "Mean log density of the parameters of unseen runs, cost-aware less the other, at equal CPU seconds; above 0"
        " the cost-aware posterior is better. The thirds are those of the prior in the order of cost."
    )
    head = ["example", "compared with", *THIRDS, "unseen runs"]
    behind = (
        f"Below 0: {'; '.join(lower) or 'none'}. Of these a t test over seeds at {LEVEL:.0%} calls clear:"
        f" {'; '.join(clear) or 'none'}. Cost-aware sampling makes fewer runs where they are expensive, so that it can"
        " lose there what it gains elsewhere; three seeds show large differences only."
    )
    return "\n\n".join([text, write_table(head, rows), behind])


def find_gaps(lines: Lines, arm: str) -> dict[str, np.ndarray]:
    """Return the log density of the cost-aware arm less that of another, seed by seed: third -> (seeds,)."""
    return {t: collect(lines, "aware", "log_density", t) - collect(lines, arm, "log_density", t) for t in THIRDS}


def judge_gap(gap: np.ndarray) -> int:
    """Return 1 where a difference over seeds is above 0 by a t test, -1 where it is below, else 0.

    Example:
        >>> judge_gap(np.array([0.9, 1.0, 1.1])), judge_gap(np.array([-0.5, 1.0, 2.5])), judge_gap(np.ones(1))
        (1, 0, 0)
    """
    if len(gap) < 2:
        return 0
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    return int(np.sign(gap.mean())) if abs(gap.mean()) > student_t.ppf(1 - LEVEL / 2, len(gap) - 1) * error else 0


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
    """Say where a t test over seeds finds the cost-aware arm ahead or behind."""
    found = []
    for arm, label in (("plain", "plain sampling"), ("sbi", "sbi's NPE")):
        signs = {third: judge_gap(gap) for third, gap in find_gaps(lines, arm).items()}
        ahead, behind = (", ".join(third for third, sign in signs.items() if sign == s) or "none" for s in (1, -1))
        found.append(f"Against {label}, cost-aware sampling is ahead on: {ahead}; behind on: {behind}")
    return f"{'. '.join(found)} (t tests over seeds at {LEVEL:.0%})."


def collect(lines: Lines, arm: str, part: str, key: str) -> np.ndarray:
    """Collect one number of every line."""
    return np.array([line[arm][part][key] for line in lines], dtype=float)


def collect_top(lines: Lines, key: str) -> np.ndarray:
    """Collect one number of every line that belongs to no arm."""
    return np.array([line[key] for line in lines], dtype=float)


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
