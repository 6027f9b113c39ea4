"""`thrifty worker`: a page of help about more workers; Dask brings its own commands."""

from __future__ import annotations

from thrifty.cli.output import Screen

TEXT = """\
To use more machines than this one, start workers with dask.distributed (pip install "thrifty[dask]").

On machines that can reach each other:
  dask scheduler --no-dashboard                          on one of them; it prints its address
  dask worker tcp://SCHEDULER:8786 --nthreads 1 --nworkers 8     on each of the others

In thrifty.toml:
  [run]
  engine = "dask"
  address = "tcp://SCHEDULER:8786"

With Slurm (pip install dask-jobqueue), in a small script that keeps running:
  from dask_jobqueue import SLURMCluster
  cluster = SLURMCluster(cores=1, memory="2 GB", walltime="04:00:00")
  cluster.scale(100)
  print(cluster.scheduler_address)                       then use it as the address above

The simulator is sent to the workers. A program (command = [...]) must be installed there under the same path.
Only thrifty run writes the run folder: start it on the machine that has the folder. If a worker dies, only its current
runs are lost; if the scheduler dies, thrifty run continues. The table is the same for any number of workers.
The scheduler accepts everybody who can reach it: keep it inside your cluster's network, or use certificates: start
scheduler and workers with --tls-ca-file, --tls-cert and --tls-key, set Dask's distributed.comm.tls, use tls:// above.
Other executors (MPI, executorlib, submitit, Parsl) are engines in Python: campaign.run(engine=th.Futures(executor))."""


def worker() -> int:
    """Show how to get workers from Dask or Slurm."""
    screen = Screen()
    screen.data(TEXT)
    screen.next("thrifty run")
    return 0
