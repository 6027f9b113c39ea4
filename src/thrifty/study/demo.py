"""`make demo`: the whole journey on a built-in model, killed on the way, from quote to report.

The temporal SIR model of the paper: outbreaks in a population of 1000, cost counted in events, so that the figures
are the same on every machine. The pieces are the public ones; copy them for a simulator of your own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console

import thrifty as th
from thrifty.campaign.outcome_table import table_hash
from thrifty.diagnostics import Diagnosis
from thrifty.report import write
from thrifty.report.results import Result, save_result
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Posterior

PILOTS, RUNS = 200, 2000
KILL_AT = 0.4  # share of the planned runs after which the driver is killed
MODEL = th.models.TemporalSIR()


def campaign(folder: Path) -> th.Campaign:
    """The demo's campaign over a folder, new or begun."""
    return th.Campaign(folder, MODEL.run, MODEL.prior, seed=1, cost="reported", unit="events")


def main(arguments: list[str]) -> None:
    """Plan, run, be killed, go on, infer, check and report; or, as the child of this, only run."""
    if arguments[:1] == ["--drive"]:
        campaign(Path(arguments[1])).run(progress="quiet")
        return
    console, began = Console(highlight=False), time.monotonic()
    home = Path(arguments[0]) if arguments else Path(tempfile.mkdtemp(prefix="thrifty-demo-"))
    folder = home / "temporal-sir"
    console.rule("[bold]thrifty: the temporal SIR model")
    console.print("Where are infection rate and removal rate, given one outbreak? A run costs its number of events.\n")
    plan(console, folder)
    kill_and_resume(console, folder)
    compare_with_calm(console, folder, home / "undisturbed")
    simulations = campaign(folder).simulations()
    x_o = MODEL.observed(3)
    posterior, diagnosis = infer(console, folder, simulations, x_o)
    compare_with_plain(console, simulations, posterior, x_o)
    console.print("[bold]7. report[/]: one file, opens offline")
    path = write(home / "report.html", folder, command="make demo")
    console.print(f"   {path} ({path.stat().st_size / 1e6:.1f} MB)\n")
    console.print(f"done in {time.monotonic() - began:.0f} s; verdict: {diagnosis.verdict}. Runs: {folder}")


def plan(console: Console, folder: Path) -> None:
    """Pilot, cost model, trade-off, self-check: the quote."""
    c = campaign(folder)
    console.print(f"[bold]1. pilot[/]: {PILOTS} runs from the prior, their cost recorded")
    pilot = c.pilot(PILOTS, progress="quiet")
    console.print(f"   {pilot.spent:,.0f} events spent, {pilot.failed} runs failed\n")
    console.print("[bold]2. plan[/]: learn the cost, weigh the penalties, test the weights; no run is spent on this")
    made = c.plan(n=RUNS)
    console.print(f"   cost model: {made.cost}")
    console.print(made.table)
    console.print(f"   self-check: weighted draws reproduce the prior, p = {made.p_value:.2g}")
    console.print(
        f"   {RUNS:,} runs: {made.total:,.0f} events under {made.penalty}, {made.plain:,.0f} with plain sampling\n"
    )


def kill_and_resume(console: Console, folder: Path) -> None:
    """Run in a child process, kill it without warning, and go on."""
    console.print(f"[bold]3. run[/]: in a process of its own, killed with SIGKILL at {KILL_AT:.0%}")
    log = folder.with_name("driver.log")
    with log.open("wb") as file:  # what Python says when it is killed is no part of the story
        child = subprocess.Popen(
            [sys.executable, "-m", "thrifty.study.demo", "--drive", str(folder)], start_new_session=True, stderr=file
        )
    reader = th.Campaign.open(folder)
    while child.poll() is None and reader.status().done < PILOTS + KILL_AT * RUNS:
        time.sleep(0.02)
    killed = child.poll() is None
    if killed:
        os.kill(child.pid, signal.SIGKILL)
    child.wait()
    safe = reader.status().done - PILOTS
    if not killed and child.returncode:
        raise SystemExit(f"the driver failed by itself:\n{log.read_text()}")
    ending = f"killed (exit {child.returncode})" if killed else "finished before it could be killed"
    console.print(f"   {ending}; {safe:,} of {RUNS:,} runs are safe on disk")
    status = campaign(folder).run(progress="quiet")
    console.print(f"   resumed: {status.done - PILOTS:,} of {RUNS:,}; {status.failed} failed\n")


