"""The paper's Gamma figure: cost against n, MMD against cost for ABC and NPE, posterior densities against the truth.

    python studies/gamma_figure.py [--quick | --full] [--seeds N] [--workers W] [--out DIR]

theta_true = 250, 500, 750; ABC with n = 50,000 and epsilon = 0.05, NPE with n = 5,000 and a MAF, five runs. The cost is
linear with the range behind the paper's Table 1. The law of a run is sampled with numpy's Gamma generator (the same
law, a thousand times faster); its cost is the bundled sampler's expected count of operations.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import Record, Study, Task, Value, column, mean_sd, pick, save, table
from common import main as run_study
from gamma_abc import TRUTHS, judged, tables
from table1 import PAPER, start_up

import thrifty as th
from thrifty.plots.style import COLOURS, density, labels, new
from thrifty.types import Array

ARMS = ("k=0", "k=0.5", "k=1", "k=2", "k=3", "paper mixture", "balance mixture")
SHOWN = ("k=0", "k=1", "k=3", "paper mixture", "balance mixture")  # densities of these are drawn
PAPER_SAVED = {"paper mixture": "25%"}  # section 4.1: "around 25 %"


def gamma(truth: float) -> th.models.Gamma:
    return th.models.Gamma(theta_true=truth, overhead=start_up() * 500)


def tasks(full: bool, seeds: int | None) -> list[Task]:
    abc, npe, count = (50_000, 5_000, 5) if full else (4_000, 400, 1)
    return [{"n_abc": abc, "n_npe": npe, "seed": seed} for seed in range(seeds or count)]


def work(task: Task, folder: Path) -> list[Value]:
    seed, model = task["seed"], gamma(500.0)
    for_abc = tables(model, task["n_abc"], 1_000 * (seed + 1), False)
    for_npe = tables(model, task["n_npe"], 1_000 * (seed + 1) + 500, False)
    out = []
    for arm in ARMS:
        accepted = th.ABC(model.prior, epsilon=0.05).fit(for_abc[arm])
        network = th.NPE(model.prior, network=th.MAF()).fit(for_npe[arm], seed=seed)
        spent = float(for_abc[arm].cost.sum() / for_abc["k=0"].cost.sum())
        for truth in TRUTHS:
            sample = gamma(truth).observed_sample(seed)
            x_o = np.array([sample.mean(), sample.std(ddof=1)])
            exact = gamma(truth).reference_posterior(sample)
            reference = exact.sample(2_000, np.random.default_rng(seed))
            by_abc = judged(accepted, x_o, reference, spent)
            draws = network.sample(2_000, x_o, seed=seed)
            row = {"arm": arm, "truth": truth, "cost": spent, "abc_mmd2": by_abc["mmd2"], "abc_ess": by_abc["ess"],
                   "npe_mmd2": th.metrics.mmd2(draws, reference)}  # fmt: skip
            if seed == 0 and arm in SHOWN:
                row |= _densities(draws, reference, (exact.mean, exact.sd))
            out.append(row)
    return out


def _densities(draws: Array, reference: Array, place: tuple[float, float]) -> dict[str, list[float]]:
    grid = np.linspace(place[0] - 6 * place[1], place[0] + 6 * place[1], 40)
    curves = [density(d[:, 0], np.full(len(d), 1 / len(d)), grid) for d in (draws, reference)]
    return {"grid": list(grid), "density": list(curves[0]), "true_density": list(curves[1])}


def text(record: Record) -> str:
    first = record["values"][0]
    head = ["proposal", "saved", *(f"{m} {t:.0f}" for m in ("ABC MMD²", "ABC effective", "NPE MMD²") for t in TRUTHS)]
    body = []
    for arm in ARMS:
        cells = [
            mean_sd(column(pick(record, arm=arm, truth=t), name), digits)
            for name, digits in (("abc_mmd2", 3), ("abc_ess", 0), ("npe_mmd2", 3))
            for t in TRUTHS
        ]
        saved = mean_sd(1 - column(pick(record, arm=arm, truth=TRUTHS[0]), "cost"), percent=True)
        body.append([arm, "" if arm == "k=0" else saved, *cells])
    return "\n\n".join([
        f"Gamma at θ = 250 (cheap), 500 and 750 (dear), {record['seeds']} runs, ABC n = {first['n_abc']:,}, NPE n ="
        f" {first['n_npe']:,}. The paper reports its mixture at {PAPER_SAVED['paper mixture']} saved, better accuracy"
        " with k in the cheap region and worse in the dear one; its text says that k = 2 takes less than half the time"
        f" of the prior, its Table 1 (cost ratio {PAPER[2][2]:g}) says {100 / PAPER[2][2]:.0f}%.",
        table(head, body),
    ])  # fmt: skip


def draw(record: Record, path: Path) -> None:
    figure, axes = new(11, 5.4, rows=2, columns=4)
    n = np.array([0, record["values"][0]["n_abc"]])
    for i, arm in enumerate(ARMS):
        cost = column(pick(record, arm=arm), "cost").mean()
        axes[0, 0].plot(n, n * cost, color=COLOURS[i], label=arm, linestyle="--" if "balance" in arm else "-")
        for j, truth in enumerate(TRUTHS):
            rows = pick(record, arm=arm, truth=truth)
            mark = "D" if "mixture" in arm else "o"
            for name, fill in (("abc_mmd2", COLOURS[i]), ("npe_mmd2", "none")):
                axes[0, j + 1].plot(column(rows, "cost"), np.sqrt(np.maximum(column(rows, name), 0)), mark,
                                    color=COLOURS[i], markerfacecolor=fill, markersize=5)  # fmt: skip
    labels(axes[0, 0], "n", "cost, in plain runs", "cost against n")
    for j, truth in enumerate(TRUTHS):
        labels(axes[0, j + 1], "cost relative to the prior", "MMD" if j == 0 else "",
               f"θ = {truth:.0f}: ABC full, NPE hollow")  # fmt: skip
        for arm in SHOWN:
            row = next(v for v in pick(record, arm=arm, truth=truth) if "grid" in v)
            axes[1, j + 1].plot(row["grid"], row["density"], color=COLOURS[ARMS.index(arm)], label=arm)
        axes[1, j + 1].plot(row["grid"], row["true_density"], "k--", label="true posterior")
        labels(axes[1, j + 1], "θ", "density" if j == 0 else "", "NPE posteriors, first run")
    truth_line = axes[1, 1].get_lines()[-1]
    axes[1, 0].legend(handles=[*axes[0, 0].get_lines(), truth_line], loc="center", frameon=False, fontsize=9)
    axes[1, 0].axis("off")
    save(figure, path)


STUDY = Study("gamma_figure", tasks, work, text, draw)


def main(argv: list[str] | None = None) -> Record:
    """Run it."""
    return run_study(STUDY, __doc__, argv)


if __name__ == "__main__":
    main()
