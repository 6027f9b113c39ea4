"""CG×ESS of the SIR and radio models against exact values, and why two rows of the paper cannot be right.

    python studies/products.py [--quick | --full] [--seeds N] [--workers W] [--out DIR]

Exact: the mean of many runs on a grid, interpolated on the log scale, is taken as the cost; CG, ESS and their product
are integrals over the prior. Fitted: the same for cost models learned from 200 single runs (one per seed), with the
saving that such a proposal really makes on the exact surface. CG×ESS at k = 1 is 1 for *every* cost; 0.56 and 0.84
need a fault; one is shown that comes near these rows up to k = 1: acceptance cut at 1 because the floor is too high.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from common import Record, Study, Task, Value, column, main as run_study, mean_sd, pick, save, table
from epidemics import LEAST, PILOT, SHOWN, fit, model_of, observations
from scipy.interpolate import RegularGridInterpolator
from scipy.optimize import brentq

import thrifty as th
from thrifty.closed_form import ess_fraction, gain
from thrifty.plots.style import COLOURS, add_legend, make_figure, set_labels
from thrifty.types import Array

POWERS = (0.25, 0.5, 0.75, 1, 1.5, 2)
PAPER = {  # appendix, table of CG×ESS for the epidemiology models
    "HomogeneousSIR": (1.04, 1.06, 1.04, 0.99, 0.81, 0.53),
    "TemporalSIR": (0.93, 0.87, 0.73, 0.56, 0.26, 0.14),
    "BernoulliSIR": (1.09, 1.07, 0.95, 0.84, 0.50, 0.23),
}
PAPER_COST = {  # appendix, table of g_min and g_max at g(z) = z, in seconds
    "HomogeneousSIR": (0.0225, 0.6288),
    "TemporalSIR": (0.0087, 0.1056),
    "BernoulliSIR": (0.0143, 0.8447),
}
PAPER_G = {  # the whole of that table: g_min and g_max at z^½, z, z²
    "HomogeneousSIR": (0.1498, 0.7929, 0.0225, 0.6288, 0.0005, 0.3953),
    "TemporalSIR": (0.0930, 0.3250, 0.0087, 0.1056, 0.0001, 0.0112),
    "BernoulliSIR": (0.1197, 0.9190, 0.0143, 0.8447, 0.0002, 0.7134),
}
PAPER_SAVED = {"HomogeneousSIR": (16, 38, 70), "TemporalSIR": (36, 65, 85), "BernoulliSIR": (23, 37, 47)}  # Table 2
PAPER_RADIO = {0.5: 1.06, 1: 1.0, 2: 0.60, 3: 0.22}  # appendix, CG×ESS of the radio model
PAPER_RADIO_G = (1.7, 139.2)  # g_min and g_max at g(z) = z²
GRID = {"HomogeneousSIR": 50, "TemporalSIR": 25, "BernoulliSIR": 8}
CHEAPEST = {"TemporalSIR": (0.1, 1.0), "BernoulliSIR": (0.1, 1.0, 0.1)}
FITTED = {"TemporalSIR": "runs", "BernoulliSIR": "values of the published code's mean number of contacts"}
MANY = 200_000


def tasks(full: bool, seeds: int | None) -> list[Task]:
    runs = {"HomogeneousSIR": 200, "TemporalSIR": 100, "BernoulliSIR": 6} if full else dict.fromkeys(GRID, 4)
    count = seeds or (20 if full else 2)
    once = [{"model": name, "runs": r, "seed": -1} for name, r in runs.items()]
    fits = [{"model": name, "runs": r, "seed": s} for name, r in runs.items() for s in range(count)]
    return [*once, *fits]


def surface(name: str, runs: int, folder: Path) -> Callable[[Array], Array]:
    """Expected cost by interpolation of log mean cost between grid points; the grid is run once and kept."""
    model, points = model_of(name), GRID[name]
    axes = [np.linspace(low, high, points) for low, high in zip(*model.prior.bounds, strict=True)]
    path = folder / f"{name}-{runs}-{model.overhead:g}.npy"
    if not path.exists():
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, model.dim)
        cost = model.simulate_many(np.repeat(grid, runs, axis=0), 5).cost.reshape(-1, runs).mean(1)
        temporary = path.with_suffix(f".{os.getpid()}.npy")
        np.save(temporary, cost.reshape([points] * model.dim))
        temporary.replace(path)
    return partial(_interpolated, RegularGridInterpolator(axes, np.log(np.load(path))))


def _interpolated(log_cost: RegularGridInterpolator, theta: Array) -> Array:
    return np.exp(log_cost(theta))


def work(task: Task, folder: Path) -> list[Value]:
    name = task["model"]
    exact = surface(name, task["runs"], folder)
    model = model_of(name)
    theta = model.prior.sample(MANY, np.random.default_rng(4))
    c = exact(theta)
    if task["seed"] >= 0:
        return _fitted(model, c, theta, task["seed"])
    out = [{"kind": "exact", **figures(c, c, k)} for k in (*POWERS, 3)]
    out.append({"kind": "ends", "low": float(c.min()), "high": float(c.max())})
    clock = _clock(model)
    bare = c - model.overhead
    out += [_start_up(bare, share * bare.mean(), "") for share in (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)]
    out += [_start_up(bare, model.overhead, "taken here"), _start_up(bare, clock["start_up"], "compiled, measured")]
    out.append(_shares(model, c, theta))
    if name in CHEAPEST:
        out += _faulty(name, c - model.overhead, theta)
        out.append(_raw_process(model, c - model.overhead, theta))
    return [*out, clock, _observed(model)]


def _observed(model: th.models.Model) -> Value:
    """Sizes of the outbreaks that the SIR studies observe, among 2,000 at the truth."""
    at_truth = model.simulate_many(np.tile(model.theta_true, (2_000, 1)), 12).x[:, 0]
    low = model.population * LEAST
    return {"kind": "observed", "sizes": [float(x[0]) for x in observations(model)], "least": low,
            "passing": float((at_truth >= low).mean()),
            "large": float(np.quantile(at_truth[at_truth >= low], 0.9))}  # fmt: skip


def figures(c: Array, believed: Array, k: float) -> dict[str, float]:
    """CG of the true cost c, ESS and product when the proposal is made from `believed`, over prior draws."""
    g = believed**k
    gains = c.mean() * (1 / g).mean() / (c / g).mean(), believed.mean() * (1 / g).mean() / (believed / g).mean()
    ess = 1 / (g.mean() * (1 / g).mean())
    return {"k": k, "gain": gains[0], "ess": ess, "product": gains[1] * ess, "saved": 1 - 1 / gains[0]}


def _fitted(model: th.models.Model, c: Array, theta: Array, seed: int) -> list[Value]:
    """Learned from 200 single runs: the product by its own lights, and what it really saves."""
    sims = model.simulate_many(model.prior.sample(PILOT, np.random.default_rng([seed, 1])), 1_000 * (seed + 1))
    cost = fit(sims)
    believed = cost(theta)
    return [{"kind": "fitted", "score": cost.score, **figures(c, believed, k)} for k in POWERS]


def _start_up(bare: Array, start: float, what: str) -> Value:
    """Saved at k = ½, 1, 2 when every run costs `start` more than its operations."""
    c = bare + start
    low, high = np.quantile(c, [0.001, 0.999])
    return {"kind": "start-up", "what": what, "share": start / bare.mean(), "range": high / low,
            "saved": [figures(c, c, k)["saved"] for k in (0.5, 1, 2)]}  # fmt: skip


def _shares(model: th.models.Model, c: Array, theta: Array) -> Value:
    """How much of the variation of log cost each parameter explains alone (20 bins)."""
    y, out = np.log(c), []
    for column_ in theta.T:
        bins = np.clip((20 * (column_ - column_.min()) / np.ptp(column_)).astype(int), 0, 19)
        means = np.array([y[bins == b].mean() for b in range(20)])
        out.append(float(means[bins].var() / y.var()))
    return {"kind": "shares", "names": list(model.names), "explained": out, "range": float(c.max() / c.min())}


def published_cost(name: str, bare: Array, theta: Array) -> Array:
    """The cost that the published code would have, with the start-up that gives the paper's range.

    Its Bernoulli model also draws contacts with people who are no longer susceptible: each infective makes about
    theta_1 theta_3 N / theta_2 of them, which is then what cost is.
    """
    low, high = PAPER_COST[name]
    c = contacts(theta) if name == "BernoulliSIR" else bare
    ends = float(c.min()), float(c.max())
    r = high / low
    return c + max((ends[1] - r * ends[0]) / (r - 1), 0.0)


def contacts(theta: Array) -> Array:
    """Contacts of an infective in Bernoulli SIR, in units of N."""
    return theta[:, 0] * theta[:, 2] / theta[:, 1]


def floored(c: Array, low: float, k: float) -> tuple[float, float]:
    """CG×ESS and share saved when acceptance is cut at 1 below the floor but weights are c^k all the same."""
    g = c**k
    a = np.minimum(1.0, low**k / g)
    product = c.mean() * (a * g).mean() ** 2 / ((a * c).mean() * (a * g * g).mean())
    return float(product), float(1 - (a * c).mean() / (a.mean() * c.mean()))


def _faulty(name: str, bare: Array, theta: Array) -> list[Value]:
    """The floor that gives the paper's product at k = 1, and the row that goes with it."""
    c = published_cost(name, bare, theta)
    wanted = PAPER[name][POWERS.index(1)]
    level = brentq(lambda q: floored(c, float(np.quantile(c, q)), 1)[0] - wanted, 0.01, 0.999)
    low = float(np.quantile(c, level))
    both = {k: floored(c, low, k) for k in POWERS}
    rows = [{"kind": "floor", "k": k, "product": p, "saved": s, "level": level} for k, (p, s) in both.items()]
    return rows + [{"kind": "published", **figures(c, c, k)} for k in POWERS]


