"""Rounds from the command line: what is asked for, one line a round, killed and continued, kept and reported."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import thrifty as th
from thrifty.cli.config import read_config
from thrifty.report.results import read_results

from .conftest import MODEL, TOML, Project, environment, shell
from .test_journey import recorded, table_hash
from .test_terminal import Terminal

pytest.importorskip("torch")

ROUNDS = TOML.replace("n = 60", "n = 120").replace('method = "abc"\nquantile = 0.3\n', "rounds = 2\n")
assert "rounds = 2" in ROUNDS and "abc" not in ROUNDS


def write_project(home: Path, toml: str = ROUNDS, model: str = MODEL) -> Path:
    home.mkdir(exist_ok=True)
    (home / "thrifty.toml").write_text(toml)
    (home / "model.py").write_text(textwrap.dedent(model))
    (home / "observed.csv").write_text("1.0, 0.2\n")
    return home


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A project whose rounds were run in a terminal of their own, and what it showed."""
    home = write_project(tmp_path_factory.mktemp("rounds") / "project")
    terminal = Terminal(home, "run")
    assert terminal.end(300) in (0, 4), terminal.text[-2000:]
    return home, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.text)


def test_a_terminal_shows_one_line_a_round(ran: tuple[Path, str]):
    _, text = ran
    lines = re.findall(r"^round (\d) +(\d+) runs, ([\d.]+) steps, posterior takes [\d.]+% of the prior", text, re.M)
    assert [number for number, *_ in lines] == ["0", "1"]
    assert sum(int(runs) for _, runs, _ in lines) == 120  # the pilot is a part of round 0
    assert re.search(r"^round 1 .*, moved \d+\.\d\d sd", text, re.M) and "Traceback" not in text
    assert "rounds    2 done: all runs are used" in text and "verdict" in text
    assert "next: thrifty report runs/one" in text


def test_the_result_is_kept_with_its_checks(ran: tuple[Path, str]):
    home, _ = ran
    (result,) = read_results(home / "runs/one")
    assert (result.name, result.method) == ("nle-rounds", "nle-rounds") and result.diagnosis is not None
    assert result.posterior_path is not None and th.load_posterior(result.posterior_path) is not None
    # x ~ N(theta, 0.1^2) under a flat prior: within five standard deviations for any network that has learned this
    assert np.all(np.abs(result.samples.mean(0) - [1.0, 0.2]) < 0.5)


def test_status_shows_the_rounds(ran: tuple[Path, str]):
    home, _ = ran
    typed = shell(home, "status")
    assert typed.returncode == 0 and "complete, 120 of 120 runs done (20 pilots)" in typed.stdout
    assert re.search(r"round 0: \d+ runs.*\nround 1: \d+ runs, posterior takes .*moved", typed.stdout)
    assert "per effective run" not in typed.stdout and "next: thrifty report runs/one" in typed.stderr
    found = json.loads(shell(home, "status", "--json").stdout)
    assert sum(one["n"] for one in found["rounds"]) == 120


def test_again_runs_nothing_and_finds_the_same(ran: tuple[Path, str]):
    home, _ = ran
    (before,), digest = read_results(home / "runs/one"), table_hash(home / "runs/one")
    typed = shell(home, "run", "--json")
    assert typed.returncode in (0, 4), typed.stderr
    status, study = (json.loads(line) for line in typed.stdout.splitlines())
    assert status["stopped"] == "runs" and status["done"] == 120 and study["method"] == "nle-rounds"
    (after,) = read_results(home / "runs/one")
    assert np.array_equal(before.samples, after.samples) and table_hash(home / "runs/one") == digest


def test_the_pool_serves_other_methods(ran: tuple[Path, str], tmp_path: Path):
    home, _ = ran
    config = home / "thrifty.toml"
    typed = shell(home, "infer", "--method", "abc", "--no-checks", "--name", "abc", "--config", str(config))
    assert typed.returncode == 0, typed.stderr
    out = tmp_path / "pool.npz"
    assert shell(home, "export", "--out", str(out)).returncode == 0
    assert len(th.Simulations.from_npz(out)) == 120
    page = shell(home, "report", "--out", str(tmp_path / "r.html"))
    assert page.returncode == 0 and '<section id="rounds">' in (tmp_path / "r.html").read_text()


