"""Mistakes: the right message, the right exit code, no traceback, and nothing created."""

from __future__ import annotations

import ast
import os
import re
import sqlite3
from pathlib import Path

import pytest

from thrifty.cli import output
from thrifty.store.lock import FolderLock
from thrifty.store.rows import with_checksum

from .conftest import Project


def refused(project: Project, *words: str, code: int, says: str, message: str) -> str:
    """Type it; the message carries the code and the words, and no file has changed."""
    before = project.tree()
    typed = project.type(*words)
    assert typed.code == code, typed.err
    assert f"error[{says}]" in typed.err, typed.err
    assert message in " ".join(typed.err.split()), typed.err
    assert "Traceback" not in typed.err + typed.out
    assert project.tree() == before, "something was created or changed"
    return typed.err


# --- the configuration: (what replaces what), code, words ---

CONFIG = {
    "unknown key": (("n = 60", "buget = 60"), "bad-name", "line 14: unknown key 'buget'. Did you mean 'budget'?"),
    "unknown section": (("[infer]", "[infre]"), "bad-name", "line 22: unknown section 'infre'. Did you mean 'infer'?"),
    "not toml": (("n = 60", "n 60"), "bad-config-file", "line 14 column 3: expected '='"),
    "toml cut short": (('observed = "observed.csv"', "observed ="), "bad-config-file", "thrifty.toml line 25"),
    "budget without unit": (("n = 60", 'budget = "40"'), "bad-amount", "budget '40' has no unit"),
    "budget is a number": (("n = 60", "budget = 40"), "bad-amount", 'fix: budget = "2 cpu-h"'),
    "nothing to run": (("n = 60", ""), "conflicting-settings", "neither n nor budget"),
    "limit without policy": (
        ("[run]", "[run]\ntime_limit = 60"),
        "conflicting-settings",
        "dropping slow runs biases the posterior",
    ),
    "limit in this process": (
        ("[run]", '[run]\ntime_limit = 60\non_timeout = "lazy"'),
        "conflicting-settings",
        "time_limit needs worker processes",
    ),
    "unknown policy": (
        ("[run]", '[run]\ntime_limit = 60\non_timeout = "drop"'),
        "conflicting-settings",
        "'drop' is not known",
    ),
    "no workers": (("[run]", "[run]\nworkers = 0"), "bad-setting", "workers = 0, expected at least 1"),
    "workers in words": (
        ("[run]", '[run]\nworkers = "two"'),
        "bad-setting",
        'workers = "two", expected a whole number',
    ),
    "no runs": (("n = 60", "n = 0"), "bad-setting", "n = 0, expected at least 1"),
    "wrong type": (("n = 60", 'n = "many"'), "bad-setting", 'n = "many", expected a whole number'),
    "two simulators": (
        ("[prior]", 'command = ["true"]\n[prior]'),
        "conflicting-settings",
        "both python and command are given",
    ),
    "bounds reversed": (("low = 0.0, high = 3.0", "low = 3.0, high = 0.0"), "bad-prior", "low 3 is not below high 0"),
    "bound not a number": (("low = 0.0", "low = nan"), "bad-prior", "prior 'a': low must be a finite number, got nan"),
    "bound in words": (("low = 0.0", 'low = "0"'), "bad-prior", "prior 'a': low must be a finite number, got '0'"),
    "sd of zero": (('"uniform", low = 0.0, high = 3.0', '"normal", mean = 0, sd = 0'), "bad-prior", "prior 'a': sd"),
    "bound missing": ((", high = 3.0", ""), "bad-prior", "prior 'a' (uniform) needs high"),
    "no prior": (("[prior]\na =", "[simulator.environment]\na ="), "bad-prior", "[prior] is missing or empty"),
    "unsafe name": (("a = {", '"a;b" = {'), "bad-name", "names may use letters, digits and _"),
    "zero width": (("low = 0.0, high = 3.0", "low = 3.0, high = 3.0"), "bad-prior", "make it a fixed argument"),
    "unknown family": (('a = { family = "uniform"', 'a = { family = "unifrom"'), "bad-name", "Did you mean 'uniform'?"),
    "no such file": (("model.py:", "modle.py:"), "cannot-load-simulator", "modle.py.Did you mean 'model.py'?"),
    "no such function": (
        ("py:simulate", "py:simulat"),
        "cannot-load-simulator",
        "model.py has no 'simulat'. Did you mean 'simulate'?",
    ),
    "no such module": (("model.py:", "nowhere.model:"), "cannot-load-simulator", "No module named 'nowhere'"),
    "no function named": (("model.py:simulate", "model.py"), "cannot-load-simulator", "does not name a function"),
    "program missing": (
        ('python = "model.py:simulate"', 'command = ["./sim", "{a}"]'),
        "bad-command",
        "'./sim' was not found",
    ),
    "program of the path misspelt": (
        ('python = "model.py:simulate"', 'command = ["bassh", "{a}"]'),
        "bad-command",
        "Did you mean 'bash'?",
    ),
    "program asks for more": (
        ('python = "model.py:simulate"', 'command = ["true", "{c}"]'),
        "bad-command",
        "asks for 'c'",
    ),
    "money without price": (("n = 60", 'budget = "20 usd"'), "bad-price", "unit 'usd' needs a price"),
    "unit misspelt": (
        ("n = 60", 'budget = "2 hoers"'),
        "bad-amount",
        """unknown unit 'hoers'. Did you mean 'hours'? fix: "2 hours", or,""",
    ),
    "price in words": (("[plan]", 'price = "cheap"\n[plan]'), "bad-amount", "price 'cheap' is not an amount"),
    "too few pilots": (
        ("pilot = 20", "pilot = 6"),
        "too-few-pilots",
        "pilot = 6 runs for 2 parameters; need at least 8",
    ),
    "penalty below zero": (("n = 60", "n = 60\npenalty = -1"), "bad-penalty", "-1"),
    "penalty in words": (
        ("n = 60", 'n = 60\npenalty = "strong"'),
        "bad-penalty",
        'penalty = "strong", expected a number',
    ),
    "penalty and mixture": (("n = 60", "n = 60\npenalty = 1\nmixture = true"), "conflicting-settings", "not both"),
    "unknown method": (('"abc"', '"abcd"'), "bad-name", "unknown method 'abcd'. Did you mean 'abc'?"),
}
SIMULATOR = {"cannot-load-simulator", "bad-command"}


