"""Processes that outlive their driver, process ids used again, kills of the helpers themselves."""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import thrifty as th
from thrifty.errors import ConfigError
from thrifty.runner.engines import process_tree
from thrifty.runner.engines.process_tree import CleanupProcess, end_tree, find_process


@pytest.fixture
def sleeper():
    """Start a process that leads a session, with a child in a session of its own; both end with the test."""
    code = "import subprocess, time; print(subprocess.Popen(['sleep', '60'], start_new_session=True).pid, flush=True)"
    parent = subprocess.Popen(
        [sys.executable, "-c", f"{code}; time.sleep(60)"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    child = find_process(int(parent.stdout.readline()))
    yield parent, child
    parent.kill()
    parent.wait()
    parent.stdout.close()
    if child.is_running():
        child.kill()


def is_gone(process, seconds=5.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if process_tree.process_state(process) == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


def test_a_tree_ends_whatever_its_sessions(sleeper):
    parent, child = sleeper
    end_tree(psutil.Process(parent.pid))
    assert parent.wait(5) == -signal.SIGKILL and is_gone(child)


def test_a_process_id_used_again_is_left_alone(sleeper, monkeypatch):
    """The remembered process started at another time than the one that has its id now."""
    parent, child = sleeper
    remembered = psutil.Process(parent.pid)
    monkeypatch.setattr(remembered, "_ident", (parent.pid, 1.0))
    end_tree(remembered)
    time.sleep(0.2)
    assert parent.poll() is None and not is_gone(child, 0.1)
    assert psutil.Process(parent.pid).status() != psutil.STATUS_STOPPED


def test_workers_end_with_the_pipe_and_the_folder_goes(sleeper):
    parent, child = sleeper
    cleanup = CleanupProcess()
    cleanup.add_worker(parent.pid)
    cleanup.close()
    assert parent.wait(5) == -signal.SIGKILL and is_gone(child) and not Path(cleanup.scratch).exists()


def test_a_cleanup_process_that_was_killed_is_replaced(sleeper):
    """Its successor knows the workers that were announced before, and those announced while there was none."""
    parent, child = sleeper
    late = subprocess.Popen(["sleep", "60"], start_new_session=True)
    ended = subprocess.Popen(["sleep", "60"], start_new_session=True)
    cleanup = CleanupProcess()
    cleanup.add_worker(parent.pid)
    cleanup.add_worker(ended.pid)
    cleanup._process.kill()
    cleanup._process.wait()
    cleanup.add_worker(late.pid)
    cleanup.forget_worker(ended.pid)
    cleanup.ensure_running()
    cleanup.close()
    assert parent.wait(5) == late.wait(5) == -signal.SIGKILL and is_gone(child)
    assert ended.poll() is None, "a worker that was forgotten is nobody's to end"
    ended.kill()
    ended.wait()


@pytest.mark.parametrize("victim", ["cleanup process", "fork server"])
def test_runs_go_on_when_a_helper_is_killed(victim):
    """Nothing is blamed on the runs; workers that start later are started and watched as before."""
    engine = th.Processes(2)

    def kill():
        while len(engine.pids) < 2:
            time.sleep(0.01)
        time.sleep(0.3)
        if victim == "fork server":  # its workers are replaced
            os.kill(multiprocessing.forkserver._forkserver._forkserver_pid, signal.SIGKILL)
            return
        worker = engine.pids[0]
        os.kill(engine._cleanup._process.pid, signal.SIGKILL)
        os.kill(worker, signal.SIGKILL)

    helper = threading.Thread(target=kill)
    helper.start()
    theta = np.arange(60.0)[:, None]
    sims = th.simulate(lambda theta: time.sleep(0.05) or theta, theta, engine=engine, progress="quiet")
    helper.join()
    assert sims.ok.all()
    np.testing.assert_array_equal(sims.x, theta)


def test_a_fork_server_that_is_still_ending_is_waited_for(monkeypatch):
    """Until it has ended it refuses connections, but counts as running: the start is tried again."""
    attempts = []
    connect = multiprocessing.forkserver.connect_to_new_process

    def refuse_twice(descriptors):
        attempts.append(len(descriptors))
        if len(attempts) <= 2:
            raise ConnectionRefusedError(111, "Connection refused")
        return connect(descriptors)

    monkeypatch.setattr(multiprocessing.forkserver, "connect_to_new_process", refuse_twice)
    sims = th.simulate(lambda theta: theta, [[1.0], [2.0]], workers=1, progress="quiet")
    assert sims.ok.all() and len(attempts) == 3


def test_a_fork_server_that_cannot_be_reached_is_said(monkeypatch):
    def refuse(descriptors):
        raise EOFError

    monkeypatch.setattr(multiprocessing.forkserver, "connect_to_new_process", refuse)
    with pytest.raises(ConfigError, match=r"fork server ended \(EOFError\)"):
        th.simulate(lambda theta: theta, [[1.0], [2.0]], workers=1, progress="quiet")


def test_a_simulator_may_start_processes():
    def simulate(theta):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            return pool.map(abs, [-theta[0], theta[0]])

    sims = th.simulate(simulate, [[1.0], [-2.0]], workers=2, progress="quiet")
    assert sims.ok.all() and sims.x.tolist() == [[1.0, 1.0], [2.0, 2.0]]
