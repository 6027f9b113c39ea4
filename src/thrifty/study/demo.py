"""Show a whole study on a built-in model, from quote to report, with a killed driver: `make demo`.

The temporal SIR model of the paper: outbreaks in a population of 1000, cost counted in events, so that the figures
are the same on every machine. All calls are public; copy them for your own simulator.
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
from thrifty.report import write
from thrifty.study.fit_study import fit_study
from thrifty.tables.simulations import table_hash
from thrifty.types import Array

PILOTS, RUNS = 200, 2000
KILL_AT = 0.4  # share of the planned runs after which the driver is killed
MODEL = th.models.TemporalSIR(theta_true=np.array([0.6, 0.3]))  # an outbreak that does not die out


def open_campaign(folder: Path) -> th.Campaign:
    """Open the demo's campaign in a folder, new or continued."""
    return th.Campaign(folder, MODEL.run, MODEL.prior, seed=1, cost="reported", unit="events")


def main(arguments: list[str]) -> None:
    """Plan, run, kill, resume, infer, check and report; or only run, as the child process."""
    if arguments[:1] == ["--drive"]:
        open_campaign(Path(arguments[1])).run(progress="quiet")
        return
    console, began = Console(highlight=False), time.monotonic()
    home = Path(arguments[0]) if arguments else Path(tempfile.mkdtemp(prefix="thrifty-demo-"))
    folder = home / "temporal-sir"
    console.rule("[bold]thrifty: the temporal SIR model")
    console.print("Where are infection rate and removal rate, given one outbreak? A run costs its number of events.\n")
    plan(console, folder)
    kill_and_resume(console, folder)
    compare_with_undisturbed(console, folder, home / "undisturbed")
    study = infer(console, folder)
    compare_with_plain(console, study)
    console.print("[bold]7. report[/]: one file, opens offline")
    path = write(home / "report.html", folder, command="make demo")
    console.print(f"   {path} ({path.stat().st_size / 1e6:.1f} MB)\n")
    console.print(f"done in {time.monotonic() - began:.0f} s; verdict: {study.diagnosis.verdict}. Runs: {folder}")


def plan(console: Console, folder: Path) -> None:
    """Run the pilot and print the quote: cost model, trade-off, self-check."""
    c = open_campaign(folder)
    console.print(f"[bold]1. pilot[/]: {PILOTS} runs from the prior, their cost recorded")
    pilot = c.pilot(PILOTS, progress="quiet")
    console.print(f"   {pilot.spent:,.0f} events spent, {pilot.failed} runs failed\n")
    console.print("[bold]2. plan[/]: fit the cost, compare penalties, test the weights; this needs no run")
    made = c.plan(n=RUNS)
    console.print(f"   cost model: {made.cost}")
    console.print(made.table)
    console.print(f"   self-check: weighted draws reproduce the prior, p = {made.p_value:.2g}")
    console.print(
        f"   {RUNS:,} runs: {made.total:,.0f} events under {made.penalty}, {made.plain:,.0f} with plain sampling\n"
    )


def kill_and_resume(console: Console, folder: Path) -> None:
    """Run in a child process, kill it without warning, and resume."""
    console.print(f"[bold]3. run[/]: in a separate process, killed with SIGKILL at {KILL_AT:.0%}")
    log = folder.with_name("driver.log")
    with log.open("wb") as file:  # messages of the killed process are kept out of the output
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
    status = open_campaign(folder).run(progress="quiet")
    console.print(f"   resumed: {status.done - PILOTS:,} of {RUNS:,}; {status.failed} failed\n")


def compare_with_undisturbed(console: Console, folder: Path, undisturbed: Path) -> None:
    """Check that the same campaign without a kill has the same table, bit for bit."""
    c = open_campaign(undisturbed)
    c.pilot(PILOTS, progress="quiet")
    c.plan(n=RUNS)
    c.run(progress="quiet")
    hashes = [table_hash(th.Campaign.open(place).simulations()) for place in (folder, undisturbed)]
    console.print("[bold]4. compare[/]: hash of parameters, outputs, statuses and weights")
    for word, value in zip(("killed and resumed", "undisturbed"), hashes, strict=True):
        console.print(f"   {word:<19}{value}")
    if hashes[0] != hashes[1]:
        raise SystemExit("   the tables differ: this is a bug in thrifty, please report it")
    console.print("   equal: nothing was lost and nothing is different\n")


def infer(console: Console, folder: Path) -> th.Study:
    """Fit weighted NPE, make all checks, and save the result in the run folder."""
    console.print("[bold]5. infer[/]: neural posterior estimation, weighted as if the prior had been sampled")
    study = fit_study(th.NPE(MODEL.prior), open_campaign(folder).simulations(), MODEL.observed(3), label="NPE")
    for line in format_quantiles(study.samples):
        console.print(f"   {line}")
    for check in study.diagnosis:
        console.print(f"   {check.verdict:<13} {check.name:<17} {check.reason}", soft_wrap=True)
    console.print()
    study.save(folder, name="npe")
    return study


def compare_with_plain(console: Console, study: th.Study) -> None:
    """Run as many plain simulations as the campaign has effective ones; compare cost and posterior."""
    effective = round(th.ess(study.simulations.valid().log_weights))
    console.print(f"[bold]6. against plain sampling[/]: {effective:,} runs from the prior carry as much information")
    theta = MODEL.prior.sample(effective, np.random.default_rng(2))
    plain = MODEL.simulate_many(theta, seed=2)
    spent, cost = float(plain.cost.sum()), study.cost
    word = "less" if cost < spent else "more"
    console.print(
        f"   plain {spent:,.0f} events; thrifty {cost:,.0f} with its pilot: {abs(1 - cost / spent):.0%} {word}"
    )
    other = th.NPE(MODEL.prior).fit(plain, seed=0)
    for label, draws in (("thrifty", study.samples), ("plain", other.sample(2000, study.x_o, seed=0))):
        for line in format_quantiles(draws):
            console.print(f"   {label:<8} {line}")
    console.print()


def format_quantiles(draws: Array) -> list[str]:
    """Format median and central 90 % of each parameter, with the true value."""
    lines = []
    for name, truth, column in zip(MODEL.names, MODEL.theta_true, draws.T, strict=True):
        low, middle, high = np.quantile(column, [0.05, 0.5, 0.95])
        lines.append(f"{name:<6} {middle:.2f}  (90%: {low:.2f} to {high:.2f})   truth {truth:g}")
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
