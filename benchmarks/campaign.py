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
from thrifty.campaign.simulate import Memory
from thrifty.runner.engines.virtual import Virtual
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.loop import Loop
from thrifty.runner.schedule import Schedule
from thrifty.runner.task import Job
from thrifty.store.driving import Recorder

PRIOR = th.Uniform([0.0, 0.0], [1.0, 1.0], names=["a", "b"])


def line(what: str, value: float, limit: float | None, unit: str) -> None:
    asked = "" if limit is None else f"   (asked: at most {limit:g})   {'ok' if value <= limit else 'MISSED'}"
    print(f"{what:64s} {value:10.4g} {unit}{asked}", flush=True)


def sleeping(theta, rng):
    """Takes theta[0] seconds and no CPU, so that a busy machine does not blur the overhead; reports its own time."""
    begun = time.perf_counter()
    time.sleep(theta[0])
    return th.Output(theta, cost=time.perf_counter() - begun)


def spinning(theta, rng):
    """Takes theta[0] seconds of wall time on a core: the driver competes with it for two cores."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < theta[0]:
        pass
    return th.Output(theta, cost=time.perf_counter() - begun)


def instant(theta, rng):
    return theta


def warm_engine() -> None:
    th.simulate(instant, np.ones((4, 1)), workers=2, progress="quiet")


def timed(simulator, seconds: float, n: int) -> np.ndarray:
    """Wall seconds of n runs on two workers, and the seconds that the simulator itself measured inside them."""
    begun = time.perf_counter()
    sims = th.simulate(simulator, np.full((n, 1), seconds), workers=2, cost="reported", progress="quiet")
    return np.array([time.perf_counter() - begun, float(sims.cost.sum())])


def overhead(runs: int = 1000) -> None:
    """Worker time that is not the simulator's own.

    Steady state: the difference between two sizes, which removes the start (workers, one warm-up run each) and the end;
    both are given beside it.
    """
    warm_engine()
    wall, inside = timed(sleeping, 0.001, 4500) - timed(sleeping, 0.001, 500)
    line("overhead per run, 1 ms runs, bundled, in memory", 1e3 * (2 * wall - inside) / 4000, 0.3, "ms")
    for simulator, label in ((sleeping, "sleeping"), (spinning, "spinning")):
        small, large = timed(simulator, 0.1, 20), timed(simulator, 0.1, 20 + runs)
        wall, inside = large - small
        line(f"{runs:,} runs of 100 ms, {label}: overhead, share of wall", 100 * (1 - inside / (2 * wall)), 1.0, "%")
        begin = small[0] - small[1] / 2
        line("   start and end of a job, warm-up run included", begin, None, "s")
        line("   share of wall with start and end", 100 * (1 - large[1] / (2 * large[0])), None, "%")
    _durable(runs)
    begun = time.process_time()
    th.simulate(instant, np.ones((20_000, 1)), workers=2, progress="quiet")
    line("driver CPU per run, instant runs in memory", 1e3 * (time.process_time() - begun) / 20_000, None, "ms")


def _durable(runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        c = th.Campaign(Path(folder) / "c", sleeping_campaign, PRIOR, cost="reported")
        times = []
        for n in (20, 40, 40 + runs):  # the first call starts the fork server
            begun, before = time.perf_counter(), c.status().spent
            c.pilot(n, progress="quiet")
            times.append((time.perf_counter() - begun, c.status().spent - before))
        wall, inside = np.subtract(times[2], times[1])
        line(f"{runs:,} runs of 100 ms, durable: overhead, share of wall", 100 * (1 - inside / (2 * wall)), 1.0, "%")
        line("   share of wall with start and end", 100 * (1 - times[2][1] / (2 * times[2][0])), None, "%")


def sleeping_campaign(theta, rng):
    begun = time.perf_counter()
    time.sleep(0.1)
    return th.Output(theta + rng.normal(), cost=time.perf_counter() - begun)


def makespan(times: int = 3) -> None:
    """Two real workers, cost range 100, predictions 30 % off, start-up included: against max(sum/2, longest)."""
    warm_engine()
    for seed in range(times):
        rng = np.random.default_rng(seed)
        seconds = 0.002 * 100.0 ** rng.random(300)
        noisy = seconds * rng.lognormal(0, 0.3, 300)
        memory = Memory()
        schedule = Schedule(np.arange(300), np.column_stack([seconds, seconds]), predicted=noisy)
        begun = time.perf_counter()
        Loop(th.Processes(2), Job(sleeping, 0), schedule, memory).run(Interrupts())
        wall = time.perf_counter() - begun
        inside = sum(outcome.reported for outcome in memory.outcomes)
        line(f"makespan / lower bound, two real workers, {seed}", wall / max(inside / 2, seconds.max()), 1.05, "x")


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
        c.pilot(n // 100, progress="quiet")
        base, seen = _resident(), []
        flush = Recorder.flush

        def watched(self, *, force=False):
            recorded = flush(self, force=force)
            seen.append((recorded, _resident()))
            return recorded

        Recorder.flush = watched  # type: ignore[method-assign]
        begun = time.perf_counter()
        c.pilot(n, progress="quiet")
        wall = time.perf_counter() - begun
        Recorder.flush = flush  # type: ignore[method-assign]
        line(f"{n:,} durable runs, wall per run", 1e3 * wall / n, None, "ms")
        early = next(memory for recorded, memory in seen if recorded >= n // 10)
        line("driver memory at the end of the run, over a tenth of it", (seen[-1][1] - early) / 2**20, 10.0, "MB")
        line("   the plan and its weights, held throughout", (early - base) / 2**20, None, "MB")
        line("   afterwards, over the start", (_resident() - base) / 2**20, None, "MB")
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
    for attempt in ("first", "second", "third"):
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
