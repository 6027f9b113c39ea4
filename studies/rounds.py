"""Rounds at the observation against amortised NPE, cost-blind rounds and sbi's sequential methods, at equal cost.

    python studies/rounds.py [--quick | --full] [--seeds N] [--workers W] [--out DIR] [--done]

Problems with known posteriors (`thrifty.benchmark`) in two halves: the settings of `th.Rounds` are chosen on the
development half (`rounds_development.py`), with seeds from 100, and frozen before the test half is run. The test half
showed faults four times: seed 0 (a stop after round 0 where that had used the share of round 1; a stop where crescents
still became thinner), seeds 1 to 5 (networks of NLE that had not learned thin likelihoods, and stops where the
posterior was still too wide), seed 6 (the same, less often), and seeds 11 to 15 (walkers that did not cross from one
crescent to the other, and thin likelihoods still). The remedies were chosen on the development half, to which an
8-parameter Gaussian and three thin posteriors were added, and on development seeds of `benchmarks/small_n.py`, and
frozen again; what the old code had run was discarded. Seeds of all arms that learn a likelihood begin at 21; rows of
other arms, which the frozen code repeats to the last digit, were kept (KEPT). Budgets are parts of the cost of 50,000
prior runs; a prior run costs 1 on average, and everything that an arm runs is paid from its budget.

    NLE rounds, NPE rounds        `th.Rounds` with its defaults, 1/20; NLE rounds also at 1/50
    NLE rounds, cost-blind        the same without a penalty
    NPE, equal cost               plain NPE on as many prior runs as the budget pays for
    NPE, 50,000                   plain NPE on 50,000 prior runs: 20 times the cost
    SMC-ABC, with NLE at the end  `th.SMCABC` with its defaults, 1/20; alone, and with `finish=th.NLE(prior)`
    sbi SNLE, TSNPE               sbi's defaults, four rounds of 2,500 runs in all, whatever they cost

Accuracy (`thrifty.benchmark.measure`): C2ST (0.5 is perfect), MMD² and widths of 1,000 draws against the exact
posterior. `--full` lists its tasks in an order in which any beginning covers all problems.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import Record, Study, Task, Value, column, main as run_study, pick, save, table
from rounds_development import find_problem, read_reference
from rounds_peers import plain_npe, run_peer

import thrifty as th
from thrifty.benchmark import PLACES, measure
from thrifty.plots.style import COLOURS, add_legend, make_figure, set_labels

# no setting was chosen on these; settings are chosen on those of `rounds_development.py`
TEST = ("epidemic_ode", "gaussian_10", "poisson_regression", "two_moons", "squares", "waiting", "shares", "useless")
WHOLE = 50_000  # prior runs whose cost is the unit of budgets
ARMS = {  # arm -> (class of the method, or how it is made; part of the whole cost)
    "NLE rounds": ("NLE", 20),
    "NLE rounds, cost-blind": ("NLE", 20),
    "NPE, equal cost": ("plain", 20),
    "NPE rounds": ("NPE", 20),
    "NLE rounds, 1/50": ("NLE", 50),
    "NPE, 50,000": ("plain", 1),
    "SMC-ABC": ("smc", 20),
    "SMC-ABC, NLE at the end": ("smc", 20),
    "sbi SNLE": ("snle", 20),
    "sbi TSNPE": ("tsnpe", 20),
}
NARROW_ONLY = ("NLE rounds, 1/50", "NPE, 50,000", "sbi SNLE", "sbi TSNPE")
PEER_ARMS = ("sbi SNLE", "sbi TSNPE")
ALL_SEEDS = 5  # of an arm; a cell of the table with fewer says so
NARROW = ("two_moons", "squares", "gaussian_10", "poisson_regression", "epidemic_ode")
WIDE = ("waiting", "shares", "useless")
FIRST_SEED = 21
KEPT = (  # arms, problems, seeds of an earlier code whose values the frozen one repeats
    (("NPE, equal cost",), TEST, (1, 2, 3, 4, 5)),
    (("NPE, 50,000", *PEER_ARMS), NARROW, (1,)),
    (("SMC-ABC",), TEST, (1, 2)),
    (("NPE rounds",), ("squares", "gaussian_10", "poisson_regression", "epidemic_ode", "useless"), (1, 2, 3)),
    (("NPE rounds",), ("two_moons", "waiting", "shares"), (11, 12, 13)),
)
SCHEDULE = (  # arms, problems, numbers of fresh seeds, in an order in which any beginning says most
    (("NLE rounds",), NARROW, (0, 1, 2)),
    (("NLE rounds",), WIDE, (0, 1, 2)),
    (("NLE rounds, cost-blind",), TEST, (0, 1, 2)),
    (("NLE rounds",), TEST, (3, 4)),
    (("NLE rounds, 1/50",), NARROW, (0, 1, 2)),
    (("SMC-ABC, NLE at the end",), TEST, (0, 1)),
    (("NPE rounds", "NLE rounds, cost-blind"), TEST, (3, 4)),
    (("NPE, 50,000", *PEER_ARMS), NARROW, (1,)),
)


def tasks(full: bool, seeds: int | None) -> list[Task]:
    """Every seed is at one place; the places of an arm follow one another. Plain NPE is one fit for all three."""
    if not full:
        fresh = [(arm, name, FIRST_SEED + i) for i in range(seeds or 1) for name in ("waiting", "squares")
                 for arm in ARMS if arm not in PEER_ARMS]  # fmt: skip
        return [_task(name, arm, seed, 10) for arm, name, seed in fresh if _is_asked(name, arm)]
    most = seeds or ALL_SEEDS
    out = [_task(name, arm, FIRST_SEED + i, 1) for arms, names, numbers in SCHEDULE for i in numbers if i < most
           for name in names for arm in arms if _is_asked(name, arm)]  # fmt: skip
    return out + [_task(name, arm, seed, 1) for arms, names, known in KEPT for seed in known for name in names
                  for arm in arms if _is_asked(name, arm)]  # fmt: skip


def _task(name: str, arm: str, seed: int, part: int) -> Task:
    place = "all" if ARMS[arm][0] == "plain" else list(PLACES)[seed % len(PLACES)]
    return {"problem": name, "arm": arm, "place": place, "part": part, "seed": seed}


def _is_asked(name: str, arm: str) -> bool:
    """Whether an arm is run on a problem: some only where the posterior is narrow."""
    return arm not in NARROW_ONLY or find_problem(name).narrow


def work(task: Task, folder: Path) -> list[Value]:
    del folder
    made, (kind, part) = find_problem(task["problem"]), ARMS[task["arm"]]
    budget, seed = WHOLE / part / task["part"], task["seed"]
    begin = time.process_time()
    more: dict[str, Any] = {}
    if kind == "plain":
        found = plain_npe(made, int(budget), seed)
        draws, cost, runs = found.draws, found.cost, found.runs
    elif task["arm"] in PEER_ARMS:
        found = run_peer(kind, made, task["place"], int(budget), seed)
        draws, cost, runs = found.draws, found.cost, found.runs
    else:
        study = _settings(task["arm"], made.prior).run(made, made.x_o(task["place"]), budget=budget, seed=seed)
        draws, cost, runs = {task["place"]: study.samples[:1_000]}, study.cost, len(study.simulations)
        more = {"stopped": study.stopped, "runs_of_round": [r.n for r in study.generations]}
        if kind != "smc":
            figures = {"volumes": "volume", "moved": "moved", "gain": "gain"}
            more |= {label: [getattr(r, name) for r in study.generations] for label, name in figures.items()}
    seconds = time.process_time() - begin
    return [
        {"at": place, "cost": cost, "runs": runs, "seconds": seconds, **more}
        | measure(drawn, read_reference(task["problem"], place), modes=made.modes).row()
        for place, drawn in draws.items()
    ]


def _settings(arm: str, prior: Any) -> Any:
    """The sequential method of an arm, with its defaults."""
    kind = ARMS[arm][0]
    if kind == "smc":
        return th.SMCABC(prior, finish=th.NLE(prior) if "NLE" in arm else None)
    method = getattr(th, kind)(prior)
    return th.Rounds(method, penalty=0.0) if "blind" in arm else th.Rounds(method)


def _mean(values: Sequence[Value], name: str) -> tuple[float, float]:
    """Mean over seeds and places, and its standard error by seeds: places of one seed are averaged first."""
    if not values:
        return np.nan, np.nan
    seeds = sorted({v["seed"] for v in values})
    each = np.array([column([v for v in values if v["seed"] == seed], name).mean() for seed in seeds])
    return float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else np.nan


def _cell(values: Sequence[Value], name: str, digits: int = 2) -> str:
    """Mean ± standard error over seeds, and how many seeds where they are fewer than ALL_SEEDS."""
    mean, error = _mean(values, name)
    if np.isnan(mean):
        return "–"
    seeds = len({v["seed"] for v in values})
    few = f" ({seeds})" if seeds < ALL_SEEDS else ""
    return f"{mean:.{digits}f}" + ("" if np.isnan(error) else f" ± {error:.{digits}f}") + few


def compare(record: Record, first: str, second: str, name: str, problems: Sequence[str]) -> tuple[float, float, int]:
    """Mean difference of two arms over problems, its standard error, and the number of posteriors of the first.

    Each posterior of the first arm is compared with the mean of the second at the same observation, over its seeds. The
    error of one problem is that of both arms over seeds; problems are independent.
    """
    gaps, errors, count = [], [], 0
    for one in problems:
        a, b = (pick(record, arm=arm, problem=one) for arm in (first, second))
        at = {place: [v[name] for v in b if v["at"] == place] for place in PLACES}
        each = [v[name] - np.mean(at[v["at"]]) for v in a if at[v["at"]]]
        if not each:
            continue
        spread = [value - np.mean(values) for values in at.values() for value in values]
        free = len(spread) - sum(1 for values in at.values() if values)
        other = np.square(spread).sum() / free / max(len({v["seed"] for v in b}), 1) if free > 0 else 0.0
        own = np.var(each, ddof=1) / len(each) if len(each) > 1 else np.nan  # one posterior has no error of its own
        gaps, errors, count = [*gaps, np.mean(each)], [*errors, own + other], count + len(each)
    if not gaps:
        return np.nan, np.nan, 0
    known = np.array(errors)[np.isfinite(errors)]
    error = np.sqrt(known.mean() / len(gaps)) if len(known) else np.nan  # problems with one posterior: as the others
    return float(np.mean(gaps)), float(error), count


def show_gap(mean: float, error: float) -> str:
    """`+0.013 ± 0.003`, without the error where it is unknown."""
    return "–" if np.isnan(mean) else f"{mean:+.3f}" + ("" if np.isnan(error) else f" ± {error:.3f}")


def text(record: Record) -> str:
    names = [name for name in TEST if any(v["problem"] == name for v in record["values"])]
    parts = [f"A number in brackets is that of the seeds, where a cell has fewer than {ALL_SEEDS}.\n"]
    for label, digits, title in (("c2st", 2, "C2ST"), ("mmd2", 3, "MMD²"), ("width", 2, "Width over the exact one")):
        body = [[arm, *(_cell(pick(record, arm=arm, problem=name), label, digits) for name in names)] for arm in ARMS]
        parts.append(f"**{title}**, mean over seeds and places ± standard error over seeds.\n")
        parts.append(table(["arm", *names], [row for row in body if set(row[1:]) != {"–"}]) + "\n")
    body = []
    for arm in ARMS:
        mine = pick(record, arm=arm)
        if mine:
            means = [f"{column(mine, key).mean():,.0f}" for key in ("runs", "cost", "seconds")]
            body.append([arm, str(len(mine)), *means, str(sum(v.get("stopped") == "settled" for v in mine))])
    head = ["arm", "posteriors", "runs", "cost", "CPU s", "stopped early"]
    parts.append("**What it took**, means, and how many stopped with the rest unspent.\n\n" + table(head, body) + "\n")
    parts.append(_judgement(record, names))
    return "\n".join(parts)


COMPARED = (  # kind of problem, first arm, second arm
    ("narrow", "NLE rounds", "NPE, 50,000"),
    ("narrow", "NLE rounds, 1/50", "NPE, 50,000"),
    ("narrow", "NLE rounds", "NPE, equal cost"),
    ("narrow", "NPE rounds", "NPE, equal cost"),
    ("wide", "NLE rounds", "NPE, equal cost"),
    ("wide", "NPE rounds", "NPE, equal cost"),
    ("narrow", "NLE rounds", "NLE rounds, cost-blind"),
    ("wide", "NLE rounds", "NLE rounds, cost-blind"),
    ("narrow", "NLE rounds", "SMC-ABC"),
    ("narrow", "SMC-ABC, NLE at the end", "SMC-ABC"),
    ("wide", "SMC-ABC, NLE at the end", "SMC-ABC"),
    ("narrow", "NLE rounds", "sbi SNLE"),
    ("narrow", "NPE rounds", "sbi TSNPE"),
)


def gap(record: Record, kind: str, first: str, second: str, label: str) -> tuple[float, float]:
    """Mean difference of two arms over narrow or wide problems, with its standard error."""
    names = [name for name in dict.fromkeys(v["problem"] for v in record["values"])
             if find_problem(name).narrow == (kind == "narrow")]  # fmt: skip
    mean, error, _ = compare(record, first, second, label, names)
    return mean, error


def _judgement(record: Record, names: Sequence[str]) -> str:
    """Differences between arms, and what the penalty changes problem by problem."""
    body = []
    for kind, first, second in COMPARED:
        found = [gap(record, kind, first, second, label) for label in ("c2st", "mmd2")]
        if not np.isnan(found[0][0]):
            body.append([kind, f"{first} − {second}", *(show_gap(d, e) for d, e in found)])
    head = ["problems", "difference (negative: the first is better)", "C2ST", "MMD²"]
    lines = [table(head, body) + "\n"]
    body = []
    for name in names:
        mean, error, count = compare(record, "NLE rounds", "NLE rounds, cost-blind", "c2st", [name])
        if count:
            blind = pick(record, arm="NLE rounds, cost-blind", problem=name)
            aware = [pick(record, arm="NLE rounds", problem=name, at=v["at"], seed=v["seed"]) for v in blind]
            pairs = [(mine[0]["runs"], v["runs"]) for mine, v in zip(aware, blind, strict=True) if mine]
            runs = np.sum(pairs, axis=0) if pairs else np.full(2, np.nan)
            body.append([name, show_gap(mean, error), f"{runs[0] / runs[1]:.2f}", str(count)])
    lines.append("**The penalty inside rounds**: NLE rounds with c^(1/4) beside NLE rounds without, at equal cost.\n")
    lines.append(table(["problem", "difference in C2ST", "ratio of runs", "posteriors"], body) + "\n")
    return "\n".join(lines)


def draw(record: Record, path: Path) -> None:
    names = [name for name in TEST if any(v["problem"] == name for v in record["values"])]
    figure, axes = make_figure(9.0, 4.2)
    axis = np.ravel(axes)[0]
    arms = [arm for arm in ARMS if pick(record, arm=arm)]
    for i, arm in enumerate(arms):
        found = [_mean(pick(record, arm=arm, problem=name), "c2st") for name in names]
        at = np.arange(len(names)) + 0.09 * (i - len(arms) / 2)
        axis.errorbar(at, [f[0] for f in found], [np.nan_to_num(f[1]) for f in found], ls="", ms=4, lw=1, label=arm,
                      color=COLOURS[i % len(COLOURS)], marker="os^Dv<>p"[i % 8])  # fmt: skip
    axis.axhline(0.5, color="0.7", lw=0.8)
    axis.set_xticks(np.arange(len(names)), [name.replace("_", "\n") for name in names], fontsize=8)
    set_labels(axis, "", "C2ST (0.5 is perfect)")
    add_legend(axis)
    save(figure, path)


STUDY = Study("rounds", tasks, work, text, draw)


def main(argv: Sequence[str] | None = None) -> Record:
    """Run the study."""
    return run_study(STUDY, __doc__, argv)


if __name__ == "__main__":
    main()
