"""`th.Campaign`: pilot, plan, run and read over one folder. Calling any step again continues it.

This file only puts the parts together: the store, the plan and the loop know nothing of each other.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from thrifty.campaign.budget import Price, seconds
from thrifty.campaign.drive import Driver, Pending
from thrifty.campaign.fingerprint import differences, fingerprint
from thrifty.campaign.identity import check_same, describe_prior, readable_prior
from thrifty.campaign.interrupts import Interrupts
from thrifty.campaign.limits import checked_limit
from thrifty.campaign.lock import FolderLock
from thrifty.campaign.plan import Plan
from thrifty.campaign.planner import Planner, cost_kind, unit_of
from thrifty.campaign.progress import ProgressMode
from thrifty.campaign.reading import Table, limit_factor, pool_of, read_table
from thrifty.campaign.results import to_simulations
from thrifty.campaign.simulate import check_settings
from thrifty.campaign.simulator import bound, call_style
from thrifty.campaign.status import Status, make_status
from thrifty.campaign.store import Store
from thrifty.campaign.task import CostKind, Engine
from thrifty.campaign.verify import Verification, verify
from thrifty.campaign.workers import Processes
from thrifty.costs import FittedCost
from thrifty.errors import CampaignError, ConfigError
from thrifty.priors import as_prior, check_prior
from thrifty.types import Array, Simulations


class Campaign:
    """A durable set of simulations: the folder is the campaign.

    Args:
        folder: Made if it does not exist; continued if it does.
        simulator: `simulate(theta)`, `simulate(theta, rng)`, `simulate(theta, seed)` or `th.Command`.
        prior: Anything `th.as_prior` reads.
        seed: Seed of every draw and every run.
        cost: "cpu" seconds (default: they do not depend on how busy the machine is), "wall" or "reported".
        price: For budgets in money, "0.05 eur/cpu-h".
        unit: Unit of reported costs, e.g. "events".
        m: Realisations per draw.
        accept_changed: Go on although the simulator's code changed since the campaign began (recorded).

    Example:
        >>> import tempfile
        >>> def simulate(theta, rng):
        ...     return th.Output(theta + rng.normal(), cost=float(np.exp(theta[0])))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     c = th.Campaign(folder + "/toy", simulate, th.Uniform(0, 4), seed=1, cost="reported")
        ...     _ = c.pilot(40, engine=th.Inline())
        ...     _ = c.plan(n=100)
        ...     _ = c.run(engine=th.Inline())
        ...     sims = c.simulations()
        >>> len(sims), bool(sims.ok.all())
        (140, True)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        simulator: Callable[..., Any],
        prior: Any,
        *,
        seed: int = 0,
        cost: CostKind = "cpu",
        price: str | None = None,
        unit: str = "",
        m: int = 1,
        accept_changed: bool = False,
    ) -> None:
        self.folder, self.accept_changed = Path(folder), accept_changed
        self.prior = as_prior(prior)
        self.simulator = bound(simulator, self.prior.names)
        call_style(self.simulator)
        check_settings(cost=cost, m=m, seed=seed)
        check_prior(self.prior)
        self.price = Price.read(price) if price is not None else None
        settings = {
            "seed": int(seed), "cost": cost, "price": price, "unit": unit, "m": m,
            "prior": describe_prior(self.prior), "simulator": fingerprint(self.simulator),
        }  # fmt: skip
        if Store.exists(self.folder):
            store = Store.open(self.folder, readonly=True)
            check_same(self.folder, store.settings(), settings)
            store.close()
        else:
            Store.create(self.folder, settings).close()

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Campaign:
        """A campaign to read: status, simulations, verify. Nothing in the folder is executed or changed."""
        self = cls.__new__(cls)
        self.folder, self.simulator, self.accept_changed = Path(folder), None, False
        store = Store.open(self.folder, readonly=True)
        settings = store.settings()
        store.close()
        self.prior = readable_prior(None, settings["prior"])
        self.price = Price.read(settings["price"]) if settings.get("price") else None
        return self

    # --- steps ---

    def pilot(
        self,
        n: int,
        *,
        workers: int = 2,
        engine: Engine | None = None,
        time_limit: float | None = None,
        on_timeout: str | None = None,
        progress: ProgressMode = "auto",
    ) -> Status:
        """Run n timed prior draws (in all: called again, only what is missing)."""
        _check_count(n, "pilot")
        limit = checked_limit(time_limit, on_timeout)
        engine = engine if engine is not None else Processes(workers)
        with Interrupts() as interrupts, self._writing() as (store, settings):
            self._check_simulator(store, settings)
            self._planner(store, settings).pilot(n)
            driver = self._driver(store, interrupts, engine=engine, limit=limit, progress=progress)
            driver.run(Pending.of(store, self.prior.dim, modes=("pilot",)), first=True)
            driver.after_pilot(self.prior.names)
        return self._ended(interrupts)

    def plan(
        self,
        n: int | None = None,
        *,
        budget: str | None = None,
        penalty: Any = None,
        mixture: Any = None,
        refit: bool = False,
        cost: FittedCost | None = None,
    ) -> Plan:
        """Freeze cost model and proposal, test them, and commit n draws, or as many as a budget will need.

        The same request again adds only what is missing; another penalty, or `refit`, adds a component to the
        pool. Nothing that was drawn is ever changed.

        Args:
            n: Runs under this plan, besides the pilot.
            budget: "2 cpu-h", "40 min", "200 eur" with a price; pilots count.
            penalty: A number k or a penalty; the square root of cost when left out.
            mixture: True for powers 0, 1/2, 1, 2 in equal shares, or the powers.
            refit: Fit the cost again, from all runs, as a new component.
            cost: A fitted cost to use instead of fitting the pilot.
        """
        if (n is None) == (budget is None):
            raise ConfigError("plan by n= or by budget=, one of them", code="F03")
        if n is not None:
            _check_count(n, "plan")
        if penalty is not None and mixture is not None:
            raise ConfigError("give penalty= or mixture=, not both", code="G05")
        with self._writing() as (store, settings):
            return self._planner(store, settings).plan(
                n, budget, penalty=penalty, mixture=mixture, cost=cost, refit=refit
            )

    def run(
        self,
        *,
        workers: int = 2,
        engine: Engine | None = None,
        time_limit: float | None = None,
        on_timeout: str | None = None,
        deadline: str | float | None = None,
        progress: ProgressMode = "auto",
    ) -> Status:
        """Run what is planned and not yet done, until it is done or the budget is used.

        Args:
            workers: Local worker processes.
            engine: `th.Dask(...)`, `th.Processes(n)` or `th.Inline()` instead.
            time_limit: Wall seconds per run; needs `on_timeout`.
            on_timeout: "lazy", "extend", "restrict", "weight" or "stop".
            deadline: Hard wall-time limit of this call ("40 min"): nothing starts that would probably not end
                in time, and what still runs then is ended and stays pending.
            progress: "auto", "bar", "plain", "json" or "quiet".
        """
        limit = checked_limit(time_limit, on_timeout)
        until = None if deadline is None else seconds(deadline)
        engine = engine if engine is not None else Processes(workers)
        with Interrupts() as interrupts, self._writing() as (store, settings):
            self._check_simulator(store, settings)
            if not store.blocks():
                raise CampaignError(
                    f"{self.folder} has no planned runs", code="A04", fix="c.pilot(200), then c.plan(n=5000)"
                )
            driver = self._driver(store, interrupts, engine=engine, limit=limit, progress=progress)
            planner = self._planner(store, settings)
            budget = planner.budget(settings.get("budget"))
            driver.extend_timeouts()
            while True:
                pending = Pending.of(store, self.prior.dim, modes=("pilot", "n", "budget"))
                ending = driver.run(pending, budget=budget, deadline=until)
                if ending != "done" or budget is None or not planner.top_up(budget):
                    break
            driver.finish(ending)
        return self._ended(interrupts)

    # --- reading ---

    def simulations(self, *, allow_incomplete: bool = False, max_failed: float = 0.01) -> Simulations:
        """The table of all runs, pilot included through the joint balance weights.

        Args:
            allow_incomplete: Return what there is although planned runs are missing; cheap runs are then favoured.
            max_failed: Share of prior mass that may have failed; above it the posterior would be conditional on
                finishing, so this raises unless a larger share is accepted here.
        """
        store, settings = self._reading()
        try:
            table = read_table(store, dim=self.prior.dim)
            parts = store.parts()
        finally:
            store.close()
        pool = pool_of(table, parts, self.prior) if len(table.index) else None
        kind, scale = cost_kind(settings, self.price)
        return to_simulations(
            table,
            pool,
            settings,
            cost=table.cost(kind) * scale,
            unit=unit_of(settings),
            names=self.prior.names,
            allow_incomplete=allow_incomplete,
            max_failed=max_failed,
        )

    def status(self) -> Status:
        """Where the campaign stands; safe at any time, also while another process runs it."""
        store, settings = self._reading()
        try:
            table = read_table(store, dim=self.prior.dim, outputs=False)
            parts, elapsed = store.parts(), store.totals()["elapsed"]
        finally:
            store.close()
        weights = self._weights(table, parts)
        kind, scale = cost_kind(settings, self.price)
        return make_status(
            str(self.folder), table, cost=table.cost(kind) * scale, log_weights=weights, settings=settings,
            elapsed=elapsed, unit=unit_of(settings),
        )  # fmt: skip

    def verify(self, repair: bool = False) -> Verification:
        """Test every checksum; with `repair`, keep what is whole and make the rest pending again."""
        if not repair:
            return verify(self.folder, self.prior, repair=False)
        with FolderLock(self.folder):
            return verify(self.folder, self.prior, repair=True)

    # --- inside ---

    def _reading(self) -> tuple[Store, dict[str, Any]]:
        store = Store.open(self.folder, readonly=True)
        return store, store.settings()

    def _writing(self) -> _Writing:
        return _Writing(self.folder)

    def _planner(self, store: Store, settings: dict[str, Any]) -> Planner:
        return Planner(store, self.prior, settings, self.price)

    def _weights(self, table: Table, parts: dict[int, Any]) -> Array:
        if not len(table.index):
            return np.empty(0)
        return pool_of(table, parts, self.prior).log_weight(table.theta) + limit_factor(table)

    def _check_simulator(self, store: Store, settings: dict[str, Any]) -> None:
        if self.simulator is None:
            raise ConfigError(
                "this campaign was opened to read", code="A05", fix="th.Campaign(folder, simulator, prior)"
            )
        now = fingerprint(self.simulator)
        changed = differences(settings["simulator"], now)
        if not changed or not store.totals()["done"]:
            store.put("simulator", now)
            return
        if not self.accept_changed:
            raise CampaignError(
                f"the simulator changed since {self.folder} began: {'; '.join(changed[:5])}",
                code="V05",
                why="mixing versions mixes models",
                fix="use a new folder, or accept_changed=True (recorded in the folder)",
            )
        notes = [*settings.get("notes", []), f"simulator changed and accepted: {'; '.join(changed[:5])}"]
        store.put("notes", notes)
        store.put("simulator", now)

    def _ended(self, interrupts: Interrupts) -> Status:
        """The status; or what the signal asked for, now that the store is closed and the lock released."""
        status = self.status()
        safe = f"stopped. {status.done:,} runs are safe on disk. Calling again continues."
        interrupts.raise_if_caught(safe)
        return status

    def _driver(
        self, store: Store, interrupts: Interrupts, *, engine: Engine, limit: Any, progress: ProgressMode
    ) -> Driver:
        settings = store.settings()
        kind, scale = cost_kind(settings, self.price)

        def weight_of() -> tuple[Table, Array]:
            table = read_table(store, dim=self.prior.dim, outputs=False)
            return table, self._weights(table, store.parts())

        return Driver(
            store, self.simulator, engine, settings=settings, limit=limit, progress=progress, kind=kind, scale=scale,
            unit=unit_of(settings), weigh=weight_of,
            interrupts=interrupts,
        )  # fmt: skip


class _Writing:
    """The lock and the open store, together."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lock = folder, FolderLock(folder)

    def __enter__(self) -> tuple[Store, dict[str, Any]]:
        self.lock.__enter__()
        try:
            self.store = Store.open(self.folder)
            return self.store, self.store.settings()
        except BaseException:
            self.lock.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self.store.close()
        self.lock.__exit__()


def _check_count(n: int, what: str) -> None:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ConfigError(f"{what}({n!r}): expected a whole number of runs, at least 1", code="F11")
