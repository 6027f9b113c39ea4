"""Simulators that crash, hang, fork, sleep or lie: each fails alone, and nothing is left running."""

from __future__ import annotations

import ctypes
import os
import signal
import sqlite3
import subprocess
import threading
import time

import numpy as np
import pytest
import scenario

import thrifty as th
from thrifty.errors import ThriftyWarning
from thrifty.runner.engines.process_tree import OutOfMemoryCounter
from thrifty.runner.engines.worker_main import INDEX
from thrifty.runner.engines.worker_slot import WorkerSlot

MARK = "86421.5"  # an odd number of seconds to sleep: how the grandchildren are recognised


def crash(theta, rng):
    kind = int(theta[0])
    if kind == 1:
        ctypes.string_at(0)  # a segmentation fault
    if kind == 2:
        os._exit(3)
    if kind == 3:
        os.abort()
    return [theta[0], rng.random()]


def test_crashes_fail_alone(rng):
    kinds = np.zeros(120)
    kinds[[17, 55, 90]] = [1, 2, 3]
    with pytest.warns(ThriftyWarning, match=r"3 of 120 runs failed \(3 crashed\), 2.5% of prior mass"):
        sims = th.simulate(crash, kinds[:, None], workers=2, seed=4)
    assert [i for i, status in enumerate(sims.status) if status == "crashed"] == [17, 55, 90]
    calm = th.simulate(crash, np.zeros((120, 1)), engine=th.Inline(), seed=4)
    np.testing.assert_array_equal(sims.x[sims.ok], calm.x[sims.ok])


def test_a_poison_run_in_a_bundle_costs_three_deaths(tmp_path):
    """Runs of microseconds are sent in large bundles; the guilty index is known, the others simply run again."""
    log = tmp_path / "deaths"

    def poison(theta):
        if theta[0] == 777:
            with open(log, "a") as file:
                file.write("x")
            os._exit(1)
        return theta

    with pytest.warns(ThriftyWarning, match="1 of 3"):
        small = th.simulate(poison, [[1.0], [777.0], [2.0]], workers=1)
    assert small.status.tolist() == ["ok", "crashed", "ok"] and log.stat().st_size == 3
    log.unlink()
    sims = th.simulate(poison, np.arange(2000.0)[:, None], workers=2)
    assert np.flatnonzero(~sims.ok).tolist() == [777] and log.stat().st_size == 3


@pytest.mark.parametrize(("how", "deaths"), [("exit 0", 3), ("SIGKILL", 10), ("out of memory", 3)])
def test_how_often_a_death_is_forgiven(tmp_path, monkeypatch, how, deaths):
    """Deaths of its own count to three; kills from outside are no fault of a run, but end it at ten."""
    log, counters = tmp_path / "deaths", tmp_path / "vmstat"
    counters.write_text("nr_free_pages 12\noom_kill 5\n")
    monkeypatch.setattr(
        "thrifty.runner.engines.processes.OutOfMemoryCounter", lambda: OutOfMemoryCounter(str(counters))
    )

    def dies(theta):
        if theta[0] == 3:
            with open(log, "a") as file:
                file.write("x")
            if how == "exit 0":
                os._exit(0)
            if how == "out of memory":  # as the kernel does: count, then kill
                counters.write_text(f"nr_free_pages 12\noom_kill {5 + log.stat().st_size}\n")
            os.kill(os.getpid(), signal.SIGKILL)
        return theta

    with pytest.warns(ThriftyWarning, match="1 of 6"):
        sims = th.simulate(dies, np.arange(6.0)[:, None], workers=2)
    assert np.flatnonzero(sims.status == "crashed").tolist() == [3] and log.stat().st_size == deaths


