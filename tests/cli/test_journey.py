"""The journey: from init to export, with Python, shell and C, killed and continued."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thrifty as th
from thrifty.report.results import read_results

from .conftest import Project, Shell, environment, shell


def table_hash(folder: Path) -> str:
    """Hash of everything that was simulated: parameters, outputs, weights, status, reported cost."""
    sims = th.Campaign.open(folder).simulations()
    digest = hashlib.sha256()
    for part in (sims.index, sims.theta, sims.x, sims.log_weights, sims.cost):
        digest.update(np.ascontiguousarray(part).tobytes())
    digest.update("".join(sims.status.tolist()).encode())
    return digest.hexdigest()


def journey(home: Path, method: str, shell: Shell = shell) -> None:
    """check, plan, run, infer, export: each ends well and says what comes next."""
    for words, follows in (
        (["check"], "next: thrifty plan"),
        (["plan"], "next: thrifty run runs/main"),
        (["run"], "next: thrifty infer runs/main"),
        (["infer", "--method", method, "--observed", "observed.csv"], "next: thrifty report runs/main"),
        (["export", "--to", "npz"], "next: thrifty infer"),
    ):
        ended = shell(home, *words)
        allowed = (0, 4) if words[0] == "infer" else (0,)  # 4: the checks found the answer wanting, and said so
        assert ended.returncode in allowed, ended.stderr
        assert follows in ended.stderr and "Traceback" not in ended.stderr
    sims = th.Simulations.from_npz(home / "main.npz")
    (result,) = read_results(home / "runs" / "main")
    assert len(sims) > 1000 and result.diagnosis is not None
    low, high = th.Campaign.open(home / "runs" / "main").prior.bounds
    assert ((result.samples >= low) & (result.samples <= high)).all()


def test_the_template_of_init_goes_all_the_way(project: Project, monkeypatch: pytest.MonkeyPatch):
    assert project.type("init", "mine").code == 0
    monkeypatch.chdir("mine")

    def typed(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
        found = project.type(*words)
        return subprocess.CompletedProcess(words, found.code, found.out, found.err)

    journey(project.home / "mine", "abc", typed)


@pytest.mark.slow
@pytest.mark.parametrize("example", ["sir", "gamma", "radio"])
def test_the_examples_go_all_the_way(tmp_path: Path, example: str):
    assert shell(tmp_path, "init", "mine", "--example", example).returncode == 0
    journey(tmp_path / "mine", "npe")


@pytest.mark.slow
def test_the_template_goes_all_the_way_with_a_network(tmp_path: Path):
    assert shell(tmp_path, "init", "mine").returncode == 0
    journey(tmp_path / "mine", "npe")


C_SOURCE = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
/* the sum of many small steps: more steps for a larger rate */
int main(int argc, char **argv) {
    double rate = atof(argv[1]), x = 0;
    unsigned long state = strtoul(argv[2], 0, 10) * 2654435761u + 12345u;
    long steps = (long)(200 * exp(rate));
    for (long i = 0; i < steps; i++) {
        state = (state * 6364136223846793005ul + 1442695040888963407ul);
        x += (double)(state >> 40) / 16777216.0 - 0.5;
    }
    printf("{\"x\": [%.17g, %.17g], \"cost\": %ld}\n", rate + x / sqrt(steps), x / steps, steps);
    return 0;
}
"""

SHELL_SOURCE = """#!/bin/sh
# integers only: a shell has no more
rate=${1%.*}
echo "{\\"x\\": [$((rate * 10 + $2 % 7)), $(($2 % 5))], \\"cost\\": $((rate + 1))}"
"""

PYTHON_SOURCE = """
import numpy as np
import thrifty as th

def simulate(theta, rng):
    return th.Output([theta[0] + rng.normal(), rng.normal()], cost=float(np.exp(theta[0])))
"""

ONE_TOML = """
[simulator]
{simulator}
[prior]
rate = {{ family = "uniform", low = 0.0, high = 4.0 }}
[cost]
measure = "reported"
unit = "steps"
[plan]
n = 40
pilot = 20
[run]
folder = "runs/main"
workers = 2
[infer]
method = "abc"
quantile = 0.4
"""


