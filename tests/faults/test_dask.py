"""Dask: the same table from a local cluster and from separate processes; killed workers and schedulers."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import psutil
import pytest
import scenario
from test_kills import recorded

import thrifty as th
from thrifty.errors import CampaignError, ConfigError
from thrifty.runner.engines import dask_connection
from thrifty.runner.interrupts import Interrupted
from thrifty.runner.task import Job

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def launch(*arguments, first=""):
    """A Dask command in a process of its own; `first` is run before it."""
    code = f"import sys; {first or 'pass'}; from dask.__main__ import main; sys.argv[0] = 'dask'; main()"
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


class Machines:
    """Schedulers and workers, each a process of its own, on loopback; ports are free ones, 8787 is never used."""

    def __init__(self):
        self.started = []

    def scheduler(self, *options, protocol="tcp", first=""):
        """Start a scheduler; its address."""
        port = free_port()
        plain = ["--host", f"{protocol}://127.0.0.1", "--port", str(port), "--no-dashboard", "--no-show"]
        plain += ["--dashboard-address", "127.0.0.1:0"]  # "--no-dashboard" still serves HTTP, on 8787 if not told
        self.started.append(launch("scheduler", *plain, *options, first=first))
        return f"{protocol}://127.0.0.1:{port}"

    def worker(self, address, *options, first=""):
        """Start a worker; its process."""
        plain = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"]
        self.started.append(launch("worker", address, *plain, *options, first=first))
        return self.started[-1]


@pytest.fixture
def machines():
    made = Machines()
    yield made
    for process in reversed(made.started):
        end(process)


@pytest.fixture
def cluster(machines):
    """A scheduler and two workers."""
    address = machines.scheduler()
    os.environ["SCENARIO_DELAY"] = "0.03"  # slow enough to be killed in the middle
    workers = [machines.worker(address) for _ in range(2)]
    del os.environ["SCENARIO_DELAY"]
    return address, machines.started[0], workers


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
    thread = threading.Thread(target=end_when, args=(folder, 40, scheduler))
    thread.start()
    c = scenario.campaign(folder)
    with pytest.raises(CampaignError, match=r"the Dask cluster .* is gone") as caught:
        c.run(engine=th.Dask(address, bundle_seconds=0.05, patience=4.0), progress="quiet")
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


@pytest.mark.parametrize("where", [0, -1, True, None, 2.5, ""])
def test_bad_clusters(where):
    with pytest.raises(ConfigError):
        th.Dask(where)


@pytest.mark.parametrize(
    "settings",
    [
        {"where": 2, "patience": 0},
        {"where": 2, "patience": "long"},
        {"where": 2, "security": distributed.Security()},
        {"where": "tls://127.0.0.1:1", "security": True},
        {"where": "tcp://127.0.0.1:1", "dashboard": True},
    ],
)
def test_bad_settings(settings):
    with pytest.raises(ConfigError):
        th.Dask(**settings)


def test_no_scheduler_there(monkeypatch):
    monkeypatch.setattr(dask_connection, "CONNECT_SECONDS", 1.0)
    engine = th.Dask(f"tcp://127.0.0.1:{free_port()}", patience=60.0)
    with pytest.raises(CampaignError, match="no Dask scheduler at"):
        th.simulate(noisy, [[1.0]], engine=engine)


def noisy(theta, rng):
    return theta + rng.normal()


def listening():
    """Ports on which this process listens."""
    return {c.laddr for c in psutil.Process().net_connections() if c.status == psutil.CONN_LISTEN}


def test_workers_in_this_process_open_no_port():
    """Nobody else on the machine can send code to them, and there is no HTTP server."""
    engine, before = th.Dask(2), listening()
    engine.start(Job(noisy, seed=0))
    try:
        assert engine._cluster.scheduler_address.startswith("inproc://")
        assert engine.slots == 2 and listening() == before
    finally:
        engine.stop()


def test_a_dashboard_is_on_loopback_and_only_where_asked_for():
    engine, before = th.Dask(1, dashboard=True), listening()
    engine.start(Job(noisy, seed=0))
    try:
        assert [ip for ip, _ in listening() - before] == ["127.0.0.1"]
    finally:
        engine.stop()


def test_another_dask_on_port_8787_does_not_matter(rng):
    theta = rng.random((10, 1))
    local = th.simulate(noisy, theta, seed=2, workers=1, progress="quiet")
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # taken already: as good
            taken.bind(("0.0.0.0", 8787))
            taken.listen()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sims = th.simulate(noisy, theta, seed=2, engine=th.Dask(2), progress="quiet")
    assert th.table_hash(sims) == th.table_hash(local)


def test_queued_workers_are_waited_for_without_limit(copied, machines, capfd):
    """The first worker comes after four times the patience."""
    folder, expected = copied
    address = machines.scheduler()
    timer = threading.Timer(4.0, machines.worker, [address])
    timer.start()
    scenario.campaign(folder).run(engine=th.Dask(address, patience=1.0), progress="plain")
    assert scenario.final_hash(folder) == expected
    assert capfd.readouterr().err.count("waiting for workers") == 1


def test_ctrl_c_stops_at_once_while_no_worker_is_there(copied, machines):
    folder, expected = copied
    engine = th.Dask(machines.scheduler())
    timer = threading.Timer(2.5, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    with pytest.raises(Interrupted):
        scenario.campaign(folder).run(engine=engine, progress="quiet")
    scenario.campaign(folder).run(engine=th.Inline(), progress="quiet")
    assert scenario.final_hash(folder) == expected


def test_patience_counts_once_a_worker_was_seen(copied, machines):
    folder, expected = copied
    address = machines.scheduler()
    worker = machines.worker(address)
    thread = threading.Thread(target=end_when, args=(folder, 30, worker))
    thread.start()
    with pytest.raises(CampaignError, match=r"is gone: no workers for 1 s"):
        scenario.campaign(folder).run(engine=th.Dask(address, patience=1.0, bundle_seconds=0.05), progress="quiet")
    thread.join()
    scenario.campaign(folder).run(engine=th.Inline(), progress="quiet")
    assert scenario.final_hash(folder) == expected


def test_a_client_and_a_cluster_object(copied, cluster, rng):
    folder, expected = copied
    with distributed.Client(cluster[0], set_as_default=False) as client:
        scenario.campaign(folder).run(engine=th.Dask(client), progress="quiet")
        assert client.status == "running", "a client that was passed in stays open"
        assert client.submit(abs, -1).result() == 1
    assert scenario.final_hash(folder) == expected
    theta = rng.random((10, 1))
    with distributed.LocalCluster(1, processes=False, dashboard_address="127.0.0.1:0") as local:
        sims = th.simulate(noisy, theta, seed=2, engine=th.Dask(local), progress="quiet")
        assert local.status == distributed.Status.running
    assert th.table_hash(sims) == th.table_hash(th.simulate(noisy, theta, seed=2, workers=1, progress="quiet"))


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A certificate of its own authority, made for this test."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=thrifty-test"]
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return str(certificate), str(key)


def test_tls(certificate, machines, rng):
    path, key = certificate
    options = ["--tls-ca-file", path, "--tls-cert", path, "--tls-key", key]
    address = machines.scheduler(*options, protocol="tls")
    machines.worker(address, *options)
    with pytest.raises(ConfigError, match=f"{address} needs certificates, but none are given") as caught:
        th.Dask(address)
    assert "security=distributed.Security(tls_ca_file=" in caught.value.fix
    security = distributed.Security(tls_ca_file=path, tls_client_cert=path, tls_client_key=key, require_encryption=True)
    theta = rng.random((10, 1))
    sims = th.simulate(noisy, theta, seed=2, engine=th.Dask(address, security=security), progress="quiet")
    assert th.table_hash(sims) == th.table_hash(th.simulate(noisy, theta, seed=2, workers=1, progress="quiet"))


NO_THRIFTY = "sys.modules['thrifty'] = None"  # an import of it fails as if it were not installed
OTHER_VERSION = "import thrifty.version; thrifty.version.__version__ = '0.0.1'"


@pytest.mark.parametrize(
    ("first", "message", "way_out"),
    [
        (NO_THRIFTY, r"has no thrifty", "pip install thrifty=="),
        (OTHER_VERSION, r"has thrifty 0.0.1 \(driver: ", "install the driver's versions"),
    ],
)
@pytest.mark.parametrize("everywhere", [True, False])
def test_a_worker_with_another_environment(first, message, way_out, everywhere, machines):
    """One sentence with the way out, whether the scheduler has the same environment or the driver's."""
    address = machines.scheduler(first=first if everywhere else "")
    machines.worker(address, first=first)
    with pytest.raises(CampaignError, match=message) as caught:
        th.simulate(noisy, [[1.0]], engine=th.Dask(address), progress="quiet")
    assert caught.value.code == "worker-environment" and way_out in caught.value.fix
    assert "\n" not in caught.value.what


@pytest.mark.parametrize("place", ["when it is loaded", "when it is called"])
def test_a_module_that_a_worker_lacks(place, machines, tmp_path, monkeypatch):
    """No run is recorded as failed: on another worker it would have succeeded."""
    (tmp_path / "helper_of_driver.py").write_text("def shift(x):\n    return x + 1\n")
    imports = "import helper_of_driver"
    late = place == "when it is called"
    (tmp_path / "model_of_driver.py").write_text(
        f"{'' if late else imports}\ndef simulate(theta):\n    {imports if late else 'pass'}\n"
        "    return helper_of_driver.shift(theta)\n"
    )
    address = machines.scheduler()
    machines.worker(address)
    monkeypatch.syspath_prepend(str(tmp_path))
    import model_of_driver

    with pytest.raises(CampaignError, match=r"the worker on .* has no module 'helper_of_driver'") as caught:
        th.simulate(model_of_driver.simulate, [[1.0]], engine=th.Dask(address), progress="quiet")
    assert caught.value.code == "worker-environment" and "PYTHONPATH" in caught.value.fix
    sys.modules.pop("model_of_driver"), sys.modules.pop("helper_of_driver", None)
