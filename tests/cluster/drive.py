"""The driver of a campaign on a real cluster, as `docs/howto/clusters.md` shows it; run as a script: kind, folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))

import scenario

import thrifty as th


def run_on_mpi(folder):
    """Under `mpiexec -n 3 python -m mpi4py.futures`: one rank drives, two run."""
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor() as executor:
        scenario.campaign(folder).run(engine=th.Futures(executor, bundle_seconds=0.1), progress="quiet")


def run_on_executorlib(folder):
    """Inside a Slurm job: each worker is a step of the job, started by srun."""
    from executorlib import SlurmJobExecutor

    with SlurmJobExecutor(max_workers=2, block_allocation=True) as executor:
        scenario.campaign(folder).run(engine=th.Futures(executor, bundle_seconds=0.1), progress="quiet")


def run_on_dask(folder):
    """Against the scheduler at DASK_ADDRESS."""
    engine = th.Dask(os.environ["DASK_ADDRESS"], bundle_seconds=0.1, patience=60)
    scenario.campaign(folder).run(engine=engine, progress="quiet")


if __name__ == "__main__":
    {"mpi": run_on_mpi, "executorlib": run_on_executorlib, "dask": run_on_dask}[sys.argv[1]](sys.argv[2])
    print("driven to the end")
