"""How campaigns grow from ten thousand runs to a million, in CPU seconds of one process.

    python benchmarks/scale.py [record] [open] [wide] [virtual] [--sizes 1e4,1e5,1e6] [--folder DIR]

Each figure is measured in a process of its own. A growth exponent g says that ten times the runs take 10^g times as
much; 1 is proportional. The limit beside a figure is what plain sqlite3 needs for the same rows on the same disk.
Runs of the large folders are written through the store without being simulated; the plan and its weights are real.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import psutil

import thrifty as th
from thrifty.campaign.simulate import Memory
from thrifty.runner.engines.virtual import Virtual
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.loop import Loop
from thrifty.runner.schedule import Schedule
from thrifty.runner.task import Job, Outcome
from thrifty.store.driving import Recorder
from thrifty.store.store import Store

PRIOR = th.Uniform([0.0, 0.0], [3.0, 1.0], names=["a", "b"])
PILOTS, WIDE_RUNS, WIDE_NUMBERS = 200, 20_000, 10_000
ASKED = {
    "first record": ("s", 10.0),
    "status": ("s", 1.0),
    "resume": ("s", 5.0),
    "simulations": ("s", 6.0),
    "simulations, memory": ("x", 2.0),
}


def simulate(theta, rng):
    return th.Output(theta, cost=float(np.exp(2 * theta[0])))


def instant(theta, rng):
    return theta


def campaign(folder: Path) -> th.Campaign:
    return th.Campaign(folder, simulate, PRIOR, seed=1, cost="reported", unit="steps")


def line(
    what: str, value: float, unit: str, asked: float | None = None, *, least: bool = False, beside: str = ""
) -> None:
    verdict = ""
    if asked is not None:
        met = value >= asked if least else value <= asked
        verdict = f"   (asked: at {'least' if least else 'most'} {asked:g})   {'ok' if met else 'MISSED'}"
    print(f"{what:56s} {value:12,.4g} {unit:8s}{verdict}{'   ' + beside if beside else ''}", flush=True)


# --- steps, each in a process of its own: print one JSON object ---


def step_build(folder: str, n: str, share: str) -> dict[str, float]:
    """A campaign of n runs, of which a share is done."""
    place, total = Path(folder), int(float(n))
    c = campaign(place)
    c.pilot(PILOTS, engine=th.Inline(), progress="quiet")
    begun = time.process_time()
    c.plan(n=total - PILOTS)
    planned = time.process_time() - begun
    with contextlib.closing(Store.open(place)) as store:
        done = int(total * float(share))
        for first in range(PILOTS, done, 20_000):
            rows = store.query(
                "SELECT idx, theta FROM plan WHERE idx >= ? AND idx < ?", first, min(first + 20_000, done)
            )
            store.record([_made_up(index, np.frombuffer(theta)) for index, theta in rows], policy=None)
    with c.session.writing() as opened:
        opened.keep_figures()  # as a driver does once a minute and at its end
    return {"plan": planned, "bytes": float((place / "store.sqlite").stat().st_size)}


def _made_up(index: int, theta: np.ndarray) -> Outcome:
    return Outcome(index, "ok", theta, 1e-5, 1e-5, 10**6, float(np.exp(2 * theta[0])), "host")


def step_status(folder: str) -> dict[str, float]:
    c = th.Campaign.open(folder)
    begun = time.process_time()
    c.status()
    return {"status": time.process_time() - begun}


def step_simulations(folder: str, lazy: str = "") -> dict[str, float]:
    """CPU seconds and peak memory over the table's own size; x of a lazy table is not in memory."""
    c = th.Campaign.open(folder)
    with c.session.reading() as opened:
        _ = opened.parts
    before, begun = psutil.Process().memory_info().rss, time.process_time()
    sims = c.simulations(lazy=bool(lazy))
    spent = time.process_time() - begun
    own = sum(getattr(sims, name).nbytes for name in ("theta", "x", "log_weights", "cost", "status", "index"))
    used = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    with open("/proc/self/status") as status:
        anonymous = next(int(text.split()[1]) for text in status if text.startswith("RssAnon"))
    return {
        "simulations": spent,
        "simulations, memory": used / own,
        "anonymous MB": anonymous / 2**10,
        "own MB": own / 2**20,
    }


class Enough(BaseException):
    """Ends a driver after some groups."""