def _raw_process(model: th.models.Model, bare: Array, theta: Array) -> Value:
    """A Gaussian process on the costs themselves (not their logs), its floor read at the cheapest corner."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    name = type(model).__name__
    published = published_cost(name, bare, theta)
    start = float(np.median(published - (bare if name == "TemporalSIR" else contacts(theta))))
    below, negative = [], []
    for seed in range(5):
        rows = model.prior.sample(PILOT, np.random.default_rng([seed, 1]))
        timed = model.simulate_many(rows, 1_000 * (seed + 1)).cost - model.overhead
        cost = (timed if name == "TemporalSIR" else contacts(rows)) + start
        kernel = ConstantKernel() * RBF([0.3] * model.dim) + WhiteKernel()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            process = GaussianProcessRegressor(kernel, normalize_y=True).fit(rows, cost)
        predicted = process.predict(theta[:20_000])
        floor = float(process.predict([CHEAPEST[name]])[0])
        below.append(float((predicted < floor).mean()))
        negative.append(float((predicted < 0).mean()))
    return {"kind": "raw", "below": below, "negative": negative}


def _clock(model: th.models.Model) -> Value:
    """Start-up of the compiled kernel in operations: CPU seconds of single runs against their operations."""
    theta = model.prior.sample(800, np.random.default_rng(8))
    seconds, operations = (model.simulate_many(theta, 8, measured=m).cost for m in (True, False))
    design = np.column_stack([np.ones(len(theta)), operations - model.overhead]) / seconds[:, None]
    offset, slope = np.linalg.lstsq(design, np.ones(len(theta)), rcond=None)[0]
    believed = offset / slope
    return {"kind": "clock", "start_up": believed, "mean": float((operations - model.overhead).mean())}


def text(record: Record) -> str:
    return "\n\n".join([_products(record), _faults(record), _surfaces(record), _ends(record), _radio()])


def _products(record: Record) -> str:
    body = []
    for name in GRID:
        body.append([SHOWN[name], "paper", *(f"{v:.2f}" for v in PAPER[name])])
        rows = [pick(record, model=name, kind="exact", k=k)[0] for k in POWERS]
        body.append(["", "exact", *(f"{v['product']:.2f}" for v in rows)])
        fits = [column(pick(record, model=name, kind="fitted", k=k), "product") for k in POWERS]
        body.append(["", "fitted to 200 runs", *(mean_sd(v) for v in fits)])
    pilots = len(pick(record, model="TemporalSIR", kind="fitted", k=1))
    return f"CG×ESS, {pilots} pilots of 200 runs.\n\n" + table(
        ["model", "", *(f"k = {k:g}" for k in POWERS)], body, keys=2
    )


def _faults(record: Record) -> str:
    body, notes = [], []
    for name in CHEAPEST:
        rows = pick(record, model=name, kind="floor")
        body.append([SHOWN[name], "paper", *(f"{v:.2f}" for v in PAPER[name])])
        right = pick(record, model=name, kind="published")
        body.append(["", "its cost, sampled right", *(f"{v['product']:.2f}" for v in right)])
        body.append(["", "its cost, floor too high", *(f"{v['product']:.2f}" for v in rows)])
        raw = pick(record, model=name, kind="raw")[0]
        notes.append(
            f"{SHOWN[name]}: the floor that gives the paper's figure at k = 1 lies above {100 * rows[0]['level']:.0f}%"
            f" of the costs; a Gaussian process on the costs themselves, fitted to 200 {FITTED[name]}, predicts less"
            f" than its floor at the cheapest corner on {mean_sd(raw['below'], percent=True)} of the prior, and"
            f" negative costs on {mean_sd(raw['negative'], percent=True)} (5 pilots). Saved for k = ½/1/2 under that"
            f" floor: {_saved(rows)}%; sampled right: {_saved(right)}%; the paper's Table 2:"
            f" {'/'.join(map(str, PAPER_SAVED[name]))}%."
        )
    return (
        "Why 0.56 and 0.84 cannot be right: with g(z) = z the product is E[c] / (E[c/c] E[c]) = 1 for every cost, as"
        " long as the c of the gain is the c of the weights. With the true cost in the gain and a fitted one in the"
        f" weights it is {_mixed(record, 'TemporalSIR')} over our pilots of temporal SIR and"
        f" {_mixed(record, 'BernoulliSIR')} of Bernoulli SIR, which does not explain them either. If"
        " acceptance g_min/g is cut at 1 because g_min was read at a corner that is not the cheapest prediction, draws"
        " below the floor are too many while weights stay as they were, and the identity breaks. With one number, the"
        " floor, set from k = 1:\n\n"
        + table(["model", "", *(f"k = {k:g}" for k in POWERS)], body, keys=2)
        + "\n\n"
        + "\n\n".join(notes)
        + f"\n\nUp to k = 1 the floor comes within {_gap(record, low=True):.2f} of these rows, above it misses by up to"
        f" {_gap(record, low=False):.2f}; the process shows such a fault for temporal SIR in part. For Bernoulli SIR it"
        " shows none, but is fitted there to noise-free values of a formula, which proves little. Which fault the"
        " published runs had cannot be known from here."
        " The time saved of temporal SIR neither a right nor a floored proposal gives at the paper's own range."
    )


def _mixed(record: Record, name: str) -> str:
    """Range over pilots of CG×ESS at k = 1 with the true cost in CG and the fitted one in the weights."""
    rows = pick(record, model=name, kind="fitted", k=1)
    product = column(rows, "gain") * column(rows, "ess")
    return f"{product.min():.2f} to {product.max():.2f}"


def _gap(record: Record, *, low: bool) -> float:
    """Largest difference between the paper's products and the floor's, for k up to 1 or above."""
    return max(
        abs(v["product"] - PAPER[name][POWERS.index(v["k"])])
        for name in CHEAPEST
        for v in pick(record, model=name, kind="floor")
        if (v["k"] <= 1) == low
    )


def _saved(rows: list[Value]) -> str:
    return "/".join(f"{100 * v['saved']:.0f}" for v in rows if v["k"] in (0.5, 1, 2))


def _surfaces(record: Record) -> str:
    body = []
    for name in GRID:
        paper = "/".join(f"{v}" for v in PAPER_SAVED[name])
        low, high = PAPER_COST[name]
        body.append([SHOWN[name], "paper (Table 2)", f"{high / low:.0f}×", paper])
        for row in pick(record, model=name, kind="start-up"):
            shown = "/".join(f"{100 * v:.0f}" for v in row["saved"])
            what = f", {row['what']}" if row.get("what") else ""
            body.append(["", f"start-up {row['share']:.2g} × mean run{what}", f"{row['range']:.3g}×", shown])
    bern = pick(record, model="BernoulliSIR", kind="shares")[0]
    explained = ", ".join(f"{n} {100 * v:.0f}%" for n, v in zip(bern["names"], bern["explained"], strict=True))
    published = _saved(pick(record, model="BernoulliSIR", kind="published"))
    return (
        "Time saved at equal n for k = ½/1/2 (in %) as a function of the start-up of a run, on the exact surface:\n\n"
        + table(["model", "", "cost range (ours: 0.1 to 99.9 % of the prior)", "saved"], body)
        + f"\n\nBernoulli SIR: share of the variation of log cost explained by one parameter alone: {explained}; range"
        f" {bern['range']:.1f}×. On the right graph cost is nearly a function of the edge probability, so that"
        " less can be saved. If contacts with people who are no longer susceptible are drawn too, as in the published"
        f" code, the exact saving is {published}%."
    )


def _ends(record: Record) -> str:
    """g_min and g_max: the paper's in seconds, ours in operations; what compares is their ratio."""
    body = []
    for name in GRID:
        ends = pick(record, model=name, kind="ends")
        for i, k in enumerate((0.5, 1, 2)):
            low, high = PAPER_G[name][2 * i : 2 * i + 2]
            ours = [f"{v:.3g}" for v in (ends[0]["low"] ** k, ends[0]["high"] ** k)] if ends else ["–", "–"]
            ratio = f"{(ends[0]['high'] / ends[0]['low']) ** k:.3g}×" if ends else "–"
            body.append([SHOWN[name] if not i else "", f"z^{k:g}", f"{low:g}", f"{high:g}", f"{high / low:.3g}×",
                         *ours, ratio])  # fmt: skip
    head = ["model", "g", "paper g_min", "paper g_max", "ratio", "ours g_min", "ours g_max", "ratio"]
    return (
        "g_min and g_max of the expected cost over the prior (the paper's in seconds, ours in operations):\n\n"
        + table(head, body)
    )


