"""`th.Campaign`: pilot, plan, run and read over one folder. Calling any step again continues it.

This file only puts the parts together: the store, the plan and the loop know nothing of each other.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from thrifty.campaign.budget import Price, seconds
from thrifty.campaign.failures import FailureMap
from thrifty.campaign.fingerprint import fingerprint
from thrifty.campaign.plan import Plan
from thrifty.campaign.planner import cost_kind, unit_of
from thrifty.campaign.settings import check_same, describe_prior, readable_prior
from thrifty.campaign.simulate import check_count, check_settings
from thrifty.campaign.status import Status, make_status
from thrifty.campaign.steps import Session
from thrifty.campaign.weighting import to_simulations
from thrifty.errors import ConfigError
from thrifty.priors import as_prior, check_prior
from thrifty.runner.engines.processes import Processes
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.progress import ProgressMode
from thrifty.runner.simulator import bind_names, call_style
from thrifty.runner.task import CostKind, Engine
from thrifty.runner.time_limits import make_time_limit
from thrifty.store.lock import FolderLock
from thrifty.store.read import Pending, pool_of
from thrifty.store.repair import Verification, mend, verify
from thrifty.store.store import Store
from thrifty.tables.simulations import Simulations
from thrifty.types import Cost


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
        self.simulator = bind_names(simulator, self.prior.names)
        call_style(self.simulator)
        check_settings(cost=cost, m=m, seed=seed)
        check_prior(self.prior)
        self.price = Price.read(price) if price is not None else None
        self.session = Session(self.folder, self.prior, self.simulator, self.price, accept_changed)
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
        self.session = Session(self.folder, self.prior, None, self.price)
        return self

    @staticmethod
    def mend(folder: str | os.PathLike[str], prior: Any = None) -> Verification:
        """`verify(repair=True)` for a folder too damaged to be opened; the prior is read from it unless given."""
        return mend(Path(folder), None if prior is None else as_prior(prior))

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
        check_count(n, "pilot")
        limit = make_time_limit(time_limit, on_timeout)
        engine = engine if engine is not None else Processes(workers)
        with Interrupts() as interrupts, self.session.writing() as (store, settings):
            self.session.check_simulator(store, settings)
            self.session.planner(store, settings).pilot(n)
            driver = self.session.driver(store, interrupts, engine=engine, limit=limit, progress=progress)
            driver.run(Pending.of(store, self.prior.dim, modes=("pilot",)), first=True)
            driver.after_pilot(self.prior.names)
        self.session.stop_if_asked(interrupts)
        return self.status()

    def plan(
        self,
        n: int | None = None,
        *,
        budget: str | None = None,
        cap: str | None = None,
        penalty: Any = None,
        mixture: Any = None,
        refit: bool = False,
        cost: Cost | None = None,
    ) -> Plan:
        """Freeze cost model and proposal, test them, and commit n draws, or as many as a budget will need.

        The same request again adds only what is missing; another penalty, or `refit`, adds a component to the
        pool. Nothing that was drawn is ever changed.

        Args:
            n: Runs under this plan, besides the pilot.
            budget: "2 cpu-h", "40 min", "200 eur" with a price; pilots count.
            cap: With n, a budget as well: whichever comes first ends the runs.
            penalty: A number k or a penalty; the square root of cost when left out.
            mixture: True for powers 0, 1/2, 1, 2 in equal shares, or the powers.
            refit: Fit the cost again, from all runs, as a new component.
            cost: A cost to use instead of fitting the pilot: fitted, or any function (n, p) -> (n,) in seconds (or
                the reported unit), of which a fit to prior draws is frozen.
        """
        if (n is None) == (budget is None) or (cap is not None and n is None):
            raise ConfigError("plan by n= (with cap= at will) or by budget=, one of them", code="conflicting-settings")
        if n is not None:
            check_count(n, "plan")
        if penalty is not None and mixture is not None:
            raise ConfigError("give penalty= or mixture=, not both", code="conflicting-settings")
        with self.session.writing() as (store, settings):
            return self.session.planner(store, settings).plan(
                n, budget or cap, penalty=penalty, mixture=mixture, cost=cost, refit=refit
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
        limit = make_time_limit(time_limit, on_timeout)
        until = None if deadline is None else seconds(deadline)
        engine = engine if engine is not None else Processes(workers)
        with Interrupts() as interrupts, self.session.writing() as (store, settings):
            self.session.check_simulator(store, settings)
            driver = self.session.driver(store, interrupts, engine=engine, limit=limit, progress=progress)
            ending = self.session.run_planned(store, settings, driver, deadline=until)
            driver.finish(ending)
        self.session.stop_if_asked(interrupts)
        return self.status()

    def simulations(self, *, allow_incomplete: bool = False, max_failed: float = 0.01) -> Simulations:
        """The table of all runs, pilot included through the joint balance weights.

        Args:
            allow_incomplete: Return what there is although planned runs are missing; cheap runs are then favoured.
            max_failed: Share of prior mass that may have failed; above it the posterior would be conditional on
                finishing, so this raises unless a larger share is accepted here.
        """
        table, parts, settings, _ = self.session.read()
        pool = pool_of(table, parts, self.prior) if len(table.index) else None
        kind, scale = cost_kind(settings, self.price)
        return to_simulations(
            table,
            pool,
            settings,
            cost=table.cost(kind) * scale,
            predicted=table.predicted * scale,
            unit=unit_of(settings),
            names=self.prior.names,
            allow_incomplete=allow_incomplete,
            max_failed=max_failed,
        )

    def status(self) -> Status:
        """Where the campaign stands; safe at any time, also while another process runs it."""
        table, parts, settings, elapsed = self.session.read(outputs=False)
        weights = self.session.weights(table, parts)
        kind, scale = cost_kind(settings, self.price)
        return make_status(
            str(self.folder), table, cost=table.cost(kind) * scale, predicted=table.predicted * scale,
            log_weights=weights, settings=settings, elapsed=elapsed, unit=unit_of(settings),
        )  # fmt: skip

    def failure_map(self) -> FailureMap:
        """P(finish | theta) from the runs so far: call it at parameters, print it, or `th.plots.failures(it)`."""
        table, names = self.session.read(outputs=False).table, self.prior.names
        return FailureMap.of(Simulations(theta=table.theta, x=table.theta, status=table.status, names=names))

    def verify(self, repair: bool = False) -> Verification:
        """Test every checksum; with `repair`, keep what is whole and make the rest pending again."""
        if not repair:
            return verify(self.folder, self.prior, repair=False)
        with FolderLock(self.folder):
            return verify(self.folder, self.prior, repair=True)
