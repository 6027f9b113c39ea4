"""Write two sections of `docs/benchmarks.md`, and their figures, from records; every number there is theirs.

    python tools/benchmarks_page.py

The section on problems comes from `benchmarks/records/benchmark/records.jsonl` (made by `thrifty benchmark`), that on
real simulators from `benchmarks/records/equal_budgets.jsonl` (made by `benchmarks/equal_budgets.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from real_simulators_page import Lines, write_examples, write_table

from thrifty.benchmark import (
    METHODS,
    PLACES,
    PROBLEMS,
    Record,
    describe,
    find_problem,
    list_tasks,
    read_records,
)
from thrifty.benchmark.benchmark_summary import BASELINE, Ratio, compare_cost, curve
from thrifty.benchmark.records import pick
from thrifty.benchmark.roster import list_methods
from thrifty.benchmark.tasks import BUDGETS, SEEDS
from thrifty.plots.style import COLOURS, make_figure, set_labels, set_plain_ticks

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks" / "records" / "benchmark" / "records.jsonl"
EXAMPLES = ROOT / "benchmarks" / "records" / "equal_budgets.jsonl"
PAGE = ROOT / "docs" / "benchmarks.md"
FIGURES = ROOT / "docs" / "figures" / "benchmark"
DRAWN = {  # method -> (colour, marker) in the figures: the lines a reader compares first
    "npe": (COLOURS[0], "o"),
    "npe-aware": (COLOURS[1], "s"),
    "nle-aware": (COLOURS[2], "^"),
    "rounds-nle-aware": (COLOURS[3], "D"),
    "smcabc-aware": (COLOURS[4], "v"),
    "sbi-npe": (COLOURS[5], "P"),
    "sbi-tsnpe": (COLOURS[6], "X"),
    "sbi-snle": ("0.4", "*"),
    "pyabc-smc": ("0.6", "<"),
}
PEERS = tuple(name for name in METHODS if name.startswith(("sbi", "pyabc")))
DEFAULTS = {False: "npe-aware", True: "rounds-nle-aware"}  # by whether the posterior is narrow: what a user is told


def write_problems(records: Sequence[Record]) -> str:
    """Write the section on problems with known posteriors."""
    problems = [name for name in PROBLEMS if pick(records, problem=name)]
    methods = [name for name in METHODS if pick(records, method=name)]
    parts = [
        _head(records, problems, methods),
        "### Problems",
        _problem_table(problems),
        "### Cost to be as accurate as plain NPE",
        _summary(records, problems, methods),
        "### Where a peer is ahead",
        _losses(records, problems),
        "### CPU seconds of training beside simulation",
        _seconds_table(records, methods),
        "### Problem by problem",
        *(_problem(records, name, methods) for name in problems),
        _no_answers(records),
        _failures(records),
    ]
    return "\n\n".join(part for part in parts if part)


def _head(records: Sequence[Record], problems: Sequence[str], methods: Sequence[str]) -> str:
    dates, commits, machines, versions = (
        sorted({getattr(r, key) for r in records}) for key in ("date", "commit", "machine", "version")
    )
    pairs = {(r.problem, r.method) for r in records}
    seeds = [len({r.seed for r in pick(records, problem=p, method=m)}) for p, m in pairs]
    budgets = _listed(sorted({r.budget for r in records}))
    return (
        "Each method spends a budget and gives draws at an observation. A run of the prior costs 1 on average: a budget"
        " of 1,000 is the cost of 1,000 prior runs. C2ST is the accuracy of a classifier that tells 1,000 draws from"
        " the exact posterior; 0.5 is perfect. [Benchmark a method](howto/benchmark.md) adds yours.\n\n"
        f"So far there are {len(records):,} records: {len(problems)} of {len(PROBLEMS)} problems, {len(methods)} of"
        f" {len(METHODS)} methods, {len(pairs)} pairs of them, at most {max(seeds)} of {SEEDS} seeds for a pair,"
        f" budgets {budgets}. One seed has no error, and is no evidence by itself. The whole set has"
        f" {SEEDS} seeds and the budgets {_listed(BUDGETS)}; the command `thrifty benchmark --workers 2 --out"
        " benchmarks/records/benchmark` continues it. At the CPU time of these records, the whole set of these methods"
        f" takes {estimate_hours(records, methods):.1f} CPU hours without the classifiers.\n\n"
        "Settings of thrifty's rounds were chosen on lotka_volterra, slcp, gaussian_8, gaussian_2 and counts, with"
        " other seeds; the other methods have the defaults of their libraries.\n\n"
        f"Made with thrifty {_listed(versions)}, code {_listed(commits)}, on {_listed(dates)} ({'; '.join(machines)})."
    )


def estimate_hours(records: Sequence[Record], methods: Sequence[str]) -> float:
    """CPU hours of the whole set for these methods; a budget without records is scaled from the nearest one."""
    total = 0.0
    known = {
        method: {b: np.mean([_task_seconds(r) for r in mine if r.budget == b]) for b in {r.budget for r in mine}}
        for method in methods
        if (mine := pick(records, method=method, error=""))
    }
    every = list_methods()  # records are read where what made them is not installed, too
    for task in list_tasks(PROBLEMS, [every[name] for name in known], BUDGETS, SEEDS):
        seconds = known[task.method]
        nearest = min(seconds, key=lambda budget: abs(np.log(budget / task.budget)))
        total += seconds[nearest] * task.budget / nearest
    return total / 3600


def _task_seconds(record: Record) -> float:
    return (
        record.fit_seconds + record.simulator_seconds + 3 * record.sample_seconds
    )  # an amortised fit has three places


def _problem_table(problems: Sequence[str]) -> str:
    rows = []
    for name in problems:
        about = describe(name)
        volume = f"{about['smallest_volume']:.1e} to {about['largest_volume']:.1e}"
        sizes = [str(about[key]) for key in ("parameters", "outputs", "modes")]
        rows.append([name, *sizes, f"{about['cost_range']:.3g}", f"{about['ceiling']:.2f}", volume, about["reference"]])
    text = (
        "Cost range: 99 % over 1 % quantile under the prior. Ceiling: the most effective runs per cost that any"
        " proposal of parameters can give, over plain sampling. Volume: of the posterior over the prior's, at the three"
        " observations.\n\n"
    )
    head = ["problem", "parameters", "outputs", "modes", "cost range", "ceiling", "volume", "exact draws by"]
    return text + write_table(head, rows)


def _summary(records: Sequence[Record], problems: Sequence[str], methods: Sequence[str]) -> str:
    rows = []
    for name in problems:
        cells = [_format_ratio(compare_cost(records, name, method)) for method in methods if method != BASELINE]
        if set(cells) != {"–"}:
            rows.append([name, *cells])
    if not rows:
        return "No problem has records of plain NPE and of another method at the same place and seed yet."
    text = (
        "What a method pays until its C2ST is that of plain NPE at its largest budget, over what plain NPE paid; below"
        " 1 is cheaper. Over the same places and seeds; ± is the jackknife error over seeds. `<`: the smallest budget"
        " was enough; `not`: no budget was; –: no records.\n\n"
    )
    return text + write_table(["problem", *(m for m in methods if m != BASELINE)], rows)


def _format_ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return "–"
    if ratio.bound == ">":
        return "not"
    error = "" if np.isnan(ratio.error) else f" ± {ratio.error:.2f}"
    return f"{'< ' if ratio.bound else ''}{ratio.value:.2f}{error}"


def _losses(records: Sequence[Record], problems: Sequence[str]) -> str:
    """Hold thrifty's default for each kind of problem against every peer, over the same places and seeds."""
    rows = []
    for name in problems:
        default = DEFAULTS[find_problem(name).narrow]
        gaps = {peer: gap for peer in PEERS if (gap := _gap(records, name, default, peer)) is not None}
        if gaps:
            best = max(gaps, key=lambda peer: gaps[peer][0])
            mean, error, seeds = gaps[best]
            shown = f"{mean:+.3f}" + ("" if np.isnan(error) else f" ± {error:.3f}")
            rows.append([name, default, best, shown, str(seeds), _name_winner(mean, error)])
    if not rows:
        return "No problem has records of thrifty's default and of a peer at the same budget, place and seed yet."
    behind = [row[0] for row in rows if row[-1] == "peer"]
    text = (
        "Thrifty's default is cost-aware NPE, and cost-aware rounds of NLE where the posterior is narrow (below a"
        " thousandth of the prior). Its C2ST less that of the best peer at the middle budget, over the same places and"
        " seeds; above 0 the peer is more accurate. A winner is named where the difference exceeds two standard errors"
        " over seeds. "
    )
    text += f"A peer is ahead on {_listed(behind)}." if behind else "No peer is ahead by that much on these records."
    return text + "\n\n" + write_table(["problem", "default", "best peer", "difference", "seeds", "ahead"], rows)


