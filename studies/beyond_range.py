"""Beyond the paper (e): cost ranges of 10, 100 and 1000 times, where cost-awareness really pays.

    python studies/beyond_range.py [--quick | --full] [--seeds N] [--workers W] [--out DIR]

A family with known posterior: theta uniform on [0, 1], x = theta + noise, cost R^theta. At one budget, rejection ABC
under the prior, √c, k = 1 and the balance mixture {0, ½, 1, 2} estimates the posterior mean at a cheap, a medium and
an expensive observation; the mean square error over seeds, plain over arm, is how many times the budget plain sampling
would need for the same answer. Beside it the theory's figure over the whole prior, CG×ESS.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import Record, Study, Task, Value, column, main as run_study, pick, save, table

import thrifty as th
from thrifty.plots.style import COLOURS, add_legend, make_figure, set_labels

RANGES = (10, 100, 1000)
ARMS = ("plain", "√c", "k=1", "balance mixture")
PLACES = {"cheap": 0.15, "medium": 0.5, "expensive": 0.85}
NOISE, EPSILON = 0.1, 0.05  # sd of x given theta; half-width of the ABC window
PLAIN = 2_000  # plain runs that the budget pays for


def tasks(full: bool, seeds: int | None) -> list[Task]:
    """A seed is a batch of repetitions."""
    return [
        {"plain": PLAIN, "repeats": 50 if full else 20, "seed": seed} for seed in range(seeds or (8 if full else 2))
    ]


def proposals(r: float) -> dict[str, th.CostAware | th.Mixture]:
    prior, cost = th.Uniform(0, 1), lambda t: r ** t[:, 0]
    single = {name: th.CostAware(prior, cost, th.Power(k)) for name, k in (("plain", 0), ("√c", 0.5), ("k=1", 1.0))}
    return {**single, "balance mixture": th.Mixture(prior, cost, powers=(0, 0.5, 1, 2))}


_KEPT = {r: proposals(r) for r in RANGES}


def work(task: Task, folder: Path) -> list[Value]:
    """Squared errors of the posterior mean at equal budget: their sum, sum of squares and number."""
    truth, out = np.array([exact(x) for x in PLACES.values()]), []
    for r in RANGES:
        for arm in ARMS:
            found = [one_run(r, arm, task["plain"], [task["seed"], i]) for i in range(task["repeats"])]
            squares = (np.array([means for _, means in found]) - truth) ** 2
            sums = [[np.nansum(s), np.nansum(s**2), int(np.isfinite(s).sum())] for s in squares.T]
            runs = np.mean([n for n, _ in found])
            out.append({"range": r, "arm": arm, "runs": runs} | dict(zip(PLACES, sums, strict=True)))
    return out


def one_run(r: int, arm: str, plain: int, seed: list[int]) -> tuple[int, list[float]]:
    """Weighted means of theta over the runs within epsilon of each x_o, and the number of runs the budget paid for."""
    proposal, budget = _KEPT[r][arm], plain * (r - 1) / np.log(r)
    rng = np.random.default_rng([*seed, r, ARMS.index(arm)])
    draws = proposal.sample(int(1.3 * budget / proposal.expected_cost) + 100, rng)
    theta = draws.theta[:, 0]
    last = int(np.searchsorted(np.cumsum(float(r) ** theta), budget)) + 1  # the run that passes the budget is kept
    theta, w = theta[:last], np.exp(draws.log_weights[:last])
    x = theta + NOISE * rng.standard_normal(len(theta))
    near = [w * (np.abs(x - x_o) < EPSILON) for x_o in PLACES.values()]
    return len(theta), [float(v @ theta / v.sum()) if v.sum() > 0 else float("nan") for v in near]


def exact(x_o: float) -> float:
    """The ABC posterior mean, by quadrature: P(|x - x_o| < epsilon given theta) is a difference of normal integrals."""
    from scipy.stats import norm

    theta = np.linspace(0, 1, 20_001)
    hit = norm.cdf((x_o + EPSILON - theta) / NOISE) - norm.cdf((x_o - EPSILON - theta) / NOISE)
    return float(np.trapezoid(theta * hit, theta) / np.trapezoid(hit, theta))


def worth(record: Record, r: int, arm: str, place: str) -> tuple[float, float]:
    """Plain mean square error over the arm's, and its standard error."""
    means, relative = [], []
    for name in ("plain", arm):
        total, squares, n = np.sum([v[place] for v in pick(record, range=r, arm=name)], axis=0)
        means.append(total / n)
        relative.append(np.sqrt(max(squares / n - means[-1] ** 2, 0) / n) / means[-1])
    ratio = float(means[0] / means[1])
    return ratio, ratio * float(np.hypot(*relative))