@pytest.mark.parametrize("kind", ["c", "shell", "python"])
def test_any_kind_of_simulator_through_the_same_toml(project: Project, kind: str):
    home = project.home
    simulator = 'command = ["./sim", "{rate}", "{seed}"]'
    if kind == "c":
        (home / "sim.c").write_text(C_SOURCE)
        subprocess.run(["gcc", "-O1", "-o", "sim", "sim.c", "-lm"], cwd=home, check=True)
    elif kind == "shell":
        (home / "sim").write_text(SHELL_SOURCE)
        (home / "sim").chmod(0o755)
    else:
        (home / "model.py").write_text(PYTHON_SOURCE)
        simulator = 'python = "model.py:simulate"'
    (home / "thrifty.toml").write_text(ONE_TOML.format(simulator=simulator))
    ended = project.type("run", "--json")
    assert ended.code == 0, ended.err
    status = json.loads(ended.out)
    assert (status["done"], status["failed"], status["unit"]) == (60, 0, "steps")
    sims = th.Campaign.open(home / "runs/main").simulations()
    assert sims.ok.all() and sims.x.shape == (60, 2) and np.corrcoef(sims.theta[:, 0], sims.x[:, 0])[0, 1] > 0.5


def test_init_quotes_what_toml_would_read_otherwise(project: Project):
    words = ["./sim", "{a}", 'say "x"', "back\\slash", "{{literal}}"]
    assert project.type("init", "quoted", "--command", shlex.join(words)).code == 0
    written = tomllib.loads((project.home / "quoted" / "thrifty.toml").read_text())
    assert written["simulator"]["command"] == words and list(written["prior"]) == ["a"]


def test_init_for_a_command_writes_what_check_reads(project: Project, monkeypatch: pytest.MonkeyPatch):
    typed = project.type("init", "mine", "--command", "./sim {rate} {seed}")
    assert typed.code == 0 and "note: ./sim is not there yet" in typed.err + typed.out
    monkeypatch.chdir("mine")
    project.write("mine/sim", SHELL_SOURCE)
    Path("sim").chmod(0o755)
    ended = project.type("check")
    assert ended.code == 0, ended.err
    assert "same seed, same output" in ended.out and "next: thrifty plan" in ended.err
    assert sorted(p.name for p in Path().iterdir()) == ["sim", "thrifty.toml"]


SLOW_MODEL = """
import time
import thrifty as th

def simulate(theta, rng):
    time.sleep(0.01)
    return th.Output(theta + rng.normal(size=1), cost=float(1 + theta[0]))
"""


