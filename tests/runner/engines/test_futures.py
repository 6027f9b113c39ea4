"""Executors as engines: one table, crashes and limits of runs, what an executor does not tell, wrong arguments."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import psutil
import pytest
from joblib.externals import loky

import thrifty as th
from thrifty.errors import CampaignError, ConfigError, SimulatorError
from thrifty.runner import retries
from thrifty.runner.engines import futures, remote
from thrifty.runner.engines.futures import Futures, find_slots
from thrifty.runner.task import Job, Task

QUIET = {"progress": "quiet"}
FORKSERVER = multiprocessing.get_context("forkserver")
MAKERS = {  # "fork" is for fresh processes (tests/faults/test_futures.py): here other tests may have left threads
    "threads": lambda: ThreadPoolExecutor(2),
    "forkserver": lambda: ProcessPoolExecutor(2, mp_context=FORKSERVER),
    "spawn": lambda: ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")),
    "loky": lambda: loky.ProcessPoolExecutor(2),
}


def noisy(theta, rng):
    return theta + rng.normal(size=2)


def local_hash(theta):
    return th.table_hash(th.simulate(noisy, theta, seed=5, workers=2, **QUIET))


@pytest.mark.parametrize("kind", MAKERS)
def test_every_executor_gives_the_table_of_a_local_run(kind, rng):
    theta = rng.random((60, 2))
    with MAKERS[kind]() as executor:
        engine = th.Futures(executor, bundle_seconds=0.05)
        hashes = {th.table_hash(th.simulate(noisy, theta, seed=5, engine=engine, **QUIET)) for _ in range(2)}
        assert executor.submit(abs, -1).result() == 1, "an executor that was passed in stays open"
    assert hashes == {local_hash(theta)}


def test_an_executor_that_was_made_is_ended(rng):
    made = []

    def make():
        made.append(ThreadPoolExecutor(2))
        return made[-1]

    theta = rng.random((10, 2))
    assert th.table_hash(th.simulate(noisy, theta, seed=5, engine=th.Futures(make), **QUIET)) == local_hash(theta)
    with pytest.raises(RuntimeError, match="after shutdown"):
        made[0].submit(abs, -1)


def crashing(theta, rng):
    if theta[0] > 0.9:
        os._exit(3)
    if theta[0] < 0.1:
        while True:
            pass
    return rng.random()


@pytest.mark.filterwarnings("ignore:.*runs failed.*:thrifty.errors.ThriftyWarning")
@pytest.mark.parametrize("kind", ["forkserver", "loky"])
def test_crashes_and_limits_are_those_of_a_local_run(kind):
    theta = np.array([[0.5], [0.95], [0.05], [0.3], [0.6]])
    settings = {"time_limit": 1.0, "on_timeout": "restrict", "seed": 3, **QUIET}
    with MAKERS[kind]() as executor:
        sims = th.simulate(crashing, theta, engine=th.Futures(executor), **settings)
    assert sims.status.tolist() == ["ok", "crashed", "timeout", "ok", "ok"]
    np.testing.assert_array_equal(sims.x, th.simulate(crashing, theta, workers=2, **settings).x)


def kill_executor_worker():
    """From a run: its parent is the fork server, whose parent is the executor's worker."""
    psutil.Process().parent().parent().kill()
    time.sleep(30)


def killing(theta, rng):
    if theta[0] > 0.9:
        time.sleep(0.2)
        kill_executor_worker()
    time.sleep(2.0 if theta[0] < 0.1 else 0.0)  # long enough to be under way when an executor breaks
    return rng.random()


@pytest.mark.filterwarnings("ignore:.*runs failed.*:thrifty.errors.ThriftyWarning")
def test_a_run_that_breaks_executors_is_blamed_alone(monkeypatch):
    """The others under way with it are repeated, never blamed."""
    monkeypatch.setattr(retries, "MAX_KILLS", 3)
    theta = np.array([[0.05], [0.95], [0.2], [0.3], [0.6]])
    sims = th.simulate(killing, theta, seed=3, engine=th.Futures(MAKERS["forkserver"]), **QUIET)
    assert sims.status.tolist() == ["ok", "crashed", "ok", "ok", "ok"]


def test_a_broken_executor_stops_with_one_sentence():
    with MAKERS["forkserver"]() as executor, pytest.raises(CampaignError, match="is broken or shut down") as caught:
        th.simulate(killing, [[0.95]], seed=3, engine=th.Futures(executor), **QUIET)
    assert caught.value.code == "no-cluster" and caught.value.exit_code == 5
    assert "th.Futures(lambda: ProcessPoolExecutor(...))" in caught.value.fix


def test_an_executor_that_never_works_is_no_fault_of_runs():
    """Workers die when they start: no run is recorded as crashed, and it ends."""
    engine = th.Futures(lambda: ProcessPoolExecutor(1, FORKSERVER, initializer=os.abort))
    with pytest.raises(CampaignError, match="a new one broke at once"):
        th.simulate(noisy, [[0.5, 0.5]], engine=engine, **QUIET)


def test_a_shut_down_executor_is_told():
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(CampaignError, match="after shutdown"):
        th.simulate(noisy, [[0.5, 0.5]], engine=th.Futures(executor), **QUIET)


class Foreign(Executor):
    """An executor that does not tell its size, and whose calls end as it was told."""

    def __init__(self, *problems):
        self.problems, self.calls = list(problems), 0

    def submit(self, fn, /, *args, **kwargs):
        future, self.calls = Future(), self.calls + 1
        if self.problems:
            future.set_exception(self.problems.pop(0))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


class WorkerLost(Exception):  # noqa: N818 - the name in Parsl
    pass


