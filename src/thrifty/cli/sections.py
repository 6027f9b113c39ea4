"""The sections of `thrifty.toml`, each checked value by value; what is wrong is noted, not raised."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from thrifty.cli.config_errors import Problems
from thrifty.cli.config_tables import CostSettings, InferSettings, PlanSettings, RunSettings, SimulatorSettings

METHODS = ("npe", "nle", "nre", "abc", "synthetic", "scoring")
ENGINES = ("processes", "inline", "dask")
HINTS = {
    "budget": 'budget = "2 cpu-h"',
    "observed": 'observed = "observed.csv"',
    "command": 'command = ["./model", "{beta}", "{seed}"]',
}


def shown(value: Any) -> str:
    """A value as it stands in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value[:40]}"' if isinstance(value, str) else f"{value!r:.60}"


def read_simulator(values: dict[str, Any], problems: Problems) -> SimulatorSettings:
    """`[simulator]`: one of two kinds."""
    both = [key for key in ("python", "command") if key in values]
    if len(both) != 1:
        what = "both python and command are given" if both else "neither python nor command is given"
        problems.add(
            what,
            at="simulator",
            code="conflicting-settings",
            fix='python = "model.py:simulate", or command = ["./model", "{beta}", "{seed}"]',
        )
    if "python" in values and not re.fullmatch(r"[^:]+:[A-Za-z_][\w.]*", values["python"]):
        problems.add(
            f"python = {shown(values['python'])} does not name a function",
            at="simulator.python", code="cannot-load-simulator",
            fix='python = "model.py:simulate"',
        )  # fmt: skip
    command = values.get("command", [])
    if "command" in values and (not command or not all(isinstance(part, str) for part in command)):
        problems.add(
            "command must be a list of texts", at="simulator.command", code="bad-command", fix=HINTS["command"]
        )
        command = []
    if "command" not in values:
        for key in ("output", "file", "environment"):
            if key in values:
                problems.add(
                    f"{key} belongs to a command, not to a Python function",
                    at=f"simulator.{key}",
                    code="conflicting-settings",
                )
    if values.get("output", "json") not in ("json", "csv", "npy"):
        problems.unknown("simulator.output", values["output"], ("json", "csv", "npy"), kind="output")
    if values.get("realisations", 1) < 1:
        problems.add("realisations must be at least 1", at="simulator.realisations", code="bad-setting")
    environment = tuple((str(k), str(v)) for k, v in values.get("environment", {}).items())
    return SimulatorSettings(**{**values, "command": tuple(command), "environment": environment})


def check_command(simulator: SimulatorSettings, names: tuple[str, ...], problems: Problems) -> None:
    """A command that never mentions a parameter cannot depend on it."""
    text = " ".join(simulator.command)
    missing = [name for name in names if f"{{{name}}}" not in text and f"{{{names.index(name)}}}" not in text]
    if missing and not any("{" in part for part in simulator.command):
        problems.add(
            f"the command never mentions {', '.join(missing)}", at="simulator.command", code="bad-command",
            fix=f'command = ["{simulator.command[0]}", ' + ", ".join(f'"{{{name}}}"' for name in names) + ', "{seed}"]',
        )  # fmt: skip


