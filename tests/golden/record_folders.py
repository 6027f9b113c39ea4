"""Wrote `folders/` with the code before the redesign. Do not run it again: old files are what the tests are for."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
if __name__ == "__main__":
    socket.gethostname = lambda: "golden"  # no name of a machine in the files; before thrifty reads it

import thrifty as th
from golden import record, scenarios
from golden.simulator import PRIOR, X_O, events

HOME = Path(__file__).parent / "folders"
QUIET = {"progress": "quiet"}
POSTERIORS = ("npe", "npe_spline", "npe_after", "npe_set", "nle", "nre", "ensemble", "abc", "abc_linear")
POSTERIORS += ("synthetic", "synthetic_pointwise", "scoring", "scoring_kernel")
SMC = th.SMCABC(PRIOR, particles=20)


class Stopped(th.Inline):
    """Presses Ctrl-C after a number of runs."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def submit(self, tasks: Any) -> None:
        super().submit(tasks)
        self.left -= len(tasks)
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)


def stopped(step: Any) -> None:
    try:
        step()
    except KeyboardInterrupt:
        return
    raise AssertionError("nothing was left to do: stop earlier")


def partly(folder: Path) -> th.Campaign:
    """Pilot, a plan, a second one with another penalty."""
    c = th.Campaign(folder, events, PRIOR, seed=41, cost="reported", unit="events")
    c.pilot(40, engine=th.Inline(), **QUIET)
    c.plan(n=60)
    c.plan(n=30, penalty=1.0)
    return c


def begun(folder: Path) -> th.Campaign:
    return th.Campaign(folder, events, PRIOR, seed=43, cost="reported")


def study_in(folder: Path) -> th.Study:
    """The whole journey, of which the runs are there already."""
    settings = {"n": 100, "method": th.ABC(PRIOR, quantile=0.4), "seed": 44, "cost": "reported", "workers": 1}
    return th.infer(events, PRIOR, X_O, folder=folder, **settings)


def status(c: th.Campaign) -> np.ndarray:
    s = c.status()
    return np.array([s.planned, s.done, s.pending, s.pilots, s.failed, s.spent, s.left, s.ess_fraction, s.not_admitted])


def campaigns(place: Path, calm: Path) -> dict[str, dict[str, Any]]:
    """Campaigns stopped half way, and what they come to when nobody stops them."""
    c = partly(place / "partly")
    stopped(lambda: c.run(engine=Stopped(25), **QUIET))
    half = {**scenarios.table(c.simulations(allow_incomplete=True)), "told": status(c)}
    whole = partly(calm / "partly")
    whole.run(engine=th.Inline(), **QUIET)
    out = {"partly": half, "partly_continued": {**scenarios.table(whole.simulations()), "told": status(whole)}}

    c = th.Campaign(place / "budget", events, PRIOR, seed=42, cost="reported", unit="events", m=2)
    c.pilot(20, engine=th.Inline(), **QUIET)
    c.plan(budget="400 events")
    c.run(engine=th.Inline(), **QUIET)
    out["budget"] = {**scenarios.table(c.simulations()), "told": status(c)}

    stopped(lambda: SMC.run(begun(place / "smc"), X_O, n=150, engine=Stopped(90)))
    out["smc_continued"] = scenarios.smc_values(SMC.run(begun(calm / "smc"), X_O, n=150, engine=th.Inline()))

    c = th.Campaign(place / "study", events, PRIOR, seed=44, cost="reported")  # what infer does, but in this process
    c.pilot(20, engine=th.Inline(), **QUIET)
    c.plan(n=100)
    c.run(engine=th.Inline(), **QUIET)
    study = study_in(place / "study")
    out["study"] = {**scenarios.table(study.simulations), "samples": study.samples}
    return out


def files(place: Path, budget: Path) -> dict[str, dict[str, Any]]:
    """Posteriors, costs and tables, as their own methods write them."""
    out = {}
    for name in POSTERIORS:
        post = scenarios.fitted(name)
        post.save(place / f"{name}.npz")
        out[f"posterior_{name}"] = scenarios.told(post, name)
    weighted = scenarios.fitted("abc").accepted(X_O)
    weighted.save(place / "weighted.npz")
    out["posterior_weighted"] = scenarios.told(weighted, "weighted")
    theta, seconds = scenarios.timings(PRIOR, 60)
    for name, model in {"cost_gp": th.GaussianProcess(), "cost_polynomial": th.Polynomial(2)}.items():
        cost = th.fit_cost(theta, seconds, model=model)
        cost.save(place / f"{name}.json")
        out[name] = {"cost": cost(scenarios.POINTS)}
    sims = th.Campaign.open(budget).simulations()
    sims.to_npz(place / "table.npz")
    sims.to_parquet(place / "table.parquet")
    command = [sys.executable, "-m", "thrifty", "export", str(budget), "--to", "csv", "--out", str(place / "table.csv")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    half_trained(place / "checkpoint.npz", epochs=2)
    out["checkpoint_continued"] = scenarios.told(half_trained(None, epochs=4), "npe")
    return out


def half_trained(checkpoint: Path | None, *, epochs: int) -> Any:
    """A training that a checkpoint can continue."""
    training = th.Training(max_epochs=epochs, batch=50, progress=False, checkpoint=checkpoint)
    method = th.NPE(PRIOR, network=th.MixtureDensity(2, hidden=(16,)), training=training)
    return method.fit(scenarios.runs(), seed=45)


def main() -> None:
    if HOME.exists():
        raise SystemExit(f"{HOME.name}/ exists: it was written by the old code and must stay so")
    from threadpoolctl import threadpool_limits

    calm = HOME.with_name("calm")
    (HOME / "files").mkdir(parents=True)
    with threadpool_limits(1), scenarios.one_torch_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = campaigns(HOME, calm) | files(HOME / "files", HOME / "budget")
    shutil.rmtree(calm)
    for wal in HOME.glob("*/store.sqlite-wal"):
        assert wal.stat().st_size == 0, "readers leave an empty log behind; anything in it would be lost"
    for name in ("lock", "store.sqlite-wal", "store.sqlite-shm"):
        for file in HOME.glob(f"*/{name}"):
            file.unlink()
    record.write(HOME / "expected.npz", {name: record.records_of(values) for name, values in made.items()})


if __name__ == "__main__":
    main()