@pytest.mark.parametrize(("change", "code", "words"), CONFIG.values(), ids=CONFIG)
def test_a_mistake_in_the_configuration(project: Project, change: tuple[str, str], code: str, words: str):
    project.toml(change)
    expected = 5 if code in SIMULATOR and "does not name" not in words else 2
    refused(project, "run", code=expected, says=code, message=words.replace("py.Did", "py. Did"))


@pytest.mark.parametrize(
    ("typed", "words"),
    [("./simulat", "on the path). Did you mean './simulate'?"), ("simulat", "on the path). Did you mean './simulate'?"),
     ("simulate", "'simulate' is not on the path fix: ./simulate"), ("sub", "'sub' is a folder")],
)  # fmt: skip
def test_a_program_that_is_nearly_there(project: Project, typed: str, words: str):
    (project.home / "simulate").write_text("#!/bin/sh\n")
    (project.home / "simulate").chmod(0o755)
    (project.home / "sub").mkdir()
    project.toml(('python = "model.py:simulate"', f'command = ["{typed}", "{{a}}"]'))
    refused(project, "run", code=5, says="bad-command", message=words)


def test_all_mistakes_at_once(project: Project):
    project.toml(("n = 60", "nn = 60"), ("low = 0.0, high = 3.0", "low = 3.0, high = 0.0"),
                 ("[run]", "[run]\nworkers = 0"),
                 ("seed = 3", "seed = -3\npenalty = -2"), ('"abc"', '"abcd"'))  # fmt: skip
    err = refused(project, "check", code=2, says="bad-prior", message="low 3 is not below high 0")
    for code in ("bad-name", "conflicting-settings", "bad-setting", "bad-setting", "bad-penalty", "bad-prior"):
        assert f"error[{code}]" in err
    assert err.count("error[") >= 7


