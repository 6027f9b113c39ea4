"""mpi4py: `mpiexec -n 3`, one rank drives and two run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import scenario
from test_kills import recorded

import thrifty as th

DRIVE = Path(__file__).parent / "drive.py"


def mpiexec():
    """The command, with what Open MPI wants from root and on a small machine; others ignore these variables."""
    pytest.importorskip("mpi4py")
    if shutil.which("mpiexec") is None:
        pytest.skip("mpiexec is not installed (apt-get install openmpi-bin libopenmpi-dev)")
    allow = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl": "self,vader,tcp",
             "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_tcp_if_include": "lo",
             "OMPI_MCA_oob_tcp_if_include": "lo"}  # fmt: skip
    return ["mpiexec", "-n", "3", sys.executable, "-m", "mpi4py.futures"], {**os.environ, **allow}


def test_mpiexec_with_three_ranks(copied):
    folder, expected = copied
    command, environment = mpiexec()
    done = subprocess.run(
        [*command, DRIVE, "mpi", folder], env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0 and "driven to the end" in done.stdout, (done.stdout, done.stderr[-3000:])
    assert scenario.final_hash(folder) == expected


def test_a_killed_rank_ends_all_and_the_next_call_continues(copied):
    folder, expected = copied
    command, environment = mpiexec()
    driver = subprocess.Popen(
        [*command, DRIVE, "mpi", folder],
        env={**environment, "SCENARIO_DELAY": "0.05"},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 60
    while len(recorded(folder)) < 40 and time.monotonic() < until:
        time.sleep(0.05)
    ranks = [p for p in psutil.Process(driver.pid).children() if "mpi4py.futures" in p.cmdline()]
    assert len(ranks) == 3
    ranks[-1].kill()
    assert driver.wait(timeout=60) != 0
    assert 40 <= len(recorded(folder)) < 200
    scenario.campaign(folder).run(engine=th.Inline(), progress="quiet")
    assert scenario.final_hash(folder) == expected