def read_plan(values: dict[str, Any], problems: Problems, *, dim: int) -> PlanSettings:
    """`[plan]`: how much, and from where."""
    from thrifty.penalties import as_penalty

    values = dict(values)
    if "n" not in values and "budget" not in values:
        problems.add(
            "neither n nor budget says how much to run",
            at="plan",
            code="conflicting-settings",
            fix='n = 5000, or budget = "2 cpu-h"',
        )
    for key, least, code in (("n", 1, "bad-setting"), ("pilot", 5, "too-few-pilots"), ("seed", 0, "bad-setting")):
        if values.get(key, least) < least:
            problems.add(f"{key} = {values[key]}, expected at least {least}", at=f"plan.{key}", code=code)
    if 5 <= values.get("pilot", 60) < 4 * dim:
        what = f"pilot = {values['pilot']} runs for {dim} parameters; need at least {4 * dim}"
        problems.add(what, at="plan.pilot", code="too-few-pilots", fix=f"pilot = {10 * dim}")
    penalty = values.pop("penalty", "auto")
    if isinstance(penalty, str):
        if penalty != "auto":
            problems.add(
                f'penalty = {shown(penalty)}, expected a number >= 0 or "auto"', at="plan.penalty", code="bad-penalty"
            )
    else:
        values["penalty"] = float(penalty)
        with problems.at("plan.penalty"):
            as_penalty(float(penalty))
    mixture = values.pop("mixture", False)
    if isinstance(mixture, list):
        numbers = all(isinstance(k, int | float) and not isinstance(k, bool) and k >= 0 for k in mixture)
        if not mixture or not numbers:
            problems.add(
                "mixture must be true or powers >= 0",
                at="plan.mixture",
                code="bad-penalty",
                fix="mixture = [0, 0.5, 1, 2]",
            )
        mixture = tuple(float(k) for k in mixture if numbers)
    if mixture and "penalty" in values:
        problems.add("give penalty or mixture, not both", at="plan.mixture", code="conflicting-settings")
    pilot = values.pop("pilot", max(60, 10 * dim))  # ten a parameter: a cost surface needs points in each direction
    return PlanSettings(**values, mixture=mixture, pilot=pilot)


def check_cost(cost: CostSettings, plan: PlanSettings, problems: Problems) -> None:
    """`[cost]`, and the budget that is measured in it."""
    from thrifty.campaign.budget import Budget, Price

    if cost.measure not in ("cpu", "wall", "reported"):
        problems.unknown("cost.measure", cost.measure, ("cpu", "wall", "reported"), kind="measure")
    price = None
    if cost.price:
        with problems.at("cost.price"):
            price = Price.read(cost.price)
    if plan.budget and not (cost.price and price is None):
        with problems.at("plan.budget"):
            Budget.read(plan.budget, price=price, unit=cost.unit)


def read_run(values: dict[str, Any], problems: Problems, *, home: Path) -> RunSettings:
    """`[run]`: where, on what, with which limits."""
    from thrifty.campaign.budget import seconds
    from thrifty.runner.time_limits import make_time_limit

    values = dict(values)
    if values.get("engine", "processes") not in ENGINES:
        problems.unknown("run.engine", values["engine"], ENGINES, kind="engine")
    if values.get("workers", 1) < 1:
        problems.add(f"workers = {values['workers']}, expected at least 1", at="run.workers", code="bad-setting")
    if "address" in values and values.get("engine") != "dask":
        problems.add('address is used with engine = "dask"', at="run.address", code="conflicting-settings")
    limit: float | None = None
    with problems.at("run.time_limit"):
        given = values.pop("time_limit", None)
        limit = given if given is None else seconds(given, "time_limit") if given else 0.0
        make_time_limit(limit, values.get("on_timeout"))
    if limit is not None and values.get("engine") == "inline":
        problems.add(
            "time_limit needs worker processes: a run inside this one cannot be ended",
            at="run.time_limit",
            code="conflicting-settings",
            fix='engine = "processes", or no time_limit',
        )
    if "deadline" in values:
        with problems.at("run.deadline"):
            seconds(values["deadline"])
    folder = home / values.pop("folder", "runs/main")
    return RunSettings(folder=folder, time_limit=limit, **values)


def read_infer(values: dict[str, Any], problems: Problems, *, home: Path) -> InferSettings:
    """`[infer]`: method and data."""
    values = dict(values)
    if values.get("method", "npe") not in METHODS:
        problems.unknown("infer.method", values["method"], METHODS, kind="method")
    for key in ("quantile", "epsilon", "adjust"):
        if key in values and values.get("method") != "abc":
            problems.add(f'{key} is used with method = "abc"', at=f"infer.{key}", code="conflicting-settings")
    observed = values.pop("observed", None)
    numbers = {k: float(values.pop(k)) for k in ("quantile", "epsilon") if k in values}
    return InferSettings(observed=None if observed is None else home / observed, **numbers, **values)
