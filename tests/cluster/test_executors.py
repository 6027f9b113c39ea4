"""Executors of other libraries on this machine: loky, executorlib, Parsl, Ray, submitit, Dask's ClientExecutor."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import uuid
from pathlib import Path

import psutil
import pytest
import scenario
from test_kills import recorded

import thrifty as th
from thrifty.errors import CampaignError

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@contextlib.contextmanager
def open_loky(tmp_path):
    loky = pytest.importorskip("loky")
    executor = loky.get_reusable_executor(max_workers=2)
    yield th.Futures(executor, bundle_seconds=0.1)
    executor.shutdown()


@contextlib.contextmanager
def open_executorlib(tmp_path):
    executorlib = pytest.importorskip("executorlib")
    with executorlib.SingleNodeExecutor(max_workers=2, block_allocation=True) as executor:
        yield th.Futures(executor, bundle_seconds=0.1)


@contextlib.contextmanager
def open_parsl(tmp_path):
    pytest.importorskip("parsl")
    from parsl import Config, HighThroughputExecutor
    from parsl.concurrent import ParslPoolExecutor
    from parsl.providers import LocalProvider

    workers = HighThroughputExecutor(
        label="htex", address="127.0.0.1", loopback_address="127.0.0.1", max_workers_per_node=2,
        provider=LocalProvider(init_blocks=1, max_blocks=1),
    )  # fmt: skip
    config = Config(executors=[workers], run_dir=str(tmp_path / "parsl"), usage_tracking=0, initialize_logging=False)
    with ParslPoolExecutor(config=config) as executor:
        yield th.Futures(executor, slots=2, bundle_seconds=0.1)


@contextlib.contextmanager
def open_client_executor(tmp_path):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield th.Futures(client.get_executor(), slots=2, bundle_seconds=0.1)


@contextlib.contextmanager
def open_submitit(tmp_path):
    submitit = pytest.importorskip("submitit")
    executor = submitit.LocalExecutor(folder=tmp_path / "submitit", python=sys.executable)
    executor.update_parameters(timeout_min=5)
    yield th.Futures(th.SubmititExecutor(executor, max_workers=2), bundle_seconds=1.0)


@contextlib.contextmanager
def open_ray(tmp_path):
    ray = pytest.importorskip("ray")
    ray.init(
        num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False,
        object_store_memory=100 * 2**20, configure_logging=False,
        runtime_env={"env_vars": {name: os.environ.get(name, "") for name in ("PYTHONPATH", "THRIFTY_TEST")}},
    )  # fmt: skip
    try:
        yield th.Futures(th.RayExecutor(), bundle_seconds=0.1)
    finally:
        ray.shutdown()


def find_executor_worker(mark):
    """The worker of an executor that runs a bundle now: the parent of the small process that cleans up after it.

    Only processes that inherited the mark of this very test are looked at.
    """
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("THRIFTY_TEST") == mark and "process_tree" in " ".join(process.cmdline()):
                return process.parent()
    return None


OPEN = [open_loky, open_executorlib, open_parsl, open_client_executor, open_submitit, open_ray]


@pytest.mark.parametrize("open_engine", OPEN, ids=lambda f: f.__name__.removeprefix("open_"))
def test_the_table_of_a_local_run(open_engine, copied, tmp_path, monkeypatch):
    folder, expected = copied
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")  # Parsl starts its own programs
    with open_engine(tmp_path) as engine:
        scenario.campaign(folder).run(engine=engine, progress="quiet")
    assert scenario.final_hash(folder) == expected


@pytest.mark.parametrize(
    "open_engine",
    [open_executorlib, open_parsl, open_submitit, open_ray],
    ids=lambda f: f.__name__.removeprefix("open_"),
)
def test_a_killed_worker(open_engine, copied, tmp_path, monkeypatch):
    """The bundle under way runs again, and no run is recorded as crashed."""
    folder, expected = copied
    mark, killed = uuid.uuid4().hex, []
    for name, value in {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "SCENARIO_DELAY": "0.05",
                        "THRIFTY_TEST": mark}.items():  # fmt: skip
        monkeypatch.setenv(name, value)

    def kill():
        until = time.monotonic() + 60
        while (len(recorded(folder)) < 40 or not killed) and time.monotonic() < until:
            time.sleep(0.05)
            if len(recorded(folder)) >= 40 and (worker := find_executor_worker(mark)) is not None:
                worker.kill()
                killed.append(worker.pid)

    thread = threading.Thread(target=kill)
    with open_engine(tmp_path) as engine:
        thread.start()
        scenario.campaign(folder).run(engine=engine, progress="quiet")
        thread.join()
    assert killed and killed[0] != os.getpid(), "no worker was killed"
    assert scenario.final_hash(folder) == expected


def needs_helper(theta):
    import helper_of_driver

    return helper_of_driver.shift(theta)


@pytest.mark.parametrize(
    "open_engine",
    [open_executorlib, open_parsl, open_submitit, open_ray],
    ids=lambda f: f.__name__.removeprefix("open_"),
)
def test_a_module_that_workers_lack(open_engine, tmp_path, monkeypatch):
    """One sentence through every library, which wrap errors in their own ways."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    with (
        open_engine(tmp_path) as engine,
        pytest.raises(CampaignError, match="has no module 'helper_of_driver'") as caught,
    ):
        th.simulate(needs_helper, [[1.0]], engine=engine, progress="quiet")
    assert caught.value.code == "worker-environment"
