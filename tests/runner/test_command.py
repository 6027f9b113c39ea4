"""External programs: arguments, seeds, formats, failures, limits, what they leave behind."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import SimulatorError, ThriftyWarning
from thrifty.runner.command import ProgramCrashError


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Write an executable Python program into the current directory."""
    monkeypatch.chdir(tmp_path)

    def write(body, name="sim"):
        path = tmp_path / name
        path.write_text(f"#!{sys.executable} -S\nimport sys, os\n{body}\n")
        path.chmod(0o755)
        return f"./{name}"

    return write


def test_arguments_seed_and_working_directory(program, tmp_path):
    path = program(
        "open('scratch.txt', 'x').write('mine')\nprint('[%s, %s, %d]' % (sys.argv[1], sys.argv[2], int(sys.argv[4])))"
    )
    command = th.Command([path, "{beta}", "{gamma}", "--seed", "{seed}"])
    draws = th.Draws([[0.1, 2.0], [1 / 3, 3.0], [0.5, 4.0]], names=("beta", "gamma"))
    sims = th.simulate(command, draws, workers=2, progress="quiet")
    np.testing.assert_array_equal(sims.x[:, :2], draws.theta)
    assert len(np.unique(sims.x[:, 2])) == 3
    assert not (tmp_path / "scratch.txt").exists()
    np.testing.assert_array_equal(th.simulate(command, draws, engine=th.Inline(), progress="quiet").x, sims.x)


@pytest.mark.parametrize(
    ("body", "settings", "expected"),
    [
        ("print('log line'); print('{\"x\": [1, 2], \"cost\": 7}')", {}, [1, 2]),
        ("print('a,b'); print('1.5,2')", {"output": "csv"}, [1.5, 2]),
        ("open('out.csv', 'w').write('1\\n2\\n3\\n')", {"output": "csv", "file": "out.csv"}, [1, 2, 3]),
        ("open('out.json', 'w').write('4')", {"file": "out.json"}, [4]),
        ("print(len(sys.argv))", {"output": lambda stdout, folder: float(stdout) + len(list(folder.iterdir()))}, [4]),
    ],
)
def test_formats(program, body, settings, expected):
    sims = th.simulate(th.Command([program(body), "{0}"], **settings), [[1.0]], workers=1, progress="quiet")
    assert sims.x.ravel().tolist() == expected


def test_npy(program):
    packages = [path for path in sys.path if "site-packages" in path]
    body = f"sys.path[:0] = {packages!r}\nimport numpy\nnumpy.save('x.npy', [[1., 2.]])"
    sims = th.simulate(th.Command([program(body)], output="npy", file="x.npy"), [[1.0]], workers=1, progress="quiet")
    assert sims.x.shape == (1, 1, 2)