def test_an_executor_of_unknown_size_works_with_a_warning(rng):
    theta = rng.random((20, 2))
    with pytest.warns(th.ThriftyWarning, match="Foreign does not tell how many workers it has"):
        sims = th.simulate(noisy, theta, seed=5, engine=th.Futures(Foreign()), **QUIET)
    assert th.table_hash(sims) == local_hash(theta)


def test_lost_calls_run_again(rng):
    theta = rng.random((4, 2))
    executor = Foreign(WorkerLost("node 7"), ConnectionResetError("gone"), WorkerLost("node 8"))
    sims = th.simulate(noisy, theta, seed=5, engine=th.Futures(executor, slots=1), **QUIET)
    assert th.table_hash(sims) == local_hash(theta)


def test_lost_calls_do_not_go_on_for_ever():
    executor = Foreign(*[ConnectionResetError("gone")] * 1000)
    with pytest.raises(CampaignError, match=f"{futures.MAX_LOSSES} bundles in a row were lost"):
        th.simulate(noisy, [[0.5, 0.5]], engine=th.Futures(executor, slots=1), **QUIET)
    assert executor.calls == futures.MAX_LOSSES


@pytest.mark.filterwarnings("ignore:.*runs failed.*:thrifty.errors.ThriftyWarning")
def test_a_run_whose_calls_always_die_is_given_up(rng):
    """Who killed the worker is unknown: ten times, as for kills from outside."""
    executor = Foreign(*[WorkerLost("node 7")] * retries.MAX_KILLS)
    sims = th.simulate(noisy, rng.random((3, 2)), seed=5, engine=th.Futures(executor, slots=1), **QUIET)
    assert sims.status.tolist().count("crashed") == 1 and sims.status.tolist().count("ok") == 2


def test_other_errors_of_an_executor_are_raised_at_once():
    executor = Foreign(ZeroDivisionError("inside the executor"))
    with pytest.raises(CampaignError, match="Foreign could not run a bundle: ZeroDivisionError"):
        th.simulate(noisy, [[0.5, 0.5]], engine=th.Futures(executor, slots=1), **QUIET)


def test_a_worker_without_thrifty_is_told():
    problem = ModuleNotFoundError("No module named 'thrifty'", name="thrifty")
    with pytest.raises(CampaignError, match="a worker has no thrifty") as caught:
        th.simulate(noisy, [[0.5, 0.5]], engine=th.Futures(Foreign(problem), slots=1), **QUIET)
    assert caught.value.code == "worker-environment" and "pip install" in caught.value.fix


def test_a_simulator_that_cannot_be_rebuilt_is_told():
    with pytest.raises(SimulatorError) as caught, ThreadPoolExecutor(1) as executor:
        th.simulate(Unloadable(), [[0.5, 0.5]], engine=th.Futures(executor), **QUIET)
    assert caught.value.code == "cannot-load-simulator"


def refuse():
    raise ValueError("not here")


class Unloadable:
    def __call__(self, theta):
        return theta

    def __reduce__(self):
        return refuse, ()


@pytest.mark.parametrize("executor", [None, 2, "processes", Future()])
def test_what_is_no_executor(executor):
    with pytest.raises(ConfigError, match=r"expected a concurrent\.futures\.Executor"):
        th.Futures(executor)


@pytest.mark.parametrize("slots", [0, -1, True, 2.5])
def test_wrong_slots(slots):
    with pytest.raises(ConfigError, match="slots"), ThreadPoolExecutor(1) as executor:
        th.Futures(executor, slots=slots)


def test_a_function_that_makes_no_executor():
    with pytest.raises(ConfigError, match="made int, expected an Executor"):
        th.simulate(noisy, [[0.5, 0.5]], engine=th.Futures(lambda: 3), **QUIET)


def test_slots_are_read_from_the_executor():
    assert find_slots(loky.ProcessPoolExecutor(3)) == 3


def wait_for(condition, seconds=10.0):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()


@pytest.mark.parametrize("kind", ["threads", "forkserver"])
def test_stop_ends_runs_under_way_and_leaves_no_process(kind, tmp_path):
    """A run of hours on an executor that stays open: the second Ctrl-C ends it within seconds."""
    mark = tmp_path / "begun"

    def hang(theta):
        mark.touch()
        time.sleep(40)

    before = set(psutil.Process().children(recursive=True))
    with MAKERS[kind]() as executor:
        engine = Futures(executor)
        engine.start(Job(hang, seed=0))
        engine.submit([Task(0, np.zeros(1))])
        begun = wait_for(mark.exists)
        engine.stop()
        assert begun and executor.submit(abs, -1).result(timeout=10) == 1, "its worker is free again"
    assert wait_for(lambda: not [p for p in psutil.Process().children(recursive=True) if _is_worker(p, before)])


def _is_worker(process, before):
    """Whether a process was started since, apart from helpers of multiprocessing that stay until the end."""
    try:
        return process not in before and not any("tracker" in a or "forkserver" in a for a in process.cmdline())
    except psutil.Error:
        return False


def test_an_idle_worker_process_ends(monkeypatch):
    monkeypatch.setattr(remote, "IDLE_SECONDS", 0.5)
    parcel = remote.Parcel.of(Job(noisy, seed=0))
    seen = []

    def run():
        for _ in range(2):
            seen.append(remote.run_remote(*parcel.arguments([Task(0, np.zeros(2))])).outcomes[0].x.tolist())
            seen.append(wait_for(lambda: not [w for w in remote._here.workers if w.parcel.token == parcel.token]))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert seen[1] is True and seen[3] is True, "it did not end"
    assert seen[0] == seen[2]


def test_differing_versions_are_refused():
    versions = {**remote.read_versions(), "thrifty": "0.0.0"}
    with pytest.raises(CampaignError, match=r"has thrifty .* \(driver: 0.0.0\)"):
        remote.check_worker(versions)
