"""Beyond the paper (d): what a budget stop and a time limit do to an answer, with and without the remedies.

    python studies/beyond_stopping.py [--quick | --full] [--seeds N] [--workers W] [--out DIR]

On a virtual clock, through the loop that runs real campaigns. Budget: cost 1000^theta, theta uniform, 16 or 64 workers;
the weighted mean of theta should be 0.5. Time limit: theta normal, x = theta + noise, run time grows with both; the
posterior mean at x = 2 should be 1, and weighted least squares is exact NPE here. A study may not tell a biased
rule from its remedy by eye, so errors are given in standard deviations of one campaign.
"""

from __future__ import annotations

import heapq
from pathlib import Path

import numpy as np
from common import Record, Study, Task, Value, column, main as run_study, pick, save, table

import thrifty as th
from thrifty.campaign.simulate import Memory, assemble
from thrifty.plots.style import COLOURS, add_legend, make_figure, set_labels
from thrifty.runner.engines.virtual import Virtual
from thrifty.runner.gates import Gate
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.loop import Loop
from thrifty.runner.schedule import Schedule
from thrifty.runner.task import Job
from thrifty.runner.time_limits import TimeLimit
from thrifty.types import Array

RANGE = 1000.0
CASES = {"plain, 16 workers": (0.0, 16, 1600.0), "√c, 16 workers": (0.5, 16, 500.0), "√c, 64 workers": (0.5, 64, 500.0)}
RULES = {
    "skipped": "skip draws that no longer fit",
    "finished": "keep what finished in time",
    "drained": "stop admitting, finish what was started",
}
LIMITS = {"none": "no limit", "restrict": "drop late runs", "lazy": "lazy limit (a quarter runs on, weighs 4)"}
LONGER = {"lazy, longer": "the same, four times the runs"}  # what is left of an error that shrinks with n is no bias


def tasks(full: bool, seeds: int | None) -> list[Task]:
    campaigns, runs = (100, 4_000) if full else (15, 1_500)
    return [{"campaigns": campaigns, "runs": runs, "seed": seed} for seed in range(seeds or (4 if full else 2))]


