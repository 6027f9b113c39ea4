"""Reading `thrifty.toml`: every section, every mistake at once, nothing executed."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from thrifty.cli.config_errors import Problems
from thrifty.cli.config_tables import (
    CostSettings,
    InferSettings,
    PlanSettings,
    RunSettings,
    Settings,
    SimulatorSettings,
)
from thrifty.cli.prior_table import read_prior
from thrifty.cli.sections import (
    HINTS,
    check_command,
    check_cost,
    read_infer,
    read_plan,
    read_run,
    read_simulator,
    shown,
)
from thrifty.errors import ConfigError

NAME = "thrifty.toml"
LARGEST = 2**20  # bytes: a configuration is a page
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
        ConfigError: bad-name for unknown keys, bad-config-file where it is not TOML, and whatever is wrong with values;
            `ManyErrors` for several.
    """
    text = _text(path)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(path, text, error) from None
    problems = Problems(path, text)
    sections = _sections(data, problems)
    simulator = read_simulator(sections["simulator"], problems)
    prior = read_prior(data.get("prior"), problems)
    cost = CostSettings(**sections["cost"])
    plan = read_plan(sections["plan"], problems, dim=0 if prior is None else prior.dim)
    run = read_run(sections["run"], problems, home=path.parent)
    infer = read_infer(sections["infer"], problems, home=path.parent)
    check_cost(cost, plan, problems)
    if prior is not None and simulator.command:
        check_command(simulator, prior.names, problems)
    problems.close()
    assert prior is not None, "a prior that could not be read is a problem"
    return Settings(path, text, simulator, prior, cost, plan, run, infer)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST:
            raise ConfigError(f"{path} is larger than 1 MB: not a configuration", code="bad-config-file")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"no {path.name} in {path.parent.absolute()}",
            code="bad-config-file",
            why="it names the simulator and the prior",
            fix="thrifty init writes one to begin with; or --config FILE",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"cannot read {path}: {reason}", code="bad-config-file") from None


def _not_toml(path: Path, text: str, error: tomllib.TOMLDecodeError) -> ConfigError:
    found = re.fullmatch(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error))
    what = found[1] if found else str(error)
    line = int(found[2]) if found and found[2] else len(text.splitlines())
    column = f" column {found[3]}" if found and found[3] else ""
    there = text.splitlines()[line - 1].strip()[:60] if text.strip() else ""
    return ConfigError(
        f"{path.name} line {line}{column}: {what[0].lower()}{what[1:]} in {there!r}", code="bad-config-file"
    )


def _sections(data: dict[str, Any], problems: Problems) -> dict[str, dict[str, Any]]:
    """The known keys of each section; unknown ones and wrong types are noted and left out."""
    known = {name: {} for name in _KEYS}
    for section, values in data.items():
        if section == "prior":
            continue
        if section not in _KEYS:
            problems.unknown(section, section, [*_KEYS, "prior"], kind="section")
        elif not isinstance(values, dict):
            problems.add(f"{section} must be a section: [{section}]", at=section, code="bad-setting")
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
            code = (
                "bad-penalty"
                if key == "penalty"
                else "bad-setting"
                if key == "workers"
                else "bad-amount"
                if key == "budget"
                else "bad-setting"
            )
            problems.add(f"{key} = {shown(value)}, expected {words}", at=where, code=code, fix=HINTS.get(key, ""))
            continue
        found[key] = value
    return found


def known_keys(section: str) -> tuple[str, ...]:
    """Keys of a section, for the documentation test: templates and reader must agree."""
    own = {"simulator": SimulatorSettings, "cost": CostSettings, "plan": PlanSettings, "run": RunSettings}
    assert {f.name for f in fields({**own, "infer": InferSettings}[section])} == set(_KEYS[section])
    return tuple(_KEYS[section])
