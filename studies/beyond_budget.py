"""Beyond the paper (c): equal budget instead of equal n, on temporal SIR.

    python studies/beyond_budget.py [--quick | --full] [--seeds N] [--workers W] [--out DIR]

A budget pays for so many plain runs. Each arm draws in order and stops with the run that passes the budget, which
is kept (stopping otherwise would favour cheap runs); cost-aware arms pay for their pilot of 200 out of it. The pilot is
recycled through joint weights, except in the paper's mixture, which has no rule for it. Accuracy: mean log density of
the true parameters under an amortised NPE, over runs from the prior, in all of them and in the cheap and the expensive
half. Budgets are in operations with the start-up of `studies/epidemics.py`, the same on every machine.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from common import Record, Study, Task, Value, column, main as run_study, mean_sd, pick, save, table
from epidemics import PILOT, POWERS, fit, model_of, pilot, pooled, simulated

import thrifty as th
from thrifty.plots.style import COLOURS, add_legend, make_figure, set_labels

ARMS = ("plain", "√c", "k=1", "paper's mixture", "balance mixture")
TEST = 3_000


def tasks(full: bool, seeds: int | None) -> list[Task]:
    budgets, count = ((500, 2_000), 10) if full else ((400,), 1)
    return [{"budget": b, "seed": seed} for seed in range(seeds or count) for b in budgets]


def work(task: Task, folder: Path) -> list[Value]:
    model, seed = model_of("TemporalSIR"), task["seed"]
    test = model.simulate_many(model.prior.sample(TEST, np.random.default_rng([seed, 9])), 77_000 + seed)
    first = pilot(model, seed)
    cost = fit(first[0])
    budget = task["budget"] * plain_cost()
    expensive = cost(test.theta) > np.median(cost(test.theta))
    out = []
    for arm, (sims, paid, seconds) in arms(model, cost, first, budget=budget, seed=seed).items():
        begin = time.process_time()
        density = th.NPE(model.prior, network=th.NSF()).fit(sims, seed=seed).log_density(test.theta, test.x)
        out.append({"arm": arm, "n": len(sims), "effective": th.ess(sims.log_weights), "spent": paid / budget,
                    "seconds": seconds,
                    "all": density.mean(), "cheap": density[~expensive].mean(), "expensive": density[expensive].mean(),
                    "se": density.std(ddof=1) / np.sqrt(TEST), "training": time.process_time() - begin})  # fmt: skip
    return out


@cache
def plain_cost() -> float:
    """Mean cost of a prior run, from 20,000 of them: the unit of the budget."""
    model = model_of("TemporalSIR")
    return float(model.simulate_many(model.prior.sample(20_000, np.random.default_rng(6)), 6).cost.mean())


def arms(
    model: Any, cost: Any, first: tuple[th.Simulations, float], *, budget: float, seed: int
) -> dict[str, tuple[th.Simulations, float, float]]:
    """Runs of each arm, what they cost and the CPU seconds they took, pilot included where there was one."""
    prior, (pilots, pilot_seconds) = model.prior, first
    price = float(pilots.cost.sum())
    plain, seconds = until(model, th.CostAware(prior, cost, th.Constant()), budget, seed=seed, stream=1)
    out = {"plain": (plain, float(plain.cost.sum()), seconds)}
    for i, (name, k) in enumerate({"√c": 0.5, "k=1": 1.0}.items()):
        proposal = th.CostAware(prior, cost, th.Power(k))
        rest, seconds = until(model, proposal, budget - price, seed=seed, stream=2 + i)
        joint = pooled(pilots, rest, th.Pool([(PILOT, prior), (len(rest), proposal)], prior))
        out[name] = joint, float(joint.cost.sum()), pilot_seconds + seconds
    mixture = th.Mixture(prior, cost, powers=POWERS, scheme="paper")
    rest, seconds = until(model, mixture, budget - price, seed=seed, stream=4)
    paid = price + float(rest.cost.sum()), pilot_seconds + seconds
    joint = pooled(pilots, rest, th.Pool([(PILOT, prior), (len(rest), mixture.balanced)], prior))
    return out | {"paper's mixture": (rest, *paid), "balance mixture": (joint, *paid)}


def until(model: Any, proposal: Any, budget: float, *, seed: int, stream: int) -> tuple[th.Simulations, float]:
    """Runs in plan order up to and including the one that passes the budget, and the CPU seconds of just these."""
    most = int(8 * budget / plain_cost()) + 50
    draws = proposal.sample(most, np.random.default_rng([seed, 40 + stream]))
    key = 1_000 * (seed + 1) + 400 + stream
    last = int(np.searchsorted(np.cumsum(model.simulate_many(draws, key).cost), budget)) + 1
    return simulated(model, counted_alike(draws[:last]), key)


def counted_alike(draws: th.Draws) -> th.Draws:
    """The paper's weights of a table that was cut: each component is self-normalised again and counts as much."""
    if draws.component is None:
        return draws
    log_weights = draws.log_weights.copy()
    for j in np.unique(draws.component):
        log_weights[draws.component == j] -= np.logaddexp.reduce(log_weights[draws.component == j])
    return replace(draws, log_weights=log_weights)


