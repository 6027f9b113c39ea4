"""Write docs/rounds.md from the record of the rounds study, studies/results/rounds.json.

    python tools/rounds_page.py                        # the page, from the record kept with the code
    python tools/rounds_page.py --take runs/studies    # first copy record and figure of a full run from there

Every number on the page comes from the record.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))

import rounds as study
from common import ROOT, Record, column, pick, table
from rounds_development import find_problem

RESULT, PAGE, FIGURE = ROOT / "studies/results/rounds.json", ROOT / "docs/rounds.md", "figures/reproduction/rounds.png"

HEAD = """# Rounds at one observation

`th.Rounds` infers the posterior at one observation. Each round draws parameters where the posterior of the round before
lies, and avoids expensive runs. After this page you can run it, and choose between rounds and a method for all
observations.

## In one line

```python
import numpy as np
import thrifty as th


def simulate(theta, rng):
    x = np.array([theta[0] + theta[1], theta[0] ** 2]) + 0.02 * rng.normal(size=2)
    return th.Output(x, cost=float(np.exp(theta[0])))


prior = th.Uniform([0.0, 0.0], [2.0, 2.0], names=["a", "b"])
study = th.infer(simulate, prior, [2.1, 0.5], n=400, rounds=2, cost="reported", workers=1)
study  # posterior, runs and cost; one line for each round
study.samples, study.stopped, [one.volume for one in study.generations]
```

`budget="2 cpu-h"` instead of `n=` spends cost; `folder="runs/one"` keeps every run, and the same call continues after a
crash: the same table, the same posterior. On the command line:

```console
$ thrifty run --rounds 4 --observed x_o.csv
```

or `rounds = 4` under `[infer]` of `thrifty.toml`. With settings:

```python
method = th.Rounds(th.NLE(prior), rounds=3, prior_share=0.2, tolerance=0.1)
```

`method.run(campaign, x_o, budget="2 cpu-h")` runs it in a campaign, with any engine. `th.NRE`, `th.NPE` and a
`th.Ensemble` of one of them work too. An `x_o` of shape (k, d) holds k observations: they share the rounds, and
`study.each` has a study for each.
"""

HOW = """## What happens

Round 0 is from the prior. It is also the pilot of the cost model. Later rounds:

- **NLE (the default) and NRE** draw from a kernel mixture around posterior draws, with a share of the prior, divided by
  g(c). They train on all runs without weights: p(x given θ) does not depend on where θ was drawn.
- **NPE** draws from the prior inside the region of high posterior density, divided by g(c). It trains on the runs in
  the region, weighted by prior over pool. A second network is trained on all runs. Where that predicts held-out runs in
  the region as well, it is the posterior, and the next round draws from the whole prior divided by g(c).

For all of them:

- g(c) is c^(1/4) after the first round (`penalty=`). Nothing is known of x_o in round 0, so it is not tilted.
- Every round doubles the pool. A round is a block of the campaign.
- Every proposal has a density that is kept, so the pool is one weighted table: `study.simulations` serves `th.ABC`,
  `th.NPE`, exports and later top-ups. No weight exceeds the number of runs over that of round 0.
