"""Every study has the one form, goes on after a kill, and the page is what its records make."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOY = """
import sys, time
from pathlib import Path
sys.path.insert(0, {studies!r})
from common import Study, main

def tasks(full, seeds):
    return [{{"seed": s, "n": 3}} for s in range(seeds or 6)]

def work(task, folder):
    import numpy as np
    time.sleep({pause})
    return [{{"value": float(np.random.default_rng(task["seed"]).normal()), "n_is": task["n"]}}]

STUDY = Study("toy", tasks, work, lambda record: "done", lambda record, path: path.write_bytes(b""))
if __name__ == "__main__":
    main(STUDY, "toy", sys.argv[1:])
"""


def script(folder: Path, pause: float) -> Path:
    path = folder / "toy.py"
    path.write_text(TOY.format(studies=str(ROOT / "studies"), pause=pause))
    return path


def finished(folder: Path, *options: str) -> dict:
    subprocess.run([sys.executable, str(script(folder, 0.0)), "--out", str(folder), *options], check=True)
    return json.loads((folder / "toy-quick" / "toy.json").read_text())


def test_a_killed_study_goes_on_with_the_same_rows(tmp_path):
    """SIGKILL after some rows, one line cut short: nothing lost, nothing done twice, the same values in the end."""
    (tmp_path / "killed").mkdir()
    (tmp_path / "whole").mkdir()
    slow = subprocess.Popen([sys.executable, str(script(tmp_path / "killed", 0.3)), "--out", str(tmp_path / "killed")])
    rows = tmp_path / "killed" / "toy-quick" / "rows.jsonl"
    deadline = time.monotonic() + 60
    while not (rows.exists() and rows.read_text().count("\n") >= 2):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(slow.pid, signal.SIGKILL)
    slow.wait()
    before = rows.read_text().splitlines()
    assert 2 <= len(before) < 6, "killed in the middle"
    rows.write_text("\n".join(before) + "\n" + before[0][: len(before[0]) // 2])
    continued, whole = finished(tmp_path / "killed"), finished(tmp_path / "whole")
    assert continued["values"] == whole["values"] and continued["tasks"] == 6
    after = rows.read_text().splitlines()
    assert after[: len(before)] == before, "rows that were done stay as they are"
    assert len(after) == 6


def test_workers_change_nothing_and_more_seeds_only_add(tmp_path):
    one = finished(tmp_path, "--seeds", "2")
    (tmp_path / "two").mkdir()
    two = finished(tmp_path / "two", "--seeds", "4", "--workers", "2")
    assert two["values"][:2] == one["values"] and len(two["values"]) == 4


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_task_that_fails_costs_no_other(tmp_path, workers):
    """Its name is told at the end; the rest is kept, and only it is missing afterwards."""
    path = script(tmp_path, 0.0)
    path.write_text(
        path.read_text().replace("    import numpy", "    assert task['seed'] != 1, 'no luck'\n    import numpy")
    )
    command = [sys.executable, str(path), "--out", str(tmp_path), "--workers", workers]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == 1 and "1 of 6 tasks failed" in ended.stderr and "no luck" in ended.stderr
    assert (tmp_path / "toy-quick" / "rows.jsonl").read_text().count("\n") == 5
    assert finished(tmp_path)["tasks"] == 6


def test_a_worker_that_dies_stops_the_study_with_one_sentence(tmp_path):
    path = script(tmp_path, 0.0)
    text = path.read_text().replace("import numpy", "os.kill(os.getpid(), 9 * (task['seed'] == 3)); import numpy")
    path.write_text(text.replace("import sys, time", "import os, sys, time"))
    ended = subprocess.run([sys.executable, str(path), "--out", str(tmp_path), "--workers", "2"], check=False,
                           capture_output=True, text=True)  # fmt: skip
    assert ended.returncode == 1 and "a worker died" in ended.stderr and "Traceback" not in ended.stderr
    assert finished(tmp_path)["tasks"] == 6


@pytest.mark.parametrize(
    "line", [b"null", b"123", b"[]", b'{"a": 1}', b'{"task": {}, "values": []}', b"\xff\xfe", b'{"task": 1']
)
def test_lines_that_are_no_rows_are_moved_aside(tmp_path, line, capfd):
    whole = finished(tmp_path)
    rows = tmp_path / "toy-quick" / "rows.jsonl"
    rows.write_bytes(line + b"\n" + rows.read_bytes())
    assert finished(tmp_path)["values"] == whole["values"]
    assert "1 of 7 lines" in capfd.readouterr().out
    assert (tmp_path / "toy-quick" / "rows.bad").read_bytes() == line + b"\n"


def test_a_second_command_leaves_the_rows_of_a_running_study_alone(tmp_path, study):
    """A half-written line is the running study's business: `--done` beside it must not replace the file."""
    common = study("common")
    finished(tmp_path, "--seeds", "2")
    rows = tmp_path / "toy-quick" / "rows.jsonl"
    with common.alone(rows.parent), rows.open("a") as running:
        running.write('{"task": {"se')
        running.flush()
        with pytest.raises(subprocess.CalledProcessError):
            finished(tmp_path, "--done")
        assert os.fstat(running.fileno()).st_ino == rows.stat().st_ino