# --- the simulator ---

BODIES = {
    "three arguments": (
        "def simulate(a, b, c):\n    return 1",
        "bad-simulator",
        "takes (a, b, c), and the prior has the parameters a, b: 'c' is neither a parameter nor rng nor seed",
    ),
    "does not parse": ("def simulate(theta, rng)\n    return 1", "cannot-load-simulator", "model.py line 1"),
    "raises on import": (
        "X = 1\nY = X / 0\ndef simulate(theta, rng): return 1",
        "cannot-load-simulator",
        "model.py line 2",
    ),
    "wants a library": (
        "import nowhere_to_be_found\ndef simulate(theta, rng): return 1",
        "cannot-load-simulator",
        "No module named",
    ),
}


@pytest.mark.parametrize(("body", "code", "words"), BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_model_that_cannot_be_loaded(project: Project, command: str, body: str, code: str, words: str):
    project.write("model.py", body)
    refused(project, command, code=5, says=code, message=words)


RUNS = {
    "returns None": ("return None", "bad-output", "simulator returned None"),
    "returns words": ('return {"x": "many"}', "bad-output", "simulator returned dict that cannot be read as numbers"),
    "varying length": ("return [1.0] * (1 + rng.integers(1, 10**9))[:1]", "simulator-failed", "gave error"),
    "NaN": ("return [float('nan')]", "simulator-failed", "1 of 1 values are not finite"),
    "raises": ("return 1 / 0", "simulator-failed", "ZeroDivisionError"),
    "changes theta": ("theta[0] = 1\n    return theta", "bad-simulator", "theta = theta.copy()"),
    "dies": ("import os\n    os._exit(3)", "simulator-failed", "the worker died at theta"),
}


@pytest.mark.parametrize(("body", "code", "words"), RUNS.values(), ids=RUNS)
def test_check_says_what_a_run_does_wrong(project: Project, body: str, code: str, words: str):
    project.write("model.py", f"def simulate(theta, rng):\n    {body}\n")
    refused(project, "check", code=5, says=code, message=words)


def test_what_cannot_travel(project: Project):
    project.write(
        "model.py",
        """
        import threading
        def made():
            lock = threading.Lock()
            def simulate(theta, rng):
                with lock:
                    return theta
            return simulate
        simulate = made()
        """,
    )
    refused(project, "check", code=5, says="cannot-load-simulator", message="cannot be sent to worker processes")


def test_pilots_that_all_fail_leave_nothing(project: Project):
    project.write("model.py", "def simulate(theta, rng):\n    return [float('nan')]\n")
    refused(project, "plan", code=5, says="simulator-failed", message="thrifty check shows what a run does")


def test_output_that_never_changes(project: Project):
    project.write(
        "model.py", "import thrifty as th\ndef simulate(theta, rng):\n    return th.Output([1.0], cost=1.0)\n"
    )
    refused(project, "run", code=5, says="constant-output", message="output is identical for all 20 pilots")


def test_a_program_that_is_not_executable(project: Project):
    project.write("sim.sh", "#!/bin/sh\necho 1\n")
    project.toml(('python = "model.py:simulate"', 'command = ["./sim.sh", "{a}", "{b}"]'))
    refused(
        project,
        "run",
        code=5,
        says="bad-command",
        message="'./sim.sh' is not executable (mode 0644) fix: chmod +x ./sim.sh",
    )


def test_a_program_that_exits_with_an_error(project: Project):
    project.write("sim.sh", "#!/bin/sh\necho mesh failed >&2\nexit 3\n")
    os.chmod(project.home / "sim.sh", 0o755)
    project.toml(('python = "model.py:simulate"', 'command = ["./sim.sh", "{a}", "{b}"]'))
    refused(
        project,
        "check",
        code=5,
        says="simulator-failed",
        message="sim.sh exited with 3; last stderr line: 'mesh failed'",
    )


def test_a_prior_that_nobody_edited(project: Project):
    project.write("sim.sh", "#!/bin/sh\necho a is too small >&2\nexit 3\n")
    os.chmod(project.home / "sim.sh", 0o755)
    for name in ("thrifty.toml", "observed.csv"):
        (project.home / name).unlink()
    assert project.type("init", "--command", "./sim.sh {a} {b}").code == 0
    err = refused(project, "check", code=5, says="simulator-failed", message="edit the range of a, b in [prior]")
    assert err.count("simulator-failed") == 1
    project.write("thrifty.toml", (project.home / "thrifty.toml").read_text().replace("high = 1.0", "high = 2.0"))
    assert "edit the range" not in project.type("check").err


def test_a_command_without_its_parameters(project: Project):
    project.toml(('python = "model.py:simulate"', 'command = ["true"]'))
    refused(project, "run", code=2, says="bad-command", message="the command never mentions a, b")


# --- words on the command line ---

USAGE = {
    "unknown command": (["rseume"], "bad-command-line", "unknown command 'rseume'. Did you mean 'resume'?"),
    "unknown option": (
        ["run", "--wrokers", "2"],
        "bad-command-line",
        "no such option: --wrokers. Did you mean --workers?",
    ),
    "option of another command": (
        ["infer", "--rounds", "4"],
        "bad-command-line",
        "no such option: --rounds fix: thrifty infer --help; thrifty run has this option",
    ),
    "unknown method": (["infer", "--method", "npr"], "bad-command-line", "'npr' is not one of 'npe'"),
    "not a number": (["replay", "seven"], "bad-command-line", "expected a valid integer"),
    "no workers": (["run", "--workers", "0"], "bad-setting", "workers = 0, expected at least 1"),
    "resume a missing folder": (["resume", "runs/twoo"], "no-campaign", "no run at runs/twoo"),
    "status of nothing": (["status"], "no-campaign", "no run at runs/one"),
    "a file for a folder": (
        ["run", "thrifty.toml"],
        "no-campaign",
        "thrifty.toml is a file, a run folder was expected fix: if it is the configuration, the same command with"
        " --config thrifty.toml",
    ),
    "a configuration without its option": (
        ["check", "bad.toml"],
        "bad-command-line",
        "got unexpected extra argument(s) (bad.toml) fix: thrifty check --config bad.toml",
    ),
    "a setting as an option": (
        ["run", "--budget", "5 kg"],
        "bad-command-line",
        'no such option: --budget fix: it is a setting of thrifty.toml: [plan] budget = "2 cpu-h"',
    ),
    "a folder with other things": (["run", "."], "already-exists", "exists and holds other files"),
    "no such configuration": (["check", "--config", "other.toml"], "bad-config-file", "no other.toml in"),
    "infer before any run": (["infer"], "no-campaign", "no run at runs/one"),
    "a deadline without unit": (["run", "--deadline", "40"], "bad-amount", "deadline '40' is not a time"),
    "init over what is there": (["init"], "already-exists", "thrifty.toml, model.py, observed.csv exists already"),
    "init twice over": (["init", "new", "--example", "sir", "--command", "x {a}"], "conflicting-settings", "not both"),
    "init without parameters": (["init", "new", "--command", "./model"], "bad-command", "mentions no parameter"),
    "init with half a brace": (["init", "new", "--command", "./m {a"], "bad-command", "has braces that do not match"),
    "init with a number": (["init", "new", "--command", "./m {0}"], "bad-command", "has {0}, not a name in braces"),
    "init with two words": (
        ["init", "new", "--command", "./m '{a b}'"],
        "bad-command",
        "has {a b}, not a name in braces",
    ),
    "init with a format": (
        ["init", "new", "--command", "./m {a:.3f}"],
        "bad-command",
        "has {a:.3f}, not a name in braces",
    ),
    "init without a program": (["init", "new", "--command", "{a} 3"], "bad-command", "is a parameter, not a program"),
    "unknown study": (["reproduce", "tabel1"], "bad-name", "Did you mean 'table1'?"),
    "quick and full": (["reproduce", "table1", "--quick", "--full"], "conflicting-settings", "not both"),
}


@pytest.mark.parametrize(("words", "code", "message"), USAGE.values(), ids=USAGE)
def test_a_mistyped_command(project: Project, words: list[str], code: str, message: str):
    refused(project, *words, code=2, says=code, message=message)


def test_a_place_that_cannot_be_written(project: Project):
    project.write("wall", "")
    refused(project, "run", "wall/runs", code=8, says="disk-problem", message="cannot create the folder wall/runs")


# --- a folder that is there ---


def test_a_mistyped_folder_is_recognised(done: Project):
    refused(done, "resume", "runs/onne", code=2, says="no-campaign", message="Did you mean 'runs/one'?")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("high = 3.0", "high = 2.0"), "prior.a.high 3.0 -> 2.0"),
        (("seed = 3", "seed = 4"), "seed 3 -> 4"),
        (('"reported"', '"cpu"'), "cost reported -> cpu"),
    ],
    ids=["prior", "seed", "cost"],
)
def test_other_settings(done: Project, change: tuple[str, str], words: str):
    done.toml(change)
    refused(done, "run", code=2, says="other-settings", message=words)


