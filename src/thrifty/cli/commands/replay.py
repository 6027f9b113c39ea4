"""`thrifty replay INDEX`: one run again, with the parameters and the seed it had; under the debugger if asked."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from thrifty.cli.options import Config, Json, Quiet


def replay(
    index: Annotated[int, typer.Argument(help="Number of the run, as in messages and exports.", min=0)],
    folder: Annotated[str, typer.Argument(help="The run folder; the one of thrifty.toml when left out.")] = "",
    *,
    config: Config = None,
    debug: Annotated[bool, typer.Option("--debug", help="Under pdb, stopped at its first line.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Do one run again and compare.

    In this process, with the parameters and the seed it had; nothing is written. Exit code 5 when it fails, or gives
    other numbers than were recorded.
    """
    import sys
    from pathlib import Path

    from thrifty.cli.output import Screen
    from thrifty.cli.project import configured, existing, shown
    from thrifty.cli.simulator_loading import load_simulator
    from thrifty.errors import ConfigError

    screen = Screen(quiet, json)
    place = existing(Path(folder) if folder else None, config)
    target = configured(place, config)
    theta, recorded = _recorded(place, index, dim=target.settings.prior.dim)
    if debug and not sys.stdin.isatty():
        raise ConfigError(
            "--debug needs a terminal", code="bad-command-line", fix="leave it out, or run it in a terminal"
        )
    simulator = load_simulator(target.settings)
    screen.step(
        "theta", ", ".join(f"{n} = {v!r}" for n, v in zip(target.settings.prior.names, theta.tolist(), strict=True))
    )
    again = _again(simulator, target.settings, index, theta, debug=debug)
    same = _compare(screen, recorded, again)
    why = "" if same is not False else _why(place, target.settings, simulator)
    if why:
        screen.data(f"why       {why}")
    screen.result({
        "index": index, "theta": theta, "status": again.status, "x": again.x, "wall": again.wall, "cpu": again.cpu,
        "error": again.error, "recorded": None if recorded is None else recorded.status, "same": same,
        "why": why,
    })  # fmt: skip
    screen.next(f"thrifty status {shown(place)}")
    return 0 if again.status == "ok" and same is not False else 5


def _why(place: Any, settings: Any, simulator: Any) -> str:
    """Why the same index may give other numbers than it did, most likely first."""
    from thrifty.campaign.fingerprint import differences, fingerprint
    from thrifty.store.store import Store

    store = Store.open(place, readonly=True)
    try:
        stored = store.settings()
    finally:
        store.close()
    now = {"seed": settings.plan.seed, "m": settings.simulator.realisations}
    reasons = [
        f"{key} was {stored[key]}, thrifty.toml says {value}" for key, value in now.items() if stored[key] != value
    ]
    reasons += (
        [f"the simulator changed since: {'; '.join(changed[:5])}"]
        if (changed := differences(stored["simulator"], fingerprint(simulator)))
        else []
    )
    if not reasons and not stored.get("deterministic", True):
        reasons = ["the simulator ignores its seed: one index gave two answers before"]
    return "; ".join(reasons) or (
        "simulator, seed and settings are the same: randomness other than the rng passed in, a file it reads, or other"
        " versions of its libraries"
    )


def _recorded(place: Any, index: int, *, dim: int) -> tuple[Any, Any]:
    """The planned parameters of an index, and its run where there is one."""
    from thrifty.errors import ConfigError, DamagedStoreError
    from thrifty.store.rows import read_outcome, read_theta
    from thrifty.store.store import Store

    store = Store.open(place, readonly=True)
    try:
        rows = [row for row in store.plan_rows() if row[0] == index]
        runs = [row for row in store.run_rows() if row[0] == index]
        planned = sum(block.n for block in store.blocks())
    finally:
        store.close()
    if not rows:
        raise ConfigError(f"no run {index}: {planned:,} are planned, 0 to {planned - 1}", code="bad-command-line")
    theta = read_theta(rows[0], dim)
    if theta is None:
        raise DamagedStoreError(f"the parameters of run {index} fail their checksum", code="damaged-folder")
    return theta, read_outcome(runs[0]) if runs else None


def _again(simulator: Any, settings: Any, index: int, theta: Any, *, debug: bool) -> Any:
    from thrifty.runner.run_one import Runner
    from thrifty.runner.task import Job, Task

    job = Job(simulator, settings.plan.seed, settings.simulator.realisations)
    runner = Runner.of(job)
    if not debug:
        return runner.run(Task(index, theta))
    return _debugger(simulator).runcall(runner.run, Task(index, theta))


def _debugger(simulator: Any) -> Any:
    """A debugger that stops at the first line of a Python simulator; of anything else, before it is called."""
    import pdb

    debugger = pdb.Pdb(readrc=False)
    code = getattr(simulator, "__code__", None)
    if code is not None:
        debugger.set_break(code.co_filename, code.co_firstlineno, temporary=True, funcname=code.co_name)
        debugger.rcLines = ["continue"]  # past our own lines
    return debugger


def _compare(screen: Any, recorded: Any, again: Any) -> bool | None:
    from thrifty.runner.progress import format_amount
    from thrifty.runner.run_one import is_same_outcome

    times = f"{format_amount(again.cpu, 's')} CPU, {format_amount(again.wall, 's')} wall"
    values = "" if again.x is None else " ".join(f"{v:.6g}" for v in again.x.ravel()[:12])
    more = "" if again.x is None or again.x.size <= 12 else f" ... ({again.x.size} in all)"
    screen.data(f"now       {again.status}, {times}: {values}{more}")
    if again.error:
        screen.data(again.error.rstrip())
    if recorded is None:
        screen.data("recorded  nothing yet")
        return None
    if recorded.status in ("timeout", "crashed") and again.status == "ok":
        screen.data(f"recorded  {recorded.status}: it was ended from outside, so there are no numbers to compare")
        return None
    equal = is_same_outcome(recorded, again)
    verdict = "the same numbers" if equal else "OTHER numbers"
    screen.data(f"recorded  {recorded.status}, {format_amount(recorded.cpu, 's')} CPU: {verdict}")
    return equal