def test_an_interrupt_ends_with_one_sentence(tmp_path):
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it, as would this
    started = subprocess.Popen([sys.executable, str(script(tmp_path, 0.3)), "--out", str(tmp_path)],
                               stderr=subprocess.PIPE, text=True, preexec_fn=listen)  # fmt: skip  # noqa: PLW1509 - no threads here
    rows = tmp_path / "toy-quick" / "rows.jsonl"
    deadline = time.monotonic() + 60
    while not (rows.exists() and rows.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    started.send_signal(signal.SIGINT)
    said = started.communicate(timeout=60)[1]
    assert "what is done is kept" in said and "Traceback" not in said
    assert finished(tmp_path)["tasks"] == 6


def test_workers_end_with_a_study_that_is_killed(tmp_path):
    """Else they would go on beside the next run, which does the same tasks again."""
    started = subprocess.Popen([sys.executable, str(script(tmp_path, 0.4)), "--out", str(tmp_path), "--workers", "2"])
    rows = tmp_path / "toy-quick" / "rows.jsonl"
    deadline = time.monotonic() + 60
    while not (rows.exists() and rows.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    while any(_runs(int(child)) for child in children):
        assert time.monotonic() < deadline, "workers are left behind"
        time.sleep(0.1)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_second_run_in_the_same_folder_is_refused(tmp_path):
    first = subprocess.Popen([sys.executable, str(script(tmp_path, 0.5)), "--out", str(tmp_path)])
    rows = tmp_path / "toy-quick" / "rows.jsonl"
    deadline = time.monotonic() + 60
    while not rows.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    second = subprocess.run(first.args, check=False, capture_output=True, text=True)
    assert second.returncode == 1 and "in use by another run" in second.stderr
    assert first.wait() == 0 and rows.read_text().count("\n") == 6


def test_verdicts_can_be_no(study):
    """Saved less, or MMD² above rounding and two standard errors: both are told."""
    two = study("table2")
    rows = [{"saved": 0.86, "mmd2": 0.07 + 0.001 * (-1) ** i, "narrow": 0.2} for i in range(50)]
    paper = two.paper_row("TemporalSIR", "k=2")
    assert two.verdict(rows, paper)[1] and not two.verdict(rows, paper, "narrow")[1]
    assert not two.verdict([row | {"mmd2": row["mmd2"] + 0.015} for row in rows], paper)[1]
    claim = study("claims").Claim("", paper, rows, [])
    assert claim._saved(paper[2]) == ("86%", "yes")
    fewer = study("claims").Claim("", paper, [row | {"saved_with_pilot": 0.8} for row in rows], [], pilot_counted=True)
    assert fewer._saved(paper[2]) == ("80% (86%)", "**no** (yes)"), "a pilot that is trained on is paid for"


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_rows_tell_the_code_that_made_them(tmp_path):
    record = finished(tmp_path)
    assert sum(record["commits"].values()) == record["tasks"] and "unknown" not in record["commits"]


def test_a_record_of_what_is_done(tmp_path):
    """A study stopped on the way can be looked at without running the rest."""
    finished(tmp_path, "--seeds", "2")
    assert len(finished(tmp_path, "--done")["values"]) == 2
    (tmp_path / "none").mkdir()
    with pytest.raises(subprocess.CalledProcessError):
        finished(tmp_path / "none", "--done")


@pytest.mark.parametrize("options", [["--seeds", "0"], ["--workers", "0"], ["--quick", "--full"], ["--seed", "x"]])
def test_bad_options_are_refused_before_anything_starts(tmp_path, study, options):
    with pytest.raises(SystemExit) as caught:
        study("table1").main([*options, "--out", str(tmp_path)])
    assert caught.value.code == 2
    assert list(tmp_path.iterdir()) == []


def test_every_study_has_the_form(study):
    """One docstring line first, a main, tasks for both sizes that differ, all settings plain numbers."""
    page = study("reproduction_page")
    for name in page.SECTIONS:
        module = study(name)
        first = (module.__doc__ or "").splitlines()[0]
        assert first.endswith(".") and callable(module.main), name
        sizes = {full: module.tasks(full, None) for full in (False, True)}
        assert sizes[False] != sizes[True]
        assert json.loads(json.dumps(sizes[True])) == sizes[True]
        assert len(module.tasks(True, 1)) <= len(sizes[True])
    counts = [task["model"] for task in study("table2").tasks(True, None)]
    assert [counts.count(m) for m in ("HomogeneousSIR", "TemporalSIR", "BernoulliSIR")] == [50, 50, 20]
    assert len(study("table3").tasks(True, None)) == 50


def test_the_page_is_what_its_records_make(study):
    page = study("reproduction_page")
    found = page.records()
    assert found, "records of full runs are kept with the code"
    assert (ROOT / "docs" / "reproduction.md").read_text() == page.page(found), "run python tools/reproduction_page.py"
    for name, record in found.items():
        assert record["size"] == "full" and record["study"] == name and record["seeds"] >= 1
        figure = ROOT / "docs" / page.FIGURES / f"{name}.png"
        assert 5_000 < figure.stat().st_size < 150_000
        assert (page.RESULTS / f"{name}.json").stat().st_size < 400_000


def test_the_appendices_of_the_page_are_closed_until_opened(study):
    page = study("reproduction_page")
    text = (ROOT / "docs" / "reproduction.md").read_text()
    appendices = text.partition("## Appendices")[2].split("\n### ")[1:]
    assert len(appendices) == len(page.records()) + 2
    assert all("\n\n<details markdown>\n<summary>" in one and one.rstrip().endswith("</details>") for one in appendices)
    rows = [line.split("|")[2:-1] for line in text.splitlines() if line.startswith("| ")]
    assert all(any(cell.strip() for cell in row) for row in rows), "a row without anything to say"


def test_the_whole_set_fits_into_six_hours_on_two_cores(study):
    page = study("reproduction_page")
    assert sum(page.hours(name, record) for name, record in page.records().items()) < 12
