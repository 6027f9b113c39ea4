"""Rejection ABC on a table of weighted simulations, reusable for any observation (the paper's Ca-ABC).

    p_ABC(theta | x_o) ∝ p(theta) · P(d(x, x_o) <= epsilon | theta)  ≈  sum over accepted i of  w_i delta(theta_i)

Accepted parameters keep the weight that restores the prior, so any proposal with full support gives the same
posterior (paper, section 3.2). With m realisations per parameter each one can be accepted: theta_i weighs
w_i · hits_i / m. Distances between data sets compare all m at once. Which runs are accepted is up to
`tolerance`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from thrifty.display import Card, DisplayedSettings, count_things
from thrifty.errors import ConfigError, DataError, warn
from thrifty.inference import archive
from thrifty.inference.adjustment import (
    ADJUSTMENTS,
    Adjust,
    adjust_parameters,
    epanechnikov,
    has_enough_runs,
    limit_extrapolation,
)
from thrifty.inference.answers.acceptance import convert_to_density, measure_acceptance
from thrifty.inference.answers.dimensions import Divisible
from thrifty.inference.answers.evidence import LogEvidence
from thrifty.inference.archive import Arrays, Recipe, Supplied
from thrifty.inference.before_fit import BeforeFit
from thrifty.inference.checks import Reach, check_weights_prior, read_observation, select_valid
from thrifty.inference.sample_distances import distance_from_dict
from thrifty.inference.tolerance import Tolerance, check_table_size, choose_accepted
from thrifty.inference.transforms import BoxTransform
from thrifty.inference.vector_distances import Distance, as_distance
from thrifty.inference.weighted_posterior import WeightedPosterior
from thrifty.named import order_observation
from thrifty.plots.plotted_posterior import PlottedPosterior
from thrifty.priors import as_prior
from thrifty.tables.simulations import Simulations
from thrifty.types import Array, Levels, Prior, find_discrete, freeze, levels_of
from thrifty.weights import ess

REACH_PAIRS = 10_000  # pairs behind the spacing of the simulations, of which a thousand are kept
MIN_ACCEPTED_ESS = 30  # effective runs; with fewer, the posterior sd is off by 13 % and more (1 / sqrt(2 · 30))


@dataclass(frozen=True, repr=False)
class ABC(BeforeFit, DisplayedSettings):
    """Settings of rejection ABC; `fit` binds them to a table of simulations.

    Args:
        prior: Gives the bounds that regression adjustment and densities respect; free without it.
        epsilon: Accept distances up to this.
        quantile: Accept this share of *prior mass*.
        n_accept: Accept this many nearest runs. With none of the three: as many as a posterior needs, or
            1 % of prior mass where that is more.
        distance: `Euclidean()` by default; `Manhattan()` (robust), `Mahalanobis()`, `Energy()`, `MMD()`,
            `Wasserstein()` or a callable.
        adjust: "none", "linear" (weighted regression), "local" (with an Epanechnikov kernel), or "auto" (local where
            the accepted runs are enough for it). Left out: "auto" where the tolerance is left out too, else "none".

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.normal(size=(20_000, 1))
        >>> sims = th.Simulations.from_arrays(theta=theta, x=theta + rng.normal(size=theta.shape))
        >>> post = ABC(th.Normal(0, 1), quantile=0.05).fit(sims)
        >>> bool(abs(post.accepted([1.0]).mean[0] - 0.5) < 0.1)
        True
    """

    prior: Prior | None = None
    epsilon: float | None = None
    quantile: float | None = None
    n_accept: int | None = None
    distance: Distance | Callable[[Array, Array], npt.ArrayLike] | None = None
    adjust: Adjust = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.prior is not None:
            object.__setattr__(self, "prior", as_prior(self.prior))
        distance = as_distance(self.distance)
        discrete = self.prior is not None and bool(find_discrete(levels_of(self.prior)).any())
        if self.adjust is None:
            automatic = self.tolerance.is_default and not distance.datasets and not discrete
            object.__setattr__(self, "adjust", "auto" if automatic else "none")
        if self.adjust not in ADJUSTMENTS:
            raise ConfigError(
                f"adjust must be one of {', '.join(ADJUSTMENTS)}; got {self.adjust!r}", code="bad-setting"
            )
        if self.adjust != "none" and distance.datasets:
            raise ConfigError(
                f"adjust={self.adjust!r} regresses on statistics; {type(distance).__name__} compares raw data sets",
                code="conflicting-settings",
                fix='summarise the data, or adjust="none"',
            )
        if self.adjust != "none" and discrete:
            raise ConfigError(
                f"adjust={self.adjust!r} moves parameters along a line; whole numbers and categories have none",
                code="conflicting-settings",
                fix='adjust="none", or th.NPE, which learns them',
            )
        object.__setattr__(self, "distance", distance)
        _ = self.tolerance  # raises here where the rules conflict

    @property
    def tolerance(self) -> Tolerance:
        """The rule that sets epsilon."""
        return Tolerance(self.epsilon, self.quantile, self.n_accept)

    def fit(self, simulations: Simulations, *, seed: int = 0) -> ABCPosterior:
        """Freeze the scale of the distance; nothing is copied and nothing is random, so `seed` has no effect.

        Raises:
            DataError: wrong-prior, the weights belong to another prior.
            InferenceError: too-few-runs, the table is too small for any posterior by the default tolerance.
        """
        valid = select_valid(simulations, self.prior)
        check_weights_prior(simulations, self.prior, "ABC")
        if self.tolerance.is_default:
            check_table_size(valid)
        distance = as_distance(self.distance)
        x, log_weights = _make_table(valid, distance)
        low, high = (np.full(valid.dim, e) for e in (-np.inf, np.inf)) if self.prior is None else self.prior.bounds
        levels = () if self.prior is None else levels_of(self.prior)
        box, names = BoxTransform(low, high, levels), valid.names or (() if self.prior is None else self.prior.names)
        distance = distance.fit(x, log_weights)
        event = valid.x.shape[1:] if valid.m == 1 else valid.x.shape[2:]
        return ABCPosterior(
            valid.theta,
            x,
            valid.log_weights,
            distance,
            self.tolerance,
            self.adjust,
            box,
            names,
            event,
            valid.x_names,
            simulations.failed_mass,
            self.prior,
        )


def _make_table(sims: Simulations, distance: Distance) -> tuple[Array, Array]:
    """Return the rows to compare with x_o and their weights: pairs of statistics, or data sets. Views, not copies."""
    if distance.datasets:
        return sims.x, sims.log_weights
    if sims.m == 1:
        return sims.x.reshape(len(sims), -1), sims.log_weights
    return sims.x.reshape(len(sims) * sims.m, -1), np.repeat(sims.log_weights, sims.m)


@dataclass(frozen=True, repr=False)
class ABCPosterior(PlottedPosterior, Divisible):
    """ABC for any observation, from one table.

    Attributes:
        theta: Parameters (n, p).
        x: Statistics, one row for each of the n·m pairs, or data sets (n, m, *event).
        log_weights: log prior/proposal (n,).
        distance: The distance with its scale frozen.
        tolerance: What is near enough.
        event: Shape of one output of the simulator.
        x_names: Names of its numbers, or empty.
        failed_mass: Share of prior mass whose runs failed: the posterior is conditional on finishing.
        prior: The prior, where one was given: figures show it.
    """

    theta: Array
    x: Array
    log_weights: Array
    distance: Distance
    tolerance: Tolerance
    adjust: Adjust
    box: BoxTransform
    names: tuple[str, ...] = ()
    event: tuple[int, ...] = ()
    x_names: tuple[str, ...] = ()
    failed_mass: float = 0.0
    prior: Prior | None = None

    def _card(self) -> Card:
        rule = asdict(self.tolerance)
        accepts = [f"{name} = {value:g}" for name, value in rule.items() if value is not None]
        size = "data sets" if self.distance.datasets else count_things(self.x.shape[1], "number")
        return Card(
            f"ABC posterior of {', '.join(self.names) or count_things(self.theta.shape[1], 'parameter')}",
            [
                ("rests on", f"{count_things(len(self.theta), 'run')} that count as {ess(self.log_weights):,.0f}"),
                ("observation", f"any of {size}"),
                ("distance", type(self.distance).__name__),
                ("accepts", ", ".join(accepts) or self._describe_default()),
                ("adjustment", self.adjust),
            ],
        )

    def _describe_default(self) -> str:
        """Say what is accepted where no rule was given."""
        word = "runs" if self.m == 1 else "outputs"
        return f"the nearest {word} that count as {self._least_accepted:,.0f}, or 1% of prior mass where that is more"

    @property
    def m(self) -> int:
        """Pairs per parameter."""
        return len(self.x) // len(self.theta)

    def leave_out(self, rows: npt.NDArray[np.bool_]) -> ABCPosterior:
        """Return the posterior of all runs but these (n,), so that these can judge it; the scale stays as it is."""
        kept, event = ~rows, self.x.shape[1:]
        x = self.x.reshape(len(self.theta), -1, *event)[kept].reshape(-1, *event)
        return replace(self, theta=self.theta[kept], x=x, log_weights=self.log_weights[kept])

    @cached_property
    def _least_accepted(self) -> float:
        """Effective pairs that the default tolerance accepts at least."""
        size = ess(self.log_weights)
        if self.adjust == "none":
            return self.m * choose_accepted(size, None)
        statistics = self.x.shape[1]
        wanted = choose_accepted(size, statistics)
        regress = self.adjust != "auto" or has_enough_runs(wanted, statistics)
        return self.m * (wanted if regress else choose_accepted(size, None))

    @cached_property
    def _reach(self) -> Reach:
        """Where the simulations lie: the range of all of them, distances of some."""
        rows = np.arange(len(self.x))
        if len(rows) > REACH_PAIRS:
            rows = np.random.default_rng(0).choice(len(rows), REACH_PAIRS, replace=False)
        reach = Reach.of(self.x[rows], self.log_weights[rows // self.m], self.x_names)
        return replace(reach, n=len(self.x), low=freeze(self.x.min(0)), high=freeze(self.x.max(0)))

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        """Ends (p,) of the parameters' support."""
        return self.box.low, self.box.high

    @property
    def parameter_levels(self) -> Levels:
        """What values each parameter takes."""
        return self.box.levels or (None,) * self.box.dim

    def bind_density(self, x_o: npt.ArrayLike) -> Callable[[Array], Array]:
        """Return theta (k, p) -> log kernel density (k,) of the accepted draws, which are found once."""
        return self.accepted(x_o).log_prob

    def distances(self, x_o: npt.ArrayLike) -> Array:
        """Compute the distance of every pair (n·m,) from the observation."""
        return self.distance(self.x, self._read_observation(x_o))

    def accepted(self, x_o: npt.ArrayLike) -> WeightedPosterior:
        """Return the weighted posterior draws at one observation.

        Raises:
            InferenceError: too-few-runs, no run lies within epsilon (names the nearest distance and an epsilon that
                accepts 100), or too few for the adjustment.
        """
        observation = self._read_observation(x_o)
        distance = self.distance(self.x, observation)
        log_weights = self.log_weights if self.m == 1 else np.repeat(self.log_weights, self.m)
        epsilon = self.tolerance.choose_epsilon(distance, log_weights, self._least_accepted)
        keep = np.flatnonzero(distance <= epsilon)
        kept_weights, run = log_weights[keep], keep // self.m
        adjust, widen = self.adjust, False
        if adjust == "auto":
            widen = has_enough_runs(ess(kept_weights) / self.m, self.x.shape[1])
            adjust = "local" if widen else "none"
        if adjust == "local":
            kept_weights = kept_weights + epanechnikov(distance[keep], epsilon)
            inside = np.isfinite(kept_weights)
            keep, kept_weights, run = keep[inside], kept_weights[inside], run[inside]
        theta, limited = self.theta[run], False
        if adjust != "none":
            offset, limited = limit_extrapolation(self.x[keep] - observation, kept_weights)
            theta = adjust_parameters(theta, offset, kept_weights, self.box, widen=widen)
        elif self.m > 1:  # hits of one parameter are one draw with their summed weight
            run, hits = np.unique(run, return_counts=True)
            theta, kept_weights = self.theta[run], self.log_weights[run] + np.log(hits)
        result = WeightedPosterior(
            theta,
            kept_weights,
            observation,
            self.box.low,
            self.box.high,
            self.names,
            epsilon,
            run,
            self.x_names,
            self.box.levels,
            self.prior,
        )
        self._warn_if_poor(result, limited=limited)
        return result

    def sample(self, n: int, x_o: npt.ArrayLike, *, seed: int = 0) -> Array:
        """Draw (n, p) from the posterior at x_o, equally weighted."""
        return self.accepted(x_o).sample(n, seed=seed)

    def log_prob(self, theta: npt.ArrayLike, x_o: npt.ArrayLike) -> Array:
        """Log kernel density (k,) of the accepted draws at theta (k, p)."""
        return self.accepted(x_o).log_prob(theta)

    def log_evidence(self, x_o: npt.ArrayLike, seed: int = 0) -> LogEvidence:
        """Log of the mean density of x within epsilon of x_o, by weighted acceptance; nothing is random.

        It tends to log p(x_o) as epsilon falls. Distances without a volume give the log of the acceptance alone.
        """
        distance = self.distances(x_o)
        log_weights = np.repeat(self.log_weights, self.m)
        epsilon = self.tolerance.choose_epsilon(distance, log_weights, self._least_accepted)
        return convert_to_density(measure_acceptance(distance, epsilon, self.log_weights), self.distance, epsilon)

    def _read_observation(self, x_o: npt.ArrayLike) -> Array:
        if not self.distance.datasets:
            return read_observation(x_o, self.event or (self.x.shape[1],), self.x_names).ravel()
        values = np.asarray(order_observation(x_o, self.event, self.x_names), dtype=np.float64)
        if values.ndim < self.x.ndim - 1 or values.shape[1:] != self.x.shape[2:] or not np.isfinite(values).all():
            raise DataError(
                f"observed data set has shape {values.shape}{'' if np.isfinite(values).all() else ' and NaN in it'},"
                f" simulated ones have {self.x.shape[1:]}",
                code="bad-observation",
                fix="only the first number, of draws in the set, may differ",
            )
        return values

    def _warn_if_poor(self, result: WeightedPosterior, *, limited: bool) -> None:
        beyond = not self.distance.datasets and ((result.x_o < self.x.min(0)) | (result.x_o > self.x.max(0))).any()
        if beyond and (message := self._reach.describe_far(result.x_o)):
            more = ". Regression adjusts no further than the accepted runs reach" if limited else ""
            warn(message + more, stacklevel=4)
        if result.ess < MIN_ACCEPTED_ESS:
            warn(
                f"[few-effective-runs] only {result.ess:.0f} effective runs were accepted at"
                f" epsilon = {result.epsilon:.4g}; add runs, or accept more",
                stacklevel=4,
            )

    def save(self, path: str | Path) -> None:
        """Write plain arrays and a JSON recipe; `th.load_posterior` reads them back exactly."""
        archive.write(path, *self.to_parts())

    def to_parts(self) -> tuple[Recipe, Arrays]:
        """Return the JSON recipe and the plain arrays that rebuild the posterior."""
        recipe = {
            "kind": "abc",
            "names": list(self.names),
            "event": list(self.event),
            "x_names": list(self.x_names),
            "failed_mass": self.failed_mass,
            "adjust": self.adjust,
            "tolerance": asdict(self.tolerance),
            "distance": self.distance.to_dict(),  # type: ignore[attr-defined]
            **archive.describe_levels(self.box.levels),
            **archive.describe_prior(self.prior),
        }
        arrays = {"theta": self.theta, "x": self.x, "log_weights": self.log_weights}
        return recipe, arrays | {"low": self.box.low, "high": self.box.high}

    @classmethod
    def from_parts(cls, recipe: Recipe, arrays: Arrays, supplied: Supplied) -> ABCPosterior:
        """Rebuild the posterior from what `to_parts` returned."""
        theta, x, log_weights = (freeze(arrays[label]) for label in ("theta", "x", "log_weights"))
        if theta.ndim != 2 or log_weights.shape != (len(theta),) or len(x) % max(len(theta), 1):
            raise DataError(
                f"tables of {theta.shape}, {x.shape}, {log_weights.shape} do not fit together", code="bad-file"
            )
        distance, tolerance = distance_from_dict(recipe["distance"]), Tolerance(**recipe["tolerance"])
        levels = archive.read_levels(recipe, theta.shape[1])
        box, names = BoxTransform(arrays["low"], arrays["high"], levels), tuple(recipe["names"])
        event, x_names = tuple(int(e) for e in recipe.get("event", ())), recipe.get("x_names", ())
        if not distance.datasets and event and int(np.prod(event)) != x.shape[1]:
            raise DataError(f"outputs of shape {event} have not {x.shape[1]} numbers", code="bad-file")
        about = (names, event, tuple(map(str, x_names)), float(recipe.get("failed_mass", 0.0)))
        prior = archive.read_prior(recipe, supplied)
        return cls(theta, x, log_weights, distance, tolerance, recipe["adjust"], box, *about, prior)
