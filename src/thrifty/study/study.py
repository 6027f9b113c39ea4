"""Infer parameters in one call with `th.infer`, which returns a `th.Study`, as the sequential methods do.

    pilot ─► plan ─► run ─► fit ─► draws at x_o      each step is public: to change one, copy the body of `infer`

A study holds tables and posteriors only; what takes long (draws, diagnosis) is computed when it is first used.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from thrifty.campaign.weighting import MAX_FAILED_MASS
from thrifty.display import Card, Displayed, count_things, list_shares
from thrifty.durations import Duration
from thrifty.errors import ConfigError, warn_once
from thrifty.inference.weighted_posterior import WeightedPosterior, describe_accepted
from thrifty.runner.time_limits import make_time_limit
from thrifty.study.method_names import make_method, set_progress
from thrifty.study.summary import Row, Summary, list_quantiles, make_round_cards, summarise, write_generations
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Levels, Posterior, find_discrete, levels_of
from thrifty.weights import ess, quantile, sum_by_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from thrifty.campaign.campaign import Campaign
    from thrifty.costs import FittedCost
    from thrifty.diagnostics import Diagnosis
    from thrifty.report.results import Result

_log = logging.getLogger(__name__)
DRAWS = 2000  # quantiles of 5 and 95 % to a tenth of a standard deviation; sampled in a second by every method
DEFAULT_RUNS = 5000


@dataclass(frozen=True, eq=False, repr=False)
class Study(Displayed):
    """A posterior, the runs behind it and the observation at which it holds.

    Attributes:
        posterior: What `fit` returned.
        simulations: All runs with their weights.
        x_o: The observation; several (k, *event) for a method that takes them.
        method: Name of the method, "npe", "nle-rounds".
        campaign: The run folder, or None when the runs were in memory.
        seconds: Wall seconds of the fit.
        seed: Seed of draws and checks.
        generations: What each generation did, for sequential methods.
        stopped: Why such a method ended.
        notes: What the reader should know.
        local: Whether the posterior was made for x_o alone, as in rounds; checks then use runs near it.
        each: Where x_o holds several observations (k, *event): one study for each, of the same runs.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.normal(size=(5_000, 1))
        >>> sims = th.Simulations.from_arrays(theta=theta, x=theta + rng.normal(size=theta.shape), names=("mu",))
        >>> study = th.Study(th.ABC(th.Normal(0, 1)).fit(sims), sims, np.array([1.0]), method="abc")
        >>> print(study)
        abc at x_o of 1 value: 5,000 runs count as 5,000
          rests on 4... accepted runs (4... effective)
          mu  median 0.4... (90%: -0... to 1.6...)
    """

    posterior: Posterior
    simulations: Simulations
    x_o: Array
    method: str = ""
    campaign: Campaign | None = None
    seconds: float = 0.0
    seed: int = 0
    generations: tuple[Any, ...] = ()
    stopped: str = ""
    notes: tuple[str, ...] = ()
    local: bool = False
    each: tuple[Study, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names."""
        return self.simulations.names or tuple(f"theta_{i + 1}" for i in range(self.simulations.dim))

    @property
    def cost(self) -> float:
        """Total cost of all runs, in the unit of `simulations`."""
        return float(np.nansum(self.simulations.cost))

    @cached_property
    def samples(self) -> Array:
        """Equally weighted posterior draws (2000, p); (k, 2000, p) at k observations."""
        if self.each:
            return np.stack([one.samples for one in self.each])
        with warn_once(self._warned):
            return self.posterior.sample(DRAWS, self.x_o, seed=self.seed)

    @cached_property
    def _warned(self) -> set[str]:
        """Warnings that this study has said, each of them once."""
        return set()

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """All checks at x_o, computed when first used, as `th.diagnose(study, seed=study.seed)` makes them.

        A saved study keeps them in its folder.
        """
        from thrifty.diagnostics import diagnose
        from thrifty.report.results import add_diagnosis

        if self.each:
            raise ConfigError(
                f"this study has {len(self.each)} observations, and checks are made at one",
                code="bad-observation",
                fix="study.each[0].diagnosis, and so on",
            )

        with warn_once(self._warned):
            found = diagnose(self, seed=self.seed)
        for folder, result in self._saved:
            add_diagnosis(folder, result, found.to_dict())
        return found

    @property
    def cost_model(self) -> FittedCost | None:
        """The cost model of the campaign's plan; None without one, or where costs are paid at a price."""
        from thrifty.costs import cost_from_dict

        if self.campaign is None or self.campaign.price is not None:  # a cost model is not in units of a price
            return None
        recipe = self.campaign.session.settings().cost_model
        return None if recipe is None else cost_from_dict(recipe)

    @cached_property
    def after_pilot(self) -> Simulations:
        """The runs after the pilot, to which the cost was not fitted; all runs where there is no campaign or pilot."""
        if self.campaign is None:
            return self.simulations
        with self.campaign.session.reading() as opened:
            pilots = opened.pilot_indices()
        return self.simulations[~np.isin(self.simulations.index, pilots)]

    @cached_property
    def _saved(self) -> list[tuple[Path, Result]]:
        """Where this study was saved before its checks were made."""
        return []

    def plot(
        self, *, prior: Any = None, truth: npt.ArrayLike | None = None, others: Mapping[str, Any] | None = None
    ) -> Figure:
        """Draw the pair plot of this posterior, with the prior and other posteriors on the same axes.

        Args:
            prior: Drawn in grey; by default that of the campaign or the posterior. False leaves it out.
            truth: Parameters (p,) to mark.
            others: Label -> study, posterior or draws (n, p), drawn as lines.
        """
        from thrifty.plots import pairs

        label = self.method or "posterior"
        return pairs(self, self.x_o, prior=prior, truth=truth, names=self.names, others=others, label=label)

    def save(self, folder: str | os.PathLike[str] | None = None, *, name: str = "") -> Result:
        """Save draws, posterior and checks (if they were made) in a run folder, by default the campaign's.

        Several observations are saved as NAME-1, NAME-2, ...; the first of these results is returned.
        """
        from thrifty.report.results import Result, save_result

        if self.each:
            base = name or self.method or "study"
            first, *_ = [one.save(folder, name=f"{base}-{i}") for i, one in enumerate(self.each, start=1)]
            return first
        checks = self.__dict__.get("diagnosis")  # only if already computed: saving must not take minutes
        result = Result(
            name=name or self.method or "study",
            method=self.method,
            posterior_path=None,
            x_o=self.x_o,
            samples=self.samples,
            log_weights=None,
            names=self.names,
            diagnosis=None if checks is None else checks.to_dict(),
            seconds=self.seconds,
            seed=self.seed,
        )
        saved = save_result(self._folder(folder), result, self.posterior)
        if checks is None:
            self._saved.append((self._folder(folder), saved))
        return saved

    def report(self, path: str | os.PathLike[str] = "report.html", *, title: str | None = None) -> Path:
        """Write the report of the campaign and this posterior, one HTML file with all checks.

        Of several observations all are checked and listed, and the posterior at the last one is shown.
        """
        from thrifty.report import write

        folder = self._folder(None)
        for one in self.each or (self,):
            _ = one.diagnosis
        self.save()
        return write(Path(path), folder, title=title)

    def _folder(self, folder: str | os.PathLike[str] | None) -> Path:
        if folder is not None:
            return Path(folder)
        if self.campaign is None:
            raise ConfigError(
                "this study has no run folder: its runs were in memory",
                code="no-campaign",
                fix='give the method a campaign: run(th.Campaign("runs/mine", simulator, prior), x_o, n=...)',
            )
        return self.campaign.folder

    def summary(self) -> Summary:
        """Return (name, median, 5 % and 95 % quantile) of each parameter, at each observation if there are several.

        As the last line of a cell, or printed, it shows posterior, checks, runs and cost under a heading each.
        """
        return summarise(self, self._list_quantiles(), self._list_categories(), self._describe_accepted())

    def _list_quantiles(self) -> list[Row]:
        if self.each:
            numbered = enumerate(self.each, start=1)
            return [(f"{name} at x_o {i}", m, a, b) for i, one in numbered for name, m, a, b in one._list_quantiles()]
        discrete = find_discrete(self._levels())
        low, middle, high = quantile(self.samples, [0.05, 0.5, 0.95], np.zeros(len(self.samples)), discrete=discrete)
        rows = zip(self.names, middle.tolist(), low.tolist(), high.tolist(), strict=True)
        return [(name, m, a, b) for name, m, a, b in rows]

    def _levels(self) -> Levels:
        """Return what values each parameter takes, as the posterior or the prior of the campaign says it."""
        known = getattr(self.posterior, "parameter_levels", None)
        if not known and self.campaign is not None:
            known = levels_of(self.campaign.prior)
        return known or (None,) * len(self.names)

    def _list_categories(self) -> dict[str, str]:
        """Return the probability of each category, in words, of the parameters that are categories."""
        if self.each:
            numbered = enumerate(self.each, start=1)
            return {f"{name} at x_o {i}": text for i, one in numbered for name, text in one._list_categories().items()}
        columns = zip(self.names, self.samples.T, self._levels(), strict=True)
        zeros = np.zeros(len(self.samples))
        return {name: list_shares(sum_by_label(column, level, zeros)) for name, column, level in columns if level}

    @property
    def title(self) -> str:
        """One line: the method, the observation, and how many runs count."""
        sims = self.simulations
        size = int(np.size(self.x_o)) // max(len(self.each), 1)
        effective = ess(sims.log_weights[sims.ok]) if sims.ok.any() else 0.0
        where = f"{len(self.each)} observations" if self.each else "x_o"
        return (
            f"{self.method or 'study'} at {where} of {count_things(size, 'value')}:"
            f" {count_things(len(sims), 'run')} count as {effective:,.0f}"
        )

    def _describe_accepted(self) -> list[str]:
        """Say how many accepted runs the answer of an ABC method rests on; nothing for other methods."""
        words = "" if self.each else describe_accepted(self.posterior, self.x_o)
        return [words] if words else []

    def __str__(self) -> str:
        rows = self._list_quantiles()
        width = max(len(name) for name, *_ in rows)
        lines = [self.title, *(f"  {words}" for words in self._describe_accepted())]
        shares = self._list_categories()
        lines += [f"  {name:<{width}}  {shares.get(name) or _describe(*values)}" for name, *values in rows]
        return "\n".join(lines + write_generations(self))

    def __repr__(self) -> str:
        return super().__repr__() if self._has_draws() else str(self._card())

    def _has_draws(self) -> bool:
        """Whether draws are at hand: a display must not sample a network."""
        return "samples" in self.__dict__ or isinstance(self.posterior, WeightedPosterior)

    def _card(self) -> Card:
        if not self._has_draws():
            words = "no draws were made yet: study.samples makes them, and study.summary() shows medians and intervals"
            return Card(self.title, notes=[words], parts=make_round_cards(self))
        shares, notes = self._list_categories(), self._describe_accepted()
        notes += [f"checks: {self.diagnosis.verdict}"] if "diagnosis" in self.__dict__ else []
        notes += [f"runs: {self.campaign.folder}"] if self.campaign else []
        table, parts = list_quantiles(self._list_quantiles(), shares), make_round_cards(self)
        return Card(self.title, tuple(shares.items()), *table, notes, parts=parts)


