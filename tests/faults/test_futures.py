"""Executors under a campaign: killed workers, broken executors, Ctrl-C at the terminal."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import psutil
import pytest
import scenario
from joblib.externals import loky
from test_kills import recorded

import thrifty as th
from thrifty.errors import CampaignError

DRIVER = """
import sys
sys.path.insert(0, sys.argv[2])
import scenario, thrifty as th
from concurrent.futures import ProcessPoolExecutor
from thrifty.runner.interrupts import Interrupted
with ProcessPoolExecutor(2) as executor:
    try:
        scenario.campaign(sys.argv[1]).run(engine=th.Futures(executor, bundle_seconds=0.2), progress="quiet")
    except Interrupted as stopped:
        print(stopped, flush=True)
        sys.exit(stopped.exit_code)
"""


def make_pool(n):
    """Fresh workers: other tests may have left threads here, which make a fork unsafe."""
    return ProcessPoolExecutor(n, mp_context=multiprocessing.get_context("forkserver"))


def wait_until(folder, runs):
    until = time.monotonic() + 60
    while len(recorded(folder)) < runs and time.monotonic() < until:
        time.sleep(0.02)


def kill_one(folder, runs, find):
    wait_until(folder, runs)
    os.kill(next(iter(find()._processes)), signal.SIGKILL)


@pytest.mark.parametrize("make", [make_pool, loky.ProcessPoolExecutor])
def test_a_broken_executor_stops_cleanly_and_resumes(copied, monkeypatch, make):
    monkeypatch.setenv("SCENARIO_DELAY", "0.03")
    folder, expected = copied
    executor = make(2)
    thread = threading.Thread(target=kill_one, args=(folder, 40, lambda: executor))
    thread.start()
    with pytest.raises(CampaignError, match="is broken") as caught:
        scenario.campaign(folder).run(engine=th.Futures(executor, bundle_seconds=0.05), progress="quiet")
    thread.join()
    assert caught.value.exit_code == 5 and len(recorded(folder)) >= 40
    executor.shutdown()
    scenario.campaign(folder).run(engine=th.Inline(), progress="quiet")
    assert scenario.final_hash(folder) == expected


def test_an_executor_that_was_made_is_replaced(copied, monkeypatch):
    monkeypatch.setenv("SCENARIO_DELAY", "0.03")
    folder, expected = copied
    made = []

    def make():
        made.append(make_pool(2))
        return made[-1]

    def kill_twice():
        for pools in (1, 2):  # each after runs of its own: one killed while it starts counts as broken at once
            until = time.monotonic() + 60
            while (len(made) < pools or not made[-1]._processes) and time.monotonic() < until:
                time.sleep(0.02)
            kill_one(folder, len(recorded(folder)) + 15, lambda: made[-1])

    thread = threading.Thread(target=kill_twice)
    thread.start()
    scenario.campaign(folder).run(engine=th.Futures(make, bundle_seconds=0.05), progress="quiet")
    thread.join()
    assert len(made) == 3, "two were killed"
    assert scenario.final_hash(folder) == expected


def start_driver(folder, delay):
    here = str(Path(scenario.__file__).parent)
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(folder), here],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SCENARIO_DELAY": str(delay)},
    )


def wait_until_idle(pids):
    """Wait until processes use no CPU time for a second: their simulators sleep."""
    used, until = None, time.monotonic() + 30
    while time.monotonic() < until:
        now = [sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids]
        if now == used:
            return
        used = now
        time.sleep(1.0)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_at_the_terminal(copied, times):
    """The signal reaches the executor's workers too: once, running bundles are finished; twice, they end now."""
    folder, expected = copied
    driver = start_driver(folder, delay=0.05 if times == 1 else 3.0)
    if times == 1:
        wait_until(folder, 40)
    else:  # bundles of half a minute are under way
        until = time.monotonic() + 30
        while len(scenario.workers_of(driver.pid)) < 2 and time.monotonic() < until:
            time.sleep(0.1)
        wait_until_idle(scenario.workers_of(driver.pid))  # on a busy machine a worker may still be starting
    before = len(recorded(folder))
    tree = psutil.Process(driver.pid).children(recursive=True)
    for _ in range(times):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGINT)
        time.sleep(0.5)
    out, err = driver.communicate(timeout=30)
    assert driver.returncode == 130, (out, err)
    assert scenario.gone([process.pid for process in tree])
    assert before <= len(recorded(folder)) < 200
    scenario.campaign(folder).run(engine=th.Inline(), progress="quiet")
    assert scenario.final_hash(folder) == expected