def test_nothing_waits_behind_a_long_run(tmp_path, monkeypatch):
    """Bundles sent ahead are taken back when the run before them is longer than all before; each is run."""
    done, ahead, withdrawn = tmp_path / "done", [], []
    done.mkdir()
    submit, withdraw = WorkerSlot.submit, WorkerSlot.withdraw
    monkeypatch.setattr(
        WorkerSlot, "submit", lambda slot, tasks: (ahead.append(bool(slot.held)), submit(slot, tasks))[1]
    )

    def noted(slot):
        reports = withdraw(slot)
        withdrawn.extend(task for report in reports for task in report.tasks)
        return reports

    monkeypatch.setattr(WorkerSlot, "withdraw", noted)

    def simulate(theta):
        if theta[0] == 40:  # ends only when all others have: a bundle stuck behind it would never run
            until = time.monotonic() + 60
            while len(list(done.iterdir())) < 119 and time.monotonic() < until:
                time.sleep(0.05)
            return [float(len(list(done.iterdir())))]
        time.sleep(0.01)
        (done / str(int(theta[0]))).touch()
        return [0.0]

    sims = th.simulate(simulate, np.arange(120.0)[:, None], workers=2)
    assert sims.ok.all() and sims.x[40, 0] == 119
    assert sum(ahead) > 20, "most bundles must have been sent before their worker was free"
    assert withdrawn, "the bundle behind run 40 must have been taken back, or it did not wait at all"


def grandchildren():
    return [pid for pid, (_, _, _, line) in scenario.processes().items() if MARK in line and "sleep" in line]


def hang(theta):
    if theta[0] > 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", MARK])
        if theta[0] == 2:  # a shell with a child of its own
            subprocess.Popen(["sh", "-c", f"sleep {MARK}; true"])
        while True:
            pass
    return theta


def test_hanging_runs_end_with_all_they_started():
    began = time.monotonic()
    sims = th.simulate(
        hang, [[0.0], [1.0], [0.0], [2.0]], workers=2, time_limit=1.0, on_timeout="restrict", cost="wall"
    )
    assert sims.status.tolist() == ["ok", "timeout", "ok", "timeout"]
    assert (sims.cost[[1, 3]] < 1.0 + 2.0).all() and time.monotonic() - began < 30
    assert scenario.gone(grandchildren())


def test_a_killed_driver_takes_hanging_runs_along(tmp_path):
    script = tmp_path / "hang.py"
    script.write_text(
        "import subprocess, time, thrifty as th\n"
        "def hang(theta):\n"
        f"    subprocess.Popen(['sleep', '{MARK}'])\n"
        "    time.sleep(1000)\n"
        "th.simulate(hang, [[1.0], [2.0]], workers=2, progress='quiet')\n"
    )
    driver = subprocess.Popen([scenario.sys.executable, str(script)], start_new_session=True)
    while len(grandchildren()) < 2:
        assert driver.poll() is None
        time.sleep(0.05)
    family = [*scenario.descendants(driver.pid), *grandchildren()]
    driver.kill()
    driver.wait()
    assert scenario.gone(family)


def test_a_suspended_worker_is_neither_late_nor_expensive():
    """Stopped for two seconds under a limit of one: not a time-out, and the pause is not a cost."""
    engine = th.Processes(1)

    def suspend():
        while not engine.pids:
            time.sleep(0.01)
        pid = engine.pids[0]
        while engine._slots[0].cell[INDEX] != 1:
            time.sleep(0.01)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(2.0)
        os.kill(pid, signal.SIGCONT)

    helper = threading.Thread(target=suspend)
    helper.start()
    slow = lambda theta: time.sleep(theta[0]) or theta  # noqa: E731
    sims = th.simulate(slow, [[0.0], [0.5], [0.0]], engine=engine, time_limit=1.0, on_timeout="stop", cost="wall")
    helper.join()
    assert sims.ok.all() and (sims.cost < 1.0).all()


