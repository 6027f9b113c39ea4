"""Ensembles: several fits of one method with different seeds, and the equal mixture of their posteriors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, Displayed, DisplayedSettings, count_things
from thrifty.errors import ConfigError
from thrifty.inference import archive
from thrifty.inference.answers.call_checks import describe_method
from thrifty.inference.answers.dimensions import Divisible, has_evidence
from thrifty.inference.answers.evidence import LogEvidence, average_members
from thrifty.inference.archive import Arrays, Recipe
from thrifty.inference.before_fit import BeforeFit
from thrifty.inference.checks import check_draws, check_fit
from thrifty.inference.posterior_draws import Sampled, maximise
from thrifty.inference.transforms import BoxTransform
from thrifty.plots.plotted_posterior import PlottedPosterior
from thrifty.priors.prior_dict import prior_to_dict
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Levels, Prior


@dataclass(frozen=True, repr=False)
class Ensemble(BeforeFit, DisplayedSettings):
    """Fit a method several times.

    Args:
        method: Settings with `fit(simulations, seed)`, such as `th.NPE(prior)`.
        members: How many fits.
        share: Of the runs that each member is fitted to, drawn at random without repeats. With 0.5 the spread of the
            members is the error of learning from all of the runs, which `log_evidence` uses.

    Example:
        >>> th.Ensemble(th.NPE(th.Normal(0.0, 1.0)), members=5).members
        5
    """

    method: Any
    members: int = 5
    share: float = 1.0

    def __post_init__(self) -> None:
        if not hasattr(self.method, "fit"):
            raise ConfigError(f"an ensemble needs a method with fit, got {self.method!r}", code="bad-setting")
        if not isinstance(self.members, int) or self.members < 1:
            raise ConfigError(f"members = {self.members!r}; a whole number of at least 1 is needed", code="bad-setting")
        if not 0 < self.share <= 1:
            raise ConfigError(f"share = {self.share!r}; a number in (0, 1] is needed", code="bad-setting")
        if self.members > 1 and getattr(getattr(self.method, "training", None), "checkpoint", None):
            raise ConfigError(
                "members cannot share one checkpoint file", code="conflicting-settings", fix="leave checkpoint out"
            )

    def fit(self, simulations: Simulations, seed: int = 0) -> EnsemblePosterior:
        """Fit every member; member i uses a seed made from (seed, i)."""
        check_fit(simulations, seed)
        seeds = np.random.SeedSequence(seed).generate_state(self.members)
        fits = [self.method.fit(self._choose_runs(simulations, int(s)), seed=int(s)) for s in seeds]
        return EnsemblePosterior(tuple(fits), self.share)

    def _choose_runs(self, simulations: Simulations, seed: int) -> Simulations:
        if self.share == 1:
            return simulations
        n, rng = len(simulations), np.random.default_rng([seed, 1])
        return simulations[np.sort(rng.choice(n, max(int(self.share * n), 1), replace=False))]


@dataclass(frozen=True, eq=False, repr=False)
class EnsemblePosterior(PlottedPosterior, Divisible):
    """The equal mixture of the members' posteriors.

    Members need `sample(n, x_o, seed=...)`; those with `draw` report its quality, those with `map` help the search.
    """

    members: tuple[Any, ...]
    share: float = 1.0

    def _card(self) -> Card:
        first, n = self.members[0], len(self.members)
        inner = first._card() if isinstance(first, Displayed) else Card(type(first).__name__)
        title = f"equal mixture of {count_things(n, 'posterior')}, the first:"
        return Card(title, [("posterior", inner.title), *inner.facts], notes=self.notes)

    @property
    def prior(self) -> Prior:
        """The prior."""
        return self.members[0].prior

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        """Ends (p,) of the parameters' support."""
        return self.members[0].parameter_bounds

    @property
    def parameter_levels(self) -> Levels:
        """What values each parameter takes."""
        return self.members[0].parameter_levels

    def list_usual(self) -> Array:
        """Return parameters (k, p) such as those of the runs."""
        return self.members[0].list_usual()

    @property
    def names(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Parameter names."""
        return self.members[0].names

    @property
    def x_names(self) -> tuple[str, ...]:
        """Names of the numbers in one observation, or empty."""
        return getattr(self.members[0], "x_names", ())

    @property
    def failed_mass(self) -> float:
        """Largest share of prior mass whose runs failed, of the members that say it."""
        return max(getattr(member, "failed_mass", 0.0) for member in self.members)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader should know about the fits."""
        return tuple(dict.fromkeys(note for member in self.members for note in getattr(member, "notes", ())))

    @property
    def curves(self) -> tuple[Any, ...]:
        """The learning curve of every member that was trained."""
        return tuple(member.curve for member in self.members if hasattr(member, "curve"))

    def sample(self, n: int, x_o: npt.ArrayLike, seed: int = 0) -> Array:
        """Draw (n, p): each draw from a member chosen at random."""
        return self.draw(n, x_o, seed).samples

    def draw(self, n: int, x_o: npt.ArrayLike, seed: int = 0) -> Sampled:
        """Draw, with the members' mean acceptance and local ESS, summed ESS and worst R-hat."""
        check_draws(n, seed)
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(n, np.full(len(self.members), 1 / len(self.members)))
        seeds = np.random.SeedSequence(seed).generate_state(len(self.members))
        parts = [
            _draw(member, int(count), x_o, int(s))
            for member, count, s in zip(self.members, counts, seeds, strict=True)
            if count or not n
        ]
        return Sampled(
            samples=rng.permutation(np.concatenate([part.samples for part in parts])),
            acceptance=float(np.mean([part.acceptance for part in parts])),
            local_ess=float(np.mean([part.local_ess for part in parts])),
            ess=np.sum([np.minimum(part.ess, len(part.samples)) for part in parts], axis=0),
            rhat=np.max([part.rhat for part in parts], axis=0),
            names=self.parameter_names,
        )

    def log_prob(self, theta: npt.ArrayLike, x_o: npt.ArrayLike) -> Array:
        """Log of the mean of the members' densities (n,)."""
        each = [member.log_prob(theta, x_o) for member in self.members]
        return np.logaddexp.reduce(each, axis=0) - np.log(len(each))

    def log_evidence(self, x_o: npt.ArrayLike, seed: int = 0) -> LogEvidence:
        """Log of the mean of the members' evidences; its error has their spread in it, so best with `share=0.5`."""
        if not all(has_evidence(member) for member in self.members):
            raise ConfigError(
                f"a member of this ensemble, {describe_method(self.members[0])}, has no evidence",
                code="bad-setting",
                fix="th.NLE, th.SyntheticLikelihood or th.ABC; or th.Corrected(posterior, likelihood)",
            )
        seeds = np.random.SeedSequence(seed).generate_state(len(self.members))
        each = [m.log_evidence(x_o, seed=int(s)) for m, s in zip(self.members, seeds, strict=True)]
        return average_members(each, self.share)

    def map(self, x_o: npt.ArrayLike, seed: int = 0) -> Array:
        """Find the highest point (p,) of the mixture, from draws and the members' own highest points."""
        peaks = [member.map(x_o, seed)[None] for member in self.members if hasattr(member, "map")]
        start = np.vstack([self.sample(200, x_o, seed), *peaks])
        first = self.members[0]
        box = first.box if hasattr(first, "box") else BoxTransform.of(first.prior)
        return maximise(lambda t: self.log_prob(t, x_o), start, box, rng=np.random.default_rng([seed, 2]))

    def save(self, path: str | Path) -> None:
        """Write all members to one file; `th.load_posterior(path)` reads it."""
        archive.write(path, *self.to_parts())

    def to_parts(self) -> tuple[Recipe, Arrays]:
        """Return the JSON recipe and the plain arrays that rebuild all members."""
        prior = getattr(self.members[0], "prior", None)
        values = {} if prior is None else prior_to_dict(prior)
        parts = [member.to_parts() for member in self.members]
        return archive.join_members(parts, kind="posterior", ensemble=True, share=self.share, prior=values)


def _draw(member: Any, n: int, x_o: npt.ArrayLike, seed: int) -> Sampled:
    if hasattr(member, "draw"):
        return member.draw(n, x_o, seed=seed)
    return Sampled.independent(member.sample(n, x_o, seed=seed))