def compare_with_calm(console: Console, folder: Path, calm: Path) -> None:
    """The same campaign without a kill has the same table, bit for bit."""
    c = campaign(calm)
    c.pilot(PILOTS, progress="quiet")
    c.plan(n=RUNS)
    c.run(progress="quiet")
    hashes = [table_hash(th.Campaign.open(place).simulations()) for place in (folder, calm)]
    console.print("[bold]4. compare[/]: hash of parameters, outputs, statuses and weights")
    for word, value in zip(("killed and resumed", "undisturbed"), hashes, strict=True):
        console.print(f"   {word:<19}{value}")
    if hashes[0] != hashes[1]:
        raise SystemExit("   the tables differ: this is a bug in thrifty, please report it")
    console.print("   equal: nothing was lost and nothing is different\n")


def infer(console: Console, folder: Path, simulations: Simulations, x_o: Array) -> tuple[Posterior, Diagnosis]:
    """Weighted NPE, all checks, and the result kept beside the runs."""
    console.print("[bold]5. infer[/]: neural posterior estimation, weighted as if the prior had been sampled")
    began = time.monotonic()
    posterior = th.NPE(MODEL.prior).fit(simulations, seed=0)
    seconds = time.monotonic() - began
    draws = posterior.sample(2000, x_o, seed=0)
    for line in quantiles(draws):
        console.print(f"   {line}")
    diagnosis = th.diagnose(posterior, simulations, x_o)
    for check in diagnosis:
        console.print(f"   {check.verdict:<13} {check.name:<17} {check.reason}", soft_wrap=True)
    console.print()
    result = Result(
        name="npe", method="NPE", posterior_path=None, x_o=x_o, samples=draws, log_weights=None, names=MODEL.names,
        diagnosis=diagnosis.to_dict(), seconds=seconds,
    )  # fmt: skip
    save_result(folder, result, posterior)
    return posterior, diagnosis


def compare_with_plain(console: Console, simulations: Simulations, posterior: Posterior, x_o: Array) -> None:
    """As many plain runs as the campaign has effective ones: what they cost, and what they say."""
    effective = round(th.ess(simulations.valid().log_weights))
    console.print(f"[bold]6. against plain sampling[/]: {effective:,} runs from the prior, worth as much")
    theta = MODEL.prior.sample(effective, np.random.default_rng(2))
    plain = MODEL.simulate_many(theta, seed=2)
    spent, cost = float(plain.cost.sum()), float(np.nansum(simulations.cost))
    word = "less" if cost < spent else "more"
    console.print(
        f"   plain {spent:,.0f} events; thrifty {cost:,.0f} with its pilot: {abs(1 - cost / spent):.0%} {word}"
    )
    other = th.NPE(MODEL.prior).fit(plain, seed=0)
    for label, fitted in (("thrifty", posterior), ("plain", other)):
        for line in quantiles(fitted.sample(2000, x_o, seed=0)):
            console.print(f"   {label:<8} {line}")
    console.print()


def quantiles(draws: Array) -> list[str]:
    """Median and central 90 % of each parameter, with the truth behind the observation."""
    lines = []
    for name, truth, column in zip(MODEL.names, MODEL.theta_true, draws.T, strict=True):
        low, middle, high = np.quantile(column, [0.05, 0.5, 0.95])
        lines.append(f"{name:<6} {middle:.2f}  (90 %: {low:.2f} to {high:.2f})   truth {truth:g}")
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
