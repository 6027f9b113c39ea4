"""`th.simulate`: run draws on workers and get the table, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.campaign.settings import check_count, check_settings
from thrifty.campaign.weighting import MAX_FAILED_MASS, limit_log_factor
from thrifty.durations import Duration
from thrifty.errors import CampaignError, ConfigError, DataError, warn
from thrifty.priors import as_prior
from thrifty.proposals import Pool
from thrifty.proposals.draws import Draws
from thrifty.runner.causes import describe_causes, describe_failure, group_causes, last_line
from thrifty.runner.engines.processes import Processes
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.loop import Ending, Loop, all_failed_error
from thrifty.runner.progress import ProgressMode, Watched, watch_progress
from thrifty.runner.schedule import Schedule
from thrifty.runner.signatures import read_signature
from thrifty.runner.simulator import bind_names
from thrifty.runner.snapshot import Snapshot, Totals
from thrifty.runner.task import CostKind, Engine, Job, Outcome
from thrifty.runner.time_limits import TimeLimit, make_time_limit
from thrifty.store.table import Table, common_shape
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Prior

_PRIOR_STREAM = 11  # of the seed, for draws of a prior: not the noise of the runs


class Memory:
    """Keeps outcomes in a list."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def record(self, outcomes: Sequence[Outcome]) -> None:
        """Keep outcomes."""
        self.outcomes += outcomes

    def flush(self, *, force: bool = False) -> int:
        """Return the number of outcomes; in memory there is nothing to commit."""
        return len(self.outcomes)

    def discard(self, outcome: Outcome) -> None:
        """Nothing to note: there is no budget in memory."""

    def admit_through(self, last: int) -> None:
        """Nothing to commit."""

    def take_snapshot(self, log_weights: Array, kind: CostKind) -> Snapshot:
        """Return all rows, of draws with these log weights (n,), as far as they are done; nothing was predicted."""
        n = len(log_weights)
        now = Snapshot(np.full(n, "pending", dtype="<U8"), np.full(n, np.nan), np.full(n, np.nan), log_weights)
        for outcome in self.outcomes:
            now.status[outcome.index], now.cost[outcome.index] = outcome.status, outcome.cost(kind)
        return now


def simulate(
    simulator: Callable[..., Any],
    draws: Draws | Prior | npt.ArrayLike,
    n: int | None = None,
    *,
    workers: int = 2,
    seed: int = 0,
    time_limit: Duration | None = None,
    on_timeout: str | None = None,
    engine: Engine | None = None,
    cost: CostKind = "cpu",
    m: int = 1,
    progress: ProgressMode | bool | None = "auto",
) -> Simulations:
    """Run the simulator at every draw and return the table `Simulations`.

    Each run is a pure function of (seed, row): the table is the same for any number of workers, any
    engine and any order. Runs that raise, crash, hang or return nonsense fail alone and are marked
    in `status`; if all of the first runs fail, a `SimulatorError` says so at once.

    Args:
        simulator: `simulate(theta)`, `simulate(theta, rng)` or `simulate(theta, seed)`, or `th.Command`.
        draws: `Draws` with weights, or parameters (n, p); or a prior, of which n parameters are drawn.
        n: How many to draw of a prior.
        workers: Local worker processes; two, since every laptop has as many cores.
        seed: Seed of all noise.
        time_limit: Wall time per run, seconds or "10 s"; needs `on_timeout`.
        on_timeout: "lazy", "extend", "restrict", "weight" or "stop"; see `thrifty.runner.time_limits`.
        engine: `th.Inline()`, `th.Processes(n)`, `th.Dask(...)` or `th.Futures(...)` instead of `workers`.
        cost: What `Simulations.cost` holds: CPU seconds, wall seconds, or, asked for by "reported", the cost of
            `th.Output`. One rule for all simulators: a cost that is reported and not asked for is left out here (a
            campaign keeps all three in its folder), since a unit must not change with what a run returns.
        m: Realisations per draw; x is then (n, m, *event).
        progress: "auto" or None (bar in a terminal, else plain lines for long jobs), "quiet" or False, "bar" or True,
            "plain" or "json".

    Example:
        >>> sims = th.simulate(lambda theta, rng: theta + rng.normal(), th.Draws([[1.0], [2.0]]), engine=th.Inline())
        >>> sims.status.tolist(), sims.x.shape
        (['ok', 'ok'], (2, 1))
    """
    draws = _read_draws(draws, n, seed)
    limit = make_time_limit(time_limit, on_timeout)
    check_settings(cost=cost, m=m, seed=seed)
    simulator = bind_names(simulator, draws.names)
    read_signature(simulator, draws.names)  # refuses a wrong one before anything starts
    engine = engine if engine is not None else Processes(workers)
    schedule = Schedule(np.arange(len(draws)), draws.theta, limit=limit, seed=seed)
    memory = Memory()

    def sum_up() -> Totals:
        return memory.take_snapshot(draws.log_weights, cost).sum_up()

    watched = Watched(len(draws), "s" if cost != "reported" else "reported", sum_up)
    with Interrupts() as interrupts, watch_progress(progress, watched) as watching:
        loop = Loop(
            engine,
            Job(simulator, seed, m, warm_up=True, names=draws.names),
            schedule,
            memory,
            limit=limit,
            watcher=watching,
            fail_fast=True,
        )
        ending = loop.run(interrupts)
    sims = assemble(draws, memory.outcomes, limit=limit, cost=cost, m=m, seed=seed, x_names=loop.outputs.names or ())
    sims = sims.ordered(loop.outputs.order[1] if loop.outputs.order else ())
    interrupts.raise_if_caught(f"{len(memory.outcomes)} of {len(draws)} runs finished", simulations=sims)
    return _checked(sims, loop, ending)


