"""Cost-aware against plain sampling at the same CPU seconds, on the simulators of the notebooks in `examples/`.

    python benchmarks/equal_budgets.py genomes [--seeds 5]      what has no record yet
    python benchmarks/equal_budgets.py                          the same for every notebook of SETTINGS, with its seeds
    python benchmarks/equal_budgets.py --company                what short runs of genomes take beside long ones (below)

The simulator is that of the notebook: its cell with the tag `simulator`; one that compiles a program in the shell is
run on the files that the notebook writes, and `thrifty.toml` says what the program takes. Each seed is one line of
`benchmarks/records/equal_budgets.jsonl`. An arm is a campaign with the same pilot and budget, plain (penalty 0) or
cost-aware (the default), and the line keeps for each

    quoted, done     runs, cost of a run, share of effective runs: what the quote said, what happened after the pilot
    log_density      mean log density of NPE (the same settings) at the parameters of prior runs that no arm saw, over
                     all of them and for the cheap, middle and expensive third of them by measured cost

and the same log densities of sbi's NPE on the plain runs. Runs are made in a worker process, as by default: in the
process that trains networks, Python's garbage collector looks through all that they left, so that the second arm of
a simulator of many small objects (`habits`) seemed to cost 8 ± 2% more. `tools/benchmarks_page.py` writes the
records into the docs. Needs the extras neural and examples, and sbi.

`--company` writes `benchmarks/records/company.json`: the CPU seconds of the same short runs of genomes between the
others of a pilot, between themselves, and after pauses.
"""

from __future__ import annotations

import argparse
import atexit
import json
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import thrifty as th
from thrifty.benchmark.benchmark_run import describe_run
from thrifty.benchmark.records import append_lines, read_whole_lines, shorten
from thrifty.benchmark.task_runner import hold_alone

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks" / "records" / "equal_budgets.jsonl"
COMPANY = RECORDS.with_name("company.json")
THIRDS = ("cheap", "middle", "expensive")
HELD_OUT_SEED = 90_001  # of the prior runs behind the log densities

sys.path.insert(0, str(ROOT / "tools"))


@dataclass(frozen=True)
class Setting:
    """Pilot runs, the budget of an arm, the number of held-out prior runs, and seeds."""

    pilots: int
    budget: str
    held_out: int
    seeds: int


SETTINGS = {
    "genomes": Setting(40, "20 cpu-s", 450, 5),
    "gene-expression": Setting(40, "16 cpu-s", 240, 3),
    "planets": Setting(40, "16 cpu-s", 240, 3),
    "fire-in-c": Setting(40, "8 cpu-s", 300, 3),
    "habits": Setting(40, "10 cpu-s", 150, 5),
    "predators": Setting(40, "10 cpu-s", 300, 3),
}


@cache
def read_simulator(name: str) -> tuple[dict[str, Any], str]:
    """Run the cell of a notebook that defines its simulator; return its names and its hash."""
    from notebook_pages import EXAMPLES, SHELL, find_simulator, hash_simulator, list_code, read_notebook

    cells = list_code(read_notebook(EXAMPLES / f"{name}.ipynb"))
    files, source = find_simulator(cells)
    if source.startswith(SHELL):
        return build_program(files, source), hash_simulator(cells)
    found: dict[str, Any] = {"__name__": "__main__"}  # as in the notebook
    exec(compile(source, f"{name}.ipynb", "exec"), found)
    return found, hash_simulator(cells)