- NLE with up to six outputs is trained again for longer, as long as held-out runs are predicted better
  ([training](neural.md#training)): thin likelihoods need it, and a round may take a minute of CPU time.
  `th.Training(cycle=...)` sets the number of epochs.
- It stops early, with the rest unspent, where the posterior moves by less than `tolerance` (in its standard deviations)
  in two rounds one after the other and a second network on the same runs agrees. `study.stopped` is then "settled".
  `tolerance=0` uses all of the budget.
- The same call on a finished folder returns what is there. With a larger `n=` or `budget=` it adds rounds, which begin
  at the last posterior; nothing that was run is lost.
- Where the posterior takes more than 5 % of the prior, a note says that amortised NPE is as good. Whole numbers and
  categories have no volume: it is NaN there, and there is no such note.
- Where more than 2 % of the last round's runs failed, near the observation, a warning and `study.notes` say so. NLE and
  NRE have no factor for failures unless asked: the posterior is right where runs fail at some parameters whatever their
  output would have been, and too high there where runs fail because of their output. `failures="model"` multiplies by
  P(valid given theta), learned on the scale of the runs near the observation; a finished folder is refitted without new
  runs. A region narrower than half a posterior standard deviation may be missed. NPE is the posterior of runs that
  finish: right in the second case, without those parameters in the first. On the command line: `--max-failed 0.05`.
- `th.SMCABC(prior, finish=th.NLE(prior))` is the same idea in another order: SMC-ABC chooses the runs, one network is
  trained at the end. It is off by default, because SMC-ABC alone needs no torch.
- `th.diagnose(study)` needs no new runs. It calibrates on runs near x_o that trained no network, a tenth of all runs.
  Where these are fewer than 100, it takes all runs near x_o, says so, and answers "with care".

```python
study.diagnosis.verdict  # also th.diagnose(study)
abc = th.ABC(prior).fit(study.simulations)  # the pool is weighted: any method can use it
```
"""


REASONS = """What is left where rounds are behind: at the expensive place of squares the budget pays for few runs around
four peaks. Single posteriors of two_moons, without a penalty or at 1/50, are far off: none of three networks learned
the thin crescents there, and the loss of the first training did not show that more epochs would help.
"""


def decide(record: Record) -> str:
    """The decision table: what to use when, with what was measured."""
    rows = [
        ["many observations, now or later", "`th.NPE` on one plan",
         "one fit for all: rounds would be paid for again at each observation"],
        ["one observation, narrow posterior", "`th.Rounds(th.NLE(prior))`",
         _against_plain(record, "NLE rounds", "narrow")],
        ["one observation, wide posterior", "`th.NPE` on one plan", _against_plain(record, "NLE rounds", "wide")],
        ["narrow, but no density of x can be learned (images, long series with an embedding)",
         "`th.Rounds(th.NPE(prior, embedding=...))`", _against_plain(record, "NPE rounds", "narrow")],
        ["no network wanted; a distance on few statistics is natural", "`th.SMCABC(prior)`", _smc(record, "SMC-ABC")],
        ["a pool of SMC-ABC is there already", "`th.SMCABC(prior, finish=th.NLE(prior))`",
         _smc(record, "SMC-ABC, NLE at the end")],
    ]  # fmt: skip
    return table(["case", "use", "measured: mean C2ST, 0.5 is perfect"], rows)


def _names(record: Record, kind: str) -> list[str]:
    seen = {v["problem"] for v in record["values"]}
    return [name for name in study.TEST if name in seen and find_problem(name).narrow == (kind == "narrow")]


def _mean(record: Record, arm: str, kind: str) -> float:
    """Mean over problems of the mean over seeds and places."""
    each = [column(pick(record, arm=arm, problem=name), "c2st") for name in _names(record, kind)]
    return float(np.mean([values.mean() for values in each if len(values)] or [np.nan]))


def _against_plain(record: Record, arm: str, kind: str) -> str:
    d, e = study.gap(record, kind, arm, "NPE, equal cost", "c2st")
    ours, plain = (_mean(record, name, kind) for name in (arm, "NPE, equal cost"))
    return f"{arm} {ours:.2f}, plain NPE at equal cost {plain:.2f}; difference {study.show_gap(d, e)}"


def _smc(record: Record, arm: str) -> str:
    if not pick(record, arm=arm):
        return "not run"
    narrow, wide = (_mean(record, arm, kind) for kind in ("narrow", "wide"))
    return f"{narrow:.2f} on narrow problems, {wide:.2f} on wide ones"


def promises(record: Record) -> str:
    """What rounds should do, and whether they did, from the record."""
    lines = []
    for kind, first, second, words in (
        (
            "narrow",
            "NLE rounds",
            "NPE, 50,000",
            "NLE rounds at 1/20 of the cost at least as good as NPE on 50,000 runs",
        ),
        ("narrow", "NPE rounds", "NPE, equal cost", "NPE rounds better than plain NPE at equal cost"),
        ("wide", "NLE rounds", "NPE, equal cost", "NLE rounds no worse than plain NPE at equal cost"),
        ("wide", "NPE rounds", "NPE, equal cost", "NPE rounds no worse than plain NPE at equal cost"),
        ("narrow", "NLE rounds", "NLE rounds, cost-blind", "cost-aware rounds no worse than cost-blind ones"),
        ("wide", "NLE rounds", "NLE rounds, cost-blind", "cost-aware rounds no worse than cost-blind ones"),
    ):
        found = {label: study.gap(record, kind, first, second, label) for label in ("c2st", "mmd2")}
        cells = [f"{study.show_gap(d, e)}: {_verdict(d, e)}" for d, e in found.values()]
        names = _names(record, kind)
        both = sum(study.compare(record, first, second, "c2st", [name])[2] > 0 for name in names)
        lines.append([f"{kind}: {words}", *cells, f"{both} of {len(names)}"])
    differences = table(["what rounds should do", "C2ST", "MMD²", "problems"], lines)
    told = (
        "Differences are means over problems, ± their standard error: each posterior of the first arm less the mean of"
        " the second at the same observation. The number of posteriors is in brackets below. An arm with one seed"
        " (plain NPE on 50,000 runs) adds no error of its own, so that errors beside it are too small."
    )
    return f"{differences}\n\n{told}\n\n{_by_problem(record)}\n\n{_widths(record)}\n\n{REASONS}"


def _by_problem(record: Record) -> str:
    """NLE rounds beside NPE on 20 times the cost, and NPE rounds beside plain NPE, problem by problem."""
    body = []
    for name in _names(record, "narrow") + _names(record, "wide"):
        pairs = (("NLE rounds", "NPE, 50,000"), ("NLE rounds", "NPE, equal cost"), ("NPE rounds", "NPE, equal cost"))
        found = [study.compare(record, first, second, "c2st", [name]) for first, second in pairs]
        body.append([name, *(study.show_gap(d, e) + (f" ({n})" if n else "") for d, e, n in found)])
    head = ["C2ST", "NLE rounds at 1/20 − NPE on 50,000", "NLE rounds − NPE at equal cost",
            "NPE rounds − NPE at equal cost"]  # fmt: skip
    return table(head, body)


def _verdict(gap: float, error: float) -> str:
    if np.isnan(gap):
        return "not run"
    return "better" if gap < -error else "within one standard error" if gap <= error else "**worse**"


def _widths(record: Record) -> str:
    """Which narrow problems have widths within 10 %, for NLE rounds at 1/20."""
    lines = []
    for name in _names(record, "narrow"):
        mean = column(pick(record, arm="NLE rounds", problem=name), "width").mean()
        lines.append(f"{name} {mean:.2f}" + ("" if abs(np.log(mean)) <= np.log(1.1) else " (**no**)"))
    return "Widths of NLE rounds within 10 % of the exact ones, narrow problems: " + ", ".join(lines) + "."


def rests_on(record: Record) -> str:
    """How much was run, on what."""
    asked = len(study.tasks(True, None))
    commits = ", ".join(f"{name} ({count})" for name, count in record["commits"].items())
    return (
        f"From the record of `studies/rounds.py`: {record['tasks']} of {asked} tasks,"
        f" {record['cpu_seconds'] / 3600:.1f} CPU hours, {record['date']}, code {commits}, {record['machine']}."
        " `python studies/rounds.py --full` adds what is missing, `tools/rounds_page.py` writes this page."
        " Settings were chosen on other problems (`studies/rounds_development.py`) and frozen before these seeds were"
        " run. Rows that the frozen code repeats to the last digit are older. Each seed has another place (x_o in the"
        " cheap, middle or expensive part of the prior); plain NPE is one fit for all three."
    )


def page(record: Record) -> str:
    """The whole page."""
    problems = table(["problem", "parameters", "outputs", "modes", "posterior"], [
        [made.name, str(made.prior.dim), str(len(made.x_o("middle"))), str(made.modes),
         "narrow" if made.narrow else "wide"] for made in map(find_problem, study.TEST)])  # fmt: skip
    narrow = "Narrow: the posterior's volume is below 1e-3 of the prior's at all three places."
    parts = [HEAD, "## When to use what", decide(record), HOW, "## What was measured", rests_on(record), problems,
             narrow, "### What rounds should do, and whether they did", promises(record), "### All figures",
             study.text(record), f"![C2ST by problem and arm]({FIGURE})"]  # fmt: skip
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def take(folder: Path) -> None:
    """Copy record and figure of a full run to where the page looks for them."""
    made = folder / "rounds-full"
    shutil.copyfile(made / "rounds.json", RESULT)
    shutil.copyfile(made / "rounds.png", PAGE.parent / FIGURE)


def main(argv: list[str] | None = None) -> None:
    """Write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--take", type=Path, help="folder with the results of full runs")
    options = parser.parse_args(argv)
    if options.take:
        take(options.take)
    PAGE.write_text(page(json.loads(RESULT.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
