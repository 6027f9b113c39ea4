"""Dask in three network namespaces: scheduler and driver in one, a worker in each of the others, and a cut cable."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import scenario
from namespaces import Namespaces
from test_kills import recorded

DRIVE = Path(__file__).parent / "drive.py"
DASK = "import sys; from dask.__main__ import main; sys.argv[0] = 'dask'; main()"
ADDRESS = "tcp://10.77.0.1:8786"
TTL = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "5s", "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s"}


class Network:
    """Namespaces and the processes in them; what a process prints goes to a file."""

    def __init__(self, folder) -> None:
        self.places, self.folder, self.started = Namespaces(), folder, []

    def launch(self, name, place, *command, **environment):
        """Start a command in a namespace, in a session of its own."""
        with (self.folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                self.places.command(place, *command),
                env={**os.environ, **TTL, **environment},
                start_new_session=True,
                stdout=log,
                stderr=log,
            )
        self.started.append(process)
        return process

    def read(self, name):
        """What a process has printed."""
        return (self.folder / f"{name}.log").read_text()

    def end(self):
        for process in reversed(self.started):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.places.delete()


@pytest.fixture
def network(tmp_path):
    if shutil.which("ip") is None:
        pytest.skip("ip is not installed (apt-get install iproute2)")
    made = Network(tmp_path)
    try:
        made.places.make()
    except OSError as error:
        made.end()
        pytest.skip(f"no network namespaces here: {error}")
    yield made
    made.end()


@pytest.mark.parametrize("seconds", [0, 3, 15])
def test_a_partition_changes_nothing(copied, network, seconds):
    """No cut, one that connections survive, and one after which the scheduler has given the worker up."""
    folder, expected = copied
    hub, python = network.places.hub, (sys.executable, "-c", DASK)
    plain = ["--no-dashboard", "--no-show", "--dashboard-address", "127.0.0.1:0"]
    network.launch("scheduler", hub, *python, "scheduler", "--host", "10.77.0.1", *plain)
    for i, leaf in enumerate(network.places.leaves):
        worker = ["worker", ADDRESS, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", f"10.77.0.{2 + i}"]
        network.launch(f"worker{i}", leaf, *python, *worker, SCENARIO_DELAY="0.2")
    driver = network.launch("driver", hub, sys.executable, str(DRIVE), "dask", str(folder), DASK_ADDRESS=ADDRESS)
    until = time.monotonic() + 60
    while len(recorded(folder)) < 40 and driver.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    if seconds:
        network.places.set_cable(0, "down")
        time.sleep(seconds)
        assert driver.poll() is None, "it was cut too late"
        network.places.set_cable(0, "up")
    assert driver.wait(timeout=240) == 0, network.read("driver")
    assert scenario.final_hash(folder) == expected
    is_given_up = "failed to heartbeat" in network.read("scheduler")
    assert is_given_up == (seconds > 5), network.read("scheduler")
