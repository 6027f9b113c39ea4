"""In a real pseudo-terminal and without one: bars, colours, Ctrl-C, and how quick the answer is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from .conftest import Project, environment, shell
from .test_journey import ONE_TOML, SLOW_MODEL, recorded

CTRL_C = b"\x03"


class Terminal:
    """A command in a terminal of its own: what it shows, and keys to press."""

    def __init__(self, home: Path, *words: str, **more: str) -> None:
        self.pid, self.screen = pty.fork()
        if self.pid == 0:  # the child: nothing but the command
            os.chdir(home)
            os.execve(sys.executable, [sys.executable, "-m", "thrifty", *words], environment(**more))
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.text = ""

    def read(self, seconds: float = 0.1) -> str:
        """Take in what is shown."""
        while select.select([self.screen], [], [], seconds)[0]:
            try:
                part = os.read(self.screen, 65536)
            except OSError:  # the other side is gone
                break
            if not part:
                break
            self.text += part.decode("utf-8", "replace")
        return self.text

    def until(self, pattern: str, seconds: float = 120.0) -> None:
        """Wait until it is shown."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.read()):
            assert time.monotonic() < end, f"{pattern!r} was never shown:\n{self.text[-2000:]}"

    def press(self, keys: bytes) -> None:
        """Type keys."""
        os.write(self.screen, keys)

    def end(self, seconds: float = 120.0) -> int:
        """Wait for the end; the exit code."""
        end = time.monotonic() + seconds
        while True:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.read(0.05)
                os.close(self.screen)
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > end:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
                pytest.fail(f"it did not end:\n{self.text[-2000:]}")


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A project whose runs sleep 50 ms each: 320 runs, 8 s with two workers."""
    toml = ONE_TOML.format(simulator='python = "model.py:simulate"').replace("n = 40", "n = 300")
    (tmp_path / "thrifty.toml").write_text(toml)
    (tmp_path / "model.py").write_text(SLOW_MODEL.replace("0.01", "0.05"))
    return tmp_path


def test_ctrl_c_once_drains_and_the_next_run_goes_on(slow: Path, project: Project, monkeypatch: pytest.MonkeyPatch):
    folder = slow / "runs" / "main"
    terminal = Terminal(slow, "run")
    terminal.until(r"\d+/320 runs")  # the bar of the campaign, not of the pilot
    terminal.press(CTRL_C)
    assert terminal.end() == 130
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.text)
    assert "press" in text and "Traceback" not in text
    assert re.search(r"stopped\. [\d,]+ runs are safe on disk\.", text), text[-800:]
    assert "next: thrifty run runs/main" in text
    kept = recorded(folder)
    assert 20 <= kept < 320
    monkeypatch.chdir(slow)
    ended = project.type("run")
    assert ended.code == 0 and "320 of 320 runs done" in ended.out
    assert "\x1b" not in ended.out + ended.err  # no terminal, no colours


def test_ctrl_c_twice_stops_at_once(tmp_path: Path, slow: Path):
    (slow / "model.py").write_text(SLOW_MODEL.replace("0.01", "0.01 if theta[0] < 3.2 else 30"))
    terminal = Terminal(slow, "run")
    terminal.until(r"busy")
    time.sleep(1.0)  # long runs are under way
    terminal.press(CTRL_C)
    terminal.until(r"press")
    began = time.monotonic()
    terminal.press(CTRL_C)
    assert terminal.end() == 130
    assert time.monotonic() - began < 15  # thirty seconds of sleep were not waited for
    assert "Traceback" not in terminal.text


@pytest.mark.slow
def test_sigterm_drains_with_143(slow: Path):
    process = subprocess.Popen(
        [sys.executable, "-m", "thrifty", "run"], cwd=slow, env=environment(), stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 120
    while recorded(slow / "runs" / "main") < 40 and time.monotonic() < until:
        time.sleep(0.05)
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143 and "runs are safe on disk" in err and "Traceback" not in err


@pytest.mark.slow
def test_a_run_under_the_debugger(done: Project):
    terminal = Terminal(done.home, "replay", "41", "--debug")
    terminal.until(r"\(Pdb\) ")
    assert "model.py" in terminal.text and "x = theta + 0.1" in terminal.text  # inside the simulator, at its first line
    terminal.press(b"p len(theta)\n")
    terminal.until(r"\r\n2\r\n")
    terminal.press(b"continue\n")
    assert terminal.end() == 0 and "the same numbers" in terminal.text


def test_colour_only_where_it_is_wanted(tmp_path: Path):
    for more, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        terminal = Terminal(tmp_path, "worker", **more)
        assert terminal.end() == 0
        assert ("\x1b[1m" in terminal.text) is coloured, more


@pytest.mark.slow
def test_a_dumb_terminal_gets_lines_not_a_bar(project: Project):
    terminal = Terminal(project.home, "plan", TERM="dumb")
    assert terminal.end() == 0
    assert "\x1b" not in terminal.text and "<- chosen" in terminal.text


def test_data_and_progress_do_not_mix(project: Project):
    ended = project.type("plan", "--quiet")
    assert ended.code == 0 and ended.err == ""
    assert ended.out.startswith("penalty") and "next:" not in ended.out


def test_a_closed_pipe_is_no_error(tmp_path: Path):
    command = f"{sys.executable} -m thrifty worker | head -n 1"
    ended = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in ended.stderr and "Error" not in ended.stderr


def test_help_answers_at_once(tmp_path: Path):
    # CPU seconds, the least of three: other work on the machine only adds
    used = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended = shell(tmp_path, "--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert ended.returncode == 0 and "reproduce" in ended.stdout
    assert min(used) < 0.5


@pytest.mark.parametrize(
    "command",
    ["init", "check", "plan", "run", "resume", "status", "infer", "report", "verify", "export", "replay", "worker",
     "reproduce"],
)  # fmt: skip
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]):
    from thrifty.cli.main import invoke as run

    assert run([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"thrifty {command}" in text and len(text.splitlines()) > 4
