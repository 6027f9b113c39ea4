"""What a campaign was made with: parsed once, compared with what the user passes now."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from thrifty.campaign.budget import Budget, Price
from thrifty.campaign.fingerprint import FORMAT, Parts
from thrifty.errors import ConfigError, ThriftyError
from thrifty.named import align
from thrifty.priors import as_prior
from thrifty.priors.prior_dict import prior_from_dict, prior_to_dict
from thrifty.runner.task import CostKind
from thrifty.types import Array, Levels, Prior, find_discrete, levels_of

MAX_TEXT = 60  # characters of a part of a fingerprint that are shown
_FILES = ("file ", "data ")  # beginnings of the names of parts whose contents count, not their place
ORDERED_ROWS = 2**16  # put into order at once: a copy of so many is small
PROBE_DRAWS = 8  # prior draws, with their densities, by which two priors are compared


@dataclass(frozen=True)
class CampaignSettings:
    """The settings of a folder. Attributes with a default are set by the steps of the campaign.

    Attributes:
        seed: Of every draw and every run.
        m: Realisations per draw.
        cost: What the user asked to be measured: "cpu", "wall" or "reported".
        price: Of a second of it, or None.
        prior: Description of the prior, see `describe_prior`.
        simulator: Its fingerprint.
        reported_unit: Unit of reported costs, or "".
        shape: Of one output, once the pilot is done.
        x_names: Names of the numbers in one output, in the order in which they are stored, once a run has brought them.
        x_order: (Index, names) of the first run of the plan that has ended: the order in which outputs are shown.
        pilots: Pilot runs that were asked for.
        budget: The budget in force, as the user wrote it.
        target: (part, n): with a budget, the number of runs asked for as well.
        deterministic: Whether equal seeds have given equal outputs so far.
        notes: Sentences for the status.
        plans: Number of the part of each request, see `requests.request_key`.
        figures: What was computed for each request, see `requests.Proposed.figures`.
        cost_model: The cost model of the last plan, as plain numbers.
        generations: The first block that a sequential method committed.
        rounds: Settings of a method in rounds, and what it found between them.
        made_by, store_format: Version of thrifty that made the folder, and the format of its store.
    """

    seed: int
    m: int
    cost: CostKind
    price: Price | None
    prior: dict[str, Any]
    simulator: dict[str, str]
    reported_unit: str = ""
    shape: tuple[int, ...] | None = None
    x_names: tuple[str, ...] = ()
    x_order: tuple[int, tuple[str, ...]] | None = None
    pilots: int = 0
    budget: str | None = None
    target: tuple[int, int] | None = None
    deterministic: bool = True
    notes: tuple[str, ...] = ()
    plans: dict[str, int] = field(default_factory=dict)
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    cost_model: dict[str, Any] | None = None
    generations: int | None = None
    rounds: dict[str, Any] | None = None
    made_by: str = "?"
    store_format: str = "?"

    @classmethod
    def parse(cls, stored: dict[str, Any]) -> CampaignSettings:
        """Read the settings of a store, whose types it has checked."""
        given = {key: stored[key] for key in ("seed", "m", "cost", "prior", "simulator")}
        given |= {key: stored[key] for key in ("pilots", "deterministic", "plans", "figures") if key in stored}
        shape, target, order = stored.get("shape"), stored.get("target"), stored.get("x_order")
        return cls(
            **given,
            price=Price.read(stored["price"]) if stored.get("price") else None,
            reported_unit=stored.get("unit") or "",
            shape=None if shape is None else tuple(shape),
            target=None if target is None else (target[0], target[1]),
            x_names=tuple(stored.get("x_names", ())),
            x_order=None if order is None else (order[0], tuple(order[1])),
            notes=tuple(stored.get("notes", ())),
            budget=stored.get("budget"),
            cost_model=stored.get("cost_model"),
            generations=stored.get("generations"),
            rounds=stored.get("rounds"),
            made_by=str(stored.get("thrifty", "?")),
            store_format=str(stored.get("format", "?")),
        )

    @property
    def cost_kind(self) -> CostKind:
        """What is measured: with a price, what the price is for."""
        return self.cost if self.price is None or self.cost == "reported" else self.price.of

    @property
    def cost_scale(self) -> float:
        """What one measured unit costs: 1 without a price."""
        return 1.0 if self.price is None or self.cost == "reported" else self.price.per_second

    @property
    def measured_unit(self) -> str:
        """Unit of measured costs and of the cost model."""
        return (self.reported_unit or "reported") if self.cost == "reported" else "s"

    @property
    def unit(self) -> str:
        """Unit in which costs are shown."""
        return self.measured_unit if self.price is None or self.cost == "reported" else self.price.unit

    @property
    def limit(self) -> Budget | None:
        """The budget in force; None without one, and for one in a damaged folder that cannot be read."""
        try:
            return self.read_budget(self.budget)
        except ConfigError:
            return None

    def name_kind(self, budget: Budget | None) -> str:
        """Name the kind of seconds that costs are in, beside a budget of wall time; "" where none is needed."""
        return self.seconds_kind if budget is not None and budget.of == "elapsed" else ""

    @property
    def seconds_kind(self) -> str:
        """Name the kind of seconds that costs are shown in; "" where they are in another unit."""
        if self.unit != "s":
            return ""
        return "CPU time" if self.cost_kind == "cpu" else "wall time of single runs"

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names."""
        return tuple(self.prior["names"])

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.prior["names"])

    @property
    def _budget_unit(self) -> str:
        """Name of the unit in which a budget may be given besides time and money."""
        return self.measured_unit if self.cost == "reported" else self.reported_unit

    def fit_x_names(self, shape: tuple[int, ...]) -> tuple[str, ...]:
        """Return the names of the outputs where they fit outputs of this shape, (m, *event) with realisations."""
        return self._shown_names if len(self.x_names) == int(np.prod(shape)) // self.m else ()

    @property
    def _shown_names(self) -> tuple[str, ...]:
        """Names of the outputs in the order of the run with the lowest index."""
        known = self.x_order is not None and sorted(self.x_order[1]) == sorted(self.x_names)
        return self.x_order[1] if known and self.x_order is not None else self.x_names

    def order_outputs(self, x: Array) -> None:
        """Put stored outputs (n, ...) into the order in which they are shown, in place."""
        shown = self.fit_x_names(x.shape[1:])
        if shown == self.x_names or not shown:
            return
        for at in range(0, len(x), ORDERED_ROWS):
            x[at : at + ORDERED_ROWS] = align(x[at : at + ORDERED_ROWS], self.x_names, shown)

    def read_budget(self, text: str | None) -> Budget | None:
        """Parse a budget in the units of this campaign."""
        return None if text is None else Budget.read(text, price=self.price, unit=self._budget_unit)