def recorded(folder: Path) -> int:
    """Runs on disk, as anybody may count them."""
    try:
        with sqlite3.connect(f"file:{folder}/store.sqlite?mode=ro", uri=True) as db:
            return db.execute("SELECT count(*) FROM runs").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def wait_for(folder: Path, runs: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while recorded(folder) < runs:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_killed_run_is_continued_by_run(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    toml = ONE_TOML.format(simulator='python = "model.py:simulate"').replace("n = 40", "n = 280")
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thrifty.toml").write_text(toml)
        (tmp_path / name / "model.py").write_text(SLOW_MODEL)
    folder = tmp_path / "killed" / "runs" / "main"
    process = subprocess.Popen(
        [sys.executable, "-m", "thrifty", "run", "--quiet"], cwd=tmp_path / "killed", env=environment()
    )
    wait_for(folder, 120, process)  # two fifths
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = recorded(folder)
    assert 120 <= before < 300
    monkeypatch.chdir(tmp_path / "killed")
    status = json.loads(project.type("status", "--json").out)
    assert status["state"] == "stopped" and status["running"] is False and status["done"] == before
    assert project.type("run", "--quiet").code == 0
    monkeypatch.chdir(tmp_path / "whole")
    assert project.type("run", "--quiet", "--workers", "3").code == 0
    assert table_hash(folder) == table_hash(tmp_path / "whole" / "runs" / "main")


def test_run_again_changes_nothing(done: Project):
    before = table_hash(done.home / "runs/one")
    typed = done.type("run")
    assert typed.code == 0 and "80 of 80 runs done" in typed.out
    assert table_hash(done.home / "runs/one") == before


def test_a_larger_n_adds_runs(done: Project):
    done.toml(("n = 60", "n = 90"))
    assert "110 of 110 runs done (20 pilots)" in done.type("run").out


# --- budgets and gates: exit 0, 3 and 4 ---


def test_a_budget_alone_is_done_when_it_is_used(project: Project):
    project.toml(("n = 60", 'budget = "600 steps"'))
    typed = project.type("run")
    assert typed.code == 0, typed.err
    spent = json.loads(project.type("status", "--json").out)["spent"]
    assert 600 <= spent < 600 + np.exp(3)  # the last run admitted may pass it
    again = project.type("run")
    assert again.code == 0 and json.loads(project.type("status", "--json").out)["spent"] == spent


def test_a_budget_before_the_target_is_exit_3(project: Project):
    project.toml(("n = 60", 'n = 5000\nbudget = "600 steps"'))
    assert "pays for" in project.type("plan").err
    typed = project.type("run")
    assert typed.code == 3 and "the budget of 600 steps ended after" in typed.err


def test_a_budget_that_is_enough_is_exit_0(project: Project):
    project.toml(("n = 60", 'n = 60\nbudget = "5000 steps"'))
    typed = project.type("run")
    assert typed.code == 0 and "80 of 80 runs done" in typed.out


def test_a_budget_holds_although_the_quote_was_wrong(project: Project):
    """Pilots that are cheap by chance, or a machine that slows down: n was within the budget, and then it is not."""
    model = (project.home / "model.py").read_text()
    dearer = model.replace("cost=float", "cost=(1 if PILOT.exists() else 4) * float").replace(
        "import numpy", "from pathlib import Path\nPILOT = Path(__file__).with_name('cheap')\nimport numpy"
    )
    project.write("model.py", dearer)
    project.write("cheap", "")
    project.toml(("n = 60", 'n = 200\nbudget = "1500 steps"'))
    quoted = project.type("plan")
    assert "budget 1500 steps is enough" in quoted.err
    (project.home / "cheap").unlink()
    typed = project.type("run", "--accept-changed-simulator")
    assert "200 runs, or fewer if the budget of 1500 steps is used before" in typed.err
    status = json.loads(project.type("status", "--json").out)
    # what is admitted at once, a tenth of what is left by predictions four times too low, may pass it; n would not stop
    assert 1500 <= status["spent"] < 1500 + 4 * (150 + np.exp(3))
    assert typed.code == 3 and "the budget of 1500 steps ended after" in typed.err
    again = project.type("run", "--accept-changed-simulator")
    assert again.code == 3 and json.loads(project.type("status", "--json").out)["spent"] == status["spent"]
    project.toml(("n = 60", 'n = 200\nbudget = "200000 steps"'))
    assert project.type("run", "--accept-changed-simulator").code == 0
    status = json.loads(project.type("status", "--json").out)
    assert status["done"] == 220 and status["spent"] > 2500, "without the budget all of this would have been spent"


def test_failed_prior_mass_is_exit_4(project: Project):
    project.write("model.py", """
        import numpy as np
        import thrifty as th
        def simulate(theta, rng):
            x = theta + rng.normal(size=2)
            return th.Output(x * (np.nan if theta[0] > 2.5 else 1.0), cost=float(np.exp(theta[0])))
        """)  # fmt: skip
    typed = project.type("run")
    assert typed.code == 4 and "of prior mass failed" in typed.err
    cause = re.search(r"\d+ runs failed: .+ \(for example run (\d+): thrifty replay \1\)", typed.err)
    assert cause and f"next: thrifty replay {cause[1]} " in typed.err and "next: thrifty infer" not in typed.err
    shown = project.type("status")
    assert cause[0] in shown.out and f"thrifty replay {cause[1]} " in shown.err and "thrifty infer" not in shown.err
    assert project.type("replay", cause[1]).code == 5
    assert project.type("infer").code == 4
    assert "error[too-many-failures]" in project.type("infer").err
    accepted = project.type("infer", "--max-failed", "0.5", "--no-checks")
    assert accepted.code == 4 and "kept in" in accepted.out + accepted.err  # the report says no as well


# --- what the commands leave and show ---


def test_the_folder_keeps_the_configuration_and_never_executes_it(done: Project):
    copy = done.home / "runs/one/thrifty.toml"
    assert copy.read_text() == (done.home / "thrifty.toml").read_text()
    copy.write_text('[simulator]\npython = "os:system"\n')
    for words in (["status"], ["verify"], ["run"], ["infer", "--no-checks"], ["export"]):
        assert done.type(*words).code == 0
    assert "os:system" in copy.read_text()


def test_reading_commands_load_no_model(done: Project):
    done.write("model.py", "raise SystemExit('executed')")
    done.write("runs/one/sitecustomize.py", "raise SystemExit('executed')")
    for words in (["status"], ["verify"], ["infer", "--no-checks"], ["export"]):
        typed = done.type(*words)
        assert typed.code == 0 and "executed" not in typed.out + typed.err


STATUS_KEYS = {
    "folder": str, "state": str, "planned": int, "done": int, "pending": int, "pilots": int, "failed": int,
    "by_status": dict, "failed_mass": float, "spent": float, "left": float, "unit": str, "elapsed": float,
    "saved": dict, "ess_fraction": float, "not_admitted": int, "deterministic": bool, "budget": str,
    "budget_left": str, "kind": str, "notes": list,
    "rounds": list, "running": bool, "most_saved": float, "results": list, "next": str,
}  # fmt: skip


def test_status_as_json_has_a_fixed_form(done: Project):
    typed = done.type("status", "--json")
    (line,) = typed.out.splitlines()
    found = json.loads(line)
    assert {key: type(value) for key, value in found.items()} == STATUS_KEYS
    assert (found["state"], found["done"], found["folder"]) == ("complete", 80, "runs/one")


def test_plan_quotes_and_commits_nothing(project: Project):
    first = project.type("plan", "--json")
    quote = json.loads(first.out)
    assert [row["k"] for row in quote["rows"]] == [0.0, 0.25, 0.5, 1.0, 2.0]
    plain, chosen = quote["rows"][0], next(row for row in quote["rows"] if row["chosen"])
    assert chosen["k"] == 0.5 and chosen["saved"] == pytest.approx(1 - chosen["cost_per_run"] / plain["cost_per_run"])
    assert chosen["cost_per_effective_run"] == pytest.approx(chosen["cost_per_run"] / chosen["effective"])
    assert chosen["total"] == pytest.approx(60 * chosen["cost_per_run"]) and quote["self_check_p"] > 1e-6
    project.toml(("n = 60", "n = 60\npenalty = 1"))
    assert next(row["k"] for row in json.loads(project.type("plan", "--json").out)["rows"] if row["chosen"]) == 1.0
    assert json.loads(project.type("status", "--json").out)["planned"] == 20


def test_a_price_is_quoted_in_money(project: Project):
    project.toml(
        ('measure = "reported"\nunit = "steps"', 'measure = "cpu"\nprice = "36 eur/cpu-h"'), ("n = 60", "n = 7000")
    )
    typed = project.type("plan", "--json")
    assert typed.code == 0, typed.err
    for row in json.loads(typed.out)["rows"]:
        assert row["price"] == pytest.approx(7000 * row["cost_per_run"] * 0.01)
        assert row["seconds"] > 0
    assert re.search(r"price.*\n.* eur", project.type("plan").out)


def test_what_was_quoted_is_what_runs(project: Project):
    quote = json.loads(project.type("plan", "--json").out)
    chosen = next(row for row in quote["rows"] if row["chosen"])
    assert project.type("run").code == 0
    sims = th.Campaign.open("runs/one").simulations()
    campaign = sims.cost[20:]
    error = campaign.std() / np.sqrt(len(campaign))
    # the cost model is learned from 20 timings without noise: what is left is the spread of the draws
    assert abs(campaign.mean() - chosen["cost_per_run"]) < 5 * error + 0.05 * chosen["cost_per_run"]


def test_what_runs_took_is_not_called_the_pilot_s(done: Project):
    done.toml(("n = 60", 'n = 60\nbudget = "5000 steps"'))
    typed = done.type("plan")
    assert typed.code == 0 and "80 runs so far took" in typed.err and "(the pilot took" not in typed.err
    assert "budget 5000 steps is enough" in typed.err


def test_another_penalty_is_no_silent_second_campaign(done: Project):
    before = done.tree()
    done.toml(("n = 60", "n = 60\npenalty = 1"))
    typed = done.type("run")
    assert typed.code == 2 and "error[penalty-changed]" in typed.err and "would add 60 more runs" in typed.err
    assert {k: v for k, v in done.tree().items() if k != "thrifty.toml"} == {
        k: v for k, v in before.items() if k != "thrifty.toml"
    }
    assert done.type("run", "--add-penalty").code == 0
    assert json.loads(done.type("status", "--json").out)["done"] == 140
    assert done.type("run").code == 0, "both are known now"


def test_export_to_every_format(done: Project):
    sims = th.Campaign.open("runs/one").simulations()
    for kind in ("npz", "csv", "parquet"):
        assert done.type("export", "--to", kind).code == 0
    assert np.array_equal(th.Simulations.from_npz("one.npz").log_weights, sims.log_weights)
    assert np.array_equal(th.Simulations.from_csv("one.csv", theta=["a", "b"]).x, sims.x)
    assert np.array_equal(th.Simulations.from_parquet("one.parquet").theta, sims.theta)


@pytest.mark.slow  # torch takes seconds to import
def test_export_for_sbi(done: Project):
    torch = pytest.importorskip("torch")
    sims = th.Campaign.open("runs/one").simulations()
    assert done.type("export", "--to", "sbi").code == 0
    table = torch.load("one.pt", weights_only=True)
    assert table["theta"].shape == (80, 2) and torch.allclose(
        table["log_weights"], torch.as_tensor(sims.log_weights.copy())
    )


def test_infer_keeps_a_result_and_shows_it(done: Project):
    typed = done.type("infer", "--json", "--name", "first")
    found = json.loads(typed.out)
    assert typed.code == found["exit"] in (0, 4)
    (result,) = read_results("runs/one")
    assert (result.name, result.method, result.names) == ("first", "abc", ("a", "b"))
    assert result.diagnosis == found["diagnosis"] and set(found["parameters"]) == {"a", "b"}
    assert found["parameters"]["a"]["median"] == pytest.approx(np.median(result.samples[:, 0]))


def test_a_second_observation_does_not_replace_the_first(done: Project):
    assert done.type("infer", "--no-checks", "--name", "mine").code == 0
    (kept,) = read_results("runs/one")
    done.write("other.csv", "0.5, 0.3\n")
    typed = done.type("infer", "--no-checks", "--name", "mine", "--observed", "other.csv")
    assert typed.code == 2 and "of another observation" in typed.err and "--name mine-2" in typed.err
    (still,) = read_results("runs/one")
    np.testing.assert_array_equal(still.x_o, kept.x_o)


def test_few_runs_still_give_a_posterior(done: Project):
    """A hundredth of 80 runs is one run: ABC keeps more by itself."""
    typed = done.type("infer", "--no-checks", "--json", "--name", "few", "--method", "abc")
    assert typed.code == 0
    parameters = json.loads(typed.out.splitlines()[-1])["parameters"]
    assert all(row["low"] < row["median"] < row["high"] for row in parameters.values())
    typed = done.type("infer", "--no-checks", "--name", "few", "--method", "abc")
    assert re.search(r"rests on \d+ accepted runs \(\d+ effective\)", typed.out)


@pytest.mark.parametrize("asked", [{}, {"quantile": 0.5}, {"adjust": "none"}])
def test_abc_of_the_command_line_is_that_of_the_library(done: Project, asked: dict[str, Any]):
    """The very same draws; the settings of the configuration, and the library's own for all others."""
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in asked.items())
    done.toml(("quantile = 0.3", lines))
    assert done.type("infer", "--no-checks", "--name", "few").code == 0
    (result,) = read_results("runs/one")
    campaign = th.Campaign.open("runs/one")

    def draws(**settings: Any) -> np.ndarray:
        posterior = th.ABC(campaign.prior, **settings).fit(campaign.simulations())
        return posterior.sample(len(result.samples), [1.0, 0.2], seed=0)

    np.testing.assert_array_equal(result.samples, draws(**asked))
    assert not np.array_equal(result.samples, draws(n_accept=80))  # the mutant: a number of the command line's own


def test_replay_gives_the_same_numbers_or_says_so(done: Project):
    assert "the same numbers" in done.type("replay", "41").out
    done.write("model.py", (done.home / "model.py").read_text().replace("0.1 *", "0.2 *"))
    sys.modules.pop("model")
    typed = done.type("replay", "41")
    assert "OTHER numbers" in typed.out and typed.code == 5
    assert "why       the simulator changed since: simulate changed" in typed.out


def test_replay_says_why_numbers_differ(done: Project):
    done.toml(("seed = 3", "seed = 4"))
    typed = done.type("replay", "41")
    assert typed.code == 5 and "why       seed was 3, thrifty.toml says 4" in typed.out


def test_replay_of_a_simulator_with_randomness_of_its_own(project: Project):
    project.write("model.py", (project.home / "model.py").read_text().replace("rng.normal", "np.random.normal"))
    assert project.type("plan").code == 0
    typed = project.type("replay", "7")
    assert typed.code == 5 and "why       the simulator ignores its seed" in typed.out


def test_replay_of_a_program(project: Project):
    project.write("sim", SHELL_SOURCE)
    (project.home / "sim").chmod(0o755)
    project.write("thrifty.toml", ONE_TOML.format(simulator='command = ["./sim", "{rate}", "{seed}"]'))
    assert project.type("plan", "--config", "thrifty.toml").code == 0
    assert json.loads(project.type("replay", "7", "--json").out)["same"] is True


def test_worker_and_reproduce_are_pages_of_help(project: Project):
    assert "dask scheduler" in project.type("worker").out
    listed = project.type("reproduce").out
    assert "table1" in listed and len(listed.splitlines()) >= 3


def test_reproduce_becomes_the_script_with_its_options(project: Project):
    """The same process: a signal to thrifty cannot leave a study behind that goes on writing."""
    project.write("study.py", "import os, sys\nprint(os.getpid(), *sys.argv[1:])\nsys.exit(4)\n")
    typed = (
        "import sys; from pathlib import Path\n"
        "from thrifty.cli import main; from thrifty.cli.commands import reproduce\n"
        "reproduce._find_studies = lambda: {'one': (Path('study.py'), 'A study.')}\n"
        "sys.argv = ['thrifty', 'reproduce', 'one', '--quick', '--seeds', '3', '--workers', '2']\n"
        "sys.argv += ['--done', '--out', 'x']; main()"
    )
    started = subprocess.Popen([sys.executable, "-c", typed], cwd=project.home, stdout=subprocess.PIPE, text=True)
    said, _ = started.communicate(timeout=120)
    assert started.returncode == 4 and said == f"{started.pid} --quick --seeds 3 --workers 2 --done --out x\n"


def test_reproduce_with_options_and_no_name_asks_which(project: Project):
    typed = project.type("reproduce", "--full")
    assert typed.code == 2 and "which study?" in typed.err


def test_the_report_is_written_and_named(done: Project):
    assert done.type("infer", "--no-checks").code == 0
    typed = done.type("report", "--json")
    assert typed.code == 0, typed.err
    found = json.loads(typed.out)
    assert Path(found["path"]).read_text(encoding="utf-8").lstrip().startswith("<!") and found["bytes"] < 2 * 2**20
    assert "next: open runs/one/report.html" in typed.err
    live = done.type("report", "--live", "--every", "1", "--out", "live.html")
    assert live.code == 0 and "no run is under way" in live.err and Path("live.html").is_file()


def test_check_of_the_example_shows_that_costs_vary(project: Project, monkeypatch: pytest.MonkeyPatch):
    """Three epidemics often die out at once; the range over forty draws says more than 1, 1, 1."""
    pytest.importorskip("numba")
    assert project.type("init", "sir", "--example", "sir").code == 0
    monkeypatch.chdir("sir")
    ended = project.type("check")
    assert ended.code == 0, ended.err
    low, high, draws = re.search(r"cost +([\d,]+) events? to ([\d,]+) events over (\d+) draws", ended.out).groups()
    assert int(draws) == 40 and int(high.replace(",", "")) > 100 * int(low.replace(",", ""))
    assert "outputs   12 numbers: final_size" in ended.out


def test_check_counts_one_number_in_the_singular():
    from thrifty.cli.commands.check import Findings

    shown = {"names": (), "deterministic": True, "wall": (1.0,), "cpu": (1.0,), "reported": (1.0,), "noise": 1.0}
    shown |= {"threads": 1.0, "memory": 0, "same_output": False, "costs": {}}
    words = [Findings(outputs=shape, **shown)._describe_outputs() for shape in ((1,), (2,), (3, 4))]
    assert words == ["1 number", "2 numbers", "3 x 4 numbers"]