def _radio() -> str:
    """Linear cost with the paper's range, closed form."""
    r = float(np.sqrt(PAPER_RADIO_G[1] / PAPER_RADIO_G[0]))
    body = [["paper", *(f"{v:.2f}" for v in PAPER_RADIO.values())]]
    for label, ratio in ((f"closed form, its range {r:.1f}×", r), ("closed form, components only, 10×", 10.0)):
        body.append([label, *(f"{gain(1, ratio, k) * ess_fraction(1, ratio, k):.2f}" for k in PAPER_RADIO)])
    return "Radio: cost is linear in the arrival rate.\n\n" + table(
        ["CG×ESS", *(f"k = {k:g}" for k in PAPER_RADIO)], body
    )


def draw(record: Record, path: Path) -> None:
    figure, axes = make_figure(10.5, 3.4, columns=3)
    for ax, name in zip(axes[0], GRID, strict=True):
        exact = [pick(record, model=name, kind="exact", k=k)[0]["product"] for k in POWERS]
        fits = [column(pick(record, model=name, kind="fitted", k=k), "product") for k in POWERS]
        ax.axhline(1, color="#d9d9d9", linewidth=1)
        ax.plot(POWERS, exact, "-", color=COLOURS[0], label="exact")
        ax.errorbar(POWERS, [v.mean() for v in fits], [v.std() for v in fits], fmt="o", color=COLOURS[2],
                    markersize=4, label="fitted to 200 runs")  # fmt: skip
        ax.plot(POWERS, PAPER[name], "x", color=COLOURS[1], label="paper")
        if name in CHEAPEST:
            rows = pick(record, model=name, kind="floor")
            ax.plot(POWERS, [v["product"] for v in rows], "--", color=COLOURS[1], label="floor too high")
        ax.set_ylim(0, 1.7)
        set_labels(ax, "k", "CG×ESS", SHOWN[name])
    add_legend(axes[0, 1])
    save(figure, path)


STUDY = Study("products", tasks, work, text, draw)


def main(argv: list[str] | None = None) -> Record:
    """Run it."""
    return run_study(STUDY, __doc__, argv)


if __name__ == "__main__":
    main()
