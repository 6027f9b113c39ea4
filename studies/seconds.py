"""Time saved in seconds: the SIR models as plain Python loops, timed, their cost learned from the clock.

    python studies/seconds.py [--quick | --full] [--seeds N] [--workers W] [--out DIR]

The compiled kernels run in microseconds, most of them start-up; the paper's simulators are interpreted. Here the same
algorithms run as plain Python (`tests/models/oracles.py`): 200 timed runs teach the cost in CPU seconds, n runs are
drawn from each proposal and timed too. Nothing is counted or chosen: cost is what the clock says, start-up included.
"""

from __future__ import annotations

import time
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from common import ROOT, Record, Study, Task, Value, column, main as run_study, mean_sd, pick, save, table
from epidemics import PILOT, POWERS, SHOWN
from table2 import ARMS, PAPER_SAVED

import thrifty as th
from thrifty.plots.style import COLOURS, GREY, add_legend, make_figure, set_labels
from thrifty.types import Array

RUNS = {"HomogeneousSIR": ("homogeneous_sir", 300), "TemporalSIR": ("temporal_sir", 5_000),
        "BernoulliSIR": ("bernoulli_sir", 200)}  # fmt: skip


def tasks(full: bool, seeds: int | None) -> list[Task]:
    names = list(RUNS) if full else ["TemporalSIR"]
    return [
        {"model": name, "n": RUNS[name][1] if full else 200, "seed": seed}
        for seed in range(seeds or (5 if full else 1))
        for name in names
    ]


def work(task: Task, folder: Path) -> list[Value]:
    name, n, seed = task["model"], task["n"], task["seed"]
    run, prior = getattr(oracles(), RUNS[name][0]), getattr(th.models, name)().prior
    run(prior.sample(1, np.random.default_rng(0))[0], np.random.default_rng(0))  # what is made once is made
    theta = prior.sample(PILOT, np.random.default_rng([seed, 1]))
    pilot = timed(run, theta, [seed, 2])
    cost = th.fit_cost(theta, pilot)
    proposals = {f"k={k:g}" if k else "NPE": th.CostAware(prior, cost, th.Power(k)) for k in POWERS}
    mixture = th.Mixture(prior, cost, powers=POWERS)
    out = []
    for i, (arm, proposal) in enumerate({**proposals, "mixture": mixture}.items()):
        seconds = timed(run, proposal.sample(n, np.random.default_rng([seed, 10 + i])).theta, [seed, 20 + i])
        out.append({"arm": arm, "seconds": seconds.sum() / n, "pilot": pilot.sum(), "ess": proposal.ess_fraction,
                    "range": float(np.divide(*np.quantile(cost(theta), [0.99, 0.01]))),
                    "score": cost.score})  # fmt: skip
    plain = out[0]["seconds"]
    return [value | {"saved": 1 - value["seconds"] / plain} for value in out]


@cache
def oracles() -> Any:
    """The plain loops, loaded by their path: their folder has names of its own."""
    loader = SourceFileLoader("oracles", str(ROOT / "tests" / "models" / "oracles.py"))
    module = ModuleType("oracles")
    loader.exec_module(module)
    return module


def timed(run: Any, theta: Array, seed: list[int]) -> Array:
    """CPU seconds of one run at each theta."""
    out = np.empty(len(theta))
    for i, rng in enumerate(np.random.default_rng(seed).spawn(len(theta))):
        begin = time.process_time()
        run(theta[i], rng)
        out[i] = time.process_time() - begin
    return out


def text(record: Record) -> str:
    body = []
    for name in RUNS:
        for i, arm in enumerate(ARMS):
            rows = pick(record, model=name, arm=arm)
            if rows:
                saved = [f"{PAPER_SAVED[name][i]}%", mean_sd(column(rows, "saved"), percent=True)] if i else ["", ""]
                body.append([SHOWN[name] if not i else "", arm, f"{rows[0]['n']:,}",
                             mean_sd(1_000 * column(rows, "seconds"), 2), *saved, mean_sd(column(rows, "ess")),
                             mean_sd(column(rows, "range"), 0) if not i else ""])  # fmt: skip
    head = ["model", "arm", "runs", "CPU ms per run", "saved paper", "saved ours", "ESS/n", "cost range learned"]
    return (
        f"The SIR models as plain Python loops, {record['seeds']} pilots of {PILOT} timed runs (mean, sd). Cost is in"
        " CPU seconds, learned from the clock and saved by the clock; nothing is added for a start-up. The pilot is"
        " not counted, as in the paper. Range: 99 % over 1 % quantile of the predicted cost. The mixture has balance"
        " weights.\n\n" + table(head, body, keys=2) + _flat(record)
    )


def _flat(record: Record) -> str:
    """Where the loop takes as long at every theta, there is nothing to learn or to save."""
    ranges = {name: column(pick(record, model=name, arm="NPE"), "range") for name in RUNS}
    flat = [SHOWN[name] for name, found in ranges.items() if len(found) and found.mean() < 1.3]
    if not flat:
        return ""
    return (
        f"\n\n{', '.join(flat)}: this loop draws the whole graph and sums its rows with numpy, which takes as long at"
        " any θ. The proposals are then the prior (ESS/n 1), and what is saved or lost is the noise of the clock."
    )


def draw(record: Record, path: Path) -> None:
    names = [name for name in RUNS if pick(record, model=name)]
    figure, axes = make_figure(3.4 * len(names), 3, columns=len(names))
    for ax, name in zip(axes[0], names, strict=True):
        for j, arm in enumerate(ARMS[1:]):
            saved = 100 * column(pick(record, model=name, arm=arm), "saved")
            ax.plot(np.full(len(saved), j), saved, "o", color=COLOURS[0], alpha=0.6, label="ours" if not j else None)
            paper = PAPER_SAVED[name][j + 1]
            ax.plot([j], [paper], "x", color=COLOURS[1], markersize=8, label="paper" if not j else None)
        ax.set_xticks(range(len(ARMS) - 1), ARMS[1:])
        ax.axhline(0, color=GREY, linewidth=0.8)
        ax.set_ylim(min(0.0, 100 * column(pick(record, model=name), "saved").min() - 5), 100)
        set_labels(ax, "proposal", "CPU seconds saved [%]", SHOWN[name])
    add_legend(axes[0, 0], loc="upper left")
    save(figure, path)


STUDY = Study("seconds", tasks, work, text, draw)


def main(argv: list[str] | None = None) -> Record:
    """Run it."""
    return run_study(STUDY, __doc__, argv)


if __name__ == "__main__":
    main()
