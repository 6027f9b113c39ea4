"""What the machinery costs: overhead per run, makespan, a hundred thousand runs, and sbi beside it.

    python benchmarks/campaign.py [overhead] [makespan] [virtual] [large] [sbi]

Figures are ratios or differences within one run, since machines differ; each line names what is asked of it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import thrifty as th
from thrifty.campaign.interrupts import Interrupts
from thrifty.campaign.loop import Loop
from thrifty.campaign.schedule import Schedule
from thrifty.campaign.simulate import Memory
from thrifty.campaign.store import Store
from thrifty.campaign.task import Job
from thrifty.campaign.virtual import Virtual

PRIOR = th.Uniform([0.0, 0.0], [1.0, 1.0], names=["a", "b"])


def line(what: str, value: float, limit: float | None, unit: str) -> None:
    asked = "" if limit is None else f"   (asked: at most {limit:g})   {'ok' if value <= limit else 'MISSED'}"
    print(f"{what:64s} {value:10.4g} {unit}{asked}", flush=True)


def sleeping(theta, rng):
    """A run that takes theta[0] seconds and no CPU, so that a busy machine does not blur the overhead."""
    time.sleep(theta[0])
    return theta


def instant(theta, rng):
    return theta


def warm_engine() -> None:
    th.simulate(instant, np.ones((4, 1)), workers=2, progress="quiet")


def busy_time(seconds: float, n: int, workers: int = 2) -> tuple[float, float]:
    """Wall seconds of n sleeping runs, and the wall seconds measured inside them."""
    draws = np.full((n, 1), seconds)
    begun = time.perf_counter()
    sims = th.simulate(sleeping, draws, workers=workers, cost="wall", progress="quiet")
    return time.perf_counter() - begun, float(sims.cost.sum())


def overhead() -> None:
    """Worker time that is not the simulator's own: differences between two sizes remove the start-up."""
    warm_engine()
    for seconds, small, large, label in ((0.001, 500, 4500, "1 ms runs, bundled"), (0.1, 20, 220, "100 ms runs")):
        wall, inside = (
            np.subtract(b, a) for a, b in zip(busy_time(seconds, small), busy_time(seconds, large), strict=True)
        )
        per_run = (2 * wall - inside) / (large - small)
        if seconds < 0.01:
            line(f"overhead per run, {label}, in memory", 1e3 * per_run, 0.3, "ms")
        else:
            line(f"overhead, {label}, in memory, share of wall", 100 * per_run / seconds, 1.0, "%")
    with tempfile.TemporaryDirectory() as folder:
        c = th.Campaign(Path(folder) / "c", _hundred, PRIOR)
        c.pilot(20, progress="quiet")
        begun, before = time.perf_counter(), c.status()
        c.pilot(240, progress="quiet")
        wall = time.perf_counter() - begun
        store = Store.open(Path(folder) / "c", readonly=True)
        inside = store.totals()["wall"] - 20 * 0.1
        store.close()
        line("100 ms runs, durable, share of wall, start-up included", 100 * (2 * wall - inside) / inside, None, "%")
        assert before.done == 20
    begun = time.process_time()
    th.simulate(instant, np.ones((20_000, 1)), workers=2, progress="quiet")
    line("driver CPU per run, instant runs in memory", 1e3 * (time.process_time() - begun) / 20_000, None, "ms")


def _hundred(theta, rng):
    time.sleep(0.1)
    return theta + rng.normal()


def makespan() -> None:
    """Two real workers, cost range 100: against max(sum/2, longest)."""
    rng = np.random.default_rng(0)
    theta = rng.random((300, 1))
    seconds = 0.002 * 100.0 ** theta[:, 0]
    warm_engine()
    engine, memory = th.Processes(2), Memory()
    noisy = seconds * rng.lognormal(0, 0.3, 300)
    schedule = Schedule(np.arange(300), np.column_stack([seconds, seconds]), predicted=noisy)
    loop = Loop(engine, Job(sleeping, 0), schedule, memory)
    begun = time.perf_counter()
    loop.run(Interrupts())
    wall = time.perf_counter() - begun
    inside = sum(outcome.wall for outcome in memory.outcomes)
    line("makespan / lower bound, two real workers", wall / max(inside / 2, seconds.max()), 1.05, "x")