def _describe(median: float, low: float, high: float) -> str:
    return f"median {median:.4g} (90%: {low:.4g} to {high:.4g})"


def infer(
    simulator: Callable[..., Any],
    prior: Any,
    x_o: Any,
    *,
    n: int | None = None,
    budget: float | str | None = None,
    pilot: int | None = None,
    method: Any = None,
    folder: str | os.PathLike[str] | None = None,
    seed: int = 0,
    workers: int = 2,
    cost: Literal["cpu", "wall", "reported"] = "cpu",
    time_limit: Duration | None = None,
    on_timeout: str | None = None,
    max_failed: float = MAX_FAILED_MASS,
    depends_on: Sequence[str | os.PathLike[str]] = (),
    progress: bool | None = None,
) -> Study:
    """Infer a posterior from simulator, prior and observation: pilot, plan, run, fit; see `thrifty.infer`."""
    from thrifty.campaign.campaign import Campaign
    from thrifty.campaign.settings import check_count
    from thrifty.inference.checks import check_observed
    from thrifty.priors import as_prior
    from thrifty.study.campaign_steps import Runs

    prior = as_prior(prior)
    check_observed(x_o)
    method = set_progress(make_method(method, prior), progress)
    n = DEFAULT_RUNS if n is None and budget is None else n
    if n is not None:
        check_count(n, "infer")
    runs = Runs(n, budget, pilot, time_limit, on_timeout, workers, max_failed, progress)
    is_sequential = hasattr(method, "run")  # it chooses its own runs
    if is_sequential:
        _check_sequential(method, runs)
    make_time_limit(time_limit, on_timeout)  # refuses before a folder is made
    place = Path(tempfile.mkdtemp(prefix="thrifty-")) / "runs" if folder is None else Path(folder)
    campaign = Campaign(place, simulator, prior, seed=seed, cost=cost, depends_on=depends_on)
    if folder is None:
        weakref.finalize(campaign, shutil.rmtree, campaign.folder.parent, ignore_errors=True)
    if is_sequential:
        began = time.monotonic()
        study = method.run(campaign, x_o, n=n, budget=budget, seed=seed, workers=workers)
        same = {"campaign": campaign, "method": _name(method), "seed": seed, "seconds": time.monotonic() - began}
        study = replace(study, **same, each=tuple(replace(one, **same) for one in study.each))
    else:
        observed = runs.run(campaign, x_o)
        study = infer_campaign(campaign, observed, method=method, seed=seed, max_failed=max_failed)
    study.save()
    return study


