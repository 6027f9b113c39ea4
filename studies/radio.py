"""Radio propagation: NPE and NLE posteriors under the prior, k = 2 and the mixture; time saved; many workers.

    python studies/radio.py [--quick | --full] [--seeds N] [--workers W] [--out DIR]

n = 10,000 runs of m = 50 signals each from the prior, k = 2 and the mixture {0, 1, 2, 3}; cost is linear in the arrival
rate and known. Runs are kept in files of 250, so that a killed study goes on there. NLE uses cost-aware runs without
weights; the paper's weighted Ca-NLE stands beside it. Two workers against one are timed on this machine; fifty are
simulated on a virtual clock through the loop that runs real campaigns.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import Record, Study, Task, Value, column, main as run_study, mean_sd, paper_mmd2, pick, save, table

import thrifty as th
from thrifty.campaign.simulate import Memory
from thrifty.closed_form import gain
from thrifty.plots.style import COLOURS, add_legend, estimate_density, make_figure, set_labels
from thrifty.runner.engines.virtual import Virtual
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.loop import Loop
from thrifty.runner.schedule import Schedule
from thrifty.runner.task import Job
from thrifty.types import Array

PAPER_SAVED = {"k=2": 44, "mixture": 26}  # section 4.3, from 15.6, 8.8 and 11.6 hours
PAPER_FIFTY = {"prior": 21.0, "k=2": 10.6}  # minutes on 50 cores, section 4.3
ARMS = ("prior", "k=2", "mixture")
AGAIN = "trained again"
METHODS = ("NPE", f"NPE {AGAIN}", "NPE balance", "NLE", f"NLE {AGAIN}", "NLE weighted")
CHUNK = 250
OBSERVED = 3  # seed of the observation, any: m = 50 signals make them much alike
DRAWS = 1_000


def tasks(full: bool, seeds: int | None) -> list[Task]:
    n, m = (10_000, 50) if full else (300, 5)
    runs = [{"part": "posteriors", "n": n, "m": m, "seed": seed} for seed in range(seeds or (3 if full else 1))]
    return [*runs, {"part": "fifty", "n": n, "m": m}, {"part": "two", "n": 300 if full else 40, "m": 50}]


def work(task: Task, folder: Path) -> list[Value]:
    return {"posteriors": posteriors, "fifty": fifty, "two": two}[task["part"]](task, folder)


def proposal(model: th.models.Radio, arm: str) -> Any:
    if arm == "mixture":
        return th.Mixture(model.prior, model.expected_cost, powers=(0, 1, 2, 3), scheme="paper")
    return th.CostAware(model.prior, model.expected_cost, th.Power(2 if arm == "k=2" else 0))


def runs_of(model: th.models.Radio, arm: str, task: Task, folder: Path) -> tuple[th.Simulations, float]:
    """The runs of an arm and their CPU seconds, from files where there are some."""
    seed = task["seed"]
    draws = proposal(model, arm).sample(task["n"], np.random.default_rng([seed, ARMS.index(arm)]))
    parts = []
    for start in range(0, task["n"], CHUNK):
        path = folder / f"{arm}-{task['n']}-{task['m']}-{seed}-{start}.npz"
        if not path.exists():
            theta = draws.theta[start : start + CHUNK]
            begin = time.process_time()
            sims = model.simulate_many(theta, 1_000 * (seed + 1) + ARMS.index(arm), start=start)
            temporary = path.with_suffix(".part.npz")
            np.savez(temporary, x=sims.x, cost=sims.cost, seconds=time.process_time() - begin)
            temporary.replace(path)
        parts.append(np.load(path))
    x, cost = (np.concatenate([part[name] for part in parts]) for name in ("x", "cost"))
    sims = th.Simulations(
        theta=draws.theta, x=x, cost=cost, log_weights=draws.log_weights, names=model.names, proposal=draws.proposal
    )
    return sims, float(sum(part["seconds"] for part in parts))


def posteriors(task: Task, folder: Path) -> list[Value]:
    """Train and draw for every arm and method; distances are to the prior arm's posterior of the same method."""
    model, seed, out = th.models.Radio(m=task["m"]), task["seed"], []
    x_o, plain = model.observed(OBSERVED), {}
    low, high = model.prior.bounds
    for arm in ARMS:
        sims, seconds = runs_of(model, arm, task, folder)
        plain.setdefault("cost", float(sims.cost.sum()))
        plain.setdefault("seconds", seconds)
        for name, (method, used) in methods(model, arm, sims).items():
            again = name.endswith(AGAIN)
            draws = method.fit(used, seed=seed + 1_000 * again).sample(DRAWS, x_o, seed=seed + 1_000 * again)
            scaled = (draws - low) / (high - low)
            reference = plain.setdefault(name.split()[0], scaled)
            truth = (model.theta_true - low) / (high - low)
            out.append({"arm": arm, "method": name, "saved": 1 - sims.cost.sum() / plain["cost"],
                        "saved_seconds": 1 - seconds / plain["seconds"], "seconds": seconds,
                        "ess": th.ess(used.log_weights) / len(used), "mmd2": paper_mmd2(scaled, reference),
                        "mean": scaled.mean(0), "sd": scaled.std(0), "truth": truth,
                        "curve": curves(scaled)})  # fmt: skip
    return out