def test_without_rounds_the_folder_is_left_alone(ran: tuple[Path, str]):
    """A plan over the whole prior would be added to it, and paid for."""
    home, _ = ran
    (home / "plain.toml").write_text(ROUNDS.replace("rounds = 2\n", ""))
    typed = shell(home, "run", "--config", "plain.toml")
    assert typed.returncode == 2 and "is run in rounds" in typed.stderr and "--rounds 4 --observed" in typed.stderr
    assert th.Campaign.open(home / "runs/one").status().planned == 120


def test_plan_says_what_is_known(project: Project):
    project.write("thrifty.toml", ROUNDS)
    typed = project.type("plan")
    assert typed.code == 0 and "rounds = 2, method = nle, n = 120" in typed.out
    assert "20 runs" in typed.err and "a part of round 0" in typed.err and "120 runs in all" in typed.err
    assert "chosen" not in typed.out and "next: thrifty run runs/one" in typed.err
    assert th.Campaign.open("runs/one").status().planned == 20


@pytest.mark.slow
def test_killed_in_a_round_and_continued(ran: tuple[Path, str], tmp_path: Path):
    slow = MODEL.replace("x = theta", "import time; time.sleep(0.05)\n    x = theta")
    home = write_project(tmp_path / "p", model=slow)
    process = subprocess.Popen([sys.executable, "-m", "thrifty", "run", "-q"], cwd=home, env=environment())
    until = time.monotonic() + 120
    while recorded(home / "runs/one") < 30 and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 20 < recorded(home / "runs/one") < 120
    stopped = shell(home, "status")
    assert "next: thrifty run runs/one" in stopped.stderr
    assert shell(home, "run").returncode in (0, 4)
    assert table_hash(home / "runs/one") == table_hash(ran[0] / "runs/one")


def test_options_come_before_the_file(project: Project):
    """Two observations by options: one result each; the method of the file, which rounds cannot use, is replaced."""
    project.toml(("n = 60", "n = 120"))
    project.write("two.csv", "1.0, 0.2\n0.5, -0.3\n")
    typed = project.type("run", "--rounds", "1", "--observed", "two.csv", "--method", "npe")
    assert typed.code in (0, 4), typed.err
    assert [result.name for result in read_results("runs/one")] == ["npe-rounds-1", "npe-rounds-2"]
    assert "rounds    1 done" in typed.err


def test_a_file_with_rounds_takes_nle_unless_it_says_otherwise(tmp_path: Path):
    home = write_project(tmp_path / "p")
    assert read_config(home / "thrifty.toml").infer.method == "nle"
    (home / "thrifty.toml").write_text(ROUNDS.replace("rounds = 2", 'rounds = 2\nmethod = "npe"'))
    assert read_config(home / "thrifty.toml").infer.method == "npe"
    (home / "thrifty.toml").write_text(ROUNDS.replace("rounds = 2\n", ""))
    assert read_config(home / "thrifty.toml").infer.method == "npe"  # one fit, as ever


def test_all_mistakes_of_rounds_at_once_with_their_lines(project: Project):
    text = ROUNDS.replace('observed = "observed.csv"\n', "").replace("rounds = 2", 'rounds = 0\nmethod = "abc"')
    text = text.replace("seed = 3", "seed = 3\nmixture = true").replace(
        'engine = "inline"', 'time_limit = 60\non_timeout = "lazy"\ndeadline = "40 min"'
    )
    project.write("thrifty.toml", text)
    typed = project.type("run")
    assert typed.code == 2
    lines = text.splitlines()
    for key, words in (
        ("rounds", "rounds = 0, expected at least 1"),
        ("rounds", "rounds are run at an observation, and observed is missing"),
        ("method", 'method = "abc" cannot be used in rounds'),
        ("mixture", "mixture cannot be used in rounds"),
        ("time_limit", "time_limit cannot be used in rounds"),
        ("deadline", "deadline cannot be used in rounds"),
    ):
        number = next(i for i, line in enumerate(lines, start=1) if line.startswith(f"{key} ="))
        assert f"thrifty.toml line {number}: {words}" in typed.err, (key, typed.err)
    assert typed.err.count("error[") == 6 and not Path("runs").exists()


