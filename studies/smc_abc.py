"""SMC-ABC on the temporal SIR: accuracy for a tenth of the cost, and what √c-penalised kernels save.

    python studies/smc_abc.py                       # four observations, three seeds each (ten for the saving)
    python studies/smc_abc.py --seeds 1 --saving 2  # a quick look
    python studies/smc_abc.py --cache runs/truth    # keep the exact posteriors (minutes for a large outbreak)

Reference: the exact posterior given the statistics (`thrifty.benchmark`). Compared with it by MMD² (V-statistic, so
that the Monte Carlo error of few draws counts; lengthscale the median distance of the reference): SMC-ABC with a tenth
of the cost of 50,000 prior runs, and rejection ABC on all of them, both plain and with local regression. Rejection is
shown as th.ABC comes, with the nearest 500, and as the best of nine (three distances, nearest 100, 200 or 500), chosen
knowing the answer. Observations are fixed by seeds: the first from seed 1000 on whose final size lies in the
range. Settings were tuned on two others (seeds 6 and 3: sizes 42 and 878).

Second line: cost per effective draw within one fixed distance (that of the nearest 500 of the 50,000), √c-penalised
kernels over plain ones, at the same budget, the cost learned from the runs. `--part 50` asks at a fiftieth, where the
search for a large outbreak takes most of the budget.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

import thrifty as th
from thrifty.benchmark.problems.temporal_likelihood import exact_draws
from thrifty.types import Array

OBSERVATIONS = {  # truth, range of the final size
    "small A": ((0.5, 0.5), (10, 100)),
    "small B": ((0.3, 0.6), (10, 100)),
    "large A": ((0.7, 0.3), (200, 1000)),
    "large B": ((0.6, 0.4), (200, 1000)),
}
PARTICLES = 50  # what 1,700 runs near a large outbreak can keep apart; --particles 200 is th.SMCABC's own
NEAREST = (100, 200, 500)


def observed(name: str) -> Array:
    """The first observation from seed 1000 on in the range."""
    theta, (low, high) = OBSERVATIONS[name]
    model = th.models.TemporalSIR(theta_true=theta)
    return next(x for x in (model.observed(seed) for seed in range(1_000, 2_000)) if low <= x[0] <= high)


def truth(name: str, prior_runs: th.Simulations, cache: Path | None) -> tuple[Array, float]:
    """Exact posterior draws and the error of their log-likelihood."""
    x_o = observed(name)
    kept = None if cache is None else cache / f"{name.replace(' ', '-')}.npz"
    if kept is not None and kept.exists():
        data = np.load(kept)
        return data["draws"][:4_000], float(data["error"])
    rough = th.ABC(quantile=0.005, adjust="local").fit(prior_runs).accepted(x_o).sample(500, seed=0)
    draws, error = exact_draws(x_o, rough, np.random.default_rng(7))
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez(kept, draws=draws, error=error)
    return draws, error


def gap(post: th.WeightedPosterior, reference: Array) -> float:
    """MMD² to the reference."""
    return float(th.metrics.mmd2(post.theta, reference, x_weights=post.weights))


def rejection(table: th.Simulations, x_o: Array, reference: Array, adjust: str) -> tuple[float, float]:
    """MMD² of th.ABC as it comes, and the smallest over distances and numbers of accepted runs."""
    prior = th.models.TemporalSIR().prior
    distances = (th.distances.Euclidean(), th.distances.Euclidean(table.x.std(0)), th.distances.Mahalanobis())
    rows = [
        [
            gap(th.ABC(prior, n_accept=k, distance=d, adjust=adjust).fit(table).accepted(x_o), reference)  # type: ignore[arg-type]
            for k in NEAREST
        ]
        for d in distances
    ]
    return rows[0][-1], min(min(row) for row in rows)


def accuracy(name: str, table: th.Simulations, reference: Array, *, particles: int, seeds: range) -> str:
    """One line per way of adjustment: rejection, and SMC-ABC at a tenth of the cost, every seed."""
    model, x_o, full = th.models.TemporalSIR(), observed(name), float(table.cost.sum())
    lines = []
    for adjust in ("none", "local"):
        plain, best = rejection(table, x_o, reference, adjust)
        studies = [
            th.SMCABC(model.prior, particles=particles, adjust=adjust).run(model, x_o, budget=full / 10, seed=seed)
            for seed in seeds
        ]
        found = np.array([gap(study.posterior, reference) for study in studies])
        cost = max(study.cost for study in studies) / full
        each = " ".join(f"{value:.3f}" for value in found)
        lines.append(
            f"  {name} (final size {x_o[0]:.0f}), adjust={adjust:<5}: rejection {plain:.3f}, best {best:.3f};"
            f" SMC {found.mean():.3f} ± {found.std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan:.3f}"
            f" ({each}), cost {cost:.4f}, {np.mean([len(s.simulations) for s in studies]):,.0f} runs"
        )
    return "\n".join(lines)


def saving(name: str, table: th.Simulations, seeds: range, part: float) -> Array:
    """Cost per effective draw near the observation, √c kernels over plain ones, one ratio per seed."""
    model, x_o, full = th.models.TemporalSIR(), observed(name), float(table.cost.sum())
    distance = th.distances.Euclidean(table.x.std(0))
    epsilon = float(np.sort(distance(table.x, x_o))[500])
    ratios = []
    for seed in seeds:
        each = []
        for power in (0.5, 0.0):
            method = th.SMCABC(model.prior, particles=PARTICLES, penalty=th.Power(power))
            study = method.run(model, x_o, budget=full / part, seed=seed)
            near = distance(study.simulations.x, x_o) <= epsilon
            each.append(study.cost / th.ess(study.simulations.log_weights[near]))
        ratios.append(each[0] / each[1])
    return np.array(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--saving", type=int, default=10)
    parser.add_argument("--part", type=float, default=10.0, help="the saving is asked at 1/part of the full cost")
    parser.add_argument("--particles", type=int, default=PARTICLES)
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--observations", nargs="*", default=list(OBSERVATIONS))
    args = parser.parse_args()
    warnings.simplefilter("ignore", th.ThriftyWarning)  # few effective draws are what the table is about
    model = th.models.TemporalSIR()
    table = model.simulate_many(model.prior.sample(50_000, np.random.default_rng(0)), 1)
    print("temporal SIR: MMD² to the exact posterior; SMC-ABC has a tenth of the cost of 50,000 prior runs")
    for name in args.observations:
        reference, error = truth(name, table, args.cache)
        rows = accuracy(name, table, reference, particles=args.particles, seeds=range(args.seeds))
        print(rows + f" (error of log L {error:.3f})", flush=True)
        if args.saving < 2:
            continue
        log = np.log(saving(name, table, range(args.saving), args.part))
        print(
            f"    cost per effective draw, √c kernels / plain kernels: {np.exp(log.mean()):.3f}"
            f" × / ÷ {np.exp(log.std(ddof=1) / np.sqrt(len(log))):.3f} over {len(log)} seeds",
            flush=True,
        )


if __name__ == "__main__":
    main()
