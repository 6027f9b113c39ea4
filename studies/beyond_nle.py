"""Beyond the paper (b): NLE with the paper's weights and without, on the same simulations.

    python studies/beyond_nle.py [--quick | --full] [--seeds N] [--workers W] [--out DIR]

The likelihood does not depend on how theta was drawn: a network that can represent it needs no weights, and weights
cost effective draws. GaussianToy, whose posterior is known; runs from k = 1 and k = 2; judged at a cheap, a medium
and an expensive observation.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import Record, Study, Task, Value, column, main as run_study, mean_sd, paired, pick, save, table

import thrifty as th
from thrifty.plots.style import COLOURS, add_legend, make_figure, set_labels

POWERS = (1, 2)
PLACES = {"cheap": -2.0, "medium": 0.0, "expensive": 2.0}


def tasks(full: bool, seeds: int | None) -> list[Task]:
    return [{"n": 1_000 if full else 300, "seed": seed} for seed in range(seeds or (20 if full else 3))]


def work(task: Task, folder: Path) -> list[Value]:
    model, seed, out = th.models.GaussianToy(a=0.8), task["seed"], []
    for k in POWERS:
        draws = th.CostAware(model.prior, model.expected_cost, th.Power(k)).sample(task["n"], seed)
        sims = model.simulate_many(draws, seed)
        for weighted in (True, False):
            posterior = th.NLE(model.prior, network=th.MAF(), weighted=weighted).fit(sims, seed=seed)
            for place, x in PLACES.items():
                exact = model.reference_posterior([x])
                sample = posterior.sample(1_000, [x], seed=seed)
                reference = exact.sample(2_000, np.random.default_rng([seed, 1]))
                error = (sample.mean() - float(exact.mean[0])) / float(exact.sd[0])
                out.append({"k": k, "weighted": weighted, "place": place, "error": error,
                            "mmd2": th.metrics.mmd2(sample, reference)})  # fmt: skip
    return out


def text(record: Record) -> str:
    body = []
    for k in POWERS:
        for weighted in (True, False):
            cells = []
            for place in PLACES:
                rows = pick(record, k=k, weighted=weighted, place=place)
                error = np.sqrt(np.mean(column(rows, "error") ** 2))
                cells += [mean_sd(column(rows, "mmd2"), 3), f"{error:.2f}"]
            body.append([f"{k}", "weighted (Ca-NLE)" if weighted else "unweighted", *cells])
    head = ["k", "loss", *(f"{place} {what}" for place in PLACES for what in ("MMD²", "error"))]
    return (
        f"NLE on the same runs, GaussianToy, n = {record['values'][0]['n']:,}, {record['seeds']} seeds. Error: root"
        " mean square of the posterior mean's error, in posterior sd.\n\n"
        + table(head, body, keys=2)
        + "\n\nChange of MMD² by leaving the weights out, same seeds (mean ± se): "
        + "; ".join(
            f"k = {k}: " + ", ".join(f"{place} {_change(record, k, place)}" for place in PLACES) for k in POWERS
        )
        + f". Both are consistent; {_larger(record)}."
    )


def _larger(record: Record) -> str:
    """At how many observations the error of the mean is larger with weights."""

    def error(k: int, weighted: bool, place: str) -> float:
        return float(np.mean(column(pick(record, k=k, weighted=weighted, place=place), "error") ** 2))

    counts = {k: sum(error(k, True, place) > error(k, False, place) for place in PLACES) for k in POWERS}
    return "the error of the mean is larger with weights at " + ", ".join(
        f"{count} of {len(PLACES)} observations for k = {k}" for k, count in counts.items()
    )


def _change(record: Record, k: int, place: str) -> str:
    without, with_ = (column(pick(record, k=k, weighted=w, place=place), "mmd2") for w in (False, True))
    return paired(without, with_, 4)


def draw(record: Record, path: Path) -> None:
    figure, axes = make_figure(7.5, 3.2, columns=2)
    for ax, k in zip(axes[0], POWERS, strict=True):
        for j, weighted in enumerate((True, False)):
            for i, place in enumerate(PLACES):
                y = column(pick(record, k=k, weighted=weighted, place=place), "mmd2")
                ax.plot(np.full(len(y), i + 0.2 * j - 0.1), y, "o", color=COLOURS[j], alpha=0.6,
                        label=("weighted" if weighted else "unweighted") if i == 0 else None)  # fmt: skip
        ax.set_xticks(range(len(PLACES)), list(PLACES))
        ax.set_yscale("log")
        ax.set_ylim(1e-4, 2)
        set_labels(ax, "observation", "MMD² to the exact posterior", f"NLE on runs from k = {k}")
    add_legend(axes[0, 0])
    save(figure, path)


STUDY = Study("beyond_nle", tasks, work, text, draw)


def main(argv: list[str] | None = None) -> Record:
    """Run it."""
    return run_study(STUDY, __doc__, argv)


if __name__ == "__main__":
    main()
