"""Beyond the paper (f): the runs that taught the cost are kept, and posteriors are judged by the exact one.

    python studies/beyond_pilot.py [--quick | --full] [--seeds N] [--workers W] [--out DIR]

Ca-NPE of Table 2 (same runs, observations and reference) on n runs from k = 0.5, 1 and 2, and on these with the pilot's
200, which are paid for in any case; with the paper's MAF and with thrifty's splines, and with the weights put in after
training instead of in the loss. Pooled, no weight exceeds (n + 200) / 200, whatever the penalty. The posterior of
temporal SIR can be computed (`thrifty.benchmark`): there every network, the reference too, is also held against
the truth.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from common import Record, Study, Task, Value, column, main as run_study, mean_sd, paired, paper_mmd2, pick, save, table
from epidemics import (
    DRAWS,
    PILOT,
    POWERS,
    SHOWN,
    fit,
    judged,
    model_of,
    observations,
    pilot,
    pooled,
    references,
    simulated,
)

import thrifty as th
from thrifty.benchmark.problems.temporal_likelihood import exact_draws
from thrifty.plots.style import COLOURS, make_figure, set_labels
from thrifty.types import Array

SEEDS = {"TemporalSIR": 50, "HomogeneousSIR": 10}
POOLS, LARGE = 200, 100  # pools to see a bias of their weights in; an outbreak of more people is large
NETWORKS = {"MAF": th.MAF(), "splines": th.NSF()}
WAYS = {  # what is trained on a campaign: (pilot, network, correction) -> as shown
    ("alone", "MAF", "weights"): "discarded, MAF (the paper's)",
    ("pooled", "MAF", "weights"): "kept, MAF",
    ("pooled", "splines", "weights"): "kept, splines (thrifty's)",
    ("pooled", "splines", "after"): "kept, splines, weights applied afterwards",
}


def tasks(full: bool, seeds: int | None) -> list[Task]:
    n, many = (5_000, 50_000) if full else (500, 3_000)
    once = [{"part": "reference", "n": many, "seed": -1}, {"part": "large", "n": 8 * many, "seed": -1}]
    own = [{"part": "own pilot", "n": n, "seed": seed} for seed in range(POOLS if full else 3)]
    return [*once, *own] + [
        {"model": name, "n": n, "reference": many, "seed": seed}
        for name, count in SEEDS.items()
        for seed in range(seeds or (count if full else 1))
    ]


def work(task: Task, folder: Path) -> list[Value]:
    if "part" in task:
        return {"reference": yardsticks, "large": large, "own pilot": own_pilot}[task["part"]](task, folder)
    model, n, seed = model_of(task["model"]), task["n"], task["seed"]
    targets, exact = references(model, folder, task["reference"]), truth(task["model"])
    first, _ = pilot(model, seed)
    cost, out = fit(first), []

    def value(sims: th.Simulations, network: str, correction: Any, **labels: Any) -> Value:
        method = th.NPE(model.prior, network=NETWORKS[network], correction=correction)
        found = judged(method, sims, model, targets, seed=seed, classifier=False, exact=exact)
        return {"network": network, "correction": correction, "effective": th.ess(sims.log_weights),
                "largest": float(th.normalise(sims.log_weights).max()), **labels, **found}  # fmt: skip

    plain = _runs(model, th.CostAware(model.prior, cost, th.Power(0)), n, seed, 0)
    out += [value(plain, network, "weights", k=0, kept="plain") for network in NETWORKS]
    for i, k in enumerate(POWERS[1:], start=1):
        proposal = th.CostAware(model.prior, cost, th.Power(k))
        alone = _runs(model, proposal, n, seed, i)
        joint = pooled(first, alone, th.Pool([(PILOT, model.prior), (n, proposal)], model.prior))
        saved = {name: 1 - bill / plain.cost.sum() for name, bill in (
            ("saved", alone.cost.sum()), ("saved_with_pilot", first.cost.sum() + alone.cost.sum()))}  # fmt: skip
        for kept, *trained in WAYS:
            out.append(value(alone if kept == "alone" else joint, *trained, k=k, kept=kept, **saved))
    return out


def _runs(model: th.models.Model, proposal: th.CostAware, n: int, seed: int, i: int) -> th.Simulations:
    """The very runs of Table 2."""
    return simulated(model, proposal.sample(n, np.random.default_rng([seed, 10 + i])), 1_000 * (seed + 1) + 10 + i)[0]


@cache
def truth(name: str, stream: int = 0) -> list[Array] | None:
    """Draws of the exact posterior at each observation, where it can be computed; another stream, other draws."""
    if name != "TemporalSIR":
        return None
    model = model_of(name)
    rough = model.prior.sample(DRAWS, np.random.default_rng(5))  # small outbreaks are evaluated on a grid anyway
    return [exact_draws(x, rough, np.random.default_rng([6, stream]), n=DRAWS)[0] for x in observations(model)]


def yardsticks(task: Task, folder: Path) -> list[Value]:
    """How far the reference is from the exact posterior, splines on the same n runs, and exact draws from others."""
    model, exact = model_of("TemporalSIR"), truth("TemporalSIR")
    made = {name: references(model, folder, task["n"], network) for name, network in NETWORKS.items()}
    made["exact draws again"] = truth("TemporalSIR", 1)
    return [{"yardstick": name, "exact": np.mean([paper_mmd2(d, e) for d, e in zip(draws, exact, strict=True)])}
            for name, draws in made.items()]  # fmt: skip


def large(task: Task, folder: Path) -> list[Value]:
    """The prior's share of large outbreaks, from plain runs."""
    model = model_of("TemporalSIR")
    sims = model.simulate_many(model.prior.sample(task["n"], np.random.default_rng(7)), 7)
    return [{"share": float((sims.x[:, 0] > LARGE).mean())}]


