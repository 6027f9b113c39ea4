"""Write docs/reproduction.md from the records of full runs under studies/results.

    python tools/reproduction_page.py                        # the page, from the records kept with the code
    python tools/reproduction_page.py --take runs/studies    # first copy records and figures of full runs from there

Every number on the page comes from a record or, for the paper's own, from the study that cites it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))

from claims import claims, sir_claims
from common import ROOT, Record, column, kind, pick, table

RESULTS, PAGE, FIGURES = ROOT / "studies/results", ROOT / "docs/reproduction.md", "figures/reproduction"
SECTIONS = {  # study -> heading, and what is asked for
    "table1": "Table 1: the Gamma simulator",
    "gamma_figure": "The Gamma figure: ABC and NPE",
    "products": "CG×ESS against exact values; two rows that cannot be right",
    "table2": "Table 2, C2ST and KS: three SIR models",
    "seconds": "Time saved by the clock: simulators in plain Python",
    "table3": "Table 3: good and bad cost models",
    "radio": "Radio propagation",
    "beyond_weights": "Beyond (a): same simulations, better weights",
    "beyond_nle": "Beyond (b): NLE with and without weights",
    "beyond_budget": "Beyond (c): equal budget instead of equal n",
    "beyond_stopping": "Beyond (d): stopping without bias",
    "beyond_range": "Beyond (e): cost ranges of 10, 100 and 1000",
    "beyond_pilot": "Beyond (f): the pilot is kept, and the exact posterior",
}
HEAD = """# The paper, reproduced