def _gap(records: Sequence[Record], problem: str, first: str, second: str) -> tuple[float, float, int] | None:
    """Mean difference in C2ST over shared places and seeds at the middle budget, its error over seeds, seeds."""
    budgets = sorted({r.budget for r in pick(records, problem=problem, error="")})
    budget = budgets[(len(budgets) - 1) // 2]
    one, other = (
        {(r.place, r.seed): r.c2st for r in pick(records, problem=problem, method=m, budget=budget, error="")}
        for m in (first, second)
    )
    shared = one.keys() & other.keys()
    seeds = {seed for _, seed in shared}
    gaps = np.array([np.mean([one[key] - other[key] for key in shared if key[1] == seed]) for seed in seeds])
    if not len(gaps):
        return None
    error = float(gaps.std(ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else float("nan")
    return float(gaps.mean()), error, len(gaps)


def _name_winner(gap: float, error: float) -> str:
    if np.isnan(error) or abs(gap) < 2 * error:
        return "not told apart"
    return "peer" if gap > 0 else "thrifty"


def _seconds_table(records: Sequence[Record], methods: Sequence[str]) -> str:
    rows = []
    for method in methods:
        mine = pick(records, method=method, error="")
        for budget in sorted({r.budget for r in mine}):
            here = [r for r in mine if r.budget == budget]
            means = [np.mean([getattr(r, n) for r in here]) for n in ("runs", "cost", "fit_seconds", "sample_seconds")]
            rows.append([method, f"{budget:g}", str(len(here)), *(f"{m:,.0f}" for m in means[:2]),
                         *(f"{m:.1f}" for m in means[2:])])  # fmt: skip
    text = (
        "Means over problems and seeds. Where a run takes longer than the fit divided by the runs, simulation is the"
        " larger bill.\n\n"
    )
    return text + write_table(["method", "budget", "records", "runs", "cost", "fit, CPU s", "1,000 draws, CPU s"], rows)


def _problem(records: Sequence[Record], name: str, methods: Sequence[str]) -> str:
    rows = []
    for method in methods:
        mine = pick(records, problem=name, method=method, error="")
        for budget in sorted({r.budget for r in mine}):
            here = [r for r in mine if r.budget == budget]
            cells = [
                _format_point(here, measure, digits)
                for measure, digits in (("c2st", 3), ("mmd2", 4), ("log_density", 2))
            ]
            places = [p for p in PLACES if any(r.place == p for r in here)]
            rows.append([method, f"{budget:g}", f"{np.mean([r.cost for r in here]):,.0f}", *cells, ", ".join(places),
                         str(len({r.seed for r in here}))])  # fmt: skip
    head = ["method", "budget", "cost", "C2ST", "MMD²", "log density", "places", "seeds"]
    return f"#### {name}\n\n![C2ST against cost](figures/benchmark/{name}.png)\n\n" + write_table(head, rows)


def _format_point(records: Sequence[Record], name: str, digits: int) -> str:
    found = curve(records, name)
    if not found:
        return "–"
    error = "" if np.isnan(found[0].error) else f" ± {found[0].error:.{digits}f}"
    return f"{found[0].value:.{digits}f}{error}"


def _no_answers(records: Sequence[Record]) -> str:
    """List what gave no answer because its first step needs a larger budget."""
    found = [r for r in records if r.has_no_answer]
    if not found:
        return ""
    rows = []
    for method, budget in sorted({(r.method, r.budget) for r in found}):
        here, asked = pick(found, method=method, budget=budget), pick(records, method=method, budget=budget)
        rows.append([method, f"{budget:g}", f"{len(here)} of {len(asked)}"])
    text = (
        "A method whose first step takes more runs than the budget pays for has no answer there; it did not fail.\n\n"
    )
    return "### No answer at this budget\n\n" + text + write_table(["method", "budget", "records"], rows)


def _failures(records: Sequence[Record]) -> str:
    failed = [r for r in records if r.error and not r.has_no_answer]
    if not failed:
        return ""
    rows = [[r.problem, r.place, r.method, f"{r.budget:g}", str(r.seed), r.error.replace("|", "/").splitlines()[0][:90]]
            for r in failed]  # fmt: skip
    return "### Fits that failed\n\n" + write_table(["problem", "place", "method", "budget", "seed", "error"], rows)


def _listed(values: Sequence[object]) -> str:
    return ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values)


def draw_problem(records: Sequence[Record], name: str, path: Path) -> None:
    """C2ST against cost, a line and an error band for each method."""
    figure, axes = make_figure(5.6, 3.4)
    axis = axes[0, 0]
    costs = []
    for method, (colour, marker) in DRAWN.items():
        points = curve(pick(records, problem=name, method=method, error=""), "c2st")
        if not points:
            continue
        cost, value = [p.cost for p in points], np.array([p.value for p in points])
        error = np.nan_to_num([p.error for p in points])
        axis.plot(cost, value, color=colour, marker=marker, ms=4, lw=1.2, label=method)
        axis.fill_between(cost, value - error, value + error, color=colour, alpha=0.15, lw=0)
        costs += cost
    axis.axhline(0.5, color="0.7", lw=0.8)
    axis.set_xscale("log")
    axis.set_xlim(min(costs) / 1.5, max(costs) * 1.5)
    set_plain_ticks(axis.xaxis, 2.25 * max(costs) / min(costs))
    set_labels(axis, "cost of all runs (prior runs)", "C2ST (0.5 is perfect)", name)
    axis.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90, pil_kwargs={"optimize": True})


def fill_region(page: str, name: str, text: str) -> str:
    r"""Put a text between the two comments that mark a region of a page.

    Example:
        >>> fill_region("<!-- a: made by x -->\nold\n<!-- end of a -->", "a", "new")
        '<!-- a: made by x -->\n\nnew\n\n<!-- end of a -->'
    """
    pattern = rf"(<!-- {name}: made by [^\n]* -->\n).*?(<!-- end of {name} -->)"
    filled, count = re.subn(pattern, lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{count} regions {name!r} on the page, expected 1")
    return filled


def fill_page(page: str, records: Sequence[Record], lines: Lines) -> str:
    """Write both sections into the page."""
    page = fill_region(page, "real simulators", write_examples(lines))
    return fill_region(page, "problems", write_problems(records))


def read_lines() -> Lines:
    """Read the records of real simulators."""
    text = EXAMPLES.read_text(encoding="utf-8") if EXAMPLES.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def main() -> None:
    records = read_records(RECORDS)
    PAGE.write_text(fill_page(PAGE.read_text(encoding="utf-8"), records, read_lines()), encoding="utf-8")
    for name in PROBLEMS:
        if pick(records, problem=name, error=""):
            draw_problem(records, name, FIGURES / f"{name}.png")
    print(f"{PAGE.relative_to(ROOT)}: {len(records)} records of problems, {len(read_lines())} of real simulators")


if __name__ == "__main__":
    main()
