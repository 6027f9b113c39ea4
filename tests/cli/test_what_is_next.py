"""What a command line says: programs found where they were typed, the right next step, options that exist."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import thrifty as th
from thrifty.cli.advice import translate_advice
from thrifty.cli.commands.check import Findings
from thrifty.cli.commands.init import example_files
from thrifty.cli.failed_runs import describe_failures
from thrifty.cli.finish_study import advise_more_runs
from thrifty.diagnostics.diagnosis import Diagnosis
from thrifty.report.drop_python import drop_python

from .conftest import Project, Typed

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


@dataclass(frozen=True)
class Judged:
    name: str
    verdict: str
    reason: str = "as measured"


@pytest.mark.parametrize(
    ("check", "verdict", "method", "words"),
    [("sbc", "do not trust", "abc", ["larger n", "--method npe"]), ("weights", "do not trust", "npe", ["larger n"]),
     ("sbc", "with care", "abc", []), ("misspecification", "do not trust", "abc", [])],
)  # fmt: skip
def test_a_posterior_that_is_not_trusted_is_followed_by_what_to_try(check, verdict, method, words):
    advice = advise_more_runs(Diagnosis((Judged(check, verdict),), ()), method)  # type: ignore[arg-type]
    assert bool(advice) is bool(words) and all(word in advice for word in words)
    assert ("--method npe" in advice) is ("--method npe" in words)


def test_the_outbreak_of_the_example_does_not_die_out():
    """Final size and duration are those of an outbreak that reached most of 1000 people."""
    x_o = np.array([float(value) for value in example_files("sir")["observed.csv"].split(",")])
    assert x_o[0] > 500 and x_o[2:].sum() == x_o[0] and (x_o[2:] > 0).all()
    assert th.models.TemporalSIR().observed(3)[0] < 10, "the model's own parameters gave one that died out"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("note: cost model not checked: pass cost=", "note: cost model not checked"),
        ("note: cost model not checked: the study has none; th.diagnose(study, cost=...)",
         "note: cost model not checked: the study has none"),
        ("note: local ESS and predictive not checked: pass prior=", "note: local ESS and predictive not checked"),
        ("only 3 near; run its draws and pass them as fresh=",
         "only 3 near; a larger n under [plan] in thrifty.toml adds runs"),
        ("Is it calibrated? yes: ranks pass a test", "Is it calibrated? yes: ranks pass a test"),
    ],
)  # fmt: skip
def test_notes_name_no_argument_of_python(line, shown):
    assert translate_advice(line) == shown


PYTHON = re.compile(r"\bth\.[A-Za-z]\w*|\b[a-z_]+=(?=\s|$|\)|\.\.\.)|\b[a-z_]+\((?:\.\.\.|\w+=)")
PYTHON_ONLY = ("[other-cost] cost= is", "does not tell how many workers", "live= and refresh=", "sbi's score estimator")


def read_text(node: ast.AST) -> str:
    """Return the text of a literal, with a number where a value is filled in; empty for anything else."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "9" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def list_notes(tree: ast.Module) -> list[str]:
    """Return every text of a module that is neither a docstring nor a part of an error."""
    left_out = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.Raise) for inner in ast.walk(node)}
    owners = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)]
    left_out |= {id(node.body[0].value) for node in owners if isinstance(node.body[0], ast.Expr)}
    return [read_text(node) for node in ast.walk(tree) if id(node) not in left_out]


def list_warnings(tree: ast.Module) -> list[str]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return [read_text(call.args[0]) for call in calls if call.func.id == "warn" and call.args]


def test_every_note_and_warning_can_be_shown():
    """Nothing of Python is left in notes of the diagnosis and in warnings, whatever is written there later."""
    home = Path(th.diagnostics.__file__).parents[1]
    texts = [text for path in (home / "diagnostics").glob("*.py") for text in list_notes(ast.parse(path.read_text()))]
    texts += [text for path in home.rglob("*.py") for text in list_warnings(ast.parse(path.read_text()))]
    named = [text for text in texts if " " in text and PYTHON.search(text)]
    assert len(named) > 10, "the search finds what is translated"
    shown = [translate_advice(text) for text in named if not any(words in text for words in PYTHON_ONLY)]
    assert not [text for text in shown if PYTHON.search(text)]
    notes = [text for path in (home / "diagnostics").glob("*.py") for text in list_notes(ast.parse(path.read_text()))]
    page = [drop_python(text) for text in notes if " " in text]
    assert not [text for text in page if PYTHON.search(text)], "nor on the page"


