"""Reading `thrifty.toml`: every section, every mistake at once, nothing executed."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from thrifty.cli.prior_table import read_prior
from thrifty.cli.problems import Problems
from thrifty.cli.settings import (
    CostSettings,
    InferSettings,
    PlanSettings,
    RunSettings,
    Settings,
    SimulatorSettings,
)
from thrifty.errors import ConfigError

NAME = "thrifty.toml"
LARGEST = 2**20  # bytes: a configuration is a page
METHODS = ("npe", "nle", "nre", "abc", "synthetic", "scoring")
ENGINES = ("processes", "inline", "dask")
# what a key must be, in words and types; lists and tables are looked at where they are read
_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}
_KEYS: dict[str, dict[str, tuple[type, ...]]] = {
    "simulator": {
        "python": (str,), "command": (list,), "output": (str,), "file": (str,), "environment": (dict,),
        "realisations": (int,),
    },
    "cost": {"measure": (str,), "unit": (str,), "price": (str,)},
    "plan": {
        "n": (int,), "budget": (str,), "penalty": (float, int, str), "mixture": (bool, list), "pilot": (int,),
        "seed": (int,),
    },
    "run": {
        "folder": (str,), "workers": (int,), "engine": (str,), "address": (str,), "time_limit": (float, int, str),
        "on_timeout": (str,), "deadline": (str,),
    },
    "infer": {
        "method": (str,), "observed": (str,), "quantile": (float, int), "epsilon": (float, int), "adjust": (str,),
    },
}  # fmt: skip


def read_config(path: Path) -> Settings:
    """The settings of a file.

    Raises:
        ConfigError: F01 unknown keys, F02 not TOML, and whatever is wrong with values; `ManyErrors` for several.
    """
    text = _text(path)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(path, text, error) from None
    problems = Problems(path, text)
    sections = _sections(data, problems)
    simulator = _simulator(sections["simulator"], problems)
    prior = read_prior(data.get("prior"), problems)
    cost = CostSettings(**sections["cost"])
    plan = _plan(sections["plan"], problems, dim=0 if prior is None else prior.dim)
    run = _run(sections["run"], problems, home=path.parent)
    infer = _infer(sections["infer"], problems, home=path.parent)
    _check_cost(cost, plan, problems)
    if prior is not None and simulator.command:
        _check_command(simulator, prior.names, problems)
    problems.close()
    assert prior is not None, "a prior that could not be read is a problem"
    return Settings(path, text, simulator, prior, cost, plan, run, infer)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST:
            raise ConfigError(f"{path} is larger than 1 MB: not a configuration", code="F02")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"no {path.name} in {path.parent.absolute()}",
            code="F13",
            why="it names the simulator and the prior",
            fix="thrifty init writes one to begin with; or --config FILE",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"cannot read {path}: {reason}", code="F02") from None


def _not_toml(path: Path, text: str, error: tomllib.TOMLDecodeError) -> ConfigError:
    found = re.fullmatch(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error))
    what = found[1] if found else str(error)
    line = int(found[2]) if found and found[2] else len(text.splitlines())
    column = f" column {found[3]}" if found and found[3] else ""
    there = text.splitlines()[line - 1].strip()[:60] if text.strip() else ""
    return ConfigError(f"{path.name} line {line}{column}: {what[0].lower()}{what[1:]} in {there!r}", code="F02")


def _sections(data: dict[str, Any], problems: Problems) -> dict[str, dict[str, Any]]:
    """The known keys of each section; unknown ones and wrong types are noted and left out."""
    known = {name: {} for name in _KEYS}
    for section, values in data.items():
        if section == "prior":
            continue
        if section not in _KEYS:
            problems.unknown(section, section, [*_KEYS, "prior"], kind="section")
        elif not isinstance(values, dict):
            problems.add(section, f"{section} must be a section: [{section}]", code="F12")
        else:
            known[section] = _typed(section, values, problems)
    return known


def _typed(section: str, values: dict[str, Any], problems: Problems) -> dict[str, Any]:
    found = {}
    for key, value in values.items():
        where = f"{section}.{key}"
        if key not in _KEYS[section]:
            problems.unknown(where, key, _KEYS[section])
            continue
        kinds = _KEYS[section][key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            words = " or ".join(dict.fromkeys(_WORDS[kind] for kind in kinds))
            code = "G02" if key == "penalty" else "F06" if key == "workers" else "F03" if key == "budget" else "F12"
            problems.add(where, f"{key} = {_shown(value)}, expected {words}", code=code, fix=_HINTS.get(key, ""))
            continue
        found[key] = value
    return found


_HINTS = {
    "budget": 'budget = "2 cpu-h"',
    "observed": 'observed = "observed.csv"',
    "command": 'command = ["./model", "{beta}", "{seed}"]',
}


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value[:40]}"' if isinstance(value, str) else f"{value!r:.60}"


def _simulator(values: dict[str, Any], problems: Problems) -> SimulatorSettings:
    both = [key for key in ("python", "command") if key in values]
    if len(both) != 1:
        what = "both python and command are given" if both else "neither python nor command is given"
        problems.add(
            "simulator",
            what,
            code="F14",
            fix='python = "model.py:simulate", or command = ["./model", "{beta}", "{seed}"]',
        )
    if "python" in values and not re.fullmatch(r"[^:]+:[A-Za-z_][\w.]*", values["python"]):
        problems.add(
            "simulator.python", f"python = {_shown(values['python'])} does not name a function", code="S01",
            fix='python = "model.py:simulate"',
        )  # fmt: skip
    command = values.get("command", [])
    if "command" in values and (not command or not all(isinstance(part, str) for part in command)):
        problems.add("simulator.command", "command must be a list of texts", code="S09", fix=_HINTS["command"])
        command = []
    if "command" not in values:
        for key in ("output", "file", "environment"):
            if key in values:
                problems.add(f"simulator.{key}", f"{key} belongs to a command, not to a Python function", code="F14")
    if values.get("output", "json") not in ("json", "csv", "npy"):
        problems.unknown("simulator.output", values["output"], ("json", "csv", "npy"), kind="output")
    if values.get("realisations", 1) < 1:
        problems.add("simulator.realisations", "realisations must be at least 1", code="F08")
    environment = tuple((str(k), str(v)) for k, v in values.get("environment", {}).items())
    return SimulatorSettings(**{**values, "command": tuple(command), "environment": environment})


def _check_command(simulator: SimulatorSettings, names: tuple[str, ...], problems: Problems) -> None:
    """A command that never mentions a parameter cannot depend on it."""
    text = " ".join(simulator.command)
    missing = [name for name in names if f"{{{name}}}" not in text and f"{{{names.index(name)}}}" not in text]
    if missing and not any("{" in part for part in simulator.command):
        problems.add(
            "simulator.command", f"the command never mentions {', '.join(missing)}", code="S09",
            fix=f'command = ["{simulator.command[0]}", ' + ", ".join(f'"{{{name}}}"' for name in names) + ', "{seed}"]',
        )  # fmt: skip


def _plan(values: dict[str, Any], problems: Problems, *, dim: int) -> PlanSettings:
    from thrifty.penalties import as_penalty

    values = dict(values)
    if "n" not in values and "budget" not in values:
        problems.add(
            "plan", "neither n nor budget says how much to run", code="F03", fix='n = 5000, or budget = "2 cpu-h"'
        )
    for key, least, code in (("n", 1, "F11"), ("pilot", 5, "C03"), ("seed", 0, "F09")):
        if values.get(key, least) < least:
            problems.add(f"plan.{key}", f"{key} = {values[key]}, expected at least {least}", code=code)
    if 5 <= values.get("pilot", 60) < 4 * dim:
        problems.add(
            "plan.pilot", f"pilot = {values['pilot']} runs for {dim} parameters; need at least {4 * dim}", code="C03",
            fix=f"pilot = {10 * dim}",
        )  # fmt: skip
    penalty = values.pop("penalty", "auto")
    if isinstance(penalty, str):
        if penalty != "auto":
            problems.add("plan.penalty", f'penalty = {_shown(penalty)}, expected a number >= 0 or "auto"', code="G02")
    else:
        values["penalty"] = float(penalty)
        with problems.at("plan.penalty"):
            as_penalty(float(penalty))
    mixture = values.pop("mixture", False)
    if isinstance(mixture, list):
        numbers = all(isinstance(k, int | float) and not isinstance(k, bool) and k >= 0 for k in mixture)
        if not mixture or not numbers:
            problems.add(
                "plan.mixture", "mixture must be true or powers >= 0", code="G02", fix="mixture = [0, 0.5, 1, 2]"
            )
        mixture = tuple(float(k) for k in mixture if numbers)
    if mixture and "penalty" in values:
        problems.add("plan.mixture", "give penalty or mixture, not both", code="G05")
    pilot = values.pop("pilot", max(60, 10 * dim))  # ten a parameter: a cost surface needs points in each direction
    return PlanSettings(**values, mixture=mixture, pilot=pilot)


def _check_cost(cost: CostSettings, plan: PlanSettings, problems: Problems) -> None:
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


def _run(values: dict[str, Any], problems: Problems, *, home: Path) -> RunSettings:
    from thrifty.campaign.budget import seconds
    from thrifty.campaign.limits import checked_limit

    values = dict(values)
    if values.get("engine", "processes") not in ENGINES:
        problems.unknown("run.engine", values["engine"], ENGINES, kind="engine")
    if values.get("workers", 1) < 1:
        problems.add("run.workers", f"workers = {values['workers']}, expected at least 1", code="F06")
    if "address" in values and values.get("engine") != "dask":
        problems.add("run.address", 'address is used with engine = "dask"', code="F14")
    limit: float | None = None
    with problems.at("run.time_limit"):
        given = values.pop("time_limit", None)
        limit = given if given is None else seconds(given, "time_limit") if given else 0.0
        checked_limit(limit, values.get("on_timeout"))
    if "deadline" in values:
        with problems.at("run.deadline"):
            seconds(values["deadline"])
    folder = home / values.pop("folder", "runs/main")
    return RunSettings(folder=folder, time_limit=limit, **values)


def _infer(values: dict[str, Any], problems: Problems, *, home: Path) -> InferSettings:
    values = dict(values)
    if values.get("method", "npe") not in METHODS:
        problems.unknown("infer.method", values["method"], METHODS, kind="method")
    for key in ("quantile", "epsilon", "adjust"):
        if key in values and values.get("method") != "abc":
            problems.add(f"infer.{key}", f'{key} is used with method = "abc"', code="F14")
    observed = values.pop("observed", None)
    numbers = {k: float(values.pop(k)) for k in ("quantile", "epsilon") if k in values}
    return InferSettings(observed=None if observed is None else home / observed, **numbers, **values)


def known_keys(section: str) -> tuple[str, ...]:
    """Keys of a section, for the documentation test: templates and reader must agree."""
    own = {"simulator": SimulatorSettings, "cost": CostSettings, "plan": PlanSettings, "run": RunSettings}
    assert {f.name for f in fields({**own, "infer": InferSettings}[section])} == set(_KEYS[section])
    return tuple(_KEYS[section])
