"""Read what people pass to a figure as a weighted sample: arrays, tables of runs, posteriors, studies.

array, list, DataFrame                points (n, p)
Simulations, Draws                    valid parameters with their weights
WeightedPosterior, posterior.draw()   draws, with weights where they have some
Study                                 its draws
any other posterior                   draws from `posterior.sample(n, x_o, seed=...)`: needs x_o
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import DataError
from thrifty.metrics.samples import Sample
from thrifty.plots import style
from thrifty.priors.families import Named
from thrifty.types import Array, Levels, Prior, levels_of

DRAWS = 4000  # of a posterior: the 90 % region is then right to a few percent
TAKES = "an array (n, p), Simulations, a posterior with x_o, or a Study"


@dataclass(frozen=True)
class Drawn:
    """Points with weights, and what is known about their parameters.

    Attributes:
        sample: Points (n, p) and their weights.
        names: Of the parameters, or empty.
        prior: The prior that a posterior holds, or None.
        bounds: Lower and upper ends (p,) of each parameter, infinite where none is known.
        levels: What values each parameter takes; empty where all are numbers, or nothing is known.
    """

    sample: Sample
    names: tuple[str, ...] = ()
    prior: Prior | None = None
    bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None = None
    levels: Levels = ()


def read_drawn(
    given: Any, x_o: npt.ArrayLike | None = None, *, log_weights: npt.ArrayLike | None = None, seed: int = 0, name: str
) -> Drawn:
    """Read what was passed; `x_o` is used by posteriors that answer for any observation.

    Raises:
        DataError: bad-array, it is nothing that can be drawn; bad-observation, a posterior came without x_o.
    """
    names, own = tuple(getattr(given, "names", ())), _find_prior(given)
    if isinstance(given, np.ndarray | list | tuple) or hasattr(given, "iloc"):
        columns = tuple(str(c) for c in getattr(given, "columns", ()))
        return Drawn(style.as_sample(_as_numbers(given, name), log_weights, name), columns)
    points, weights = _find_points(given)
    if points is None and callable(getattr(given, "sample", None)) and hasattr(given, "log_prob"):
        points = _sample_posterior(given, x_o, seed, name)
    if points is None:
        points = _as_numbers(given, name)
    sample = style.as_sample(points, log_weights if log_weights is not None else weights, name)
    return Drawn(sample, names, own, _find_bounds(given, own), _find_levels(given, own))


def pick_check(given: Any, name: str, needed: str, maker: str) -> Any:
    """Return the result of a check: as it was passed, or from a diagnosis; `needed` is an attribute that it has.

    Raises:
        DataError: bad-array, it is something else, or the diagnosis has no such check.
    """
    if hasattr(given, "checks"):  # a diagnosis
        given = next((check for check in given.checks if check.name == name), None)
    if not hasattr(given, needed):
        what = "the diagnosis has none" if given is None else f"{type(given).__name__} is none"
        raise DataError(
            f"a result of th.diagnostics.{maker} was expected; {what}",
            code="bad-array",
            fix=f"pass th.diagnostics.{maker}(...), or th.diagnose(...) in which it was made",
        )
    return given


def _find_points(given: Any) -> tuple[Any, Any]:
    """Return points and log weights of an object that holds them, or (None, None)."""
    theta, weights = getattr(given, "theta", None), getattr(given, "log_weights", None)
    if hasattr(given, "samples"):  # a study, or draws with their quality
        return given.samples, None
    if hasattr(given, "status"):  # simulations: failed runs are left out
        return theta[given.ok], weights[given.ok]  # type: ignore[index]
    at_one_observation = hasattr(given, "mean_se")  # a weighted posterior: drawn with its weights, nothing resampled
    if theta is not None and (at_one_observation or not hasattr(given, "log_prob")):
        return theta, weights
    return None, None


def _sample_posterior(posterior: Any, x_o: npt.ArrayLike | None, seed: int, name: str) -> Any:
    if x_o is None:
        raise DataError(
            f"{name} is a posterior for any observation, and x_o is missing",
            code="bad-observation",
            fix="posterior.plot(x_o), or th.plots.pairs(posterior, x_o)",
        )
    return posterior.sample(DRAWS, x_o, seed=seed)


def _as_numbers(given: Any, name: str) -> npt.NDArray[np.float64]:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"{name} is {type(given).__name__} {given!r:.40}, which cannot be drawn",
            code="bad-array",
            fix=f"pass {TAKES}",
        ) from None


def _find_prior(given: Any) -> Prior | None:
    """Return the prior that a posterior holds, the posterior or campaign of a study, or the proposal of a table."""
    for holder in (given, *(getattr(given, label, None) for label in ("posterior", "campaign", "proposal"))):
        prior = getattr(holder, "prior", None)
        if prior is not None and hasattr(prior, "sample"):
            names = tuple(getattr(given, "names", ()))
            is_part = 0 < len(names) < prior.dim and set(names) <= set(prior.names)
            return _cut_prior(given, prior, names) if is_part else prior
    return None


def _cut_prior(given: Any, prior: Prior, names: tuple[str, ...]) -> Prior | None:
    """Return the prior of some parameters; None for a conditional, whose prior would be conditional too."""
    return None if hasattr(given, "fixed") else PriorPart(prior, names)


@dataclass(frozen=True, repr=False)
class PriorPart(Named):
    """The prior of some of its parameters: what a figure of a marginal posterior shows."""

    whole: Prior
    names: tuple[str, ...]

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Ends (p,) of each."""
        low, high = self.whole.bounds
        return np.asarray(low)[self._columns], np.asarray(high)[self._columns]

    @property
    def levels(self) -> Levels:
        """What values each takes."""
        return tuple(levels_of(self.whole)[i] for i in self._columns)

    @property
    def _columns(self) -> list[int]:
        return [self.whole.names.index(name) for name in self.names]

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw (n, p)."""
        return np.asarray(self.whole.sample(n, rng), dtype=np.float64)[:, self._columns]

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Refuse: the density of a part is not known."""
        raise NotImplementedError("the density of some parameters of a prior is not known")


def _find_levels(given: Any, prior: Prior | None) -> Levels:
    for holder in (given, getattr(given, "posterior", None)):
        if (levels := getattr(holder, "parameter_levels", None)) is not None:
            return levels
    return () if prior is None else levels_of(prior)


def _find_bounds(given: Any, prior: Prior | None) -> tuple[npt.ArrayLike, npt.ArrayLike] | None:
    if prior is not None:
        return prior.bounds
    if hasattr(given, "parameter_bounds"):
        return given.parameter_bounds
    for holder in (given, getattr(given, "box", None), getattr(given, "posterior", None)):
        if hasattr(holder, "low") and hasattr(holder, "high"):
            return holder.low, holder.high  # type: ignore[union-attr]
    return None