def text(record: Record) -> str:
    body = []
    for r in RANGES:
        for arm in ARMS[1:]:
            proposal = _KEPT[r][arm]
            cells = [worth(record, r, arm, place) for place in PLACES]
            runs = column(pick(record, range=r, arm=arm), "runs").mean()
            product = f"{proposal.gain * proposal.ess_fraction:.2f}"
            shown = [f"{m:.2f} ± {s:.2f}" for m, s in cells]
            body.append([f"{r}×" if arm == "√c" else "", arm, f"{runs:,.0f}", product, *shown])
    head = ["cost range", "proposal", "runs", "CG×ESS", *(f"{place} (x = {x:g})" for place, x in PLACES.items())]
    return (
        f"How many times the budget plain sampling would need, by mean square error of the posterior mean;"
        f" budget of {PLAIN:,} plain runs, {record['seeds']} × {record['values'][0]['repeats']} repetitions.\n\n"
        + table(head, body)
        + "\n\n"
        + _summary(record)
    )


def _summary(record: Record) -> str:
    """What is gained over all places, and what is lost where runs are expensive: no proposal gives both."""
    expensive = [worth(record, r, arm, "expensive")[0] for r in RANGES for arm in ARMS[1:]]
    cheap = [worth(record, r, "√c", "cheap")[0] for r in RANGES]
    return (
        f"Cost-awareness pays where x_o is cheap (√c: {', '.join(f'{v:.1f}' for v in cheap)} times for ranges of"
        f" {', '.join(f'{r}' for r in RANGES)}) and over the prior as a whole (CG×ESS). Where x_o is itself"
        " expensive, fewer runs are near it, and plain sampling needs less:"
        f" {min(expensive):.2f} to {max(expensive):.2f} times over the arms."
    )


def draw(record: Record, path: Path) -> None:
    figure, axes = make_figure(9, 3.2, columns=3)
    for ax, r in zip(axes[0], RANGES, strict=True):
        for i, arm in enumerate(ARMS[1:]):
            points = [worth(record, r, arm, place) for place in PLACES]
            ax.errorbar(np.arange(3) + 0.12 * (i - 1), [m for m, _ in points], [s for _, s in points], fmt="o",
                        color=COLOURS[i], markersize=5, label=arm)  # fmt: skip
        ax.axhline(1, color="#d9d9d9", linewidth=1)
        ax.set_xticks(range(3), list(PLACES))
        ax.set_yscale("log")
        ax.set_ylim(0.2, 30)
        ax.set_yticks([0.3, 1, 3, 10, 30], ["0.3", "1", "3", "10", "30"])
        ax.minorticks_off()
        set_labels(ax, "observation", "budget of plain over arm" if r == RANGES[0] else "", f"cost range {r}×")
    add_legend(axes[0, 1])
    save(figure, path)


STUDY = Study("beyond_range", tasks, work, text, draw)


def main(argv: list[str] | None = None) -> Record:
    """Run it."""
    return run_study(STUDY, __doc__, argv)


if __name__ == "__main__":
    main()
