"""What all studies share: options, rows that survive a kill, the JSON record, tables and figures.

A study is a list of tasks (a setting and a seed, plain numbers) and a function from a task to values. Each finished
task is one line of `rows.jsonl`; a killed study run again does only what is missing, and the same task always gives
the same values. The record is written in one step (a temporary file, then a rename).
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import thrifty as th
from thrifty.benchmark import task_runner
from thrifty.errors import CampaignError

Task = dict[str, Any]
Value = dict[str, Any]
Record = dict[str, Any]
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Study:
    """One table or figure.

    Attributes:
        name: Of the script and of its files.
        tasks: (full, seeds or None) -> tasks, sizes and seed of each; what is constant in a study is told by the commit
            that every row keeps.
        work: (task, folder) -> values, one dict each; the folder keeps what is made once, such as a reference.
        text: Record -> Markdown, the paper's numbers beside ours.
        draw: (record, file) -> a figure.
    """

    name: str
    tasks: Callable[[bool, int | None], list[Task]]
    work: Callable[[Task, Path], list[Value]]
    text: Callable[[Record], str]
    draw: Callable[[Record, Path], None]


def main(study: Study, doc: str | None, argv: Sequence[str] | None) -> Record:
    """Run a study from the command line: rows, record, figure, and the text on the screen."""
    options = read_options(study.name, doc, argv)
    folder = options.out / f"{study.name}-{'full' if options.full else 'quick'}"
    folder.mkdir(parents=True, exist_ok=True)
    tasks = study.tasks(options.full, options.seeds)
    with alone(folder):
        if options.done:
            done = read_rows(folder / "rows.jsonl")
            tasks = [task for task in tasks if key(task) in done]
            if not tasks:
                raise SystemExit(f"{study.name}: no task is done yet in {folder}")
        try:
            rows = run_tasks(study.work, tasks, folder, workers=options.workers)
        except KeyboardInterrupt:
            raise SystemExit(f"\n{study.name}: stopped; what is done is kept, the same command goes on") from None
    record = header(study.name, options.full) | gathered(rows)
    write_json(folder / f"{study.name}.json", record)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", th.ThriftyWarning)  # a figure may show what the library warns of
        study.draw(record, folder / f"{study.name}.png")
    print(study.text(record))
    print(f"\n{record['cpu_seconds']:.0f} CPU s in {record['tasks']} tasks; {folder / study.name}.json and .png")
    return record


def read_options(name: str, doc: str | None, argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of every study."""
    parser = argparse.ArgumentParser(prog=name, description=(doc or "").splitlines()[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small counts, a minute or two (default)")
    size.add_argument("--full", action="store_true", help="the paper's counts")
    parser.add_argument("--seeds", type=int, help="repetitions, instead of the default of the size")
    parser.add_argument("--done", action="store_true", help="run nothing: record and figure of the tasks that are done")
    parser.add_argument("--workers", type=int, default=1, help="tasks side by side, one process each")
    parser.add_argument("--out", type=Path, default=Path("runs/studies"), help="rows, JSON and figure go here")
    options = parser.parse_args(argv)
    if options.workers < 1 or (options.seeds is not None and options.seeds < 1):
        parser.error("--workers and --seeds take whole numbers of at least 1")
    return options


def run_tasks(
    work: Callable[[Task, Path], list[Value]], tasks: list[Task], folder: Path, *, workers: int = 1
) -> list[dict[str, Any]]:
    """One row per task, in the order of the tasks; rows of an earlier run are taken as they are."""
    path = folder / "rows.jsonl"
    done = read_rows(path)
    missing = [task for task in tasks if key(task) not in done]
    if done and missing:
        print(f"{len(tasks) - len(missing)} of {len(tasks)} tasks are done already")
    with path.open("a", encoding="utf-8") as handle:
        for row in _rows(work, missing, folder, workers):
            done[key(row["task"])] = row
            handle.write(json.dumps(row) + "\n")
            handle.flush()
            os.fsync(handle.fileno())
    return [done[key(task)] for task in tasks]


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Refuse a second run in the same folder, which would do the same tasks; end without a traceback."""
    try:
        with task_runner.hold_alone(folder / "lock"):
            yield
    except CampaignError as error:  # in use, or a worker died
        raise SystemExit(str(error)) from None


def _rows(work: Any, tasks: list[Task], folder: Path, workers: int) -> Any:
    """Rows as they are done; a task that fails costs no other, and is named at the end."""
    failed: list[str] = []
    for task, row in task_runner.run_tasks(partial(one_task, work, folder=folder), tasks, workers=workers):
        if isinstance(row, Exception):
            failed.append(f"{key(task)}: {type(row).__name__}: {row}")
            print(failed[-1])
        else:
            yield row
    if failed:
        raise SystemExit(
            f"{len(failed)} of {len(tasks)} tasks failed, the rest is kept; first: {failed[0]}\nThe same command tries"
            " them again; with --done it makes record and figure of the rest."
        )


def one_task(work: Callable[[Task, Path], list[Value]], task: Task, folder: Path) -> dict[str, Any]:
    """Values of one task with the CPU seconds they took."""
    made, begin = commit(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", th.ThriftyWarning)  # weak effective numbers are what the tables are about
        values = work(task, folder)
    spent = round(time.process_time() - begin, 2)
    return {"task": task, "cpu": spent, "commit": made, "values": [short(value) for value in values]}


def read_rows(path: Path) -> dict[str, dict[str, Any]]:
    """Finished rows by task; lines that are none, such as one cut short by a kill, are moved aside.

    Only for who holds the folder (`alone`): a run that is under way writes to this very file.
    """
    if not path.exists():
        return {}
    good, bad, rows = [], [], {}
    for line in path.read_bytes().splitlines(keepends=True):
        row = _row(line)
        (bad if row is None else good).append(line)
        if row is not None:
            rows[key(row["task"])] = row
    if bad:
        aside, temporary = path.with_suffix(".bad"), path.with_suffix(".part")
        with aside.open("ab") as handle:
            handle.writelines(bad)
        temporary.write_bytes(b"".join(good))
        temporary.replace(path)
        print(f"{len(bad)} of {len(good) + len(bad)} lines of {path} were no whole rows and went to {aside.name}")
    return rows


def _row(line: bytes) -> dict[str, Any] | None:
    """A line as a row, or None."""
    try:
        row = json.loads(line)
        whole = line.endswith(b"\n") and isinstance(row["task"], dict) and isinstance(row["values"], list)
        return row if whole and isinstance(row["cpu"], float | int) and isinstance(row["commit"], str) else None
    except (ValueError, TypeError, KeyError):
        return None


def key(task: Task) -> str:
    """A task as text."""
    return json.dumps(task, sort_keys=True)


def kind(task: Task) -> str:
    """What decides how long a task takes."""
    return str(task.get("model", task.get("part", task.get("budget", ""))))


def short(value: Any) -> Any:
    """Six digits are enough to print from, and keep the files small; no NaN, which JSON does not know."""
    if isinstance(value, dict):
        return {name: short(part) for name, part in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [short(part) for part in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def gathered(rows: list[dict[str, Any]]) -> Record:
    """All values, each with the task it came from."""
    return {
        "seeds": len({row["task"].get("seed", 0) for row in rows} - {-1}),  # -1: done once, whatever the seeds
        "tasks": len(rows),
        "commits": dict(sorted(Counter(row["commit"] for row in rows).items())),
        "cpu_seconds": round(sum(row["cpu"] for row in rows), 1),
        "cpu": [[kind(row["task"]), row["task"].get("n", 1), row["cpu"]] for row in rows],
        "values": [row["task"] | value for row in rows for value in row["values"]],
    }


def header(name: str, full: bool) -> Record:
    """What a reader must know of a run: when, on which code and machine."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    size = "full" if full else "quick"
    return {"study": name, "size": size, "date": today, "machine": task_runner.name_machine()}


@cache
def commit() -> str:
    """The last commit that changed library or studies, what a row rests on; with a + where files differ from it."""
    return task_runner.name_commit(ROOT, "src/thrifty", "studies", ":!studies/results")


def write_json(path: Path, record: Record) -> None:
    """All or nothing."""
    temporary = path.with_suffix(".json.part")
    temporary.write_text(json.dumps(record, indent=0, separators=(",", ":")) + "\n", encoding="utf-8")
    temporary.replace(path)


def paper_mmd2(draws: Any, reference: Any, weights: Any = None) -> float:
    """MMD² with the lengthscale that the paper's own follow: the reference's median distance over √2.

    Its lengthscales of the Gamma model, whose posterior is known, tell (`studies/gamma_figure.py`).
    """
    return th.metrics.mmd2(draws, reference, weights, lengthscale=th.metrics.median_distance(reference) / np.sqrt(2))


def pick(record: Record, **wanted: Any) -> list[Value]:
    """The values with these entries."""
    return [v for v in record["values"] if all(v.get(name) == value for name, value in wanted.items())]


def column(values: Sequence[Value], name: str) -> np.ndarray:
    """One entry of each value as numbers; missing is NaN."""
    return np.array([np.nan if v.get(name) is None else v[name] for v in values], dtype=float)


def mean_sd(values: Any, digits: int = 2, *, percent: bool = False) -> str:
    """`0.02 (0.01)`; over one seed without the bracket."""
    values = np.asarray(values, dtype=float) * (100 if percent else 1)
    values = values[np.isfinite(values)]
    if not len(values):
        return "–"
    digits = 0 if percent else digits
    end = "%" if percent else ""
    spread = f" ({values.std(ddof=1):.{digits}f})" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{end}{spread}"


def paired(after: Any, before: Any, digits: int = 3) -> str:
    """`+0.013 ± 0.003`: mean change over the same seeds and its standard error."""
    change = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)
    change = change[np.isfinite(change)]
    error = f" ± {change.std(ddof=1) / np.sqrt(len(change)):.{digits}f}" if len(change) > 1 else ""
    return f"{change.mean():+.{digits}f}{error}" if len(change) else "–"


WIDEST_TABLE = 7  # columns: more do not fit on a page


def table(head: Sequence[str], body: Sequence[Sequence[str]], *, keys: int = 1) -> str:
    """Write a Markdown table; one that is too wide becomes several, each with the first `keys` columns.

    A row that has nothing in the columns of a part is left out of it.
    """
    if len(head) <= WIDEST_TABLE:
        return _narrow_table(head, body)
    parts = math.ceil((len(head) - keys) / (WIDEST_TABLE - keys))
    width = math.ceil((len(head) - keys) / parts)
    return "\n\n".join(
        _narrow_table(
            [*head[:keys], *head[i : i + width]],
            [[*line[:keys], *line[i : i + width]] for line in body if any(line[i : i + width])],
        )
        for i in range(keys, len(head), width)
    )


def _narrow_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table, padded so that it reads well on a screen too."""
    lines = [list(head), *(list(map(str, line)) for line in body)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    padded = ["| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines]
    rule = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    return "\n".join([padded[0], rule, *padded[1:]])


def save(figure: Any, path: Path) -> None:
    """Write a PNG of modest size."""
    figure.savefig(path, dpi=90, pil_kwargs={"optimize": True})
