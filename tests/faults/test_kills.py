"""SIGKILL of drivers and workers, signals, two drivers: nothing lost, nothing twice, nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import time

import pytest
import scenario

import thrifty as th


def recorded(folder):
    """Index and checksum of every recorded run, read with plain sqlite."""
    if not (folder / "store.sqlite").exists():
        return {}
    with contextlib.closing(sqlite3.connect(f"file:{folder}/store.sqlite?mode=ro", uri=True)) as db:
        if not db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'runs'").fetchone()[0]:
            return {}
        return dict(db.execute("SELECT idx, sum FROM runs").fetchall())


def kill_drivers(folder, kills, rng, *extra, longest):
    """Start and kill drivers at random moments; each time, what was recorded must still be there.

    Every third moment counts from the start of the process, the others from its first recorded run, so that
    most kills hit running work however busy the machine is.
    """
    before = recorded(folder)
    for kill in range(kills):
        driver = scenario.start(folder, *extra)
        while kill % 3 and driver.poll() is None and len(recorded(folder)) == len(before):
            time.sleep(0.02)
        time.sleep(rng.uniform(0, longest))
        family = scenario.descendants(driver.pid)
        driver.kill()
        driver.communicate()
        assert scenario.gone(family), "a killed driver left processes behind"
        after = recorded(folder)
        assert before.items() <= after.items(), "a recorded run was lost or changed"
        before = after
    return before


def test_driver_killed_at_random_moments(copied, rng):
    folder, expected = copied
    before = kill_drivers(folder, 10, rng, longest=0.5)
    assert len(before) > 20, "the kills came too early to test anything"
    done = scenario.start(folder)
    scenario.succeeds(done, 120)
    assert scenario.final_hash(folder) == expected
    assert len(recorded(folder)) == 220


@pytest.mark.slow
def test_driver_killed_fifty_times_from_scratch(tmp_path, rng):
    """2,000 runs; kills hit pilot, plan and run alike."""
    calm = scenario.start(tmp_path / "calm", "scratch", "1960")
    scenario.succeeds(calm, 600)
    folder = tmp_path / "disturbed"
    kill_drivers(folder, 50, rng, "scratch", "1960", longest=6.0)
    done = scenario.start(folder, "scratch", "1960")
    scenario.succeeds(done, 600)
    assert scenario.final_hash(folder) == scenario.final_hash(tmp_path / "calm")
    assert len(recorded(folder)) == 2000


def kill_workers(folder, kills, rng, *, pause, delay=0.01):
    driver = scenario.start(folder, delay=delay)
    killed = 0
    while killed < kills and driver.poll() is None:
        time.sleep(rng.uniform(*pause))
        workers = scenario.workers_of(driver.pid)
        if workers:
            try:
                os.kill(int(rng.choice(workers)), signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed += 1
    scenario.succeeds(driver, 300)
    return killed


def test_workers_killed_at_random_moments(copied, rng):
    folder, expected = copied
    assert kill_workers(folder, 10, rng, pause=(0.02, 0.12)) == 10
    assert scenario.final_hash(folder) == expected


@pytest.mark.slow
def test_workers_killed_a_hundred_times(tmp_path, rng):
    folder = tmp_path / "campaign"
    scenario.planned(folder, n=1980)
    shutil.copytree(folder, tmp_path / "calm")
    scenario.campaign(tmp_path / "calm").run(workers=2, progress="quiet")
    assert kill_workers(folder, 100, rng, pause=(0.05, 0.35), delay=0.03) == 100
    assert scenario.final_hash(folder) == scenario.final_hash(tmp_path / "calm")


def wait_for_runs(folder, n, timeout=60):
    until = time.monotonic() + timeout
    while len(recorded(folder)) < n:
        assert time.monotonic() < until, "no runs were recorded in time"
        time.sleep(0.05)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_one_signal_drains_and_resumes(copied, number, code):
    folder, expected = copied
    driver = scenario.start(folder)
    wait_for_runs(folder, 30)
    family = scenario.descendants(driver.pid)
    driver.send_signal(number)
    out, err = driver.communicate(timeout=30)
    assert driver.returncode == code, err
    assert "runs are safe on disk" in out
    assert scenario.gone(family)
    assert 30 <= len(recorded(folder)) < 220
    with pytest.raises(th.ThriftyError, match=r"planned runs .* are missing"):
        scenario.final_hash(folder)
    scenario.succeeds(scenario.start(folder), 60)
    assert scenario.final_hash(folder) == expected


def test_second_interrupt_stops_now(copied):
    """Runs of four seconds are in flight: drained they would take seconds, stopped they stay pending."""
    folder, expected = copied
    driver = scenario.start(folder, "plain", delay=4)
    while len(scenario.workers_of(driver.pid)) < 2:
        time.sleep(0.05)
    time.sleep(0.5)
    family = scenario.descendants(driver.pid)
    before = recorded(folder)
    driver.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert driver.poll() is None, "one interrupt must drain, not stop"
    driver.send_signal(signal.SIGINT)
    began = time.monotonic()
    out, err = driver.communicate(timeout=30)
    assert driver.returncode == 130 and time.monotonic() - began < 1.5, err
    assert "press Ctrl-C again to stop now" in err and "runs are safe on disk" in out
    assert scenario.gone(family)
    assert recorded(folder) == before
    scenario.succeeds(scenario.start(folder), 60)
    assert scenario.final_hash(folder) == expected


def test_signal_handlers_are_restored(copied):
    before = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    scenario.campaign(copied[0]).run(workers=2, progress="quiet")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_two_drivers(copied):
    """The first is slow enough to be there, however long the second takes to start."""
    folder, expected = copied
    first = scenario.start(folder, delay=0.5)
    while not scenario.workers_of(first.pid):
        time.sleep(0.05)
    second = scenario.start(folder)
    out, _ = second.communicate(timeout=30)
    assert first.poll() is None and second.returncode == 6
    assert f"pid {first.pid} on {socket.gethostname()}" in out
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=30)
    scenario.succeeds(scenario.start(folder), 60)
    assert scenario.final_hash(folder) == expected


def test_reading_at_ten_hertz_disturbs_nothing(copied):
    folder, expected = copied
    driver = scenario.start(folder, delay=0.02)
    reader = th.Campaign.open(folder)
    seen = []
    while driver.poll() is None:
        seen.append(reader.status().done)
        time.sleep(0.1)
    out = scenario.succeeds(driver, 5)
    assert len(seen) > 5 and seen == sorted(seen)
    assert json.loads(out)["done"] == 220
    assert scenario.final_hash(folder) == expected