def methods(model: th.models.Radio, arm: str, sims: th.Simulations) -> dict[str, tuple[Any, th.Simulations]]:
    npe, nle = th.NPE(model.prior, network=th.MAF()), th.NLE(model.prior, network=th.MAF())
    out = {"NPE": (npe, sims), "NLE": (nle, sims)}
    if arm == "prior":  # trained on the same runs from another seed: how far apart two trainings are
        out |= {f"NPE {AGAIN}": (npe, sims), f"NLE {AGAIN}": (nle, sims)}
    else:
        out["NLE weighted"] = th.NLE(model.prior, network=th.MAF(), weighted=True), sims
    if arm == "mixture":
        out["NPE balance"] = npe, sims.reweighted(proposal(model, arm).balanced.log_weight(sims.theta))
    return out


def curves(scaled: Array) -> list[list[float]]:
    """Density of each parameter, scaled to its prior: place of the first and last point, then 40 values between."""
    weights, out = np.full(len(scaled), 1 / len(scaled)), []
    for values in scaled.T:
        middle, reach = np.median(values), 6 * np.quantile(np.abs(values - np.median(values)), 0.7)
        ends = max(0.0, middle - reach), min(1.0, middle + reach)
        out.append([*ends, *estimate_density(values, weights, np.linspace(*ends, 40), (0.0, 1.0))])
    return [[float(v) for v in curve] for curve in out]


def fifty(task: Task, folder: Path) -> list[Value]:
    """Makespan of the campaign on 50 workers over the ideal, in plan order and longest predicted first."""
    model, out = th.models.Radio(m=task["m"]), []
    for arm in ARMS:
        theta = proposal(model, arm).sample(task["n"], np.random.default_rng([0, ARMS.index(arm)])).theta
        cost = model.expected_cost(theta)
        for order, predicted in (("plan order", None), ("longest first", cost)):
            engine = Virtual(50, lambda t, cost=cost: float(cost[t.index]))
            schedule = Schedule(np.arange(len(theta)), theta, predicted=predicted)
            Loop(engine, Job(lambda t: t, 0), schedule, Memory()).run(Interrupts())
            out.append({"arm": arm, "order": order, "makespan": max(engine.ended.values()) / (cost.sum() / 50),
                        "elapsed": max(engine.ended.values())})  # fmt: skip
    return out


def two(task: Task, folder: Path) -> list[Value]:
    """Wall seconds on one and on two workers: the best of three rounds in turn, without what starting them takes."""
    model, wall, tables, load = th.models.Radio(m=task["m"]), {1: np.inf, 2: np.inf}, {}, os.getloadavg()[0]
    theta = model.prior.sample(task["n"], np.random.default_rng(2))
    model.run(theta[0], np.random.default_rng(0))  # compiled before any clock starts
    for _ in range(3):
        for workers in (1, 2):
            seconds = []
            for n in (4, task["n"]):
                begin = time.perf_counter()
                tables[workers] = th.simulate(model.run, theta[:n], workers=workers, seed=1, progress="quiet")
                seconds.append(time.perf_counter() - begin)
            wall[workers] = min(wall[workers], seconds[1] - seconds[0])
    same = bool(np.array_equal(tables[1].x, tables[2].x))
    return [{"wall_1": wall[1], "wall_2": wall[2], "speed_up": wall[1] / wall[2], "same_table": same, "load": load}]


