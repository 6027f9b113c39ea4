"""How often `th.diagnose` trusts a right posterior and distrusts a wrong one, in closed form: no network is trained.

    python benchmarks/verdicts.py                   a quick look: 4 seeds, seconds a cell, nothing is written
    python benchmarks/verdicts.py --full            all seeds, resumable, into benchmarks/results/verdicts.jsonl
    python benchmarks/verdicts.py --page            write the table of docs/diagnostics.md from those records

theta ~ N(0, I_p), each parameter measured once (twice where p = 1) with noise 1.5 or 0.3, x_o from the model. Runs are
plain draws, or draws tilted towards cheap parameters: log weight theta_1, so that n runs count as 0.37 n. As for a
network, a tenth of the runs is held out (all where that is fewer than 100). The posterior is exact, or has one fault.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import thrifty as th

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks" / "results" / "verdicts.jsonl"
PAGE = ROOT / "docs" / "diagnostics.md"
DIMS, SIZES = (1, 2, 4, 6, 10, 20), (300, 3_000, 30_000)
NOISE, LITTLE_NOISE, TILT = 1.5, 0.3, 1.0  # sd of x given theta; slope of the log weight in theta_1
FIRST_SEED, BLOCK = 10_000, 20  # fresh seeds begin here (development used those below); seeds of one record
COST_AWARE_SEED = 50_000  # of all posteriors on cost-aware runs: ranks under the proposal came after 10,000 to 10,039
LATER_SEEDS = {"exact, little noise": 30_000}  # 10,000 to 10,039 showed a false alarm of local_ess, which was removed
HELD_OUT_SHARE, MIN_HELD_OUT = 0.1, 100


@dataclass(frozen=True)
class Exact:
    """The posterior of the linear Gaussian model, with one fault or none."""

    dim: int
    shift: float = 0.0  # of the first `shifted` parameters, in posterior sd
    shifted: int = 99
    width: float = 1.0
    prior_mean: float = 0.0  # of theta_1: -TILT is what forgetting the weights gives
    noise: float = NOISE
    seen: float = 1.0  # share of the outputs that it looks at; 0 is the prior itself

    def moments(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd (k, p) at outputs (k, d)."""
        x = np.atleast_2d(np.asarray(x, dtype=float))
        seen = x[:, : round(self.seen * x.shape[1])]
        counts = np.bincount(np.arange(seen.shape[1]) % self.dim, minlength=self.dim)
        sums = np.zeros((len(x), self.dim))
        for j in range(seen.shape[1]):
            sums[:, j % self.dim] += seen[:, j]
        precision = 1 + counts / self.noise**2
        start = np.zeros(self.dim)
        start[0] = self.prior_mean
        sd = 1 / np.sqrt(precision)
        mean = (start + sums / self.noise**2) / precision + self.shift * sd * (np.arange(self.dim) < self.shifted)
        return mean, np.broadcast_to(self.width * sd, mean.shape)

    def sample_batched(self, n: int, x: Any, *, seed: int) -> np.ndarray:
        """Draws (k, n, p) at outputs (k, d)."""
        mean, sd = self.moments(x)
        return mean[:, None] + sd[:, None] * np.random.default_rng(seed).normal(size=(len(mean), n, self.dim))

    def sample(self, n: int, x_o: Any, *, seed: int) -> np.ndarray:
        """Draws (n, p) at one output."""
        return self.sample_batched(n, x_o, seed=seed)[0]

    def log_prob(self, theta: Any, x_o: Any) -> np.ndarray:
        """Log density (n,) at theta (n, p)."""
        mean, sd = self.moments(x_o)
        return -0.5 * (((np.asarray(theta) - mean) / sd) ** 2).sum(1) - np.log(sd).sum()

    @property
    def prior(self) -> Any:
        """The prior."""
        return th.Normal(np.zeros(self.dim), np.ones(self.dim))


# posterior -> (its fault, slope of the log weight of the runs, sizes, seeds)
FAULTS: dict[str, tuple[dict[str, float], float, tuple[int, ...], int]] = {
    "exact, plain draws": ({}, 0.0, SIZES, 200),
    "exact, little noise": ({"noise": LITTLE_NOISE}, 0.0, SIZES, 100),
    "exact, cost-aware draws": ({}, TILT, SIZES, 200),
    "shifted by 0.8 sd": ({"shift": 0.8}, TILT, SIZES[1:], 100),
    "narrowed to 0.6": ({"width": 0.6}, TILT, SIZES[1:], 100),
    "weights ignored": ({"prior_mean": -TILT}, TILT, SIZES[1:], 100),
    "the prior": ({"seen": 0.0}, TILT, SIZES[1:], 100),
    "half-blind": ({"seen": 0.5}, TILT, SIZES[1:], 100),
    "one parameter shifted": ({"shift": 0.8, "shifted": 1}, TILT, SIZES[1:], 100),
}


def simulate(n: int, dim: int, tilt: float, rng: np.random.Generator, noise: float = NOISE) -> th.Simulations:
    """Runs of a campaign: theta_1 ~ N(-tilt, 1), the others N(0, 1); log weights tilt * theta_1."""
    theta = rng.normal(size=(n, dim))
    theta[:, 0] -= tilt
    return th.Simulations.from_arrays(theta=theta, x=observe(theta, rng, noise), log_weights=tilt * theta[:, 0])


