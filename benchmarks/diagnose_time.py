"""CPU seconds of `th.diagnose` for a posterior of every method, with 5,000 runs of temporal SIR: all within 60.

    python benchmarks/diagnose_time.py [--runs 5000] [--only NLE]

Synthetic likelihoods and scoring rules have 20 runs for each of 250 parameters. At most 300 held-out runs are used,
with 100 draws at each. Needs the extras neural and models.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from problems import PROBLEMS

import thrifty as th

REPEATS = 20  # runs per parameter of methods that need several
METHODS: dict[str, Callable[[Any], Any]] = {
    "NPE": th.NPE,
    'NPE, correction="after"': lambda prior: th.NPE(prior, correction="after"),
    "NLE": th.NLE,
    "NRE": th.NRE,
    "Ensemble of NPE": lambda prior: th.Ensemble(th.NPE(prior, network=th.MAF()), members=3),
    "ABC": th.ABC,
    "SyntheticLikelihood": th.SyntheticLikelihood,
    "ScoringRule": th.ScoringRule,
}
WITH_REPEATS = ("SyntheticLikelihood", "ScoringRule")
LIMITED = ("SyntheticLikelihood",)  # 91 CPU s without a limit: the default limit leaves held-out runs out, and says so


def make_runs(n: int, m: int, seed: int) -> tuple[Any, th.Simulations, np.ndarray]:
    """Prior, cost-aware runs of n/m parameters with m realisations each, and an observation."""
    problem, rng = PROBLEMS["temporal_sir"](), np.random.default_rng(seed)
    proposal = th.CostAware(problem.prior, lambda theta: 1 + theta[:, 0] / theta[:, 1], th.Power(0.5))
    draws = proposal.sample(n // m, rng)
    x = problem.simulate(np.repeat(draws.theta, m, axis=0), rng)
    x = x if m == 1 else x.reshape(len(draws), m, -1)
    runs = th.Simulations.from_arrays(theta=draws.theta, x=x, m=m, proposal=proposal, names=problem.prior.names)
    return problem.prior, runs, problem.simulate(problem.prior.sample(1, rng), rng)[0]


def measure(name: str, n: int, seed: int = 0) -> tuple[float, th.diagnostics.Diagnosis]:
    """CPU seconds of one diagnosis, and the diagnosis; the fit is not counted."""
    prior, runs, x_o = make_runs(n, REPEATS if name in WITH_REPEATS else 1, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = METHODS[name](prior).fit(runs, seed=seed)
        began = time.process_time()
        # a busy machine must leave nothing out where all of it fits into the minute
        limit = {} if name in LIMITED else {"time_limit": None}
        found = th.diagnose(posterior, runs, x_o, prior=prior, **limit)
    return time.process_time() - began, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--only", default="", help="part of the name of the method")
    given = parser.parse_args()
    print("| method | CPU s | held-out runs | left out |\n|---|---|---|---|")
    for name in (name for name in METHODS if given.only in name):
        seconds, found = measure(name, given.runs)
        pairs = len(found["sbc"].ranks) if "sbc" in {check.name for check in found} else 0
        print(f"| {name} | {seconds:.1f} | {pairs} | {'; '.join(found.notes) or 'nothing'} |", flush=True)


if __name__ == "__main__":
    main()
