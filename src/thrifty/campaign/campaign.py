"""`th.Campaign`: pilot, plan, run and read over one folder. Calling any step again continues it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thrifty.campaign.block_draws import redraw
from thrifty.campaign.budget import Price
from thrifty.campaign.failures import FailedRuns, FailureMap, find_failed_runs
from thrifty.campaign.fingerprint import fingerprint
from thrifty.campaign.opened import Session
from thrifty.campaign.plan import Plan, fit
from thrifty.campaign.planner import Planner
from thrifty.campaign.quote import Quote, make_quote
from thrifty.campaign.redo import forget_failed
from thrifty.campaign.settings import (
    CampaignSettings,
    as_paths,
    check_count,
    check_same,
    check_settings,
    describe_prior,
    readable_prior,
)
from thrifty.campaign.status import Status, mention_pilots
from thrifty.campaign.steps import Driver
from thrifty.campaign.weighting import MAX_FAILED_MASS, to_simulations
from thrifty.display import Card, Displayed
from thrifty.durations import Duration, name_unit, read_seconds
from thrifty.errors import CampaignError, ConfigError, DamagedStoreError
from thrifty.priors import as_prior, check_prior
from thrifty.runner.engines.processes import Processes
from thrifty.runner.interrupts import Interrupts
from thrifty.runner.progress import ProgressMode
from thrifty.runner.signatures import read_signature
from thrifty.runner.simulator import bind_names
from thrifty.runner.task import CostKind, Engine, get_name
from thrifty.runner.time_limits import make_time_limit
from thrifty.store.backup import read_backup
from thrifty.store.lock import FolderLock, has_driver
from thrifty.store.repair import Verification, find_damage, repair_damage
from thrifty.store.schema import NAME, translate_os_errors
from thrifty.store.store import Store
from thrifty.tables.simulations import Simulations
from thrifty.types import Cost, Prior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from thrifty.costs import FittedCost
    from thrifty.study import study

_log = logging.getLogger(__name__)


class Campaign(Displayed):
    """A durable set of simulations: the folder is the campaign.

    Args:
        folder: Made if it does not exist; continued if it does.
        simulator: `simulate(theta, rng)`, `simulate(beta, gamma, rng)` with the prior's names, or `th.Command`; with
            `seed` instead of `rng`, or neither, too.
        prior: Anything `th.as_prior` reads.
        seed: Seed of every draw and every run.
        cost: "cpu" seconds (default: they do not depend on how busy the machine is), "wall" or "reported".
        price: For budgets in money, "0.05 eur/cpu-h".
        unit: Unit of reported costs, e.g. "events".
        m: Realisations per draw.
        accept_changed: Go on although the simulator's code changed since the campaign began (recorded).
        depends_on: Data files and folders that the simulator reads: a change of their contents is refused like one of
            its code. The Python files that it imports need not be named.

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
        depends_on: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        self.folder, self.accept_changed = Path(folder), accept_changed
        self.prior = as_prior(prior)
        self.simulator = bind_names(simulator, self.prior.names)
        read_signature(self.simulator, self.prior.names)
        check_settings(cost=cost, m=m, seed=seed)
        check_prior(self.prior)
        self.price = Price.read(price) if price is not None else None
        paths = as_paths(depends_on)
        self.session = Session(self.folder, self.prior, self.simulator, accept_changed, paths)
        settings = {
            "seed": int(seed), "cost": cost, "price": price, "unit": unit, "m": m,
            "prior": describe_prior(self.prior), "simulator": fingerprint(self.simulator, paths),
        }  # fmt: skip
        with translate_os_errors(self.folder):
            if Store.exists(self.folder):
                with closing(Store.open(self.folder, readonly=True)) as store:
                    check_same(self.folder, store.settings(), settings)
            else:
                Store.create(self.folder, settings).close()

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Campaign:
        """Open a campaign to read it: status, quote, simulations, verify. Nothing is executed or changed."""
        self = cls.__new__(cls)
        self.folder, self.simulator, self.accept_changed = Path(folder), None, False
        with translate_os_errors(self.folder), closing(Store.open(self.folder, readonly=True)) as store:
            settings = CampaignSettings.parse(store.settings())
        self.prior, self.price = readable_prior(None, settings.prior), settings.price
        self.session = Session(self.folder, self.prior, None)
        return self

    @staticmethod
    def repair(folder: str | os.PathLike[str], prior: Any = None) -> Verification:
        """Repair a folder, also one too damaged to be opened; the prior is read from it unless given.

        Undamaged rows are kept. Damaged runs become pending: `run()` makes them again with the same results.
        """
        return verify_folder(Path(folder), None if prior is None else as_prior(prior), repair=True)

    mend = repair

    def _card(self) -> Card:
        simulator = "none: opened to read" if self.simulator is None else get_name(self.simulator)
        facts = [("simulator", simulator), ("parameters", ", ".join(self.prior.names)), *self._count_runs()]
        return Card(f"campaign {self.folder}", facts)

    def _count_runs(self) -> list[tuple[str, str]]:
        """Count rows in the folder, without reading them; say it where the folder cannot be read."""
        try:
            with closing(Store.open(self.folder, readonly=True)) as store:
                done, planned = store.planned() - store.count_pending(), sum(b.admitted for b in store.blocks())
                settings = CampaignSettings.parse(store.settings())
        except Exception as error:  # removed, damaged or locked: the object is shown all the same
            return [("runs", f"the folder cannot be read ({type(error).__name__})")]
        runs = f"{done:,} of {planned:,} planned runs are done{mention_pilots(settings.pilots)}"
        budget = settings.limit
        if budget is not None and done == planned == settings.pilots:
            runs = f"{done:,} done{mention_pilots(settings.pilots)}, more are planned until the budget is used"
        facts = [("runs", runs if planned else "none yet; pilot(200) makes the first")]
        facts += [("budget", budget.describe())] if budget is not None else []
        return [*facts, ("cost", f"{settings.cost_kind}, in {name_unit(settings.unit)}"), ("seed", str(settings.seed))]

    def pilot(
        self,
        n: int,
        *,
        workers: int = 2,
        engine: Engine | None = None,
        time_limit: Duration | None = None,
        on_timeout: str | None = None,
        progress: ProgressMode | bool | None = "auto",
        redo_failed: bool = False,
    ) -> Status:
        """Run n timed prior draws (in all: called again, only what is missing).

        Args:
            n: Pilots in all.
            workers: As for `run`.
            engine: As for `run`.
            time_limit: As for `run`.
            on_timeout: As for `run`.
            progress: As for `run`.
            redo_failed: As for `run`.
        """
        check_count(n, "pilot")
        limit = make_time_limit(time_limit, on_timeout)
        engine = engine if engine is not None else Processes(workers)
        with Interrupts() as interrupts, self.session.writing() as opened:
            driver = Driver(opened, self.session.checked_simulator(opened), engine, interrupts, limit, progress)
            if redo_failed:
                forget_failed(opened)
            Planner(opened).pilot(n)
            driver.run_pilot()
            driver.raise_if_interrupted()
            return driver.end_status()

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
        avoid_failures: bool | None = None,
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
                the reported unit), of which a fit to prior draws is frozen. It is compared with the runs so far.
            avoid_failures: Draw less where runs fail: the penalty acts on the cost of a valid run, c/P(finish). When
                left out, where more than 5 % of the pilot failed. The weights are exact in any case.
        """
        _check_request(n, budget, cap, penalty=penalty, mixture=mixture, avoid_failures=avoid_failures)
        with self.session.writing() as opened:
            before = len(opened.store.blocks())
            plan = Planner(opened).plan(
                n,
                budget or cap,
                penalty=penalty,
                mixture=mixture,
                cost=cost,
                refit=refit,
                avoid_failures=avoid_failures,
            )
            if len(opened.store.blocks()) > before:
                opened.keep_figures()
            _log.info("plan in %s: %d runs, penalty %s, budget %s", self.folder, plan.n, plan.penalty, plan.budget)
            return plan

    def quote(
        self,
        n: int | None = None,
        *,
        budget: str | None = None,
        cap: str | None = None,
        penalty: Any = None,
        mixture: Any = None,
        refit: bool = False,
        cost: Cost | None = None,
        workers: int = 2,
        avoid_failures: bool | None = None,
    ) -> Quote:
        """Show what `plan` with the same arguments would cost and save, and when it would end; commits nothing.

        The folder is only read, so that `Campaign.open(folder).quote(n=5000)` works too. `thrifty plan` prints the
        same figures.

        Args:
            n: Runs under this plan, besides the pilot.
            budget: As for `plan`.
            cap: As for `plan`.
            penalty: As for `plan`.
            mixture: As for `plan`.
            refit: As for `plan`.
            cost: As for `plan`.
            workers: Workers assumed for the times.
            avoid_failures: As for `plan`.

        Example:
            >>> import tempfile
            >>> def simulate(theta, rng):
            ...     return th.Output(theta + rng.normal(), cost=float(np.exp(theta[0])))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     c = th.Campaign(folder + "/toy", simulate, th.Uniform(0, 4), seed=1, cost="reported")
            ...     _ = c.pilot(40, engine=th.Inline())
            ...     quote = c.quote(n=100)
            ...     planned = c.status().planned  # the pilot alone
            >>> quote.chosen.label, quote.n, planned
            ('k = 0.5 (√c)', 100, 40)
        """
        _check_request(n, budget, cap, penalty=penalty, mixture=mixture, avoid_failures=avoid_failures)
        with self.session.reading() as opened:
            return make_quote(
                opened,
                n,
                budget or cap,
                penalty=penalty,
                mixture=mixture,
                cost=cost,
                refit=refit,
                workers=workers,
                avoid_failures=avoid_failures,
            )

    def run(
        self,
        *,
        workers: int = 2,
        engine: Engine | None = None,
        time_limit: Duration | None = None,
        on_timeout: str | None = None,
        deadline: Duration | None = None,
        progress: ProgressMode | bool | None = "auto",
        redo_failed: bool = False,
    ) -> Status:
        """Run what is planned and not yet done, until it is done or the budget is used.

        Args:
            workers: Local worker processes.
            engine: `th.Dask(...)`, `th.Futures(...)`, `th.Processes(n)` or `th.Inline()` instead.
            time_limit: Wall time per run, seconds or "10 s"; needs `on_timeout`.
            on_timeout: "lazy", "extend", "restrict", "weight" or "stop".
            deadline: Hard wall-time limit of this call ("40 min"): nothing starts that would probably not end
                in time, and what still runs then is ended and stays pending.
            progress: True for a bar, False for none, None (or "auto") for a bar in a terminal and in a notebook and
                plain lines elsewhere; or "bar", "plain", "json", "quiet".
            redo_failed: Make every failed run again, time-outs excepted: with the same parameters and the same random
                numbers, as a corrected simulator would have made it (recorded in the folder).
        """
        limit = make_time_limit(time_limit, on_timeout)
        until = None if deadline is None else read_seconds(deadline, "deadline")
        engine = engine if engine is not None else Processes(workers)
        with Interrupts() as interrupts, self.session.writing() as opened:
            driver = Driver(opened, self.session.checked_simulator(opened), engine, interrupts, limit, progress)
            if redo_failed:
                forget_failed(opened)
            ending = driver.run_planned(deadline=until, top_up=Planner(opened).top_up)
            driver.raise_if_interrupted()
            return driver.finish(ending)

    def simulations(
        self, *, allow_incomplete: bool = False, max_failed: float = MAX_FAILED_MASS, lazy: bool = False
    ) -> Simulations:
        """The table of all runs, pilot included through the joint balance weights.

        Args:
            allow_incomplete: Return what there is although planned runs are missing. Finished runs are weighted as they
                were drawn and run so far; missing ones have status "pending" and no weight.
            max_failed: Share of prior mass that may have failed; above it the posterior would be conditional on
                finishing, so this raises unless a larger share is accepted here.
            lazy: Keep x in a file instead of memory, as a read-only memory map, for tables larger than memory. The file
                lies beside the store, has no name, and its room is free again when the table is no longer used.
        """
        with self.session.reading() as opened:
            return to_simulations(
                opened.table_with_outputs(lazy=lazy),
                opened.parts,
                self.prior,
                opened.settings,
                blocks=opened.store.blocks(),
                allow_incomplete=allow_incomplete,
                max_failed=max_failed,
            )

    def status(self) -> Status:
        """Return the state of the campaign; safe at any time, also while another process runs it.

        Outputs are not read. Checked are the checksums of settings,
        proposals and blocks, and that all values can be meant; `simulations()` and `verify()` test the checksum of
        every draw and every run.
        """
        with self.session.reading(check_draws=False) as opened:
            return replace(opened.status(), running=has_driver(self.folder))

    def failures(self) -> FailedRuns:
        """Return the failed runs: print it for the causes, `failures().messages[index]` is one message in full."""
        with self.session.reading(check_draws=False) as opened:
            return find_failed_runs(opened.store, opened.settings.shape)

    def failure_map(self) -> FailureMap:
        """Learn P(finish | theta) from the runs so far: call it at parameters, print it, or `th.plots.failures(it)`."""
        with self.session.reading() as opened:
            opened.judge_shapes()
            table, names = opened.table.counted(), self.prior.names
        return FailureMap.of(Simulations(theta=table.theta, x=table.theta, status=table.status, names=names))

    def plot_cost(self) -> Figure:
        """Draw the predicted cost of a run over the prior, with the pilot runs that it was learned from.

        Before the first plan the cost is fitted to the runs so far; nothing is committed.
        """
        from thrifty.plots.cost_plots import cost_surface

        with self.session.reading() as opened:
            theta, cost = opened.pilot_costs()
            model, unit = opened.cost_model, opened.settings.measured_unit
        model = fit(theta, cost, unit=unit, prior=self.prior) if model is None else model
        return cost_surface(model, self.prior, pilot=theta, seconds=cost, names=self.prior.names)

    @property
    def cost_model(self) -> FittedCost | None:
        """The cost model of the plan; None before there is one, or where costs are paid at a price."""
        from thrifty.costs import cost_from_dict

        if self.price is not None:  # a cost model is not in units of a price
            return None
        recipe = self.session.settings().cost_model
        return None if recipe is None else cost_from_dict(recipe)

    def report(self, path: str | os.PathLike[str] = "report.html", *, title: str | None = None) -> Path:
        """Write the report of this campaign, at any stage: one HTML file that needs no network."""
        from thrifty.report import write

        return write(Path(path), self.folder, title=title)

    def infer(
        self, x_o: Any, *, method: Any = None, seed: int = 0, max_failed: float = MAX_FAILED_MASS, name: str = ""
    ) -> study.Study:
        """Infer the posterior at x_o from the runs of this campaign, and keep it in the folder, where reports find it.

        The same as `method.fit(campaign.simulations())`, whose posterior is kept nowhere, and `th.Study(...).save()`.
        No run is made.

        Args:
            x_o: The observation, as the simulator returns it, by name where its numbers have names.
            method: A name ("npe", the default, "abc", ...), a class (`th.ABC`) or one with settings.
            seed: Seed of networks, draws and checks.
            max_failed: As for `simulations`.
            name: Of the result, a folder under `infer/`. By default the name of the method, with a number where that
                belongs to another observation: nothing but the same method at the same observation is replaced.
        """
        from thrifty.study import fit_study

        found = fit_study.infer_campaign(self, x_o, method=method, seed=seed, max_failed=max_failed, name=name)
        found.save(name=name)
        return found

    def verify(self, repair: bool = False) -> Verification:
        """Test every checksum; with `repair`, keep undamaged rows and make the others pending again."""
        return verify_folder(self.folder, self.prior, repair=repair)


def _check_request(
    n: int | None, budget: str | None, cap: str | None, *, penalty: Any, mixture: Any, avoid_failures: bool | None
) -> None:
    """Refuse a request that says too little or too much."""
    if (n is None) == (budget is None) or (cap is not None and n is None):
        raise ConfigError("pass exactly one of n= and budget=; cap= needs n=", code="conflicting-settings")
    if n is not None:
        check_count(n, "plan")
    if penalty is not None and mixture is not None:
        raise ConfigError("pass penalty= or mixture=, not both", code="conflicting-settings")
    if avoid_failures and isinstance(penalty, int | float) and penalty == 0:
        raise ConfigError(
            "penalty=0 draws from the prior, which avoids nothing",
            code="conflicting-settings",
            fix="leave penalty= out, or avoid_failures=False",
        )


def verify_folder(folder: Path, prior: Prior | None = None, *, repair: bool) -> Verification:
    """Test every checksum of a folder that may be too damaged to be opened, and repair it if asked."""
    with translate_os_errors(folder):
        if not (folder / NAME).is_file() and read_backup(folder) is None:
            Store.open(folder, readonly=True)  # says what is missing
    known = prior if prior is not None else _stored_prior(folder)
    if not repair:
        return find_damage(folder, dim=known.dim)
    with FolderLock(folder):
        return repair_damage(folder, dim=known.dim, redraw=lambda store, indices: redraw(store, known, indices))


def _stored_prior(folder: Path) -> Prior:
    """Return the prior by its numbers: from the store, or from `frozen.json` where the store cannot be opened."""
    try:
        return Campaign.open(folder).prior
    except CampaignError as error:
        backup = read_backup(folder)
        described = {row[0]: row[1] for row in backup["meta"]}.get("prior") if backup is not None else None
        if error.code not in ("damaged-folder", "untrusted-folder"):
            raise
        if described is None:
            raise DamagedStoreError(
                f"frozen.json of {folder} is missing or damaged",
                code="damaged-folder",
                fix="restore the folder from a backup, or th.Campaign.repair(folder, prior)",
            ) from None
        return readable_prior(None, json.loads(described))