def build_program(files: list[str], script: str) -> dict[str, Any]:
    """Write the files of a notebook, run its cell of the shell, and load what `thrifty.toml` describes."""
    from thrifty.cli.config import read_config
    from thrifty.cli.simulator_loading import load_simulator

    folder = Path(tempfile.mkdtemp(prefix="thrifty-program-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for cell in files:
        head, _, text = cell.partition("\n")
        (folder / head.split()[1]).write_text(text, encoding="utf-8")
    subprocess.run(["bash", "-e", "-c", script.partition("\n")[2]], cwd=folder, check=True, capture_output=True)
    settings = read_config(folder / "thrifty.toml")
    return {"simulate": load_simulator(settings), "prior": settings.prior}


def compare(name: str, seed: int) -> dict[str, Any]:
    """Spend the budget in both arms once; return what each did, and what its quote said."""
    begin, setting = time.process_time(), SETTINGS[name]
    model, code = read_simulator(name)
    arms, tables = {}, {}
    for arm, penalty in (("plain", 0.0), ("aware", None)):
        arms[arm], tables[arm] = run_arm(model["simulate"], model["prior"], setting, seed, penalty)
    held_out = run_held_out(name)
    for arm, sims in tables.items():
        posterior = th.NPE(model["prior"]).fit(sims, seed=seed)
        scores = posterior.log_prob_batched(held_out.theta[:, None], held_out.x)[:, 0]
        arms[arm]["log_density"] = average_by_third(scores, held_out.cost)
    scores = score_sbi(model["prior"], tables["plain"], held_out, seed)
    arms["sbi"] = {"log_density": average_by_third(scores, held_out.cost)}
    return {
        "example": name, "seed": seed, "budget": setting.budget, "pilots": setting.pilots, "held_out": setting.held_out,
        **arms, "cpu_seconds": time.process_time() - begin, "simulator": code, **describe_run(),
    }  # fmt: skip


def run_arm(
    simulate: Any, prior: Any, setting: Setting, seed: int, penalty: float | None
) -> tuple[dict[str, Any], th.Simulations]:
    """Run one campaign under a budget; what its quote said, what it did, and its runs."""
    with tempfile.TemporaryDirectory(prefix="thrifty-equal-") as folder:
        campaign = th.Campaign(Path(folder) / "runs", simulate, prior, seed=seed)
        campaign.pilot(setting.pilots, engine=th.Processes(1), progress="quiet")
        quote = campaign.quote(budget=setting.budget, penalty=penalty)
        campaign.plan(budget=setting.budget, penalty=penalty)
        campaign.run(engine=th.Processes(1), progress="quiet")
        sims = campaign.simulations()
    row, new = quote.chosen, sims[sims.index >= setting.pilots]
    own_weights = th.CostAware(prior, quote.cost, row.penalty).log_weight(new.theta)
    quoted = {
        "runs": quote.runs(row),
        "cost_per_run": row.cost,
        "effective_share": row.ess_fraction,
        "saved": row.saved,
        "saved_per_effective": row.saved_per_effective,
    }
    done = {
        "runs": len(new),
        "cost_per_run": float(new.cost.mean()),
        "effective_share": float(th.ess(own_weights) / len(new)),
        "pilot_seconds": float(sims.cost.sum() - new.cost.sum()),
        "seconds": float(sims.cost.sum()),
        "effective_with_pilot": float(th.ess(sims.log_weights)),
    }
    return {"quoted": quoted, "done": done}, sims


@cache
def run_held_out(name: str) -> th.Simulations:
    """Run prior draws that no arm sees."""
    model, _ = read_simulator(name)
    theta = model["prior"].sample(SETTINGS[name].held_out, np.random.default_rng(HELD_OUT_SEED))
    draws = th.Draws(theta=theta, names=model["prior"].names)
    return th.simulate(model["simulate"], draws, seed=HELD_OUT_SEED, engine=th.Processes(1), progress="quiet")


def average_by_third(values: np.ndarray, cost: np.ndarray) -> dict[str, float]:
    """Average over all rows, and over the thirds of them by cost.

    Example:
        >>> average_by_third(np.array([1.0, 2.0, 6.0]), np.array([30.0, 10.0, 20.0]))
        {'all': 3.0, 'cheap': 2.0, 'middle': 6.0, 'expensive': 1.0}
    """
    parts = zip(THIRDS, np.array_split(np.argsort(cost), len(THIRDS)), strict=True)
    return {"all": float(values.mean())} | {third: float(values[rows].mean()) for third, rows in parts}


def score_sbi(prior: Any, sims: th.Simulations, held_out: th.Simulations, seed: int) -> np.ndarray:
    """Log densities (n,) of the held-out pairs under sbi's NPE with its defaults, normalised inside the prior."""
    import torch
    from sbi.inference import NPE

    from thrifty.benchmark.methods.sbi_methods import SbiPosterior, make_torch_prior, silence, to_tensor

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    with silence():
        trainer = NPE(prior=make_torch_prior(prior), show_progress_bars=False)
        trainer.append_simulations(to_tensor(sims.theta), to_tensor(sims.x)).train()
        posterior = SbiPosterior(trainer.build_posterior())
    return np.array(
        [posterior.log_prob(theta[None], x)[0] for theta, x in zip(held_out.theta, held_out.x, strict=True)]
    )


def measure_company(pilots: int = 40, short: int = 15, pause: float = 0.2, repeats: int = 5) -> dict[str, Any]:
    """Time the cheapest of some prior draws of genomes in three kinds of company; mean CPU seconds of each repeat."""
    model, code = read_simulator("genomes")
    theta = model["prior"].sample(pilots, np.random.default_rng(HELD_OUT_SEED))

    def run_later(values: np.ndarray, rng: np.random.Generator) -> Any:
        time.sleep(pause)
        return model["simulate"](values, rng)

    def time_runs(simulate: Any, rows: np.ndarray) -> np.ndarray:
        again = np.tile(rows, 4)  # the first time is a warm-up
        draws = th.Draws(theta=theta[again], names=model["prior"].names)
        sims = th.simulate(simulate, draws, seed=1, engine=th.Processes(1), progress="quiet")
        return sims.cost.reshape(4, -1)[1:].mean(0)

    everyone = np.arange(pilots)
    cheapest = np.sort(np.argsort(time_runs(model["simulate"], everyone))[:short])
    seconds: dict[str, list[float]] = {"others": [], "themselves": [], "pauses": []}
    for _ in range(repeats):
        seconds["others"].append(time_runs(model["simulate"], everyone)[cheapest].mean())
        seconds["themselves"].append(time_runs(model["simulate"], cheapest).mean())
        seconds["pauses"].append(time_runs(run_later, cheapest).mean())
    return {"pilots": pilots, "short": short, "pause": pause, "seconds": seconds, "simulator": code, **describe_run()}


def read_lines(path: Path = RECORDS) -> list[dict[str, Any]]:
    """Read the whole lines of the records; the last one of an example and a seed counts."""
    lines = [json.loads(line) for line in read_whole_lines(path)]
    return list({(line["example"], line["seed"]): line for line in lines}.values())


def has_setting(line: dict[str, Any]) -> bool:
    """Whether a line was made with the setting that its example has now; another one is made again."""
    now = SETTINGS[line["example"]]
    return (line["pilots"], line["budget"], line["held_out"]) == (now.pilots, now.budget, now.held_out)


def shorten_all(value: Any) -> Any:
    """Keep six digits of every number."""
    if isinstance(value, dict):
        return {key: shorten_all(part) for key, part in value.items()}
    return [shorten_all(part) for part in value] if isinstance(value, list) else shorten(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(SETTINGS))
    parser.add_argument("--seeds", type=int, help="by default those of each notebook's setting")
    parser.add_argument("--company", action="store_true", help="time short runs of genomes beside long ones")
    args = parser.parse_args()
    if args.company:
        COMPANY.write_text(json.dumps(shorten_all(measure_company()), indent=1) + "\n", encoding="utf-8")
        return
    warnings.simplefilter("ignore", th.ThriftyWarning)
    with hold_alone(Path(tempfile.gettempdir()) / "thrifty-equal-budgets.lock"):
        for name in args.names:
            done = {line["seed"] for line in read_lines() if line["example"] == name and has_setting(line)}
            for seed in sorted(set(range(1, (args.seeds or SETTINGS[name].seeds) + 1)) - done):
                line = compare(name, seed)
                append_lines(RECORDS, json.dumps(shorten_all(line)) + "\n")
                print(f"{name} seed {seed}: {line['cpu_seconds']:.0f} CPU s", flush=True)


if __name__ == "__main__":
    main()
