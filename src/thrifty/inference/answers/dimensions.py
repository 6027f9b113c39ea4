"""Posteriors in fewer dimensions, of any method: some parameters held at a value, or only some of them looked at.

    condition   p(free | fixed, x_o) ∝ p(free, fixed | x_o): the posterior's density, sampled by emcee (or listed)
    marginal    p(chosen | x_o): columns of the posterior's draws; its density is a kernel estimate

Where a posterior's own density is a kernel estimate (ABC), so is that of its conditionals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, Displayed
from thrifty.errors import ConfigError, DataError, warn
from thrifty.inference import archive
from thrifty.inference.answers.call_checks import check_sample_call, describe_method, describe_missing
from thrifty.inference.answers.evidence import LogEvidence
from thrifty.inference.answers.exports import export_arviz, export_pandas
from thrifty.inference.answers.kernel_density import estimate_log_density
from thrifty.inference.answers.pilot import LogDensity, Pilot, integrate_density, sample_density
from thrifty.inference.answers.sensitivity import Sensitivity, measure_sensitivity
from thrifty.inference.archive import Arrays, Recipe
from thrifty.inference.checks import check_draws
from thrifty.inference.sampling.mcmc import Chains
from thrifty.inference.transforms import BoxTransform
from thrifty.named import hash_observation
from thrifty.plots.plotted_posterior import PlottedPosterior
from thrifty.priors.families import as_parameter_names
from thrifty.priors.prior_dict import prior_to_dict
from thrifty.types import Array, Levels, as_rows, find_discrete, levels_of

if TYPE_CHECKING:  # pragma: no cover
    import arviz
    import pandas

PILOT_DRAWS = 1_000  # of the whole posterior: they say where its parameters lie, to begin there
OUTER_SHARE = 0.005  # of the runs on each side: farther out a density over unbounded coordinates rests on single runs
INNER_STEP = 0.01  # of the draws' range: the outermost draw is such a single one too
MAX_GAP = 0.01  # of the runs' range, from the outermost run to a held value: more is said
DENSITY_DRAWS = 4_000  # behind the kernel density of a marginal


class Divisible:
    """What every posterior can be asked: conditionals, marginals and sensitivity."""

    names: tuple[str, ...]

    def condition(self, /, *unnamed: Any, **values: float | str) -> ConditionalPosterior:
        """Hold parameters at values: `posterior.condition(beta=0.3)` is the posterior of the others given beta = 0.3.

        A category is held at its code or its label: `posterior.condition(model="lognormal")`.

        Raises:
            DataError: bad-name, a parameter that the posterior does not have, or a value without a name.
            ConfigError: bad-setting, a value outside the bounds, or no parameter left.
        """
        if unnamed:
            known = self.parameter_names
            raise DataError(
                f"{', '.join(map(repr, unnamed))} has no name; the parameters are {', '.join(known)}",
                code="bad-name",
                fix=f"posterior.condition({known[0]}=...)",
            )
        return ConditionalPosterior(self, dict(values))

    def marginal(self, *names: str) -> MarginalPosterior:
        """Look at some parameters only: `posterior.marginal("beta", "gamma")`, in this order.

        Raises:
            DataError: bad-name, a parameter that the posterior does not have, or one named twice.
        """
        if not all(isinstance(name, str) for name in names):
            known = self.parameter_names
            raise DataError(
                f"{', '.join(map(repr, names))}: parameters are asked for by their names, one after the other",
                code="bad-name",
                fix="posterior.marginal(" + ", ".join(f'"{name}"' for name in known[:2]) + ")",
            )
        return MarginalPosterior(self, names)

    def sensitivity(self, x_o: npt.ArrayLike, n: int = 1_000, seed: int = 0) -> Sensitivity:
        """Find the directions of the parameters that the data decide: the active subspace of the log posterior.

        Args:
            x_o: The observation.
            n: Posterior draws at which gradients are taken.
            seed: Seed of the draws.
        """
        check_draws(n, seed)
        return measure_sensitivity(self, x_o, n, seed)

    def to_arviz(self, x_o: Any = None, *, n: int = 2_000, seed: int = 0) -> arviz.InferenceData:
        """Make n draws at x_o (`posterior`) and x_o itself (`observed_data`) for ArviZ; names travel along."""
        return export_arviz(self, x_o, n, seed)

    def to_pandas(self, x_o: Any = None, *, n: int = 2_000, seed: int = 0) -> pandas.DataFrame:
        """Make a DataFrame of n equally weighted draws at x_o, one column per parameter."""
        return export_pandas(self, x_o, n, seed)

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "sample" in cls.__dict__:
            cls.sample = check_sample_call(cls.__dict__["sample"])  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(describe_missing(self, name))

    def log_evidence(self, x_o: npt.ArrayLike, seed: int = 0) -> LogEvidence:
        """Refuse: this posterior has no density of x. Methods that have one answer (`th.NLE`, `th.ABC`, ...).

        Raises:
            ConfigError: bad-setting.
        """
        raise ConfigError(
            f"{describe_method(self)} has no evidence",
            code="bad-setting",
            why="it knows the posterior, but not how likely the data are",
            fix="th.Corrected(posterior, th.NLE(prior).fit(simulations)), or th.NLE, th.ABC in its place",
        )

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        """Ends (p,) of the parameters' support."""
        return self.prior.bounds  # type: ignore[attr-defined]

    @property
    def parameter_levels(self) -> Levels:
        """What values each parameter (p,) takes."""
        return levels_of(self.prior)  # type: ignore[attr-defined]

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names (p,) of the parameters, made up where there are none."""
        return as_parameter_names(self.names, len(self.parameter_bounds[0]))

    def bind_density(self, x_o: npt.ArrayLike) -> LogDensity:
        """Return theta (k, p) -> log density (k,) at x_o up to a constant; what all calls share is done once."""
        return lambda theta: self.log_prob(theta, x_o)  # type: ignore[attr-defined]

    def list_usual(self) -> Array:
        """Return parameters (k, p) such as those of the runs: these themselves, or draws of the prior."""
        if (runs := getattr(self, "theta", None)) is not None:
            return runs
        return self.prior.sample(PILOT_DRAWS, np.random.default_rng(0))  # type: ignore[attr-defined]


def has_evidence(posterior: Any) -> bool:
    """Tell whether a posterior can say how likely the data are."""
    refusal = Divisible.log_evidence
    return getattr(type(posterior), "log_evidence", refusal) is not refusal


def find_columns(names: Sequence[str], known: tuple[str, ...]) -> list[int]:
    """Find the columns of named parameters.

    Raises:
        DataError: bad-name.

    Example:
        >>> find_columns(["b"], ("a", "b"))
        [1]
    """
    unknown = [name for name in names if name not in known]
    if unknown or len(set(names)) < len(names) or not names:
        asked = ", ".join(map(repr, names)) or "no name"
        raise DataError(f"{asked}: the parameters are {', '.join(known)}, each once", code="bad-name")
    return [known.index(name) for name in names]


def _read_value(name: str, value: float | str, level: tuple[str, ...] | None) -> float:
    """Read the value at which a parameter is held; a category also by its label."""
    if level and isinstance(value, str) and value in level:
        return float(level.index(value))
    number = float(value) if hasattr(value, "__float__") and np.ndim(value) == 0 else float("nan")
    if np.isnan(number) or (level is not None and number != round(number)):
        allowed = f"one of {', '.join(level)}" if level else "a whole number" if level == () else "a number"
        raise ConfigError(f"{name} = {value!r}, expected {allowed}", code="bad-setting")
    return number


@dataclass(frozen=True, eq=False, repr=False)
class ConditionalPosterior(PlottedPosterior, Divisible):
    """The posterior of some parameters, given values of the others; made by `posterior.condition`.

    Attributes:
        posterior: The whole posterior.
        fixed: Name to value of the parameters that are held.
    """

    posterior: Any
    fixed: dict[str, Any]
    _levels: dict[bytes, float] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        known, (low, high) = self.posterior.parameter_names, self.posterior.parameter_bounds
        fixed = {}
        for name, i in zip(self.fixed, find_columns(list(self.fixed), known), strict=True):
            value = _read_value(name, self.fixed[name], self.posterior.parameter_levels[i])
            if not low[i] <= value <= high[i]:
                raise ConfigError(
                    f"{name} = {self.fixed[name]} lies outside its bounds, {low[i]:g} to {high[i]:g}",
                    code="bad-setting",
                )
            fixed[name] = value
        if len(self.fixed) == len(known):
            raise ConfigError("all parameters are held", code="bad-setting", fix="leave one free at least")
        object.__setattr__(self, "fixed", fixed)

    def __str__(self) -> str:
        return self._card().title

    def _card(self) -> Card:
        known, levels = list(self.posterior.parameter_names), self.posterior.parameter_levels
        held = [_write_value(name, value, levels[known.index(name)]) for name, value in self.fixed.items()]
        return _describe_part(self.posterior, f"posterior of {', '.join(self.names)} given {', '.join(held)}")

    @property
    def names(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Names of the free parameters."""
        return tuple(name for name in self.posterior.parameter_names if name not in self.fixed)

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        """Ends of the free parameters' support."""
        low, high = self.posterior.parameter_bounds
        return low[self._free], high[self._free]

    @property
    def parameter_levels(self) -> Levels:
        """What values the free parameters take."""
        return tuple(self.posterior.parameter_levels[i] for i in self._free)

    @property
    def _free(self) -> list[int]:
        return find_columns(self.names, self.posterior.parameter_names)

    def draw(self, n: int, x_o: npt.ArrayLike, seed: int = 0) -> Chains:
        """Draw the free parameters by emcee, with ESS and R-hat; warns when they are poor."""
        check_draws(n, seed)
        rng = np.random.default_rng(seed)
        chains = sample_density(self.bind_density(x_o), self._find_pilot(x_o, seed), n, rng=rng)
        return replace(chains, names=self.names)

    def sample(self, n: int, x_o: npt.ArrayLike, seed: int = 0) -> Array:
        """Draw (n, p) of the free parameters at x_o."""
        return self.draw(n, x_o, seed).samples

    def log_prob(self, theta: npt.ArrayLike, x_o: npt.ArrayLike) -> Array:
        """Log density (k,) of the free parameters (k, p), normalised numerically."""
        key, density = hash_observation(x_o), self.bind_density(x_o)
        if key not in self._levels:
            pilot = self._find_pilot(x_o, 0)
            self._levels[key] = integrate_density(density, pilot, rng=np.random.default_rng(0))
        return density(as_rows(theta, dim=len(self.names), names=self.names)) - self._levels[key]

    def bind_density(self, x_o: npt.ArrayLike) -> LogDensity:
        """Return free parameters (k, p) -> log joint density (k,) with the fixed ones at their values.

        A density learned without bounds knows nothing about the last bit before a bound, which lies infinitely far
        out: a value beyond 99 % of the runs and beyond the posterior's draws is moved to where these begin.
        """
        whole, free, known = self.posterior.bind_density(x_o), self._free, self.posterior.parameter_names
        held, values = find_columns(list(self.fixed), known), self._move_inside(x_o)

        def density(theta: Array) -> Array:
            rows = np.empty((len(theta), len(known)))
            rows[:, held], rows[:, free] = values, theta
            return whole(rows)

        return density

    def list_usual(self) -> Array:
        """Return free parameters such as those of the runs."""
        return self.posterior.list_usual()[:, self._free]

    def _move_inside(self, x_o: npt.ArrayLike) -> Array:
        """Return the held values, those in the gap before a bound moved to where runs or draws are."""
        held = find_columns(list(self.fixed), self.posterior.parameter_names)
        low, high = (ends[held] for ends in self.posterior.parameter_bounds)
        values, usual = np.array(list(self.fixed.values())), self.posterior.list_usual()[:, held]
        discrete = find_discrete(self.posterior.parameter_levels)[held]
        first, last = np.quantile(usual, [OUTER_SHARE, 1 - OUTER_SHARE], axis=0)
        first = np.where(np.isfinite(low) & ~discrete, first, -np.inf)
        last = np.where(np.isfinite(high) & ~discrete, last, np.inf)
        if ((values >= first) & (values <= last)).all():
            return values
        draws = self.posterior.sample(PILOT_DRAWS, x_o, seed=0)[:, held]
        edge = INNER_STEP * np.ptp(draws, axis=0)
        moved = np.clip(values, np.minimum(first, draws.min(0) + edge), np.maximum(last, draws.max(0) - edge))
        beyond = np.maximum(usual.min(0) - values, values - usual.max(0)) > MAX_GAP * np.ptp(usual, axis=0)
        for name, given, used, is_far in zip(self.fixed, values, moved, beyond, strict=True):
            if used != given and is_far:
                warn(f"[too-few-runs] {name} = {given:g} is held at {used:g}: nearer to its bound there are no runs")
        return moved

    def _find_pilot(self, x_o: npt.ArrayLike, seed: int) -> Pilot:
        draws = self.posterior.sample(PILOT_DRAWS, x_o, seed=seed)[:, self._free]
        return Pilot.of(draws, BoxTransform(*self.parameter_bounds, self.parameter_levels))

    def save(self, path: str | Path) -> None:
        """Write the whole posterior and the values to one file; `th.load_posterior(path)` reads it."""
        archive.write(path, *self.to_parts())

    def to_parts(self) -> tuple[Recipe, Arrays]:
        """Return the JSON recipe and the plain arrays that rebuild the posterior."""
        return _join(self.posterior, kind="conditional", fixed=self.fixed)


