"""Decide which argument of a simulator gets what, from its signature and the names of the prior's parameters.

    simulate(theta), simulate(theta, rng), simulate(theta, noise=0.1, rng=None)      the vector of parameters
    simulate(beta, gamma), simulate(beta, gamma, rng), simulate(rng, **parameters)   parameters by name, as numbers

An argument named `rng` gets a Generator and one named `seed` a whole number, wherever it stands. Parameters go by name
where the first other argument is named like one of several parameters. With one parameter it is always the vector, of
length 1. An argument with a default that is none of these keeps its default. What cannot be assigned is refused before
anything runs: a Generator is never passed as a parameter.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thrifty.errors import SimulatorError
from thrifty.named import find_nearest, list_names
from thrifty.runner.task import get_name
from thrifty.types import Array

Source = str | int  # "theta", "rng", "seed", or the position of a parameter
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_RANDOM = ("rng", "seed")
# words in the name of a second argument that is a Generator by another name, as in simulate(theta, generator)
_RANDOM_WORDS = {"rng", "prng", "random", "generator", "gen", "rs", "state", "stream", "r", "g", "_", "noise"}


@dataclass(frozen=True)
class Signature:
    """Where each argument comes from: positional ones in order, keywords by name.

    Example:
        >>> read_signature(lambda beta, gamma, rng=None: 0, ("beta", "gamma"))
        Signature(positional=(0, 1, 'rng'), keywords=())
    """

    positional: tuple[Source, ...] = ("theta",)
    keywords: tuple[tuple[str, Source], ...] = ()

    @property
    def sources(self) -> tuple[Source, ...]:
        """All sources."""
        return (*self.positional, *(source for _, source in self.keywords))

    @property
    def is_random(self) -> bool:
        """Whether an argument brings randomness."""
        return any(source in _RANDOM for source in self.sources)

    def call(self, simulator: Callable[..., Any], theta: Array, rng: np.random.Generator | None, seed: int) -> Any:
        """Call the simulator once."""
        given: dict[Source, Any] = {"theta": theta, "rng": rng, "seed": seed}

        def value(source: Source) -> Any:
            return float(theta[source]) if isinstance(source, int) else given[source]

        return simulator(*map(value, self.positional), **{name: value(source) for name, source in self.keywords})


def read_signature(simulator: Callable[..., Any], names: Sequence[str] = ()) -> Signature:
    """Read how a simulator is called, for a prior whose parameters have these names.

    Raises:
        SimulatorError: bad-simulator, it cannot be called, or an argument cannot be assigned.
    """
    if not callable(simulator):
        run = callable(getattr(simulator, "run", None))  # one of thrifty's models, or somebody's like them
        raise SimulatorError(
            f"simulator is {type(simulator).__name__} {simulator!r:.60}, not something to call",
            code="bad-simulator",
            fix="pass its method: model.run" if run else "pass a function simulate(theta, rng), or th.Command([...])",
        )
    style = getattr(simulator, "call_style", None)  # th.Command says so itself
    if style in ("theta", *_RANDOM):
        return Signature(("theta",) if style == "theta" else ("theta", style))
    try:
        parameters = list(inspect.signature(simulator).parameters.values())
    except (TypeError, ValueError):  # built-in functions have no signature
        return Signature()
    plain = [p for p in parameters if p.kind in (*_POSITIONAL, p.KEYWORD_ONLY) and p.name not in _RANDOM]
    any_keyword = any(p.kind is p.VAR_KEYWORD for p in parameters)
    refuse = functools.partial(_refusal, simulator, parameters, names)
    if _goes_by_name(parameters, plain, names):
        sources = _assign_names(simulator, plain, names, any_keyword, refuse)
    else:
        sources = _assign_vector(parameters, plain, names, refuse)
    return _arrange(parameters, {**sources, **_assign_randomness(parameters, sources)}, refuse)


def explain_vector(simulator: Callable[..., Any], names: Sequence[str]) -> str:
    """Say that the argument named like the only parameter is a vector, as documented; "" where there is none.

    Example:
        >>> explain_vector(lambda mu, rng: mu, ("mu",))
        "'mu' is the only parameter, so the argument mu is the vector of length 1, not a number: use mu[0]"
        >>> explain_vector(lambda theta, rng: theta, ("mu",)), explain_vector(lambda a, b: a, ("a", "b"))
        ('', '')
    """
    if len(names) != 1 or names[0] == "theta" or hasattr(simulator, "call_style"):
        return ""
    try:
        parameters = list(inspect.signature(simulator).parameters.values())
    except (TypeError, ValueError):
        return ""
    name = names[0]
    if not any(p.name == name and p.kind in _POSITIONAL for p in parameters):
        return ""
    return (
        f"{name!r} is the only parameter, so the argument {name} is the vector of length 1, not a number: use {name}[0]"
    )


def _goes_by_name(parameters: list[inspect.Parameter], plain: list[inspect.Parameter], names: Sequence[str]) -> bool:
    if plain and plain[0].kind in _POSITIONAL and len(names) == 1:
        return False  # one parameter is the vector of length 1, whatever its name
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    has_none = not plain and not variadic and any(p.kind is p.VAR_KEYWORD for p in parameters)
    return bool(names) and (has_none or (bool(plain) and plain[0].name in names))


def _assign_names(
    simulator: Any, plain: list[inspect.Parameter], names: Sequence[str], any_keyword: bool, refuse: Callable[..., Any]
) -> dict[str, Source]:
    """Give each parameter of the prior to the argument with its name."""
    fixed = [name for name in names if isinstance(simulator, functools.partial) and name in simulator.keywords]
    if fixed:
        raise refuse(f"{fixed[0]} is a parameter of the prior, but functools.partial fixes it", fix="leave one out")
    unknown = [p.name for p in plain if p.default is p.empty and p.name not in names]
    if unknown:
        near = find_nearest(unknown[0], [name for name in names if name not in {p.name for p in plain}])
        meant = f"; the prior has {near!r}: is one of them misspelt?" if near else ""
        raise refuse(f"{unknown[0]!r} is neither a parameter nor rng nor seed{meant}")
    taken = {p.name for p in plain}
    missing = [name for name in names if name not in taken and not any_keyword]
    if missing:
        raise refuse(f"no argument takes the parameter {missing[0]}")
    return {name: i for i, name in enumerate(names)}


def _assign_vector(
    parameters: list[inspect.Parameter],
    plain: list[inspect.Parameter],
    names: Sequence[str],
    refuse: Callable[..., Any],
) -> dict[str, Source]:
    """Give the vector of parameters to `theta`, or to the first argument; a second one may be a Generator."""
    positional = [p.name for p in plain if p.kind in _POSITIONAL]
    variadic = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    if not positional and not variadic:
        raise refuse("no argument takes the parameters")
    theta = "theta" if "theta" in positional else (positional or variadic)[0]
    others = [p for p in plain if p.default is p.empty and p.name != theta]
    if not others:
        return {theta: "theta"}
    has_random = any(p.name in _RANDOM for p in parameters)
    words = set(re.split(r"(?<=.)_+|\d+", others[0].name.lower()))
    random = "seed" if "seed" in words else "rng" if words & _RANDOM_WORDS else None
    if len(others) > 1 or has_random or random is None or others[0].name in names:
        raise refuse(f"nothing is known for the argument {others[0].name!r}", others=[theta, *(p.name for p in others)])
    return {theta: "theta", others[0].name: random}


def _assign_randomness(parameters: list[inspect.Parameter], sources: dict[str, Source]) -> dict[str, Source]:
    """Give rng and seed to the arguments of these names; the second of the two only where it has no default."""
    found = [p for p in parameters if p.name in _RANDOM and p.name not in sources]
    wanted = [p for i, p in enumerate(found) if i == 0 or p.default is p.empty]
    return {p.name: p.name for p in wanted}


def _arrange(parameters: list[inspect.Parameter], sources: dict[str, Source], refuse: Callable[..., Any]) -> Signature:
    """Pass by position what can be, from the left; the rest by keyword."""
    positional, keywords, left = [], [], dict(sources)
    in_order = True
    for p in parameters:
        if p.name not in sources:
            in_order = in_order and p.kind is p.KEYWORD_ONLY  # an argument that keeps its default
        elif p.kind is p.VAR_POSITIONAL or (in_order and p.kind in _POSITIONAL):
            positional.append(left.pop(p.name))
        elif p.kind in _NAMED:
            keywords.append((p.name, left.pop(p.name)))
        else:
            raise refuse(f"{p.name!r} cannot be passed: an argument before it keeps its default")
    return Signature(tuple(positional), (*keywords, *left.items()))  # what is left goes to **parameters


def _refusal(
    simulator: Any,
    parameters: list[inspect.Parameter],
    names: Sequence[str],
    reason: str,
    *,
    fix: str = "",
    others: Sequence[str] = (),
) -> SimulatorError:
    taken = ", ".join(str(p) for p in parameters)
    known = f"the prior has the parameters {list_names(tuple(names))}" if names else "the parameters have no names"
    if len(others) > 1 and (not names or len(others) == len(names)):
        fix = (
            f"name the parameters: names={list(others)}; or write def simulate(theta, rng) and take theta apart inside"
        )
    own = f"({', '.join([*names, 'rng'])})" if 1 < len(names) <= 6 and all(map(str.isidentifier, names)) else ""
    return SimulatorError(
        f"simulator {get_name(simulator)!r} takes ({taken}), and {known}: {reason}",
        code="bad-simulator",
        fix=fix or "def simulate(theta, rng)" + (f", or def simulate{own}" if own else ""),
    )
