"""Dask: the same table from a local cluster and from separate processes; killed workers and schedulers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scenario
from test_kills import recorded

import thrifty as th
import thrifty.runner.engines.dask
from thrifty.errors import CampaignError, ConfigError

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def launch(*arguments):
    code = "import sys; from dask.__main__ import main; sys.argv[0] = 'dask'; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def end(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture
def cluster():
    """A scheduler and two workers, each a process of its own, on loopback."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    scheduler = launch("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-show")
    plain = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"]
    os.environ["SCENARIO_DELAY"] = "0.03"  # slow enough to be killed in the middle
    workers = [launch("worker", address, *plain) for _ in range(2)]
    del os.environ["SCENARIO_DELAY"]
    yield address, scheduler, workers
    for process in (*workers, scheduler):
        end(process)


def end_when(folder, runs, process):
    """Kill a process once so many runs are recorded."""
    until = time.monotonic() + 60
    while len(recorded(folder)) < runs and time.monotonic() < until:
        time.sleep(0.02)
    end(process)


def test_a_local_cluster_gives_the_same_table(copied):
    folder, expected = copied
    scenario.campaign(folder).run(engine=th.Dask(2), progress="quiet")
    assert scenario.final_hash(folder) == expected


def test_separate_processes_and_a_killed_worker(copied, cluster):
    folder, expected = copied
    address, _, workers = cluster
    c = scenario.campaign(folder)
    thread = threading.Thread(target=end_when, args=(folder, 40, workers[0]))
    thread.start()
    c.run(engine=th.Dask(address, bundle_seconds=0.05), progress="quiet")
    thread.join()
    assert workers[0].poll() is not None, "the worker was not killed in time"
    assert scenario.final_hash(folder) == expected


def test_a_killed_scheduler_stops_cleanly_and_resumes(copied, cluster, monkeypatch):
    folder, expected = copied
    address, scheduler, _ = cluster
    monkeypatch.setattr(thrifty.runner.engines.dask, "MAX_ABSENCE_SECONDS", 4.0)
    thread = threading.Thread(target=end_when, args=(folder, 40, scheduler))
    thread.start()
    c = scenario.campaign(folder)
    with pytest.raises(CampaignError, match=r"the Dask cluster .* is gone") as caught:
        c.run(engine=th.Dask(address, bundle_seconds=0.05), progress="quiet")
    thread.join()
    assert caught.value.exit_code == 5
    monkeypatch.setenv("SCENARIO_DELAY", "0")
    scenario.campaign(folder).run(engine=th.Inline(), progress="quiet")
    assert scenario.final_hash(folder) == expected


def crashing(theta, rng):
    if theta[0] > 0.9:
        os._exit(3)
    if theta[0] < 0.1:
        while True:
            pass
    return rng.random()


@pytest.mark.filterwarnings("ignore:.*runs failed.*:thrifty.errors.ThriftyWarning")
def test_crashes_and_limits_on_dask(rng):
    theta = np.array([[0.5], [0.95], [0.05], [0.3], [0.6]])
    settings = {"time_limit": 1.0, "on_timeout": "restrict", "seed": 3, "progress": "quiet"}
    sims = th.simulate(crashing, theta, engine=th.Dask(2), **settings)
    assert sims.status.tolist() == ["ok", "crashed", "timeout", "ok", "ok"]
    local = th.simulate(crashing, theta, workers=2, **settings)
    np.testing.assert_array_equal(sims.x, local.x)


@pytest.mark.parametrize("where", [0, -1, True, None, 2.5])
def test_bad_clusters(where):
    with pytest.raises(ConfigError):
        th.Dask(where)


def test_no_scheduler_there(monkeypatch):
    monkeypatch.setattr(thrifty.runner.engines.dask, "MAX_ABSENCE_SECONDS", 1.0)
    with pytest.raises(CampaignError, match="no Dask scheduler at"):
        th.simulate(lambda theta: theta, [[1.0]], engine=th.Dask(f"tcp://127.0.0.1:{free_port()}"))
