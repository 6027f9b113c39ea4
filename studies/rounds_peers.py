"""Beside `th.Rounds`: sbi's sequential methods with their own defaults, and plain NPE on runs from the prior.

    python studies/rounds_peers.py lotka_volterra --n 400   # each once: cost, CPU seconds, accuracy

    snle     NLE in rounds, a masked autoregressive flow, proposals and draws by vectorised slice sampling
    snpe_c   NPE with atomic proposals (APT)
    tsnpe    NPE on the prior truncated to the posterior's region of 1 - 1e-4 of its mass

Those of sbi are the benchmark's (`thrifty.benchmark.methods.sbi_methods`, which names the two settings that are not
sbi's defaults), but take n runs in four equal rounds, whatever these cost, and give DRAWS draws at one observation.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from rounds_development import find_problem, read_reference

import thrifty as th
from thrifty.benchmark import PLACES, Meter, Problem, measure
from thrifty.benchmark.methods.sbi_methods import draw_from, fit_in_rounds, silence
from thrifty.types import Array

DRAWS = 1_000
PEERS = {
    "snle": fit_in_rounds("NLE", truncated=False, by_count=True),
    "snpe_c": fit_in_rounds("NPE_C", truncated=False, by_count=True),
    "tsnpe": fit_in_rounds("NPE_C", truncated=True, by_count=True),
}


@dataclass(frozen=True)
class Result:
    """What a method gave.

    Attributes:
        draws: By place, (DRAWS, p).
        cost: Of all runs.
        runs: Their number.
        seconds: CPU seconds without the simulator's, one thread.
    """

    draws: dict[str, Array]
    cost: float
    runs: int
    seconds: float


def plain_npe(made: Problem, n: int, seed: int, places: Any = tuple(PLACES), method: Any = None) -> Result:
    """Thrifty's NPE (or another method) on n prior runs: one fit, draws at all places."""
    sims = made.simulate_many(made.prior.sample(n, np.random.default_rng([seed, 1])), seed)
    begin = time.process_time()
    posterior = (method or th.NPE(made.prior)).fit(sims, seed=seed)
    draws = {place: posterior.sample(DRAWS, made.x_o(place), seed=seed) for place in places}
    return Result(draws, float(sims.cost.sum()), n, time.process_time() - begin)


def run_peer(name: str, made: Problem, place: str, n: int, seed: int) -> Result:
    """Take n runs in equal rounds by a method of sbi at the observation of a place."""
    meter, begin = Meter(made, seed), time.process_time()
    fitted = PEERS[name](meter, made.x_o(place), n, seed)
    with silence():  # `SbiPosterior.sample` would seed again: these draws go on with the numbers of the fit
        draws = draw_from(fitted.posterior, DRAWS).double().numpy()
    return Result({place: draws}, meter.cost, meter.runs, time.process_time() - begin - meter.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("--n", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--places", nargs="*", default=["middle"])
    parser.add_argument("--methods", nargs="*", default=[*PEERS, "npe"])
    args = parser.parse_args()
    made = find_problem(args.name)
    for method in args.methods:
        results = (
            [plain_npe(made, args.n, args.seed, args.places)]
            if method == "npe"
            else [run_peer(method, made, place, args.n, args.seed) for place in args.places]
        )
        for result in results:
            for place, draws in result.draws.items():
                found = measure(draws, read_reference(args.name, place), modes=made.modes)
                text = ", ".join(f"{key} {value:.3f}" for key, value in found.row().items())
                print(f"{args.name} {place} {method} n = {args.n}: {text}; cost {result.cost:.0f},"
                      f" {result.seconds:.0f} CPU s", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