def test_a_changed_simulator(done: Project):
    done.write("model.py", (done.home / "model.py").read_text().replace("0.1 *", "0.2 *"))
    refused(done, "run", code=5, says="simulator-changed", message="thrifty run runs/one --accept-changed-simulator")
    assert done.type("run", "--accept-changed-simulator").code == 0
    assert "simulator changed and accepted" in done.type("status").out


def test_a_folder_in_use(done: Project):
    with FolderLock(Path("runs/one")):
        refused(
            done,
            "run",
            code=6,
            says="folder-in-use",
            message="fix: wait for it, or watch it: thrifty status runs/one --watch",
        )


def test_a_damaged_store_and_its_repair(done: Project):
    with sqlite3.connect("runs/one/store.sqlite") as db:
        db.execute("UPDATE runs SET cpu = cpu + 1 WHERE idx IN (7, 40)")
    db.close()
    err = done.type("infer").err
    assert "error[damaged-folder]: 2 records" in err and "fix: thrifty verify runs/one --repair" in err
    typed = done.type("verify")
    assert typed.code == 7 and "2 runs are damaged (indices 7, 40)" in typed.out
    assert done.type("verify", "--repair").code == 0
    assert done.type("run").code == 0 and done.type("verify").code == 0


def test_a_deleted_store_and_its_repair(done: Project):
    (done.home / "runs/one/store.sqlite").unlink()
    for command in ("run", "status"):
        refused(done, command, code=7, says="damaged-folder", message="all results of its 80 planned runs")
    mended = done.type("verify", "--repair")
    assert mended.code == 0 and "thrifty run runs/one" in mended.err
    assert done.type("run", "--quiet").code == 0