def text(record: Record) -> str:
    rows = pick(record, part="posteriors")
    body = []
    for arm in ARMS:
        for method in METHODS:
            mine = pick(record, arm=arm, method=method)
            if mine:
                paper = f"{PAPER_SAVED[arm]}%" if method == "NPE" and arm in PAPER_SAVED else ""
                shown = [mean_sd(column(mine, s), percent=True) for s in ("saved", "saved_seconds")]
                place = [f"{m:.2f} ± {s:.2f}" for m, s in zip(_mean(mine, "mean"), _mean(mine, "sd"), strict=True)]
                far = mean_sd(column(mine, "mmd2"), 3) if arm != "prior" or AGAIN in method else ""
                body.append([arm if method == "NPE" else "", method, paper,
                             *(shown if method == "NPE" and arm != "prior" else ("", "")), mean_sd(column(mine, "ess")),
                             far, *place])  # fmt: skip
    truth = ["truth", *[""] * 6, *(f"{v:.2f}" for v in rows[0]["truth"])]
    head = ["runs from", "method", "saved paper", "saved ours", "in CPU s", "ESS/n", "MMD² to prior arm",
            "gain", "reverberation", "arrival rate", "noise"]  # fmt: skip
    spans = {(v["arm"], v["order"]): v for v in pick(record, part="fifty")}
    pair = pick(record, part="two")[0]
    model, theirs = th.models.Radio(), np.sqrt([1.7, 139.2])
    low, high = (float(v) for v in model.expected_cost(np.array(model.prior.bounds)))  # it grows with one parameter
    return "\n\n".join([
        f"Radio, n = {rows[0]['n']:,}{_asked(rows[0]['n'])}, {len({v['seed'] for v in rows})} seed(s). Posterior mean"
        " ± sd of each parameter on the scale of its prior (0 to 1).",
        table(head, [*body, truth], keys=2),
        f"The prior's runs took {_seconds(record, 'prior'):.0f} CPU s here (the paper: 15.6 h for 10,000), those of"
        f" k = 2 {_seconds(record, 'k=2'):.0f} and of the mixture {_seconds(record, 'mixture'):.0f}.",
        f"Two workers against one: {pair['speed_up']:.2f} times as fast ({pair['n']} runs, {pair['wall_1']:.1f} s and"
        f" {pair['wall_2']:.1f} s), {'exactly the same table' if pair['same_table'] else 'ANOTHER TABLE'};"
        f" {_load(pair)}. Fifty workers, simulated, makespan over ideal:",
        table(["runs from", "plan order", "longest first", "elapsed saved against the prior", "paper, 50 cores"],
              [[arm, *(f"{spans[arm, o]['makespan']:.4f}" for o in ("plan order", "longest first")),
                f"{1 - spans[arm, 'longest first']['elapsed'] / spans['prior', 'longest first']['elapsed']:.0%}",
                f"{1 - PAPER_FIFTY[arm] / PAPER_FIFTY['prior']:.1%}" if arm in PAPER_FIFTY else ""] for arm in ARMS]),
        f"Cost is linear in the arrival rate over {high / low:.3g}×, where k = 2 saves {1 - 1 / gain(low, high, 2):.0%}"
        f" by the closed form; over the {theirs[1] / theirs[0]:.2g}× of the paper's g_min and g_max (1.7 and 139.2 at"
        f" z²) it saves {1 - 1 / gain(*theirs, 2):.0%}, which the paper's fifty cores show and its one machine, with"
        f" {PAPER_SAVED['k=2']}%, does not.",
    ])  # fmt: skip


def _asked(n: int) -> str:
    """Where a run is smaller than the paper's, say so."""
    asked = tasks(True, 1)[0]["n"]
    return f" (the paper's and the full setting: {asked:,})" if n != asked else ""


def _load(pair: Value) -> str:
    """Other work on the cores makes the second worker slower than it is."""
    return f"the machine's load by other work was {pair['load']:.1f} just before" if "load" in pair else "load unknown"


def _seconds(record: Record, arm: str) -> float:
    return float(column(pick(record, arm=arm, method="NPE"), "seconds").mean())


def _mean(rows: list[Value], name: str) -> Array:
    return np.mean([v[name] for v in rows], axis=0)


def draw(record: Record, path: Path) -> None:
    names = th.models.Radio().names
    figure, axes = make_figure(12, 5.4, rows=2, columns=4)
    for i, method in enumerate(("NPE", "NLE")):
        for j, name in enumerate(names):
            for a, arm in enumerate(ARMS):
                row = pick(record, arm=arm, method=method)[0]
                low, high, *curve = row["curve"][j]
                axes[i, j].plot(np.linspace(low, high, len(curve)), curve, color=COLOURS[a], label=arm)
            axes[i, j].axvline(row["truth"][j], color="k", linewidth=1, linestyle="--", label="truth")
            set_labels(axes[i, j], name.replace("_", " ") + " (prior: 0 to 1)" if i else "", method if j == 0 else "")
    add_legend(axes[0, -1])
    save(figure, path)


STUDY = Study("radio", tasks, work, text, draw)


def main(argv: list[str] | None = None) -> Record:
    """Run it."""
    return run_study(STUDY, __doc__, argv)


if __name__ == "__main__":
    main()
