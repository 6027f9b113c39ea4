"""Runs of a plain simulator in memory, at the cost that it reports itself, or at what the clock says.

`th.simulate` gives one kind of cost, and which one a simulator has is known only when it has run. So the engine is
listened to: every run's CPU seconds, wall seconds and reported cost pass by, and the table gets the one that fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from thrifty.errors import CostError
from thrifty.runner.task import CostKind, Engine, Outcome, Report
from thrifty.tables.draws import Draws
from thrifty.tables.simulations import Simulations
from thrifty.types import Array


class Listening:
    """An engine that remembers what passed through it; everything else is the engine's own."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.outcomes: dict[int, Outcome] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def wait(self, timeout: float) -> list[Report]:
        """Bundles that ended, noted."""
        reports = self.engine.wait(timeout)
        self.outcomes.update((outcome.index, outcome) for report in reports for outcome in report.outcomes)
        return reports


@dataclass
class ReportedRuns:
    """A plain simulator as something with `simulate_many`, its cost as reported where it reports one.

    Args:
        simulator: `simulate(theta, rng)` or a `th.Command`.
        engine: Where runs go; local processes when left out.
        kind: "cpu" or "wall" when a budget was given in that; None takes `th.Output(cost=...)` where the first
            runs have it, and CPU seconds where they do not.
    """

    simulator: Callable[..., Any]
    engine: Engine | None = None
    kind: CostKind | None = None

    def simulate_many(self, draws: Draws, seed: int, *, start: int = 0, workers: int = 1) -> Simulations:
        """Simulations in the order of the draws; `start` makes the noise of each generation its own."""
        from thrifty.campaign.simulate import simulate
        from thrifty.runner.engines.processes import Processes

        listening = Listening(self.engine if self.engine is not None else Processes(workers))
        own = int(np.random.SeedSequence(seed, spawn_key=(12, start)).generate_state(1)[0])
        sims = simulate(self.simulator, draws, seed=own, progress="quiet", engine=cast("Engine", listening))
        if self.kind is None:
            self.kind = "reported" if any(np.isfinite(o.reported) for o in listening.outcomes.values()) else "cpu"
        if self.kind == "cpu":
            return sims
        return replace(sims, cost=self._costs(sims, listening), unit="s" if self.kind == "wall" else "reported")

    def _costs(self, sims: Simulations, listening: Listening) -> Array:
        assert self.kind is not None, "the first runs decide"
        cost = np.full(len(sims), np.nan)  # a run that crashed its worker has told nothing
        for i, outcome in listening.outcomes.items():
            cost[i] = outcome.cost(self.kind)
        silent = ~np.isfinite(cost) & sims.ok
        if silent.any():
            raise CostError(
                f"{silent.sum()} of {len(cost)} runs report no cost, the others do",
                code="bad-cost",
                why="seconds and reported units cannot be added up",
                fix="return th.Output(x, cost=...) from every run, or from none",
            )
        return cost
