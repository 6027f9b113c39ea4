"""Keep a posterior, the runs behind it and the observation together: what `th.infer` and sequential methods return.

A study holds tables and posteriors only; what takes long (draws, diagnosis) is computed when it is first used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, Displayed, count_things, list_shares
from thrifty.durations import Duration
from thrifty.errors import ConfigError, warn_once
from thrifty.inference.weighted_posterior import WeightedPosterior, describe_accepted
from thrifty.study.summary import Row, Summary, list_quantiles, make_round_cards, summarise, write_generations
from thrifty.tables.pandas_io import draws_to_arviz, draws_to_pandas
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Levels, Posterior, find_discrete, levels_of
from thrifty.weights import ess, quantile, sum_by_label

if TYPE_CHECKING:
    import arviz
    import pandas
    from matplotlib.figure import Figure

    from thrifty.campaign.campaign import Campaign
    from thrifty.costs import FittedCost
    from thrifty.diagnostics import Diagnosis
    from thrifty.report.results import Result

DRAWS = 2000  # quantiles of 5 and 95 % to a tenth of a standard deviation; sampled in a second by every method


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
        return self.diagnose()

    def diagnose(
        self,
        *,
        held_out: Simulations | None = None,
        fresh: Simulations | None = None,
        time_limit: Duration | None = "60 s",
    ) -> Diagnosis:
        """Make all checks at x_o and keep them as `diagnosis`, in the folder of a saved study and for its report too.

        Args:
            held_out: Runs that did not train the posterior, to calibrate on, see `th.diagnose`.
            fresh: Runs at posterior draws, for the predictive check.
            time_limit: Seconds, or a text such as "5 min"; None: no limit.
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
            found = diagnose(self, held_out=held_out, fresh=fresh, time_limit=time_limit, seed=self.seed)
        self.__dict__["diagnosis"] = found  # where the cached property looks
        for folder, result in self._saved:
            add_diagnosis(folder, result, found.to_dict())
        return found

    @property
    def cost_model(self) -> FittedCost | None:
        """The cost model of the campaign's plan; None without one, or where costs are paid at a price."""
        return None if self.campaign is None else self.campaign.cost_model

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

    @cached_property
    def _kept_as(self) -> list[str]:
        """The name under which this study was saved last, if it was."""
        return []

    @property
    def _other_name(self) -> str:
        """Say where this study is kept, if not under the name of its method."""
        return "".join(f"kept as infer/{name}" for name in self._kept_as if name != self.method)

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

    def to_arviz(self) -> arviz.InferenceData:
        """Make the draws (`posterior`) and the observation (`observed_data`) for ArviZ; of one observation."""
        return draws_to_arviz(self._draws_of_one(), self.names, self.x_o, self.simulations.x_names)

    def to_pandas(self) -> pandas.DataFrame:
        """Make a DataFrame of the draws, one column per parameter; of one observation."""
        return draws_to_pandas(self._draws_of_one(), self.names)

    def _draws_of_one(self) -> Array:
        if self.each:
            raise ConfigError(
                f"this study has {len(self.each)} observations, and one is exported at a time",
                code="bad-observation",
                fix="study.each[0].to_arviz(), and so on",
            )
        return self.samples

    def save(self, folder: str | os.PathLike[str] | None = None, *, name: str = "") -> Result:
        """Save draws, posterior and checks (if they were made) in a run folder, by default the campaign's.

        Without a name it is that of the method, or NPE-2, NPE-3, ... where that belongs to another observation: only a
        result of the same method and observation is replaced. Several observations are saved as NAME-1, NAME-2, ...;
        the first of these results is returned.

        Raises:
            ConfigError: already-exists, the name belongs to a result of another observation or method.
        """
        if not self.each:
            saved = self._save(self._folder(folder), name, name or self.method or "study")
            self._kept_as[:] = [saved.name]
            return saved
        base = name or self.method or "study"
        first, *_ = [
            one._save(one._folder(folder), name, f"{base}-{number}") for number, one in enumerate(self.each, start=1)
        ]
        return first

    def _save(self, folder: Path, given: str, name: str) -> Result:
        """Save one observation under a name, or, where none was given, under a free one that begins so."""
        from thrifty.report.results import Result, find_free_name, refuse_taken_name, save_result

        if given:
            refuse_taken_name(folder, name, method=self.method or "study", x_o=self.x_o)
        else:
            name = find_free_name(folder, name, method=self.method or "study", x_o=self.x_o)
        checks = self.__dict__.get("diagnosis")  # only if already computed: saving must not take minutes
        result = Result(
            name=name,
            method=self.method or "study",
            posterior_path=None,
            x_o=self.x_o,
            samples=self.samples,
            log_weights=None,
            names=self.names,
            diagnosis=None if checks is None else checks.to_dict(),
            seconds=self.seconds,
            seed=self.seed,
        )
        saved = save_result(folder, result, self.posterior)
        if checks is None:
            self._saved.append((folder, saved))
        return saved

    def report(self, path: str | os.PathLike[str] = "report.html", *, title: str | None = None) -> Path:
        """Write the report of the campaign and this posterior, one HTML file with all checks.

        Of several observations all are checked and listed, and the posterior at the last one is shown.
        """
        from thrifty.report import write

        folder = self._folder(None)
        for one in self.each or (self,):
            _ = one.diagnosis
        self.save(name="".join(self._kept_as))
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
        lines += [f"  {self._other_name}"] if self._other_name else []
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
        notes += [self._other_name] if self._other_name else []
        table, parts = list_quantiles(self._list_quantiles(), shares), make_round_cards(self)
        return Card(self.title, tuple(shares.items()), *table, notes, parts=parts)


def _describe(median: float, low: float, high: float) -> str:
    return f"median {median:.4g} (90%: {low:.4g} to {high:.4g})"
