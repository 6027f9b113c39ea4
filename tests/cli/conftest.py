"""A small project to type commands in, and ways to type them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import thrifty
from thrifty.cli.main import invoke as run

SOURCE = str(Path(thrifty.__file__).parents[1])

MODEL = '''
import numpy as np
import thrifty as th

def simulate(theta, rng):
    """Cheap to run; what it says it costs grows with the first parameter."""
    x = theta + 0.1 * rng.normal(size=2)
    return th.Output(x, cost=float(np.exp(theta[0])))
'''

TOML = """
[simulator]
python = "model.py:simulate"

[prior]
a = { family = "uniform", low = 0.0, high = 3.0 }
b = { family = "uniform", low = -1.0, high = 1.0 }

[cost]
measure = "reported"
unit = "steps"

[plan]
n = 60
pilot = 20
seed = 3

[run]
folder = "runs/one"
engine = "inline"

[infer]
method = "abc"
quantile = 0.3
observed = "observed.csv"
"""


@dataclass(frozen=True)
class Typed:
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Project:
    """A folder with thrifty.toml, model.py and observed.csv, entered."""

    home: Path
    capture: pytest.CaptureFixture[str]

    def type(self, *words: str) -> Typed:
        """Type a command, in this process."""
        self.capture.readouterr()
        code = run(list(words))
        out, err = self.capture.readouterr()
        return Typed(code, out, err)

    def write(self, name: str, text: str) -> None:
        """Write a file of the project."""
        (self.home / name).write_text(textwrap.dedent(text))

    def toml(self, *changes: tuple[str, str]) -> None:
        """The configuration with replacements; each must apply."""
        text = TOML
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        self.write("thrifty.toml", text)

    def tree(self) -> dict[str, bytes]:
        """Every file and what is in it."""
        passing = ("lock", "store.sqlite-wal", "store.sqlite-shm")  # who looked last, and what readers need for it
        files = [p for p in self.home.rglob("*") if "__pycache__" not in p.parts and p.name not in passing]
        return {str(p.relative_to(self.home)): p.read_bytes() if p.is_file() else b"" for p in sorted(files)}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Project]:
    home = tmp_path / "project"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setattr(sys, "path", list(sys.path))
    project = Project(home, capsys)
    project.toml()
    project.write("model.py", MODEL)
    project.write("observed.csv", "1.0, 0.2\n")
    yield project
    for name in ("model", "thrifty_model_model"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a finished campaign of 80 runs, made once by the command line."""
    home = tmp_path_factory.mktemp("finished")
    (home / "thrifty.toml").write_text(TOML)
    (home / "model.py").write_text(textwrap.dedent(MODEL))
    ended = shell(home, "run", "--quiet")
    assert ended.returncode == 0, ended.stderr
    return home / "runs" / "one"


@pytest.fixture
def done(project: Project, finished: Path) -> Project:
    """A project whose campaign is finished."""
    shutil.copytree(finished, project.home / "runs" / "one")
    return project


def environment(**more: str) -> dict[str, str]:
    """The environment of a command typed in a shell of its own."""
    path = os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])
    keep = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    return {**keep, "PYTHONPATH": path, "TERM": "xterm", "COLUMNS": "120", **more}


def shell(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Type a command in a process of its own, without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "thrifty", *words],
        cwd=home,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


Shell = Callable[..., subprocess.CompletedProcess[str]]