def test_a_newer_store(done: Project):
    with sqlite3.connect("runs/one/store.sqlite") as db:
        db.execute("PRAGMA user_version = 9")
        db.execute("REPLACE INTO meta VALUES (?, ?, ?)", with_checksum(("format", "9")))
    db.close()
    assert "error[newer-version]" in done.type("status").err


OBSERVED = {
    "missing": (None, "cannot read the observed data other.csv: No such file"),
    "too short": ("1.0", "observed data has 1 values, simulations have 2"),
    "NaN": ("1.0, nan", "observed data has NaN in statistic 2 of 2"),
    "words": ("1.0, blue", "other.csv line 1 column 2 'blue' is not a number"),
    "empty": ("", "other.csv holds no numbers"),
}


@pytest.mark.parametrize(("text", "words"), OBSERVED.values(), ids=OBSERVED)
def test_an_observation_that_is_none(done: Project, text: str | None, words: str):
    if text is not None:
        done.write("other.csv", text)
    refused(done, "infer", "--observed", "other.csv", code=2, says="bad-observation", message=words)


def test_a_name_that_leads_elsewhere(done: Project):
    refused(done, "infer", "--name", "../../x", code=2, says="bad-name", message="letters, digits, _ and - expected")


def test_infer_with_pilots_only(project: Project):
    assert project.type("plan").code == 0
    refused(
        project,
        "infer",
        code=2,
        says="no-runs-yet",
        message="has 20 pilots and no campaign runs fix: thrifty run runs/one",
    )