@pytest.mark.parametrize("who", ["both", "driver"])
def test_a_suspended_driver_makes_no_run_late_or_cheap(tmp_path, who):
    """Driver and worker stopped for five seconds under a limit of 3.5: no time-out, and the pause is no cost.

    The driver alone (Ctrl-Z): its worker went on, and what it took is what it took.
    """
    script, begun = tmp_path / "driver.py", tmp_path / "begun"
    script.write_text(
        "import os, time, thrifty as th\n"
        "def busy(theta):\n"
        f"    open({str(begun)!r}, 'w').write(str(os.getpid()))\n"
        "    until = time.process_time() + 0.5\n"
        "    while time.process_time() < until:\n"
        "        pass\n"
        "    return theta\n"
        "limit = dict(time_limit=3.5, on_timeout='restrict')\n"
        "sims = th.simulate(busy, [[1.0]], workers=1, cost='wall', progress='quiet', **limit)\n"
        "print(sims.status[0], sims.cost[0])\n"
    )
    driver = subprocess.Popen([scenario.sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    while not (begun.exists() and begun.read_text()):
        assert driver.poll() is None
        time.sleep(0.02)
    stopped = [driver.pid] if who == "driver" else [driver.pid, int(begun.read_text())]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(5.0 if who == "both" else 1.5)
    for pid in reversed(stopped):
        os.kill(pid, signal.SIGCONT)
    status, wall = driver.communicate(timeout=60)[0].split()
    assert status == "ok" and 0.4 <= float(wall) < 3.5


def test_jumps_of_the_wall_clock_change_nothing(monkeypatch):
    real, jumps = time.time, iter(np.tile([86400.0, -86400.0, 3e8], 100_000))
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))
    slow = lambda theta: time.sleep(0.05) or theta  # noqa: E731
    sims = th.simulate(slow, np.ones((10, 1)), workers=2, time_limit=5.0, on_timeout="stop", cost="wall")
    assert sims.ok.all() and (sims.cost >= 0.05).all() and (sims.cost < 5).all()


def trouble(theta, rng):
    """Each kind of failure on one twentieth of the prior."""
    kind = int(20 * theta[0])
    if kind == 0:
        raise RuntimeError("mesh failed")
    return {1: np.nan, 2: np.inf, 3: [1.0, 2.0], 4: "text", 5: None}.get(kind, theta[0] + rng.normal())


KINDS = {0: "error", 1: "invalid", 2: "invalid", 3: "error", 4: "error", 5: "error"}


def test_mixed_failures_in_a_campaign(tmp_path, seed):
    """Classified right, none enters the table as numbers, and the prior mass is what it is: 30 %."""
    c = th.Campaign(tmp_path / "c", trouble, th.Uniform(0, 1, names=["beta"]), seed=seed % 1000)
    c.pilot(400, progress="quiet")
    with pytest.warns(ThriftyWarning, match="conditional on finishing"):
        c.run(progress="quiet")
    with pytest.raises(th.ThriftyError, match=r"of 400 runs failed .*: \d+\.\d% of prior mass") as caught:
        c.simulations()
    assert caught.value.code == "too-many-failures" and caught.value.exit_code == 4
    sims = c.simulations(max_failed=0.5)
    expected = [KINDS.get(int(20 * theta), "ok") for theta in sims.theta[:, 0]]
    assert sims.status.tolist() == expected
    assert np.isfinite(sims.x[sims.ok]).all() and np.isnan(sims.x[~sims.ok]).all()
    assert abs(sims.failed_mass - 0.3) < 5 * np.sqrt(0.3 * 0.7 / 400)
    assert c.status().failed_mass == pytest.approx(sims.failed_mass)


class SpeechlessError(ValueError):
    def __str__(self):
        raise RuntimeError("no words")


def odd_words(theta, rng):
    if theta[0] > 0.9:
        raise ValueError("no file \udcff")
    if theta[0] > 0.8:
        raise SpeechlessError
    if theta[0] > 0.7:
        raise SystemExit(SpeechlessError())
    return theta + rng.normal()


