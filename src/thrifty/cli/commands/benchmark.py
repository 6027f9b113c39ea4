"""`thrifty benchmark`: run methods on problems with known posteriors and costs, and record what they achieve."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thrifty.cli.commands import Quiet
from thrifty.cli.output import Screen
from thrifty.display import align_columns, count_things
from thrifty.durations import format_amount
from thrifty.errors import ConfigError

if TYPE_CHECKING:
    from thrifty.benchmark import Method, Record

DEFAULT_OUT = Path("runs/benchmark")
LEAST_SECONDS = 60.0  # before which the time left is not known


def benchmark(
    *,
    problems: Annotated[
        str, typer.Option(help="Names with commas, or all; by default one of each kind.", show_default=False)
    ] = "",
    methods: Annotated[
        str, typer.Option(help="Names with commas; by default all that are installed.", show_default=False)
    ] = "",
    budgets: Annotated[
        str, typer.Option(help="In prior runs, with commas; by default 300,1000,3000.", show_default=False)
    ] = "",
    seeds: Annotated[int | None, typer.Option(help="Repetitions; by default 5.", min=1, show_default=False)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small set of everything, within 5 minutes.")] = False,
    workers: Annotated[int, typer.Option("--workers", "-w", help="Tasks in parallel.", min=1)] = 1,
    out: Annotated[Path, typer.Option("--out", help="Folder of the records.")] = DEFAULT_OUT,
    show_list: Annotated[bool, typer.Option("--list", help="List problems and methods; run nothing.")] = False,
    references: Annotated[
        bool, typer.Option("--references", help="Compute the exact draws of the problems again; run nothing else.")
    ] = False,
    quiet: Quiet = False,
) -> int:
    """Compare methods on problems whose posterior and cost are known.

    Each result is one line of records.jsonl in the folder; the same command continues an interrupted benchmark.
    """
    from thrifty.benchmark import METHODS, PROBLEMS, find_method, list_tasks, read_records, run_benchmark
    from thrifty.benchmark.catalogue import check_problem_name
    from thrifty.benchmark.records import list_done
    from thrifty.benchmark.tasks import (
        BUDGETS,
        CURVES,
        DEFAULT_PROBLEMS,
        QUICK_BUDGETS,
        QUICK_METHODS,
        QUICK_PROBLEMS,
        SEEDS,
    )

    screen = Screen(quiet)
    names = list(PROBLEMS) if problems.strip() == "all" else _split(problems)
    names = names or list(PROBLEMS if show_list or references else QUICK_PROBLEMS if quick else DEFAULT_PROBLEMS)
    for name in names:
        check_problem_name(name)
    if show_list:
        return _show_list(screen, names)
    if references:
        return _compute_references(screen, names)
    chosen = [find_method(name) for name in _split(methods)]
    chosen = chosen or _list_installed(screen, QUICK_METHODS if quick else METHODS)
    amounts = [_read_budget(text) for text in _split(budgets)] or list(QUICK_BUDGETS if quick else BUDGETS)
    curves = _split(methods) or (None if quick else CURVES)  # what is asked for by name is run at every budget
    tasks = list_tasks(names, chosen, amounts, seeds or (1 if quick else SEEDS), curves=curves)
    path = out / "records.jsonl"
    what = f"{count_things(len(names), 'problem')}, {count_things(len(chosen), 'method')}"
    screen.step("tasks", f"{len(tasks):,}: {what}, records in {path}")

    before, wanted = read_records(path), {key for task in tasks for key in task.keys}
    done = list_done(before) & wanted
    progress = Progress(len(wanted), len(done))
    if done:
        screen.step("continued", f"{progress.first:,} of {progress.total:,} records are there")
        _say_other_code(screen, [record for record in before if record.key in done])
    records = run_benchmark(
        tasks, path, workers=workers, on_record=lambda record: screen.say(f"{progress.advance()} {_format(record)}")
    )
    screen.data(_write_accuracy(records))
    silent = sum(record.has_no_answer for record in records)
    failed = sum(bool(record.error) for record in records) - silent
    screen.data(f"{len(records)} records, {silent} without an answer at their budget, {failed} failed; {path}")
    return 0


def _write_accuracy(records: list[Record]) -> str:
    """Write the mean C2ST of each method on each problem by budget."""
    from thrifty.benchmark.benchmark_summary import curve
    from thrifty.benchmark.records import pick

    budgets = sorted({record.budget for record in records})
    rows = []
    for problem, method in dict.fromkeys((record.problem, record.method) for record in records):
        cells = []
        for budget in budgets:
            points = curve(pick(records, problem=problem, method=method, budget=budget, error=""), "c2st")
            error = f" ± {points[0].error:.3f}" if points and points[0].error >= 0 else ""  # not NaN
            cells.append(f"{points[0].value:.3f}{error}" if points else "–")
        rows.append([f"{problem} {method}", *cells])
    return align_columns(["C2ST (0.5 is perfect)", *(f"budget {budget:,g}" for budget in budgets)], sorted(rows))


def _say_other_code(screen: Screen, records: list[Record]) -> None:
    """Say which of the records that are kept were made by other code than this."""
    from thrifty.benchmark.benchmark_run import describe_run

    ours = describe_run()
    made = Counter((record.version, record.commit) for record in records)
    others = [
        f"{count:,} by {v} ({c})" for (v, c), count in made.items() if (v, c) != (ours["version"], ours["commit"])
    ]
    if others:
        screen.step(
            "note",
            f"kept as they are: {', '.join(others)}; this is {ours['version']} ({ours['commit']});"
            " --out begins a new set",
        )


class Progress:
    """Count the records as they come, and say how long the others take at the mean rate so far.

    Example:
        >>> progress = Progress(total=3_000, first=1_200)
        >>> progress.advance()
        '1,201 of 3,000'
    """

    def __init__(self, total: int, first: int) -> None:
        self.total, self.first, self.done = total, first, first
        self.began = time.monotonic()

    def advance(self) -> str:
        """Count one more; the time left is named after a minute."""
        self.done += 1
        seconds = time.monotonic() - self.began
        left = seconds * (self.total - self.done) / (self.done - self.first)
        known = f", about {format_amount(left, 's')} left" if seconds > LEAST_SECONDS and left > 0 else ""
        return f"{self.done:,} of {self.total:,}{known}"


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _read_budget(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(
            f"--budgets {text!r} is no number", code="bad-command-line", fix="--budgets 300,1000"
        ) from None


def _list_installed(screen: Screen, names: tuple[str, ...]) -> list[Method]:
    """Return the methods whose libraries are installed, and say which are left out."""
    from thrifty.benchmark import find_method

    found = []
    for name in names:
        try:
            found.append(find_method(name))
        except ConfigError as error:
            screen.say(f"left out: {error}")
    return found


def _show_list(screen: Screen, names: list[str]) -> int:
    from thrifty.benchmark import METHODS, describe

    for name in names:
        about = describe(name)
        screen.data(
            f"{name:<19} {count_things(int(about['parameters']), 'parameter'):>13},"
            f" {count_things(int(about['outputs']), 'output'):>10}, {count_things(int(about['modes']), 'mode')},"
            f" cost range {about['cost_range']:.3g}x, posterior {about['smallest_volume']:.1e} to"
            f" {about['largest_volume']:.1e} of the prior, {about['reference']}"
        )
    screen.data("methods: " + ", ".join(METHODS))
    return 0


def _compute_references(screen: Screen, names: list[str]) -> int:
    from thrifty.benchmark import find_problem, make_reference

    for name in names:
        if not find_problem(name).closed_form:
            screen.data(f"{name}: {make_reference(name)}")
    return 0


def _format(record: Record) -> str:
    head = f"{record.problem} {record.place} {record.method} budget {record.budget:g} seed {record.seed}"
    if record.has_no_answer:
        return f"{head}: no answer at this budget"
    if record.error:
        return f"{head}: failed: {record.error}"
    return f"{head}: C2ST {record.c2st:.3f}, cost {record.cost:.0f}, {record.runs} runs, {record.fit_seconds:.1f} CPU s"
