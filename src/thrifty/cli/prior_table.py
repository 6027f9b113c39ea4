"""Read `[prior]`: one family per parameter, in the order in which they are written.

    beta  = { family = "uniform", low = 0.1, high = 1.0 }
    rate  = { family = "loguniform", low = 1e-3, high = 10.0 }
    shift = { family = "normal", mean = 0.0, sd = 2.0 }

Parameters of one of these three families become thrifty's own prior; mixed families become independent scipy
distributions, which are saved by name and numbers just as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from thrifty.cli.config_errors import Problems
from thrifty.errors import PriorError
from thrifty.priors import Independent, LogUniform, Normal, Uniform
from thrifty.priors.families import as_parameter_names
from thrifty.types import Prior

_OWN: dict[str, tuple[type, tuple[str, str]]] = {
    "uniform": (Uniform, ("low", "high")),
    "loguniform": (LogUniform, ("low", "high")),
    "normal": (Normal, ("mean", "sd")),
}
# family -> numbers it takes; the names are those of thrifty's own priors where they mean the same
FAMILIES: dict[str, tuple[str, ...]] = {
    **{name: keys for name, (_, keys) in _OWN.items()},
    "truncated": ("mean", "sd", "low", "high"),
    "lognormal": ("median", "sd"),
    "exponential": ("mean",),
    "gamma": ("shape", "scale"),
    "beta": ("a", "b"),
}
EXAMPLE = '{ family = "uniform", low = 0.0, high = 1.0 }'


def read_prior(table: Any, problems: Problems) -> Prior | None:
    """Read the prior; None with the problems noted if something is wrong."""
    if not isinstance(table, dict) or not table:
        what = "no parameters: the section [prior] is missing or empty"
        problems.add(what, at="prior", code="bad-prior", fix=f"theta = {EXAMPLE}")
        return None
    before = len(problems.errors)
    marginals = {name: _read_marginal(name, values, problems) for name, values in table.items()}
    if len(problems.errors) > before:
        return None
    with problems.at("prior"):
        return _join({name: marginal for name, marginal in marginals.items() if marginal})
    return None


def _read_marginal(name: str, values: Any, problems: Problems) -> tuple[str, dict[str, float]] | None:
    """Read (family, numbers) of one parameter, each checked alone so that every mistake has its line."""
    where = f"prior.{name}"
    before = len(problems.errors)
    with problems.at(where):
        as_parameter_names([name], 1)
    if not isinstance(values, dict):
        problems.add(f"prior {name!r} must be a table", at=where, code="bad-prior", fix=f"{name} = {EXAMPLE}")
        return None
    family = values.get("family", "uniform")
    if not isinstance(family, str) or family not in FAMILIES:
        problems.unknown(where, str(family), FAMILIES, kind="family")
        return None
    wanted = FAMILIES[family]
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
        _check(name, family, numbers)
        return family, numbers
    return None


def _check(name: str, family: str, numbers: dict[str, float]) -> None:
    if family in _OWN:
        own, keys = _OWN[family]
        own(*(numbers[key] for key in keys), names=[name])
        return
    for key in ("sd", "mean", "median", "shape", "scale", "a", "b"):
        free = family == "truncated" and key == "mean"
        if key in numbers and not free and not numbers[key] > 0:
            raise PriorError(f"prior {name!r}: {key} must be > 0, got {numbers[key]:g}", code="bad-prior")
    if family == "truncated":  # reversed bounds give the message of a uniform prior
        _OWN["uniform"][0](numbers["low"], numbers["high"], names=[name])


def _join(marginals: dict[str, tuple[str, dict[str, float]]]) -> Prior:
    families = {family for family, _ in marginals.values()}
    if len(families) == 1 and (only := next(iter(families))) in _OWN:
        own, keys = _OWN[only]
        return own(*([numbers[key] for _, numbers in marginals.values()] for key in keys), names=list(marginals))
    return Independent({name: _as_scipy(family, numbers) for name, (family, numbers) in marginals.items()})


def _as_scipy(family: str, v: dict[str, float]) -> Any:
    from scipy import stats

    made: dict[str, Callable[[], Any]] = {
        "uniform": lambda: stats.uniform(v["low"], v["high"] - v["low"]),
        "loguniform": lambda: stats.loguniform(v["low"], v["high"]),
        "normal": lambda: stats.norm(v["mean"], v["sd"]),
        "truncated": lambda: stats.truncnorm(
            (v["low"] - v["mean"]) / v["sd"], (v["high"] - v["mean"]) / v["sd"], v["mean"], v["sd"]
        ),
        "lognormal": lambda: stats.lognorm(v["sd"], 0.0, v["median"]),
        "exponential": lambda: stats.expon(0.0, v["mean"]),
        "gamma": lambda: stats.gamma(v["shape"], 0.0, v["scale"]),
        "beta": lambda: stats.beta(v["a"], v["b"]),
    }
    return made[family]()