USAGE = {
    "no observation": (["--rounds", "2", "--method", "nle"], "none is given"),
    "the method of the file": (["--rounds", "2", "--observed", "observed.csv"], '"abc" cannot be used in rounds'),
    "an observation alone": (["--observed", "observed.csv"], "--observed without --rounds"),
    "a deadline": (
        ["--rounds", "2", "--observed", "observed.csv", "--method", "nle", "--deadline", "40 min"],
        "deadline cannot be used in rounds",
    ),
    "no rounds": (["--rounds", "0", "--observed", "observed.csv"], "--rounds"),
    "another method": (["--rounds", "2", "--method", "abc"], "'abc' is not one of"),
}


@pytest.mark.parametrize(("words", "message"), USAGE.values(), ids=USAGE)
def test_mistakes_on_the_command_line(project: Project, words: list[str], message: str):
    project.toml(('observed = "observed.csv"\n', ""))
    typed = project.type("run", *words)
    assert typed.code == 2 and message in typed.err and not Path("runs").exists()


def test_an_observation_of_the_wrong_length_costs_the_first_run_only(project: Project):
    project.write("thrifty.toml", ROUNDS)
    project.write("observed.csv", "1.0, 0.2, 3.0\n")
    typed = project.type("run")
    assert typed.code == 2 and "observed data has 3 values, simulations have 2" in typed.err
    assert th.Campaign.open("runs/one").status().done <= 2


FAILING = MODEL.replace(
    "    x = theta", "    if theta[0] > 2.4:\n        raise ValueError('no convergence')\n    x = theta"
)
assert FAILING != MODEL


@pytest.mark.parametrize("method", ["npe", "nle"])
def test_max_failed_is_an_option_of_rounds(method: str, project: Project):
    """A fifth of the prior fails: refused with an option that exists, and accepted with it."""
    write_project(project.home, model=FAILING)
    refused = project.type("run", "--method", method)
    assert refused.code == 4 and "error[too-many-failures]" in refused.err and "--max-failed 0.2" in refused.err
    accepted = project.type("run", "--method", method, "--max-failed", "0.5")
    assert "2 done: all runs are used" in accepted.err, accepted.err
    (result,) = read_results(project.home / "runs/one")
    posterior = th.load_posterior(result.posterior_path)
    assert (getattr(posterior, "valid", None) is not None) == (method == "nle"), "P(valid | theta) is learned"
    assert "th." not in re.sub(r"\w+\.py", "", accepted.err)


@pytest.mark.parametrize("engine", ["inline", "processes"])
@pytest.mark.parametrize("command", ["run", "plan"])
def test_another_shape_is_refused_before_the_pilot_is_paid_for(command: str, engine: str, project: Project):
    slow = MODEL.replace("x = theta", "import time; time.sleep(0.05)\n    x = theta")
    toml = ROUNDS.replace("pilot = 20", "pilot = 60").replace('engine = "inline"', f'engine = "{engine}"')
    write_project(project.home, toml, slow)
    (project.home / "observed.csv").write_text("1.0, 0.2, 0.3\n")
    typed = project.type(command)
    assert typed.code == 2 and "observed data has 3 values, simulations have 2" in typed.err
    assert th.Campaign.open(project.home / "runs/one").status().done < 30, "what was run is kept"
    (project.home / "observed.csv").write_text("1.0, 0.2\n")
    assert project.type("plan").code == 0, "and continued"


def test_max_failed_of_a_plain_run_is_refused(project: Project):
    typed = project.type("run", "--max-failed", "0.5")
    assert typed.code == 2 and "--max-failed without --rounds" in typed.err
