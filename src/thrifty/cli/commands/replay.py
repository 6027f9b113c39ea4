"""`thrifty replay INDEX`: repeat one run with its parameters and seed; with --debug, in the debugger."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thrifty.cli.commands import Config, Folder, Json, Quiet
from thrifty.cli.output import Screen
from thrifty.errors import ConfigError, DamagedStoreError

if TYPE_CHECKING:
    from thrifty.cli.config_tables import Settings


def replay(
    index: Annotated[int, typer.Argument(help="Number of the run, as in messages and exports.", min=0)],
    folder: Folder = None,
    *,
    config: Config = None,
    debug: Annotated[bool, typer.Option("--debug", help="Run it in pdb, stopped at its first line.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Repeat one run and compare.

    In this process, with its parameters and its seed; nothing is written. Exit code 5 if it fails, or gives other
    numbers than those recorded.
    """
    from thrifty.cli.project import find_folder, find_target, relative_path
    from thrifty.cli.simulator_loading import load_simulator

    screen = Screen(quiet, json)
    place = find_folder(folder, config)
    settings, _ = find_target(place, config)
    theta, recorded = _read_recorded(place, index, dim=settings.prior.dim)
    if debug and not sys.stdin.isatty():
        fix = "leave it out, or run it in a terminal"
        raise ConfigError("--debug needs a terminal", code="bad-command-line", fix=fix)
    simulator = load_simulator(settings)
    named = zip(settings.prior.names, theta.tolist(), strict=True)
    screen.step("theta", ", ".join(f"{name} = {value!r}" for name, value in named))
    again = _repeat(simulator, settings, index, theta, debug=debug)
    same = _compare(screen, recorded, again)
    why = "" if same is not False else _explain_difference(place, settings, simulator)
    if why:
        screen.data(f"why       {why}")
    screen.result({
        "index": index, "theta": theta, "status": again.status, "x": again.x, "wall": again.wall, "cpu": again.cpu,
        "error": again.error, "recorded": None if recorded is None else recorded.status, "same": same,
        "why": why,
    })  # fmt: skip
    screen.next(f"thrifty status {relative_path(place)}")
    return 0 if again.status == "ok" and same is not False else 5


def _explain_difference(place: Path, settings: Settings, simulator: Any) -> str:
    """Say why the same index may give other numbers than before, most likely first."""
    from thrifty.campaign.fingerprint import fingerprint
    from thrifty.campaign.settings import differences
    from thrifty.cli.project import list_files
    from thrifty.store.store import Store

    with closing(Store.open(place, readonly=True)) as store:
        stored = store.settings()
    now = {"seed": settings.plan.seed, "m": settings.simulator.realisations}
    reasons = [
        f"{key} was {stored[key]}, thrifty.toml says {value}" for key, value in now.items() if stored[key] != value
    ]
    files = [path.absolute() for path in list_files(settings) if path.exists()]
    if changed := differences(stored["simulator"], fingerprint(simulator, files)):
        reasons.append(f"the simulator changed since: {'; '.join(changed[:5])}")
    if not reasons and not stored.get("deterministic", True):
        reasons = ["the simulator ignores its seed: one index gave two answers before"]
    return "; ".join(reasons) or (
        "simulator, seed and settings are the same: other randomness than the rng passed in, a file that it reads, or"
        " other versions of its libraries"
    )


def _read_recorded(place: Path, index: int, *, dim: int) -> tuple[Any, Any]:
    """Read the planned parameters of an index, and its run if it is done."""
    from thrifty.store.rows import PLAN, RUNS, read_outcome, read_theta
    from thrifty.store.store import Store

    with closing(Store.open(place, readonly=True)) as store:
        rows = store.query(f"SELECT {', '.join(PLAN)}, sum FROM plan WHERE idx = ?", index)
        runs = store.query(f"SELECT {', '.join(RUNS)}, sum FROM runs WHERE idx = ?", index)
        planned = sum(block.n for block in store.blocks())
    if not rows:
        raise ConfigError(
            f"no run {index}: {planned:,} are planned, 0 to {planned - 1}", code="bad-command-line", fix="one of them"
        )
    theta = read_theta(rows[0], dim)
    if theta is None:
        raise DamagedStoreError(f"the parameters of run {index} fail their checksum", code="damaged-folder")
    return theta, read_outcome(runs[0]) if runs else None


def _repeat(simulator: Any, settings: Settings, index: int, theta: Any, *, debug: bool) -> Any:
    from thrifty.runner.run_one import Runner
    from thrifty.runner.task import Job, Task

    job = Job(simulator, settings.plan.seed, settings.simulator.realisations, names=settings.prior.names)
    runner, task = Runner.of(job), Task(index, theta)
    return _make_debugger(simulator).runcall(runner.run, task) if debug else runner.run(task)


def _make_debugger(simulator: Any) -> Any:
    """Make a debugger that stops at the first line of a Python simulator, or before anything else is called."""
    import pdb

    debugger = pdb.Pdb(readrc=False)
    code = getattr(simulator, "__code__", None)
    if code is not None:
        debugger.set_break(code.co_filename, code.co_firstlineno, temporary=True, funcname=code.co_name)
        debugger.rcLines = ["continue"]  # skips the lines of thrifty
    return debugger


def _compare(screen: Screen, recorded: Any, again: Any) -> bool | None:
    from thrifty.durations import format_amount
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
        screen.data(f"recorded  {recorded.status}: it was stopped, so there are no numbers to compare")
        return None
    equal = is_same_outcome(recorded, again)
    verdict = "the same numbers" if equal else "OTHER numbers"
    screen.data(f"recorded  {recorded.status}, {format_amount(recorded.cpu, 's')} CPU: {verdict}")
    return equal