def text(record: Record) -> str:
    body = []
    for budget in sorted({v["budget"] for v in record["values"]}):
        base = pick(record, budget=budget, arm="plain")
        for arm in ARMS:
            rows = pick(record, budget=budget, arm=arm)
            gain = [column(rows, part) - column(base, part) for part in ("all", "cheap", "expensive")]
            body.append([f"{budget:,}" if arm == "plain" else "", arm, mean_sd(column(rows, "n"), 0),
                         mean_sd(column(rows, "effective"), 0),
                         mean_sd(1_000 * column(rows, "seconds"), 0), mean_sd(column(rows, "training"), 1),
                         mean_sd(column(rows, "all")),
                         *(mean_sd(g) if arm != "plain" else "" for g in gain)])  # fmt: skip
    head = ["budget (plain runs)", "arm", "runs", "effective", "CPU ms, runs", "CPU s, training", "log density",
            "gain, all", "gain, cheap", "gain, expensive"]  # fmt: skip
    return (
        f"Equal budget on temporal SIR, {record['seeds']} seeds, NPE with splines; gains in nats over plain, same"
        " seeds, mean and sd. Every arm but plain pays for a pilot of 200 runs out of the budget; all but the paper's"
        " mixture use these runs again. Budgets are in operations. CPU time is of the compiled kernel, whose start-up"
        " outweighs a mean run (under CG×ESS), so that arms of many cheap runs take more of it than plain.\n\n"
        + table(head, body, keys=2)
    )


def draw(record: Record, path: Path) -> None:
    budgets = sorted({v["budget"] for v in record["values"]})
    figure, axes = make_figure(9, 3.2, columns=3)
    for ax, part in zip(axes[0], ("all", "cheap", "expensive"), strict=True):
        for i, arm in enumerate(ARMS):
            y = [column(pick(record, budget=b, arm=arm), part) for b in budgets]
            ax.errorbar(budgets, [v.mean() for v in y], [v.std() / np.sqrt(len(v)) for v in y], fmt="o-",
                        color=COLOURS[i], markersize=4, label=arm)  # fmt: skip
        ax.set_xscale("log")
        ax.set_xticks(budgets, [f"{b:,}" for b in budgets])
        ax.minorticks_off()
        set_labels(
            ax, "budget, in plain runs", "mean log density (bars: se)" if part == "all" else "", f"{part} observations"
        )
    add_legend(axes[0, 0], loc="lower right")
    save(figure, path)


STUDY = Study("beyond_budget", tasks, work, text, draw)


def main(argv: list[str] | None = None) -> Record:
    """Run it."""
    return run_study(STUDY, __doc__, argv)


if __name__ == "__main__":
    main()
