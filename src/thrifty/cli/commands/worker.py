"""`thrifty worker`: how to get more workers; a page of help, since Dask brings its own commands."""

from __future__ import annotations

TEXT = """\
More workers than this machine has come through dask.distributed (pip install "thrifty[dask]").

On any machines that see each other:
  dask scheduler --no-dashboard                          on one of them; it prints its address
  dask worker tcp://SCHEDULER:8786 --nthreads 1 --nworkers 8     on each of the others

In thrifty.toml:
  [run]
  engine = "dask"
  address = "tcp://SCHEDULER:8786"

With Slurm (pip install dask-jobqueue), in a small script that stays alive:
  from dask_jobqueue import SLURMCluster
  cluster = SLURMCluster(cores=1, memory="2 GB", walltime="04:00:00")
  cluster.scale(100)
  print(cluster.scheduler_address)                       then use it as the address above

The simulator travels to the workers; a program (command = [...]) must be installed there under the same path. The
driver, thrifty run, is the only one that writes the run folder: start it where the folder is. A worker that dies costs
only the runs it had; if the scheduler dies, thrifty run again continues. The table is the same for any workers.
The scheduler trusts everybody who can reach it: keep it inside your cluster's network."""


def worker() -> int:
    """Say how to get workers from Dask or Slurm."""
    from thrifty.cli.output import Screen

    screen = Screen()
    screen.data(TEXT)
    screen.next("thrifty run")
    return 0
