"""Priors as plain numbers: thrifty's own by their fields, scipy's by name and arguments, others not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from thrifty.errors import DataError
from thrifty.priors.families import Independent, LogUniform, Normal, Uniform
from thrifty.types import Prior

_FAMILIES: dict[str, tuple[type, tuple[str, str]]] = {
    "Uniform": (Uniform, ("low", "high")),
    "LogUniform": (LogUniform, ("low", "high")),
    "Normal": (Normal, ("mean", "sd")),
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
    if type(prior) is Independent:
        marginals = [_marginal_to_dict(prior.marginals[name]) for name in names]
        if all(marginals):
            return {"kind": "Independent", "names": names, "marginals": marginals}
    return {"kind": "given", "names": names, "type": type(prior).__name__}


def _marginal_to_dict(frozen: Any) -> dict[str, Any]:
    """Write a scipy frozen distribution by name and arguments; empty when it is not one of scipy's own."""
    from scipy import stats

    name = getattr(getattr(frozen, "dist", None), "name", "")
    if not isinstance(getattr(stats, name, None), stats.rv_continuous):
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
    if kind == "Independent":
        from scipy import stats

        marginals = {}
        for name, marginal in zip(values["names"], values["marginals"], strict=True):
            distribution = getattr(stats, str(marginal["name"]), None)
            if not isinstance(distribution, stats.rv_continuous):
                raise DataError(f"unknown distribution {str(marginal['name'])[:40]!r}", code="bad-file")
            numbers = {str(k): float(v) for k, v in marginal["kwds"].items()}
            marginals[name] = distribution(*(float(a) for a in marginal["args"]), **numbers)
        return Independent(marginals)
    raise DataError(
        f"the prior ({str(values.get('type'))[:60]}) could not be saved as plain numbers",
        code="code-not-saved",
        fix="th.load_posterior(path, prior=...) with the same prior",
    )
