"""Priors as plain numbers: thrifty's own by their fields, scipy's by name and arguments, others not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from thrifty.errors import DataError
from thrifty.priors.discrete import Categorical, Integers
from thrifty.priors.families import LogUniform, Normal, Uniform
from thrifty.priors.independent import OWN, Independent
from thrifty.types import Prior

_FAMILIES: dict[str, tuple[type, tuple[str, str]]] = {
    "Uniform": (Uniform, ("low", "high")),
    "LogUniform": (LogUniform, ("low", "high")),
    "Normal": (Normal, ("mean", "sd")),
    "Integers": (Integers, ("low", "high")),
}


def prior_to_dict(prior: Prior) -> dict[str, Any]:
    """Write a prior as plain numbers, or only its names when it has none.

    Example:
        >>> prior_to_dict(th.Uniform([0.0], [1.0]))
        {'kind': 'Uniform', 'names': ['theta'], 'low': [0.0], 'high': [1.0]}
    """
    names = list(prior.names)
    for kind, (own, labels) in _FAMILIES.items():
        if type(prior) is own:
            return {"kind": kind, "names": names, **{label: getattr(prior, label).tolist() for label in labels}}
    if type(prior) is Categorical:
        shares, labels = prior.probabilities.tolist(), list(prior.levels[0] or ())
        return {"kind": "Categorical", "names": names, "probabilities": shares, "labels": labels}
    if type(prior) is Independent:
        marginals = [_marginal_to_dict(prior.marginals[name]) for name in names]
        if all(marginals):
            return {"kind": "Independent", "names": names, "marginals": marginals}
    return {"kind": "given", "names": names, "type": type(prior).__name__}


def _marginal_to_dict(frozen: Any) -> dict[str, Any]:
    """Write one of thrifty's priors, or a frozen distribution of scipy by name and arguments; empty for others."""
    from scipy import stats

    if isinstance(frozen, OWN):
        return {"prior": prior_to_dict(frozen)}
    name = getattr(getattr(frozen, "dist", None), "name", "")
    if not isinstance(getattr(stats, name, None), stats.rv_continuous | stats.rv_discrete):
        return {}
    try:
        args = [float(a) for a in frozen.args]
        return {"name": name, "args": args, "kwds": {k: float(v) for k, v in frozen.kwds.items()}}
    except (TypeError, ValueError):
        return {}


def prior_from_dict(values: Mapping[str, Any]) -> Prior:
    """Rebuild the prior that `prior_to_dict` wrote.

    Raises:
        DataError: code-not-saved, it was not written as numbers and must be given.
    """
    kind = values.get("kind")
    if isinstance(kind, str) and kind in _FAMILIES:
        own, labels = _FAMILIES[kind]
        return own(*(np.asarray(values[label], dtype=np.float64) for label in labels), names=tuple(values["names"]))
    if kind == "Categorical":
        return Categorical(values["probabilities"], values["labels"], names=tuple(values["names"]))
    if kind == "Independent":
        named = zip(values["names"], values["marginals"], strict=True)
        return Independent({name: _marginal_from_dict(marginal) for name, marginal in named})
    raise DataError(
        f"the prior ({str(values.get('type'))[:60]}) could not be saved as plain numbers",
        code="code-not-saved",
        fix="th.load_posterior(path, prior=...) with the same prior",
    )


def _marginal_from_dict(values: Mapping[str, Any]) -> Any:
    from scipy import stats

    if "prior" in values:
        return prior_from_dict(values["prior"])
    distribution: Any = getattr(stats, str(values["name"]), None)
    if not isinstance(distribution, stats.rv_continuous | stats.rv_discrete):
        raise DataError(f"unknown distribution {str(values['name'])[:40]!r}", code="bad-file")
    numbers = {str(k): float(v) for k, v in values["kwds"].items()}
    return distribution(*(float(a) for a in values["args"]), **numbers)
