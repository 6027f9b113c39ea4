"""What budgets overrun, and what a plan that is asked for again costs.

    python benchmarks/budgets.py [seeds]

1. Overrun as a share of the budget, where the cost given to `plan` is 1, 20 and 1000 times too low, in this process and
   with two workers: cost 1000 exp(2 theta) over Uniform(0, 3), 40 pilots, a budget of 20 million.
2. CPU seconds of `plan(n=...)` called again at 100,000 runs, with cost-aware and with plain draws.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings

import numpy as np

import thrifty as th

BUDGET, RUNS = 20_000_000, 100_000


def thousand(theta, rng):
    return th.Output(theta[:1] + rng.normal(), cost=1000 * float(np.exp(2 * theta[0])))


def measure_overrun(factor: float, seed: int, **where) -> float:
    with tempfile.TemporaryDirectory() as home:
        c = th.Campaign(home + "/c", thousand, th.Uniform(0, 3), seed=seed, cost="reported", unit="credits")
        c.pilot(40, engine=th.Inline(), progress="quiet")
        c.plan(budget=f"{BUDGET} credits", cost=lambda x: 1000 / factor * np.exp(2 * x[:, 0]))
        return c.run(progress="quiet", **where).spent / BUDGET - 1


def overruns(seeds: int) -> None:
    print(f"one run of the most expensive costs {1000 * np.exp(6) / BUDGET:.1%} of the budget")
    for label, where in (("inline", {"engine": th.Inline()}), ("2 workers", {"workers": 2})):
        for factor in (1, 20, 1000):
            found = [measure_overrun(factor, seed, **where) for seed in range(seeds)]
            print(f"{label:10}{factor:5}x too low: overrun mean {np.mean(found):+.2%}, most {max(found):+.2%}")


def plan_again(rate: float) -> None:
    def simulate(theta, rng):
        return th.Output(theta + rng.normal(size=2), cost=float(np.exp(rate * theta[0]) * rng.lognormal(0, 0.2)))

    with tempfile.TemporaryDirectory() as home:
        prior = th.Uniform([0, 0], [1, 1])
        c = th.Campaign(home + "/c", simulate, prior, seed=1, cost="reported", unit="credits")
        c.pilot(200, engine=th.Inline(), progress="quiet")
        c.plan(n=RUNS)
        c.run(engine=th.Inline(), progress="quiet")
        begin = time.process_time()
        plan = c.plan(n=RUNS)
        print(f"plan again at {RUNS:,} runs, penalty {plan.penalty}: {time.process_time() - begin:.4f} CPU s")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    overruns(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    plan_again(3.0)
    plan_again(0.0)