def own_pilot(task: Task, folder: Path) -> list[Value]:
    """The same share from pools, weighed with a cost that their own pilot taught, and that another one did.

    A pilot run that happened to be long raises the cost learned at its own theta, and so its own weight in the pool;
    a fresh pilot under the same cost does not have that, all else is the same.
    """
    model, n, seed, out = model_of("TemporalSIR"), task["n"], task["seed"], []
    first, fresh = (pilot(model, 10_000 + 2 * seed + i)[0] for i in (0, 1))
    cost = fit(first)
    for i, k in enumerate(POWERS[1:], start=1):
        proposal = th.CostAware(model.prior, cost, th.Power(k))
        runs = _runs(model, proposal, n, 10_000 + seed, i)
        pool = th.Pool([(PILOT, model.prior), (n, proposal)], model.prior)
        share = {name: _share(pooled(pilots, runs, pool)) for name, pilots in (("own", first), ("fresh", fresh))}
        out.append({"power": k, **share})
    return out


def _share(sims: th.Simulations) -> float:
    return float(th.normalise(sims.log_weights) @ (sims.x[:, 0] > LARGE))


def rows_of(record: Record, name: str, k: float | None, way: tuple[str, str, str]) -> list[Value]:
    """The values of a campaign that were trained in one way."""
    kept, network, correction = way
    return pick(record, model=name, k=k, kept=kept, network=network, correction=correction)


def text(record: Record) -> str:
    body = []
    for name in SEEDS:
        for network in NETWORKS:
            rows = pick(record, model=name, k=0, network=network)
            body.append(_line(f"{SHOWN[name]}, prior" if network == "MAF" else "", f"none, {network}", rows))
        for k in POWERS[1:]:
            for way, shown in WAYS.items():
                first = f"{SHOWN[name]}, k={k:g}" if way[0] == "alone" else ""
                body.append(_line(first, shown, rows_of(record, name, k, way)))
    head = ["campaign", "200 pilot runs", "MMD² to the reference", "paper's kernel", "to the exact posterior",
            "effective runs", "largest weight [%]", "saved, pilot paid", "seeds"]  # fmt: skip
    n = pick(record, kept="plain")[0]["n"]
    return (
        f"Ca-NPE of Table 2 on the same n = {n:,} runs, without and with the {PILOT} runs of the pilot (mean, sd),"
        ' which are paid for in both. "To the exact posterior" is MMD² with the paper\'s kernel, for temporal SIR,'
        " whose posterior at the five observations is computed by summing over all histories.\n\n"
        + table(head, [line for line in body if line], keys=2)
        + f"\n\n{_yardstick(record)}\n\n{_own(record)}"
    ).strip()