def observe(theta: np.ndarray, rng: np.random.Generator, noise: float = NOISE) -> np.ndarray:
    """Outputs (n, max(p, 2)) of parameters (n, p)."""
    means = theta if theta.shape[1] > 1 else np.repeat(theta, 2, axis=1)
    return means + noise * rng.normal(size=means.shape)


def judge(name: str, dim: int, n: int, seed: int) -> th.diagnostics.Diagnosis:
    """Diagnose one posterior on one table."""
    fault, tilt, _, _ = FAULTS[name]
    rng = np.random.default_rng([seed, dim, n])
    noise = fault.get("noise", NOISE)
    runs = simulate(n, dim, tilt, rng, noise)
    held_out = runs[: int(HELD_OUT_SHARE * n)] if HELD_OUT_SHARE * n >= MIN_HELD_OUT else runs
    x_o = observe(rng.normal(size=(1, dim)), rng, noise)[0]
    return th.diagnose(Exact(dim, **fault), runs, x_o, held_out=held_out, seed=seed)  # type: ignore[arg-type]


def run_block(name: str, dim: int, n: int, seeds: range) -> dict[str, Any]:
    """Judge one posterior over some seeds: the record."""
    began = time.process_time()
    found = [judge(name, dim, n, seed) for seed in seeds]
    against = Counter(a.question for d in found for a in d.answers if a.verdict != "trust" and a.decides)
    verdicts = Counter(d.verdict for d in found)
    seconds = round(time.process_time() - began, 2)
    key = {"posterior": name, "parameters": dim, "runs": n, "first_seed": seeds.start, "seeds": len(seeds)}
    return key | {"verdicts": dict(verdicts), "against": dict(against), "cpu_seconds": seconds}


def list_blocks() -> Iterator[tuple[str, int, int, range]]:
    """All blocks of the full table, the first seeds of every posterior before the other seeds of any."""
    most = max(seeds for _, _, _, seeds in FAULTS.values())
    for past in range(0, most, BLOCK):
        for name, (_, tilt, sizes, seeds) in FAULTS.items():
            first = LATER_SEEDS.get(name, COST_AWARE_SEED if tilt else FIRST_SEED) + past
            if past < seeds:
                yield from ((name, dim, n, range(first, first + BLOCK)) for n in sizes for dim in DIMS)


def read_records(path: Path = RECORDS) -> list[dict[str, Any]]:
    """Records that were written."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run_all() -> None:
    """Run every block that has no record yet."""
    done = {(r["posterior"], r["parameters"], r["runs"], r["first_seed"]) for r in read_records()}
    RECORDS.parent.mkdir(exist_ok=True)
    for name, dim, n, seeds in list_blocks():
        if (name, dim, n, seeds.start) in done:
            continue
        record = run_block(name, dim, n, seeds)
        with RECORDS.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(record, flush=True)


def make_table(records: list[dict[str, Any]]) -> str:
    """The table of the documentation: share of seeds with the right verdict."""
    lines = [
        f"| posterior | runs | seeds | {' | '.join(f'p = {dim}' for dim in DIMS)} |",
        "|---|---|---|" + "---|" * len(DIMS),
    ]
    for name, (_, _, sizes, _) in FAULTS.items():
        for n in sizes:
            cells, seeds = [], set()
            for dim in DIMS:
                own = [r for r in records if (r["posterior"], r["parameters"], r["runs"]) == (name, dim, n)]
                count, trusted = (
                    sum(f(r) for r in own) for f in (lambda r: r["seeds"], lambda r: r["verdicts"].get("trust", 0))
                )
                right = trusted if name.startswith("exact") else count - trusted
                cells.append(f"{right / count:.1%}" if count else "–")
                seeds.add(count)
            lines.append(f"| {name} | {n:,} | {'–'.join(str(s) for s in sorted(seeds))} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write_page() -> None:
    """Put the table between the marks of docs/diagnostics.md."""
    records = read_records()
    seconds = sum(r["cpu_seconds"] for r in records)
    text = make_table(records) + f"\n\n({len(records)} records, {seconds / 60:.0f} CPU minutes.)"
    page = PAGE.read_text()
    pattern = r"(<!-- verdicts: made by benchmarks/verdicts.py -->\n).*?(<!-- end of verdicts -->)"
    PAGE.write_text(re.sub(pattern, lambda found: found[1] + text + "\n" + found[2], page, flags=re.DOTALL))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all seeds, into the records")
    parser.add_argument("--page", action="store_true", help="write the table of the documentation")
    parser.add_argument("--seeds", type=int, default=4, help="development seeds of the quick look")
    parser.add_argument("--only", default="", help="part of the name of the posterior")
    settings = parser.parse_args()
    if settings.page:
        write_page()
    elif settings.full:
        run_all()
    else:
        blocks = [(name, dim, n) for name, (_, _, sizes, _) in FAULTS.items() for n in sizes for dim in DIMS]
        records = [run_block(*b, range(settings.seeds)) for b in blocks if settings.only in b[0]]
        for record in records:
            print(record, flush=True)
        print(make_table(records), f"\n{sum(r['cpu_seconds'] for r in records):.0f} CPU seconds")


if __name__ == "__main__":
    sys.exit(main())
