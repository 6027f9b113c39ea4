"""`th.simulate`: run draws on workers and get the table, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.campaign.failures import finish_log_factor
from thrifty.campaign.outcome_table import chosen_cost, columns, common_shape
from thrifty.errors import CampaignError, ConfigError, warn
from thrifty.runner.engines.processes import Processes
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.loop import Ending, Loop, all_failed_error
from thrifty.runner.progress import ProgressMode, Tally, watch_progress
from thrifty.runner.schedule import Schedule
from thrifty.runner.simulator import bind_names, call_style
from thrifty.runner.task import CostKind, Engine, Job, Outcome
from thrifty.runner.time_limits import TimeLimit, lazy_log_factor, make_time_limit
from thrifty.tables.draws import Draws
from thrifty.tables.simulations import Simulations
from thrifty.types import Array

GATE = 0.01  # share of prior mass that may fail before the reader must know


class Memory:
    """The sink of `simulate`: a list."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def record(self, outcomes: Sequence[Outcome]) -> None:
        """Keep them."""
        self.outcomes += outcomes

    def flush(self, *, force: bool = False) -> int:
        """In memory everything is as safe as it will be."""
        return len(self.outcomes)

    def admit_through(self, last: int) -> None:
        """Nothing to note."""


def simulate(
    simulator: Callable[..., Any],
    draws: Draws | npt.ArrayLike,
    *,
    workers: int = 2,
    seed: int = 0,
    time_limit: float | None = None,
    on_timeout: str | None = None,
    engine: Engine | None = None,
    cost: CostKind = "cpu",
    m: int = 1,
    progress: ProgressMode = "auto",
) -> Simulations:
    """Run the simulator at every draw and return the table `Simulations`.

    Each run is a pure function of (seed, row): the table is the same for any number of workers, any
    engine and any order. Runs that raise, crash, hang or return nonsense fail alone and are marked
    in `status`; if all of the first runs fail, a `SimulatorError` says so at once.

    Args:
        simulator: `simulate(theta)`, `simulate(theta, rng)` or `simulate(theta, seed)`, or `th.Command`.
        draws: `Draws` with weights, or parameters (n, p).
        workers: Local worker processes; two, since every laptop has as many cores.
        seed: Seed of all noise.
        time_limit: Wall seconds per run; needs `on_timeout`.
        on_timeout: "lazy", "extend", "restrict", "weight" or "stop"; see `thrifty.runner.time_limits`.
        engine: `th.Inline()`, `th.Processes(n)` or `th.Dask(...)` instead of `workers`.
        cost: What `Simulations.cost` holds: CPU seconds, wall seconds, or, asked for by "reported", the cost of
            `th.Output`. One rule for all simulators: a cost that is reported and not asked for is left out here (a
            campaign keeps all three in its folder), since a unit must not change with what a run returns.
        m: Realisations per draw; x is then (n, m, *event).
        progress: "auto" (bar in a terminal, else plain lines for long jobs), "quiet", "plain", "bar" or "json".

    Example:
        >>> sims = th.simulate(lambda theta, rng: theta + rng.normal(), th.Draws([[1.0], [2.0]]), engine=th.Inline())
        >>> sims.status.tolist(), sims.x.shape
        (['ok', 'ok'], (2, 1))
    """
    draws = draws if isinstance(draws, Draws) else Draws(theta=np.asarray(draws, dtype=np.float64))
    limit = make_time_limit(time_limit, on_timeout)
    check_settings(cost=cost, m=m, seed=seed)
    simulator = bind_names(simulator, draws.names)
    call_style(simulator)  # a wrong signature is said before anything starts
    engine = engine if engine is not None else Processes(workers)
    schedule = Schedule(np.arange(len(draws)), draws.theta, limit=limit, seed=seed)
    memory = Memory()
    with Interrupts() as interrupts, watch_progress(progress, tally=_tally(draws, cost)) as watching:
        loop = Loop(
            engine,
            Job(simulator, seed, m, warm_up=True),
            schedule,
            memory,
            limit=limit,
            watcher=watching,
            fail_fast=True,
        )
        ending = loop.run(interrupts)
    sims = assemble(draws, memory.outcomes, limit=limit, cost=cost, m=m, seed=seed)
    interrupts.raise_if_caught(f"{len(memory.outcomes)} of {len(draws)} runs finished", simulations=sims)
    return _reported(sims, loop, ending)


