"""Where tasks run: in this process, in local worker processes, on a Dask cluster, or on a simulated clock."""
