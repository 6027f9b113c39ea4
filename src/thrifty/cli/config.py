"""Read `thrifty.toml` and report every mistake at once; nothing is executed."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from thrifty.cli.config_errors import Problems, format_value
from thrifty.cli.config_tables import (
    EXAMPLES,
    CostSettings,
    InferSettings,
    PlanSettings,
    RunSettings,
    Settings,
    SimulatorSettings,
    check_command,
    check_cost,
    read_infer,
    read_plan,
    read_run,
    read_simulator,
)
from thrifty.cli.prior_table import read_prior
from thrifty.errors import ConfigError

NAME = "thrifty.toml"
MAX_BYTES = 2**20  # a configuration is about a page
TABLES: dict[str, type] = {
    "simulator": SimulatorSettings, "cost": CostSettings, "plan": PlanSettings, "run": RunSettings,
    "infer": InferSettings,
}  # fmt: skip
_TYPE_NAMES = {
    int: "a whole number", float: "a number", str: "a text", bool: "true or false", list: "a list", dict: "a table",
}  # fmt: skip
_TYPE_CODES = {"penalty": "bad-penalty", "budget": "bad-amount"}


def read_config(path: Path) -> Settings:
    """Read the settings of a file.

    Raises:
        ConfigError: bad-name for unknown keys, bad-config-file where it is not TOML, and whatever is wrong with values;
            `ManyErrors` for several.
    """
    text = _read_text(path)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml_error(path, text, error) from None
    problems = Problems(path, text)
    tables = _check_keys(data, problems)
    simulator = read_simulator(tables["simulator"], problems)
    prior = read_prior(data.get("prior"), problems)
    cost = CostSettings(**tables["cost"])
    plan = read_plan(tables["plan"], problems, dim=0 if prior is None else prior.dim)
    run = read_run(tables["run"], problems, home=path.parent)
    infer = read_infer(tables["infer"], problems, home=path.parent)
    check_cost(cost, plan, problems)
    if prior is not None:
        check_command(simulator, prior.names, problems)
    problems.close()
    assert prior is not None, "a prior that could not be read is a problem"
    return Settings(path, text, simulator, prior, cost, plan, run, infer)


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
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


def _not_toml_error(path: Path, text: str, error: tomllib.TOMLDecodeError) -> ConfigError:
    """Build the error for a file that is not TOML, with its line."""
    found = re.fullmatch(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error))
    what = found[1] if found else str(error)
    line = int(found[2]) if found and found[2] else len(text.splitlines())
    column = f" column {found[3]}" if found and found[3] else ""
    there = text.splitlines()[line - 1].strip()[:60] if text.strip() else ""
    what = f"{path.name} line {line}{column}: {what[0].lower()}{what[1:]} in {there!r}"
    return ConfigError(what, code="bad-config-file")


def _check_keys(data: dict[str, Any], problems: Problems) -> dict[str, dict[str, Any]]:
    """Return the known keys of each table; note unknown keys and wrong types and leave them out."""
    known = {name: {} for name in TABLES}
    for table, values in data.items():
        if table == "prior":
            continue
        if table not in TABLES:
            problems.unknown(table, table, [*TABLES, "prior"], kind="section")
        elif not isinstance(values, dict):
            problems.add(f"{table} must be a section: [{table}]", at=table, code="bad-setting")
        else:
            known[table] = _check_types(table, values, problems)
    return known


def _check_types(table: str, values: dict[str, Any], problems: Problems) -> dict[str, Any]:
    kinds_of = {key.name: key.metadata["kinds"] for key in fields(TABLES[table])}
    found = {}
    for key, value in values.items():
        where = f"{table}.{key}"
        if key not in kinds_of:
            problems.unknown(where, key, kinds_of)
        elif not isinstance(value, kinds_of[key]) or (isinstance(value, bool) and bool not in kinds_of[key]):
            words = " or ".join(dict.fromkeys(_TYPE_NAMES[kind] for kind in kinds_of[key]))
            what, code = f"{key} = {format_value(value)}, expected {words}", _TYPE_CODES.get(key, "bad-setting")
            problems.add(what, at=where, code=code, fix=EXAMPLES.get(key, ""))
        else:
            found[key] = value
    return found
