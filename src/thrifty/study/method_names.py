"""The methods by name: one table for `th.infer(method="abc")`, the command line and `thrifty.toml`."""

from __future__ import annotations

import difflib
from dataclasses import is_dataclass, replace
from importlib import import_module
from typing import Any

from thrifty.errors import ConfigError
from thrifty.named import find_nearest

_CLASSES = {
    "npe": "inference.neural.npe.NPE",
    "fmpe": "inference.neural.fmpe.FMPE",
    "nle": "inference.neural.nle.NLE",
    "nre": "inference.neural.nre.NRE",
    "abc": "inference.abc.ABC",
    "synthetic": "inference.synthetic_likelihood.SyntheticLikelihood",
    "scoring": "inference.scoring_rule.ScoringRule",
}
_STEERING = {  # methods that choose their own runs: passed as objects, since a table of runs is no use to them
    "smcabc": "th.SMCABC",
    "smc": "th.SMCABC",
    "abcsmc": "th.SMCABC",
    "pmcabc": "th.SMCABC",
    "rounds": "th.Rounds(th.NLE(prior))",
    "snpe": "th.Rounds(th.NPE(prior))",
    "snle": "th.Rounds(th.NLE(prior))",
    "snre": "th.Rounds(th.NRE(prior))",
    "tsnpe": "th.Rounds(th.NPE(prior))",
}
METHODS = {name: path.rpartition(".")[2] for name, path in _CLASSES.items()}  # name -> public name of the class


def find_method(method: Any) -> Any:
    """Return the class of a method that is given by its name; anything else as it is.

    Raises:
        ConfigError: bad-setting, no method has this name.

    Example:
        >>> find_method("abc") is th.ABC, find_method(th.NPE) is th.NPE
        (True, True)
    """
    if not isinstance(method, str):
        return method
    if method.lower() not in _CLASSES:
        raise ConfigError(
            f"method = {method!r} is not a method; by name there are {', '.join(_CLASSES)}",
            code="bad-setting",
            fix=_suggest(method.lower()),
        )
    module, _, name = _CLASSES[method.lower()].rpartition(".")
    return getattr(import_module(f"thrifty.{module}"), name)


def _suggest(method: str) -> str:
    """Say what a name that no method has may stand for."""
    plain = "".join(letter for letter in method if letter.isalnum())
    if near := difflib.get_close_matches(plain, _STEERING, n=1, cutoff=0.8):
        return f"method={_STEERING[near[0]]}, which chooses its own runs and has no name"
    near = find_nearest(method, _CLASSES)
    return f'method="{near}"' if near else "pass the class itself, method=th.SMCABC"


def make_method(method: Any, prior: Any) -> Any:
    """Return the method, made with its defaults when a class or its name was given, NPE where it is None.

    Raises:
        ConfigError: bad-setting, it has neither fit nor run.
    """
    chosen = find_method("npe" if method is None else method)
    made = chosen(prior) if isinstance(chosen, type) else chosen
    if not (hasattr(made, "fit") or hasattr(made, "run")):
        raise ConfigError(
            f"method = {method!r} is not a method",
            code="bad-setting",
            fix='"npe", "abc", ..., th.NPE, th.ABC, ... or th.NPE(prior, ...)',
        )
    return made


def set_progress(method: Any, progress: bool | None) -> Any:
    """Return a method that shows its training or does not; as it is where that is left open, or nothing is trained.

    Example:
        >>> set_progress(th.Ensemble(th.NPE(th.Uniform(0, 1))), False).method.training.progress
        False
    """
    if progress is not None and not isinstance(progress, bool):
        raise ConfigError(f"progress = {progress!r}, expected True, False or None", code="bad-setting")
    if progress is None or not is_dataclass(method) or isinstance(method, type):
        return method
    training = getattr(method, "training", None)
    if training is not None:
        return replace(method, **{"training": replace(training, progress=progress)})
    inner = {name: getattr(method, name, None) for name in ("method", "finish")}  # of rounds, ensembles and SMC-ABC
    changed = {name: set_progress(one, progress) for name, one in inner.items() if one is not None}
    return replace(method, **changed) if changed else method
