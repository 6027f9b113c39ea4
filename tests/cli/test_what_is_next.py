"""What a command line says: programs found where they were typed, the right next step, options that exist."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

import thrifty as th
from thrifty.cli.commands.init import example_files
from thrifty.cli.failed_runs import describe_failures
from thrifty.cli.finish_study import translate_advice

from .conftest import Project

PROGRAM = '#!/bin/sh\necho "[$1, $2]"\n'


def written_command(folder: Path) -> list[str]:
    return tomllib.loads((folder / "thrifty.toml").read_text())["simulator"]["command"]


@pytest.mark.parametrize(
    ("folder", "typed", "kept"),
    [
        ("sub", "./walk {a} {b}", "../walk"),
        ("sub/deep", "./walk {a} {b}", "../../walk"),
        (".", "./walk {a} {b}", "./walk"),
        ("sub", "walk {a} {b}", "../walk"),  # not on the path, but here
        ("sub", "bin/tool {a} {b}", "../bin/tool"),
    ],
)
def test_a_program_is_found_where_it_was_typed(folder, typed, kept, project: Project, monkeypatch):
    Path("thrifty.toml").unlink()
    Path("bin").mkdir()
    for name in ("walk", "bin/tool"):
        Path(name).write_text(PROGRAM)
        Path(name).chmod(0o755)
    ended = project.type("init", folder, "--command", typed)
    assert ended.code == 0 and "not there yet" not in ended.err
    assert written_command(Path(folder)) == [kept, "{a}", "{b}"]
    monkeypatch.chdir(folder)
    assert project.type("check").code == 0, "the written command runs"


def test_files_among_the_arguments_are_found_too(project: Project):
    Path("data.csv").write_text("1\n")
    absolute = str(Path("data.csv").absolute())
    ended = project.type("init", "sub", "--command", f"python model.py {{a}} data.csv {absolute} --mode data")
    assert ended.code == 0
    command = ["python", "../model.py", "{a}", "../data.csv", absolute, "--mode", "data"]
    assert written_command(Path("sub")) == command


def test_status_says_what_is_next(done: Project):
    assert "next: thrifty infer runs/one\n" in done.type("status").err, "thrifty.toml names the observation"
    done.toml(('observed = "observed.csv"\n', ""))
    assert "next: thrifty infer runs/one --observed observed.csv" in done.type("status").err
    assert done.type("infer", "--method", "abc", "--observed", "observed.csv", "--no-checks").code == 0
    ended = done.type("status")
    assert "inferred abc" in ended.out and "next: thrifty report runs/one" in ended.err
    found = json.loads(done.type("status", "--json").out)
    assert found["results"] == ["abc"] and found["next"] == "thrifty report runs/one"


def test_the_outbreak_of_the_example_does_not_die_out():
    """Final size and duration are those of an outbreak that reached most of 1000 people."""
    x_o = np.array([float(value) for value in example_files("sir")["observed.csv"].split(",")])
    assert x_o[0] > 500 and x_o[2:].sum() == x_o[0] and (x_o[2:] > 0).all()
    assert th.models.TemporalSIR().observed(3)[0] < 10, "the model's own parameters gave one that died out"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("note: cost model not checked: pass cost=", "note: cost model not checked"),
        ("note: local ESS and predictive not checked: pass prior=", "note: local ESS and predictive not checked"),
        ("only 3 near; run its draws and pass them as fresh=",
         "only 3 near; a larger n under [plan] in thrifty.toml adds runs"),
        ("Is it calibrated? yes: ranks pass a test", "Is it calibrated? yes: ranks pass a test"),
    ],
)  # fmt: skip
def test_notes_name_no_argument_of_python(line, shown):
    assert translate_advice(line) == shown


def test_every_note_of_a_diagnosis_can_be_shown():
    """No advice of the diagnosis is left that names an argument, whatever is written there later."""
    source = "".join(path.read_text() for path in Path(th.diagnostics.__file__).parent.glob("*.py"))
    notes = [line.strip() for line in source.splitlines() if "pass " in line and '="' in line and "notes" in line]
    assert notes
    for line in notes:
        assert "pass " not in translate_advice(line.split('"')[1]), line


def varying(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if theta[0] > 0.9:
        raise ValueError(f"no root at {theta[0]}")
    return np.ones(2 if theta[0] < 0.3 else 3) * rng.normal()


@pytest.mark.filterwarnings("ignore::thrifty.ThriftyWarning")
def test_why_runs_failed(tmp_path: Path):
    c = th.Campaign(tmp_path / "c", varying, th.Uniform(0, 1), seed=1)
    c.pilot(60, engine=th.Inline(), progress="quiet")
    text, example = describe_failures(c)
    short, none = (c.simulations(max_failed=1).theta[:, 0] < 0.3), (c.simulations(max_failed=1).theta[:, 0] > 0.9)
    assert short.sum() > none.sum() > 0 and example == np.flatnonzero(short)[0]
    assert text.startswith(
        f"{short.sum() + none.sum()} runs failed: {short.sum()} returned 2 values, the others 3 values;"
        f" {none.sum()} ValueError: no root at 0.9"
    )
    assert text.endswith(f"(for example run {example}: thrifty replay {example})")
