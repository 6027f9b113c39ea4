"""What a `thrifty.toml` says, read and checked: plain frozen values, nothing of the user's code yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thrifty.types import Prior


@dataclass(frozen=True)
class SimulatorSettings:
    """`[simulator]`: a Python function or an external program.

    Attributes:
        python: "model.py:simulate", a file beside the configuration, or "package.module:function".
        command: Program and arguments with "{name}" and "{seed}".
        output: "json", "csv" or "npy": what the program writes.
        file: Where it writes; standard output when empty.
        environment: Extra environment variables of the program.
        realisations: Runs per parameter, m.
    """

    python: str = ""
    command: tuple[str, ...] = ()
    output: str = "json"
    file: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    realisations: int = 1


@dataclass(frozen=True)
class CostSettings:
    """`[cost]`: what a run costs."""

    measure: str = "cpu"  # CPU seconds do not depend on how busy the machine is
    unit: str = ""
    price: str = ""


@dataclass(frozen=True)
class PlanSettings:
    """`[plan]`: how many runs, from where."""

    n: int | None = None
    budget: str = ""
    penalty: float | None = None  # left out: the square root of cost, unless cost is flat
    mixture: bool | tuple[float, ...] = False
    pilot: int = 60
    seed: int = 0


@dataclass(frozen=True)
class RunSettings:
    """`[run]`: where and how."""

    folder: Path = Path("runs/main")
    workers: int = 2
    engine: str = "processes"
    address: str = ""
    time_limit: float | None = None
    on_timeout: str | None = None
    deadline: str = ""


@dataclass(frozen=True)
class InferSettings:
    """`[infer]`: which method, at which observation."""

    method: str = "npe"
    observed: Path | None = None
    quantile: float | None = None
    epsilon: float | None = None
    adjust: str = "none"


@dataclass(frozen=True)
class Settings:
    """One configuration file."""

    path: Path
    text: str = field(repr=False)
    simulator: SimulatorSettings
    prior: Prior
    cost: CostSettings
    plan: PlanSettings
    run: RunSettings
    infer: InferSettings

    @property
    def home(self) -> Path:
        """Paths in the file mean this folder."""
        return self.path.parent

    def planned(self) -> dict[str, Any]:
        """The arguments of `Campaign.plan` that say where draws come from."""
        mixture = self.plan.mixture
        return {"penalty": self.plan.penalty, "mixture": mixture if mixture is not False else None}