def test_messages_that_cannot_be_written_do_not_stop_a_campaign(tmp_path):
    """Half a character (a file name of another encoding) cannot be stored; some exceptions cannot even be read."""
    c = th.Campaign(tmp_path / "c", odd_words, th.Uniform(0, 1), seed=1)
    status = c.pilot(60, engine=th.Inline(), progress="quiet")
    assert status.done == 60 and status.by_status["error"] > 10
    db = sqlite3.connect(c.folder / "store.sqlite")
    errors = " ".join(row[0] for row in db.execute("SELECT error FROM runs WHERE status = 'error'"))
    db.close()
    assert "no file \\udcff" in errors and "cannot be read (RuntimeError)" in errors and "SpeechlessError" in errors


def forking(theta, rng):
    """Its child leaves as programs do, not as a forked child must."""
    if theta[0] > 0.8 and os.fork() == 0:
        raise SystemExit(0)
    return theta[0] + rng.normal(size=20_000)


def quiet_twin(theta, rng):
    return theta[0] + rng.normal(size=20_000)


def test_a_forked_copy_of_the_worker_says_nothing():
    theta = np.linspace(0, 1, 60)[:, None]
    forked = th.simulate(forking, theta, workers=2, progress="quiet")
    assert forked.ok.all()
    np.testing.assert_array_equal(forked.x, th.simulate(quiet_twin, theta, workers=2, progress="quiet").x)


def test_a_forked_copy_of_the_driver_goes_no_further():
    """In this very process the copy would go on as a second driver."""
    before = os.getpid()
    assert th.simulate(forking, np.linspace(0.7, 1, 6)[:, None], engine=th.Inline(), progress="quiet").ok.all()
    assert os.getpid() == before


def babbling(theta, rng):
    """Writes into the worker's own pipe, as a forked copy of it would."""
    if theta[0] > 0.95:
        from thrifty.runner.engines import worker_main

        os.write(worker_main._worker["pipes"]._writes.fileno(), b"garbage " * 100)
    return theta + rng.normal()


def test_garbage_in_a_pipe_is_the_death_of_that_worker():
    theta = np.linspace(0, 1, 60)[:, None]
    with pytest.warns(ThriftyWarning, match="3 crashed"):
        sims = th.simulate(babbling, theta, workers=2, progress="quiet")
    assert sims.status[theta[:, 0] > 0.95].tolist() == ["crashed"] * 3 and sims.ok[:57].all()


def wandering(theta, rng):
    """Makes a folder, works in it and stays there; half the runs fail there."""
    os.makedirs("below", exist_ok=True)
    os.chdir("below")
    if theta[0] > 0.5:
        raise ValueError("lost")
    return float(os.getcwd().count("below"))


@pytest.mark.parametrize("engine", [th.Inline(), th.Processes(1)])
def test_a_run_that_changes_its_directory_is_alone_in_that(tmp_path, monkeypatch, engine):
    monkeypatch.chdir(tmp_path)
    with pytest.warns(ThriftyWarning, match="4 of 8 runs failed"):
        sims = th.simulate(wandering, np.tile([[0.0], [1.0]], (4, 1)), engine=engine, progress="quiet")
    assert sims.x[sims.ok].ravel().tolist() == [1.0] * 4, "each run must begin where the first began"
    assert os.getcwd() == str(tmp_path)


def unsendable(theta, rng):
    """A result that is there, and cannot be sent."""
    if theta[0] > 0.95:
        from thrifty.runner.engines import pipes

        pipes.encode_message = lambda message: os._exit(3)
    return theta + rng.normal()


def test_a_death_while_sending_is_the_run_s_own():
    theta = np.linspace(0, 1, 60)[:, None]
    with pytest.warns(ThriftyWarning, match="3 crashed"):
        sims = th.simulate(unsendable, theta, workers=2, progress="quiet")
    assert sims.status[theta[:, 0] > 0.95].tolist() == ["crashed"] * 3 and sims.ok[:57].all()