def work(task: Task, folder: Path) -> list[Value]:
    rng = np.random.default_rng([task["seed"], 3])
    out = [{"case": name, "rule": rule, "means": means}
           for name in CASES for rule, means in budget_case(name, task["campaigns"], rng).items()]  # fmt: skip
    for i in range(task["campaigns"] // 5):
        out += limit_case(task["runs"], rng, seed=1_000 * task["seed"] + i)
        more = limit_case(4 * task["runs"], rng, seed=1_000 * task["seed"] + 500 + i, policies=("lazy",))
        out.append(more[0] | {"policy": "lazy, longer"})
    return out


def budget_case(name: str, campaigns: int, rng: np.random.Generator) -> dict[str, list[float]]:
    """Weighted means of theta of many campaigns under three ways to stop."""
    k, workers, stop = CASES[name]
    means: dict[str, list[float]] = {rule: [] for rule in RULES}
    for _ in range(campaigns):
        theta, log_weights = draws(rng, 60 * workers, k)
        cost = RANGE ** theta[:, 0]
        engine, memory = Virtual(workers, lambda t, cost=cost: float(cost[t.index])), Memory()
        schedule = Schedule(np.arange(len(theta)), theta, must=0)
        Loop(engine, Job(lambda t: t, 0), schedule, memory, gate=Gate(until=stop)).run(Interrupts())
        rows = np.array(sorted(outcome.index for outcome in memory.outcomes))
        kept = {"drained": rows, "finished": rows[[engine.ended[i] <= stop for i in rows]],
                "skipped": whatever_fits(cost, workers, stop)}  # fmt: skip
        for rule, chosen in kept.items():
            means[rule].append(float(th.normalise(log_weights[chosen]) @ theta[chosen, 0]))
    return means


def draws(rng: np.random.Generator, n: int, k: float) -> tuple[Array, Array]:
    """Exact draws from RANGE^(-k theta) on [0, 1] and their log weights."""
    if k == 0:
        return rng.random((n, 1)), np.zeros(n)
    a = k * np.log(RANGE)
    theta = -np.log1p(-rng.random(n) * (1 - np.exp(-a))) / a
    return theta[:, None], a * theta


def whatever_fits(cost: Array, workers: int, stop: float) -> Array:
    """A free worker takes the next draw that still ends in time, and skips those that do not."""
    free, rows = [0.0] * workers, []
    for row, seconds in enumerate(cost):
        if free[0] + seconds <= stop:
            heapq.heapreplace(free, free[0] + seconds)
            rows.append(row)
    return np.array(rows)


def limit_case(
    n: int, rng: np.random.Generator, *, seed: int, policies: tuple[str, ...] = tuple(LIMITS)
) -> list[Value]:
    """Posterior mean at x = 2 with its standard error, and the time spent, under three policies."""
    theta = rng.normal(size=(n, 1))
    z, e = rng.normal(size=n), rng.normal(size=n)
    seconds = np.exp(1.5 * theta[:, 0] + 0.5 * e + 0.5 * z)
    out = []
    for policy in policies:
        limit = None if policy == "none" else TimeLimit(float(np.quantile(seconds, 0.9)), policy)
        engine = Virtual(4, lambda t: float(seconds[t.index]), output=lambda t: [t.theta[0] + z[t.index]])
        memory, schedule = Memory(), Schedule(np.arange(n), theta, limit=limit, seed=seed)
        Loop(engine, Job(lambda t: t, seed), schedule, memory, limit=limit).run(Interrupts())
        sims = assemble(th.Draws(theta), memory.outcomes, limit=limit, cost="wall", m=1, seed=seed)
        out.append({"policy": policy, "mean": posterior_mean(sims), "cost": float(sims.cost.sum() / seconds.sum())})
    return out


def posterior_mean(sims: th.Simulations) -> float:
    theta, x, w = sims.theta[sims.ok, 0], sims.x[sims.ok, 0], np.exp(sims.log_weights[sims.ok])
    slope, offset = np.polyfit(x, theta, 1, w=np.sqrt(w))
    return float(offset + 2 * slope)


def text(record: Record) -> str:
    body = []
    for name in CASES:
        for rule, words in RULES.items():
            means = np.concatenate([v["means"] for v in pick(record, case=name, rule=rule)])
            body.append([name if rule == "skipped" else "", words, f"{means.mean():.3f}",
                         f"{(means.mean() - 0.5) / means.std():+.2f}", f"{1 / np.sqrt(len(means)):.2f}"])  # fmt: skip
    limits = []
    for policy, words in (LIMITS | LONGER).items():
        rows = pick(record, policy=policy)
        if not rows:  # an older record
            continue
        mean = column(rows, "mean")
        spread = f" ± {mean.std(ddof=1) / np.sqrt(len(mean)):.3f}"
        limits.append([words, f"{mean.mean():.3f}{spread}", f"{column(rows, 'cost').mean():.2f}"])
    campaigns = len(np.concatenate([v["means"] for v in pick(record, case="√c, 16 workers", rule="drained")]))
    return "\n\n".join([
        f"Budget stop, {campaigns} campaigns a line (truth 0.5):",
        table(["campaign", "rule", "mean of θ", "error in sd", "± se"], body),
        f"Time limit at the 90 % quantile, {len(pick(record, policy='lazy'))} campaigns of"
        f" {record['values'][0]['runs']:,} runs (posterior mean at x = 2 is 1):",
        table(["policy", "posterior mean", "time spent"], limits),
    ])  # fmt: skip


def draw(record: Record, path: Path) -> None:
    figure, axes = make_figure(9.5, 3.2, columns=2)
    bins = np.linspace(0.34, 0.56, 56)
    for i, rule in enumerate(RULES):
        means = np.concatenate([v["means"] for v in pick(record, case="√c, 64 workers", rule=rule)])
        axes[0, 0].hist(means, bins, color=COLOURS[i], alpha=0.8, label=RULES[rule])
    axes[0, 0].axvline(0.5, color="k", linewidth=1)
    set_labels(axes[0, 0], "weighted mean of θ", "campaigns", "budget stop, √c, 64 workers (truth 0.5)")
    for i, policy in enumerate(LIMITS):
        rows = pick(record, policy=policy)
        axes[0, 1].plot(column(rows, "cost"), column(rows, "mean"), "o", color=COLOURS[i], markersize=4,
                        label=LIMITS[policy])  # fmt: skip
    axes[0, 1].axhline(1, color="k", linewidth=1)
    set_labels(axes[0, 1], "time spent, of all runs to the end", "posterior mean (truth 1)", "time limit")
    axes[0, 0].set_ylim(top=1.5 * axes[0, 0].get_ylim()[1])
    axes[0, 1].set_ylim(top=1.2)
    for ax in axes[0]:
        add_legend(ax, loc="upper left")
    save(figure, path)


STUDY = Study("beyond_stopping", tasks, work, text, draw)


def main(argv: list[str] | None = None) -> Record:
    """Run it."""
    return run_study(STUDY, __doc__, argv)


if __name__ == "__main__":
    main()
