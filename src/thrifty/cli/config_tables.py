"""The tables of `thrifty.toml`: what each key means, which values it takes, and how they are checked.

A `read_` function turns a table into frozen settings. It notes what is wrong in `Problems` and raises nothing, so that
one reading finds every mistake. Nothing of the user's code is executed. `[prior]` is read in `config`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thrifty.cli.config_errors import Problems, format_value
from thrifty.display import count_things
from thrifty.study.method_names import METHODS
from thrifty.types import Prior

ROUND_METHODS = ("nle", "nre", "npe", "fmpe")  # that th.Rounds takes; the first is its default
EXAMPLES = {
    "budget": 'budget = "2 cpu-h"',
    "observed": 'observed = "observed.csv"',
    "command": 'command = ["./model", "{beta}", "{seed}"]',
}


def _key(default: Any, *kinds: type, choices: Collection[str] = (), least: int | None = None) -> Any:
    """Declare a key: its default, the types that it may have in the file, and its possible or least values."""
    return field(default=default, metadata={"kinds": kinds, "choices": choices, "least": least})


@dataclass(frozen=True)
class SimulatorSettings:
    """`[simulator]`: a Python function or an external program.

    Attributes:
        python: "model.py:simulate", a file beside the configuration, or "package.module:function".
        command: Program and arguments with "{name}" and "{seed}".
        output: "json", "csv" or "npy": what the program writes.
        file: Where it writes; standard output when empty.
        environment: Extra environment variables of the program.
        realisations: Runs per parameter, m.
        depends_on: Data files and folders that it reads, beside the configuration.
    """

    python: str = _key("", str)
    command: tuple[str, ...] = _key((), list)
    output: str = _key("json", str, choices=("json", "csv", "npy"))
    file: str = _key("", str)
    environment: tuple[tuple[str, str], ...] = _key((), dict)
    realisations: int = _key(1, int, least=1)
    depends_on: tuple[str, ...] = _key((), list)


@dataclass(frozen=True)
class CostSettings:
    """`[cost]`: what a run costs.

    Attributes:
        measure: CPU seconds, elapsed seconds ("wall"), or the cost that each run reports.
        unit: Name of a reported cost, for example "credits".
        price: Price of a unit, for budgets and quotes in money: "0.05 eur/cpu-h".
    """

    # CPU seconds do not depend on how busy the machine is
    measure: str = _key("cpu", str, choices=("cpu", "wall", "reported"))
    unit: str = _key("", str)
    price: str = _key("", str)


@dataclass(frozen=True)
class PlanSettings:
    """`[plan]`: how many runs, and with which penalty.

    Attributes:
        n: Number of runs; give n, budget or both.
        budget: What may be spent, pilot included: "2 cpu-h", "40 min", "200 eur". With n, whichever is reached first.
        penalty: Power of cost; by default the square root of cost, or no penalty where the cost is nearly flat.
        mixture: true for a mixture of several penalties, or the list of their powers.
        avoid_failures: true to draw less where runs fail; by default where more than 5 % of the pilot failed.
        pilot: Number of timed prior runs; by default 60, or ten per parameter if that is more.
        seed: Seed of the campaign.
    """

    n: int | None = _key(None, int, least=1)
    budget: str = _key("", str)
    penalty: float | None = _key(None, float, int, str)  # None: the square root of cost, unless cost is flat
    mixture: bool | tuple[float, ...] = _key(False, bool, list)
    avoid_failures: bool | None = _key(None, bool)  # None: where more than 5 % of the pilot failed
    pilot: int = _key(60, int, least=5)
    seed: int = _key(0, int, least=0)


@dataclass(frozen=True)
class RunSettings:
    """`[run]`: where the runs are kept and what does them.

    Attributes:
        folder: The run folder.
        workers: Number of local worker processes.
        engine: Local processes, this process ("inline") or a Dask cluster.
        address: Address of the Dask scheduler.
        time_limit: Longest time of one run: seconds, or a text such as "10 min". Needs on_timeout.
        on_timeout: What happens to a run that reaches the limit: "lazy", "extend", "restrict", "weight" or "stop".
        deadline: Longest time of one call of thrifty run: "8 h".
    """

    folder: Path = field(default=Path("runs/main"), metadata={"kinds": (str,)})
    workers: int = _key(2, int, least=1)
    engine: str = _key("processes", str, choices=("processes", "inline", "dask"))
    address: str = _key("", str)
    time_limit: float | None = _key(None, float, int, str)
    on_timeout: str | None = _key(None, str)
    deadline: str = _key("", str)


@dataclass(frozen=True)
class InferSettings:
    """`[infer]`: which method, at which observation, and whether in rounds.

    Attributes:
        method: The method of inference.
        observed: File with your data: csv, json or npy.
        quantile: For ABC: share of prior mass that is accepted.
        epsilon: For ABC: largest distance that is accepted, instead of quantile.
        adjust: For ABC: regression adjustment, "none", "linear", "local" or "auto".
        rounds: Number of rounds; by default one campaign for all observations.
    """

    method: str = _key("npe", str, choices=METHODS)
    observed: Path | None = field(default=None, metadata={"kinds": (str,)})
    quantile: float | None = _key(None, float, int)
    epsilon: float | None = _key(None, float, int)
    adjust: str | None = _key(None, str)
    rounds: int | None = _key(None, int, least=1)


@dataclass(frozen=True)
class Settings:
    """One configuration file."""

    path: Path
    text: str = field(repr=False)
    simulator: SimulatorSettings
    prior: Prior
    cost: CostSettings
    plan: PlanSettings
    run: RunSettings
    infer: InferSettings

    @property
    def home(self) -> Path:
        """The folder that paths in the file are relative to."""
        return self.path.parent

    def plan_arguments(self) -> dict[str, Any]:
        """Return the arguments of `Campaign.plan` and `Campaign.quote`."""
        plan = self.plan
        budget, cap = (plan.budget or None, None) if plan.n is None else (None, plan.budget or None)
        mixture = plan.mixture if plan.mixture is not False else None
        asked = {"n": plan.n, "budget": budget, "cap": cap, "penalty": plan.penalty, "mixture": mixture}
        return asked | {"avoid_failures": plan.avoid_failures}


def read_simulator(values: dict[str, Any], problems: Problems) -> SimulatorSettings:
    """Read `[simulator]`: a Python function or a command."""
    given = [key for key in ("python", "command") if key in values]
    if len(given) != 1:
        what = "both python and command are given" if given else "neither python nor command is given"
        fix = f'python = "model.py:simulate", or {EXAMPLES["command"]}'
        problems.add(what, at="simulator", code="conflicting-settings", fix=fix)
    if "python" in values and not re.fullmatch(r"[^:]+:[A-Za-z_][\w.]*", values["python"]):
        what = f"python = {format_value(values['python'])} does not name a function"
        fix = 'python = "model.py:simulate"'
        problems.add(what, at="simulator.python", code="cannot-load-simulator", fix=fix)
    command = values.get("command", [])
    if "command" in values and (not command or not all(isinstance(part, str) for part in command)):
        what = "command must be a list of texts"
        problems.add(what, at="simulator.command", code="bad-command", fix=EXAMPLES["command"])
        command = []
    if "command" not in values:
        for key in ("output", "file", "environment"):
            if key in values:
                what = f"{key} belongs to a command, not to a Python function"
                problems.add(what, at=f"simulator.{key}", code="conflicting-settings")
    environment = tuple((str(k), str(v)) for k, v in values.get("environment", {}).items())
    files = values.get("depends_on", [])
    if not all(isinstance(path, str) for path in files):
        what, fix = "depends_on must be a list of paths", 'depends_on = ["table.csv"]'
        problems.add(what, at="simulator.depends_on", code="bad-setting", fix=fix)
        files = []
    read = {"command": tuple(command), "environment": environment, "depends_on": tuple(files)}
    return SimulatorSettings(**{**values, **read})


def check_command(simulator: SimulatorSettings, names: tuple[str, ...], problems: Problems) -> None:
    """Note a command that mentions no parameter: its output cannot depend on them."""
    if simulator.command and not any("{" in part for part in simulator.command):
        parts = [simulator.command[0], *(f"{{{name}}}" for name in names), "{seed}"]
        fix = "command = [" + ", ".join(f'"{part}"' for part in parts) + "]"
        what = f"the command never mentions {', '.join(names)}"
        problems.add(what, at="simulator.command", code="bad-command", fix=fix)


def read_plan(values: dict[str, Any], problems: Problems, *, dim: int, given: Collection[str] = ()) -> PlanSettings:
    """Read `[plan]`: how many runs, and with which penalty or mixture; `given` are all keys, wrong ones too."""
    values = dict(values)
    if not {"n", "budget"} & {*values, *given}:
        what, fix = "neither n nor budget says how much to run", 'n = 5000, or budget = "2 cpu-h"'
        problems.add(what, at="plan", code="conflicting-settings", fix=fix)
    if 5 <= values.get("pilot", 60) < 4 * dim:
        what = f"pilot = {values['pilot']} runs for {count_things(dim, 'parameter')}; need at least {4 * dim}"
        problems.add(what, at="plan.pilot", code="too-few-pilots", fix=f"pilot = {10 * dim}")
    penalty = _read_penalty(values.pop("penalty", "auto"), problems)
    mixture = _read_mixture(values.pop("mixture", False), problems)
    if mixture and penalty is not None:
        problems.add("give penalty or mixture, not both", at="plan.mixture", code="conflicting-settings")
    pilot = values.pop("pilot", max(60, 10 * dim))  # ten per parameter: a cost surface needs points in each direction
    return PlanSettings(**values, penalty=penalty, mixture=mixture, pilot=pilot)


def _read_penalty(penalty: float | str, problems: Problems) -> float | None:
    """Read a power of cost; None for "auto"."""
    from thrifty.penalties import as_penalty

    if isinstance(penalty, str):
        if penalty != "auto":
            what = f'penalty = {format_value(penalty)}, expected a number >= 0 or "auto"'
            problems.add(what, at="plan.penalty", code="bad-penalty")
        return None
    with problems.at("plan.penalty"):
        as_penalty(float(penalty))
    return float(penalty)


def _read_mixture(mixture: bool | list[Any], problems: Problems) -> bool | tuple[float, ...]:
    if isinstance(mixture, bool):
        return mixture
    if mixture and all(isinstance(k, int | float) and not isinstance(k, bool) and k >= 0 for k in mixture):
        return tuple(float(k) for k in mixture)
    what, fix = "mixture must be true or powers >= 0", "mixture = [0, 0.5, 1, 2]"
    problems.add(what, at="plan.mixture", code="bad-penalty", fix=fix)
    return ()


def check_cost(cost: CostSettings, plan: PlanSettings, problems: Problems) -> None:
    """Check the price, and the budget that is measured in it."""
    from thrifty.campaign.budget import Budget, Price

    price = None
    if cost.price:
        with problems.at("cost.price"):
            price = Price.read(cost.price)
    if plan.budget and not (cost.price and price is None):
        with problems.at("plan.budget"):
            Budget.read(plan.budget, price=price, unit=cost.unit)


def read_run(values: dict[str, Any], problems: Problems, *, home: Path) -> RunSettings:
    """Read `[run]`: the folder, the engine and its limits."""
    from thrifty.durations import read_seconds
    from thrifty.runner.time_limits import make_time_limit

    values = dict(values)
    if "address" in values and values.get("engine") != "dask":
        problems.add('address is used with engine = "dask"', at="run.address", code="conflicting-settings")
    limit: float | None = None
    with problems.at("run.time_limit"):
        given = values.pop("time_limit", None)
        limit = given if given is None else read_seconds(given, "time_limit") if given else 0.0
        make_time_limit(limit, values.get("on_timeout"))
    if limit is not None and values.get("engine") == "inline":
        what = "time_limit needs worker processes: a run inside this one cannot be ended"
        fix = 'engine = "processes", or no time_limit'
        problems.add(what, at="run.time_limit", code="conflicting-settings", fix=fix)
    if "deadline" in values:
        with problems.at("run.deadline"):
            read_seconds(values["deadline"], "deadline")
    folder = home / values.pop("folder", "runs/main")
    return RunSettings(folder=folder, time_limit=limit, **values)


def read_infer(values: dict[str, Any], problems: Problems, *, home: Path) -> InferSettings:
    """Read `[infer]`: the method and the observed data."""
    values = dict(values)
    for key in ("quantile", "epsilon", "adjust"):
        if key in values and values.get("method") != "abc":
            problems.add(f'{key} is used with method = "abc"', at=f"infer.{key}", code="conflicting-settings")
    observed = values.pop("observed", None)
    if "rounds" in values:
        values.setdefault("method", ROUND_METHODS[0])
        if observed is None:
            what, fix = "rounds are run at an observation, and observed is missing", EXAMPLES["observed"]
            problems.add(what, at="infer.rounds", code="conflicting-settings", fix=fix)
    numbers = {k: float(values.pop(k)) for k in ("quantile", "epsilon") if k in values}
    return InferSettings(observed=None if observed is None else home / observed, **numbers, **values)