def _read_draws(draws: Any, n: int | None, seed: int) -> Draws:
    """Return draws: those given, parameters without weights, or n draws of a prior."""
    is_table = isinstance(draws, Draws) or hasattr(draws, "__array__") or hasattr(draws, "columns")  # a data frame
    if not is_table and (hasattr(draws, "sample") or isinstance(draws, dict)):
        if n is None:
            raise DataError(
                "a prior was given in place of draws, and not how many",
                code="bad-setting",
                fix="th.simulate(simulator, prior, 1000)",
            )
        check_count(n, "th.simulate")
        prior = as_prior(draws)
        theta = prior.sample(n, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PRIOR_STREAM,))))
        return Draws(theta=theta, names=prior.names, proposal=Pool(((n, prior),), prior))
    if n is not None:
        raise ConfigError(
            f"n = {n!r}, but the parameters are given", code="conflicting-settings", fix="leave n out, or give a prior"
        )
    return draws if isinstance(draws, Draws) else Draws(theta=draws)


def assemble(
    draws: Draws,
    outcomes: Sequence[Outcome],
    *,
    limit: TimeLimit | None,
    cost: CostKind,
    m: int,
    seed: int,
    x_names: tuple[str, ...] = (),
) -> Simulations:
    """Make the table from outcomes in any order, with the weights that the time limit asks for."""
    table = Table.empty(len(draws), dim=draws.theta.shape[1], shape=common_shape(outcomes) or (1,))
    table.theta = draws.theta
    table.enter_all(outcomes, limit)
    return Simulations(
        theta=draws.theta,
        x=table.x,
        log_weights=draws.log_weights + limit_log_factor(table),
        cost=table.cost(cost),
        status=table.status,
        m=m,
        names=draws.names,
        x_names=x_names if len(x_names) == int(np.prod(table.x.shape[1:])) // m else (),
        unit="s" if cost != "reported" else "reported",
        proposal=draws.proposal if limit is None else None,
        messages=_read_messages(outcomes, table),
    )


def _read_messages(outcomes: Sequence[Outcome], table: Table) -> dict[int, str]:
    """Return why each failed run failed, by its index."""
    common = ",".join(map(str, table.x.shape[1:]))
    found = {}
    for outcome in sorted(outcomes, key=lambda one: one.index):
        if table.status[outcome.index] != "ok":
            own = None if outcome.x is None else ",".join(map(str, outcome.x.shape))
            is_text = outcome.status != "ok" and outcome.error.strip()
            found[outcome.index] = outcome.error if is_text else describe_failure(outcome.status, own, common, "")
    return found


def _checked(sims: Simulations, loop: Loop, ending: Ending) -> Simulations:
    """Raise or warn about what the reader must know before the table is used."""
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
    if sims.failed_mass > MAX_FAILED_MASS:
        counted = ", ".join(f"{count} {status}" for status, count in sorted(failed.items()))
        causes = describe_causes(group_causes((i, last_line(message)) for i, message in sims.messages.items()))
        warn(
            f"[too-many-failures] {failed.total()} of {len(sims)} runs failed ({counted}),"
            f" {100 * sims.failed_mass:.1f}% of prior mass{causes}. The posterior is conditional on finishing.\n"
            "  fix: simulations.messages has the message of each by its index; correct the simulator",
            stacklevel=4,
        )
    return sims


def not_deterministic(index: int) -> str:
    """Return the message for an index that gave two different outputs."""
    return (
        f"[ignores-seed] index {index} was run twice and gave two different outputs: the simulator ignores its seed."
        " Use the rng (or seed) passed in; until then a resumed campaign is not bit-identical"
    )
