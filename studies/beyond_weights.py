"""Beyond the paper (a): the same simulations under the paper's mixture weights and under balance weights.

    python studies/beyond_weights.py [--quick | --full] [--seeds N] [--workers W] [--out DIR]

GaussianToy, whose posterior is known: NPE on one set of runs from the mixture k = {0, 1, 2, 3}, weighted both ways and
judged at a cheap and an expensive observation. And without any run: effective draws per draw and per unit of cost of
both schemes for a log-uniform cost over 6, 10, 100 and 1000 times.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from common import Record, Study, Task, Value, column, main as run_study, mean_sd, pick, save, table

import thrifty as th
from thrifty.plots.style import COLOURS, add_legend, make_figure, set_labels

POWERS = (0, 1, 2, 3)
SLOPE = 0.6  # log cost per prior sd: a range of 40 over the central 99.8 % of the prior
PLACES = {"cheap": -2.0, "expensive": 2.0}
RANGES = (6, 10, 100, 1000)


def tasks(full: bool, seeds: int | None) -> list[Task]:
    return [{"n": 2_000 if full else 400, "seed": seed} for seed in range(seeds or (20 if full else 2))]


def work(task: Task, folder: Path) -> list[Value]:
    model, seed = th.models.GaussianToy(a=SLOPE), task["seed"]
    mixture = th.Mixture(model.prior, model.expected_cost, powers=POWERS, scheme="paper")
    paper = model.simulate_many(mixture.sample(task["n"], seed), seed)
    out = []
    for scheme, sims in (("paper", paper), ("balance", paper.reweighted(mixture.balanced.log_weight(paper.theta)))):
        posterior = th.NPE(model.prior, network=th.NSF()).fit(sims, seed=seed)
        for place, x in PLACES.items():
            exact = model.reference_posterior([x])
            draws = posterior.sample(1_000, [x], seed=seed)
            reference = exact.sample(2_000, np.random.default_rng([seed, 1]))
            error = (draws.mean() - float(exact.mean[0])) / float(exact.sd[0])
            near = np.abs(sims.x[:, 0] - x) < 0.25
            out.append({"scheme": scheme, "place": place, "mmd2": th.metrics.mmd2(draws, reference), "error": error,
                        "local": th.ess(sims.log_weights[near]) if near.any() else 0.0})  # fmt: skip
    return out


def schemes(r: float) -> tuple[float, float, float]:
    """ESS/n under paper's and balance weights, and how many times more effective draws per cost balance gives."""
    paper, balance = (mixture(r, scheme).ess_fraction for scheme in ("paper", "balance"))
    return paper, balance, balance / paper


def mixture(r: float, scheme: Any) -> th.Mixture:
    return th.Mixture(th.Uniform(0, 1), lambda t: r ** t[:, 0], powers=POWERS, scheme=scheme)


@cache
def realised(r: float, n: int, repeats: int = 50) -> float:
    """The same ratio from n draws weighed both ways, median of repeats: the heaviest draws are not among them."""
    paper, out = mixture(r, "paper"), []
    for seed in range(repeats):
        draws = paper.sample(n, seed)
        out.append(th.ess(paper.balanced.log_weight(draws.theta)) / th.ess(draws.log_weights))
    return float(np.median(out))


def _times(ratio: float) -> str:
    return f"{ratio:.1f}×" if ratio < 10 else f"{ratio:,.0f}×"


def text(record: Record) -> str:
    body = []
    for place, x in PLACES.items():
        for scheme in ("paper", "balance"):
            rows = pick(record, place=place, scheme=scheme)
            error = f"{np.sqrt(np.mean(column(rows, 'error') ** 2)):.3f}"
            mmd, local = mean_sd(column(rows, "mmd2"), 4), mean_sd(column(rows, "local"), 0)
            body.append([f"{place} (x = {x:g})", scheme, mmd, error, local])
    n = record["values"][0]["n"]
    free = [[f"{r}×", *(f"{v:.2g}" for v in schemes(r)[:2]), _times(schemes(r)[2]), _times(realised(r, n))]
            for r in RANGES]  # fmt: skip
    return "\n\n".join([
        f"Same runs, two weights: GaussianToy, mixture k = {{0, 1, 2, 3}}, n = {n:,},"
        f" {record['seeds']} seeds. Error: root mean square of the posterior mean's error, in posterior sd.",
        table(["observation", "weights", "MMD²", "error of the mean", "effective runs near x"], body),
        "Effective draws per draw over the whole prior, without a run (log-uniform cost). The limits are what many"
        f" draws come to; among {n:,} the draws with the largest weights are rarely met, so that the paper's ESS looks"
        " better than it is:",
        table(["cost range", "ESS/n paper, limit", "balance, limit", "ratio per cost, limit", f"among {n:,}"], free),
    ])  # fmt: skip


def draw(record: Record, path: Path) -> None:
    figure, axes = make_figure(8, 3.2, columns=2)
    for j, scheme in enumerate(("paper", "balance")):
        for i, place in enumerate(PLACES):
            y = column(pick(record, place=place, scheme=scheme), "mmd2")
            axes[0, 0].plot(np.full(len(y), i + 0.2 * j - 0.1), y, "o", color=COLOURS[j], alpha=0.6,
                            label=scheme if i == 0 else None)  # fmt: skip
        axes[0, 1].plot(RANGES, [schemes(r)[j] for r in RANGES], "o-", color=COLOURS[j], label=scheme)
    axes[0, 0].set_xticks([0, 1], list(PLACES))
    axes[0, 1].set_xscale("log")
    axes[0, 0].set_yscale("log")
    axes[0, 1].set_yscale("log")
    set_labels(axes[0, 0], "observation", "MMD² to the exact posterior", "same runs, two weights")
    set_labels(axes[0, 1], "cost range", "ESS/n", "effective draws per draw")
    for ax in axes[0]:
        add_legend(ax)
    save(figure, path)


STUDY = Study("beyond_weights", tasks, work, text, draw)


def main(argv: list[str] | None = None) -> Record:
    """Run it."""
    return run_study(STUDY, __doc__, argv)


if __name__ == "__main__":
    main()
