"""The paper's Gamma figure for ABC: MMD to the true posterior against simulation cost, and effective draws per cost.

    python studies/gamma_abc.py                      # n = 50,000, epsilon = 0.05, five runs: the paper's setting
    python studies/gamma_abc.py --n 5000 --runs 1    # a quick look
    python studies/gamma_abc.py --adjust local       # what regression adjustment makes of the same runs

For theta_true = 250, 500 and 750: rejection ABC on mean and sd of m = 500 draws under the prior, √c, k = 1, 2, 3 and
the mixture {0, 1, 2, 3}, the latter with balance weights and with the paper's weights *on the same runs*. The law of
a run is sampled with numpy's Gamma generator (the same law, a thousand times faster); cost is the bundled model's
expected count of operations, linear in theta. `--faithful` runs the bundled model itself, event by event.
The scale of the statistics is prior-weighted, so epsilon = 0.05 means 11.2 in the mean for every proposal.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
from common import paper_mmd2

import thrifty as th
from thrifty.inference.abc import ABCPosterior
from thrifty.types import Array

TRUTHS = (250.0, 500.0, 750.0)
POWERS = (0, 1, 2, 3)


def statistics(theta: Array, m: int, rng: np.random.Generator) -> Array:
    """Mean and sd of m Gamma(theta, 1) draws at each row (n, 2)."""
    out = np.empty((len(theta), 2))
    for i in range(0, len(theta), 1_000):
        sample = rng.standard_gamma(theta[i : i + 1_000], size=(len(theta[i : i + 1_000]), m))
        out[i : i + 1_000] = np.column_stack([sample.mean(1), sample.std(1, ddof=1)])
    return out


def tables(model: th.models.Gamma, n: int, seed: int, faithful: bool) -> dict[str, th.Simulations]:
    """One table of n runs per proposal; the two mixtures share their runs."""
    cost = model.expected_cost
    mixture = th.Mixture(model.prior, cost, powers=POWERS, scheme="paper")
    proposals: dict[str, th.CostAware | th.Mixture] = {
        f"k={k}": th.CostAware(model.prior, cost, th.Power(k)) for k in (0, 0.5, 1, 2, 3)
    }
    out = {}
    for i, (name, proposal) in enumerate({**proposals, "paper mixture": mixture}.items()):
        rng = np.random.default_rng([seed, i])
        draws = proposal.sample(n, rng)
        x = model.simulate_many(draws, seed + i).x if faithful else statistics(draws.theta, model.m, rng)
        out[name] = th.Simulations(theta=draws.theta, x=x, log_weights=draws.log_weights, cost=cost(draws.theta))
    runs = out["paper mixture"]
    out["balance mixture"] = runs.reweighted(mixture.balanced.log_weight(runs.theta))
    return out


def rows(method: th.ABC, n: int, *, runs: int, seed: int, faithful: bool) -> list[dict[str, float | str]]:
    """One row per run, truth and proposal."""
    out: list[dict[str, float | str]] = []
    for run in range(runs):
        made = tables(th.models.Gamma(), n, 1_000 * (run + 1) + seed, faithful)
        for truth in TRUTHS:
            model = th.models.Gamma(theta_true=truth)
            sample = model.observed_sample(seed + run)
            reference = model.reference_posterior(sample).sample(2_000, np.random.default_rng(run))
            x_o = np.array([sample.mean(), sample.std(ddof=1)])
            for name, table in made.items():
                cost = float(table.cost.sum())
                row: dict[str, float | str] = {"run": run, "truth": truth, "proposal": name, "cost": cost}
                out.append(row | judged(method.fit(table), x_o, reference, cost))
    return out


def judged(posterior: ABCPosterior, x_o: Array, reference: Array, cost: float) -> dict[str, float | str]:
    """Accuracy and effective draws at one observation; a strong penalty may leave nothing near an expensive one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", th.ThriftyWarning)  # few effective draws are what the table is about
            post = posterior.accepted(x_o)
    except th.ThriftyError:
        return {"mmd2": np.nan, "accepted": 0, "ess": 0.0, "ess_per_cost": 0.0, "mean": np.nan, "sd": np.nan}
    mmd = paper_mmd2(post.theta, reference, post.weights)
    return {"mmd2": mmd, "accepted": len(post), "ess": post.ess, "ess_per_cost": post.ess / cost,
            "mean": float(post.mean[0]), "sd": float(post.sd[0])}  # fmt: skip


def summary(table: list[dict[str, float | str]]) -> str:
    """Means over runs, relative to the prior's."""
    lines = [f"{'truth':>6} {'proposal':>16} {'cost':>7} {'MMD²':>8} {'± se':>7} {'ESS':>6} {'ESS/cost':>9}"]
    for truth in TRUTHS:
        base = [r for r in table if r["truth"] == truth and r["proposal"] == "k=0"]
        for name in dict.fromkeys(str(r["proposal"]) for r in table):
            mine = [r for r in table if r["truth"] == truth and r["proposal"] == name]
            cost = np.mean([r["cost"] for r in mine]) / np.mean([r["cost"] for r in base])
            mmd = np.array([r["mmd2"] for r in mine], dtype=float)
            gain = np.mean([r["ess_per_cost"] for r in mine]) / np.mean([r["ess_per_cost"] for r in base])
            se = np.nanstd(mmd, ddof=1) / np.sqrt(len(mmd)) if len(mmd) > 1 else float("nan")
            ess = np.mean([r["ess"] for r in mine])
            lines.append(
                f"{truth:>6.0f} {name:>16} {cost:>7.2f} {np.nanmean(mmd):>8.4f} {se:>7.4f} {ess:>6.0f} {gain:>9.2f}"
            )
    return "\n".join(lines)


def draw(table: list[dict[str, float | str]], path: Path) -> None:
    """The paper's panels (b)-(d): MMD against cost, one mark per run."""
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(str(r["proposal"]) for r in table))
    most = max(float(r["cost"]) for r in table)
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.6), sharey=True, layout="constrained")
    for axis, truth in zip(axes, TRUTHS, strict=True):
        for i, name in enumerate(names):
            mine = [r for r in table if r["truth"] == truth and r["proposal"] == name]
            mark = "D" if "mixture" in name else "o"
            cost = [float(r["cost"]) / most for r in mine]
            axis.plot(
                cost, [np.sqrt(max(float(r["mmd2"]), 0)) for r in mine], mark, color=f"C{i}", label=name, alpha=0.8
            )
        axis.set(title=f"theta = {truth:.0f}", xlabel="simulation cost, relative to the prior")
    axes[0].set_ylabel("MMD to the true posterior")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=50_000)
    parser.add_argument("--epsilon", type=float, default=0.05)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--adjust", choices=("none", "linear", "local"), default="none")
    parser.add_argument("--faithful", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/gamma_abc"))
    args = parser.parse_args()
    method = th.ABC(th.models.Gamma().prior, epsilon=args.epsilon, adjust=args.adjust)
    table = rows(method, args.n, runs=args.runs, seed=args.seed, faithful=args.faithful)
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "gamma_abc.csv").open("w", newline="") as handle:
        writer = csv.DictWriter(handle, fieldnames=list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    draw(table, args.out / "gamma_abc.png")
    print(summary(table))


if __name__ == "__main__":
    main()
