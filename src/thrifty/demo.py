"""`make demo`: the whole way on a built-in model, from timed pilot to posterior, in about a minute.

The temporal SIR model of the paper: outbreaks in a population of 1000, cost counted in events, so that the figures
are the same on every machine. The pieces are the public ones; copy them for a simulator of your own.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console

import thrifty as th

PILOTS, RUNS = 200, 2000


def main() -> None:
    """Plan, run and infer, saying at each step what is done and what it costs."""
    console = Console()
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="thrifty-demo-")) / "temporal-sir"
    model = th.models.TemporalSIR()
    console.rule("[bold]thrifty: the temporal SIR model")
    console.print(f"Where is (infection rate, removal rate)? Each run costs its number of events. Folder: {folder}\n")

    campaign = th.Campaign(folder, model.run, model.prior, seed=1, cost="reported", unit="events")
    console.print(f"[bold]1. pilot[/]: {PILOTS} runs from the prior, their cost recorded")
    pilot = campaign.pilot(PILOTS)
    console.print(f"   {pilot.spent:,.0f} events spent, {pilot.failed} runs failed\n")

    console.print("[bold]2. plan[/]: learn the cost, weigh the penalties, test the weights; no run is spent on this")
    plan = campaign.plan(n=RUNS)
    console.print(f"   cost model: {plan.cost}")
    console.print(plan.table)
    console.print(f"   self-check: weighted draws reproduce the prior, p = {plan.p_value:.2g}")
    console.print(
        f"   {RUNS:,} runs: {plan.total:,.0f} events under {plan.penalty}, {plan.plain:,.0f} with plain sampling\n"
    )

    console.print("[bold]3. run[/]: every run is on disk as it finishes; kill it and call run() again, nothing is lost")
    status = campaign.run()
    simulations = campaign.simulations()
    console.print(f"   {status}\n")

    console.print("[bold]4. infer[/]: neural posterior estimation, weighted as if the prior had been sampled")
    posterior = th.NPE(model.prior).fit(simulations, seed=0)
    draws = posterior.sample(2000, model.observed(3), seed=0)
    for name, truth, column in zip(model.names, model.theta_true, draws.T, strict=True):
        low, middle, high = np.quantile(column, [0.05, 0.5, 0.95])
        console.print(f"   {name:<6} {middle:.2f}  (90 %: {low:.2f} to {high:.2f})   truth {truth:g}")
    console.print(f"\ndone in {time.monotonic() - began:.0f} s. Read the runs again: th.Campaign.open({str(folder)!r})")


if __name__ == "__main__":
    main()
