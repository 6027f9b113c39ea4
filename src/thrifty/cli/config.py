"""Read `thrifty.toml` and report every mistake at once; nothing is executed."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from thrifty.cli.config_errors import Problems, did_you_mean, format_value
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
from thrifty.cli.round_settings import check_rounds
from thrifty.display import count_things
from thrifty.errors import ConfigError, PriorError
from thrifty.named import find_nearest
from thrifty.priors import Categorical, Independent, Integers, LogUniform, Normal, Uniform
from thrifty.priors.families import as_parameter_names
from thrifty.types import Prior

NAME = "thrifty.toml"
MAX_BYTES = 2**20  # a configuration is about a page
TABLES: dict[str, type] = {
    "simulator": SimulatorSettings, "cost": CostSettings, "plan": PlanSettings, "run": RunSettings,
    "infer": InferSettings,
}  # fmt: skip
_TYPE_NAMES = {
    int: "a whole number", float: "a number", str: "a text", bool: "true or false", list: "a list", dict: "a table",
}  # fmt: skip
# family -> the numbers it takes, and what scipy makes of them; names are those of thrifty's own priors where they mean
# the same
FAMILIES: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "uniform": (("low", "high"), lambda stats, low, high: stats.uniform(low, high - low)),
    "loguniform": (("low", "high"), lambda stats, low, high: stats.loguniform(low, high)),
    "normal": (("mean", "sd"), lambda stats, mean, sd: stats.norm(mean, sd)),
    "truncated": (
        ("mean", "sd", "low", "high"),
        lambda stats, mean, sd, low, high: stats.truncnorm((low - mean) / sd, (high - mean) / sd, mean, sd),
    ),
    "lognormal": (("median", "sd"), lambda stats, median, sd: stats.lognorm(sd, 0.0, median)),
    "exponential": (("mean",), lambda stats, mean: stats.expon(0.0, mean)),
    "gamma": (("shape", "scale"), lambda stats, shape, scale: stats.gamma(shape, 0.0, scale)),
    "beta": (("a", "b"), lambda stats, a, b: stats.beta(a, b)),
    "integers": (("low", "high"), lambda stats, low, high: Integers(low, high)),
    "poisson": (("mean",), lambda stats, mean: stats.poisson(mean)),
    "categorical": (
        ("probabilities", "labels"),
        lambda stats, probabilities, labels: Categorical(probabilities, labels),
    ),
}
_OWN: dict[str, type] = {"uniform": Uniform, "loguniform": LogUniform, "normal": Normal, "integers": Integers}
PRIOR_EXAMPLE = '{ family = "uniform", low = 0.0, high = 1.0 }'
SHORT_EXAMPLE = "{ uniform = [0.0, 1.0] }"
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
    found = data.get("plan")
    given = found if isinstance(found, dict) else {}
    plan = read_plan(tables["plan"], problems, dim=0 if prior is None else prior.dim, given=given)
    run = read_run(tables["run"], problems, home=path.parent)
    infer = read_infer(tables["infer"], problems, home=path.parent)
    check_cost(cost, plan, problems)
    check_rounds(infer, plan, run, problems)
    if prior is not None:
        check_command(simulator, prior.names, problems)
    problems.close()
    assert prior is not None, "a prior that could not be read is a problem"
    return Settings(path, text, simulator, prior, cost, plan, run, infer)


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(
                f"{path} is larger than 1 MB: not a configuration", code="bad-config-file", fix="--config FILE"
            )
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
        fix = "save it as UTF-8 text that you may read"
        raise ConfigError(f"cannot read {path}: {reason}", code="bad-config-file", fix=fix) from None


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
    limits = {key.name: key.metadata for key in fields(TABLES[table])}
    found = {}
    for key, value in values.items():
        where = f"{table}.{key}"
        kinds = limits[key]["kinds"] if key in limits else ()
        if not kinds:
            owners = [name for name, settings in TABLES.items() if key in {one.name for one in fields(settings)}]
            if owners:
                what, fix = f"{key} is no setting of [{table}]", f"put it under [{owners[0]}]: {EXAMPLES.get(key, key)}"
                problems.add(what, at=where, code="bad-name", fix=fix)
            else:
                problems.unknown(where, key, limits)
        elif not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            words = " or ".join(dict.fromkeys(_TYPE_NAMES[kind] for kind in kinds))
            what, code = f"{key} = {format_value(value)}, expected {words}", _TYPE_CODES.get(key, "bad-setting")
            problems.add(what, at=where, code=code, fix=EXAMPLES.get(key, ""))
        else:
            _check_value(where, value, limits[key], problems)
            found[key] = value
    return found


def _check_value(where: str, value: Any, limits: Mapping[str, Any], problems: Problems) -> None:
    """Note a value that is none of the declared ones, or below the declared least one."""
    key = where.partition(".")[2]
    choices, least = limits.get("choices"), limits.get("least")
    if choices and value not in choices:
        problems.unknown(where, value, choices, kind=key)
    if least is not None and value < least:
        code = "too-few-pilots" if key == "pilot" else "bad-setting"
        problems.add(f"{key} = {value}, expected at least {least}", at=where, code=code)


def read_prior(table: Any, problems: Problems) -> Prior | None:
    """Read `[prior]`, one family per parameter; None with the problems noted if something is wrong.

        beta  = { family = "uniform", low = 0.1, high = 1.0 }
        rate  = { family = "loguniform", low = 1e-3, high = 10.0 }
        model = { family = "categorical", probabilities = [0.5, 0.5], labels = ["gamma", "lognormal"] }

    The short form `beta = { uniform = [0.1, 1.0] }` gives the numbers of a family in their order. Parameters of one
    family of `_OWN` become thrifty's own prior; mixed families become independent scipy distributions, which are saved
    by name and numbers just as well.
    """
    if not isinstance(table, dict) or not table:
        what = "no parameters: the section [prior] is missing or empty"
        problems.add(what, at="prior", code="bad-prior", fix=_both_forms("theta"))
        return None
    before = len(problems.errors)
    marginals = {name: _read_marginal(name, values, problems) for name, values in table.items()}
    if len(problems.errors) > before:
        return None
    with problems.at("prior"):
        return _join_marginals({name: marginal for name, marginal in marginals.items() if marginal})
    return None


def _read_marginal(name: str, values: Any, problems: Problems) -> tuple[str, dict[str, Any]] | None:
    """Read (family, numbers) of one parameter, each checked alone so that every mistake has its line."""
    where = f"prior.{name}"
    before = len(problems.errors)
    with problems.at(where):
        as_parameter_names([name], 1)
    if not isinstance(values, dict):
        problems.add(f"prior {name!r} must be a table", at=where, code="bad-prior", fix=_both_forms(name))
        return None
    values = _expand_short_form(name, values, problems)
    family = None if values is None else _find_family(name, values, problems)
    if values is None or family is None:
        return None
    wanted, _ = FAMILIES[family]
    if family == "categorical":
        return _read_categories(name, values, problems)
    for key, value in values.items():
        if key == "family":
            continue
        if key not in wanted:
            problems.unknown(where, key, wanted, kind=f"number of a {family} prior")
        elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            what = f"prior {name!r}: {key} must be a finite number, got {value!r:.40}"
            problems.add(what, at=where, code="bad-prior")
    missing = [key for key in wanted if key not in values]
    if missing:
        problems.add(f"prior {name!r} ({family}) needs {' and '.join(missing)}", at=where, code="bad-prior")
    if len(problems.errors) > before:
        return None
    numbers = {key: float(values[key]) for key in wanted}
    with problems.at(where):
        _check_numbers(name, family, numbers)
        return family, numbers
    return None


def _both_forms(name: str) -> str:
    return f"{name} = {PRIOR_EXAMPLE}, or {name} = {SHORT_EXAMPLE}"


def _expand_short_form(name: str, values: dict[str, Any], problems: Problems) -> dict[str, Any] | None:
    """Write `{ uniform = [0, 1] }` as a family with named numbers; return another form unchanged.

    The list of a categorical prior holds its probabilities; labels stand beside it.
    """
    family = next((key for key in values if key in FAMILIES), None)
    if "family" in values or family is None:
        return values
    wanted, rest = FAMILIES[family][0], {key: value for key, value in values.items() if key != family}
    if family == "categorical":
        return {"family": family, "probabilities": values[family], **rest}
    numbers = values[family] if isinstance(values[family], list) else [values[family]]
    if len(numbers) != len(wanted) or rest:
        got = ", ".join(f"{key} = {format_value(value)}" for key, value in values.items())
        listed = ", ".join(wanted)
        what = f"prior {name!r}: {family} takes {count_things(len(wanted), 'number')} ({listed}), got {got}"
        long = ", ".join(f"{key} = ..." for key in wanted)
        fix = f'{name} = {{ {family} = [{listed}] }}, or {name} = {{ family = "{family}", {long} }}'
        problems.add(what, at=f"prior.{name}", code="bad-prior", fix=fix)
        return None
    return {"family": family, **dict(zip(wanted, numbers, strict=True))}


def _find_family(name: str, values: dict[str, Any], problems: Problems) -> str | None:
    """Find the family of one parameter, uniform where only low and high are given; None with the problem noted."""
    where, family = f"prior.{name}", values.get("family", "uniform")
    if not isinstance(family, str) or family not in FAMILIES:
        problems.unknown(where, str(family), FAMILIES, kind="family")
        return None
    unknown = [key for key in values if key not in FAMILIES["uniform"][0]]
    if "family" in values or not unknown:
        return family
    meant = did_you_mean(unknown[0], ["family", *FAMILIES, *FAMILIES["uniform"][0]])
    what = f"prior {name!r} names no family: unknown key {unknown[0]!r}.{meant}"
    near = find_nearest(unknown[0], FAMILIES)
    fix = _both_forms(name)
    if near and near not in ("categorical", "uniform"):  # both forms show a uniform one
        numbers = values[unknown[0]] if isinstance(values[unknown[0]], list) else FAMILIES[near][0]
        fix = f"{name} = {{ {near} = [{', '.join(map(str, numbers))}] }}"
    problems.add(what, at=where, code="bad-name", fix=fix)
    return None


def _read_categories(name: str, values: dict[str, Any], problems: Problems) -> tuple[str, dict[str, Any]] | None:
    """Read the probabilities and the labels of a categorical parameter; the labels may be left out."""
    where, wanted = f"prior.{name}", FAMILIES["categorical"][0]
    unknown = [key for key in values if key not in ("family", *wanted)]
    for key in unknown:
        problems.unknown(where, key, wanted, kind="entry of a categorical prior")
    with problems.at(where):
        found = Categorical(values.get("probabilities", ()), values.get("labels"), names=[name])  # type: ignore[arg-type]
        both = {"probabilities": found.probabilities.tolist(), "labels": list(found.labels or ())}
        return None if unknown else ("categorical", both)
    return None


def _check_numbers(name: str, family: str, numbers: dict[str, float]) -> None:
    if family in _OWN:
        _OWN[family](**numbers, names=[name])
        return
    for key in ("sd", "mean", "median", "shape", "scale", "a", "b"):
        free = family == "truncated" and key == "mean"
        if key in numbers and not free and not numbers[key] > 0:
            raise PriorError(f"prior {name!r}: {key} must be > 0, got {numbers[key]:g}", code="bad-prior")
    if family == "truncated":  # reversed bounds give the message of a uniform prior
        Uniform(numbers["low"], numbers["high"], names=[name])  # type: ignore[arg-type]


def _join_marginals(marginals: dict[str, tuple[str, dict[str, Any]]]) -> Prior:
    families = {family for family, _ in marginals.values()}
    if len(families) == 1 and (only := next(iter(families))) in _OWN:
        columns = {key: [numbers[key] for _, numbers in marginals.values()] for key in FAMILIES[only][0]}
        return _OWN[only](**columns, names=list(marginals))
    from scipy import stats

    return Independent({name: FAMILIES[family][1](stats, **v) for name, (family, v) in marginals.items()})