def _tally(draws: Draws, cost: CostKind) -> Tally:
    weights = draws.log_weights
    unit = "s" if cost != "reported" else "reported"
    return Tally(len(draws), price=lambda o: o.cost(cost), unit=unit, weight_of=lambda index: float(weights[index]))


def check_settings(*, cost: str, m: int, seed: int) -> None:
    """Settings shared by `simulate` and `Campaign`."""
    if cost not in ("cpu", "wall", "reported"):
        raise ConfigError(f"cost = {cost!r}, expected 'cpu', 'wall' or 'reported'", code="bad-setting")
    if isinstance(m, bool) or not isinstance(m, int) or m < 1:
        raise ConfigError(f"m = {m!r} realisations per draw, expected a whole number of at least 1", code="bad-setting")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"seed = {seed!r}, expected a whole number of at least 0", code="bad-setting")


def check_count(n: object, what: str) -> None:
    """A number of runs."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ConfigError(f"{what}({n!r}): expected a whole number of runs, at least 1", code="bad-setting")


def assemble(
    draws: Draws, outcomes: Sequence[Outcome], *, limit: TimeLimit | None, cost: CostKind, m: int, seed: int
) -> Simulations:
    """The table, with the weights that the time limit asks for."""
    position = {index: index for index in range(len(draws))}
    table = columns(outcomes, len(draws), shape=common_shape(outcomes), position=position)
    log_weights = draws.log_weights + limit_log_factor(draws.theta, table, limit)
    return Simulations(
        theta=draws.theta,
        x=table["x"],
        log_weights=log_weights,
        cost=chosen_cost(table, cost),
        status=table["status"],
        m=m,
        names=draws.names,
        unit="s" if cost != "reported" else "reported",
        proposal=draws.proposal if limit is None else None,
    )


def limit_log_factor(theta: Array, table: dict[str, np.ndarray], limit: TimeLimit | None) -> Array:
    """What the policy on time-outs adds to the log weights (n,)."""
    if limit is None or limit.on_timeout in ("extend", "stop"):
        return np.zeros(len(theta))
    ended = np.full(len(theta), limit.seconds)
    if limit.on_timeout == "lazy":
        return lazy_log_factor(table["status"], table["wall"], cut=table["cut"], limit=ended, share=limit.share)
    late = table["status"] == "timeout"
    if limit.on_timeout == "weight":
        return finish_log_factor(theta, late)
    return np.where(late, -np.inf, 0.0)  # restrict: outside the declared prior


def _reported(sims: Simulations, loop: Loop, ending: Ending) -> Simulations:
    """Say what the reader must know before the table is used."""
    if ending == "timeout" and loop.timed_out is not None:
        raise CampaignError(
            f"run {loop.timed_out.index} passed the time limit ({loop.timed_out.error}) and on_timeout is 'stop'",
            code="time-limit-passed",
            fix="choose lazy, extend, restrict or weight, or a longer limit",
        )
    failed = Counter(status for status in sims.status.tolist() if status != "ok")
    if len(sims) and failed.total() == len(sims) and not failed["timeout"]:
        raise all_failed_error(failed, loop.first_error)
    if loop.differing_index is not None:
        warn(not_deterministic(loop.differing_index), stacklevel=4)
    if sims.failed_mass > GATE:
        causes = ", ".join(f"{count} {status}" for status, count in sorted(failed.items()))
        warn(
            f"{failed.total()} of {len(sims)} runs failed ({causes}): {100 * sims.failed_mass:.1f} % of prior mass."
            " The posterior is conditional on finishing.",
            stacklevel=4,
        )
    return sims


def not_deterministic(index: int) -> str:
    """The message when one index gave two different outputs."""
    return (
        f"[ignores-seed] index {index} was run twice and gave two different outputs: the simulator ignores its seed."
        " Use the rng (or seed) passed in; until then a resumed campaign is not bit-identical"
    )