def test_check_advises_wall_time_for_a_program_that_waits(project: Project):
    (project.home / "sleepy.sh").write_text("#!/bin/sh\nsleep 0.1\necho $1 $2\n")
    (project.home / "sleepy.sh").chmod(0o755)
    command = ('python = "model.py:simulate"', 'command = ["./sleepy.sh", "{a}", "{b}"]\noutput = "csv"')
    project.toml(command, ('measure = "reported"\nunit = "steps"', 'measure = "cpu"'))
    advice = r"a run takes 0\.\d+ s and uses .* of CPU time: it waits; measure = \"wall\" under"
    assert re.search(advice, project.type("check").out)
    project.toml(command, ('measure = "reported"\nunit = "steps"', 'measure = "wall"'))
    assert "it waits" not in project.type("check").out


@pytest.mark.parametrize(
    ("wall", "waits"),
    [((0.5, 0.6, 0.4), True), ((0.5, 0.6, 0.2), False), ((0.11, 0.12, 0.1), False)],
    ids=["sleeps", "one run did not", "works"],
)
def test_only_runs_that_all_wait_are_said_to_wait(wall: tuple[float, ...], waits: bool):
    """On a busy machine single runs take several times their CPU time, here 0.1 s."""
    cpu = (0.1, 0.1, 0.1)
    shown = {"outputs": (1,), "names": (), "deterministic": True, "wall": wall, "cpu": cpu, "reported": cpu}
    shown |= {"noise": 1.0, "threads": 1.0, "memory": 0, "same_output": False, "costs": {"wall": wall, "cpu": cpu}}
    assert Findings(**shown)._waits() == waits
    short = {"wall": (0.01, 0.01), "cpu": (0.001, 0.001)}
    assert not Findings(**shown | {"costs": short})._waits(), "to start a process takes that long"


def test_a_misspelt_script_is_named_before_it_fails(project: Project):
    (project.home / "walk.py").write_text("print(1.0)\n")
    project.toml(('python = "model.py:simulate"', f'command = ["{sys.executable}", "wlak.py", "{{a}}", "out.csv"]'))
    typed = project.type("check")
    assert "the command names wlak.py, and there is no such file. Did you mean 'walk.py'?" in typed.err
    assert "out.csv" not in typed.err.split("Did you mean")[0], "a file that it writes is not looked for"
    assert "did you mean ./walk.sh?" in _init_beside(project, "walk.sh", "./wlak.sh {a}").err


def _init_beside(project: Project, program: str, command: str) -> Typed:
    (project.home / program).write_text("#!/bin/sh\n")
    (project.home / program).chmod(0o755)
    (project.home / "thrifty.toml").unlink()
    return project.type("init", "--command", command)


def test_a_misspelt_program_is_written_as_seen_from_where_it_was_typed(project: Project, monkeypatch):
    (project.home / "walk.sh").write_text(PROGRAM)
    (project.home / "walk.sh").chmod(0o755)
    ended = project.type("init", "sub", "--command", "./wlak.sh {a} {b}")
    assert "did you mean ./walk.sh? Correct it in sub/thrifty.toml" in ended.err
    assert written_command(Path("sub"))[0] == "../wlak.sh"
    monkeypatch.chdir("sub")
    ended = project.type("check")
    assert "Did you mean '../walk.sh'?" in ended.err and "fix: write ../walk.sh in the command" in ended.err


@pytest.mark.parametrize("typed", [["./walk", "{a}", "--seed", "{seed}"], ["./walk", "{a}", "{b}"]])
def test_a_command_without_quotes_is_explained(typed, project: Project):
    ended = project.type("init", "sub", "--command", *typed)
    assert ended.code == 2 and "stand in quotes: --command './model {a}" in ended.err
    assert "quotes" not in project.type("init", "sub", "--exmaple", "sir").err


def test_thrifty_alone_shows_its_commands_in_whole_sentences(project: Project):
    ended = project.type()
    assert ended.code == 0 and ended.err == "" and ended.out == project.type("--help").out
    commands = ended.out.partition("Commands:")[2].strip().splitlines()
    assert len(commands) == 14 and all(line.endswith(".") and not line.endswith("...") for line in commands)


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
