"""The picture of the README: where runs are expensive, where thrifty draws, and what each penalty is worth.

python tools/readme_picture.py [docs/figures/overview.png]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt

import thrifty as th


def main(path: Path) -> None:
    model = th.models.TemporalSIR(overhead=50)  # starting a run costs as much as 50 events
    pilot = model.simulate_many(model.prior.sample(300, np.random.default_rng(1)), seed=1)
    cost = th.fit_cost(pilot.theta, pilot.cost, unit="events")
    proposal = th.CostAware(model.prior, cost, th.Power(0.5))
    table = th.tradeoff(model.prior, cost, powers=tuple(np.round(np.linspace(0, 2, 21), 2)))

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    axis = np.linspace(0.1, 1, 80)
    grid = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    surface = left.pcolormesh(
        axis, axis, cost(grid).reshape(80, 80), cmap="viridis", shading="gouraud", rasterized=True
    )
    figure.colorbar(surface, ax=left, label="expected cost [events]")
    left.set(title="1  learn what a run costs", xlabel="infection rate", ylabel="removal rate")

    draws = proposal.sample(1500, 0)
    middle.scatter(
        *draws.theta.T, s=4 * np.exp(draws.log_weights - draws.log_weights.mean()), c="tab:blue", alpha=0.6, lw=0
    )
    middle.set(title="2  draw cheap ones; dot size = weight", xlabel="infection rate", ylabel="removal rate")

    k = [row.k for row in table]
    right.plot(k, [row.saved for row in table], label="saved per run")
    right.plot(k, [row.ess_fraction for row in table], label="effective runs per run")
    right.plot(k, [row.product for row in table], label="effective runs per cost", lw=2.5)
    right.axhline(table.ceiling, color="grey", ls=":", lw=1)
    right.annotate("limit", (2, table.ceiling), ha="right", va="bottom", color="grey")
    right.axvline(0.5, color="grey", lw=0.8)
    right.annotate("√cost", (0.53, 0.03), color="grey")
    right.set(
        title="3  know the saving in advance", xlabel="penalty: cost to the power k", ylim=(0, 1.75 * table.ceiling)
    )
    right.legend(frameon=False, fontsize=9, loc="upper right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"wrote {path}; ceiling {table.ceiling:.2f}, {table.verdict()}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/overview.png"))