FAILURES = {
    "exit": (
        "print('mesh failed', file=sys.stderr); sys.exit(3)",
        {},
        "exited with 3; last stderr line: 'mesh failed'",
    ),
    "numbers": ("print('901 227 48.167')", {}, 'output = "csv" reads numbers separated by blanks'),
    "text": ("print('Hello')", {}, "line 1 is not JSON: 'Hello'"),
    "nothing": ("", {}, "stdout is empty"),
    "no file": ("", {"file": "out.json"}, "wrote no out.json"),
    "bad csv": ("print('1,2'); print('1,NaN(ind)')", {"output": "csv"}, "line 2 column 2 'NaN(ind)' is not a number"),
    "no x": ("print('{}')", {}, 'without "x"'),
    "evil npy": ("print('x')", {"output": "npy"}, "not an array of numbers"),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_failures_say_what_happened(program, kind):
    body, settings, words = FAILURES[kind]
    with pytest.raises(SimulatorError) as caught:
        th.Command([program(body)], **settings)(np.array([1.0]), 0)
    assert words in str(caught.value)


def test_a_program_that_crashes(program):
    path = program("import time\nos.abort() if float(sys.argv[1]) > 0.5 else print(1)")
    with pytest.warns(ThriftyWarning, match="1 crashed"):
        sims = th.simulate(th.Command([path, "{0}"]), [[0.1], [0.9], [0.2]], workers=1, progress="quiet")
    assert sims.status.tolist() == ["ok", "crashed", "ok"]


def test_limits_and_background_processes(program):
    mark = "75319.25"
    path = program(
        f"import subprocess, time\nsubprocess.Popen(['sleep', '{mark}'])\n"
        "time.sleep(1000 if float(sys.argv[1]) > 0.5 else 0)\nprint(1)"
    )
    settings = {"time_limit": 2.0, "on_timeout": "restrict", "progress": "quiet"}
    sims = th.simulate(th.Command([path, "{0}"]), [[0.1], [0.9], [0.2]], workers=2, **settings)
    assert sims.status.tolist() == ["ok", "timeout", "ok"]
    until = time.monotonic() + 5
    while time.monotonic() < until and (left := sleeping(mark)):
        time.sleep(0.05)
    assert not left


def test_a_session_of_its_own_does_not_escape(program):
    """A daemon (fork, setsid, fork again) with a child of its own: ended at the limit, and after a run that returns."""
    mark = "75319.75"
    path = program(
        "import subprocess, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        f"        subprocess.run(['sh', '-c', 'sleep {mark}; true'])\n"
        "    os._exit(0)\n"
        "time.sleep(1000 if float(sys.argv[1]) > 0.5 else 0.2)\nprint(1)"
    )
    settings = {"time_limit": 2.0, "on_timeout": "restrict", "progress": "quiet"}
    sims = th.simulate(th.Command([path, "{0}"]), [[0.1], [0.9]], workers=1, **settings)
    assert sims.status.tolist() == ["ok", "timeout"]
    until = time.monotonic() + 5
    while time.monotonic() < until and (left := sleeping(mark)):
        time.sleep(0.05)
    assert not left


@pytest.mark.parametrize("how", ["time-out", "killed driver"])
def test_no_folder_of_a_run_is_left_behind(program, tmp_path, monkeypatch, how):
    scratch, begun = Path(tempfile.mkdtemp(dir="/tmp")), tmp_path / "begun"  # a socket's path may have 107 characters
    monkeypatch.setenv("TMPDIR", str(scratch))
    path = program(
        f"import time\nopen('big', 'w').write('x' * 100_000)\nopen({str(begun)!r}, 'w').close()\ntime.sleep(1000)"
    )
    settings = {"time_limit": 1.0, "on_timeout": "restrict"} if how == "time-out" else {}
    script = tmp_path / "driver.py"
    script.write_text(
        f"import thrifty as th\ncommand = th.Command([{path!r}])\n"
        f"th.simulate(command, [[1.0], [2.0]], workers=2, progress='quiet', **{settings!r})\n"
    )
    driver = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not begun.exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert list(scratch.rglob("big")), "the run must have written into a folder of its own"
    if how == "killed driver":
        driver.kill()
    driver.wait(timeout=60)
    until = time.monotonic() + 10
    while (left := list(scratch.glob("thrifty-*"))) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left and not list(scratch.rglob("big"))
    shutil.rmtree(scratch)


def test_a_temporary_folder_too_deep_for_sockets_is_named(tmp_path):
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    code = "import thrifty as th\nth.simulate(abs, [[1.0]], workers=2, progress='quiet')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(deep)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "[bad-setting]" in done.stderr and "TMPDIR=/tmp" in done.stderr


def test_a_program_that_ends_leaves_its_siblings_alone(program):
    """Two programs at once in one run, and one that the worker keeps from run to run."""
    slow = th.Command([program("import time\ntime.sleep(0.5)\nprint(1)", "slow")])
    fast = th.Command([program("print(2)", "fast")])
    kept = []

    def simulate(theta, seed):
        if not kept:
            kept.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(command, theta, seed) for command in (slow, fast)]
            total = sum(float(np.sum(one.result().x)) for one in both)
        kept[0].stdin.write(b"4\n")
        kept[0].stdin.flush()
        return total + float(kept[0].stdout.readline())

    sims = th.simulate(simulate, [[1.0], [2.0], [3.0]], workers=1, progress="quiet")
    assert sims.ok.all() and sims.x.ravel().tolist() == [7.0] * 3


def test_a_signal_without_a_name_is_a_crash_too(program):
    path = program("os.kill(os.getpid(), 36)")
    with pytest.raises(ProgramCrashError, match="killed by signal 36"):
        th.Command([path])(np.array([1.0]), 0)


def sleeping(mark):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found += [pid] if mark.encode() in file.read() else []
        except OSError:
            pass
    return found


def test_cost_of_a_program_is_its_cpu_time(program):
    path = program("import time\nt = time.process_time() + 0.2\nwhile time.process_time() < t: pass\nprint(1)")
    sims = th.simulate(th.Command([path]), [[1.0], [2.0]], workers=1, progress="quiet")
    assert (sims.cost >= 0.2).all() and (sims.cost < 0.6).all()


@pytest.mark.parametrize(
    "arguments", [[], "./sim 3", ["./nothing-there"], ["sim-not-executable"], ["echo", "{a b}"], ["echo", "{"]]
)
def test_bad_commands_are_refused_when_made(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "sim-not-executable"
    path.write_text("")
    path.chmod(stat.S_IRUSR)
    with pytest.raises(SimulatorError) as caught:
        th.Command(["./sim-not-executable"] if arguments == ["sim-not-executable"] else arguments)
    assert caught.value.code == "bad-command"


def test_unknown_parameters_and_files_outside(tmp_path):
    with pytest.raises(SimulatorError, match="asks for 'delta'"):
        th.simulate(th.Command(["echo", "{delta}"]), th.Draws([[1.0]], names=("beta",)))
    for file in ("/etc/passwd", "../x"):
        with pytest.raises(SimulatorError):
            th.Command(["echo"], file=file)


def test_a_changed_program_is_noticed(program, tmp_path):
    from thrifty.campaign.fingerprint import fingerprint
    from thrifty.campaign.settings import differences

    old = fingerprint(th.Command([program("print(1)"), "{0}"]))
    new = fingerprint(th.Command([program("print(2)"), "{0}"]))
    assert len(differences(old, new)) == 1 and "file sim changed" in differences(old, new)[0]