def check_settings(*, cost: str, m: int, seed: int) -> None:
    """Refuse a kind of cost, a number of realisations or a seed that cannot be used."""
    if cost not in ("cpu", "wall", "reported"):
        raise ConfigError(f"cost = {cost!r}, expected 'cpu', 'wall' or 'reported'", code="bad-setting")
    if isinstance(m, bool) or not isinstance(m, int) or m < 1:
        raise ConfigError(f"m = {m!r} realisations per draw, expected a whole number of at least 1", code="bad-setting")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"seed = {seed!r}, expected a whole number of at least 0", code="bad-setting")


def check_count(n: object, what: str) -> None:
    """Refuse a number of runs that is not a whole number above 0."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ConfigError(
            f"{what}: n = {n!r}, expected a whole number of runs, at least 1",
            code="bad-setting",
            fix=f"n={max(int(n), 1)}" if isinstance(n, float) and abs(n) < 1e9 else "n=5000",
        )


def as_paths(depends_on: Any) -> tuple[Path, ...]:
    """Read the data files and folders that a simulator depends on; refuse one that does not exist."""
    given = [depends_on] if isinstance(depends_on, str | os.PathLike) else depends_on
    paths = tuple(Path(path).absolute() for path in given)
    for path in paths:
        if not path.exists():
            raise ConfigError(
                f"depends_on names {str(path)!r}, which does not exist", code="bad-setting", fix="check its spelling"
            )
    return paths


def describe_prior(prior: Prior) -> dict[str, Any]:
    """Describe a prior by plain numbers: names, bounds, and a few draws with their densities."""
    low, high = prior.bounds
    theta = np.asarray(prior.sample(PROBE_DRAWS, np.random.default_rng(0)), dtype=np.float64)
    density = np.asarray(prior.log_prob(theta), dtype=np.float64)
    levels = levels_of(prior)
    discrete = (
        {"levels": [None if level is None else list(level) for level in levels]} if find_discrete(levels).any() else {}
    )
    return {
        "names": list(prior.names),
        **discrete,
        "low": [str(value) for value in np.asarray(low, dtype=np.float64).tolist()],
        "high": [str(value) for value in np.asarray(high, dtype=np.float64).tolist()],
        "draws": theta.tolist(),
        "log_prob": density.tolist(),
        "recipe": prior_to_dict(prior),
    }


def _describe_kind(level: list[str] | None) -> str:
    """Say what values a parameter takes.

    Example:
        >>> _describe_kind(None), _describe_kind([]), _describe_kind(["a", "b"])
        ('a number', 'a whole number', 'one of a, b')
    """
    if level is None:
        return "a number"
    return f"one of {', '.join(map(str, level))}" if level else "a whole number"


def _prior_differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """List what differs between two described priors."""
    if old["names"] != new["names"]:
        return [f"parameters {', '.join(old['names'])} -> {', '.join(new['names'])}"]
    if old.get("levels") != new.get("levels"):
        before, after = (one.get("levels") or [None] * len(one["names"]) for one in (old, new))
        changed = zip(old["names"], before, after, strict=False)
        return [f"prior.{name} {_describe_kind(a)} -> {_describe_kind(b)}" for name, a, b in changed if a != b]
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
    words = _prior_differences(old["prior"], new["prior"])
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


def differences(old: Parts, new: Parts) -> list[str]:
    """List what changed between two fingerprints.

    A part that the format of the old one did not know, or a data file that is named for the first time, is no change;
    nor is a file that has another place and the same contents.
    """
    known, old = str(old.get("format", "0")), {n: t for n, t in old.items() if not n.startswith("constant __")}
    is_older = not known.isdecimal() or int(known) < FORMAT
    gone, came = ({name: one[name] for name in one if name not in other} for one, other in ((old, new), (new, old)))
    moved = {text for name, text in gone.items() if name.startswith(_FILES)} & set(came.values())
    lines = [f"{name} is missing" for name, text in gone.items() if text not in moved or not name.startswith(_FILES)]
    if not is_older:
        added = {name: text for name, text in came.items() if not name.startswith("data ")}
        lines += [f"{name} is new" for name, text in added.items() if text not in moved or not name.startswith(_FILES)]
    for name in (old.keys() & new.keys()) - {"format"}:
        if old[name] != new[name] and not _is_moved_program(name, old, new):
            lines.append(f"{name} changed ({old[name][:MAX_TEXT]} -> {new[name][:MAX_TEXT]})")
    return sorted(lines)


def _is_moved_program(name: str, old: Parts, new: Parts) -> bool:
    """Whether an argument of a command names the same file in another folder; its contents are a part of their own."""
    before, after = Path(old[name]), Path(new[name])
    same = f"file {before.name}" in old and old[f"file {before.name}"] == new.get(f"file {after.name}")
    return name.startswith("argument ") and before.is_absolute() and before.name == after.name and same


class StoredPrior:
    """A prior of which a folder holds only names and bounds, neither draws nor density."""

    def __init__(self, described: dict[str, Any]) -> None:
        self.names = tuple(str(name) for name in described["names"])
        self.dim = len(self.names)
        self.levels = _read_levels(described, self.dim)
        self.bounds: tuple[Array, Array] = (
            np.array([float(value) for value in described["low"]]),
            np.array([float(value) for value in described["high"]]),
        )

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Refuse: a folder holds no code."""
        raise ConfigError(
            "this folder was opened without its prior", code="read-only", fix="th.Campaign(folder, simulator, prior)"
        )

    def log_prob(self, theta: Any) -> Array:
        """Refuse: a folder holds no code."""
        return self.sample(0, np.random.default_rng(0))


def _read_levels(described: dict[str, Any], dim: int) -> Levels:
    """Read what values the parameters take; any number in folders that do not say so."""
    levels = described.get("levels") or [None] * dim
    return tuple(None if level is None else tuple(map(str, level)) for level in levels)


def readable_prior(prior: Any, described: dict[str, Any]) -> Prior:
    """Return the user's prior, else the prior whose numbers the folder holds, else its names and bounds."""
    if prior is not None:
        return as_prior(prior)
    try:
        return prior_from_dict(described.get("recipe") or {})
    except (ThriftyError, LookupError, TypeError, ValueError):  # a prior that cannot be written as numbers
        return StoredPrior(described)
