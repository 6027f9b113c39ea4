"""Independent parameters by name, each with its own distribution: scipy's, or one of thrifty's priors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from thrifty.errors import PriorError
from thrifty.priors.discrete import Categorical, Integers
from thrifty.priors.families import LogUniform, Named, Normal, Uniform, as_generator, as_parameter_names
from thrifty.types import Array, Levels, as_rows, levels_of, set_fields

OWN = (Uniform, LogUniform, Normal, Integers, Categorical)


@dataclass(frozen=True, eq=False, repr=False)
class Independent(Named):
    """Independent parameters, each a scipy frozen distribution or a prior of thrifty over one parameter.

    Example:
        >>> from scipy import stats
        >>> prior = Independent({"rate": stats.gamma(2.0), "shift": stats.norm(0, 3)})
        >>> prior.names, prior.bounds[0].tolist()
        (('rate', 'shift'), [0.0, -inf])
        >>> mixed = Independent({"model": th.Categorical([0.5, 0.5]), "n": stats.poisson(3.0), "a": th.Uniform(0, 1)})
        >>> mixed.levels
        (('0', '1'), (), None)
    """

    marginals: Mapping[str, Any]
    names: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        if not isinstance(self.marginals, Mapping) or not self.marginals:
            raise PriorError(
                f"expected a dict of name -> scipy frozen distribution, got {self.marginals!r}", code="bad-prior"
            )
        names = as_parameter_names(list(self.marginals), len(self.marginals))
        for name, marginal in self.marginals.items():
            _check_marginal(name, marginal)
        set_fields(self, names=names, marginals=dict(self.marginals))

    def _describe(self) -> Iterable[str]:
        return (_name_marginal(marginal) for marginal in self.marginals.values())

    def _list_distributions(self) -> Iterable[str]:
        return self._describe()

    @property
    def levels(self) -> Levels:
        """What values each parameter takes."""
        return tuple(_levels_of(self.marginals[name]) for name in self.names)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The support of each distribution."""
        ends = np.array([_support_of(self.marginals[name]) for name in self.names], dtype=np.float64)
        return ends[:, 0], ends[:, 1]

    def sample(self, n: int, rng: np.random.Generator | int | None = None) -> Array:
        """Draw (n, p)."""
        rng = as_generator(rng, n)
        return np.column_stack([_draw(self.marginals[name], n, rng) for name in self.names])

    def log_prob(self, theta: npt.ArrayLike) -> Array:
        """Sum of the marginal log densities, and log probabilities where values are discrete."""
        theta = as_rows(theta, dim=self.dim, names=self.names)
        columns = zip(self.names, theta.T, strict=True)
        return sum((_log_prob(self.marginals[name], column) for name, column in columns), np.zeros(len(theta)))


def _check_marginal(name: str, marginal: Any) -> None:
    if isinstance(marginal, OWN):
        if marginal.dim != 1:
            raise PriorError(
                f"prior {name!r}: {type(marginal).__name__} holds {marginal.dim} parameters",
                code="bad-prior",
                fix="give one for each parameter",
            )
        return
    if not (hasattr(marginal, "rvs") and hasattr(marginal, "support")):
        raise PriorError(
            f"prior {name!r}: {marginal!r} has no sample method (rvs)",
            code="bad-prior",
            why="thrifty needs to draw from it",
            fix=f'{{"{name}": th.Uniform(0, 1)}}, th.Normal(0, 1), ..., or a frozen scipy distribution',
        )
    if not (hasattr(marginal, "logpdf") or hasattr(marginal, "logpmf")):
        raise PriorError(f"prior {name!r}: {marginal!r} has no density and no probabilities", code="bad-prior")
    low, high = marginal.support()
    if np.isnan(low) or np.isnan(high):
        raise PriorError(
            f"prior {name!r}: scipy rejects these settings (support {low} to {high})",
            code="bad-prior",
            fix="check scale > 0 and the shape parameters",
        )
    if not hasattr(marginal, "logpdf") and any(np.isfinite(end) and end != round(end) for end in (low, high)):
        raise PriorError(
            f"prior {name!r}: a discrete distribution must take whole numbers, this one begins at {low:g}",
            code="bad-prior",
            fix="give it a whole loc, and shift the number in the simulator",
        )


def _levels_of(marginal: Any) -> tuple[str, ...] | None:
    if isinstance(marginal, OWN):
        return levels_of(marginal)[0]
    return None if hasattr(marginal, "logpdf") else ()


def _support_of(marginal: Any) -> tuple[float, float]:
    if isinstance(marginal, OWN):
        low, high = marginal.bounds
        return float(low[0]), float(high[0])
    return marginal.support()


def _draw(marginal: Any, n: int, rng: np.random.Generator) -> Array:
    return marginal.sample(n, rng)[:, 0] if isinstance(marginal, OWN) else marginal.rvs(size=n, random_state=rng)


def _log_prob(marginal: Any, column: Array) -> Array:
    if isinstance(marginal, OWN):
        return marginal.log_prob(column[:, None])
    return marginal.logpdf(column) if hasattr(marginal, "logpdf") else marginal.logpmf(column)


def _name_marginal(marginal: Any) -> str:
    """Name a distribution of one parameter in a few words."""
    if isinstance(marginal, Named):
        return f"{type(marginal).__name__} {', '.join(marginal._describe())}"
    settings = (*map(str, marginal.args), *(f"{key}={value}" for key, value in marginal.kwds.items()))
    return f"{marginal.dist.name}({', '.join(settings)})"