def test_export_with_pilots_only(project: Project):
    assert project.type("plan").code == 0
    why = "has 20 pilots and no campaign runs why: pilots only measure what"
    refused(project, "export", code=2, says="no-runs-yet", message=why)
    assert project.type("export", "--allow-incomplete").code == 0


def test_a_budget_below_the_pilot(project: Project):
    project.toml(("n = 60", 'budget = "1 steps"'))
    typed = project.type("plan")
    assert (
        typed.code == 2
        and "error[budget-too-small]: budget '1 steps' is below what the pilot took already (" in typed.err
    )
    assert re.search(r"already \([\d.]+ steps\)", typed.err), "the amount has its unit"


def test_an_index_that_was_never_planned(done: Project):
    refused(done, "replay", "80", code=2, says="bad-command-line", message="no run 80: 80 are planned, 0 to 79")


def test_debugging_needs_a_terminal(done: Project):
    refused(done, "replay", "3", "--debug", code=2, says="bad-command-line", message="--debug needs a terminal")


def test_exports_overwrite_nothing(done: Project):
    done.write("one.npz", "mine")
    refused(done, "export", code=2, says="already-exists", message="one.npz exists already")


def test_no_word_of_a_folder_drives_the_terminal(done: Project):
    with sqlite3.connect("runs/one/store.sqlite") as db:
        db.execute("UPDATE meta SET value = '\x1b]0;owned\x07' WHERE key = 'unit'")
    db.close()
    for words in (["status"], ["verify"], ["infer"], ["export"]):
        typed = done.type(*words)
        assert typed.code == 7 and "\x1b" not in typed.out + typed.err
    done.write("thrifty.toml", '[simulator]\n"a\x1bb" = 1\n')
    assert "\x1b" not in done.type("check").err


def test_a_bug_is_short_and_leaves_its_details_in_a_file(project: Project, monkeypatch: pytest.MonkeyPatch):
    import tempfile

    from thrifty.cli import project as targets

    monkeypatch.setattr(tempfile, "tempdir", str(project.home))
    monkeypatch.setattr(targets, "read_config", lambda path: {}["oops"])
    typed = project.type("run")
    assert typed.code == 1 and "error: a bug in thrifty: KeyError: 'oops'" in typed.err
    assert "Traceback" not in typed.err
    (details,) = project.home.glob("thrifty-bug-*.txt")
    assert "Traceback" in details.read_text()


SAYS_WHAT_IS_POSSIBLE = re.compile(r"not both|expected|must be|line \d|gave ")


def list_raised(path: Path) -> list[tuple[str, str, bool]]:
    """Code, text and whether there is a fix, of every error of a module; no text where it is made elsewhere."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        named = {keyword.arg: keyword.value for keyword in node.keywords} if isinstance(node, ast.Call) else {}
        if "code" in named and ast.unparse(node.func).endswith("Error"):
            text = ast.unparse(node.args[0]) if not isinstance(node.args[0], ast.Name) else ""
            found.append((ast.unparse(named["code"]).strip("'"), text, "fix" in named))
    return found


def test_every_error_of_the_command_line_says_how_it_is_repaired():
    """With a fix of its own, that of its code, or the possible values in its message."""
    raised = [one for path in Path(output.__file__).parent.rglob("*.py") for one in list_raised(path)]
    assert len(raised) > 40
    left = [text for code, text, fixed in raised if not fixed and code not in output._FIXES]
    assert not [text for text in left if text and not SAYS_WHAT_IS_POSSIBLE.search(text)]


def test_paths_that_lead_elsewhere_are_explained(done: Project):
    assert "fix: give its folder: runs/one" in done.type("status", "runs/one/store.sqlite").err
    assert "fix: there is observed.csv" in done.type("infer", "--observed", "nope.csv").err
    assert "fix: check the path: --observed FILE" in done.type("infer", "--observed", "elsewhere/2.npy").err
    typed = done.type("plan", "--workers", "many").err
    assert "expected a valid integer" in typed and "parse" not in typed
