"""Progress: plain lines, JSON lines, a bar in a terminal, nothing when quiet."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from thrifty.runner.progress import Watched, watch_progress
from thrifty.runner.schedule import Schedule
from thrifty.runner.snapshot import Snapshot
from thrifty.runner.task import Outcome


def watched(mode, n=40, *, predicted=True, done=20):
    """Half of a job watched in a mode; what it wrote."""
    rng = np.random.default_rng(0)
    theta = rng.random((n, 1))
    cost = np.exp(3 * theta[:, 0])
    schedule = Schedule(np.arange(n), theta, predicted=cost)
    stream = io.StringIO()
    weights = 1.5 * theta[:, 0]
    now = Snapshot(
        np.full(n, "pending", dtype="<U8"), np.full(n, np.nan), cost if predicted else cost * np.nan, weights
    )
    with watch_progress(mode, Watched(n, "s", now.sum_up), stream=stream) as watching:
        if mode != "quiet":
            watching.every = watching._due = 0.0
        for _ in range(done):
            (task,) = schedule.take(seconds=0, slots=2)
            outcome = Outcome(task.index, "ok", task.theta, float(cost[task.index]), float(cost[task.index]))
            schedule.learn(outcome, task.predicted)
            now.status[task.index], now.cost[task.index] = "ok", outcome.cpu
            watching.update(schedule=schedule, busy=2)
            watching._due = 0.0
    return stream.getvalue(), cost, schedule


def test_plain_lines_say_everything():
    text, _, _ = watched("plain")
    last = text.splitlines()[-1]
    for words in ("% of cost", "20/40 runs", "2 busy", "spent", "left", "ETA", "failed 0 (0% of prior mass)"):
        assert words in last
    assert "the whole plan saves" in last and "per effective run" in last


def test_what_is_saved_does_not_depend_on_who_finished_first():
    """Predictions are exact here, so the figure is that of the end from the first run on."""
    figures = [json.loads(line) for line in watched("json", done=40)[0].splitlines()]
    assert figures[0]["done"] == 1 and figures[-1]["done"] == 40
    for early in figures:
        for key in ("saved_amount", "saved_share", "saved_per_effective"):
            assert early[key] == pytest.approx(figures[-1][key])
    theta = np.random.default_rng(0).random((40, 1))
    cost, weights = np.exp(3 * theta[:, 0]), np.exp(1.5 * theta[:, 0])
    assert figures[-1]["saved_share"] == pytest.approx(1 - cost.mean() / (weights @ cost / weights.sum()))


def test_without_predictions_nothing_is_said_before_the_end():
    figures = [json.loads(line) for line in watched("json", done=40, predicted=False)[0].splitlines()]
    assert all("saved_amount" not in early for early in figures if early["done"] < 40)
    assert "saved_amount" in figures[-1]


def test_the_last_figures_are_as_far_as_it_came():
    """After Ctrl-C half is done, not all."""
    *_, before, last = [json.loads(line) for line in watched("json")[0].splitlines()]
    assert last["share"] == before["share"] < 1 and last["done"] == 20
    assert json.loads(watched("json", done=40)[0].splitlines()[-1])["share"] == 1.0


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


def test_the_end_is_not_called_running():
    """Draws that a budget did not admit do not stand beside the runs as if they were missing."""
    for done, how_far in ((40, "40/40 runs"), (20, "20/40 runs")):
        text, _, _ = watched("bar", done=done)
        assert "ended" in text and how_far in text and "0 busy" not in text
    figures = Watched(40, "s", Snapshot(*(np.empty(0, t) for t in ("<U8", float, float, float))).sum_up)
    used = replace(figures.compute_figures(), done=12)  # the budget is used, the other 28 draws never run
    assert used.format_end() == "100% of cost   12 runs done"
