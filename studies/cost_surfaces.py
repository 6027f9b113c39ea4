"""The cost of each bundled model over its prior, and the cost model fitted to 200 runs.

    python studies/cost_surfaces.py [--out docs/figures] [--measured]

Costs are operations, so the figures are the same on every machine; `--measured` draws CPU seconds instead. Temporal
SIR is drawn over (beta, gamma) on the grid of the paper's first figure (20 × 20, 50 runs each); the others along
one parameter at a time, the rest at the truth. Where many runs die out at once (temporal and homogeneous SIR) a
start-up of 50 and 1000 operations is added, as any simulator has one. Prints the range of cost and what
cost-awareness can save at most.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import thrifty as th

SEED = 0
PILOT = 200  # the paper's number of timed runs
DATA, FIT, DOTS = "#1b6ca8", "#d1495b", "#9fb8c8"


def mean_cost(model: th.models.Model, thetas: np.ndarray, runs: int, *, measured: bool) -> np.ndarray:
    """Mean cost over `runs` runs at each row."""
    repeated = np.repeat(thetas, runs, axis=0)
    sims = model.simulate_many(repeated, SEED + 1, measured=measured)
    return sims.cost.reshape(len(thetas), runs).mean(1)


def pilot(model: th.models.Model, *, measured: bool) -> tuple[th.Simulations, th.FittedCost]:
    thetas = model.prior.sample(PILOT, np.random.default_rng(SEED))
    sims = model.simulate_many(thetas, SEED, measured=measured)
    return sims, th.fit_cost(sims.theta, sims.cost, unit=sims.unit)


def temporal(model: th.models.TemporalSIR, out: Path, *, measured: bool) -> None:
    axis = np.linspace(0.1, 1.0, 20)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    truth = mean_cost(model, grid, 50, measured=measured).reshape(20, 20)
    fitted = pilot(model, measured=measured)[1](grid).reshape(20, 20)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
    top = truth.max()  # one scale; a fit above it shows as its top colour
    for ax, values, title in zip(axes, (truth, fitted), ("mean of 50 runs", f"fitted to {PILOT} runs"), strict=True):
        shown = ax.pcolormesh(axis, axis, values.T, vmin=0, vmax=top, cmap="viridis", shading="nearest")
        ax.plot([0.1, 1], [0.1, 1], color="white", linestyle="--", linewidth=1)
        ax.text(0.71, 0.77, "R₀ = 1", color="white", rotation=43, ha="center", va="center")
        ax.set(title=title, xlabel="infection rate beta", xlim=(0.1, 1), ylim=(0.1, 1))
        ax.set_aspect("equal")
    axes[0].set_ylabel("removal rate gamma")
    figure.colorbar(shown, ax=axes, extend="max", label="CPU seconds" if measured else f"events + {model.overhead:g}")
    figure.suptitle("Temporal SIR: what a run costs")
    save(figure, out / "cost_temporal_sir.png")


def along(ax: Axes, model: th.models.Model, which: int, runs: int, *, measured: bool) -> None:
    """Cost along one parameter, the others at the truth: mean of runs, fitted model and, where known, the formula."""
    low, high = (bound[which] for bound in model.prior.bounds)
    low, high = (-2.5, 2.5) if not np.isfinite(low) else (low, high)
    grid = np.tile(model.theta_true, (19, 1))
    grid[:, which] = np.linspace(low, high, 19)
    sims, fitted = pilot(model, measured=measured)
    if model.dim == 1 or isinstance(model, th.models.Radio):  # only where the other parameters do not move the cost
        ax.plot(sims.theta[:, which], sims.cost, ".", color=DOTS, markersize=3, label=f"{PILOT} single runs")
    mean = mean_cost(model, grid, runs, measured=measured)
    ax.plot(grid[:, which], mean, "o", color=DATA, markersize=4, label=f"mean of {runs} runs")
    ax.plot(grid[:, which], fitted(grid), color=FIT, label="fitted cost model")
    if hasattr(model, "expected_cost") and not measured:
        ax.plot(grid[:, which], model.expected_cost(grid), "k--", linewidth=0.8, label="formula")
    ax.set(xlabel=model.names[which], ylabel="CPU seconds" if measured else "operations")
    ax.ticklabel_format(style="sci", axis="both", scilimits=(-3, 4))
    ax.set_ylim(bottom=0, top=1.35 * mean.max())
    ax.legend(frameon=False, fontsize=7)


def one_dimensional(models: dict[str, th.models.Model], out: Path, *, measured: bool) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
    cases = (("Gamma", 0, 20), ("HomogeneousSIR", 0, 50), ("Radio", 2, 4), ("GaussianToy", 0, 20))
    for ax, (name, which, runs) in zip(axes.flat, cases, strict=True):
        along(ax, models[name], which, runs, measured=measured)
        ax.set_title(name)
    save(figure, out / "cost_one_dimensional.png")


def bernoulli(model: th.models.BernoulliSIR, out: Path, *, measured: bool) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharey=True)
    for which, ax in enumerate(axes):
        along(ax, model, which, 20, measured=measured)
        ax.set_title(f"others at {model.theta_true[0]:g}")
    figure.suptitle("Bernoulli SIR, N = 1000")
    save(figure, out / "cost_bernoulli_sir.png")


def save(figure: plt.Figure, path: Path) -> None:
    figure.savefig(path, dpi=100)
    plt.close(figure)
    print(f"{path}  {path.stat().st_size / 1e3:.0f} kB")


def table(models: dict[str, th.models.Model], *, measured: bool) -> None:
    """What can be saved, from the mean cost where it is known and the fitted one elsewhere."""
    print(f"{'model':16}{'mean cost':>12}{'range':>9}{'held-out R²':>13}{'ceiling':>9}{'saved at most':>15}")
    for name, model in models.items():
        _, fitted = pilot(model, measured=measured)
        cost = getattr(model, "expected_cost", fitted) if not measured else fitted
        plan = th.tradeoff(model.prior, cost, seed=SEED)
        print(
            f"{name:16}{plan.prior_cost:12.4g}{plan.cost_range:9.3g}{fitted.score:13.3f}"
            f"{plan.ceiling:9.3f}{1 - 1 / plan.ceiling:15.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    parser.add_argument("--measured", action="store_true", help="CPU seconds of this machine instead of operations")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names = ("Gamma", "HomogeneousSIR", "TemporalSIR", "BernoulliSIR", "Radio", "GaussianToy")
    overhead = {"TemporalSIR": 50.0, "HomogeneousSIR": 1000.0}  # a start-up: no run of a real simulator is free
    models = {name: getattr(th.models, name)(overhead=overhead.get(name, 0.0)) for name in names}
    for model in models.values():
        model.simulate(model.theta_true, np.random.default_rng(SEED))  # compiled before any clock starts
    temporal(models["TemporalSIR"], options.out, measured=options.measured)
    one_dimensional(models, options.out, measured=options.measured)
    bernoulli(models["BernoulliSIR"], options.out, measured=options.measured)
    table(models, measured=options.measured)


if __name__ == "__main__":
    main()
