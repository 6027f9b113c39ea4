"""A campaign that a test can start in a process of its own and disturb; run as a script: folder, mode."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import thrifty as th
from thrifty.errors import ThriftyError
from thrifty.runner.interrupts import Interrupted, Terminated
from thrifty.tables.simulations import table_hash

PRIOR = th.Uniform([0.0, 1.0], [1.0, 3.0], names=["beta", "gamma"])


def simulate(theta, rng):
    """About ten milliseconds; reports a cost that does not depend on the machine; fails for some parameters."""
    time.sleep(float(os.environ.get("SCENARIO_DELAY", "0.01")) * (0.5 + theta[0]))
    if 0.500 < theta[0] < 0.503:
        raise ValueError("no mesh")
    return th.Output([theta[0] + rng.normal(), theta[1] * rng.random()], cost=float(np.exp(2 * theta[0])))


def campaign(folder):
    return th.Campaign(folder, simulate, PRIOR, seed=11, cost="reported")


def planned(folder, n=200, pilots=20):
    """A campaign with everything committed and only the pilots run."""
    c = campaign(folder)
    c.pilot(pilots, engine=th.Inline(), progress="quiet")
    theta = PRIOR.sample(60, np.random.default_rng(0))
    cost = th.fit_cost(theta, np.exp(2 * theta[:, 0]), model=th.Polynomial(1))
    c.plan(n=n, cost=cost)
    return c


def final_hash(folder):
    return table_hash(th.Campaign.open(folder).simulations())


def start(folder, *extra, delay=0.01):
    """The driver in a process of its own, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, __file__, str(folder), *extra],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SCENARIO_DELAY": str(delay)},
    )


def succeeds(driver, timeout):
    """Wait for a driver; what it printed."""
    out, err = driver.communicate(timeout=timeout)
    assert driver.returncode == 0, (driver.returncode, out, err)
    return out


def processes():
    """pid -> (parent, session, state, command line) of everything alive."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            found[int(entry.name)] = (int(fields[1]), int(fields[3]), fields[0], line)
    return found


def descendants(pid):
    table, found, frontier = processes(), set(), {pid}
    while frontier:
        frontier = {p for p, (parent, _, state, _) in table.items() if parent in frontier and state != "Z"} - found
        found |= frontier
    return found


def workers_of(pid):
    """Worker processes of a driver: they lead a session of their own and are not the one that cleans up."""
    table = processes()
    return [p for p in descendants(pid) if p in table and table[p][1] == p and "process_tree" not in table[p][3]]


def gone(pids, within=5.0):
    """Whether all these processes end."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        table = processes()
        if not any(p in table and table[p][2] != "Z" for p in pids):
            return True
        time.sleep(0.05)
    return False


def main():
    folder, mode = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "run"
    try:
        c = campaign(folder)
        if mode == "scratch":
            c.pilot(40, progress="quiet")
            c.plan(n=int(sys.argv[3]))
        if mode == "limited":  # no file may grow beyond this: every write past it fails
            import resource

            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
        c.run(workers=2, progress="plain" if mode == "plain" else "quiet")
    except (Interrupted, Terminated) as stopped:
        print(stopped)
        sys.exit(stopped.exit_code)
    except ThriftyError as error:
        print(error)
        sys.exit(error.exit_code)
    print(json.dumps({"done": c.status().done, "pid": os.getpid()}))


if __name__ == "__main__":
    main()
