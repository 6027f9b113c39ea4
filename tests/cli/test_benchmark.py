"""`thrifty benchmark`: lists, runs, continues, and refuses nonsense."""

from __future__ import annotations

import time

import numpy as np
import pytest

from thrifty.benchmark import PROBLEMS, read_records
from thrifty.benchmark.task_runner import hold_alone
from thrifty.cli.commands.benchmark import Progress
from thrifty.cli.main import invoke


def run(*options):
    return invoke(["benchmark", *options])


def test_a_small_benchmark_runs_and_continues(tmp_path, capsys):
    pytest.importorskip("numba")
    options = ["--problems", "waiting", "--methods", "abc,abc-aware", "--budgets", "60", "--seeds", "1"]
    assert run(*options, "--out", str(tmp_path)) == 0
    found = read_records(tmp_path / "records.jsonl")
    shown = capsys.readouterr()
    assert len(found) == 6 and "6 records" in shown.out
    mean = np.mean([record.c2st for record in found if record.method == "abc"])
    table = [line.split() for line in shown.out.splitlines()]
    assert table[0][-2:] == ["budget", "60"] and ["waiting", "abc", f"{mean:.3f}"] in table
    assert shown.err.count("1 of 6 waiting cheap") == shown.err.count("6 of 6 waiting expensive") == 1
    before = (tmp_path / "records.jsonl").read_bytes()
    assert run(*options, "--out", str(tmp_path)) == 0
    assert (tmp_path / "records.jsonl").read_bytes() == before, "nothing is run again"
    shown = capsys.readouterr().err
    assert "6 of 6 records are there" in shown and "kept as they are" not in shown
    path = tmp_path / "records.jsonl"
    path.write_text(path.read_text().replace('"version": "', '"version": "0.0.9-', 1))
    assert run(*options, "--out", str(tmp_path)) == 0
    assert "kept as they are: 1 by 0.0.9-" in " ".join(capsys.readouterr().err.split())


def test_a_second_run_in_the_folder_is_told_what_to_do(tmp_path, capsys):
    with hold_alone(tmp_path / "records.lock"):
        assert run("--problems", "waiting", "--methods", "abc", "--budgets", "60", "--out", str(tmp_path)) == 6
    said = capsys.readouterr().err
    assert "in use by another run" in said and "--out" in said and "FOLDER" not in said


def test_progress_names_the_time_left(monkeypatch):
    """Two records in 80 s; the other eight take 40 s each. Not said in the first minute, nor at the end."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress, said = Progress(total=13, first=3), []
    for now[0] in (30.0, 80.0, *(80.0 + 40 * k for k in range(1, 9))):
        said.append(progress.advance())
    assert said[:2] == ["4 of 13", "5 of 13, about 5.33 min left"] and said[-1] == "13 of 13"


@pytest.mark.parametrize(
    ("options", "count"),
    [([], 10), (["--problems", "all"], 20), (["--quick"], 3), (["--quick", "--problems", "radio,slcp"], 2)],
)
def test_the_problems_that_are_meant_are_run(options, count, tmp_path, capsys, monkeypatch):
    """Without options the default set; all of them by name."""
    monkeypatch.setattr("thrifty.benchmark.run_benchmark", lambda tasks, *_, **__: [])
    assert run(*options, "--methods", "abc", "--out", str(tmp_path)) == 0
    assert f"{count} problems" in capsys.readouterr().err


def test_methods_by_name_are_run_at_every_budget(tmp_path, monkeypatch):
    """Without names a method has all budgets, or the middle one; asked for by name it has all."""
    asked = []
    monkeypatch.setattr("thrifty.benchmark.run_benchmark", lambda tasks, *_, **__: asked.append(tasks) or [])
    assert run("--out", str(tmp_path)) == 0 and run("--methods", "abc,npe,sbi-snle", "--out", str(tmp_path)) == 0
    budgets = [{m: {t.budget for t in tasks if t.method == m} for m in ("abc", "npe", "sbi-snle")} for tasks in asked]
    assert budgets[0] == {"abc": {1000.0}, "npe": {300.0, 1000.0, 3000.0}, "sbi-snle": {1000.0}}
    assert budgets[1]["abc"] == budgets[1]["npe"] == budgets[1]["sbi-snle"] == {300.0, 1000.0, 3000.0}


def test_all_problems_are_listed(capsys):
    pytest.importorskip("numba")
    assert run("--list") == 0
    shown = capsys.readouterr().out
    assert all(f"{name} " in shown for name in PROBLEMS)


@pytest.mark.parametrize(
    "options", [["--problems", "magic"], ["--methods", "magic"], ["--budgets", "many"], ["--seeds", "0"]]
)
def test_nonsense_is_refused(options, tmp_path, capsys):
    assert run(*options, "--out", str(tmp_path / "out")) == 2
    assert not (tmp_path / "out").exists() and capsys.readouterr().err


@pytest.mark.slow
def test_the_quick_set_runs(tmp_path):
    """The set behind `thrifty benchmark --quick`: within five minutes of CPU time."""
    begin = time.process_time()
    assert run("--quick", "--out", str(tmp_path)) == 0
    assert time.process_time() - begin < 300
    found = read_records(tmp_path / "records.jsonl")
    assert not [r.error for r in found if r.error]
    assert {r.method for r in found} == {"npe", "npe-aware", "abc", "abc-aware", "smcabc-aware"}