@dataclass(frozen=True, eq=False, repr=False)
class MarginalPosterior(PlottedPosterior, Divisible):
    """The posterior of some parameters, the others integrated out; made by `posterior.marginal`.

    Attributes:
        posterior: The whole posterior.
        names: The parameters that are kept, in this order.
    """

    posterior: Any
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        find_columns(self.names, self.posterior.parameter_names)
        object.__setattr__(self, "names", tuple(self.names))

    def __str__(self) -> str:
        return self._card().title

    def _card(self) -> Card:
        return _describe_part(self.posterior, f"marginal posterior of {', '.join(self.names)}")

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        """Ends of the kept parameters' support."""
        low, high = self.posterior.parameter_bounds
        return low[self._columns], high[self._columns]

    @property
    def parameter_levels(self) -> Levels:
        """What values the kept parameters take."""
        return tuple(self.posterior.parameter_levels[i] for i in self._columns)

    @property
    def _columns(self) -> list[int]:
        return find_columns(self.names, self.posterior.parameter_names)

    def sample(self, n: int, x_o: npt.ArrayLike, seed: int = 0) -> Array:
        """Draw (n, p) of the kept parameters: columns of the whole posterior's draws."""
        return self.posterior.sample(n, x_o, seed=seed)[:, self._columns]

    def list_usual(self) -> Array:
        """Return kept parameters such as those of the runs."""
        return self.posterior.list_usual()[:, self._columns]

    def log_prob(self, theta: npt.ArrayLike, x_o: npt.ArrayLike) -> Array:
        """Log kernel density (k,) of 4,000 draws at theta (k, p), with Silverman's width."""
        return self.bind_density(x_o)(as_rows(theta, dim=len(self.names), names=self.names))

    def bind_density(self, x_o: npt.ArrayLike) -> LogDensity:
        """Return theta (k, p) -> log kernel density (k,); the draws are made once."""
        draws, box = (
            self.sample(DENSITY_DRAWS, x_o, seed=0),
            BoxTransform(*self.parameter_bounds, self.parameter_levels),
        )
        weights = np.zeros(len(draws))
        effective = float(len(np.unique(draws, axis=0)))  # resampled draws repeat
        return lambda theta: estimate_log_density(theta, draws, weights, box, effective)

    def save(self, path: str | Path) -> None:
        """Write the whole posterior and the names to one file; `th.load_posterior(path)` reads it."""
        archive.write(path, *self.to_parts())

    def to_parts(self) -> tuple[Recipe, Arrays]:
        """Return the JSON recipe and the plain arrays that rebuild the posterior."""
        return _join(self.posterior, kind="marginal", names=list(self.names))


def _write_value(name: str, value: float, level: tuple[str, ...] | None) -> str:
    return f"{name} = {level[int(value)]}" if level else f"{name} = {value:g}"


def _describe_part(posterior: Any, title: str) -> Card:
    """Describe a posterior in fewer dimensions: a line, and in a notebook the whole posterior below it."""
    whole = posterior._card() if isinstance(posterior, Displayed) else Card(type(posterior).__name__)
    return Card(f"{title}, of the {whole.title}", whole.facts, notes=whole.notes)


def _join(posterior: Any, **values: Any) -> tuple[Recipe, Arrays]:
    prior = getattr(posterior, "prior", None)
    return archive.join_members([posterior.to_parts()], prior={} if prior is None else prior_to_dict(prior), **values)