def infer_campaign(campaign: Campaign, x_o: Any, *, method: Any, seed: int, max_failed: float) -> Study:
    """Fit a method to the runs of a campaign; see `Campaign.infer`, which keeps the study too."""
    from thrifty.study.campaign_steps import read_observed

    method = make_method(method, campaign.prior)
    if not hasattr(method, "fit"):
        raise ConfigError(
            f"{_name(method)} chooses its own runs, and a campaign has its runs",
            code="conflicting-settings",
            fix=f'"npe", "abc", ...; or th.{type(method).__name__}(...).run(campaign, x_o, n=...), in a new folder',
        )
    table = campaign.simulations(max_failed=max_failed)
    return fit_study(method, table, read_observed(table, x_o), label=_name(method), campaign=campaign, seed=seed)


def _check_sequential(method: Any, runs: Any) -> None:
    """Refuse settings that a method which chooses its own runs cannot keep."""
    for label, why in (
        ("pilot", "its first round is its pilot"),
        ("time_limit", "all runs of a round finish before the next one is drawn"),
    ):
        if getattr(runs, label) is not None:
            raise ConfigError(
                f"{label} = {getattr(runs, label)!r} cannot be used with {_name(method)}: {why}",
                code="conflicting-settings",
                fix=f"leave {label} out, or use a method without rounds",
            )


def fit_study(
    method: Any, simulations: Simulations, x_o: Array, *, label: str, campaign: Campaign | None = None, seed: int = 0
) -> Study:
    """Fit a method to simulations, and keep what it found with the time that it took."""
    began = time.monotonic()
    _log.info("fit %s to %d runs", label, len(simulations))
    posterior = method.fit(simulations, seed=seed)
    _log.info("fit of %s ended after %.1f s", label, time.monotonic() - began)
    return Study(posterior, simulations, x_o, label, campaign, seconds=time.monotonic() - began, seed=seed)


def _name(method: Any) -> str:
    return getattr(method, "name", "") or type(method).__name__.lower()
