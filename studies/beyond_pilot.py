"""Beyond the paper (f): the runs that taught the cost are kept, as draws of the prior in one pool.

    python studies/beyond_pilot.py [--quick | --full] [--seeds N] [--workers W] [--out DIR]

Ca-NPE of Table 2 (same runs, network, observations and reference) on n runs from k = 0.5, 1 and 2, and on these with
the pilot's 200, which are paid for in any case. Pooled, no weight exceeds (n + 200) / 200, whatever the penalty.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import Record, Study, Task, Value, column, mean_sd, pick, save, table
from common import main as run_study
from epidemics import PILOT, POWERS, SHOWN, fit, judged, model_of, pilot, pooled, references, simulated

import thrifty as th
from thrifty.plots.style import COLOURS, labels, legend, new

SEEDS = {"TemporalSIR": 50, "HomogeneousSIR": 10}
KEPT = {"alone": "pilot thrown away", "pooled": "pilot kept"}


def tasks(full: bool, seeds: int | None) -> list[Task]:
    n, many = (5_000, 50_000) if full else (500, 3_000)
    return [
        {"model": name, "n": n, "reference": many, "seed": seed}
        for name, count in SEEDS.items()
        for seed in range(seeds or (count if full else 1))
    ]


def work(task: Task, folder: Path) -> list[Value]:
    model, n, seed = model_of(task["model"]), task["n"], task["seed"]
    targets = references(model, folder, task["reference"])
    first, _ = pilot(model, seed)
    cost, method, out = fit(first), th.NPE(model.prior, network=th.MAF()), []
    plain = _runs(model, th.CostAware(model.prior, cost, th.Power(0)), n, seed, 0)
    for i, k in enumerate(POWERS[1:], start=1):
        proposal = th.CostAware(model.prior, cost, th.Power(k))
        alone = _runs(model, proposal, n, seed, i)
        pool = th.Pool([(PILOT, model.prior), (n, proposal)], model.prior)
        saved = {name: 1 - bill / plain.cost.sum() for name, bill in (
            ("saved", alone.cost.sum()), ("saved_with_pilot", first.cost.sum() + alone.cost.sum()))}  # fmt: skip
        for kept, sims in (("alone", alone), ("pooled", pooled(first, alone, pool))):
            out.append({"k": k, "kept": kept, **saved, "effective": th.ess(sims.log_weights),
                        "largest": float(th.normalise(sims.log_weights).max()),
                        **judged(method, sims, model, targets, seed=seed, classifier=False)})  # fmt: skip
    return out


def _runs(model: th.models.Model, proposal: th.CostAware, n: int, seed: int, i: int) -> th.Simulations:
    """The very runs of Table 2."""
    return simulated(model, proposal.sample(n, np.random.default_rng([seed, 10 + i])), 1_000 * (seed + 1) + 10 + i)[0]


def text(record: Record) -> str:
    body = []
    for name in SEEDS:
        for k in POWERS[1:]:
            for kept, shown in KEPT.items():
                rows = pick(record, model=name, k=k, kept=kept)
                if rows:
                    body.append([f"{SHOWN[name]}, k={k:g}" if kept == "alone" else "", shown,
                                 mean_sd(column(rows, "mmd2"), 3), mean_sd(column(rows, "narrow"), 3),
                                 mean_sd(column(rows, "effective"), 0),
                                 mean_sd(100 * column(rows, "largest"), 1),
                                 mean_sd(column(rows, "saved_with_pilot"), percent=True), f"{len(rows)}"])  # fmt: skip
    head = [
        "campaign",
        "200 pilot runs",
        "MMD²",
        "paper's kernel",
        "effective runs",
        "largest weight [%]",
        "saved, pilot paid",
        "seeds",
    ]
    return (
        f"Ca-NPE of Table 2 on the same n = {record['values'][0]['n']:,} runs, without and with the {PILOT} runs of the"
        " pilot (mean, sd), which are paid for in both.\n\n" + table(head, body)
    )


def draw(record: Record, path: Path) -> None:
    names = [name for name in SEEDS if pick(record, model=name)]
    figure, axes = new(4 * len(names), 3.2, columns=len(names))
    for ax, name in zip(axes[0], names, strict=True):
        for j, (kept, shown) in enumerate(KEPT.items()):
            y = [column(pick(record, model=name, k=k, kept=kept), "mmd2") for k in POWERS[1:]]
            at, mean, sd = np.arange(len(y)) + 0.12 * j - 0.06, [np.nanmean(v) for v in y], [np.nanstd(v) for v in y]
            ax.errorbar(at, mean, sd, fmt="o", color=COLOURS[j], label=shown)
        ax.set_xticks(range(len(y)), [f"k={k:g}" for k in POWERS[1:]])
        ax.set_ylim(bottom=0)
        labels(ax, "proposal", "MMD² to the reference", SHOWN[name])
    legend(axes[0, 0])
    save(figure, path)


STUDY = Study("beyond_pilot", tasks, work, text, draw)


def main(argv: list[str] | None = None) -> Record:
    """Run it."""
    return run_study(STUDY, __doc__, argv)


if __name__ == "__main__":
    main()
