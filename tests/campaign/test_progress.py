"""Progress: plain lines, JSON lines, a bar in a terminal, nothing when quiet."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import time

import numpy as np
import pytest

from thrifty.campaign.progress import watcher
from thrifty.campaign.schedule import Schedule
from thrifty.campaign.tally import Tally
from thrifty.campaign.task import Outcome


def watched(mode, n=40):
    """Half of a job watched in a mode; what it wrote."""
    rng = np.random.default_rng(0)
    theta = rng.random((n, 1))
    cost = np.exp(3 * theta[:, 0])
    schedule = Schedule(np.arange(n), theta, predicted=cost)
    stream = io.StringIO()
    tally = Tally(n, weight_of=lambda i: float(1.5 * theta[i, 0]))
    with watcher(mode, tally=tally, stream=stream) as watching:
        watching.every = 0.0
        for _ in range(n // 2):
            (task,) = schedule.take(seconds=0, slots=2)
            outcome = Outcome(task.index, "ok", task.theta, float(cost[task.index]), float(cost[task.index]))
            schedule.learn(outcome, task.predicted)
            watching.update(recorded=1, schedule=schedule, busy=2, outcomes=[outcome])
    return stream.getvalue(), cost, schedule


def test_plain_lines_say_everything():
    text, _, _ = watched("plain")
    last = text.splitlines()[-1]
    for words in ("% of cost", "20/40 runs", "2 busy", "spent", "left", "ETA", "failed 0 (0% of prior mass)"):
        assert words in last
    assert "saved so far" in last and "per effective run" in last


def test_json_lines():
    text, cost, _ = watched("json")
    lines = [json.loads(line) for line in text.splitlines()]
    half = np.sort(cost)[::-1][:20].sum()
    assert lines[-2]["done"] == 20 and lines[-2]["share"] == pytest.approx(half / cost.sum())
    assert lines[-2]["left_low"] <= lines[-2]["left"] <= lines[-2]["left_high"]
    assert lines[-2]["left"] == pytest.approx((cost.sum() - half) / 2, rel=1e-6), "two workers, perfect predictions"


def test_quiet_writes_nothing():
    assert watched("quiet")[0] == ""


def test_a_bar_in_a_terminal_and_plain_lines_without(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import time, thrifty as th, numpy as np\n"
        "th.simulate(lambda theta, rng: time.sleep(0.02) or theta, np.ones((60, 1)), workers=2)\n"
    )
    main, terminal = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, script], stderr=terminal, stdout=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm"}
    )
    os.close(terminal)
    seen = b""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            seen += os.read(main, 4096)
        except OSError:
            break
    os.close(main)
    assert child.wait(30) == 0
    text = seen.decode("utf-8", "replace")
    assert "60/60 runs" in text and "100%" in text and "━" in text
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stderr == "", "a short job without a terminal says nothing"