After this page you know which results of *Cost-aware simulation-based inference* (Bharti, Huang, Kaski, Briol; AISTATS
2025) hold in this implementation, which do not, and why. The tables behind the summary are [appendices](#appendices).
`tools/reproduction_page.py` makes this page from the records of full runs in `studies/results`; every number comes
from a record. Repeat any part with `thrifty reproduce NAME --full`."""

READ = """*Saved* compares the cost of n runs with that of n prior runs and leaves the pilot out, as the paper does;
"with pilot" counts it; "per effective" divides by effective runs. Cost is the number of operations of a run plus a
start-up (`studies/epidemics.py`), the same on every machine. Columns "CPU s" are seconds on the machine named in the
last appendix, of the compiled models or, where it says so, of plain Python loops. An *arm* is a proposal with a way
to train. *Cheap* and *expensive* are parts of the prior by the cost of a run. ESS/n is the share of effective runs;
CG is the gain. *Splines* are the networks of thrifty, MAF is the network of the paper. Brackets are standard
deviations over seeds; ± is a standard error."""

WHY = """"No worse" allows the rounding of the paper (0.005) and two standard errors of the difference over seeds. The
five observations and the reference network are the same for all seeds. The lengthscale of MMD² is the median distance
in the reference. The paper uses the median over √2 (see the Gamma figure); a column has that kernel, for the seeds that
were judged with it. The last column is the change against our own plain NPE with the same network and the same seeds
(mean ± se): this is what cost-aware sampling itself does to MMD². C2ST is for the first observation only.

"Saved" counts operations. By the clock: "plain Python" is the same algorithm as an interpreted loop, as in the paper,
with a cost that is learned from timed runs. "Compiled" is the code of `th.models`. Its start-up is long compared with
its runs, so temporal and Bernoulli SIR save much less of that time.

**Bernoulli SIR** saves less than in the paper, because the correct graph makes the cost nearly a function of one
parameter. The appendix on CG×ESS has the figures, and what the cost of the published code would give. Its C2ST is far
lower than in the paper, also for plain NPE: reference and network agree better, which says nothing about cost.

**"Pilot kept"** is the way of thrifty: the 200 runs that taught the cost join the training as draws of the prior. They
count in "saved"; the figure in brackets leaves them out, as the paper does. "Splines" is the network of thrifty; all
other rows use the MAF of the paper. "Weights applied afterwards" (`correction="after"`) was added after the first seeds
of k = 2 had been seen."""

CHOSEN = """Two settings were fixed after first results had been seen, and the verdicts for SIR depend on them.
*Start-up:* {start_ups} operations for homogeneous, temporal and Bernoulli SIR. That of temporal SIR was chosen among
several, small enough for k = 2 to reach the saving of the paper. At the cost range that the paper states, the exact
saving is lower than the paper's for all three powers (appendix on CG×ESS, "sampled right"). *Observations:* a single
larger outbreak was tried first and gave a higher MMD² for temporal SIR (no record was kept). It was replaced by the
first five outbreaks of at least {least:g} people ({sizes}; {passing:.0%} of runs at the true parameters are that large,
a tenth of these above {large:.0f}). Read "yes" for temporal SIR as "possible", not as "always"."""

REASONS = {  # model -> why a row of the summary is as it is
    "HomogeneousSIR": "",
    "TemporalSIR": "k = 2 leaves few effective runs; with the pilot kept, the MMD² of k = 2 is no worse",
    "BernoulliSIR": "with the correct graph, cost is nearly a function of one parameter",
}


def summary(found: dict[str, Record]) -> str:
    """The results in one table: what of the paper holds, counted from the claims."""
    body = [
        ["Gamma model: gain and efficiency of Table 1", "yes", "all rows follow from one cost range"],
        ["temporal and Bernoulli SIR: CG×ESS below 1 at k = 1", "**no**", "it is exactly 1 for every cost"],
    ]
    if "table2" in found:
        for name in import_module("table2").SEEDS:
            body += _summary_of(found, name)
    if "radio" in found:
        radio = import_module("radio")
        saved = [column(pick(found["radio"], arm=arm, method="NPE"), "saved").mean() for arm in radio.PAPER_SAVED]
        theirs = list(radio.PAPER_SAVED.values())
        met = sum(round(100 * ours) >= paper for ours, paper in zip(saved, theirs, strict=True))
        body.append([f"radio: saves {_listed(theirs)} %", _share(met, len(saved)),
                     f"{_listed(round(100 * s) for s in saved)} % here"])  # fmt: skip
    return table(["the paper says", "holds", "in this implementation"], body)


def _summary_of(found: dict[str, Record], name: str) -> list[list[str]]:
    """Two rows for one SIR model: cost saved, and accuracy."""
    two = import_module("table2")
    own = [claim for claim in sir_claims(found) if claim.shown in {f"{two.SHOWN[name]} SIR, {a}" for a in two.ARMS}]
    saved = [round(100 * column(claim.rows, "saved").mean()) for claim in own]
    theirs = [claim.paper[2] for claim in own]
    met = sum(ours >= paper for ours, paper in zip(saved, theirs, strict=True))
    good = sum(claim.no_worse for claim in own)
    reason = REASONS[name]
    ours = f"{_listed(saved)} % here"
    return [
        [f"{two.SHOWN[name]} SIR: saves {_listed(theirs)} % (k = ½, 1, 2, mixture)", _share(met, len(own)),
         f"{ours}: {reason}" if met < len(own) else ours],
        [f"{two.SHOWN[name]} SIR: MMD² as small as stated", _share(good, len(own)), reason if good < len(own) else ""],
    ]  # fmt: skip


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _share(met: int, of: int) -> str:
    return "yes" if met == of else f"**no** ({of - met} of {of} do not hold)" if met == 0 else f"{met} of {of}"


BEYOND = """**Beyond the paper.** (a) With the balance heuristic, the same runs of a mixture are worth more. (b) NLE
needs no weights; under k = 2, its error is smaller without them at two of three observations. (c) At equal budgets,
√c and the balance mixture are about as good as plain sampling on temporal SIR; the mixture of the paper is worse. (d)
To stop admitting runs is unbiased; to keep what finished is not. (e) Cost-aware sampling pays where the observation
is cheap, and costs where it is expensive. (f) Keeping the pilot bounds the weights, and lowers MMD² under k = 2."""


def why(found: dict[str, Record]) -> str:
    """What stands behind the verdicts; every number from a record."""
    parts = [WHY]
    if "table2" in found:
        parts.append(_worse(found))
    seen = pick(found.get("products", {"values": []}), model="TemporalSIR", kind="observed")
    if seen:
        epidemics = import_module("epidemics")
        start_ups = ", ".join(f"{v:g}" for v in epidemics.START_UP.values())
        sizes = ", ".join(f"{v:.0f}" for v in seen[0]["sizes"])
        parts.append(CHOSEN.format(start_ups=start_ups, **(seen[0] | {"sizes": sizes})))
    return "\n\n".join(parts)


def _worse(found: dict[str, Record]) -> str:
    """Rows that are worse than the paper's, and why."""
    n, pilot = found["table2"]["values"][0]["n"], import_module("epidemics").PILOT
    worse = [claim for claim in sir_claims(found) if not claim.no_worse]
    lines = [f"{claim.shown} ({claim.effective:,.0f} effective runs)" for claim in worse]
    first = "No row has a larger MMD² than the paper's." if not lines else f"Worse in MMD²: {'; '.join(lines)}."
    return (
        f"{first} A penalty as strong as k = 2 over a wide range of cost leaves few effective runs. Where more is saved"
        " than in the paper, weights are worse too. With the pilot kept, no weight exceeds"
        f" {(n + pilot) / pilot:g} times the mean. {_yardstick(found)}\n\n{_other_distances(found['table2'])}"
    )


def _other_distances(record: Record) -> str:
    """C2ST and KS that exceed the paper's by more than 0.02."""
    two, above = import_module("table2"), {"C2ST": [], "KS": []}
    for name in two.SEEDS:
        for i, arm in enumerate(two.ARMS):
            rows = pick(record, model=name, arm=arm)
            ours = {"C2ST": [column(rows, "c2st").mean()], "KS": np.mean([v["ks"] for v in rows if v.get("ks")], 0)}
            theirs = {"C2ST": [two.PAPER_C2ST[name][i]], "KS": [float(v) for v in two.PAPER_KS[name][i].split()]}
            for what, lines in above.items():
                if (np.asarray(ours[what]) > np.array(theirs[what]) + 0.02).any():
                    lines.append(f"{two.SHOWN[name]} {arm}")
    told = "; ".join(f"{what}: {', '.join(lines) or 'none'}" for what, lines in above.items())
    return f"Rows of Table 2 whose C2ST or KS (of any parameter) exceeds the paper's by more than 0.02: {told}."


def _yardstick(found: dict[str, Record]) -> str:
    """Plain NPE, which does not depend on cost, weights or proposals; and what the reference is worth."""
    two, name = import_module("table2"), "TemporalSIR"
    plain, theirs = column(pick(found["table2"], model=name, arm="NPE"), "mmd2").mean(), two.PAPER_MMD[name][0][0]
    exact = pick(found.get("beyond_pilot", {"values": []}), yardstick="MAF")
    own = f" The reference itself is {exact[0]['exact']:.3f} from the exact posterior (Beyond (f))." if exact else ""
    return (
        f"Plain NPE of temporal SIR has {plain:.3f} here and {theirs:.2f} in the paper, and larger KS too:"
        " observations, reference and training differ. Compare its rows with our own plain NPE." + own
    )


def records() -> dict[str, Record]:
    """The records of full runs, by study."""
    paths = {name: RESULTS / f"{name}.json" for name in SECTIONS}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def take(folder: Path) -> None:
    """Copy records and figures of full runs to where the page looks for them."""
    RESULTS.mkdir(exist_ok=True)
    (PAGE.parent / FIGURES).mkdir(parents=True, exist_ok=True)
    for name in SECTIONS:
        made = folder / f"{name}-full"
        if (made / f"{name}.json").exists():
            shutil.copyfile(made / f"{name}.json", RESULTS / f"{name}.json")
            shutil.copyfile(made / f"{name}.png", PAGE.parent / FIGURES / f"{name}.png")


def hours(name: str, record: Record) -> float:
    """CPU hours of the whole study at its full default, from the seconds per run that its tasks took in this record."""
    seen: dict[str, list[float]] = {}
    for label, n, seconds in record["cpu"]:
        seen.setdefault(label, []).append(seconds / n)
    every = float(np.mean([s for values in seen.values() for s in values]))
    asked = import_module(name).tasks(True, None)
    return sum(float(np.mean(seen.get(kind(task), [every]))) * task.get("n", 1) for task in asked) / 3600


def overview(found: dict[str, Record]) -> str:
    """How much each section rests on, and how long the whole would take."""
    body, total, missing = [], 0.0, 0
    for name, record in found.items():
        asked = import_module(name).tasks(True, None)
        total += hours(name, record)
        missing += len(asked) - record["tasks"]
        seeds = len({task.get("seed", 0) for task in asked} - {-1})
        body.append([f"`{name}`", f"{record['seeds']}", f"{seeds}", f"{record['tasks']} of {len(asked)}",
                     f"{record['cpu_seconds'] / 60:.1f}", f"{60 * hours(name, record):.0f}",
                     record["date"], _commits(record), record["machine"]])  # fmt: skip
    head = ["study", "seeds", "asked", "tasks", "CPU min", "CPU min, all asked", "date", "code", "machine"]
    again = _again(found) if {"table2", "beyond_pilot"} <= found.keys() else ""
    left = f" {missing} tasks were not run, for lack of machine time; the same command adds them." if missing else ""
    return (
        table(head, body) + f"\n\nAll that is asked for, at the CPU time per task measured here, is"
        f" {total:.1f} CPU hours: {total / 2:.1f} hours on two cores.{left}{again}"
    )


def _again(found: dict[str, Record]) -> str:
    """Rows of Table 2 that Beyond (f) makes again, from the same seeds on newer code."""
    first = {(v["model"], v["seed"], v["arm"]): v for v in found["table2"]["values"]}
    gaps = [
        abs(v["mmd2"] - first[v["model"], v["seed"], f"k={v['k']:g}" if v["k"] else "NPE"]["mmd2"])
        for v in found["beyond_pilot"]["values"]
        if v.get("kept") in ("plain", "alone") and v["network"] == "MAF"
    ]
    return (
        f" Of the rows of Table 2, {len(gaps)} are made again in Beyond (f), with newer code from the same seeds:"
        f" {np.mean(np.array(gaps) == 0):.0%} have exactly the same MMD², the largest difference is {max(gaps):.3f}."
    )


def _commits(record: Record) -> str:
    """The code that made the rows, with their number where it was not one."""
    found = record["commits"]
    return ", ".join(f"{name} ({count})" if len(found) > 1 else name for name, count in found.items())


def page(found: dict[str, Record]) -> str:
    """The whole page: a summary of one screen, then what is behind it."""
    parts = [HEAD, "## Summary", summary(found), BEYOND, "## What is behind the verdicts", why(found)]
    parts += ["## How to read the tables", READ, "## Appendices"]
    parts.append(_appendix("The claims, one by one", "Tables", claims(found)))
    for name, record in found.items():
        text = f"{import_module(name).text(record)}\n\n![{SECTIONS[name]}]({FIGURES}/{name}.png)"
        parts.append(_appendix(SECTIONS[name], "Tables and figure", text))
    parts.append(_appendix("What each section rests on", "Table", overview(found)))
    return "\n\n".join(parts) + "\n"


def _appendix(heading: str, closed: str, text: str) -> str:
    """A section that is closed until a reader opens it."""
    return f"### {heading}\n\n<details markdown>\n<summary>{closed}</summary>\n\n{text}\n\n</details>"


def main(argv: list[str] | None = None) -> None:
    """Write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--take", type=Path, help="folder with the results of full runs")
    options = parser.parse_args(argv)
    if options.take:
        take(options.take)
    PAGE.write_text(page(records()), encoding="utf-8")


if __name__ == "__main__":
    main()
