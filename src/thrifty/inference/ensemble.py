"""Ensembles: several fits of one method with different seeds, and the equal mixture of their posteriors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import ConfigError
from thrifty.inference import archive
from thrifty.inference.checks import check_draws, check_fit
from thrifty.inference.posterior_draws import Sampled, maximise
from thrifty.inference.transforms import BoxTransform
from thrifty.priors.prior_dict import prior_to_dict
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Prior


@dataclass(frozen=True)
class Ensemble:
    """Fit a method several times.

    Args:
        method: Settings with `fit(simulations, seed)`, such as `th.NPE(prior)`.
        members: How many fits.

    Example:
        >>> th.Ensemble(th.NPE(th.Normal(0.0, 1.0)), members=5).members
        5
    """

    method: Any
    members: int = 5

    def __post_init__(self) -> None:
        if not hasattr(self.method, "fit"):
            raise ConfigError(f"an ensemble needs a method with fit, got {self.method!r}", code="bad-setting")
        if not isinstance(self.members, int) or self.members < 1:
            raise ConfigError(f"members = {self.members!r}; a whole number of at least 1 is needed", code="bad-setting")
        if self.members > 1 and getattr(getattr(self.method, "training", None), "checkpoint", None):
            raise ConfigError(
                "members cannot share one checkpoint file", code="conflicting-settings", fix="leave checkpoint out"
            )

    def fit(self, simulations: Simulations, seed: int = 0) -> EnsemblePosterior:
        """Fit every member; member i uses a seed made from (seed, i)."""
        check_fit(simulations, seed)
        seeds = np.random.SeedSequence(seed).generate_state(self.members)
        return EnsemblePosterior(tuple(self.method.fit(simulations, seed=int(s)) for s in seeds))


@dataclass(frozen=True, eq=False)
class EnsemblePosterior:
    """The equal mixture of the members' posteriors.

    Members need `sample(n, x_o, seed=...)`; those with `draw` report its quality, those with `map` help the search.
    """

    members: tuple[Any, ...]

    @property
    def prior(self) -> Prior:
        """The prior."""
        return self.members[0].prior

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names."""
        return self.members[0].names

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
        )

    def log_prob(self, theta: npt.ArrayLike, x_o: npt.ArrayLike) -> Array:
        """Log of the mean of the members' densities (n,)."""
        each = [member.log_prob(theta, x_o) for member in self.members]
        return np.logaddexp.reduce(each, axis=0) - np.log(len(each))

    def map(self, x_o: npt.ArrayLike, seed: int = 0) -> Array:
        """Find the highest point (p,) of the mixture, from draws and the members' own highest points."""
        peaks = [member.map(x_o, seed)[None] for member in self.members if hasattr(member, "map")]
        start = np.vstack([self.sample(200, x_o, seed), *peaks])
        first = self.members[0]
        box = first.box if hasattr(first, "box") else BoxTransform.of(first.prior)
        return maximise(lambda t: self.log_prob(t, x_o), start, box, rng=np.random.default_rng([seed, 2]))

    def save(self, path: str | Path) -> None:
        """Write all members to one file; `th.load_posterior(path)` reads it."""
        prior = getattr(self.members[0], "prior", None)
        parts = [member.to_parts() for member in self.members]
        archive.write_members(path, parts, prior={} if prior is None else prior_to_dict(prior), ensemble=True)


def _draw(member: Any, n: int, x_o: npt.ArrayLike, seed: int) -> Sampled:
    if hasattr(member, "draw"):
        return member.draw(n, x_o, seed=seed)
    return Sampled.independent(member.sample(n, x_o, seed=seed))
