"""`thrifty report --live` beside a real run: it ends with it, and a kill of either side harms nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import thrifty as th
from thrifty.tables.simulations import table_hash

DRIVER = """
import sys, time
from pathlib import Path
import numpy as np
import thrifty as th

HOLD, GO = (Path(sys.argv[1]).parent / name for name in ("hold", "go"))

def simulate(theta, rng):
    while HOLD.exists() and not GO.exists():  # the test decides how long the run takes
        time.sleep(0.02)
    return th.Output(theta + rng.normal(size=1), cost=float(np.exp(theta[0])))

c = th.Campaign(sys.argv[1], simulate, th.Uniform(0, 3, names=["a"]), seed=1, cost="reported", unit="events")
c.pilot(20, engine=th.Inline(), progress="quiet")
c.plan(n=int(sys.argv[2]))
HOLD.touch()
c.run(engine=th.Inline(), progress="quiet")
"""
pytestmark = pytest.mark.slow  # real processes: about twenty CPU seconds in all
ENVIRONMENT = {**os.environ, "PYTHONWARNINGS": "ignore"}


def let_go(folder: Path) -> None:
    """Let the run continue that waits for it after the pilot."""
    (folder.parent / "go").touch()


def start_run(folder: Path, n: int) -> subprocess.Popen[bytes]:
    script = folder.parent / "driver.py"
    script.write_text(DRIVER)
    return subprocess.Popen([sys.executable, str(script), str(folder), str(n)], env=ENVIRONMENT)


def start_live(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """Start the page once the run is under way; its process and its address."""
    until = time.monotonic() + 120
    while not count_done(folder):
        assert time.monotonic() < until
        time.sleep(0.05)
    command = [sys.executable, "-m", "thrifty", "report", str(folder), "--live", "--json", "--every", "0.5"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["address"]


def count_done(folder: Path) -> int:
    """Finished runs; 0 while the folder is being made."""
    try:
        return th.Campaign.open(folder).status().done
    except th.ThriftyError:
        return 0


def fetch(address: str) -> str:
    with urllib.request.urlopen(address.replace("/?", "/content?"), timeout=30) as answer:
        return answer.read().decode()


def test_it_ends_with_the_run_and_writes_the_report(tmp_path):
    run = start_run(tmp_path / "a", 150)
    live, address = start_live(tmp_path / "a")
    last, seen, until = fetch(address), [], time.monotonic() + 120
    let_go(tmp_path / "a")
    while "data-over" not in last:
        assert time.monotonic() < until
        last = fetch(address)
        seen.append(int(re.search(r"(\d+) of \d+ runs", last)[1]))
        time.sleep(0.2)
    assert run.wait(timeout=60) == 0 and "The run has ended." in last and "170 of 170 runs" in last
    assert seen == sorted(seen) and seen[-1] == 170
    out, _ = live.communicate(timeout=120)
    assert live.returncode == 0 and Path(json.loads(out)["path"]).is_file()
    with pytest.raises(OSError, match="refused"):
        fetch(address)


def test_a_killed_page_does_not_disturb_the_run(tmp_path):
    run = start_run(tmp_path / "a", 120)
    live, address = start_live(tmp_path / "a")
    fetch(address)
    live.send_signal(signal.SIGKILL)
    live.communicate()
    let_go(tmp_path / "a")
    assert run.wait(timeout=120) == 0
    alone = start_run(tmp_path / "b", 120)
    assert alone.wait(timeout=120) == 0
    hashes = {table_hash(th.Campaign.open(tmp_path / name).simulations()) for name in "ab"}
    assert len(hashes) == 1, "the table is that of a run which nobody watched"


def test_a_killed_run_ends_the_page_and_can_be_continued(tmp_path):
    run = start_run(tmp_path / "a", 400)
    live, address = start_live(tmp_path / "a")
    fetch(address)
    run.send_signal(signal.SIGKILL)
    run.wait()
    out, _ = live.communicate(timeout=180)
    assert live.returncode == 0 and Path(json.loads(out)["path"]).is_file()
    kept = th.Campaign.open(tmp_path / "a")
    assert 0 < kept.status().done < 420 and kept.verify().ok
    let_go(tmp_path / "a")
    assert start_run(tmp_path / "a", 400).wait(timeout=180) == 0
    assert th.Campaign.open(tmp_path / "a").status().done == 420
