"""Speed of rejection ABC: a million rows, and the same Gamma job beside pyABC and sbi.

    python benchmarks/abc.py

1. Rejection ABC on 1e6 × 12 statistics: CPU seconds per observation, peak memory over the table's.
2. The paper's Gamma job (prior U(100, 1000), mean and sd of m draws): accepted draws from one simulator, by thrifty
   (`th.ABC` on prior runs), sbi's MCABC and pyABC's ABCSMC with one generation (rejection). Each is charged for its
   own simulations through the same compiled-free simulator, at the same number of runs where it allows one.
Ratios in one process on one core are what counts; absolute numbers depend on the machine.
"""

from __future__ import annotations

import os
import tempfile
import time
import tracemalloc
import warnings

import numpy as np

import thrifty as th

M, RUNS, KEEP = 20, 4_000, 200
X_O = np.array([500.0, 22.4])


def large_table() -> None:
    rng = np.random.default_rng(0)
    n, d = 1_000_000, 12
    theta = rng.random((n, 2))
    sims = th.Simulations.from_arrays(
        theta=theta, x=rng.standard_normal((n, d)) + theta[:, :1], log_weights=np.log(0.5 + theta[:, 0])
    )
    for adjust in ("none", "local"):
        tracemalloc.start()
        start = tracemalloc.get_traced_memory()[0]
        begin = time.process_time()
        post = th.ABC(th.Uniform([0, 0], [1, 1]), quantile=0.001, adjust=adjust).fit(sims)
        fitted = time.process_time() - begin
        post.accepted(np.full(d, 0.5))
        peak = tracemalloc.get_traced_memory()[1] - start
        tracemalloc.stop()
        begin = time.process_time()
        accepted = post.accepted(np.full(d, 0.5))
        seconds = time.process_time() - begin
        print(
            f"1e6 x 12, adjust={adjust!r}: {seconds:.3f} s per observation ({len(accepted)} accepted),"
            f" {fitted:.2f} s once to fit;"
            f" table {sims.x.nbytes / 1e6:.0f} MB, peak {1 + peak / sims.x.nbytes:.2f} x that"
        )


def simulate(theta: float, rng: np.random.Generator) -> np.ndarray:
    sample = rng.standard_gamma(theta, M)
    return np.array([sample.mean(), sample.std(ddof=1)])


def thrifty_job() -> np.ndarray:
    rng = np.random.default_rng(1)
    prior = th.Uniform([100.0], [1000.0])
    theta = prior.sample(RUNS, rng)
    x = np.array([simulate(t, rng) for t in theta[:, 0]])
    post = th.ABC(prior, n_accept=KEEP).fit(th.Simulations.from_arrays(theta=theta, x=x))
    return post.sample(KEEP, X_O, seed=0)[:, 0]


def sbi_job() -> np.ndarray:
    import torch
    from sbi.inference import MCABC
    from sbi.utils import BoxUniform

    torch.manual_seed(1)
    rng = np.random.default_rng(1)

    def batch(theta: torch.Tensor) -> torch.Tensor:
        return torch.tensor(np.array([simulate(float(t), rng) for t in theta.reshape(-1)]), dtype=torch.float32)

    prior = BoxUniform(torch.tensor([100.0]), torch.tensor([1000.0]))
    method = MCABC(batch, prior, num_workers=1, show_progress_bars=False)
    draws = method(torch.tensor(X_O, dtype=torch.float32), num_simulations=RUNS, quantile=KEEP / RUNS)
    return draws.numpy()[:, 0]


def pyabc_job() -> np.ndarray:
    import logging

    import pyabc

    logging.getLogger("ABC").setLevel(logging.ERROR)
    rng = np.random.default_rng(1)
    np.random.seed(1)  # noqa: NPY002 - pyABC draws from the global stream

    def model(parameters: dict[str, float]) -> dict[str, float]:
        mean, sd = simulate(parameters["theta"], rng)
        return {"mean": mean, "sd": sd}

    def distance(x: dict[str, float], y: dict[str, float]) -> float:
        return float(np.hypot((x["mean"] - y["mean"]) / 225, (x["sd"] - y["sd"]) / 4.2))

    # pyABC has no table to choose the nearest from: one generation at a fixed tolerance that keeps about KEEP of RUNS
    job = pyabc.ABCSMC(
        model,
        pyabc.Distribution(theta=pyabc.RV("uniform", 100, 900)),
        distance,
        population_size=KEEP,
        eps=pyabc.ListEpsilon([TOLERANCE]),
        sampler=pyabc.sampler.SingleCoreSampler(),
    )
    with tempfile.TemporaryDirectory() as folder:
        job.new("sqlite:///" + os.path.join(folder, "abc.db"), {"mean": X_O[0], "sd": X_O[1]})
        history = job.run(max_nr_populations=1)
        frame, _ = history.get_distribution()
        print(f"    (pyABC used {history.total_nr_simulations} runs)")
        return frame["theta"].to_numpy()


def tolerance() -> float:
    """The distance of the KEEP-th nearest of RUNS, so that all three accept at the same place."""
    rng = np.random.default_rng(2)
    theta = rng.uniform(100, 1000, RUNS)
    x = np.array([simulate(t, rng) for t in theta])
    distance = np.hypot((x[:, 0] - X_O[0]) / 225, (x[:, 1] - X_O[1]) / 4.2)
    return float(np.sort(distance)[KEEP - 1])


TOLERANCE = tolerance()


def side_by_side() -> None:
    print(f"Gamma, {RUNS} runs, {KEEP} accepted, epsilon {TOLERANCE:.3f}: CPU seconds, simulations included")
    begin = time.process_time()
    rng = np.random.default_rng(3)
    for t in rng.uniform(100, 1000, RUNS):
        simulate(t, rng)
    print(f"  the {RUNS} runs alone  {time.process_time() - begin:7.3f}")
    base = 0.0
    for name, job in (("thrifty", thrifty_job), ("sbi MCABC", sbi_job), ("pyABC", pyabc_job)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            job()  # imports and first calls
            begin = time.process_time()
            draws = job()
            seconds = time.process_time() - begin
        base = base or seconds
        print(f"  {name:<16} {seconds:7.3f}  x {seconds / base:5.1f}   mean {draws.mean():.1f} sd {draws.std():.1f}")


if __name__ == "__main__":
    large_table()
    side_by_side()
