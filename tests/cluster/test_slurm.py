"""A real Slurm on loopback: through dask-jobqueue, executorlib and submitit, each with the table of a local run."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import scenario

import thrifty as th

HERE = Path(__file__).parent
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def make_jobqueue_cluster(tmp_path):
    jobqueue = pytest.importorskip("dask_jobqueue")
    return jobqueue.SLURMCluster(
        cores=1,
        processes=1,
        memory="1GB",
        walltime="00:10:00",
        log_directory=str(tmp_path / "logs"),
        local_directory=str(tmp_path),
        python=sys.executable,
        scheduler_options={"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"},
        worker_extra_args=["--host", "127.0.0.1", "--no-dashboard"],
    )


def test_dask_jobqueue(copied, slurm, tmp_path):
    """The jobs are queued when run() begins; the first worker is waited for."""
    folder, expected = copied
    with make_jobqueue_cluster(tmp_path) as cluster:
        cluster.scale(jobs=2)
        scenario.campaign(folder).run(engine=th.Dask(cluster, bundle_seconds=0.1), progress="quiet")
    assert scenario.final_hash(folder) == expected


def test_dask_jobqueue_with_a_cancelled_job(copied, slurm, tmp_path, monkeypatch):
    """scancel of one of two jobs, in the middle."""
    monkeypatch.setenv("SCENARIO_DELAY", "0.05")
    folder, expected = copied
    with make_jobqueue_cluster(tmp_path) as cluster:
        cluster.scale(jobs=2)
        cluster.wait_for_workers(2, timeout=60)
        first = slurm.run("squeue", "-h", "-t", "R", "-o", "%A").split()[0]
        canceller = subprocess.Popen(["sh", "-c", f"sleep 2; scancel {first}"])
        scenario.campaign(folder).run(engine=th.Dask(cluster, bundle_seconds=0.1, patience=60), progress="quiet")
        canceller.wait()
        assert "CANCELLED" in slurm.run("scontrol", "show", "job", first)
    assert scenario.final_hash(folder) == expected


def test_executorlib_in_a_batch_job(copied, slurm, tmp_path):
    """The sbatch script of the documentation: the driver is the job, its workers are steps of the job."""
    pytest.importorskip("executorlib")
    folder, expected = copied
    script = tmp_path / "campaign.sbatch"
    script.write_text(
        textwrap.dedent(f"""\
        #!/bin/bash
        #SBATCH --ntasks=3
        #SBATCH --cpus-per-task=1
        #SBATCH --time=00:10:00
        #SBATCH --output={tmp_path}/campaign.log
        {sys.executable} {HERE / "drive.py"} executorlib {folder}
        """)
    )
    said = slurm.run("sbatch", "--wait", str(script))
    log = (tmp_path / "campaign.log").read_text()
    assert "driven to the end" in log, (said, log)
    assert scenario.final_hash(folder) == expected


@pytest.fixture
def submitit_executor(tmp_path):
    submitit = pytest.importorskip("submitit")
    executor = submitit.SlurmExecutor(folder=tmp_path / "submitit", python=sys.executable)
    executor.update_parameters(time=10, ntasks_per_node=1, cpus_per_task=1, use_srun=False)
    return executor


def test_submitit(copied, slurm, submitit_executor):
    """Every bundle is a batch job of its own."""
    folder, expected = copied
    engine = th.Futures(th.SubmititExecutor(submitit_executor, max_workers=3), bundle_seconds=1.0)
    scenario.campaign(folder).run(engine=engine, progress="quiet")
    assert scenario.final_hash(folder) == expected


def test_submitit_jobs_are_cancelled_when_the_campaign_stops(copied, slurm, submitit_executor, monkeypatch):
    folder, expected = copied
    monkeypatch.setenv("SCENARIO_DELAY", "1.0")
    engine = th.Futures(th.SubmititExecutor(submitit_executor, max_workers=2), bundle_seconds=60)
    status = scenario.campaign(folder).run(engine=engine, deadline=8.0, progress="quiet")
    assert status.pending > 0
    until = time.monotonic() + 30
    while slurm.run("squeue", "-h").strip() and time.monotonic() < until:
        time.sleep(0.5)
    assert slurm.run("squeue", "-h").strip() == ""
    monkeypatch.setenv("SCENARIO_DELAY", "0")
    scenario.campaign(folder).run(engine=th.Inline(), progress="quiet")
    assert scenario.final_hash(folder) == expected
    assert os.environ["SLURM_CONF"]


def test_without_accounting_submitit_does_not_tell_that_a_job_died(copied, slurm, submitit_executor, monkeypatch):
    """As the documentation says: the bundle is waited for; the deadline ends it, and the next call continues."""
    folder, expected = copied
    monkeypatch.setenv("SCENARIO_DELAY", "0.2")
    engine = th.Futures(th.SubmititExecutor(submitit_executor, max_workers=1), bundle_seconds=60)
    canceller = subprocess.Popen(["sh", "-c", "sleep 6; scancel $(squeue -h -o %A)"])
    status = scenario.campaign(folder).run(engine=engine, deadline=25.0, progress="quiet")
    assert canceller.wait() == 0 and status.pending > 0
    monkeypatch.setenv("SCENARIO_DELAY", "0")
    scenario.campaign(folder).run(engine=th.Inline(), progress="quiet")
    assert scenario.final_hash(folder) == expected