def step_resume(folder: str, groups: str = "1") -> dict[str, float]:
    """CPU seconds from run() to its first record, and the driver's memory after some groups of runs."""
    found: dict[str, float] = {}
    real, count = Store.record, 0

    def record(self: Store, *given: object, **named: object) -> None:
        nonlocal count
        real(self, *given, **named)  # type: ignore[arg-type]
        count += 1
        found.setdefault("first record", time.process_time() - begun)
        if count >= int(groups):
            raise Enough

    with tempfile.TemporaryDirectory(dir=Path(folder).parent) as scratch:
        place = Path(scratch) / "c"
        shutil.copytree(folder, place)
        c = campaign(place)
        Store.record = record  # type: ignore[method-assign]
        begun = time.process_time()
        with contextlib.suppress(Enough):
            c.run(engine=th.Inline(), progress="quiet")
    found.setdefault("first record", time.process_time() - begun)
    found["rss MB"] = psutil.Process().memory_info().rss / 2**20
    found["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return found


def step_record(engine: str, n: str, scratch: str) -> dict[str, float]:
    """Runs per CPU second of the driver: trivial runs, through the loop into the store."""
    c = th.Campaign(Path(scratch) / "c", instant, PRIOR, seed=1, cost="wall")
    c.pilot(60, engine=th.Inline(), progress="quiet")
    c.plan(n=int(float(n)), penalty=0)
    begun = time.process_time()
    c.run(engine=th.Inline() if engine == "inline" else th.Processes(2), progress="quiet")
    return {"rate": float(n) / (time.process_time() - begun)}


def step_wide(scratch: str, n: str, numbers: str) -> dict[str, float]:
    """Rate of recording wide outputs over that of plain insertion of the same numbers."""
    runs, size, place = int(float(n)), int(float(numbers)), Path(scratch) / "c"
    rng = np.random.default_rng(0)
    c = campaign(place)
    with c.session.writing() as opened:
        opened.add_part("prior", {"kind": "prior"})
        theta = PRIOR.sample(runs, rng)
        nothing = np.full(runs, np.nan)
        opened.store.add_block(0, theta, log_weights=0 * nothing, predicted=nothing, coins=theta[:, 1], mode="n")
        opened.keep(shape=(size,))
        x = rng.normal(size=(64, size))
        recorder = Recorder(opened.store, policy=None, session=0, blocks=frozenset({0}))
        begun = time.process_time()
        for i in range(runs):
            recorder.record([Outcome(i, "ok", x[i % 64], 1.0, 1.0, 10**6, 1.0, "host")])
            recorder.flush()
        recorder.flush(force=True)
        ours = time.process_time() - begun
    plain = []
    for name in ("one", "two"):
        rows = ((i, x[i % 64].tobytes()) for i in range(runs))
        plain.append(_insert_plainly(Path(scratch) / f"{name}.sqlite", rows, group=200))
        (Path(scratch) / f"{name}.sqlite").unlink()
    return {"ours": ours, "plain": min(plain)}


def _insert_plainly(path: Path, rows, *, group: int) -> float:
    """CPU seconds of executemany in groups, each synced like those of a campaign."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE runs (idx INTEGER PRIMARY KEY, x BLOB)")
    begun, waiting = time.process_time(), []
    for row in rows:
        waiting.append(row)
        if len(waiting) == group:
            with db:
                db.executemany("INSERT INTO runs VALUES (?, ?)", waiting)
            waiting = []
    with db:
        db.executemany("INSERT INTO runs VALUES (?, ?)", waiting)
    spent = time.process_time() - begun
    db.close()
    return spent


def step_plain(n: str, scratch: str) -> dict[str, float]:
    """The limit: rows of the size of a trivial run through plain sqlite3, written and read."""
    runs, data = int(float(n)), np.zeros(12).tobytes()
    path = Path(scratch) / "plain.sqlite"
    written = _insert_plainly(path, ((i, data) for i in range(runs)), group=4096)
    db = sqlite3.connect(path)
    begun = time.process_time()
    for _ in db.execute("SELECT * FROM runs ORDER BY idx"):
        pass
    return {"write": runs / written, "read": time.process_time() - begun}


# --- what is shown ---


def run_step(name: str, *given: object) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", __file__, "--step", name, *map(str, given)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def record(sizes: list[float], folder: Path) -> None:
    """Runs per CPU second of one driver."""
    n = min(max(sizes), 1e5)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        limit = run_step("plain", n, scratch)["write"]
    for engine in ("inline", "two workers"):
        for size in [size for size in sizes if size <= n]:
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                rate = run_step("record", engine, size, scratch)["rate"]
            beside = f"plain sqlite3 {limit:,.0f}"
            line(f"recorded, {engine}, {size:,.0f} trivial runs", rate, "runs/s", 5000, least=True, beside=beside)


def open_folders(sizes: list[float], folder: Path) -> None:
    """Status, resume, first record, the table, and the driver's memory, with their growth."""
    found: dict[str, list[float]] = {}
    for size in sizes:
        done, half, new = (folder / f"{size:.0e}-{share}" for share in (1.0, 0.5, 0.0))
        for place, share in ((done, 1.0), (half, 0.5), (new, 0.0)):
            if not place.exists():
                run_step("build", place, size, share)
        values = run_step("status", done) | run_step("simulations", done)
        values["status, half done"] = run_step("status", half)["status"]
        values["resume"] = run_step("resume", half)["first record"]
        values["resume, nothing left"] = run_step("resume", done)["first record"]
        values |= run_step("resume", new, 3)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            values["plain sqlite3 reads"] = run_step("plain", size, scratch)["read"]
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    for name, values in found.items():
        unit, asked = ASKED.get(name, ("MB" if name.endswith("MB") else "s", None))
        growth = np.log10(values[-1] / max(values[0], 1e-9)) / max(np.log10(sizes[-1] / sizes[0]), 1e-9)
        listed = ", ".join(f"{value:,.3g}" for value in values)
        line(f"{name}, {sizes[-1]:,.0f} runs", values[-1], unit, asked, beside=f"growth {growth:.2f} ({listed})")
    if len(sizes) > 1:
        line("driver's memory, largest less second largest", found["rss MB"][-1] - found["rss MB"][-2], "MB", 20)


def wide(sizes: list[float], folder: Path) -> None:
    """Outputs of 80 kilobytes: recording, the table in memory, and the table in a file."""
    runs = int(min(WIDE_RUNS, max(sizes)))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        found = run_step("wide", scratch, runs, WIDE_NUMBERS)
        rates = f"{runs / found['ours']:,.0f} and {runs / found['plain']:,.0f} runs/s"
        line(
            f"{runs:,} outputs of {WIDE_NUMBERS:,} numbers, of plain rate",
            found["plain"] / found["ours"],
            "x",
            0.6,
            least=True,
            beside=rates,
        )
        table = run_step("simulations", Path(scratch) / "c")
        line("   simulations(), CPU", table["simulations"], "s")
        line("   simulations(), memory over the table", table["simulations, memory"], "x", 1.3)
        table = run_step("simulations", Path(scratch) / "c", "lazy")
        line("   simulations(lazy=True), CPU", table["simulations"], "s")
        line(
            "   simulations(lazy=True), own memory",
            table["anonymous MB"],
            "MB",
            beside=f"table {table['own MB']:,.0f} MB",
        )


def virtual(sizes: list[float], folder: Path) -> None:
    """Makespan over max(sum/workers, longest run): cost range 1000, predictions 30 % off, worst of a few seeds.

    With ten runs per worker a long run that was predicted short starts too late, whatever the order: the error of the
    predictions is the limit there, not the schedule. So the same is shown with exact predictions.
    """
    for slots, each, seeds, error in (
        (1000, 20, 5, 0.3),
        (10_000, 20, 3, 0.3),
        (10_000, 100, 1, 0.3),
        (1000, 10, 5, 0.3),
        (10_000, 10, 3, 0.3),
        (10_000, 10, 3, 0.0),
    ):
        ratios, begun, n = [], time.process_time(), each * slots
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            seconds = 1000.0 ** rng.random(n)
            engine = Virtual(slots, lambda task, seconds=seconds: float(seconds[task.index]))
            schedule = Schedule(np.arange(n), np.zeros((n, 1)), predicted=seconds * rng.lognormal(0, error, n))
            Loop(engine, Job(instant, 0), schedule, Memory()).run(Interrupts())
            ratios.append(engine.clock() / max(seconds.sum() / slots, seconds.max()))
        spent = f"{1e6 * (time.process_time() - begun) / n / seeds:.0f} us of the driver per run"
        what = f"{slots:,} workers, {n:,} runs, {100 * error:.0f} % off, makespan"
        line(what, max(ratios), "x ideal", 1.10, beside=spent)


PARTS: dict[str, Callable[[list[float], Path], None]] = {
    "record": record,
    "open": open_folders,
    "wide": wide,
    "virtual": virtual,
}


def main() -> None:
    if sys.argv[1:2] == ["--step"]:
        print(json.dumps(globals()[f"step_{sys.argv[2]}"](*sys.argv[3:])))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--sizes", default="1e4,1e5,1e6")
    parser.add_argument("--folder", help="where folders are made, and kept; a temporary one otherwise")
    given = parser.parse_args()
    sizes = sorted(float(size) for size in given.sizes.split(","))
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(given.folder or scratch)
        place.mkdir(parents=True, exist_ok=True)
        for part in given.parts:
            PARTS[part](sizes, place)


if __name__ == "__main__":
    main()