def _own(record: Record) -> str:
    """What it does to weights that the pilot taught the cost which weighs it."""
    base, rows = pick(record, part="large"), pick(record, part="own pilot")
    if not base or not rows:
        return ""
    truth_, body = base[0]["share"], []
    for k in POWERS[1:]:
        own, fresh = (column(pick(record, part="own pilot", power=k), name) for name in ("own", "fresh"))
        body.append([f"{k:g}", *(paired(v, np.full(len(v), truth_), 4) for v in (own, fresh)), paired(own, fresh, 4)])
    pools = len({v["seed"] for v in rows})
    return (
        "Pooled weights are exact for a cost that the pool's own runs did not teach. The pilot did teach it: a pilot"
        " run that happened to be long raises the cost learned where it is, and so its own weight. Measured on temporal"
        f" SIR, where run time depends on x most: the prior's share of outbreaks above {LARGE} people ({truth_:.4f}),"
        f" error over {pools} pools of {PILOT} pilots and {rows[0]['n']:,} runs (mean ± se):\n\n"
        + table(["k", "own pilot", "fresh pilot, same cost", "own less fresh"], body)
    )


def _line(campaign: str, shown: str, rows: list[Value]) -> list[str]:
    if not rows:
        return []
    paid = mean_sd(column(rows, "saved_with_pilot"), percent=True) if "saved" in rows[0] else ""
    return [campaign, shown, *(mean_sd(column(rows, name), 3) for name in ("mmd2", "narrow", "exact")),
            mean_sd(column(rows, "effective"), 0), mean_sd(100 * column(rows, "largest"), 1), paid,
            f"{np.isfinite(column(rows, 'mmd2')).sum()}"]  # fmt: skip


def _yardstick(record: Record) -> str:
    """What the reference itself is worth."""
    rows = pick(record, part="reference")
    if not rows:
        return ""
    far = {v["yardstick"]: v["exact"] for v in rows}
    return (
        f"The reference of temporal SIR, a MAF on {rows[0]['n']:,} prior runs as in the paper, is itself"
        f" {far['MAF']:.3f} from the exact posterior; splines on the same runs {far['splines']:.3f}; a second set of"
        f" exact draws {far['exact draws again']:.3f}. So a part of every MMD² to the reference is its own error."
    )


def draw(record: Record, path: Path) -> None:
    panels = [(name, "mmd2", "MMD² to the reference") for name in SEEDS if pick(record, model=name)]
    panels.insert(1, ("TemporalSIR", "exact", "MMD² to the exact posterior"))
    figure, axes = make_figure(3.9 * len(panels), 3.5, columns=len(panels))
    for ax, (name, which, shown) in zip(axes[0], panels, strict=True):
        for j, (way, label) in enumerate(WAYS.items()):
            y = [column(rows_of(record, name, k, way), which) for k in POWERS[1:]]
            at, mean = np.arange(len(y)) + 0.12 * (j - 1.5), [np.nanmean(v) for v in y]
            ax.errorbar(at, mean, [np.nanstd(v) for v in y], fmt="o", color=COLOURS[j], label=f"pilot {label}")
        for j, network in enumerate(NETWORKS):
            plain = np.nanmean(column(pick(record, model=name, k=0, network=network), which))
            ax.axhline(plain, color=COLOURS[2 * j], linewidth=1, linestyle=":", label=f"prior runs, {network}")
        ax.set_xticks(range(len(y)), [f"k={k:g}" for k in POWERS[1:]])
        ax.set_ylim(bottom=0)
        set_labels(ax, "proposal", f"{shown} (bars: sd)", SHOWN[name])
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8
    )
    save(figure, path)


STUDY = Study("beyond_pilot", tasks, work, text, draw)


def main(argv: list[str] | None = None) -> Record:
    """Run it."""
    return run_study(STUDY, __doc__, argv)


if __name__ == "__main__":
    main()
