"""What a folder was made with, and whether it is what the user brings now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from thrifty.errors import ConfigError, ThriftyError
from thrifty.priors import as_prior
from thrifty.priors.prior_dict import prior_from_dict, prior_to_dict
from thrifty.types import Array, Prior

PROBES = 8  # prior draws, with their densities, that tell two priors apart


def describe_prior(prior: Prior) -> dict[str, Any]:
    """Names, bounds, and a few draws with their densities: plain numbers that identify a prior."""
    low, high = prior.bounds
    theta = np.asarray(prior.sample(PROBES, np.random.default_rng(0)), dtype=np.float64)
    density = np.asarray(prior.log_prob(theta), dtype=np.float64)
    return {
        "names": list(prior.names),
        "low": [str(value) for value in np.asarray(low, dtype=np.float64).tolist()],
        "high": [str(value) for value in np.asarray(high, dtype=np.float64).tolist()],
        "draws": theta.tolist(),
        "log_prob": density.tolist(),
        "recipe": prior_to_dict(prior),
    }


def changed_prior(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs between two described priors, in words."""
    if old["names"] != new["names"]:
        return [f"parameters {', '.join(old['names'])} -> {', '.join(new['names'])}"]
    words = [
        f"prior.{name}.{end} {a} -> {b}"
        for end in ("low", "high")
        for name, a, b in zip(old["names"], old[end], new[end], strict=True)
        if a != b
    ]
    if not words and not (
        np.allclose(old["draws"], new["draws"], rtol=1e-9, atol=0)
        and np.allclose(old["log_prob"], new["log_prob"], rtol=1e-6, atol=1e-9)
    ):
        words = ["the prior's draws and densities differ, its bounds do not"]
    return words


def check_same(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Refuse a folder that was made with other settings."""
    words = changed_prior(old["prior"], new["prior"])
    for key in ("seed", "m", "cost", "price", "unit"):
        if old.get(key) != new.get(key):
            words.append(f"{key} {old.get(key)} -> {new.get(key)}")
    if words:
        raise ConfigError(
            f"{folder} was made with other settings ({'; '.join(words)})",
            code="other-settings",
            why="runs made under different settings cannot be mixed",
            fix="use a new folder, or the settings it was made with",
        )


class StoredPrior:
    """A prior without numbers, of a folder opened without it: its names and bounds, neither draws nor density."""

    def __init__(self, described: dict[str, Any]) -> None:
        self.names = tuple(str(name) for name in described["names"])
        self.dim = len(self.names)
        self.bounds: tuple[Array, Array] = (
            np.array([float(value) for value in described["low"]]),
            np.array([float(value) for value in described["high"]]),
        )

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Not possible: a folder holds no code."""
        raise ConfigError(
            "this folder was opened without its prior", code="read-only", fix="th.Campaign(folder, simulator, prior)"
        )

    def log_prob(self, theta: Any) -> Array:
        """Not possible: a folder holds no code."""
        return self.sample(0, np.random.default_rng(0))


def readable_prior(prior: Any, described: dict[str, Any]) -> Prior:
    """The user's prior, or the one whose numbers the folder holds, or what it knows of another."""
    if prior is not None:
        return as_prior(prior)
    try:
        return prior_from_dict(described.get("recipe") or {})
    except (ThriftyError, LookupError, TypeError, ValueError):  # not written as numbers, or by a hand of its own
        return StoredPrior(described)