def virtual() -> None:
    """A thousand workers, ten thousand runs, cost range 1000, predictions 30 % off; through the same loop."""
    for order in ("longest first", "plan order"):
        ratios = []
        for seed in range(5):
            rng = np.random.default_rng(seed)
            seconds = 1000.0 ** rng.random(10_000)
            predicted = seconds * rng.lognormal(0, 0.3, 10_000) if order == "longest first" else None
            engine = Virtual(1000, lambda task, seconds=seconds: float(seconds[task.index]))
            schedule = Schedule(np.arange(10_000), np.zeros((10_000, 1)), predicted=predicted)
            Loop(engine, Job(instant, 0), schedule, Memory()).run(Interrupts())
            ratios.append(engine.clock() / max(seconds.sum() / 1000, seconds.max()))
        line(f"makespan / lower bound, 1,000 virtual workers, {order}", float(np.median(ratios)),
             1.15 if order == "longest first" else None, "x")  # fmt: skip


def large(n: int = 100_000) -> None:
    """A durable campaign of n instant runs: memory of the driver while it runs, time to open afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large"
        c = th.Campaign(path, instant, PRIOR)
        c.pilot(1000, progress="quiet")
        base = _resident()
        begun = time.perf_counter()
        peaks = []
        for target in (n // 4, n // 2, n):
            c.pilot(target, progress="quiet")
            peaks.append(_resident())
        wall = time.perf_counter() - begun
        line(f"{n:,} durable runs, wall per run", 1e3 * wall / n, None, "ms")
        line("driver memory after n/4, over the start", (peaks[0] - base) / 2**20, None, "MB")
        line("driver memory after n, over n/4", (peaks[-1] - peaks[0]) / 2**20, None, "MB")
        opened = "import sys, time, thrifty as th; t = time.perf_counter(); c = th.Campaign.open(sys.argv[1]);"
        for what, code in (("open", ""), ("open and status", "c.status();"), ("open and table", "c.simulations();")):
            out = subprocess.run(
                [sys.executable, "-c", f"{opened}{code} print(time.perf_counter() - t)", path],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            line(f"folder of {n:,} runs: {what}", float(out.stdout), 2.0 if what == "open" else None, "s")


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def sbi(n: int = 2000) -> None:
    """The same job of 2,000 runs of 5 ms through sbi's simulate_for_sbi, two workers."""
    import torch
    from sbi.inference import simulate_for_sbi
    from sbi.utils import BoxUniform
    from sbi.utils.user_input_checks import process_prior, process_simulator

    torch.set_num_threads(1)
    prior, _, numpy_prior = process_prior(BoxUniform(torch.zeros(2), torch.ones(2)))
    simulator = process_simulator(_five_torch, prior, numpy_prior)
    for attempt in ("first", "again"):
        begun = time.perf_counter()
        simulate_for_sbi(simulator, prior, num_simulations=n, num_workers=2, show_progress_bar=False, seed=0)
        theirs = time.perf_counter() - begun
        draws = th.Draws(PRIOR.sample(n, np.random.default_rng(0)))
        begun = time.perf_counter()
        th.simulate(_five, draws, workers=2, progress="quiet")
        ours = time.perf_counter() - begun
        line(f"2,000 runs of 5 ms, two workers (ideal {n * 0.005 / 2:g} s), thrifty, {attempt}", ours, None, "s")
        line(f"2,000 runs of 5 ms, two workers, sbi simulate_for_sbi, {attempt}", theirs, None, "s")


def _five(theta, rng):
    time.sleep(0.005)
    return theta + rng.normal()


def _five_torch(theta):
    import torch

    time.sleep(0.005)
    return torch.as_tensor(theta) + torch.randn(1)


if __name__ == "__main__":
    parts = {"overhead": overhead, "makespan": makespan, "virtual": virtual, "large": large, "sbi": sbi}
    for name in sys.argv[1:] or parts:
        parts[name]()
